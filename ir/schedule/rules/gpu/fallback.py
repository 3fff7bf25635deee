"""The rule for what no other one fits: each nest a device kernel whose threads share what is independent."""
from __future__ import annotations

from functools import partial

from ...errors import ScheduleError
from ...plan import Fixed, Match
from ..blocks import blocks, inline_all
from .nests import bind_nest, keep_own, nests, serial_reductions


def fallback(sch, target):
    """Elementwise stages are inlined, then each nest is a device kernel: the iterations of its outer loops that do not
    depend on each other run on threads, sums inside of them one after the other. Where all depend on each other one
    thread runs the nest."""
    inline_all(sch)
    return Match(Fixed("fallback"), partial(_apply, sch))


def _apply(sch, plan, target):
    take_apart(sch)
    keep_own(sch)
    for nest in nests(sch):
        bind_nest(sch, nest)
    serial_reductions(sch)


def take_apart(sch):
    """Take what is independent out of blocks that stand for whole loop programs: scans, sorts, scatters."""
    for name in [b.name_hint for b in blocks(sch) if not b.iter_vars]:
        for block in _attempt(sch.separate_statements, sch.get_block(name)) or [sch.get_block(name)]:
            _attempt(sch.lift_loops, block)


def _attempt(primitive, *args):
    """What a primitive gives; None where it refuses."""
    try:
        return primitive(*args)
    except ScheduleError:
        return None
