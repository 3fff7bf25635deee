"""The table of converters, and what a converter sees of its node.

A converter is a function `node -> value` (or a tuple, one value per output) registered for an operator from an
opset on: `@converts("Softmax", 1)` and `@converts("Softmax", 13)`; the largest not above the model's opset is used.
Values are graph expressions, or `Symbolic` tensors of dimensions. `node.call` infers, evaluates what is constant and
otherwise returns a call, which is bound to a variable when it is used or when it is the node's output.
"""
from __future__ import annotations

import numpy as np

from ...ir import op as op_table
from ...ir.op import InferError
from ...ir.relax.block_builder import call_op
from ...ir.relax.budget import excess
from ...ir.relax.expr import Constant, RelaxCall, ShapeExpr, TupleGetItem, TupleStructInfo
from .errors import OnnxImportError
from .names import printable
from .shapes import SYMBOLIC, Symbolic, dims_of, same_dims, settle, shape_text

CONVERTERS: dict[str, dict[int, object]] = {}
FOLD_BYTES = 1 << 20  # larger float results are left to the constant folding pass


def converts(op_type, *versions):
    """Register the decorated function as the converter of `op_type` from each of the opsets `versions` on."""
    def register(function):
        rows = CONVERTERS.setdefault(op_type, {})
        for version in versions or (1,):
            if version in rows:
                raise ValueError(f"{op_type} has two converters from opset {version} on")
            rows[version] = function
        return function
    return register


def converter_for(op_type, opset):
    """The converter of the largest version not above `opset`, or None."""
    rows = CONVERTERS.get(op_type, {})
    version = max((v for v in rows if v <= opset), default=None)
    return None if version is None else rows[version]


