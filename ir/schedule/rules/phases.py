"""Transposed convolutions in blocked layout: each phase of the output is a convolution with its part of the kernel."""
from __future__ import annotations

from .blocked_convolution import shape_of, share_tiles
from .registers import anchored, ranks


def phases(sch, cpu):
    """A transposed convolution (nn.conv2d_phases), whose results lie apart by the strides:

        for bands of rows, channels, rows, phases, columns:
            acc = 0;  for ty, tx, ic, ii: for points: for vectors: acc += broadcast(x) * w;  epilogue(acc)

    A phase with a smaller part of the kernel passes over the turns of ty and tx that it has not.
    """
    found = anchored(sch, _fits) if cpu.lanes > 1 else None
    if found is None:
        return False
    conv, epilogue = sch.get_block(found[0]), found[1]
    *_, sy, sx, _ = (iv.dom.extent for iv in sch.get(conv).iter_vars if iv.iter_type == "spatial")
    _, _, y, x, _ = sch.get_loops(epilogue)
    y, ry = sch.split(y, [None, sy])
    x, rx = sch.split(x, [None, sx])
    sch.reorder(y, x, ry, rx)
    share_tiles(sch, cpu, conv, epilogue, shape_of(sch, conv, epilogue, 1, split=2), phases=(ry, rx))
    return True


def _fits(block):
    return block.name_hint == "conv2d_phases" and ranks(block) == (7, 4)
