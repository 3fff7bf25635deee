"""The rule for what no other one fits: each nest a device kernel whose threads share what is independent."""
from __future__ import annotations

from functools import partial

from ...plan import Fixed, Match
from ..blocks import inline_all
from .nests import bind_nest, keep_own, nests, serial_reductions


def fallback(sch, target):
    """Elementwise stages are inlined, then each nest is a device kernel: the iterations of its outer loops that do not
    depend on each other run on threads, sums inside of them one after the other. Where all depend on each other one
    thread runs the nest."""
    inline_all(sch)
    return Match(Fixed("fallback"), partial(_apply, sch))


def _apply(sch, plan, target):
    keep_own(sch)
    for nest in nests(sch):
        bind_nest(sch, nest)
    serial_reductions(sch)
