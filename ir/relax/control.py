"""Calls whose course a run decides: branches, loops, and dimensions that tensors hold.

    call_if          one of two functions of the module, by a bool: what both return has the same struct info
    call_loop        a function of the module, turn by turn: an ONNX Loop or Scan
    tensor_to_shape  dimensions of later tensors, read from a tensor

The bodies are functions of the module, whose parameters are all that they use: nothing but symbolic dimensions comes
from outside. Passes and lowering treat them as they do "main".
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..expr import Var
from .expr import Function, RelaxCall, ShapeStructInfo, TensorStructInfo, TupleStructInfo, as_struct_info
from .infos import same_info

# operator -> the attributes that name its bodies
BODIES = {"call_if": ("then", "other"), "call_loop": ("body",)}
CONTROL = (*BODIES, "tensor_to_shape")


# ---------------------------------------------------------------- making them

def call_if(cond, then, other, args, out, dims=()):
    """Call the function `then` (a GlobalVar) on args where `cond` holds, a bool tensor without dimensions or a
    PrimValue, else the function `other`. out: struct info. dims: (variable, its value after `then`, after
    `other`), of the dimensions of `out` in which the branches differ."""
    return RelaxCall("call_if", (cond, *args), {"then": then, "other": other, "dims": tuple(dims)}, _info(out))


def call_loop(body, index, out, carried=(), scanned=(), captured=(), turns=None, limit=None, cond=None, count=None):
    """Run the function `body` (a GlobalVar) for index = 0, 1 ..., a dimension that it uses.

    Its parameters are the carried values, a row of each of `scanned` (along their first axis), and `captured`, which
    stay. It returns the condition of the next iteration, where there is `cond`, the next carried values, which have the
    struct info of the first ones, and rows. The call's result (struct info `out`) is the last carried values, and the
    rows, stacked.

    turns: how many there are, an expression; None where only a run knows: as many as `limit`, an int64 tensor without
    dimensions, says at most, while the condition holds (`cond`, of the first iteration). count: the variable that then
    is the number of turns.
    """
    given = [x for x in (limit, cond) if x is not None]
    attrs = {"body": body, "index": index, "turns": turns, "count": count, "limit": limit is not None,
             "cond": cond is not None, "carried": len(carried), "scanned": len(scanned)}
    return RelaxCall("call_loop", (*given, *carried, *scanned, *captured), attrs, _info(out))


def tensor_to_shape(tensor, dims):
    """A shape of the variables `dims`, integers that `tensor` [len(dims)] holds: 0 to the `most` of each."""
    return RelaxCall("tensor_to_shape", (tensor,), {"dims": tuple(dims)}, ShapeStructInfo(tuple(dims)))


def _info(out):
    """Struct info of a call: as of a function, that of one result or a tuple."""
    out = list(out) if isinstance(out, (list, tuple)) else [out]
    return as_struct_info(out[0] if len(out) == 1 else out)


# ---------------------------------------------------------------- looking at them

@dataclass(frozen=True)
class Loop:
    """The arguments of a call_loop apart; None for those that it lacks."""

    limit: object
    cond: object
    carried: tuple
    scanned: tuple
    captured: tuple


def loop_parts(call, args):
    """The Loop of a call_loop whose arguments are `args`: graph values, struct infos or arrays."""
    rest, attrs = list(args), call.attrs
    limit, cond = (rest.pop(0) if attrs[name] else None for name in ("limit", "cond"))
    a, b = attrs["carried"], attrs["carried"] + attrs["scanned"]
    return Loop(limit, cond, tuple(rest[:a]), tuple(rest[a:b]), tuple(rest[b:]))


def is_control(value):
    """Whether a value is one of these calls; R.tensor_to_shape of a script, whose dimensions have no names, is none."""
    return isinstance(value, RelaxCall) and value.op in CONTROL and (
        value.op != "tensor_to_shape" or "dims" in value.attrs)


def fields_of(info):
    """The struct infos of a function's or call's results."""
    return info.fields if isinstance(info, TupleStructInfo) else (info,)


def dims_set_by(value):
    """The dimensions that a binding's value defines."""
    if not is_control(value):
        return ()
    if value.op == "call_loop":
        return () if value.attrs["count"] is None else (value.attrs["count"],)
    dims = value.attrs["dims"]
    return tuple(d[0] for d in dims) if value.op == "call_if" else dims


def body_names(mod):
    """The names of the functions that "main" runs as bodies, and their bodies, each once, outer ones first."""
    found, todo = {}, ["main"]
    while todo:
        func = mod[todo.pop(0)]
        for b in func.bindings if isinstance(func, Function) else ():
            if is_control(b.value):
                names = [b.value.attrs[key].name for key in BODIES.get(b.value.op, ())]
                todo += [n for n in names if n not in found]
                found |= dict.fromkeys(names)
    return tuple(found)


def graph_functions(mod):
    """{name: Function} of "main" and all bodies."""
    return {name: mod[name] for name in ("main", *body_names(mod))}


def all_bindings(mod):
    """The bindings of "main" and of all bodies."""
    return [b for func in graph_functions(mod).values() for b in func.bindings]


# ---------------------------------------------------------------- verification

