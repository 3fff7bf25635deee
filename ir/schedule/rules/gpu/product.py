"""Sums of products on GPUs: products of matrices, and convolutions as implicit ones.

A block of threads makes a tile of the result, over whose terms it walks: it copies what it needs of both operands to
shared memory, and every thread adds up a tile of its own in registers.

    for tile (blocks):
        for terms, a few at a time:
            left_shared, right_shared = operands, 0 outside          (threads together)
            for k of these: sums += left_shared[k, rows] * right_shared[k, columns]
        result = epilogue(sums)
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ....tir.hints import UNROLL
from ....tir.lanes import moves_together, weak_alignments
from ...contraction_form import contraction_form
from ...plan import Match, Plan, Tile
from ..blocks import SYMBOLIC, place_of, static, static_extent
from .contractions import Product, add_up, as_matrices, count, in_parts, lies_along_terms, loops_of, matched
from .products import TILES, cost_of

LANES_DOWN, LANES_ACROSS = 4, 8  # how the threads of a warp lie: they read 64 and 128 bytes of shared memory at once
VECTOR = 4  # float32 elements that a thread reads at once
SECTOR = 8  # float32 elements of a sector of global memory
LEAST_PART = 64  # terms of a part of a sum


@dataclass(frozen=True)
class GpuProduct(Product):
    """size: bytes of an element in shared memory."""

    size: int = 4

    rule = "gpu_product"

    def candidates(self, target):
        for tile in TILES:
            if tile.threads > target.launch.max_threads or tile.shared_bytes(self.size) > target.launch.shared_bytes:
                continue
            for parts in self.parts(tile, target.launch.sms, LEAST_PART):
                yield Plan(self.rule, tile.name, tile=Tile(1, tile.thread_rows, tile.thread_columns), turn=tile.depth,
                           parts=parts)

    def cost(self, plan, target):
        return cost_of(by_name(plan.algorithm), self, plan.parts, target.launch)


def by_name(name):
    return next(tile for tile in TILES if tile.name == name)


def gpu_product(sch, target):
    """A sum of products of two operands, whatever their layout, and what follows it."""
    found = matched(sch, fits)
    if found is None:
        return None
    anchor, epilogue, facts = found
    kernel = GpuProduct(**facts, size=sch.get(sch.get_block(anchor)).writes[0].buffer.dtype.bytes)
    return Match(kernel, partial(_apply, sch, anchor, epilogue))


def fits(block):
    """Whether a block is a product that is worth a tile: one thread makes all rows of few, and shares nothing."""
    form, _ = contraction_form(block)
    return form is not None and count(form.depth) > 1 and all(count(s) > VECTOR for s in (form.rows, form.columns))


# ---------------------------------------------------------------- schedule

def _apply(sch, anchor, epilogue, plan, target):
    tile = by_name(plan.algorithm)
    if plan.parts > 1:
        product, sums = in_parts(sch, anchor, plan.parts)
        _tile(sch, product, sums, tile)
        add_up(sch, sch.get_block(anchor), epilogue)
    else:
        _tile(sch, sch.get_block(anchor), epilogue, tile)


def _tile(sch, product, epilogue, tile):
    """Schedule a product and what reads it by a tile of blocks and one of threads."""
    form, _ = contraction_form(sch.get(product))
    found, every = loops_of(sch, sch.get(product), epilogue)
    factors = tile.factors()
    copies = sch.tile_contraction(product, factors["rows"], factors["columns"], [tile.depth])
    threads = _result(sch, form, found, every, epilogue, factors)
    sch.compute_at(product, threads, preserve_unit_loops=True)
    sch.bind(threads, "threadIdx.x")
    sch.set_scope(product, 0, "local")
    points = len(factors["rows"]) + len(factors["columns"]) + 2
    *outer, ko, ki = sch.get_loops(product)
    points = outer[-points:]
    sch.reorder(ko, ki, *points)
    for copy, letter in zip(copies, "mn"):
        _share(sch, copy, product, ko, letter, tile)
    for copy in copies:
        _hold(sch, copy, product, ki)
    for loop in (ki, *points):
        sch.unroll(loop)
    sch.decompose_reduction(product, ko)


def _result(sch, form, found, every, epilogue, factors):
    """Cut the result into tiles, blocks of threads and points of a thread. Returns the loop over threads."""
    sch.transform_block_layout(epilogue, as_matrices(sch, form, found, every))
    *batch, m, n = sch.get_loops(epilogue)
    cut = {}
    for side, loop in (("rows", m), ("columns", n)):
        points, across, vector = factors[side]
        rest, lanes = sch.split(loop, [None, vector])
        tiles, turns, threads = sch.split(rest, [None, points, across])
        warps, threads = sch.split(threads, [None, min(LANES_DOWN if side == "rows" else LANES_ACROSS, across)])
        cut[side] = tiles, warps, threads, turns, lanes
    order = [cut[side][n] for n in range(3) for side in cut]
    points = [cut[side][n] for side in cut for n in (3, 4)]
    kept = [loop for loop in batch if static_extent(sch, loop) == SYMBOLIC][1:]  # in a block of threads
    batch = [loop for loop in batch if loop not in kept]
    sch.reorder(*batch, *order[:2], *kept, *order[2:], *points)
    *others, lanes = points
    for loop in others:
        sch.unroll(loop)
    sch.vectorize(lanes)
    if batch:
        sch.bind(sch.fuse(*batch) if len(batch) > 1 else batch[0], "blockIdx.z")
    sch.bind(order[0], "blockIdx.y")
    sch.bind(order[1], "blockIdx.x")
    return sch.fuse(*order[2:])


def _share(sch, copy, product, ko, letter, tile):
    """Copy the part of an operand that a few terms need to shared memory, by all threads: neighbours take what lies
    in a row."""
    sch.set_scope(copy, 0, "shared")
    outer = len(sch.get_loops(product)[:_depth_of(sch, product, ko)])
    sch.compute_at(copy, ko, preserve_unit_loops=True)
    k, *points = sch.get_loops(copy)[-4:]
    units = sch.get_loops(copy)[outer:-4]
    block, lanes, weak = sch.get(copy), None, weak_alignments(sch.func)
    last = block.iter_vars[-1]
    if moves_together(block, last.var, min(VECTOR, static(last.dom.extent)), weak):
        lanes = points.pop()
    if lanes is None and lies_along_terms(block, letter):
        some, few = sch.split(k, [None, min(SECTOR, tile.depth)])
        if moves_together(block, block.iter_vars[-4].var, VECTOR, weak):
            few, lanes = sch.split(few, [None, VECTOR])
        sch.reorder(some, *points, few, *[lanes] * (lanes is not None))
        fused = sch.fuse(*units, some, *points, few)
    else:
        fused = sch.fuse(*units, k, *points)
    if lanes is not None:
        sch.vectorize(lanes)
    turns, threads = sch.split(fused, [None, tile.threads])
    sch.annotate(turns, UNROLL, FETCHES)
    sch.bind(threads, "threadIdx.x")
    sch.storage_align(copy, 0, -4, 32, VECTOR)


FETCHES = 4  # elements that a thread has under way at once: of more the addresses and guards spill


def _depth_of(sch, block, loop):
    """How many loops there are around a block down to one, that included."""
    return 1 + [sch.get(other).loop_var for other in sch.get_loops(block)].index(sch.get(loop).loop_var)


def _hold(sch, copy, product, ki):
    """Hold what a thread reads of a shared operand for a term in registers."""
    held = sch.cache_read(product, place_of(sch.get(product), sch.get(copy).writes[0].buffer), "local")
    sch.compute_at(held, ki, preserve_unit_loops=True)
    *outer, lanes = sch.get_loops(held)[-4:]
    for loop in outer:
        sch.unroll(loop)
    sch.vectorize(lanes)
