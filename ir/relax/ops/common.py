"""Helpers of operator rows: reading struct info, broadcasting and axes with symbolic dimensions, indices.

Dimensions of struct info are int64 (IntImm, a symbolic Var, or an expression of those). te tensors have int32 static
dimensions and int64 symbolic ones; `te_shape` converts.
"""
from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass

from ...arith import Analyzer
from ...expr import IntImm, PrimExpr, Var, as_expr, const, free_vars, is_const_int
from ...node import Mutator, structural_equal
from ...op import InferError
from ...te.tensor import ComputeOp
from ...tir.buffer import unflatten_index  # noqa: F401 - what operators index with
from ..expr import ShapeExpr, TensorStructInfo


# ---------------------------------------------------------------- errors and text

class InferTypeError(InferError, TypeError):
    """An argument of another kind or dtype than the operator takes."""


def fail(call, message, error=InferError):
    """Raise InferError "<operator>: <message>". `call`: a RelaxCall or an operator name."""
    raise error(f"{call if isinstance(call, str) else call.op}: {message}")


# ---------------------------------------------------------------- what is not known

class _Lenient:
    """active: inference takes what cannot be told, see partial.py. loose: whether it read a size that is not known.
    wide: static dimensions of te tensors are int64."""

    active = loose = wide = False


_STATE = _Lenient()
_SIZE = 8  # stands for a size that is not known where a number is needed
_WILD = "?"  # the name of dimensions that may be any


@contextmanager
def lenient():
    """Inference under which dimensions that may be equal are."""
    before = _STATE.active
    _STATE.active = True
    try:
        yield _STATE
    finally:
        _STATE.active = before


@contextmanager
def wide_dims(wide=True):
    """Lowerings whose te tensors have static dimensions of int64, as those of scripts that read such tensors."""
    before = _STATE.wide
    _STATE.wide = wide
    try:
        yield
    finally:
        _STATE.wide = before


def wild():
    """A dimension that may be any, and is equal to any other."""
    return Var(_WILD, "int64")


def has_wild(dim):
    """Whether a dimension depends on one that may be any."""
    return not isinstance(dim, IntImm) and any(v.name == _WILD for v in free_vars(dim))


def dim_text(dim):
    """A dimension as in an error message: "3", "n", "n * 4"."""
    if isinstance(dim, IntImm):
        return str(dim.value)
    return dim.name if isinstance(dim, Var) else re.sub(r"T\.int64\((-?\d+)\)", r"\1", str(dim))


def shape_text(shape):
    """A shape (or a struct info's shape) as text: "(1, 3, n)"."""
    if isinstance(shape, TensorStructInfo):
        shape = shape.shape
    if shape is None:
        return "(unknown)"
    return "(" + ", ".join(dim_text(as_expr(d)) for d in shape) + ("," if len(shape) == 1 else "") + ")"


def may_be_any(dim):
    """Whether inference takes a dimension as any number, since arguments are not known in full."""
    return _STATE.active and not isinstance(dim, IntImm)


def size_of(what, dim):
    """A dimension as an int; a stand-in where arguments are not known in full. InferError where it is symbolic."""
    dim = as_expr(dim)
    if isinstance(dim, IntImm):
        return dim.value
    if not _STATE.active:
        fail(what, f"dimension {dim_text(dim)} must be known: pin it (compile with dims={{name: size}})")
    _STATE.loose = True
    return _SIZE


# ---------------------------------------------------------------- arguments

def tensor(call, index=0):
    """The TensorStructInfo, with a known shape, of argument `index`."""
    info = getattr(call.args[index], "struct_info", None)
    if not isinstance(info, TensorStructInfo):
        fail(call, f"argument {index} must be a tensor, it is a {type(call.args[index]).__name__}", InferTypeError)
    if not isinstance(info.shape, tuple):
        fail(call, f"argument {index} has an unknown shape; give the model's input shapes so that it can be inferred")
    return info


def tensors(call):
    """The TensorStructInfo of every argument."""
    return [tensor(call, i) for i in range(len(call.args))]


