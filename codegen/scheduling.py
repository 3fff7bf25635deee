"""How kernels get their schedules, and how many threads are profitable for those of a network."""
from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from ..ir.boundary import internal_errors
from ..ir.node import collect
from ..ir.relax.control import all_bindings
from ..ir.schedule.plan import ATTRIBUTE, PlanError
from ..ir.schedule.rules import GIVEN, Decision
from ..ir.schedule.rules.row_reduction import reduction_loops
from ..ir.schedule.rules.threads import most_threads, parallel_loops
from ..ir.schedule.schedule import Schedule
from ..ir.tir.stmt import DeclBuffer
from ..ir.transform.gpu.launch import LaunchError, device_kernels
from ..ir.transform.gpu.warp_roles import WarpRoleError
from ..ir.transform.pipeline import Network, lower_prim_func, pipeline_for
from ..ir.transform.walk import blocks
from .describe import primitives
from .kernel_cache import KernelCache
from .kernels import kernel_names, shape_summary
from .recorded import apply_recorded, does_not_fit, with_recorded

TILED = ("warpgroup_product", "tensor_core_product", "gpu_product")  # rules of GPUs whose tiles may turn out too large


@dataclass
class Scheduling:
    """How the kernels of a network get their schedules: from records that are given, from a cache, or by rule.

    Rules decide for all kernels first. Then `worth` says whether the network gains by threads, and `schedule` applies
    each decision, once, for one thread where it does not.

    functions: {name: PrimFunc}; options: of the compilation; recorded: {name: (kernel, Record)}; kept: bytes of stack
    that their arrays may take; prefix: of names in C; waits: {name: parallel loops of its plan for several threads},
    empty where nobody asked; keys: {name: key in the cache}, of `schedule`; decided: {name: Decision}; lowered:
    {scheduled function: what it is lowered}, of those that were so to see whether they fit.
    """

    functions: dict
    options: object
    recorded: dict
    kept: int
    cache: KernelCache
    prefix: str
    waits: dict = field(default_factory=dict)
    keys: dict = field(default_factory=dict)
    decided: dict = field(default_factory=dict)
    lowered: dict = field(default_factory=dict)

    @cached_property
    def _names(self):
        return kernel_names(self.functions, self.prefix)

    def worth(self, mod, work):
        """Whether several threads gain anything in a network, whose kernels have so much work."""
        options = self.options
        if not options.machine.parallel or threads_worth(options, mod, work, dict.fromkeys(self.functions, 1)) < 2:
            return False  # not even if every kernel had one parallel loop
        _, entries = self._fetch(options)
        _, alone = self._fetch(replace(options, threads="none"))
        for n in self.functions:
            known = (e.waits for e in (entries[n], alone[n]) if e is not None and e.waits is not None)
            self.waits[n] = next(known, None)
            if self.waits[n] is None:
                self.waits[n] = self._waits(n, work[n][0])
        return threads_worth(options, mod, work, self.waits) > 1

    def _waits(self, name, operations):
        """How many parallel loops a function will have: one where its plan leaves open what threads share of much
        work."""
        machine = self.options.machine
        waits = self._decide(name, machine).waits
        much = not isinstance(operations, int) or operations // 2 >= machine.cost("threads.least_work")
        return int(much) if waits is None else waits

    def schedule(self, options):
        """({function: Schedule}, {function: Entry} of those that the cache holds)."""
        self.keys, found = self._fetch(options)
        entries = {n: entry for n, entry in found.items() if entry is not None}
        kernels = {n: self._schedule(n, options.machine) for n in self.functions if n not in entries}
        return kernels, entries

    def _fetch(self, options):
        """({function: key}, {function: Entry, or None}) of the cache."""
        steers = replace(options, schedules=(), algorithms=(), name=None, weights="incbin", ram_limit=None,
                         flash_limit=None, without=(), streaming=None, memories=(), weight_groups=1), self.kept
        keys = {n: self.cache.key(f, self._names[n], *steers) for n, f in self.functions.items()
                if self.cache.folder and n not in self.recorded}
        return keys, {n: self.cache.fetch(keys[n]) if n in keys else None for n in self.functions}

    def _decide(self, name, machine):
        """The Decision for a function, or what stands for it where rules have no say: made once."""
        if name not in self.decided:
            func = self.functions[name]
            with internal_errors(lambda: f"the schedule of {func.title}"):
                if name in self.recorded and not self._by_plan(name):
                    self.decided[name] = _Made(apply_recorded(func, *self.recorded[name]))
                elif name in self.recorded:
                    self.decided[name] = Decision(with_recorded(func, self.recorded[name][1].schedule), machine)
                    self._check(name, self.decided[name].refused)
                elif self.options.opt_level:
                    self.decided[name] = Decision(func, machine)
                else:
                    self.decided[name] = _Made(Schedule(func))
        return self.decided[name]

    def _schedule(self, name, machine):
        decision, func = self._decide(name, machine), self.functions[name]
        with internal_errors(lambda: f"the schedule of {func.title}"):
            sch = decision.schedule(machine, self._on_device) if machine.launch else decision.schedule(machine)
            if self._by_plan(name):
                self._check(name, sch.refused)
            by_trace = name in self.recorded and not self._by_plan(name)
            return _first_of_all(sch) if func.attrs.get("may_be_empty") and not by_trace else sch

    def _on_device(self, sch):
        """Raises PlanError for tiles that the device has no room for: those of images whose rows they cut are larger
        than their rule can know."""
        machine = self.options.machine
        if sch.plan is None or sch.plan.rule not in TILED:
            return
        try:
            lowered = self.lowered[sch.func] = lower_prim_func(sch.func, pipeline_for(machine, Network(self.kept)))
            kernels = device_kernels(lowered, machine.launch)
        except (LaunchError, WarpRoleError) as error:
            raise PlanError(str(error)) from None
        own = max(sum(d.buffer.shape[0].value * d.buffer.dtype.bytes for d in collect(k.func.body, DeclBuffer)
                      if not d.buffer.scope.startswith("shared")) for k in kernels)
        if own > 4 * machine.launch.max_registers:
            raise PlanError(f"a thread would hold {own} bytes, and has {4 * machine.launch.max_registers} of registers")

    def _by_plan(self, name):
        return name in self.recorded and self.recorded[name][1].by_plan

    def _check(self, name, refused):
        """Raises ValueError where a recorded plan was refused: no other rule takes its place."""
        why = next((r for r in refused if r.startswith(GIVEN)), None)
        if why:
            raise does_not_fit(*self.recorded[name], why)


