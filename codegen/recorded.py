"""Recorded schedules: traces of primitives, by the names of kernels, that take the place of the rules' choices."""
from __future__ import annotations

import json
from collections.abc import Mapping

from ..ir.module import IRModule
from ..ir.schedule.errors import ScheduleError
from ..ir.schedule.schedule import Schedule
from ..ir.schedule.trace import Trace
from .kernels import find_kernels


def check_schedules(schedules):
    """{kernel: Trace} of a mapping of kernels to Traces, or what Trace.as_json gave. Raises ValueError naming the entry
    that is neither."""
    if schedules is None:
        return {}
    if not isinstance(schedules, Mapping):
        raise ValueError(f"schedules is a mapping of kernels to recorded traces, not {schedules!r}")
    return {name: _trace(name, saved) for name, saved in schedules.items()}


def _trace(name, saved):
    if isinstance(saved, Trace):
        return saved
    try:
        return Trace.from_json(saved)
    except ValueError as error:
        raise ValueError(f"schedules[{name!r}]: {error}; a trace is what inspect prints at stage traces, or sch.trace "
                         "of a Schedule") from None


def as_text(traces):
    """{kernel: Trace} as JSON, a line for each step, which check_schedules takes once it is loaded."""
    def lines(rows):
        return ",\n  ".join(map(json.dumps, rows))
    saved = {name: trace.as_json() for name, trace in traces.items()}
    entries = (f" {json.dumps(name)}: [[\n  {lines(steps)}],\n  {json.dumps(decisions)}]"
               for name, (steps, decisions) in saved.items())
    return "{\n" + ",\n".join(entries) + "\n}\n"


def traces_of(functions, prefix, schedules):
    """{function: (the name that was asked for, Trace)}. Raises ValueError for a name that none has, or several have."""
    traces = {}
    for name, found in find_kernels(functions, prefix, schedules).items():
        if len(found) > 1 or found[0] in traces:
            raise ValueError(f"schedules[{name!r}]: " + (
                f"kernels {', '.join(found)} compute this node; name one of them" if len(found) > 1 else
                f"kernel {found[0]} has a schedule already, by another of its names"))
        traces[found[0]] = name, schedules[name]
    return traces


def apply_recorded(func, name, trace):
    """A Schedule of `func` by a recorded trace. Raises ValueError naming the step that is not legal there: schedules
    are proven for the function at hand, never trusted."""
    called = {value for step in trace for arg, value in step.args if arg == "func_name"}  # where it was recorded
    sch = Schedule(IRModule({called.pop() if len(called) == 1 else "main": func}), error_render_level="fast")
    try:
        trace.apply_to_schedule(sch)
    except ScheduleError as error:
        raise ValueError(f"schedules[{name!r}] does not fit this kernel: {error}; it was recorded for another shape, "
                         "target or version: record it again (inspect, stage traces), or leave it out") from None
    return sch
