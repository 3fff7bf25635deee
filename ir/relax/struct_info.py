"""Struct info: the static description of values of graphs, with symbolic dimensions. Names are TVM Relax's."""
from __future__ import annotations

from ..dtype import DataType
from ..expr import IntImm, PrimExpr, as_expr, cast
from ..expr import const as prim_const
from ..node import Node, node, node_field, structural_equal, structural_hash
from ..tir.effects import why_impure
from ..upper import provides, upper
from ..vdevice import VDevice


class StructInfo(Node):
    """The static description of a value: what is known before a run. == compares structure."""

    __slots__ = ()

    def __eq__(self, other):
        if not isinstance(other, StructInfo):  # a description of some, R.Tensor(...), compares itself
            return NotImplemented
        return self is other or structural_equal(self, other)

    def __hash__(self):
        return structural_hash(self)

    def is_base_of(self, derived):
        """Whether every value of `derived` is one of this."""
        return upper("is_base_of")(self, derived)

    def __str__(self):
        return upper("script")(self)



def as_struct_info(value):
    """Struct info, also from what R.Tensor(...) outside a script is; a list means a tuple of them. TypeError else."""
    if isinstance(value, (list, tuple)):
        return TupleStructInfo(tuple(value))
    value = value.struct_info() if hasattr(value, "struct_info") and callable(value.struct_info) else value
    if not isinstance(value, StructInfo):
        raise TypeError(f"expected struct info such as TensorStructInfo((1, 8), \"float32\"), not {value!r}")
    return value


class Dims(tuple):
    """The dimensions in struct info: a tuple that scripts also read as a ShapeExpr."""

    __slots__ = ()

    @property
    def values(self):
        return self

    @property
    def struct_info(self):
        return ShapeStructInfo(self)

    @property
    def checked_type(self):
        return ShapeStructInfo(None, len(self))


def as_dims(values):
    """Dimensions (of a list, tuple or ShapeExpr) as int64 expressions; None stays. TypeError for a float."""
    if values is None:
        return None
    dims = [as_expr(v) for v in getattr(values, "values", values)]
    for d in dims:
        if d.dtype.is_float:
            raise TypeError(f"the value in ShapeStructInfo can only have dtype of int64, {getattr(d, 'name', d)} is "
                            f"{d.dtype}")
    return Dims(cast(d, "int64") for d in dims)


def _is_variable(shape):
    return hasattr(shape, "struct_info") and not hasattr(shape, "values")


def _set(node, name, value):
    object.__setattr__(node, name, value)


def _set_rank(info, dims, ndim):
    """ndim, of a tuple of dimensions what it says; ValueError where a script gives both."""
    if ndim < -1:
        raise ValueError(f"{type(info).__name__}: ndim is a number of dimensions, or -1 where it is not known, not {ndim}")
    if dims is not None:
        if ndim != -1 and (isinstance(dims, list) or len(dims) != ndim):
            raise ValueError(f"{type(info).__name__}: cannot specify both shape and ndim; the shape has {len(dims)} "
                             f"dimensions, ndim is {ndim}")
        ndim = len(dims)
    _set(info, "ndim", ndim)


