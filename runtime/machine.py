"""Graph functions that no network of C can be, run binding by binding: their values may be shapes, numbers, strings,
objects and functions; they call functions of Python, themselves and each other. Kernels are compiled all the same."""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..ir.expr import Call, FloatImm, StringImm, Var
from ..ir.module import GlobalVar
from ..ir.node import collect
from ..ir.relax.control import fields_of
from ..ir.relax.evaluate import dim_value, evaluate_expr, last_uses, solve_dims
from ..ir.relax.expr import (Constant, DataflowVar, DataTypeImm, ExternFunc, Function, If, MatchCast,
                             PrimStructInfo, PrimValue, RelaxCall, RelaxString, RelaxTuple, RelaxVar, ShapeExpr,
                             ShapeStructInfo, TensorStructInfo, TupleGetItem, TupleStructInfo)
from ..ir.relax.inplace import outputs_of
from ..ir.tir.function import PrimFunc
from .builtins import PLAIN_CALLS, Closure, ShapeTuple, assert_holds, flat_sizes, plain, print_values
from .known_calls import known_call
from .ndarray import NDArray, empty
from .registry import get_global_func
from .selections import nonzero, unique

VARS = (RelaxVar, DataflowVar)
SKIP_RUN = 1  # what an instrument returns so that a call is left out


class FitError(ValueError, RuntimeError):
    """A value that is not what a function declares."""


@dataclass
class Frame:
    """A run of a function: values by the ids of variables, and those of symbolic dimensions."""

    values: dict = field(default_factory=dict)
    dims: dict = field(default_factory=dict)


# ---------------------------------------------------------------- values and what is declared

def fit(values, infos, dims, names):
    """Hold values to struct infos; symbolic dimensions that these define are added to `dims`. TypeError for a value of
    another kind, FitError for another dtype or size."""
    sizes = []
    for value, info, name in zip(values, infos, names):
        _kinds(value, info, name, sizes)
    solve_dims([(size, dim) for size, dim, _, _ in sizes], dims)
    for size, dim, name, axis in sizes:
        if all(v in dims for v in collect(dim, Var)) and dim_value(dim, dims) != size:
            raise FitError(f"{name}: {axis} is {size}, and must be {dim_value(dim, dims)}, shape mismatch")


def _kinds(value, info, name, sizes):
    """Check what a value is; add (size, dimension, whose, which) of its axes to `sizes`."""
    if isinstance(info, TensorStructInfo):
        if not isinstance(value, NDArray):
            raise TypeError(f"{name} is a {type(value).__name__}, and must be a tensor, an NDArray")
        if info.ndim >= 0 and value.ndim != info.ndim:
            raise FitError(f"{name}: its ndim is {value.ndim}, and must be {info.ndim} (match_cast, ndim mismatch)")
        if info.dtype != "void" and value.dtype != info.dtype:
            raise FitError(f"{name}: its dtype is {value.dtype}, and must be {info.dtype}")
        if isinstance(info.shape, tuple):
            sizes += [(n, d, name, f"axis {k}") for k, (n, d) in enumerate(zip(value.shape, info.shape))]
    elif isinstance(info, ShapeStructInfo):
        if not isinstance(value, (tuple, list)) or not all(isinstance(n, (int, np.integer)) for n in value):
            raise TypeError(f"{name} is a {type(value).__name__}, and must be a shape, a ShapeTuple")
        if info.ndim >= 0 and len(value) != info.ndim:
            raise FitError(f"{name} has {len(value)} dimensions, and must have {info.ndim} (match_cast, ndim mismatch)")
        sizes += [(int(n), d, name, f"dimension {k}") for k, (n, d) in enumerate(zip(value, info.values or ()))]
    elif isinstance(info, PrimStructInfo):
        if not isinstance(value, (int, float, np.number)):
            raise TypeError(f"{name} is a {type(value).__name__}, and must be a number")
        if info.value is not None:
            sizes.append((value, info.value, name, "the value"))
    elif isinstance(info, TupleStructInfo):
        if not isinstance(value, (tuple, list)) or len(value) != len(info.fields):
            raise TypeError(f"{name} is a {type(value).__name__}, and must be a tuple of {len(info.fields)}")
        for k, (v, f) in enumerate(zip(value, info.fields)):
            _kinds(v, f, f"{name}[{k}]", sizes)


def as_value(given):
    """A value of the machine's: arrays as NDArrays, lists as tuples."""
    if isinstance(given, (list, tuple)) and not isinstance(given, ShapeTuple):
        return tuple(map(as_value, given))
    if isinstance(given, np.ndarray):
        return NDArray(np.ascontiguousarray(given) if given.ndim else np.array(given))
    return given


# ---------------------------------------------------------------- the machine

