"""Records: how kernels were scheduled, by their names, which takes the place of the rules' choices.

A record is a Plan, which a rule follows, or a Trace, whose primitives are applied; with the structural hash of the loop
program that it was made for, where it says that.
"""
from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass

from ..ir.module import IRModule
from ..ir.node import digest
from ..ir.schedule.errors import ScheduleError
from ..ir.schedule.plan import ATTRIBUTE, Plan, Tile
from ..ir.schedule.schedule import Schedule
from ..ir.schedule.trace import Trace
from ..ir.script import expr_to_str
from .kernels import find_kernels

_NODES = {"Plan": Plan, "Tile": Tile}
_SIZES = {"vectors": 1, "rows": 1, "columns": 1, "channels": 1, "block": 1, "turn": 0,
          "parts": 0}  # and the least of each
_TUPLES = {"order": str, "stages": Plan}


@dataclass(frozen=True)
class Record:
    """schedule: a Plan or a Trace; kernel: the hash of the loop program that it is for, "" for any that it fits."""

    schedule: Plan | Trace
    kernel: str = ""

    @property
    def by_plan(self):
        return isinstance(self.schedule, Plan)

    def as_json(self):
        """What check_schedules takes; "words" are for readers."""
        if not self.by_plan:
            return {"kernel": self.kernel, "trace": self.schedule.as_json()}
        return {"kernel": self.kernel, "plan": expr_to_str(self.schedule), "words": str(self.schedule)}


def kernel_hash(func):
    """The hash of a loop program before it is scheduled, whatever its names and origins are."""
    return digest(func.replace(attrs={})).hex()


def check_schedules(schedules):
    """{kernel: Record} of a mapping of kernels to Records, Plans, Traces, or what their as_json gave. Raises ValueError
    naming the entry that is none."""
    if schedules is None:
        return {}
    if not isinstance(schedules, Mapping):
        raise ValueError(f"schedules is a mapping of kernels to recorded traces or plans, not {schedules!r}")
    return {name: _record(name, saved) for name, saved in schedules.items()}


def _record(name, saved):
    try:
        if isinstance(saved, Record):
            return saved
        if isinstance(saved, Mapping):
            (given,) = [key for key in ("plan", "trace") if key in saved] or [None]
            if given is None or set(saved) - {"kernel", "words", given} or not isinstance(saved.get("kernel", ""), str):
                raise ValueError("a record has a plan or a trace, and may have a kernel and words, not "
                                 + ", ".join(saved))
            return Record(_schedule(saved[given]), saved.get("kernel", ""))
        return Record(_schedule(saved))
    except ValueError as error:
        raise ValueError(f"schedules[{name!r}]: {error}; a trace is what inspect prints at stage traces, or sch.trace "
                         "of a Schedule, a plan what it prints at stage plans") from None


def _schedule(saved):
    if isinstance(saved, str):
        try:
            saved = _parsed(ast.parse(saved.strip(), mode="eval").body)
        except (SyntaxError, ValueError, TypeError) as error:
            raise ValueError(f"not a plan: {error}") from None
    if isinstance(saved, Plan):
        _check_plan(saved)
    return saved if isinstance(saved, (Plan, Trace)) else Trace.from_json(saved)


def _parsed(tree):
    """The value of I.Plan(...) and I.Tile(...), tuples of these, and literals."""
    if isinstance(tree, ast.Call) and not tree.args and getattr(tree.func, "attr", None) in _NODES:
        return _NODES[tree.func.attr](**{word.arg: _parsed(word.value) for word in tree.keywords})
    if isinstance(tree, ast.Tuple):
        return tuple(map(_parsed, tree.elts))
    return ast.literal_eval(tree)


def _check_plan(plan):
    """Raises ValueError for a field of another kind than a plan's."""
    tile = {f: getattr(plan.tile, f) for f in Tile._fields} if isinstance(plan.tile, Tile) else {}
    values = {**plan.decided(), **tile}
    for name, value in values.items():
        kind = Tile if name == "tile" else int if name in _SIZES else tuple if name in _TUPLES else str
        fits = isinstance(value, kind) and not isinstance(value, bool)
        fits = fits and (kind is not int or value >= _SIZES[name])
        fits = fits and (kind is not tuple or all(isinstance(v, _TUPLES[name]) for v in value))
        if not fits:
            raise ValueError(f"not a plan: {name} is {value!r}")
    for stage in plan.stages:
        _check_plan(stage)


def as_text(records):
    """{kernel: Trace or Record} as JSON, a line for each step or field, which check_schedules takes once it is
    loaded."""
    def lines(rows):
        return ",\n  ".join(map(json.dumps, rows))

    def text(saved):
        if isinstance(saved, Record):
            return "{" + ",\n  ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in saved.as_json().items()) + "}"
        steps, decisions = saved.as_json()
        return f"[[\n  {lines(steps)}],\n  {json.dumps(decisions)}]"
    return "{\n" + ",\n".join(f" {json.dumps(name)}: {text(saved)}" for name, saved in records.items()) + "\n}\n"


def records_of(functions, prefix, schedules):
    """{function: (the name that was asked for, Record)}. Raises ValueError for a name that none has, or several have,
    and for a record of another kernel."""
    records = {}
    for name, found in find_kernels(functions, prefix, schedules).items():
        if len(found) > 1 or found[0] in records:
            raise ValueError(f"schedules[{name!r}]: " + (
                f"kernels {', '.join(found)} compute this node; name one of them" if len(found) > 1 else
                f"kernel {found[0]} has a schedule already, by another of its names"))
        record, own = schedules[name], kernel_hash(functions[found[0]])
        if record.kernel not in ("", own):
            raise does_not_fit(name, record, f"it is of kernel {record.kernel}, this is {own}")
        records[found[0]] = name, record
    return records


def does_not_fit(name, record, why):
    """The ValueError for a record that a kernel cannot have."""
    stage = "plans" if record.by_plan else "traces"
    return ValueError(f"schedules[{name!r}] does not fit this kernel: {why}; it was recorded for another shape, target "
                      f"or version: record it again (inspect, stage {stage}), or leave it out")


def with_recorded(func, plan):
    """A function with a recorded Plan, beside what a graph pass decided and this leaves open."""
    given = func.attrs.get(ATTRIBUTE)
    return func.with_attr(ATTRIBUTE, given.replace(**plan.decided()) if given and given.rule == plan.rule else plan)


def apply_recorded(func, name, record):
    """A Schedule of `func` by a recorded trace. Raises ValueError naming the step that is not legal there: schedules
    are proven for the function at hand, never trusted."""
    trace = record.schedule
    called = {value for step in trace for arg, value in step.args if arg == "func_name"}  # where it was recorded
    sch = Schedule(IRModule({called.pop() if len(called) == 1 else "main": func}), error_render_level="fast")
    try:
        trace.apply_to_schedule(sch)
    except ScheduleError as error:
        raise does_not_fit(name, record, error) from None
    return sch
