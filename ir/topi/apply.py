"""One operator of the table applied to te tensors: the Relax operators' inference and lowering, without a graph."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from .. import op as op_table
from ..dtype import DataType
from ..expr import FloatImm, IntImm, PrimExpr, Var, as_expr, cast, const, is_const_int, match_dtype
from ..op import InferError
from ..relax.block_builder import call_op
from ..relax.expr import PrimValue, RelaxVar, ShapeExpr, TensorStructInfo
from ..relax.ops.common import Number, simplify, wide_dims
from ..relax.struct_info import as_dims
from ..te import Tensor
from ..tir.function import PrimFunc


@dataclass(frozen=True)
class View:
    """A tensor read in another way, without a stage of its own: load(indices) gives an element."""

    shape: tuple
    dtype: DataType
    load: Callable
    name: str = "view"
    op = None

    @property
    def ndim(self):
        return len(self.shape)

    def __getitem__(self, indices):
        return self.load(*indices) if isinstance(indices, tuple) else self.load(indices)


def transposed(x):
    """The last two axes exchanged."""
    return View((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype, lambda *i: x[(*i[:-2], i[-1], i[-2])])


def converted(x, dtype):
    """The elements of x in `dtype`; x itself when dtype is None or x's."""
    if dtype in (None, "", x.dtype):
        return x
    return View(x.shape, DataType(dtype), lambda *i: cast(x[i], dtype))


def fits(what, dims, wanted):
    """Raise InferError where the shape `dims` is known to be another one than `wanted`."""
    gaps = [simplify(as_expr(a) - as_expr(b)) for a, b in zip(dims, wanted)]
    if len(dims) != len(wanted) or any(isinstance(g, IntImm) and g.value for g in gaps):
        need, found = (", ".join(map(str, d)) for d in (wanted, dims))
        raise InferError(f"{what} must have shape ({need}), it has ({found})")


TENSORS = (Tensor, View, Number)


class LoopProgram(InferError):
    """An operator that no tensor expression computes."""


def apply(operator, args, attrs):
    """The te.Tensor of a call of the operator, or a list of several. Raises InferError.

    args: te.Tensors; lists of dimensions are shapes; numbers and expressions beside tensors stand for tensors.
    """
    spec = op_table.get(operator)
    if not any(isinstance(a, (*TENSORS, tuple, list)) for a in args) and operator != "arange":
        raise InferError(f"{operator}: takes te.Tensors, got {', '.join(type(a).__name__ for a in args)}")
    dtype = next((a.dtype for a in reversed(args) if isinstance(a, TENSORS)), None)  # of where: not the condition's
    if spec.kind in ("elementwise", "broadcast") or operator == "full":
        args = [a if isinstance(a, (*TENSORS, tuple, list)) else _number(a, dtype) for a in args]
    if spec.kind == "broadcast" and len(args) == 2 and all(isinstance(a, (Tensor, View)) for a in args):
        args = _in_one_dtype(*args)
    call = call_op(operator, *(_graph_argument(operator, n, a) for n, a in enumerate(args)), **attrs)
    with wide_dims(any(map(_is_wide, args))):
        lowered = (spec.te or spec.lower)([_te_argument(a) for a in args], call.attrs, call.struct_info)
    if isinstance(lowered, PrimFunc):
        raise LoopProgram(f"{operator}: is a loop program, which is no tensor expression; call it in a graph "
                          "(relax.op)")
    return list(lowered) if isinstance(lowered, tuple) else lowered


def _in_one_dtype(a, b):
    """Two tensors as arithmetic of their elements has them, the narrower widened; as they are where none holds both."""
    try:
        dtype = match_dtype(Var("a", a.dtype), Var("b", b.dtype))[0].dtype
    except TypeError:
        return a, b
    return converted(a, dtype), converted(b, dtype)


def _is_wide(a):
    """Whether an argument is a tensor, or a list of them, with dimensions of int64, and numbers among them are, too."""
    if isinstance(a, (tuple, list)):
        return any(map(_is_wide, a))
    dims = list(map(as_expr, a.shape)) if isinstance(a, TENSORS) else ()
    return any(d.dtype == "int64" for d in dims) and not any(is_const_int(d) and d.dtype == "int32" for d in dims)


def _number(value, dtype):
    """A number or an expression as a tensor without dimensions. Numbers take `dtype` when there is one."""
    if isinstance(value, (IntImm, FloatImm)) and dtype is not None:
        value = value.value
    if isinstance(value, PrimExpr):
        return Number(value)
    if not isinstance(value, (bool, int, float)):
        raise InferError(f"an argument is a {type(value).__name__}, it must be a te.Tensor or a number")
    return Number(const(value, dtype) if dtype is not None else as_expr(value))


def _graph_argument(operator, n, a):
    if isinstance(a, TENSORS):
        return RelaxVar(getattr(a, "name", f"x{n}"), TensorStructInfo(a.shape, a.dtype))
    if isinstance(a, (tuple, list)):
        return ShapeExpr(as_dims(a))  # te's dimensions may be int32
    if isinstance(a, (int, float, PrimExpr)):
        return PrimValue(a)
    raise InferError(f"{operator}: argument {n} is a {type(a).__name__}, it must be a te.Tensor")


def _te_argument(a):
    if isinstance(a, (tuple, list)):
        return tuple(v.value if is_const_int(v) else v for v in map(as_expr, a))
    return as_expr(a) if isinstance(a, (int, float)) else a