class Machine:
    """function_of: name -> what calls a graph function of `mod`; kernel_of: name -> what calls a PrimFunc of it.
    instrument: f(function, name, before, result, *args), called around each call that leaves the graph."""

    def __init__(self, mod, function_of, kernel_of, checks=True):
        """checks: hold arguments and results to what functions declare; modules whose shapes are lowered do it themselves."""
        self.checks, self.mod, self.function_of, self.kernel_of = checks, mod, function_of, kernel_of
        self.instrument = None
        self._ends = {}  # id of a function -> (itself, _ends_of)

    def run(self, name, args):
        """The result of graph function `name` for values. TypeError, FitError for those that do not fit."""
        return self._run(self.mod[name], name, args, Frame())

    def _run(self, func, name, args, frame):
        if len(args) != len(func.params):
            raise TypeError(f"{name} takes {len(func.params)} arguments, got {len(args)}")
        args = tuple(map(as_value, args))
        if self.checks:
            fit(args, [p.struct_info for p in func.params], frame.dims,
                [f"parameter {p.name} of {name} (argument {k})" for k, p in enumerate(func.params)])
        frame.values.update({id(p): ShapeTuple(v) if isinstance(p.struct_info, ShapeStructInfo) else v
                             for p, v in zip(func.params, args)})
        result = self._sequence(func.body, frame, self._ends_of(func))
        if self.checks:
            fit([result], [func.ret_struct_info], frame.dims, [f"return value of {name}"])
        return result

    def _ends_of(self, func):
        """{position: variables that are used there for the last time} of a function, found once."""
        if id(func) not in self._ends:
            self._ends[id(func)] = func, {} if collect(func.body, (Function, If)) else last_uses(func)
        return self._ends[id(func)][1]

    def _sequence(self, seq, frame, last):
        for n, b in enumerate(b for block in seq.blocks for b in block.bindings):
            value = self.value(b.value, frame)
            if isinstance(b, MatchCast):
                fit([value], [b.var.struct_info], frame.dims, [f"match_cast of {b.var.name}"])
            frame.values[id(b.var)] = value
            for var in last.get(n, ()):
                frame.values.pop(id(var), None)
        return self.value(seq.body, frame)

    def value(self, expr, frame):
        """The value of an expression."""
        return _VALUES[type(expr)](self, expr, frame)

    # ------------------------------------------------------------ calls

    def _call(self, call, frame):
        if not isinstance(call.op, str):
            return self.value(call.op, frame)(*(self.value(a, frame) for a in call.args))
        special = _CALLS.get(call.op)
        if special is not None:
            return special(self, call, frame, [self.value(a, frame) for a in call.args])
        return self._operator(call, frame)

    def _operator(self, call, frame):
        """An operator by its reference."""
        arrays = {v: plain(frame.values[id(v)]) for v in collect(call, VARS)}
        args = [self.value(a, frame) for a in call.args] if self.instrument else []
        known, arrays = known_call(call, arrays)
        given = [*_arrays(tuple(arrays.values())), *(c.data for c in collect(known, Constant))]
        return self._outside(lambda *_: as_value(_apart(evaluate_expr(known, arrays, frame.dims, self.mod), given)),
                             call.op, args)

    def _outside(self, function, name, args):
        """function(*args), and the instrument before and after."""
        if self.instrument is None:
            return function(*args)
        if self.instrument(function, str(name), True, None, *args) == SKIP_RUN:
            return None
        result = function(*args)
        self.instrument(function, str(name), False, result, *args)
        return result

    def _function(self, call, frame, args):
        name = call.attrs["gv"].name
        if isinstance(self.mod[name], PrimFunc):
            self._outside(self.kernel_of(name), name, [*flat_sizes(args)])
            return ()
        return self.function_of(name)(*args)

    def _kernel(self, call, frame, args):
        name = call.attrs["gv"].name
        return self._into_outputs(self.kernel_of(name), name, call, frame, args,
                                  [dim_value(d, frame.dims) for d in call.attrs.get("sym_args", ())])

    def _kernel_in_place(self, call, frame, args):
        name, sizes = call.attrs["gv"].name, [dim_value(d, frame.dims) for d in call.attrs.get("sym_args", ())]
        outputs, tensors = outputs_of(call, args, lambda i: _made(i, frame))
        self._outside(self.kernel_of(name), name, [*tensors, *sizes])
        return tuple(outputs) if isinstance(call.struct_info, TupleStructInfo) else outputs[0]

    @staticmethod
    def _foreign(call, frame):
        """The name of a foreign function, and the function itself where a variable holds it."""
        func = call.attrs["func"]
        if not isinstance(func, VARS):
            return str(func), None
        function = frame.values[id(func)]
        return getattr(function, "__name__", func.name), function

    def _dps(self, call, frame, args):
        name, function = self._foreign(call, frame)
        function = function or (self.kernel_of(name) if name in self.mod else get_global_func(name))
        return self._into_outputs(function, name, call, frame, args, ())

    def _into_outputs(self, function, name, call, frame, args, sizes):
        info = call.struct_info
        outputs = tuple(_made(i, frame) for i in fields_of(call.struct_info))
        self._outside(function, name, [*args, *outputs, *sizes])
        return outputs if isinstance(info, TupleStructInfo) else outputs[0]

    def _kill(self, call, frame, args):
        """Let go of what a variable holds."""
        if isinstance(call.args[0], VARS):
            frame.values[id(call.args[0])] = None
        return ()

    def _packed(self, call, frame, args):
        name, function = self._foreign(call, frame)
        return as_value(self._outside(function or get_global_func(name), name, args))

    def _branch(self, expr, frame):
        taken = expr.true_branch if bool(np.asarray(plain(self.value(expr.cond, frame)))) else expr.false_branch
        return self._sequence(taken, frame, {})

    def _local(self, func, frame):
        """A function inside another as a value: it sees what is around it, itself too."""
        def call(*args):
            return self._run(func, "an inner function", args, Frame(_Around(frame.values), dict(frame.dims)))
        return call


