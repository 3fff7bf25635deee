"""The table of primitives and the one decorator that puts them there.

A primitive is a pure function (context, arguments) -> Result: check, rewrite, handles. The decorator's `apply`
validates the arguments by kind, resolves handles to the statements they stand for, runs the primitive, and records
an Instruction. A refusal leaves the schedule as it was.
"""
from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from types import FunctionType
from typing import Callable

from ..expr import FloatImm, IntImm, StringImm
from ..node import Node
from ..tir.buffer import Buffer
from ..tir.index_map import IndexMap
from .errors import ScheduleError
from .handles import RV, BlockRV, ExprRV, LoopRV, handles_in
from .table import PRIMITIVES
from .trace import Instruction


@dataclass(frozen=True)
class Result:
    """The result of a primitive: the new function, and the blocks (names) and loops (Vars) that it created or found.

    renamed: {old block name: new}, which handles follow. recorded: {argument: value} that the trace keeps instead of
    what was given, so that a replay decides the same.
    """

    func: object
    outputs: tuple = ()
    renamed: dict = field(default_factory=dict)
    recorded: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Kind:
    """A kind of argument: what to call it, and check(value) -> the value in trace form, or raise TypeError."""

    words: str
    check: Callable
    resolve: Callable = None  # resolve(context, value) -> what the primitive gets; default the value


def _of_type(*types):
    def check(value):
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise TypeError
        return value
    return check


def _handle(rv_type, others=()):
    return _of_type(rv_type, *others)


def _list_of(check):
    def check_list(value):
        if not isinstance(value, (list, tuple)):
            raise TypeError
        return tuple(check(v) for v in value)
    return check_list


def _optional(check):
    return lambda value: None if value is None else check(value)


def _factor(value):
    """A factor; integers of other types (numpy's, IntImm) become ints, sampled ones stay handles."""
    if isinstance(value, ExprRV):
        return value
    if hasattr(value, "__index__") and not isinstance(value, bool):
        value = int(value)
    return _optional(_of_type(int))(value)


def _resolve_numbers(ctx, value):
    """The value with the numbers that its handles stand for."""
    if isinstance(value, tuple):
        return tuple(_resolve_numbers(ctx, v) for v in value)
    return ctx.number(value) if isinstance(value, ExprRV) else value


def _resolve_each(ctx, values):
    return tuple(ctx.resolve(v) for v in values)


def _buffer_choice(value):
    """A position in the signature, or the name of the buffer."""
    return value.name if isinstance(value, Buffer) else _of_type(int, str)(value)


def _buffer_ref(value):
    """("read" or "write", position), or the name of the buffer."""
    if isinstance(value, Buffer):
        return value.name
    if isinstance(value, (tuple, list)):
        kind, position = value if len(value) == 2 else (None, None)
        if kind not in ("read", "write"):
            raise TypeError
        return kind, _of_type(int)(position)
    return _of_type(str)(value)


def _index_map(value):
    return _of_type(IndexMap, FunctionType)(value)


_PYTHON = {"int32": int, "bool": bool, "float32": float}  # the dtypes that Python's values stand for


def _annotation(value):
    """Tuples for lists, texts as keys of dicts, and Python's values for the immediates that these stand for."""
    if isinstance(value, (list, tuple)):
        return tuple(_annotation(v) for v in value)
    if isinstance(value, dict) and not handles_in(tuple(value.values())):
        return {_of_type(str)(key): _annotation(v) for key, v in value.items()}
    if isinstance(value, StringImm):
        return value.value
    if isinstance(value, (IntImm, FloatImm)) and value.dtype in _PYTHON:
        return _PYTHON[value.dtype](value.value)
    return _of_type(str, int, float, bool, Node, ExprRV, type(None))(value)


LOOP = Kind("a loop (LoopRV)", _handle(LoopRV), lambda ctx, v: ctx.resolve(v))
LOOPS = Kind("loops (LoopRV)", _list_of(_handle(LoopRV)), _resolve_each)
BLOCK = Kind("a block (BlockRV or name)", _handle(BlockRV), lambda ctx, v: ctx.resolve(v))
BLOCKS = Kind("a list of blocks (BlockRV or name)", _optional(_list_of(_handle(BlockRV))),
              lambda ctx, v: None if v is None else _resolve_each(ctx, v))
PLACE = Kind("a loop (LoopRV) or a block (BlockRV or name)", _handle(RV), lambda ctx, v: ctx.resolve(v))
TARGET = Kind("a loop (LoopRV) or a list of blocks (BlockRV or name)",
              lambda v: v if isinstance(v, LoopRV) else _list_of(_handle(BlockRV))(v),
              lambda ctx, v: _resolve_each(ctx, v) if isinstance(v, tuple) else ctx.resolve(v))