def problem(call, infos, callee):
    """Explain why a control call is wrong whose arguments have struct `infos`; None if it is right. callee: function
    (attribute) -> the Function."""
    return _PROBLEMS[call.op](call, infos, callee)


def _if_problem(call, infos, callee):
    if not infos or not _is_scalar(infos[0], "bool"):
        return f"the condition is {infos[0] if infos else 'missing'}, it must be a bool tensor without dimensions"
    for key in ("then", "other"):
        func = callee(key)
        wrong = _misfit(func, infos[1:], key)
        if wrong:
            return wrong
    return None


def _loop_problem(call, infos, callee):
    p, attrs = loop_parts(call, infos), call.attrs
    if any(x is not None and not _is_scalar(x, dtype) for x, dtype in ((p.limit, "int64"), (p.cond, "bool"))):
        return f"limit and condition are {p.limit} and {p.cond}: an int64 and a bool tensor without dimensions"
    if (attrs["turns"] is None) == (attrs["count"] is None) or attrs["turns"] is not None and (p.limit or p.cond):
        return "its turns are an expression, or what limit and condition say, with a variable that counts them"
    rows = []
    for x in p.scanned:
        if not isinstance(x, TensorStructInfo) or not x.ndim:
            return f"it scans {x}, which has no rows"
        rows.append(TensorStructInfo(x.shape[1:], x.dtype))
    func = callee("body")
    results = fields_of(func.ret_struct_info)
    if len(results) != attrs["cond"] + len(fields_of(call.struct_info)):
        return f"its body returns {len(results)} values, which are not those of the call"
    return _misfit(func, (*p.carried, *rows, *p.captured), "body")


def _dims_problem(call, infos, callee):
    dims, info = call.attrs["dims"], infos[0] if len(infos) == 1 else None
    if not isinstance(info, TensorStructInfo) or info.static_shape != (len(dims),) or not info.dtype.is_int:
        return f"{len(dims)} dimensions are read from {info}: it must be an integer tensor of as many elements"
    if not all(isinstance(d, Var) and d.most is not None for d in dims):
        return "a dimension that a run decides must be a variable with an upper bound (most)"
    return None


_PROBLEMS = {"call_if": _if_problem, "call_loop": _loop_problem, "tensor_to_shape": _dims_problem}


def _is_scalar(info, dtype):
    return getattr(info, "dtype", None) == dtype and getattr(info, "ndim", 0) == 0


def _misfit(func, infos, what):
    """Explain why arguments do not fit a body; None if they do."""
    if len(infos) != len(func.params):
        return f"{what} takes {len(func.params)} values, got {len(infos)}"
    for p, info in zip(func.params, infos):
        if not same_info(p.struct_info, info):
            return f"parameter {p.name} of {what} is {p.struct_info}, the argument is {info}"
    return None


# ---------------------------------------------------------------- evaluation

def evaluate_control(call, args, dims, run, dim_value):
    """The result of a control call on arrays; sets the dimensions that it defines. run: function (attribute, arrays,
    dims) -> tuple of what that body returns."""
    return _EVALUATED[call.op](call, args, dims, run, dim_value)


def _evaluate_if(call, args, dims, run, dim_value):
    holds = bool(args[0])
    results = run("then" if holds else "other", args[1:], dict(dims))
    for var, *values in call.attrs["dims"]:
        dims[var] = dim_value(values[not holds], dims)
    return results if isinstance(call.struct_info, TupleStructInfo) else results[0]


def _evaluate_loop(call, args, dims, run, dim_value):
    p, attrs = loop_parts(call, args), call.attrs
    most = dim_value(attrs["turns"], dims) if attrs["turns"] is not None else None if p.limit is None else int(p.limit)
    carried, rows, turn, going = p.carried, [], 0, p.cond is None or bool(p.cond)
    while going and (most is None or turn < most):
        results = run("body", (*carried, *(x[turn] for x in p.scanned), *p.captured), {**dims, attrs["index"]: turn})
        going = not attrs["cond"] or bool(results[0])
        results = results[attrs["cond"]:]
        carried = results[:len(carried)]
        rows.append(results[len(carried):])
        turn += 1
    if attrs["count"] is not None:
        dims[attrs["count"]] = turn
    stacked = [np.stack([row[k] for row in rows]) if rows else
               np.zeros([dim_value(d, dims) for d in info.shape], info.dtype.numpy)
               for k, info in enumerate(fields_of(call.struct_info)[len(carried):])]
    results = (*map(np.asarray, carried), *stacked)
    return results if isinstance(call.struct_info, TupleStructInfo) else results[0]


def _evaluate_dims(call, args, dims, run, dim_value):
    values = tuple(int(v) for v in np.asarray(args[0]).reshape(-1))
    for var, value in zip(call.attrs["dims"], values):
        if not 0 <= value <= dim_value(var.most, dims):
            raise ValueError(f"the run decides that {var.name} is {value}, and it must be 0 to {var.most}")
        dims[var] = value
    return values


_EVALUATED = {"call_if": _evaluate_if, "call_loop": _evaluate_loop, "tensor_to_shape": _evaluate_dims}


def rows_of(turns, info):
    """The struct info of rows of `info`, stacked."""
    return TensorStructInfo((turns, *info.shape), info.dtype)