def _arrays(value):
    """The arrays in a value."""
    if isinstance(value, tuple):
        return [a for v in value for a in _arrays(v)]
    return [value] if isinstance(value, np.ndarray) else []


def _apart(value, given):
    """A result that is no view of the arrays `given`, so that a call in place writes what is its own."""
    if isinstance(value, (tuple, list)):
        return tuple(_apart(v, given) for v in value)
    shared = isinstance(value, np.ndarray) and any(np.may_share_memory(value, np.asarray(a)) for a in given)
    return value.copy() if shared else value


def _made(info, frame):
    """A new tensor of this struct info."""
    return empty([dim_value(d, frame.dims) for d in info.shape], str(info.dtype))


class _Around(dict):
    """Values of an inner function's run, over those around it."""

    def __init__(self, outer):
        super().__init__()
        self.outer = outer

    def __missing__(self, key):
        return self.outer[key]


def _number(expr, dims):
    value = expr.value
    if isinstance(value, (StringImm, FloatImm)):
        return value.value
    return dim_value(value, dims) if not isinstance(value, Call) else value


_VALUES = {
    **dict.fromkeys(VARS, lambda m, v, frame: frame.values[id(v)]),
    Constant: lambda m, c, frame: as_value(c.data),
    ShapeExpr: lambda m, s, frame: ShapeTuple(dim_value(d, frame.dims) for d in s.values),
    PrimValue: lambda m, p, frame: _number(p, frame.dims),
    RelaxString: lambda m, s, frame: s.value,
    DataTypeImm: lambda m, d, frame: str(d.value),
    RelaxTuple: lambda m, t, frame: tuple(m.value(f, frame) for f in t.fields),
    TupleGetItem: lambda m, t, frame: m.value(t.tuple_value, frame)[t.index],
    ExternFunc: lambda m, e, frame: get_global_func(e.global_symbol),
    GlobalVar: lambda m, gv, frame: (m.kernel_of if isinstance(m.mod[gv.name], PrimFunc) else m.function_of)(gv.name),
    If: Machine._branch, Function: Machine._local, RelaxCall: Machine._call,
}


_VIEW = ("data", "shape", "dtype", "relative_byte_offset")  # the operands of memory.view
_UNIQUE = ("x", "sorted", "return_index", "return_inverse", "return_counts", "axis")
_CALLS = {
    "call": Machine._function, "call_tir": Machine._kernel,
    "call_tir_inplace": Machine._kernel_in_place, "call_dps_packed": Machine._dps,
    **dict.fromkeys(("call_packed", "call_pure_packed", "call_inplace_packed"), Machine._packed),
    "call_builtin_with_ctx": lambda m, call, frame, args: Machine._packed(m, call, frame, [m, *args]),
    "vm.call_tir_dyn": lambda m, call, frame, args: PLAIN_CALLS["vm.call_tir_dyn"](args[0], *args[1]),
    **{name: lambda m, call, frame, args, f=f: f(*args) for name, f in PLAIN_CALLS.items()},
    **dict.fromkeys(("vm.kill_object", "memory.kill_tensor", "memory.kill_storage"), Machine._kill),
    "memory.view": lambda m, call, frame, args: PLAIN_CALLS["memory.view"](args[0], **dict(zip(
        call.attrs.get("operands", _VIEW)[1:], args[1:]))),
    "unique": lambda m, call, frame, args: unique(**dict(zip(call.attrs.get("operands", _UNIQUE), args))),
    "nonzero": lambda m, call, frame, args: nonzero(*args),
    **dict.fromkeys(("to_vdevice", "hint_on_device"), lambda m, call, frame, args: args[0]),
    "print": lambda m, call, frame, args: print_values(args, call.attrs.get("format", "")),
    "assert_op": lambda m, call, frame, args: assert_holds(*args, text=call.attrs.get("format", "")),
}

__all__ = ["Closure", "FitError", "Machine", "SKIP_RUN", "ShapeTuple", "as_value"]
