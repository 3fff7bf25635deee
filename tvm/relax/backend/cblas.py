"""Products for the external generator "cblas": x @ w and x @ w.T, with a bias or without."""
from __future__ import annotations

from ....codegen.cblas import GEMM
from ....ir.relax.patterns.forms import is_op, wildcard
from ....ir.transform.fuse_by_pattern import fuse_ops_by_pattern
from .pattern_registry import get_patterns_with_prefix, register_patterns
from .utils import has_leaking_intermediate_variables


def _fits(context):
    """Whether a BLAS has the product: of two tensors of one of its dtypes, the second a matrix of known size, and a
    bias of its columns. It gives nothing but the result."""
    if has_leaking_intermediate_variables(context):
        return False
    found = context.annotated_expr
    axes = found["turned"].attrs.get("axes") if "turned" in found else None
    swaps = axes is None or [int(a) % 2 for a in axes] == [1, 0]
    if not swaps or found["product"].attrs.get("b_layout", "KN") != "KN":
        return False
    x, w, root = (found[name].struct_info for name in ("x", "w", "root"))
    sizes = [getattr(d, "value", 0) for d in w.shape or ()]
    if str(x.dtype) not in GEMM or not x.dtype == w.dtype == root.dtype or len(sizes) != 2 or not all(
            0 < s < 2**31 for s in sizes) or not x.ndim or x.ndim < 2:
        return False
    if "bias" not in found:
        return True
    bias = found["bias"].struct_info
    columns = root.shape[-1]
    return bias.shape is not None and bias.dtype == x.dtype and len(bias.shape) == 1 and getattr(
        bias.shape[0], "value", -1) == getattr(columns, "value", 0)


def _pattern(name, transposed, biased):
    x, w, bias = wildcard(), wildcard(), wildcard()
    turned = is_op("relax.permute_dims")(w)
    product = is_op("relax.matmul")(x, turned if transposed else w)
    root = is_op("relax.add")(product, bias) if biased else product
    parts = {"x": x, "w": w, "product": product, "root": root, **({"turned": turned} if transposed else {}),
             **({"bias": bias} if biased else {})}
    return (f"cblas.{name}", root, parts, _fits)


register_patterns([_pattern("matmul", False, False), _pattern("matmul_bias", False, True),
                   _pattern("matmul_transposed", True, False), _pattern("matmul_transposed_bias", True, True)])


def partition_for_cblas(mod):
    """A module in which products that a BLAS has are functions for the generator "cblas"; RunCodegen writes their C."""
    return fuse_ops_by_pattern(mod, get_patterns_with_prefix("cblas."), bind_constants=False, annotate_codegen=True)


__all__ = ["partition_for_cblas"]
