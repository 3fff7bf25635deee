"""The table of primitives and the one decorator that puts them there.

A primitive is a pure function (context, arguments) -> Result: check, rewrite, handles. The decorator's `apply`
validates the arguments by kind, resolves handles to the statements they stand for, runs the primitive, and records
an Instruction. A refusal leaves the schedule as it was.
"""
from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from functools import cached_property
from types import FunctionType
from typing import Callable

from ..expr import FloatImm, IntImm, PrimExpr, StringImm
from ..node import Node
from ..tir.buffer import Buffer
from ..tir.index_map import IndexMap
from .errors import ScheduleError
from .handles import RV, BlockRV, ExprRV, LoopRV, handles_in
from .table import PRIMITIVES
from .trace import Instruction, InstructionKind


@dataclass(frozen=True)
class Result:
    """The result of a primitive: the new function, and the blocks (names) and loops (Vars) that it created or found.

    renamed: {old block name: new}, which handles follow. recorded: {argument: value} that the trace keeps instead of
    what was given, so that a replay decides the same. then: (primitive, {argument: value}) of a step that follows,
    which has the other arguments that it knows from this one, and is never refused.
    """

    func: object
    outputs: tuple = ()
    renamed: dict = field(default_factory=dict)
    recorded: dict = field(default_factory=dict)
    then: tuple = ()


@dataclass(frozen=True)
class Kind:
    """A kind of argument: what to call it, and check(value) -> the value in trace form, or raise TypeError.

    place: where an Instruction keeps it: "attrs", "inputs" (what handles may be in), or "spread", as inputs one by one.
    """

    words: str
    check: Callable
    resolve: Callable = None  # resolve(context, value) -> what the primitive gets; default the value
    place: str = "attrs"


def _of_type(*types):
    def check(value):
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise TypeError
        return value
    return check


def _one_of(*texts):
    def check(value):
        if value not in texts:
            raise TypeError
        return value
    return check


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


def _extent(value):
    """A factor, or an integer expression."""
    if isinstance(value, PrimExpr) and not isinstance(value, IntImm):
        if not value.dtype.is_int:
            raise TypeError
        return value
    return _factor(value)


def _int(value):
    """An int, or the value of an IntImm."""
    return _of_type(int)(int(value.value) if isinstance(value, IntImm) else value)


def _number(value):
    """An int or a float, an int where it is whole, as numbers are in JSON; or the value of an immediate."""
    value = _of_type(int, float)(value.value if isinstance(value, (IntImm, FloatImm)) else value)
    return int(value) if float(value).is_integer() else value


def _resolve_numbers(ctx, value):
    """The value with the numbers that its handles stand for."""
    if isinstance(value, tuple):
        return tuple(_resolve_numbers(ctx, v) for v in value)
    return ctx.number(value) if isinstance(value, ExprRV) else value


def _resolve_own(ctx, value):
    """The value with the numbers that its handles stand for, in the function's variables."""
    return ctx.own(_resolve_numbers(ctx, value))


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


LOOP = Kind("a loop (LoopRV)", _of_type(LoopRV), lambda ctx, v: ctx.resolve(v), place="inputs")
LOOPS = Kind("loops (LoopRV)", _list_of(_of_type(LoopRV)), _resolve_each, place="spread")
BLOCK = Kind("a block (BlockRV or name)", _of_type(BlockRV), lambda ctx, v: ctx.resolve(v), place="inputs")
BLOCKS = Kind("a list of blocks (BlockRV or name)", lambda v: _optional(_list_of(_of_type(BlockRV)))(v) or None,
              lambda ctx, v: None if v is None else _resolve_each(ctx, v), place="spread")
PLACE = Kind("a loop (LoopRV) or a block (BlockRV or name)", _of_type(RV),
             lambda ctx, v: ctx.resolve(v), place="inputs")
TARGET = Kind("a loop (LoopRV) or a list of blocks (BlockRV or name)",
              lambda v: v if isinstance(v, LoopRV) else _list_of(_of_type(BlockRV))(v),
              lambda ctx, v: _resolve_each(ctx, v) if isinstance(v, tuple) else ctx.resolve(v), place="inputs")