class _Made:
    """A Schedule that no plan steers, in the place of a Decision."""

    def __init__(self, sch):
        self.sch = sch

    @property
    def waits(self):
        return parallel_loops(self.sch.func.body)

    def schedule(self, machine):
        return self.sch


def threads_worth(options, mod, work, loops):
    """The largest number of threads that is profitable for a network's kernels, 1 where two are not.
    loops: how many parallel loops each function has."""
    calls = [b.value.attrs["gv"].name for b in all_bindings(mod) if getattr(b.value, "op", None) == "call_tir"]
    return most_threads(options.machine, ((*work[n], loops[n]) for n in calls), options.accuracy)


def loops_of(func):
    """How many parallel loops a lowered function has."""
    known = func.attrs.get("parallel_loops")
    return parallel_loops(func.body) if known is None else known


def _first_of_all(sch):
    """Reductions whose results are set before their loops: these may have no iterations. Those that threads make
    together begin so anyway."""
    for name in [b.name_hint for b in blocks(sch.func.body) if b.init is not None]:
        block = sch.get_block(name)
        loops = reduction_loops(sch, block)
        if loops and all(sch.get(loop).thread_binding is None for loop in loops):
            sch.decompose_reduction(block, loops[0])
    return sch


def scheduled(func, sch, work):
    """The function of a Schedule, with what facts_of says."""
    return sch.func.with_attr(facts_of(sch, func, work))


def facts_of(sch, func, work):
    """Attributes of a function and its Schedule: "plan", "schedule", "refused" and "shapes" for the comment in the C,
    "work" for profiles: that of the computation, not what a schedule adds to it."""
    attrs = {"shapes": shape_summary(func), "work": work, "schedule": primitives(sch)}
    if sch.plan:
        attrs[ATTRIBUTE] = sch.plan
    if sch.refused:
        attrs["refused"] = "; ".join(sch.refused)
    return attrs
