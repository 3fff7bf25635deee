"""Products for the external generator "hipblas", of float16."""
from __future__ import annotations

from .....ir.transform.fuse_by_pattern import fuse_ops_by_pattern
from ..blas import is_library_product, product_rows
from ..pattern_registry import get_patterns_with_prefix, register_patterns


def _check_matmul(context):
    found = context.annotated_expr
    return {str(found[name].struct_info.dtype) for name in ("lhs", "rhs")} == {"float16"} and is_library_product(context)


register_patterns(product_rows("hipblas", _check_matmul))


def partition_for_hipblas(mod):
    """A module in which products that hipBLAS has are functions for the generator "hipblas"."""
    return fuse_ops_by_pattern(mod, get_patterns_with_prefix("hipblas."), False, annotate_codegen=True)


__all__ = ["partition_for_hipblas"]
