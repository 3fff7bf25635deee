"""Dense convolutions: a tile of accumulators stays in registers over the whole reduction."""
from __future__ import annotations

from functools import partial

from ..plan import Match
from . import tiles
from .blocks import static_extent, vectorizes
from .registers import PACKED, anchored, in_registers, ranks, steps, through_memory, turn_of
from .threads import parallel_nest


def register_tile(sch, target):
    """A dense convolution: accumulators of a tile live in registers over the whole reduction.

        for tile (parallel):  acc = 0;  for k: for points: for vectors: acc += broadcast(a) * packed;  epilogue(acc)
    """
    found = anchored(sch, _is_packed_convolution) if target.lanes > 1 else None
    if found is None or len(sch.get_loops(found[1])) != 4:  # the result stays in blocks
        return None
    packed = sch.get(sch.get_block(found[0]))
    groups = int(packed.annotations.get("groups", 1))
    _, _, y, x = sch.get_loops(found[1])
    sums = tiles.Sums("register_tile", packed.iter_vars[1].dom.extent.value // groups, static_extent(sch, y),
                      static_extent(sch, x), dividing=groups > 1, work=steps(packed))
    return Match(sums, partial(_apply, sch, *found, sums.work))


def _is_packed_convolution(block):
    return block.name_hint.endswith(PACKED) and ranks(block) == (5, 3)


def _apply(sch, anchor, epilogue, work, plan, target):
    n, c, y, x = sch.get_loops(epilogue)
    packed = sch.get(sch.get_block(anchor))
    tile, lanes = plan.tile, packed.iter_vars[4].dom.extent.value
    whole = static_extent(sch, c) % (tile.vectors * lanes) == 0
    co, ci, cl = sch.split(c, [None, tile.vectors, lanes])
    yo, yi = sch.split(y, [None, tile.rows])
    xo, xi = sch.split(x, [None, tile.columns])
    conv = sch.get_block(anchor)
    if whole and vectorizes(sch.get(epilogue)):
        sch.reorder(n, co, yo, xo, yi, xi, ci, cl)
        sch.compute_at(conv, xo, preserve_unit_loops=True)
        in_registers(sch, (yi, xi, ci), cl)
    else:  # through a tile in memory: a vector of channels there, rows of one channel in the output
        sch.reorder(n, co, yo, xo, ci, cl, yi, xi)
        sch.compute_at(conv, xo, preserve_unit_loops=True)
        copy = through_memory(sch, epilogue, anchor, xo)
        *points, oi = sch.get_loops(copy)[-4:]
        in_registers(sch, points, oi)
    sch.set_scope(conv, 0, "local")
    nn, oo, ty, tx, oi, ic, kh, kw = sch.get_loops(conv)[-8:]
    sch.reorder(ic, kh, kw, nn, ty, tx, oo, oi)
    in_registers(sch, (ty, tx, oo), oi)
    sch.decompose_reduction(conv, ic)
    turn_of(sch, target, conv, (ic, kh, kw))
    parallel_nest(sch, target, [n, co, yo], work)