LOCATION = Kind("a loop (LoopRV)", _handle(LoopRV), lambda ctx, v: ctx.location(v))
FACTORS = Kind("a list of ints with at most one None", _list_of(_factor), _resolve_numbers)
INT = Kind("an int", _of_type(int))
INTS = Kind("a list of ints", _list_of(_of_type(int)))
NUMBERS = Kind("a list of numbers", _list_of(_of_type(int, float)))
CHOICE = Kind("an int or None", _optional(_of_type(int)))
TILING = Kind("a list of ints or None", _optional(_list_of(_of_type(int))))
EXPR = Kind("a number (ExprRV)", _handle(ExprRV))
EXPRS = Kind("numbers (ExprRV)", _list_of(_handle(ExprRV)))
BOOL = Kind("a bool", _of_type(bool))
STR = Kind("a string", _of_type(str))
NAME = Kind("a string or None", _optional(_of_type(str)))
BUFFER = Kind("a position in the block's signature or a buffer's name", _buffer_choice)
BUFFER_REF = Kind('("read" or "write", position) or a buffer\'s name', _buffer_ref)
INDEX_MAP = Kind("a function from indices to indices, or an IndexMap", _index_map)
PAD_VALUE = Kind("a number or None", _optional(_of_type(int, float)))
VALUE = Kind("a string, number, node, or a list or dict of these", _annotation, _resolve_numbers)


@dataclass(frozen=True)
class Primitive:
    """One row of the table. output: None, LOOP, LOOPS, BLOCK, BLOCKS, EXPR or EXPRS.

    is_pure: whether the program stays as it is, so that the step may go when nothing uses its outputs.
    """

    name: str
    run: Callable
    output: Kind
    kinds: dict
    signature: inspect.Signature
    variadic: str
    is_pure: bool

    @property
    def listed(self):
        """Whether the outputs are returned as a list."""
        return self.output in (LOOPS, BLOCKS, EXPRS)

    def apply(self, schedule, values):
        """Apply to `schedule` with {argument: value}; returns the handles."""
        before = len(schedule.trace)
        try:
            return self._apply(schedule, values)
        except ScheduleError:
            while len(schedule.trace) > before:  # blocks that were named were looked up
                schedule.trace.pop()
            raise

    def _apply(self, schedule, values):
        traced = {name: self._check(schedule, name, kind, values[name]) for name, kind in self.kinds.items()}
        ctx = schedule.context(self.name, traced)
        resolved = {n: k.resolve(ctx, traced[n]) if k.resolve else traced[n] for n, k in self.kinds.items()}
        several = resolved.pop(self.variadic, ())
        result = self.run(ctx, *several, **resolved)
        return self._record(schedule, ctx, traced, result)

    def _check(self, schedule, name, kind, value):
        if kind in (BLOCK, BLOCKS, PLACE, TARGET):
            value = _blocks_by_name(schedule, value)
        try:
            return kind.check(value)
        except TypeError:
            shown = type(value).__name__ if isinstance(value, RV) else repr(value)
        raise ScheduleError(self.name, f"'{name}'", f"must be {kind.words}, not {shown}", level="fast")

    def _record(self, schedule, ctx, traced, result):
        handle = LoopRV if self.output in (LOOP, LOOPS) else ExprRV if self.output in (EXPR, EXPRS) else BlockRV
        handles = tuple(handle() for _ in result.outputs)
        traced.update(result.recorded)
        if "func_name" in traced:
            traced["func_name"] = ctx.func_name
        decision = traced.pop("decision", None)
        inst = Instruction(self.name, tuple(traced.items()), handles, self.listed, self.variadic)
        schedule.commit(ctx.func_name, result, handles, inst, decision)
        if self.listed:
            return list(handles)
        return handles[0] if handles else None


def _blocks_by_name(schedule, value):
    if isinstance(value, str):
        return schedule.get_block(value)
    if isinstance(value, (list, tuple)):
        return tuple(_blocks_by_name(schedule, v) for v in value)
    return value


def primitive(output, /, *, pure=False, **kinds):
    """Decorator: register a primitive. `kinds` gives the kind of each argument; the first parameter is the context."""
    def register(function):
        params = list(inspect.signature(function).parameters.values())[1:]
        names = [p.name for p in params]
        if set(names) != set(kinds):
            raise TypeError(f"{function.__name__}: kinds are declared for {sorted(kinds)}, parameters are {names}")
        variadic = next((p.name for p in params if p.kind is p.VAR_POSITIONAL), "")
        PRIMITIVES[function.__name__] = Primitive(
            function.__name__, function, output, {n: kinds[n] for n in names}, inspect.Signature(params), variadic,
            pure)
        return function
    return register


_OLDER = {("blockize", "loop"): "target"}  # (primitive, what older versions of TVM call an argument): its name


def method_of(primitive_):
    """The Schedule method that applies a primitive, with its signature and documentation."""
    signature = primitive_.signature
    older = {old: new for (name, old), new in _OLDER.items() if name == primitive_.name}

    def method(self, *args, **kwargs):
        bound = signature.bind(*args, **{older.get(name, name): value for name, value in kwargs.items()})
        bound.apply_defaults()
        return primitive_.apply(self, bound.arguments)

    self_param = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__signature__ = inspect.Signature([self_param, *signature.parameters.values()])
    method.__name__ = method.__qualname__ = primitive_.name
    method.__doc__ = primitive_.run.__doc__
    return method
