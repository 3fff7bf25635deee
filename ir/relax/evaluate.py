"""Reference evaluation of a graph function with numpy: every call by its operator's `evaluate`."""
from __future__ import annotations

import numpy as np

from .. import op as op_table
from ..boundary import internal_errors
from ..expr import And, BinaryExpr, Cast, CompareExpr, FloatImm, IntImm, Not, Or, Select, Var, binary, const, free_vars
from ..module import IRModule
from ..node import collect
from ..tir.interpreter import run as run_prim_func
from ..upper import upper
from .control import evaluate_control, fields_of, is_control
from .expr import (Constant, DataflowVar, Function, If, MatchCast, PrimValue, RelaxTuple, RelaxVar, ShapeExpr,
                   ShapeStructInfo, TensorStructInfo, TupleGetItem, TupleStructInfo)
from .infos import is_row_call
from .inplace import IN_PLACE, outputs_of


class EvaluationError(ValueError):
    """Inputs that do not fit the function, or a value that does not fit its struct info."""


def evaluate(mod_or_func, inputs, want_all=False, known=None):
    """The outputs of a graph function: one array, or a tuple of them.

    inputs: arrays in the order of the params, or {param name or original name: array}. Symbolic dimensions take their
    values from the inputs' shapes and from MatchCasts. want_all: return (outputs, {var: array or tuple}) with every
    binding's value; otherwise values are dropped after their last use. Every value is checked against its struct info.
    call_tir interprets the PrimFunc, which takes about a microsecond per operation. known: {symbolic dimension: value}
    of those that are given. Raises EvaluationError.
    """
    mod = mod_or_func if isinstance(mod_or_func, IRModule) else IRModule({"main": mod_or_func})
    func = mod["main"]
    dims = dict(known or {})
    values = {p: _given(p.struct_info, v) for p, v in zip(func.params, _ordered(func, inputs))}
    solve_dims([pair for p, value in values.items() for pair in _sizes(p.struct_info, value)], dims)
    for param in func.params:
        check(values[param], param.struct_info, dims, f"input {param.name!r}")
    _run(func, values, dims, mod, {} if want_all else last_uses(func))
    outputs = tuple(evaluate_expr(o, values, dims, mod) for o in func.outputs)
    outputs = outputs[0] if len(outputs) == 1 else outputs
    return (outputs, values) if want_all else outputs


def _run(func_or_seq, values, dims, mod, last):
    """Add the value of every binding to `values`. last: {binding number: variables to drop after it}."""
    seq = func_or_seq.body if isinstance(func_or_seq, Function) else func_or_seq
    for index, binding in enumerate(b for block in seq.blocks for b in block.bindings):
        name = binding.var.origin or binding.var.name
        with internal_errors(f"the evaluation of {name}"):
            value = evaluate_expr(binding.value, values, dims, mod, getattr(binding.var, "name", ""))
        check(value, binding.var.struct_info, dims, f"{name}", bind=isinstance(binding, MatchCast))
        values[binding.var] = value
        for var in last.get(index, ()):
            values.pop(var, None)  # a branch's own variables are not among them


def _given(info, value):
    """An input: an array, a tuple of inputs, or a shape as a tuple of ints."""
    if isinstance(info, TupleStructInfo):
        return tuple(map(_given, info.fields, value))
    return tuple(map(int, value)) if isinstance(info, ShapeStructInfo) else np.asarray(value)


def _sizes(info, value):
    """[(size, dimension)] of an input."""
    if isinstance(info, TupleStructInfo):
        return [pair for f, v in zip(info.fields, value) for pair in _sizes(f, v)]
    dims = info.values if isinstance(info, ShapeStructInfo) else info.shape
    return list(zip(value if isinstance(info, ShapeStructInfo) else value.shape, dims)) if dims else []


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


def evaluate_expr(expr, values, dims, mod=None, name=""):
    """The value of one expression: an array, a tuple, or for a shape a tuple of ints. `values`: {variable: value}.

    mod: where the functions that are called are; name: the variable that is computed, for error messages.
    """
    if isinstance(expr, (RelaxVar, DataflowVar)):
        return values[expr]
    if isinstance(expr, Constant):
        return expr.data
    if isinstance(expr, ShapeExpr):
        return tuple(dim_value(v, dims) for v in expr.values)
    if isinstance(expr, PrimValue):
        return dim_value(expr.value, dims)
    if isinstance(expr, RelaxTuple):
        return tuple(evaluate_expr(f, values, dims, mod) for f in expr.fields)
    if isinstance(expr, TupleGetItem):
        return evaluate_expr(expr.tuple_value, values, dims, mod)[expr.index]
    if isinstance(expr, If):
        branch = expr.true_branch if evaluate_expr(expr.cond, values, dims, mod) else expr.false_branch
        values, dims = dict(values), dict(dims)  # what a branch defines stays inside it
        _run(branch, values, dims, mod, {})
        return evaluate_expr(branch.body, values, dims, mod)
    if isinstance(expr, Function):
        return _local(expr, values, dims, mod)
    if isinstance(expr.op, (RelaxVar, DataflowVar)):
        return values[expr.op](*(evaluate_expr(a, values, dims, mod) for a in expr.args))
    if expr.op in upper("classic_names")() and not is_control(expr) and not is_row_call(
            expr, op_table.OPS.get(expr.op)):
        return evaluate_expr(upper("in_operators")(expr), values, dims, mod, name)
    args = [evaluate_expr(a, values, dims, mod) for a in expr.args]
    if is_control(expr):
        def run(key, arrays, known):
            results = evaluate(mod.with_function("main", mod[expr.attrs[key]]), arrays, known=known)
            return results if isinstance(results, tuple) else (results,)
        try:
            return evaluate_control(expr, args, dims, run, dim_value)
        except ValueError as error:
            raise EvaluationError(str(error)) from error
    if expr.op in ("call", "call_tir", "call_tir_inplace"):
        if mod is None or expr.attrs["gv"] not in mod:
            raise EvaluationError(f"{name}: {expr.op} of {expr.attrs['gv'].name}, which is no function of the module")
        func = mod[expr.attrs["gv"]]
        if expr.op != "call":
            return _call_tir(func, expr, args, dims, name)
        own = set(free_vars([p.struct_info for p in func.params]))  # groups use others of the function around
        return evaluate(mod.with_function("main", func), args, known={d: v for d, v in dims.items() if d not in own})
    if expr.op in op_table.OPS:
        return op_table.get(expr.op).evaluate(args, _concrete(expr.attrs, dims))
    raise EvaluationError(f"{name}: {expr.op} of {expr.attrs.get('func')!r} cannot be evaluated: foreign functions are "
                          "known to no one here; write it as a PrimFunc and use call_tir")


