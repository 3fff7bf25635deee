"""What TVM asks of calls beyond what inference needs: CHECKS, {name: f(operands, attrs)}, each of which raises InferError,
or TypeError for an argument that is missing."""
from __future__ import annotations

from ..op import InferError
from .classic import plain
from .expr import ShapeExpr, ShapeStructInfo, TensorStructInfo
from .ops.common import InferTypeError, fail


def _scalar(name):
    """The value that fills a tensor is a number, or a tensor that is known to have no dimensions."""
    def check(operands, attrs):
        info = getattr(operands[1], "struct_info", None)
        if isinstance(info, TensorStructInfo) and info.ndim != 0:
            fail(name, f"fill_value must be a tensor without dimensions, it is {info}", InferTypeError)
    return check


def _where(operands, attrs):
    info = getattr(operands[0], "struct_info", None)
    if isinstance(info, TensorStructInfo) and not info.dtype.is_bool:
        fail("where", f"the condition must be bool, it is {info}; convert it with astype", InferTypeError)


def _dtype_of_nothing(name):
    """Nothing tells the dtype of such a tensor but the call."""
    def check(operands, attrs):
        if "dtype" not in attrs:
            raise TypeError(f"{name} needs argument dtype")
        if attrs["dtype"] in ("", "void", None):
            raise InferError(f"{name}: a tensor of no dtype cannot be made")
    return check


def _resize(operands, attrs):
    size = operands[1] if len(operands) > 1 else attrs.get("size")
    info = getattr(size, "struct_info", None)
    dims = size.values if isinstance(size, ShapeExpr) else size
    if isinstance(info, ShapeStructInfo) and info.ndim not in (-1, 2) or (
            isinstance(dims, (list, tuple)) and len(dims) not in (1, 2)):
        fail("image.resize2d", f"size has {info.ndim if info is not None else len(dims)} numbers, it must have 2")


def _split(operands, attrs):
    parts = attrs.get("indices_or_sections")
    several = parts if isinstance(parts, (list, tuple)) else (parts,)
    if not all(isinstance(plain(p), int) for p in several if parts is not None):
        fail("split", f"indices_or_sections must be integers, they are {parts}", InferTypeError)


def _take(operands, attrs):
    info = getattr(operands[0], "struct_info", None)
    if attrs.get("mode") == "nan" and isinstance(info, TensorStructInfo) and not info.dtype.is_float and (
            info.dtype != "void"):
        fail("take", f"mode='nan' gives NaN for indices outside, which {info.dtype} has not")


def _norm(name):
    """All tensors of a normalization have one dtype."""
    def check(operands, attrs):
        infos = [o.struct_info for o in operands if isinstance(getattr(o, "struct_info", None), TensorStructInfo)]
        known = {str(i.dtype) for i in infos} - {"void"}
        if len(known) > 1:
            fail(name, f"operands differ in dtype: {', '.join(map(str, infos))}", InferTypeError)
    return check


CHECKS = {
    "full": _scalar("full"), "full_like": _scalar("full_like"), "where": _where, "image.resize2d": _resize,
    "split": _split, "take": _take,
    "ones": _dtype_of_nothing("ones"), "zeros": _dtype_of_nothing("zeros"),
    "nn.batch_norm": _norm("nn.batch_norm"), "nn.layer_norm": _norm("nn.layer_norm"),
}
__all__ = ["CHECKS"]
