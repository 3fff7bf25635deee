"""How kernels get their schedules, and for how many threads those of a network are worth it."""
from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..ir.boundary import internal_errors
from ..ir.relax.control import all_bindings
from ..ir.schedule.plan import ATTRIBUTE
from ..ir.schedule.rules import schedule_by_rule
from ..ir.schedule.rules.row_reduction import reduction_loops
from ..ir.schedule.rules.threads import most_threads, parallel_loops
from ..ir.schedule.schedule import Schedule
from ..ir.transform.walk import blocks
from .describe import described
from .kernel_cache import KernelCache
from .kernels import kernel_names, shape_summary
from .recorded import apply_recorded


@dataclass
class Scheduling:
    """How the kernels of a network get their schedules: from traces that are given, from a cache, or by rule.

    functions: {name: PrimFunc}; recorded: {name: (kernel, Trace)}; kept: bytes of stack that their arrays may take;
    prefix: of names in C; keys: {name: key in the cache}, of the last scheduling.
    """

    functions: dict
    recorded: dict
    kept: int
    cache: KernelCache
    prefix: str
    keys: dict = field(default_factory=dict)

    def schedule(self, options):
        """({function: Schedule}, {function: Entry} of those that the cache holds, {function: parallel loops})."""
        steers = replace(options, schedules=(), algorithms=(), name=None, weights="incbin"), self.kept
        names = kernel_names(self.functions, self.prefix)
        self.keys = {n: self.cache.key(f, names[n], *steers) for n, f in self.functions.items()
                     if self.cache.folder and n not in self.recorded}
        found = {n: self.cache.fetch(key) for n, key in self.keys.items()}
        entries = {n: entry for n, entry in found.items() if entry is not None}
        kernels = {n: schedule(f, options, self.recorded.get(n))
                   for n, f in self.functions.items() if n not in entries}
        return kernels, entries, {n: entries[n].loops if n in entries else parallel_loops(kernels[n].func.body)
                                  for n in self.functions}


def threads_worth(options, mod, work, loops):
    """How many threads at most are worth their waits for one another in a network's kernels, 1 where two are not.
    loops: how many parallel loops each function has."""
    calls = [b.value.attrs["gv"].name for b in all_bindings(mod) if getattr(b.value, "op", None) == "call_tir"]
    return most_threads(options.machine, ((*work[n], loops[n]) for n in calls), options.accuracy)


def loops_of(func):
    """How many parallel loops a lowered function has."""
    known = func.attrs.get("parallel_loops")
    return parallel_loops(func.body) if known is None else known


def schedule(func, options, recorded=None):
    """A Schedule of a PrimFunc: by its recorded (name, Trace), else by rule."""
    with internal_errors(lambda: f"the schedule of {func.title}"):
        if recorded:
            return apply_recorded(func, *recorded)
        sch = schedule_by_rule(func, options.machine) if options.opt_level else Schedule(func)
        return _first_of_all(sch) if func.attrs.get("may_be_empty") else sch


def _first_of_all(sch):
    """Reductions whose results are set before their loops: these may have no iterations."""
    for name in [b.name_hint for b in blocks(sch.func.body) if b.init is not None]:
        block = sch.get_block(name)
        loops = reduction_loops(sch, block)
        if loops:
            sch.decompose_reduction(block, loops[0])
    return sch


def scheduled(func, sch, work):
    """The function of a Schedule, with attrs "plan", "loops", "terms", "schedule", "refused" and "shapes" for the
    comment in the C, "work" for profiles: that of the computation, not what a schedule adds to it."""
    attrs = {"shapes": shape_summary(func), "work": work, **described(func, sch)}
    if sch.plan:
        attrs[ATTRIBUTE] = sch.plan
    if sch.refused:
        attrs["refused"] = "; ".join(sch.refused)
    return sch.func.with_attr(attrs)
