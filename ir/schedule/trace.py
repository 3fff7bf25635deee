"""The trace: which primitives were applied to what, as data. It prints as Python and replays on another schedule."""
from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum

from ..node import Node, load_json, save_json
from ..tir.index_map import IndexMap


class RV:
    """A handle of a schedule, equal only to itself. What it stands for is asked with Schedule.get."""

    __slots__ = ("__weakref__",)
    prefix = "v"


class BlockRV(RV):
    """A block; it follows the block through renaming."""

    __slots__ = ()
    prefix = "b"


class LoopRV(RV):
    """A loop. A primitive that replaces the loop ends the handle."""

    __slots__ = ()
    prefix = "l"


class ExprRV(RV):
    """A number that was sampled."""

    __slots__ = ()
    prefix = "v"


class Mark(Enum):
    """What a LoopRV of sample_compute_location stands for when it is no loop; compute_at takes it."""

    ROOT = "root"
    INLINE = "inline"


@dataclass(frozen=True)
class Step:
    """One applied primitive: `args` are (name, value) pairs, in which handles stand for themselves.

    outputs: the handles it returned; listed: whether it returned them as a list.
    """

    name: str
    args: tuple
    outputs: tuple
    listed: bool
    variadic: str = ""  # the argument that is passed as *args


class Trace:
    """A sequence of steps."""

    def __init__(self, steps=()):
        self.steps = list(steps)

    def append(self, step):
        self.steps.append(step)

    def copy(self):
        return Trace(self.steps)

    def __len__(self):
        return len(self.steps)

    def __iter__(self):
        return iter(self.steps)

    def apply(self, schedule, remove_postproc=False):
        """Apply every step to `schedule`; handles map by position. Raises ScheduleError where a step is illegal.

        remove_postproc: stop at enter_postproc. Returns {handle of this trace: handle of `schedule`}.
        """
        known = {}

        def translate(value):
            if isinstance(value, RV):
                return known[value]
            return tuple(translate(v) for v in value) if isinstance(value, tuple) else value

        for step in self._wanted(remove_postproc):
            result = schedule.apply(step.name, {name: translate(value) for name, value in step.args})
            handles = result if step.listed else [result]
            known.update(zip(step.outputs, handles))
        return known

    apply_to_schedule = apply

    def _wanted(self, remove_postproc):
        """The steps, up to enter_postproc when the rest is to be left out."""
        names = [step.name for step in self.steps]
        end = names.index("enter_postproc") if remove_postproc and "enter_postproc" in names else len(names)
        return self.steps[:end]

    def simplified(self, remove_postproc=False):
        """The trace without steps that only ask or sample and whose outputs nothing uses."""
        from .registry import PRIMITIVES
        used, kept = set(), []
        for step in reversed(self._wanted(remove_postproc)):
            if not PRIMITIVES[step.name].pure or any(h in used for h in step.outputs):
                kept.append(step)
                used.update(_handles(step.args))
        return Trace(reversed(kept))

    def as_json(self, remove_postproc=False):
        """The trace as text: [[primitive, {argument: value}, [names of outputs]], ...]. Inverse of from_json."""
        names, rows = {}, []
        for step in self._wanted(remove_postproc):
            args = {name: _to_json(value, names) for name, value in step.args}
            for handle in step.outputs:
                names[handle] = f"{handle.prefix}{len(names)}"
            rows.append([step.name, args, [names[h] for h in step.outputs]])
        return json.dumps(rows)

    @staticmethod
    def from_json(text):
        """The trace of a text of as_json. Raises ValueError when it is none."""
        from .registry import PRIMITIVES
        known, steps = {}, []
        try:
            for name, args, outputs in json.loads(text):
                primitive = PRIMITIVES[name]
                args = tuple((key, _from_json(value, known)) for key, value in args.items())
                known.update((o, _BY_PREFIX[o[0]]()) for o in outputs)
                handles = tuple(known[o] for o in outputs)
                steps.append(Step(name, args, handles, primitive.listed, primitive.variadic))
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(f"not a saved trace: {error!r}") from error
        return Trace(steps)

    @staticmethod
    def apply_json_to_schedule(text, schedule):
        """Apply a trace saved by as_json; as Trace.apply."""
        return Trace.from_json(text).apply(schedule)

    def as_python(self, remove_postproc=False):
        """The trace as lines of Python."""
        return str(Trace(self._wanted(remove_postproc))).splitlines()

    def __str__(self):
        names = {}

        def text(value):
            if isinstance(value, RV):
                return names.get(value, "_")
            if isinstance(value, tuple):
                return "[" + ", ".join(map(text, value)) + "]"
            if isinstance(value, IndexMap):
                return str(value)
            return f'"{value}"' if isinstance(value, str) else repr(value)

        lines = []
        for step in self.steps:
            args = [", ".join(map(text, value)) if name == step.variadic else f"{name}={text(value)}"
                    for name, value in step.args]
            for handle in step.outputs:
                names[handle] = f"{handle.prefix}{len(names)}"
            targets = ", ".join(names[h] for h in step.outputs)
            if step.listed and len(step.outputs) == 1:
                targets += ","
            lines.append((f"{targets} = " if step.outputs else "") + f"sch.{step.name}({', '.join(args)})")
        return "\n".join(lines)

    def show(self):
        """Print the trace."""
        print(self)


_BY_PREFIX = {rv.prefix: rv for rv in (BlockRV, LoopRV, ExprRV)}


def _handles(value):
    """The handles in an argument value."""
    if isinstance(value, RV):
        return [value]
    return [h for v in value for h in _handles(v)] if isinstance(value, tuple) else []


def _to_json(value, names):
    if isinstance(value, RV):
        return {"handle": names[value]}
    if isinstance(value, Node):
        return {"node": save_json(value)}
    return [_to_json(v, names) for v in value] if isinstance(value, tuple) else value


def _from_json(value, known):
    if isinstance(value, dict):
        return known[value["handle"]] if "handle" in value else load_json(value["node"])
    return tuple(_from_json(v, known) for v in value) if isinstance(value, list) else value