def _local(func, values, dims, mod):
    """A function inside another as a value: it sees what is around it, itself too."""
    seen = dict(values)  # what is not used after it is let go of

    def call(*args):
        inner, known = {**seen, **values, **dict(zip(func.params, args))}, dict(dims)
        solve_dims([pair for p, a in zip(func.params, args) for pair in _sizes(p.struct_info, a)], known)
        _run(func, inner, known, mod, {})
        return evaluate_expr(func.body.body, inner, known, mod)
    return call


def _call_tir(func, call, args, dims, name):
    """The results of a PrimFunc, interpreted."""
    def empty(info):
        return np.zeros([dim_value(d, dims) for d in info.shape], info.dtype.numpy)
    if IN_PLACE in call.attrs:
        outs, tensors = outputs_of(call, [np.array(a) for a in args], empty)
    else:
        outs = [empty(i) for i in fields_of(call.struct_info)]
        tensors = (*args, *outs)
    sizes = [dim_value(d, dims) for d in call.attrs["sym_args"]]
    try:
        run_call(func, tensors, sizes)
    except NotImplementedError as error:
        raise EvaluationError(f"{name}: {call.attrs['gv'].name} cannot be evaluated: {error}") from error
    return tuple(outs) if isinstance(call.struct_info, TupleStructInfo) else outs[0]


def run_call(func, tensors, sizes, run=run_prim_func):
    """Run a PrimFunc on tensors, inputs and outputs, and the values of its scalars, in order. Where its buffers have
    strides, the tensors lie so in memory."""
    known = dict(zip((p for p in func.params if p not in func.buffer_map), sizes))
    arrays, results = [], []
    for tensor, buffer in zip(tensors, func.buffers):
        array = tensor
        if buffer.strides:
            strides = [dim_value(s, known) for s in buffer.strides]
            array = np.zeros(1 + sum((n - 1) * s for n, s in zip(tensor.shape, strides)), tensor.dtype)
            placed = np.lib.stride_tricks.as_strided(array, tensor.shape, [s * array.itemsize for s in strides])
            placed[...] = tensor
            results.append((tensor, placed))
        arrays.append(array)
    run(func, *arrays, *sizes)
    for tensor, placed in results:
        if tensor.flags.writeable:
            tensor[...] = placed


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
    if isinstance(expr, (IntImm, FloatImm)):
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


def solve_dims(extents, dims):
    """Add to `dims` the symbolic dimensions that (extent, declared dimension) pairs tell: those that are an axis as a
    whole, then those of a sum whose other terms are known."""
    for alone in (True, False):
        for extent, dim in extents:
            missing = [v for v in free_vars(dim) if v not in dims] if isinstance(dim, Var) == alone else []
            if len(missing) == 1:
                least, next_one = (dim_value(dim, {**dims, missing[0]: n}) for n in (0, 1))
                dims[missing[0]] = (extent - least) // max(next_one - least, 1)


def check(value, info, dims, what, bind=True):
    """Raise EvaluationError unless an array has the dtype and shape of `info`. bind: free dims take the array's."""
    if isinstance(info, TupleStructInfo):
        for i, (v, f) in enumerate(zip(value, info.fields)):
            check(v, f, dims, f"{what}[{i}]", bind)
    elif isinstance(info, ShapeStructInfo):
        _check_dims(tuple(value), info.values, info.ndim, dims, f"{what} is", bind)
    elif isinstance(info, TensorStructInfo):
        if value.dtype.name != str(info.dtype) and info.dtype != "void":
            raise EvaluationError(f"{what} is of {value.dtype.name}, and must be of {info.dtype}")
        _check_dims(value.shape, info.shape, info.ndim, dims, f"{what} has shape", bind)


def _check_dims(sizes, declared, ndim, dims, what, bind):
    if ndim >= 0 and len(sizes) != ndim:
        raise EvaluationError(f"{what} {sizes}, and must have {ndim} dimensions")
    if declared is None:
        return
    if bind:
        for size, dim in zip(sizes, declared):
            if isinstance(dim, Var):
                dims.setdefault(dim, size)
    expected = tuple(dim_value(d, dims) for d in declared)
    if sizes != expected:
        raise EvaluationError(f"{what} {sizes}, and must {'be' if what.endswith(' is') else 'have'} {expected}")
