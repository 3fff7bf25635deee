"""tvm.dlight.base: what rules of a script's own derive from, the pass that applies rules, and steps that they share."""
from __future__ import annotations

from functools import partial

from ...ir.dtype import DataType
from ...ir.expr import IntImm
from ...ir.schedule.errors import ScheduleError
from ...ir.schedule.schedule import Schedule
from ...ir.target import Target
from ...ir.tir.function import PrimFunc
from ...ir.transform.context import Pass, PassInfo

_SCHEDULED = "tir.is_scheduled"


class ScheduleRule:
    """A rule for ApplyDefaultSchedule: apply(func, target, tunable) gives a tir.Schedule, or None where it does not
    fit."""

    def apply(self, func, target, tunable):
        raise NotImplementedError(f"{type(self).__name__}.apply")

    def is_target_available(self, target):
        """Whether the rule is for such a target."""
        return True

    @staticmethod
    def from_callable(name):
        """Decorator: a rule of a function (func, target, tunable)."""
        def make(function):
            return type(name, (ScheduleRule,), {"apply": lambda self, *args: function(*args)})()
        return make


def ApplyDefaultSchedule(*rules):  # noqa: N802
    """The Pass that schedules each PrimFunc by the first of some rules that fits, for the function's target, else the
    one around; functions that none fits, and those with the attribute tir.is_scheduled, stay as they are. Raises
    ValueError without a target."""
    def run(mod, context):
        return mod.with_functions({name: _scheduled(func, rules) if isinstance(func, PrimFunc) else func
                                   for name, func in mod.functions.items()})
    return Pass(run, PassInfo("ApplyDefaultSchedule"))


def _scheduled(func, rules):
    if func.attrs.get(_SCHEDULED):
        return func
    own = func.attrs.get("target")
    target = Target.current(allow_none=False) if own is None else Target.get(own)
    for rule in rules:
        made = rule.apply(func, target, False)
        made = made[0] if isinstance(made, (list, tuple)) and made else made or None
        if made is not None:
            return made.func.with_attr(_SCHEDULED, 1)
    return func


# ---------------------------------------------------------------- steps

def try_inline(sch, blocks):
    """Inline BlockInfos, into their readers or their writers, until none can be; returns those that are left."""
    steps = sch.compute_inline, sch.reverse_compute_inline
    left = list(blocks)
    while (done := next((b for step in steps for b in left if _allowed(partial(step, b.block_rv))), None)) is not None:
        left.remove(done)
    return left


def _allowed(step):
    try:
        step()
    except ScheduleError:
        return False
    return True


def try_inline_contiguous_spatial(sch, block_infos):
    """Inline what can be of each row of blocks over elements between two others; returns those that are left. None of
    None."""
    if block_infos is None:
        return None
    left, row = [], []
    for block in (*block_infos, None):
        if block is not None and block.is_injective():
            row.append(block)
            continue
        left += [*try_inline(sch, row), *([] if block is None else [block])]
        row = []
    return left


def get_bytes(dtype):
    """The bytes of an element of a dtype."""
    return DataType(dtype).itemsize()


def get_extent(sch, loop_rv):
    """The extent of a loop, an int where it is known."""
    extent = sch.get(loop_rv).extent
    return extent.value if isinstance(extent, IntImm) else extent


def auto_vectorize(sch, loop, max_vec):
    """Make vectors of at most max_vec turns of a loop whose extent is known."""
    extent = get_extent(sch, loop)
    if isinstance(extent, int):
        sch.vectorize(loop if extent <= max_vec else sch.split(loop, [None, max_vec])[-1])


def max_threads_per_block(target):
    """The most threads of a block; 256 where the target does not say it."""
    return 256 if target.launch is None else target.launch.max_threads


_THREADS = {"cuda": 1024, "opencl": 256}


def suggest_threads_per_block(target, loops, max_threads_for_dynamic_loop=32):
    """Numbers of threads for Fors, powers of two: for each as many as it has turns, while there are some left; loops of
    unknown extent share what remains, at most max_threads_for_dynamic_loop each, but for the first."""
    left, found = _THREADS.get(target.kind.name, 64), [None] * len(loops)
    known = [n for n, loop in enumerate(loops) if isinstance(loop.extent, IntImm)]
    unknown = [n for n in range(len(loops)) if n not in known]
    for n in (*known, *unknown):
        most = loops[n].extent.value if n in known else max_threads_for_dynamic_loop
        found[n] = 1 << (max(1, min(left, most)).bit_length() - 1)
        left //= found[n]
    if unknown:
        found[unknown[0]] *= left
    return found


__path__ = []  # its parts are imported by names of their own, which places.py knows
__all__ = ["ApplyDefaultSchedule", "ScheduleRule", "auto_vectorize", "get_bytes", "get_extent", "max_threads_per_block",
           "suggest_threads_per_block", "try_inline", "try_inline_contiguous_spatial"]