class NodeContext:
    """One ONNX node as its converter sees it.

    inputs: values, None where an optional input is absent. attrs: {name: value} with defaults filled in.
    outputs: names, "" where an optional output is not asked for.
    """

    def __init__(self, proto, title, opset, inputs, attrs, outputs, emit):
        self.proto, self.title, self.opset = proto, title, opset
        self.inputs, self.attrs, self.outputs = inputs, attrs, outputs
        self._emit, self._bound = emit, []

    # ------------------------------------------------------------ errors

    def error(self, message):
        """An OnnxImportError that names this node and the shapes of its inputs."""
        shown = [f"{printable(name)}: {x.struct_info.dtype}{shape_text(dims_of(x))}"
                 for name, x in zip(self.proto.input, self.inputs) if x is not None]
        return OnnxImportError(f"{self.title}: {message}" + (f"; inputs {', '.join(shown)}" if shown else ""))

    # ------------------------------------------------------------ inputs and attributes

    def input(self, index):
        """Input `index`, or None when it is absent."""
        return self.inputs[index] if index < len(self.inputs) else None

    def constant(self, index, what):
        """Input `index` as a numpy array, or None when absent. It must be known at compile time."""
        x = self.input(index)
        if x is None:
            return None
        if not isinstance(x, Constant):
            raise self.error(f"{what} must be constant, and depends on data; export the model with a constant {what}")
        return x.data

    def dims(self, index, what):
        """Input `index` as a list of ints and dimension expressions, or None when absent."""
        x = self.input(index)
        if x is None:
            return None
        if isinstance(x, Symbolic):
            return list(x.array.reshape(-1))
        if not isinstance(x, Constant):
            raise self.error(f"{what} depends on data; export with static shapes")
        return [int(v) for v in x.data.reshape(-1)]

    def ints(self, index, what):
        """Input `index` as a list of ints, or None when absent; symbolic elements are an error."""
        values = self.dims(index, what)
        for v in values or ():
            if not isinstance(v, int):
                raise self.error(f"{what} depends on the symbolic dimension {v}; pin it with dims")
        return values

    def attr(self, name, default=None):
        """An attribute's value; `default` when it is absent or this opset does not have it."""
        value = self.attrs.get(name)
        return default if value is None else value

    def choice(self, name, *known):
        """A string attribute that must be one of `known`."""
        value = self.attr(name, known[0])
        if value not in known:
            raise self.error(f"attribute {name} is {value!r}; supported are {', '.join(map(repr, known))}")
        return value

    def axis(self, axis, rank, what="axis"):
        """`axis` in [0, rank), counted from the end when negative."""
        if not -rank <= axis < rank:
            raise self.error(f"{what} {axis} is outside a tensor of {rank} dimensions")
        return axis % rank

    def axes(self, axes, rank):
        """Several axes in [0, rank), each once."""
        found = tuple(self.axis(a, rank) for a in axes)
        if len(set(found)) != len(found):
            raise self.error(f"axes {tuple(axes)} name one axis twice")
        return found

    def wants(self, index):
        """True when output `index` is used by the model."""
        return index < len(self.outputs) and bool(self.outputs[index])

    # ------------------------------------------------------------ building

    def call(self, op, *args, **attrs):
        """The operator `op` on `args`: a Constant or Symbolic where it can be evaluated, else a RelaxCall (a tuple of
        values for an operator with several results)."""
        args = [self.bind(a) for a in args]
        if any(isinstance(a, Symbolic) for a in args):
            return self._call_symbolic(op, args, attrs)
        try:
            call = call_op(op, *args, **attrs)
        except (InferError, KeyError) as error:
            raise self.error(error.args[0]) from error
        fields = call.struct_info.fields if isinstance(call.struct_info, TupleStructInfo) else (call.struct_info,)
        constant = bool(call.args) and all(isinstance(a, (Constant, ShapeExpr)) for a in call.args)
        for field in fields:
            self.check_size(field.shape, field.dtype.bytes if constant else 0)
        if constant and self._folds(call):
            return self._fold(call)
        if isinstance(call.struct_info, TupleStructInfo):
            var = self._emit(call)
            return tuple(TupleGetItem(var, i) for i in range(len(call.struct_info.fields)))
        return call

    def bind(self, value):
        """`value` as an argument: calls and tuple elements are bound to variables, once each."""
        if not isinstance(value, (RelaxCall, TupleGetItem)):
            return value
        var = self.bound(value)
        if var is None:
            var = self._emit(value)
            self._bound.append((value, var))
        return var

    def bound(self, value):
        """The variable that `value` is bound to already, or None."""
        return next((var for seen, var in self._bound if seen is value), None)

    def check_size(self, dims, itemsize):
        """Raise an error for a tensor that is too large, see budget.py. itemsize: of constants, else 0."""
        problem = excess(dims, itemsize)
        if problem:
            raise self.error(f"its result of shape {shape_text(dims)} {problem}")

    def const(self, value, dtype):
        """A Constant from a number or array."""
        return Constant(np.ascontiguousarray(value, dtype=np.dtype(str(dtype))).reshape(np.shape(value)))

    def filled(self, dims, value, dtype):
        """A tensor of shape `dims` full of `value`: a constant, or a broadcast when a dimension is symbolic."""
        if all(isinstance(d, int) for d in dims):
            self.check_size(dims, np.dtype(str(dtype)).itemsize)
            return Constant(np.full(dims, value, np.dtype(str(dtype))))
        return self.call("broadcast_to", self.const(value, dtype), list(dims))

    def reshape(self, x, dims):
        """`x` under the shape `dims`; `x` itself when it has that shape."""
        return x if same_dims(dims_of(x), dims) else self.call("reshape", x, list(dims))

    def broadcast(self, x, dims):
        """`x` repeated to the shape `dims`; `x` itself when it has that shape."""
        return x if same_dims(dims_of(x), dims) else self.call("broadcast_to", x, list(dims))

    def astype(self, x, dtype):
        """`x` converted to `dtype`; `x` itself when it already is."""
        return x if x.struct_info.dtype == dtype else self.call("astype", x, dtype=str(dtype))

    def transpose(self, x, axes):
        """`x` with permuted axes; `x` itself when they stay in order."""
        return x if list(axes) == sorted(axes) else self.call("permute_dims", x, axes=tuple(axes))

    @staticmethod
    def _folds(call):
        """Of a call on constants: its result is an integer, small, or only a view."""
        info = call.struct_info
        fields = info.fields if isinstance(info, TupleStructInfo) else (info,)
        if any(f.static_shape is None for f in fields):
            return False
        if op_table.get(call.op).kind == "view" or not any(f.dtype.is_float for f in fields):
            return True
        return sum(int(np.prod(f.static_shape, dtype=np.int64)) * f.dtype.bytes for f in fields) <= FOLD_BYTES

    def _fold(self, call):
        arrays = [a.data if isinstance(a, Constant) else tuple(int(v) for v in a.values) for a in call.args]
        try:
            with np.errstate(all="ignore"):
                result = op_table.get(call.op).evaluate(arrays, call.attrs)
        except (ValueError, IndexError, ArithmeticError) as error:
            raise self.error(f"{call.op} of constants cannot be evaluated: {error}") from error
        info = call.struct_info
        name = next((a.name for a in call.args if isinstance(a, Constant) and a.name), "")  # whose value it carries on
        if isinstance(result, tuple):
            return tuple(self._as_constant(r, f, name) for r, f in zip(result, info.fields))
        return self._as_constant(result, info, name)

    @staticmethod
    def _as_constant(array, info, name):
        array = np.ascontiguousarray(array, dtype=info.dtype.numpy)
        return Constant(array.reshape(info.static_shape), name)

    def _call_symbolic(self, op, args, attrs):
        """Evaluate an operator on dimensions: the arguments hold shapes, not data."""
        arrays = []
        for a in args:
            if not isinstance(a, (Symbolic, Constant, list, tuple)):
                raise self.error(f"mixes data with the symbolic dimensions of a shape ({op}); pin them with dims")
            arrays.append(a.array if isinstance(a, Symbolic) else a.data if isinstance(a, Constant) else np.array(a))
        floats = str(attrs.get("dtype", "")).startswith(("float", "bfloat"))
        if op not in SYMBOLIC and op != "astype" or floats:
            raise self.error(f"uses a symbolic dimension of a shape as data ({op}); pin the dimension with dims")
        arrays = [a.astype(object) for a in arrays]
        dtype = next(a.struct_info.dtype for a in reversed(args) if isinstance(a, (Symbolic, Constant)))
        if op == "astype":
            return settle(arrays[0], str(attrs["dtype"]))
        try:
            result = SYMBOLIC[op](arrays, attrs)
        except (ValueError, IndexError, ZeroDivisionError, TypeError) as error:
            raise self.error(f"cannot evaluate {op} on shapes: {error}") from error
        if isinstance(result, tuple):
            return tuple(settle(r, dtype) for r in result)
        boolean = op.startswith(("equal", "not_equal", "less", "greater", "logical"))
        return settle(result, "bool" if boolean else args[0].struct_info.dtype if op == "take" else dtype)

