"""Transposes: tiles go through shared memory, so that both reading and writing run along memory."""
from __future__ import annotations

from functools import partial

from ....node import collect
from ....tir.stmt import BufferLoad
from ...blocks import uses
from ...plan import Fixed, Match
from ..blocks import blocks, inline_all, only_output, static

TILE = 32  # elements of a warp
ROWS = 8   # of a tile, that the threads of a block read at a time
LEAST = 16  # elements of a row


def transpose(sch, target):
    """A block of threads moves a tile of 32 x 32 elements: along rows of the input into shared memory, whose rows are
    33 apart so that its columns lie in different banks, and from its columns to rows of the result."""
    inline_all(sch)
    output = only_output(sch)
    if output is None or len(blocks(sch)) != 1 or (found := _crossing(sch.get(output))) is None:
        return None
    return Match(Fixed("transpose"), partial(_apply, sch, output, *found))


def _crossing(block):
    """(which read, the number of the iteration variable along its innermost dimension) of a read that runs across the
    result's rows; None where there is not just one."""
    variables = [iv.var for iv in block.iter_vars]
    if len(variables) < 2 or block.init is not None or any(iv.iter_type != "spatial" for iv in block.iter_vars):
        return None
    found = []
    for load in collect(block.body, BufferLoad):
        across = [n for n, v in enumerate(variables) if load.indices and load.indices[-1] is v]
        if across and across[0] != len(variables) - 1 and uses(load.indices[:-1], {variables[-1]}):
            plain = all(any(i is v for v in variables) for i in load.indices)
            if not plain:
                return None
            found.append((load.buffer, across[0]))
    if len({id(buffer) for buffer, _ in found}) != 1 or len(found) != 1:
        return None
    buffer, number = found[0]
    if min(static(block.iter_vars[k].dom.extent) for k in (number, -1)) < LEAST:
        return None
    return next(n for n, r in enumerate(block.reads) if r.buffer is buffer), number


def _apply(sch, output, read, number, plan, target):
    loops = sch.get_loops(output)
    tile = sch.cache_read(output, read, "shared")
    down, across = loops[number], loops[-1]
    others = [loop for n, loop in enumerate(loops[:-1]) if n != number]
    down, rows = sch.split(down, [None, TILE])
    across, lanes = sch.split(across, [None, TILE])
    sch.reorder(*others, down, across, rows, lanes)
    sch.compute_at(tile, across)
    sch.storage_align(tile, 0, -2, TILE, 1)
    sch.bind(sch.fuse(*others, down, across), "blockIdx.x")
    _bind_tile(sch, rows, lanes)
    _bind_tile(sch, *_varying(sch, tile))
    return True


def _varying(sch, tile):
    """The two loops of a stage that run over more than one element."""
    return [loop for loop in sch.get_loops(tile)[1:] if static(sch.get(loop).extent) != 1]


def _bind_tile(sch, rows, lanes):
    _, some = sch.split(rows, [None, ROWS])
    sch.bind(some, "threadIdx.y")
    sch.bind(lanes, "threadIdx.x")
