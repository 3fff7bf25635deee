"""Transposed convolutions in blocked layout: each phase of the output is a convolution with its part of the kernel."""
from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..plan import Match
from .blocked_convolution import shape_of, tile
from .blocks import SYMBOLIC, iter_vars
from .registers import anchored, ranks
from .threads import parallel_nest


def phases(sch, target):
    """A transposed convolution (nn.conv2d_phases), whose results lie apart by the strides:

        for bands of rows, channels, rows, phases, columns:
            acc = 0;  for ty, tx, ic, ii: for points: for vectors: acc += broadcast(x) * w;  epilogue(acc)

    A phase with a smaller part of the kernel passes over the iterations of ty and tx that it has not.
    """
    found = anchored(sch, _fits) if target.lanes > 1 else None
    if found is None:
        return None
    conv, epilogue = sch.get_block(found[0]), found[1]
    whole, sizes = shape_of(sch, target, conv, epilogue, 1), _phases(sch.get(conv))
    height, width = (n if n >= SYMBOLIC else -(-n // s.value) for n, s in zip((whole.height, whole.width), sizes))
    shape = replace(whole, height=height, width=width, rule="phases")
    return Match(shape, partial(_apply, sch, conv, epilogue, shape))


def _apply(sch, conv, epilogue, shape, plan, target):
    (_, _, y, x, _), (sy, sx) = sch.get_loops(epilogue), _phases(sch.get(conv))
    y, ry = sch.split(y, [None, sy])
    x, rx = sch.split(x, [None, sx])
    sch.reorder(y, x, ry, rx)
    loops, by_rows = tile(sch, target, conv, epilogue, shape, plan, phases=(ry, rx))
    parallel_nest(sch, target, loops, shape.work, by_rows)


def _phases(block):
    """How many phases of rows and of columns there are."""
    *_, sy, sx, _ = (iv.dom.extent for iv in iter_vars(block, "spatial"))
    return sy, sx


def _fits(block):
    return block.name_hint == "conv2d_phases" and ranks(block) == (7, 4)
