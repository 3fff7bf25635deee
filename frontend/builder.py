"""The graph builder that frontends share: it calls operators, and evaluates them where it can.

Values are graph expressions, or `Symbolic` tensors of dimensions. `Builder.call` infers the type and shape of an
operator's result, evaluates what is constant or made of dimensions, and otherwise returns a call, which is bound to
a variable when it is used.
"""
from __future__ import annotations

import numpy as np

from ..ir import op as op_table
from ..ir.expr import PrimExpr, free_vars
from ..ir.op import InferError
from ..ir.relax.block_builder import call_op
from ..ir.relax.budget import excess
from ..ir.relax.expr import (Constant, PrimValue, RelaxCall, RelaxExpr, ShapeExpr, TupleGetItem,
                             TupleStructInfo)
from .fitting import fitted
from .shapes import SYMBOLIC, Symbolic, dims_of, same_dims, settle, shape_text

FOLD_BYTES = 1 << 20


# Operators that give whole numbers for whole floats: of these, floats that are dimensions stay such.
ROUNDINGS = ("floor", "ceil", "round")
WHOLE = (*ROUNDINGS, "astype", "add", "subtract", "multiply", "negative", "minimum", "maximum", "reshape",
         "expand_dims", "squeeze", "take", "concat", "strided_slice")


def _is_float(x):
    return str(x.struct_info.dtype).startswith(("float", "bfloat"))


class Builder:
    """Makes the values of a graph, in the order of its calls.

    emit: function (expression -> variable) that binds a call or tuple element, for example BlockBuilder.emit. A
    frontend's subclass overrides `error`, to name the place in its model. fold_bytes: larger float results are left to
    passes over the graph.
    """

    fold_bytes = FOLD_BYTES

    def __init__(self, emit):
        self._emit, self._bound = emit, []

    def error(self, message):
        """The exception to raise for `message`."""
        return ValueError(message)

    def call(self, op, *args, **attrs):
        """The operator `op` on `args`: a Constant or Symbolic where it can be evaluated, else a RelaxCall (a tuple of
        values for an operator with several results)."""
        args = [self.bind(a) for a in args]
        if any(isinstance(a, Symbolic) for a in args):
            return self._call_symbolic(op, args, attrs)
        try:
            call = self._inferred(op, args, attrs)
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

    def _inferred(self, op, args, attrs):
        """The call of an operator; where its arguments' dimensions may agree and nothing says so, of views that do."""
        try:
            return call_op(op, *args, **attrs)
        except InferError:
            tensors = all(isinstance(a, RelaxExpr) for a in args)
            views = fitted(op, args, attrs) if tensors else {}
            if not views:
                raise
        args = [self.bind(self.reshape(a, views[n])) if n in views else a for n, a in enumerate(args)]
        return call_op(op, *args, **attrs)

    def emit(self, value):
        """A new variable for a call."""
        return self._emit(value)

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

    def tensor(self, value, dtype=None):
        """`value` as a tensor: dimensions, as a Symbolic or an expression, are computed. Other values stay."""
        if isinstance(value, (PrimExpr, int)):
            value = settle(np.array(value, object), dtype or "int64")
        if isinstance(value, PrimValue):
            value = Symbolic(np.array(value.value, object), str(value.value.dtype))
        if not isinstance(value, Symbolic):
            return value
        flat = self.call("shape_to_tensor", ShapeExpr(tuple(value.array.reshape(-1))))
        return self.bind(self.astype(self.reshape(flat, list(value.array.shape)), dtype or value.dtype))

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

    def positions(self, count):
        """0 to count - 1, int64."""
        return self.call("arange", PrimValue(0), PrimValue(count), PrimValue(1), dtype="int64")

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

    def _folds(self, call):
        """Whether a call on constants is folded: its result is an integer, small, or only a view."""
        info = call.struct_info
        fields = info.fields if isinstance(info, TupleStructInfo) else (info,)
        if any(f.static_shape is None for f in fields) or any(
                isinstance(a, ShapeExpr) and free_vars(list(a.values)) for a in call.args):
            return False
        if op_table.get(call.op).kind == "view" or not any(f.dtype.is_float for f in fields):
            return True
        return sum(int(np.prod(f.static_shape, dtype=np.int64)) * f.dtype.bytes for f in fields) <= self.fold_bytes

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

    @staticmethod
    def _stays_whole(op, args, attrs):
        """Whether dimensions that are converted to floats give whole numbers again, as integers do always."""
        if op == "astype" and str(attrs["dtype"]).startswith(("float", "bfloat")):
            return str(attrs["dtype"]) in ("float32", "float64") and args[0].struct_info.dtype != "bool"
        given = [a for a in args if isinstance(a, (Symbolic, Constant)) and _is_float(a)]
        return not given or op in WHOLE and all(
            isinstance(a, Symbolic) or bool(np.all(a.data == np.round(a.data))) for a in given)

    def _call_symbolic(self, op, args, attrs):
        """Evaluate an operator on dimensions: the arguments hold shapes, not data."""
        arrays = []
        for a in args:
            if not isinstance(a, (Symbolic, Constant, list, tuple)):
                return self.call(op, *map(self.tensor, args), **attrs)
            arrays.append(a.array if isinstance(a, Symbolic) else a.data if isinstance(a, Constant) else np.array(a))
        if op not in SYMBOLIC and op not in WHOLE or not self._stays_whole(op, args, attrs):
            return self.call(op, *map(self.tensor, args), **attrs)
        if op in ROUNDINGS:
            return args[0]
        arrays = [a.astype(np.int64 if a.dtype.kind == "f" else a.dtype).astype(object) for a in arrays]
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

