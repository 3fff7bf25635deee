"""The trace: which primitives were applied to what, as data. It prints as Python and replays on another schedule."""
from __future__ import annotations

from dataclasses import dataclass


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

    def apply(self, schedule):
        """Apply every step to `schedule`; handles map by position. Raises ScheduleError where a step is illegal.

        Returns {handle of this trace: handle of `schedule`}.
        """
        known = {}

        def translate(value):
            if isinstance(value, RV):
                return known[value]
            return tuple(translate(v) for v in value) if isinstance(value, tuple) else value

        for step in self.steps:
            result = schedule.apply(step.name, {name: translate(value) for name, value in step.args})
            handles = result if step.listed else [result]
            known.update(zip(step.outputs, handles))
        return known

    def __str__(self):
        names = {}

        def text(value):
            if isinstance(value, RV):
                return names.get(value, "_")
            if isinstance(value, tuple):
                return "[" + ", ".join(map(text, value)) + "]"
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
