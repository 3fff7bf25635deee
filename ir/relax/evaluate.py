"""Reference evaluation of a graph function with numpy: every call by its operator's `evaluate`."""
from __future__ import annotations

import numpy as np

from .. import op as op_table
from ..expr import And, BinaryExpr, Cast, CompareExpr, IntImm, Not, Or, Select, Var, binary, const
from ..module import IRModule
from .expr import (Constant, DataflowVar, MatchCast, PrimValue, RelaxCall, RelaxTuple, RelaxVar, ShapeExpr,
                   TensorStructInfo, TupleGetItem)


class EvaluationError(ValueError):
    """Inputs that do not fit the function, or a value that does not fit its struct info."""


def evaluate(mod_or_func, inputs, want_all=False):
    """The outputs of a graph function: one array, or a tuple of them.

    inputs: arrays in the order of the params, or {param name or original name: array}. Symbolic dimensions take their
    values from the inputs' shapes. want_all: return (outputs, {var: array or tuple}) with every binding's value;
    otherwise values are dropped after their last use. Every value is checked against its struct info.
    Raises EvaluationError.
    """
    func = mod_or_func["main"] if isinstance(mod_or_func, IRModule) else mod_or_func
    dims, values = {}, {}
    for param, array in zip(func.params, _ordered(func, inputs)):
        values[param] = np.asarray(array)
        check(values[param], param.struct_info, dims, f"input {param.name!r}")
    last = {} if want_all else last_uses(func)
    for index, binding in enumerate(func.bindings):
        value = evaluate_expr(binding.value, values, dims)
        name = binding.var.origin or binding.var.name
        check(value, binding.var.struct_info, dims, f"{name}", bind=isinstance(binding, MatchCast))
        values[binding.var] = value
        for var in last.get(index, ()):
            del values[var]
    outputs = tuple(evaluate_expr(o, values, dims) for o in func.outputs)
    outputs = outputs[0] if len(outputs) == 1 else outputs
    return (outputs, values) if want_all else outputs


def _ordered(func, inputs):
    """The arrays in the order of the params."""
    if not isinstance(inputs, dict):
        inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        if len(inputs) != len(func.params):
            raise EvaluationError(f"the function takes {len(func.params)} inputs, got {len(inputs)}")
        return inputs
    originals = {p: p.origin.name if p.origin else p.name for p in func.params}
    missing = [p.name for p in func.params if p.name not in inputs and originals[p] not in inputs]
    unknown = sorted(set(inputs) - {p.name for p in func.params} - set(originals.values()))
    if missing or unknown:
        raise EvaluationError(f"inputs do not match the function's params: missing {missing}, unknown {unknown}")
    return [inputs[p.name] if p.name in inputs else inputs[originals[p]] for p in func.params]


def last_uses(func):
    """{binding index: variables used there for the last time}; variables that are returned never end."""
    from ..node import collect
    last = {}
    for index, binding in enumerate(func.bindings):
        for var in collect(binding.value, (RelaxVar, DataflowVar)):
            last[var] = index
    for value in func.outputs:
        for var in collect(value, (RelaxVar, DataflowVar)):
            last.pop(var, None)
    ends = {}
    for var, index in last.items():
        ends.setdefault(index, []).append(var)
    return ends


def evaluate_expr(expr, values, dims):
    """The value of one expression: an array, a tuple, or for a shape a tuple of ints. `values`: {variable: value}."""
    if isinstance(expr, (RelaxVar, DataflowVar)):
        return values[expr]
    if isinstance(expr, Constant):
        return expr.data
    if isinstance(expr, ShapeExpr):
        return tuple(dim_value(v, dims) for v in expr.values)
    if isinstance(expr, PrimValue):
        return dim_value(expr.value, dims)
    if isinstance(expr, RelaxTuple):
        return tuple(evaluate_expr(f, values, dims) for f in expr.fields)
    if isinstance(expr, TupleGetItem):
        return evaluate_expr(expr.tuple_value, values, dims)[expr.index]
    if isinstance(expr, RelaxCall) and expr.op != "call_tir":
        args = [evaluate_expr(a, values, dims) for a in expr.args]
        return op_table.get(expr.op).evaluate(args, _concrete(expr.attrs, dims))
    raise EvaluationError(f"cannot evaluate a {getattr(expr, 'op', type(expr).__name__)}: only operators are evaluated")


def _concrete(attrs, dims):
    """Attributes with symbolic expressions replaced by their values."""
    def plain(value):
        if isinstance(value, tuple):
            return tuple(plain(v) for v in value)
        return dim_value(value, dims) if hasattr(value, "dtype") and hasattr(value, "_fields") else value
    return {k: plain(v) for k, v in attrs.items()}


def dim_value(expr, dims):
    """The int (or bool) that a dimension expression has under `dims`, {Var: int}."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, Var):
        if expr not in dims:
            raise EvaluationError(f"the symbolic dimension {expr.name} has no value: no input's shape defines it")
        return dims[expr]
    if isinstance(expr, Cast):
        return dim_value(expr.value, dims)
    if isinstance(expr, Select):
        return dim_value(expr.true_value if dim_value(expr.condition, dims) else expr.false_value, dims)
    if isinstance(expr, Not):
        return not dim_value(expr.a, dims)
    if isinstance(expr, (And, Or)):
        a, b = dim_value(expr.a, dims), dim_value(expr.b, dims)
        return a and b if isinstance(expr, And) else a or b
    if isinstance(expr, (BinaryExpr, CompareExpr)):  # immediates fold
        a, b = (const(dim_value(side, dims), "int64") for side in (expr.a, expr.b))
        return binary(type(expr), a, b).value
    raise EvaluationError(f"cannot evaluate the dimension {type(expr).__name__}")


def check(value, info, dims, what, bind=True):
    """Raise EvaluationError unless an array has the dtype and shape of `info`. bind: free dims take the array's."""
    if isinstance(value, tuple):
        for i, (v, f) in enumerate(zip(value, info.fields)):
            check(v, f, dims, f"{what}[{i}]", bind)
        return
    if not isinstance(info, TensorStructInfo):
        return
    if value.dtype.name != str(info.dtype):
        raise EvaluationError(f"{what} is of {value.dtype.name}, and must be of {info.dtype}")
    if info.shape is None:
        return
    if bind and len(value.shape) == len(info.shape):
        for size, dim in zip(value.shape, info.shape):
            if isinstance(dim, Var):
                dims.setdefault(dim, size)
    expected = tuple(dim_value(d, dims) for d in info.shape)
    if value.shape != expected:
        raise EvaluationError(f"{what} has shape {value.shape}, and must have {expected}")
