"""T.* of an IRBuilder: TensorIR in the words of its script.

The names are the script's. What they give is the same request (specs.py), and the handlers that meet it are those of the
script's parser: a Requests has them without a text. Requests that stand before `with` become frames.
"""
from __future__ import annotations

import inspect

from ...dtype import DataType
from ...expr import Let as LetExpr, Var, as_expr
from ...module import linked
from ...te.tensor import CommReducer
from ...tir.buffer import Buffer
from ...tir.signatures import completed
from ...tir.stmt import IfThenElse, Stmt
from .. import specs as S
from ..block_parser import Frame, joined
from ..namespaces import Namespace
from ..tir_names import T as NAMES
from ..tir_parser import SPEC_ASSIGNMENTS, SPEC_STATEMENTS, SPEC_SUITES, TIRParser
from .base import IRBuilder, IRBuilderFrame
from .ir import IRModuleFrame

# What these describe is lost where nothing is around them.
_DESCRIBE = (S.AttrsSpec, S.RegionsSpec, S.WhereSpec, S.AxisSpec, S.RemapSpec)
_OWNED = ("alloc", "match")  # buffers of a function or block


class Requests(TIRParser):
    """What meets the requests of one function, or of what stands outside of functions: of no text, so that what is wrong
    is a ValueError without a place."""

    def __init__(self):
        super().__init__(None, {})

    def fail(self, node, message):
        raise ValueError(message)

    def blame(self, node, error, who=""):
        raise error

    def named(self, handler, spec, name, *before):
        """(what a handler gives, the value that it binds to `name`)."""
        self.scopes.append({})
        made = handler(self, None, *before, name) if before else handler(self, None, name, spec)
        return made, self.scopes.pop().get(name)


class TIRFrame(IRBuilderFrame):
    """A frame of statements. start(requests) gives what stands after `as`, and the Scoped that closes it."""

    def __init__(self, title, start):
        self.title, self._start, self.stmts = title, start, []

    def opened(self, builder):
        value, self._scoped = self._start(requests(builder))
        return self if value is None else value

    def add(self, made):
        if not isinstance(made, Stmt):
            super().add(made)
        self.stmts.append(made)

    def closed(self, builder):
        made = self._scoped.build(joined(self.stmts))
        if made is not None:
            builder.add(made)


class PrimFuncFrame(IRBuilderFrame):
    title = "T.prim_func"

    def __init__(self, is_private):
        self.is_private, self.name, self.stmts = is_private, None, []

    def opened(self, builder):
        self.requests = Requests()
        self.requests.frames.append(Frame())
        return self

    add = TIRFrame.add

    def closed(self, builder):
        func = completed(self.requests.closed_function(joined(self.stmts)), None, self.requests.is_stated)
        finished(builder, func, self.name, self.is_private)


def finished(builder, func, name, private):
    """Hand over a function: to the module around it, under its name."""
    module = builder.find(IRModuleFrame)
    func = func if name is None else linked(func, name, private)
    if module is None:
        return builder.add(func)
    if name is None:
        raise ValueError("a function of a module has a name: say func_name(name) in it")
    module.define(name, func)


class IfFrame(IRBuilderFrame):
    title = "T.If, outside of T.Then and T.Else"

    def __init__(self, condition):
        self._condition, self.branches = condition, {}

    def opened(self, builder):
        self.condition = requests(builder).condition(self._condition, None)
        return self

    def closed(self, builder):
        if "Then" not in self.branches:
            raise ValueError("T.If has no T.Then")
        builder.add(IfThenElse(self.condition, self.branches["Then"], self.branches.get("Else")))


class BranchFrame(TIRFrame):
    """T.Then or T.Else in a T.If."""

    def __init__(self, branch):
        self.title, self.branch, self.stmts = f"T.{branch}", branch, []

    def opened(self, builder):
        around = builder.frames[-1] if builder.frames else None
        if not isinstance(around, IfFrame):
            raise ValueError(f"T.{self.branch} stands directly in a T.If")
        if self.branch in around.branches or (self.branch == "Else" and not around.branches):
            raise ValueError("a T.If has one T.Then, and after it at most one T.Else")
        return self

    def closed(self, builder):
        builder.frames[-1].branches[self.branch] = joined(self.stmts)


# ---------------------------------------------------------------- requests

def requests(builder):
    """The Requests of the function that is being built, or of the builder."""
    function = builder.find(PrimFuncFrame)
    if function is not None:
        return function.requests
    if not hasattr(builder, "requests"):
        builder.requests = Requests()
    return builder.requests


def _function_frame():
    frame = IRBuilder.current().find(PrimFuncFrame)
    if frame is None:
        raise ValueError("this stands in a function: write `with T.prim_func():` around it")
    return frame


def _loops(spec):
    def start(held):
        variables, scoped = held.open_loops(None, spec, ["v"] * len(spec.heads))
        return variables[0] if len(variables) == 1 else variables, scoped
    return TIRFrame("a loop", start)