LOCATION = Kind("a loop (LoopRV)", _of_type(LoopRV), lambda ctx, v: ctx.location(v), place="inputs")
FACTORS = Kind("a list of ints with at most one None", _list_of(_factor), _resolve_numbers, place="spread")
EXTENTS = Kind("a list of ints or integer expressions with at most one None", _list_of(_extent), _resolve_own,
               place="spread")
INT = Kind("an int", _int)
INTS = Kind("a list of ints", _list_of(_int))
NUMBERS = Kind("a list of numbers", _list_of(_number))
CHOICE = Kind("an int or None", _optional(_of_type(int)))
TILING = Kind("a list of ints or None", _optional(_list_of(_of_type(int))))
EXPR = Kind("a number (ExprRV)", _of_type(ExprRV), place="inputs")
EXPRS = Kind("numbers (ExprRV)", _list_of(_of_type(ExprRV)), place="spread")
BOOL = Kind("a bool", _of_type(bool))
STR = Kind("a string", _of_type(str))
NAME = Kind("a string or None", _optional(_of_type(str)))
SIDE = Kind('"read" or "write"', _one_of("read", "write"))
BUFFER = Kind("a position in the block's signature or a buffer's name", _buffer_choice)
BUFFER_REF = Kind('("read" or "write", position) or a buffer\'s name', _buffer_ref)
INDEX_MAP = Kind("a function from indices to indices, or an IndexMap", _index_map)
PAD_VALUE = Kind("a number, an expression, a function from indices to a value, an IndexMap or None", _optional(
    lambda v: _of_type(int, float, PrimExpr, IndexMap, FunctionType)(v)), lambda ctx, v: ctx.own(v))
VALUE = Kind("a string, number, node, or a list or dict of these", _annotation, _resolve_own, place="inputs")

# Primitives whose instructions are not called as their names in words are.
CLASSIC = {"reindex": "ReIndex", "rfactor": "RFactor", "unsafe_set_dtype": "UnsafeSetDType"}


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

    @cached_property
    def kind(self):
        """The InstructionKind of steps of this primitive."""
        return InstructionKind(CLASSIC.get(self.name) or "".join(p.title() for p in self.name.split("_")),
                               self.is_pure, self)

    def split(self, args):
        """(inputs, attrs) of an Instruction with {argument: value}."""
        inputs, attrs = [], []
        for name, value in args.items():
            place = self.kinds[name].place
            if place == "spread":
                inputs += value or ()
            else:
                (inputs if place == "inputs" else attrs).append(value)
        return tuple(inputs), tuple(attrs)

    def join(self, inputs, attrs):
        """{argument: value} of an Instruction's inputs and attrs; attrs that are left out at the end have their
        defaults. Raises ValueError where they do not fit."""
        args, inputs, attrs = {}, list(inputs), list(attrs)
        single = sum(kind.place == "inputs" for kind in self.kinds.values())
        spread = len(inputs) - single
        for name, kind in self.kinds.items():
            default = self.signature.parameters[name].default
            if name == "decision":
                continue
            if kind.place == "spread":
                args[name] = tuple(inputs.pop(0) for _ in range(spread)) or (None if default is None else ())
                spread = 0
            elif inputs if kind.place == "inputs" else attrs:
                args[name] = (inputs if kind.place == "inputs" else attrs).pop(0)
            elif default is not inspect.Parameter.empty:
                args[name] = default
            else:
                raise ValueError(f"{self.kind.name} needs {name}")
        if inputs or attrs or spread:
            raise ValueError(f"{self.kind.name} takes {', '.join(self.kinds) or 'nothing'}, not also "
                             f"{inputs + attrs}")
        return args

    def check(self, args):
        """{argument: value} as traces keep them. Raises ValueError where a value is not of its kind."""
        for name, value in args.items():
            try:
                args[name] = self.kinds[name].check(value)
            except TypeError:
                raise ValueError(f"{self.kind.name}: {name} must be {self.kinds[name].words}, not {value!r}") from None
        return args

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
        handles = self._record(schedule, ctx, traced, result)
        if result.then:
            name, args = result.then
            schedule.apply(name, {k: args.get(k, traced.get(k)) for k in PRIMITIVES[name].kinds})
        return handles

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
        inst = Instruction.of(self.kind, traced, handles)
        schedule.commit(ctx.func_name, result, handles, inst, decision)
        if self.listed:  # None instead of a number that split is to infer
            return [None if value is None else rv for rv, value in zip(handles, result.outputs)]
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
