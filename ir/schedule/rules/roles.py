"""Stages of contractions, found by their roles: those of an arithmetic are named <arithmetic>_<role>.

| role | what |
|---|---|
| largest, scale, inverse | of rows that are scaled: the largest magnitude, what that stands for, what rows are times |
| rows | what rows become (prepare) |
| sums | the sums of products (accumulate) |
| packed | the same, where a tile of registers makes them as it makes those of FMAs (rule `product`) |

An arithmetic has others of its own. The results (finish) are the block that is left, with what is fused to them.
"""
from __future__ import annotations

from ...relax.arithmetic import FMA, special
from .blocks import blocks, find_block

PREPARED = "_rows"  # the end of the names of stages with that role


def arithmetic_of(sch):
    """The name of the arithmetic whose schedule a kernel's products have."""
    made = next((row for row in special() if find_block(sch, lambda b: b.name_hint == f"{row.name}_sums")), FMA)
    return made.name


def stages_of(sch, arithmetic):
    """The names of an arithmetic's own stages."""
    return {b.name_hint for b in blocks(sch) if b.name_hint.startswith(f"{arithmetic}_")}
