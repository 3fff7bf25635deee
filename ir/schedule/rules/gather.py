"""Copies by a table of indices: what the table says is worked out once for all points that it holds for."""
from __future__ import annotations

from ...node import collect
from ...tir.stmt import BufferLoad
from ..blocks import uses
from ..plan import Fixed, Match
from .blocks import blocks, inline_all, only_output
from .threads import nests_to_share, parallel_outer


def gather(sch, target):
    """Copies of elements whose place a table gives, for the innermost of the loops around, say the channels of an image
    in blocks. The loop that the table does not depend on goes inside:

        for channels, rows, lanes, columns:  y[...] = x[table[channels, lanes], ...]
    """
    inline_all(sch)
    output = only_output(sch)
    if len(blocks(sch)) != 1 or output is None or sch.get(output).init is not None:
        return None
    block, loops = sch.get(output), sch.get_loops(output)
    tables = tuple(inner.indices for load in collect(block.body, BufferLoad)
                   for inner in collect(load.indices, BufferLoad))
    free = [loop for loop, iv in zip(loops, block.iter_vars) if not uses(tables, {iv.var})]
    if not tables or not free or free[-1] is loops[-1] or len(loops) != len(block.iter_vars):
        return None

    def apply(plan, target):
        *outer, inner = [loop for loop in loops if loop is not free[-1]] + [free[-1]]
        sch.reorder(*outer, inner)
        parallel_outer(sch, target, outer)

    return Match(Fixed("gather", work=sum(nests_to_share(sch.func, target)) or 1, what="rows"), apply)