def _scope(spec):
    """The frame of what stands before `with`."""
    handler, name = SPEC_SUITES[type(spec)], "buffer" if isinstance(spec, S.BufferSpec) else "v"

    def start(held):
        scoped, value = held.named(handler, spec, name, spec)
        return value, scoped
    return TIRFrame(spec.place, start)


def _described(spec):
    """Have a request that describes what is around it met at once; the value that it stands for."""
    held = requests(IRBuilder.current())
    if not held.frames:
        raise ValueError(f"this stands in a function or block: it is {spec.place}")
    if type(spec) in SPEC_STATEMENTS:
        return SPEC_STATEMENTS[type(spec)](held, None, spec)
    return held.named(SPEC_ASSIGNMENTS[type(spec)], spec, "buffer" if isinstance(spec, S.BufferSpec) else "v")[1]


def _buffer(spec):
    """A buffer over memory of others is one everywhere; others are of a function or block, or a frame."""
    if spec.how == "buffer":
        return spec.make("buffer", lambda e: as_expr(getattr(e, "var", e)))
    return _described(spec) if spec.how in _OWNED else _scope(spec)


def _thread(spec):
    return requests(IRBuilder.current()).named(SPEC_ASSIGNMENTS[S.EnvThread], spec, "v")[1]


MET = {S.Fresh: lambda spec: Var("v", spec.dtype), S.Loops: _loops, S.BufferSpec: _buffer, S.EnvThread: _thread,
       **dict.fromkeys(_DESCRIBE, _described)}


def met(value):
    """What a request, or another result of one of the script's names, is in Python."""
    if isinstance(value, Stmt):
        return IRBuilder.current().add(value)
    if type(value) in MET:
        return MET[type(value)](value)
    return _scope(value) if type(value) in SPEC_SUITES else value


class Building:
    """One of the script's names, whose results are met. names: whose attributes it has."""

    def __init__(self, row):
        self._row = row

    def __call__(self, *args, **kwargs):
        return met(self._row(*args, **kwargs))

    def __getitem__(self, item):
        return met(self._row[item])

    def __getattr__(self, name):
        return Building(getattr(self._row, name))


def _name(name):
    """The meaning of one of the script's names."""
    if name.startswith("_"):
        return None
    row = getattr(NAMES, name)
    return Building(row) if callable(row) or isinstance(row, Namespace) else row


# ---------------------------------------------------------------- names of the builder's own

def prim_func(is_private=False):
    """with T.prim_func(): a PrimFunc of what is built inside."""
    return PrimFuncFrame(is_private)


def arg(name, obj):
    """A parameter of the function: a variable, or a Buffer, which gets a handle. obj itself, of this name."""
    held = _function_frame().requests
    IRBuilder.name(name, obj)
    if isinstance(obj, Buffer):
        param = Var(f"{name}_handle", "handle")
        held.buffer_map[param] = obj
    elif isinstance(obj, Var):
        param = obj
    else:
        raise TypeError(f"a parameter is a variable or a Buffer, not a {type(obj).__name__}")
    held.params.append(param)
    return obj


def func_name(name):
    """Name the function."""
    frame = _function_frame()
    if frame.name is not None:
        raise ValueError(f"the function is named twice: {frame.name} and {name}")
    frame.name = name


def func_ret(ret_type):
    """Say what the function returns, which its T.ret(value) says as well."""
    _function_frame()
    return ret_type


def _let(v, value, body=None):
    """T.let(v, value, body), an expression; with T.let(v, value): statements."""
    if body is not None:
        return LetExpr(v, as_expr(value, v.dtype), as_expr(body))
    return met(S.LetSpec(value, None, v))


def _let_where(expr, where):
    """T.Let(expr, where={v: value})."""
    for v, value in reversed(list(where.items())):
        expr = _let(v, value, expr)
    return expr


def comm_reducer(combiner, identity):
    """The reduction of combiner(lhs..., rhs...), which gives one value for each identity."""
    identity = tuple(map(as_expr, identity))
    names = list(inspect.signature(combiner).parameters)
    if len(names) != 2 * len(identity):
        raise ValueError(f"{len(identity)} identities are of {2 * len(identity)} variables, not {len(names)}")
    variables = [Var(name, e.dtype) for name, e in zip(names, identity * 2)]
    result = combiner(*variables)
    result = tuple(map(as_expr, result if isinstance(result, (list, tuple)) else (result,)))
    if len(result) != len(identity):
        raise ValueError(f"{len(identity)} identities are of as many results, not {len(result)}")
    return CommReducer(tuple(variables[:len(identity)]), tuple(variables[len(identity):]), result, identity)


ROWS = {
    "prim_func": prim_func, "arg": arg, "func_name": func_name, "func_ret": func_ret, "If": IfFrame,
    "Then": lambda: BranchFrame("Then"), "Else": lambda: BranchFrame("Else"), "let": _let, "Let": _let_where,
    "comm_reducer": comm_reducer, "var": lambda dtype, name="v": Var(name, DataType(dtype)),
}
T = Namespace("T", ROWS, _name)

__all__ = ["Building", "PrimFuncFrame", "T", "TIRFrame", "finished", "met"]
