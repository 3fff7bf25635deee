"""Reductions of which each thread makes its own results: windows, and rows whose neighbours lie side by side."""
from __future__ import annotations

from functools import partial

from ...errors import ScheduleError
from ...plan import Fixed, Match
from ..blocks import blocks
from .nests import bind_flat, keep_own, serial_reductions
from .stages import gathered, move_stages, reduces, shared_iterators


def points(sch, target):
    """Every stage is computed where its result is needed, by the thread that needs it, in registers."""
    output = gathered(sch)
    if output is None:
        return None
    return Match(Fixed("points"), partial(_apply, sch, output))


def _apply(sch, output, plan, target):
    if reduces(sch.get(output)):
        output = sch.cache_write(output, 0, "local")
    shared = shared_iterators(sch, output)
    loops = sch.get_loops(output)
    if not shared or len(loops) != len(sch.get(output).iter_vars) or not inline_rest(sch, output, len(loops)):
        return False
    order = [loops[k] for k in shared] + [loop for k, loop in enumerate(loops) if k not in shared]
    if order != loops:
        sch.reorder(*order)
    move_stages(sch, output, order[len(shared) - 1])
    bind_flat(sch, order[:len(shared)])
    keep_own(sch)
    serial_reductions(sch)
    return True


def inline_rest(sch, output, rank):
    """Inline what would be a row of values; whether all of it is."""
    name = sch.get(output).name_hint
    for block in blocks(sch):
        if block.name_hint != name and not reduces(block) and len(block.iter_vars) >= rank:
            try:
                sch.compute_inline(sch.get_block(block.name_hint))
            except ScheduleError:
                return False
    return True
