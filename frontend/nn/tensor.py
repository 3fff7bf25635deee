"""What modules compute with: Tensor, Parameter, Object, all values of the graph function that is being built."""
from __future__ import annotations

import numpy as np

from ...ir.expr import FloatImm, IntImm, PrimExpr, Var as Dim
from ...ir.relax import BlockBuilder, op as relax_op
from ...ir.relax.expr import DataflowVar, RelaxVar, TupleGetItem, const
from ...ir.relax.struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo
from ...ir.upper import upper

_default = {"dtype": "float32"}


def get_default_dtype():
    """The dtype of parameters that are given none: "float32", or what set_default_dtype was given."""
    return _default["dtype"]


def set_default_dtype(dtype):
    """Set the dtype of parameters that are given none."""
    _default["dtype"] = dtype


def as_shape(shape):
    """Dimensions: numbers from 0, names of symbolic ones, expressions of int64. TypeError, ValueError name others."""
    found = []
    for dim in shape:
        dim = dim.value if isinstance(dim, IntImm) else Dim(dim, "int64") if isinstance(dim, str) else dim
        if isinstance(dim, (bool, float)) or not isinstance(dim, (int, np.integer, PrimExpr)):
            raise TypeError(f"Invalid shape: {tuple(shape)}; a dimension is a number, a name or an int64 expression, "
                            f"not {dim!r}")
        if isinstance(dim, PrimExpr) and dim.dtype != "int64":
            raise TypeError(f"Invalid shape: {tuple(shape)}; {dim} is {dim.dtype}, it must be int64")
        if not isinstance(dim, PrimExpr) and dim < 0:
            raise ValueError(f"Invalid shape: {tuple(shape)}; dimensions are not negative")
        found.append(dim)
    return found


def _operand(value, beside):
    """A number beside a tensor is a constant of its dtype."""
    value = value.value if isinstance(value, (IntImm, FloatImm)) else value
    return Tensor.from_scalar(value, beside.dtype) if isinstance(value, (int, float)) else value


def _binary(operator, name, swapped=False):
    def method(self, other):
        a, b = self, _operand(other, self)
        if not isinstance(b, Tensor):
            return NotImplemented
        a, b = (b, a) if swapped else (a, b)
        return wrap_nested(relax_op.call(operator, a._expr, b._expr), name)
    return method


class Tensor:
    """A tensor of known rank and dtype: no values, but a graph expression (`_expr`), which operators bind at once."""

    def __init__(self, *, _expr):
        """Of a graph expression with struct info; users get tensors from forward's arguments and from operators."""
        info = _expr.struct_info
        if not isinstance(info, TensorStructInfo) or info.shape is None:
            raise TypeError(f"nn.Tensor needs an expression of known shape, not one of {info}")
        self._expr = _expr

    @staticmethod
    def from_const(data):
        """Of a numpy array or nested lists; float64 becomes float32 and int64 int32, as with TVM's const."""
        data = np.asarray(data)
        return Tensor(_expr=const(data, {"float64": "float32", "int64": "int32"}.get(data.dtype.name)))

    @staticmethod
    def from_scalar(data, dtype):
        """Of a number: shape ()."""
        return Tensor(_expr=const(data, dtype))

    @staticmethod
    def from_struct_info(struct_info, name="tensor"):
        """A new variable with this TensorStructInfo."""
        return Tensor(_expr=RelaxVar(name, struct_info))

    @staticmethod
    def placeholder(shape, dtype, name="tensor"):
        """A new variable. shape: see as_shape; each name makes a dimension of its own."""
        return Tensor.from_struct_info(TensorStructInfo(tuple(as_shape(shape)), dtype), name)

    @property
    def shape(self):
        """A list of numbers, and expressions where dimensions are symbolic."""
        return [d.value if isinstance(d, IntImm) else d for d in self._expr.struct_info.shape]

    @property
    def ndim(self):
        return len(self._expr.struct_info.shape)

    @property
    def dtype(self):
        return str(self._expr.struct_info.dtype)

    def __repr__(self):
        return f'Tensor({self.shape}, "{self.dtype}")'

    __add__, __radd__ = _binary("add", "add"), _binary("add", "add")
    __sub__, __rsub__ = _binary("subtract", "subtract"), _binary("subtract", "subtract", swapped=True)
    __mul__, __rmul__ = _binary("multiply", "mul"), _binary("multiply", "mul")
    __truediv__, __rtruediv__ = _binary("divide", "divide"), _binary("divide", "divide", swapped=True)
    __lt__, __le__ = _binary("less", "less"), _binary("less_equal", "less_equal")
    __gt__, __ge__ = _binary("greater", "greater"), _binary("greater_equal", "greater_equal")
    maximum, minimum = _binary("maximum", "maximum"), _binary("minimum", "minimum")

    def astype(self, dtype):
        return self if self.dtype == dtype else wrap_nested(relax_op.call("astype", self._expr, dtype), "astype")

    def reshape(self, *shape):
        return wrap_nested(relax_op.call("reshape", self._expr, shape), "reshape")

    def permute_dims(self, *axes):
        return wrap_nested(relax_op.call("permute_dims", self._expr, axes or None), "permute_dims")

    def repeat(self, repeats, axis=None):
        return wrap_nested(relax_op.call("repeat", self._expr, repeats, axis), "repeat")