@node
class TensorStructInfo(StructInfo):
    """shape: a tuple of int64 expressions; a variable of a shape; or None when at most the number of dimensions is
    known (ndim, -1: not). dtype "void": not known. vdevice: where a script says that the tensor lies."""

    shape: tuple = None
    dtype: DataType = "float32"
    ndim: int = -1
    vdevice: VDevice = None

    def __post_init__(self):
        shape = self.shape
        if not isinstance(self.ndim, int):  # TVM's order: shape, dtype, vdevice, ndim
            ndim, vdevice = (self.vdevice, self.ndim) if isinstance(self.vdevice, int) else (-1, self.ndim)
            _set(self, "ndim", ndim)
            _set(self, "vdevice", vdevice)
        _set(self, "dtype", DataType(self.dtype or "void"))
        if _is_variable(shape):
            if not isinstance(shape.struct_info, ShapeStructInfo):
                raise TypeError(f"a shape must be a shape, {shape.name} is {shape.struct_info}")
            _set(self, "ndim", shape.struct_info.ndim)
            return
        _set_rank(self, getattr(shape, "values", shape), self.ndim)
        _set(self, "shape", as_dims(shape))

    @property
    def dims(self):
        """The shape as a tuple of expressions, also where it is a variable of a known shape; None when not known."""
        return self.shape.struct_info.values if _is_variable(self.shape) else self.shape

    @property
    def static_shape(self):
        """The shape as ints; None when any dimension is symbolic."""
        if not isinstance(self.shape, tuple) or not all(isinstance(s, IntImm) for s in self.shape):
            return None
        return tuple(s.value for s in self.shape)


@node
class ShapeStructInfo(StructInfo):
    values: tuple = None
    ndim: int = -1

    def __post_init__(self):
        _set_rank(self, self.values, self.ndim)
        _set(self, "values", as_dims(self.values))


@node
class PrimStructInfo(StructInfo):
    """A number: of a dtype, or known to be `value`."""

    dtype: DataType = None
    value: PrimExpr = None

    def __post_init__(self):
        if self.value is not None:
            value = self.value
            _set(self, "value", prim_const(value, self.dtype or "int64") if type(value) is int else as_expr(value))
            _set(self, "dtype", self.value.dtype)
        elif self.dtype is None:
            raise ValueError("PrimStructInfo needs a dtype or a value")
        _set(self, "dtype", DataType(self.dtype))


@node
class FuncStructInfo(StructInfo):
    """A function. params: the struct infos of its parameters, None: not known. ret: of its result. derive_func: what
    tells the result's from a call, in place of ret: derive_func(call, builder) -> StructInfo."""

    params: tuple = node_field(define=True)
    ret: StructInfo = None
    purity: bool = True
    derive_func: object = node_field(ignore=True, default=None)

    def __post_init__(self):
        if self.params is not None:
            _set(self, "params", tuple(map(as_struct_info, self.params)))
        _set(self, "ret", ObjectStructInfo() if self.ret is None else as_struct_info(self.ret))

    @staticmethod
    def opaque_func(*, ret=None, derive_func=None, purity=False):
        """Of a function whose parameters are not known."""
        return FuncStructInfo(None, ret, purity, derive_func)


@node
class TupleStructInfo(StructInfo):
    fields: tuple

    def __post_init__(self):
        object.__setattr__(self, "fields", tuple(as_struct_info(f) for f in self.fields))


@node
class ObjectStructInfo(StructInfo):
    pass


def static_type(info):
    """Struct info without dimensions, what TVM called a type; None of None."""
    if isinstance(info, TensorStructInfo):
        return TensorStructInfo(None, info.dtype, info.ndim)
    if isinstance(info, ShapeStructInfo):
        return ShapeStructInfo(None, info.ndim)
    if isinstance(info, PrimStructInfo):
        return PrimStructInfo(info.dtype)
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(tuple(map(static_type, info.fields)))
    if isinstance(info, FuncStructInfo):
        params = None if info.params is None else tuple(map(static_type, info.params))
        return FuncStructInfo(params, static_type(info.ret), info.purity)
    return info
@provides("prim_func_info")
def prim_func_info(func):
    """The FuncStructInfo of a PrimFunc: tensors of its buffers, numbers, and what T.ret returns, without one nothing. It
    is pure where the function only gives a value."""
    def info(param):
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            return TensorStructInfo(buffer.shape, buffer.dtype)
        return ObjectStructInfo() if param.dtype == "handle" else PrimStructInfo(param.dtype)

    ret = func.ret_type
    return FuncStructInfo(tuple(map(info, func.params)), TupleStructInfo(()) if ret == "void" else PrimStructInfo(ret),
                          why_impure(func) is None)


