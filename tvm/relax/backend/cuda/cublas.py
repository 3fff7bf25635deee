"""Products for the external generator "cublas"."""
from __future__ import annotations

from .....ir.dtype import DataType
from .....ir.transform.fuse_by_pattern import fuse_ops_by_pattern
from ..blas import is_library_product, product_rows
from ..pattern_registry import get_patterns_with_prefix, register_patterns
from ..patterns import make_matmul_dequantize_pattern, make_matmul_multiply_pattern
from ..utils import dims_of, known

_DTYPES = ("float16", "float32", "bfloat16", "int8", "float8_e4m3fn")


def _check_matmul(context):
    """Whether cuBLAS has the product: also dtypes, scales of one number without a zero point, sizes of bytes."""
    found = context.annotated_expr
    if not is_library_product(context):
        return False
    dtype, other, out = (str(found[name].struct_info.dtype) for name in ("lhs", "rhs", "root"))
    if dtype != other or dtype not in _DTYPES or dtype == "float8_e4m3fn" and out == "float8_e5m2":
        return False
    if "zp" in found and (found["scale"].struct_info.ndim or found["zp"].struct_info.ndim or
                          found["zp"].data.numpy().item() != 0):
        return False
    lhs, rhs = dims_of(found["lhs"]), dims_of(found["rhs"])
    if dtype == "int8":
        return _multiple(lhs[-1], 4) and _multiple(rhs[-1], 4) and "bias" not in found
    if dtype == "float8_e4m3fn":  # columns of 16 bytes
        return "transposed" in found and _multiple(rhs[-1], 16) and _multiple(rhs[-2], 16 * 8 // DataType(out).bits)
    return True


def _multiple(dim, of):
    return known(dim) and int(dim) % of == 0


register_patterns([
    *product_rows("cublas", _check_matmul),
    ("cublas.matmul_transposed_dequantize", *make_matmul_dequantize_pattern(transposed_rhs=True), _check_matmul),
    ("cublas.matmul_transposed_multiply", *make_matmul_multiply_pattern(transposed_rhs=True), _check_matmul),
])


def partition_for_cublas(mod, bind_constants=False):
    """A module in which products that cuBLAS has are functions for the generator "cublas". bind_constants: constants
    stay inside these."""
    return fuse_ops_by_pattern(mod, get_patterns_with_prefix("cublas."), bind_constants, annotate_codegen=True)


__all__ = ["partition_for_cublas"]