class Parameter(Tensor):
    """A weight of a module: a tensor that may have values, `data`. attrs: a dict for its users."""

    def __init__(self, shape, dtype=None):
        super().__init__(_expr=Tensor.placeholder(shape, dtype or get_default_dtype(), "param")._expr)
        self._data, self.attrs = None, {}

    @property
    def data(self):
        """The values as an NDArray, or None."""
        return self._data

    @data.setter
    def data(self, data):
        """None, an NDArray, a numpy array or what passes memory by DLPack, of this shape and dtype. ValueError,
        TypeError."""
        if data is None:
            self._data = None
            return
        if not hasattr(data, "__dlpack__") and not isinstance(data, np.ndarray):
            raise TypeError(f"Unsupported data type: {type(data).__name__}; a parameter takes an array")
        data = upper("as_ndarray")(data)
        if tuple(data.shape) != tuple(self.shape):
            raise ValueError(f"Shape mismatch: expected {tuple(self.shape)}, got {tuple(data.shape)}")
        if data.dtype != self.dtype:
            raise ValueError(f"Dtype mismatch: expected {self.dtype}, got {data.dtype}")
        self._data = data

    def to(self, dtype=None):
        """Change the dtype; ValueError where the parameter has values."""
        if dtype is None:
            return
        if self._data is not None:
            raise ValueError("Changing the dtype of a Parameter that has been bound to concrete data is not "
                             "recommended: change the dtype first, then set data")
        self._expr = Tensor.placeholder(self.shape, dtype, "param")._expr


class Object:
    """A value that is no tensor, such as a cache."""

    def __init__(self, *, _expr, _name):
        self._expr = _expr if isinstance(_expr, (RelaxVar, DataflowVar)) else builder().emit(_expr, _name)
        if not isinstance(self._expr.struct_info, ObjectStructInfo):
            raise TypeError(f"nn.Object needs an expression of R.Object, not of {self._expr.struct_info}")


def builder():
    """The BlockBuilder of the function that is being exported. RuntimeError outside of one."""
    found = BlockBuilder.current()
    if found is None:
        raise RuntimeError("nn operators are called while a module is exported (Module.export_tvm), or inside "
                           "`with BlockBuilder().function(...)`")
    return found


def wrap_nested(expr, name):
    """Bind a graph expression to a variable `name`: its Tensor, or a tuple of them where it is one."""
    if not isinstance(expr, DataflowVar):
        expr = builder().emit(expr, name.replace(".", "_"))
    info = expr.struct_info
    if isinstance(info, TensorStructInfo):
        return Tensor(_expr=expr)
    if isinstance(info, TupleStructInfo):
        return tuple(wrap_nested(TupleGetItem(expr, i), f"{name}_{i}") for i in range(len(info.fields)))
    raise TypeError(f"Unsupported return type: {info} of {name}; operators return tensors and tuples of them")


__all__ = ["Object", "Parameter", "Tensor", "as_shape", "builder", "get_default_dtype", "set_default_dtype",
           "wrap_nested"]