def shape_argument(call, index):
    """The dimensions of a shape argument (a ShapeExpr): a tuple of int64 expressions."""
    arg = call.args[index]
    if not isinstance(arg, ShapeExpr):
        fail(call, f"argument {index} must be a shape, it is a {type(arg).__name__}")
    return arg.values


def static_shape(call, index=0, names=""):
    """The shape of argument `index` as ints; the error says how to pin a symbolic dimension."""
    info = tensor(call, index)
    if info.static_shape is None:
        if _STATE.active:
            _STATE.loose = True
            return tuple(d.value if isinstance(d, IntImm) else _SIZE for d in info.shape)
        symbolic = ", ".join(dim_text(d) for d in info.shape if not isinstance(d, IntImm))
        fail(call, f"argument {index}{' ' + names if names else ''} has shape {shape_text(info)}; this operator needs "
                   f"static shapes: pin {symbolic} (compile with dims={{name: size}}, or --dim name=size)")
    return info.static_shape


def need_rank(call, index, rank):
    """The struct info of argument `index`, which must have `rank` dimensions."""
    info = tensor(call, index)
    if info.ndim != rank:
        fail(call, f"argument {index} must have {rank} dimensions, its shape is {shape_text(info)}")
    return info


def need_dtype(call, info, kind):
    """Check a dtype against a kind: "float", "number" (float or integer), "int", "bool" or "any"."""
    if not _DTYPE_KINDS[kind](info.dtype):
        fail(call, f"takes {_KIND_TEXT[kind]}, got {info.dtype} of shape {shape_text(info)}; convert with astype",
             InferTypeError)


def _whole(dtype):
    """An integer that is computed in: of 8 bits or more."""
    return dtype.is_int and dtype.bits >= 8


_DTYPE_KINDS = {"float": lambda t: t.is_float, "number": lambda t: t.is_float or _whole(t), "int": _whole,
                "bool": lambda t: t.is_bool, "any": lambda t: True}
_KIND_TEXT = {"float": "a floating-point tensor", "number": "a tensor of numbers", "int": "an integer tensor",
              "bool": "a bool tensor", "any": "any tensor"}


def need_blocks(call, x, lanes):
    """Refuse an image [N, blocks, H, W, lanes] of other blocks of channels, or whose size is not known."""
    if not all(map(is_const_int, x.shape[1:])) or x.shape[4].value != lanes:
        fail(call, f"image {shape_text(x)} must be static but for its batch, in blocks of {lanes} channels (dim 4)")


def need_same_dtype(call, infos, strictly=True):
    """The common dtype of `infos`. strictly: also where inference takes what is not known in full."""
    first = infos[0].dtype
    if any(i.dtype != first for i in infos) and (strictly or not _STATE.active):
        fail(call, f"operands differ in dtype: {', '.join(i.dtype for i in infos)}; convert with astype",
             InferTypeError)
    return first


# ---------------------------------------------------------------- dimensions and shapes

def as_dim(value):
    """An int or expression as an int64 dimension."""
    if isinstance(value, PrimExpr):
        return value.astype("int64")
    return const(int(value), "int64")


def simplify(dim):
    """A dimension in its simplest form."""
    if isinstance(dim, (IntImm, Var)):
        return dim
    return Analyzer().simplify(dim)


def same_dim(a, b):
    """True when two dimensions are known to be equal."""
    a, b = as_dim(a), as_dim(b)
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    if structural_equal(a, b):
        return True
    if _STATE.active:
        return not isinstance(simplify(a - b), IntImm)
    if isinstance(a, (IntImm, Var)) and isinstance(b, (IntImm, Var)):
        return False
    return Analyzer().can_prove_equal(a, b)


def is_one(dim):
    """True for a dimension known to be 1."""
    return isinstance(dim, IntImm) and dim.value == 1


def same_shape(a, b):
    """True when two shapes are known to be equal."""
    return len(a) == len(b) and all(same_dim(x, y) for x, y in zip(a, b))


