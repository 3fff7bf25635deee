"""Stages of Winograd convolutions: those that all arithmetics of their products have in common."""
from __future__ import annotations

from ...tir.hints import EACH_THREAD, EXPLICIT
from .blocks import blocks, find_block, inline_all, only_output, static_extent
from .registers import in_registers
from .row_reduction import reduce_points
from .threads import parallel_nest

STAGES = ("winograd_rows", "winograd_input", "winograd_product", "winograd_columns")
PAD = "pad_temp"


def only_stages(sch, stages):
    """(the output's block, [PAD] where the image is padded, else []) of a kernel of these stages and of what is fused
    to them, which is inlined; (None, []) of others."""
    if not all(find_block(sch, lambda block: block.name_hint == name) for name in stages):
        return None, []
    inline_all(sch, keep={*stages, PAD}, joined=True)
    output = only_output(sch)
    pads = [PAD] if find_block(sch, lambda block: block.name_hint == PAD) else []
    if output is None or len(blocks(sch)) != len(stages) + len(pads) + 1:
        return None, []
    return output, pads


def turns_of(sch, output, columns, tile, plan):
    """Cut the results into blocks of rows of tiles, for each of which turns of some vectors of channels follow one
    another, as a Plan says. Returns the loops over the batch, over blocks and over turns."""
    n, ob, y, x, o = sch.get_loops(output)
    yb, ty, yi = sch.split(y, [None, plan.block, tile])
    tx, xi = sch.split(x, [None, tile])
    oo, ov = sch.split(ob, [None, plan.turn])
    sch.reorder(n, yb, oo, ov, ty, tx, yi, xi, o)
    choices(sch, xi, o)
    sch.compute_at(columns, tx, preserve_unit_loops=True)
    sch.set_scope(columns, 0, "local")
    y, v, o = sch.get_loops(columns)[-3:]
    sch.reorder(v, y, o)
    choices(sch, y, o)
    return n, yb, oo


def share(sch, target, over, bands, own, turns, work):
    """The axis divided among threads: "rows", in the nest `bands` over blocks of them, or "channels", in `turns`, and
    before them the rows of tiles of V, in the nest `own`; or channels alone, and "each" makes all of V for itself."""
    if over == "rows":
        parallel_nest(sch, target, bands, work)
        return
    if over == "each":
        sch.annotate(own[0], EACH_THREAD, 1)
    else:
        parallel_nest(sch, target, own, work, rows=True)
    parallel_nest(sch, target, [turns], work)


def by_columns(sch, rows, pads):
    """Columns of the image one by one, whose padding is looked at once."""
    u, x, c = sch.get_loops(rows)[-3:]
    sch.reorder(x, u, c)
    choices(sch, u, c)
    for pad in map(sch.get_block, pads):
        sch.compute_at(pad, x, preserve_unit_loops=True)
        sch.set_scope(pad, 0, "local")
        *_, y, _, c = sch.get_loops(pad)
        in_registers(sch, (y,), c)


def apart(sch, block):
    """Planes an odd number of vectors apart. A tile is written to all planes and read from all: at the same place of
    each page they would share one set of L1, and loads would wait for stores of other planes."""
    lanes = static_extent(sch, sch.get_loops(block)[-1])
    sch.storage_align(block, 0, 2, 2 * lanes, lanes)


def choices(sch, loop, lanes):
    """Vectors, in copies of the loop's body with the one sum each that its iteration takes."""
    sch.unroll(loop)
    sch.annotate(loop, EXPLICIT, 1)
    sch.vectorize(lanes)


def scale_rows(sch, at, arithmetic, nested, after=()):
    """Scales of one row of tiles after the other, in an iteration of the loop `at`. nested: the stages of what is
    scaled, in the loop over rows, which it returns; after: those that follow."""
    largest, scale, inverse = (f"{arithmetic}_{role}" for role in ("largest", "scale", "inverse"))
    for name in (*reversed(after), *reversed(nested), inverse, scale):
        sch.compute_at(sch.get_block(name), at, preserve_unit_loops=True)
    row, u = sch.get_loops(sch.get_block(scale))[-2:]
    sch.compute_at(sch.get_block(largest), u, preserve_unit_loops=True)
    reduce_points(sch, sch.get_block(largest))
    for name, loop in ((inverse, u), *((name, row) for name in nested)):
        sch.reverse_compute_at(sch.get_block(name), loop, preserve_unit_loops=True)
    bound = sch.get_loops(sch.get_block(inverse))[-1]
    sch.unroll(bound)
    sch.annotate(bound, EXPLICIT, 1)
    return row