def broadcast_shapes(call, *shapes):
    """The numpy broadcast of shapes; dimensions other than 1 must be known to be equal."""
    rank = max(len(s) for s in shapes)
    return tuple(_broadcast_dim(call, shapes, [s[k - rank + len(s)] for s in shapes if k - rank + len(s) >= 0])
                 for k in range(rank))


def _broadcast_dim(call, shapes, dims):
    wide = [d for d in dims if not is_one(d)]
    if not wide:
        return as_dim(1)
    for d in wide[1:]:
        if _STATE.active and not (isinstance(d, IntImm) and isinstance(wide[0], IntImm)):
            if structural_equal(wide[0], d):
                continue
            return wild()  # one of them may be 1
        if not same_dim(wide[0], d):
            fail(call, f"shapes {' and '.join(shape_text(s) for s in shapes)} do not broadcast: "
                       f"{dim_text(wide[0])} against {dim_text(d)}")
    return wide[0]


def broadcast_index(indices, shape, out=None):
    """The indices of an operand of `shape` for output `indices`: aligned right, 0 where the operand has extent 1; under
    wide_dims, as TVM has it, not where `out`, the output's shape, has, too."""
    own = indices[len(indices) - len(shape):]
    whole = out[len(indices) - len(shape):] if out is not None and _STATE.wide else shape
    return tuple(const(0, i.dtype) if is_one(d) and (whole is shape or not is_one(w)) else i
                 for i, d, w in zip(own, shape, whole))


def normalize_axis(call, axis, rank):
    """`axis` in [0, rank), counted from the end when negative."""
    axis = int(axis)
    if not -rank <= axis < rank:
        fail(call, f"axis {axis} is outside a tensor of {rank} dimensions")
    return axis % rank


def normalize_axes(call, axes, rank):
    """Sorted axes in [0, rank) of an int or a tuple; None means all. Repeated axes are an error."""
    if axes is None:
        return tuple(range(rank))
    axes = (axes,) if isinstance(axes, int) else axes
    found = sorted(normalize_axis(call, a, rank) for a in axes)
    if len(set(found)) != len(found):
        fail(call, f"axes {tuple(axes)} name one axis twice")
    return tuple(found)


def te_dim(dim):
    """A struct info dimension for te: an int when static (int64 under wide_dims), else the expression: int64, or int32
    when te gave it so."""
    if isinstance(dim, IntImm):
        return const(dim.value, "int64") if _STATE.wide else dim.value
    given = free_vars(dim)
    return _Narrow().visit(dim) if given and all(v.dtype == "int32" for v in given) else dim


class _Narrow(Mutator):
    """An int64 expression of widened int32 variables, in int32."""

    def visit_Cast(self, e):
        return e.value if e.dtype == "int64" and e.value.dtype == "int32" else self.generic_visit(e)

    def visit_IntImm(self, e):
        return const(e.value, "int32") if e.dtype == "int64" else e


@dataclass(frozen=True)
class Number:
    """A number where lowerings expect a te.Tensor: every element is `value`, nothing is loaded."""

    value: PrimExpr
    shape: tuple = ()
    op = None  # no operation computes it

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def dtype(self):
        return self.value.dtype

    def __getitem__(self, indices):
        return self.value


def te_shape(shape):
    """The shape for te.compute of a struct info or of a tuple of dimensions."""
    return tuple(te_dim(as_expr(d)) for d in (shape.shape if isinstance(shape, TensorStructInfo) else shape))


def axis_names(rank, *tensors):
    """Names for the axes of an elementwise stage: those of the first computed operand of the same rank, or None."""
    for t in tensors:
        if t.ndim == rank and isinstance(getattr(t, "op", None), ComputeOp):
            return [iv.var.name for iv in t.op.axis]
    return None


def short_name(name):
    """The stage name of an operator: "nn.relu" -> "relu"."""
    return name.rpartition(".")[2]


def product(dims):
    """The product of dimensions (1 for none), constants folded."""
    result = 1
    for d in dims:
        result = d * result
    return result


def flat_index(indices, shape):
    """The row-major offset of `indices` in an array of `shape`."""
    flat = None
    for i, extent in zip(indices, shape):
        flat = i if flat is None else flat * extent + i
    return const(0) if flat is None else flat
