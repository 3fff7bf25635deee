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
from math import prod

from ....arith import Analyzer
from ....expr import Var, const, is_const_int
from ....node import collect
from ....tir.hints import UNROLL
from ....tir.index_map import IndexMap
from ....tir.lanes import moves_together, weak_alignments
from ....tir.stmt import BufferLoad
from ...blocks import uses
from ...contraction_form import Axis, contraction_form, joined
from ...plan import Kernel, Match, Plan, Tile
from ..blocks import SYMBOLIC, blocks, iter_vars, place_of, static, static_extent
from ..registers import anchored
from .products import TILES, cost_of

LANES_DOWN, LANES_ACROSS = 4, 8  # how the threads of a warp lie: they read 64 and 128 bytes of shared memory at once
VECTOR = 4  # float32 elements that a thread reads at once
SECTOR = 8  # float32 elements of a sector of global memory
THREADS_OF_SUMS = 256  # a block of those that add parts up


@dataclass(frozen=True)
class GpuProduct(Kernel):
    """A product of rows and columns with sums of `depth` terms, so many of it; SYMBOLIC for sizes that are not known.
    can_part: whether sums may be made in parts. size: bytes of an element in shared memory."""

    rows: int
    columns: int
    depth: int
    batch: int = 1
    can_part: bool = True
    size: int = 4

    rule = "gpu_product"

    def candidates(self, target):
        for tile in TILES:
            if tile.threads > target.launch.max_threads or tile.shared_bytes(self.size) > target.launch.shared_bytes:
                continue
            for parts in self._parts(tile, target.launch.sms):
                yield Plan(self.rule, tile.name, tile=Tile(1, tile.thread_rows, tile.thread_columns), turn=tile.depth,
                           parts=parts)

    def _parts(self, tile, sms):
        """In how many parts of equal length sums may be made: several where whole ones leave SMs without a block."""
        blocks = -(-self.rows // tile.rows) * -(-self.columns // tile.columns) * self.batch
        if not self.can_part or self.depth >= SYMBOLIC or blocks >= sms:
            return (1,)
        return tuple(p for p in (1, 2, 3, 4, 6, 8, 12, 16) if p == 1 or self.depth % p == 0 and self.depth // p >= 64)

    def cost(self, plan, target):
        return cost_of(by_name(plan.algorithm), self, plan.parts, target.launch)


def by_name(name):
    return next(tile for tile in TILES if tile.name == name)


def gpu_product(sch, target):
    """A sum of products of two operands, whatever their layout, and what follows it."""
    found = anchored(sch, fits)
    if found is None:
        return None
    anchor, epilogue = found
    block = sch.get(sch.get_block(anchor))
    alone = {b.name_hint for b in blocks(sch)} == {anchor, sch.get(epilogue).name_hint}
    if not alone or loops_of(sch, block, epilogue) is None:
        return None
    form, _ = contraction_form(block)
    sizes = {side: _size(getattr(form, side)) for side in ("rows", "columns", "depth", "batch")}
    kernel = GpuProduct(**sizes, can_part=all(a.is_static for a in form.depth), size=block.writes[0].buffer.dtype.bytes)
    return Match(kernel, partial(_apply, sch, anchor, epilogue))


def fits(block):
    """Whether a block is a product that is worth a tile: one thread makes all rows of few, and shares nothing."""
    form, _ = contraction_form(block)
    return form is not None and _size(form.depth) > 1 and all(_size(s) > VECTOR for s in (form.rows, form.columns))


def _size(axes):
    return min(prod(axis.extent.value if axis.is_static else SYMBOLIC for axis in axes), SYMBOLIC)


def loops_of(sch, block, epilogue):
    """({iterator of a product's block: the loop of the epilogue that it is}, of those that it has; all loops of the
    epilogue); None where the epilogue reads the product in other ways than element by element."""
    out = sch.get(epilogue)
    loads = [load for load in collect(out.body, BufferLoad) if load.buffer is block.body.buffer]
    every = list(sch.get_loops(epilogue))
    loops, found = dict(zip((iv.var for iv in out.iter_vars), every)), {}
    for var, index in zip(block.body.indices, loads[0].indices):
        if not isinstance(var, Var):
            continue  # a dimension of one element
        if isinstance(index, Var) and index in loops:
            found[var] = loops.pop(index)
        elif not is_const_int(index, 0):
            return None
    same = all(len(load.indices) == len(loads[0].indices) and all(a is b or is_const_int(a, 0) and is_const_int(b, 0)
               for a, b in zip(load.indices, loads[0].indices)) for load in loads)
    return (found, every) if same else None


# ---------------------------------------------------------------- schedule

def _apply(sch, anchor, epilogue, plan, target):
    tile = by_name(plan.algorithm)
    if plan.parts > 1:
        product, sums = _in_parts(sch, anchor, plan.parts)
        _tile(sch, product, sums, tile)
        _add_up(sch, sch.get_block(anchor), epilogue)
    else:
        _tile(sch, sch.get_block(anchor), epilogue, tile)


def _in_parts(sch, anchor, parts):
    """Cut sums into parts: the block of these, and the one that writes them, a product of a batch of `parts`."""
    block = sch.get_block(anchor)
    sch.transform_block_layout(block, _with_terms_joined(sch.get(block)))
    *_, k = sch.get_loops(block)
    part, _ = sch.split(k, [parts, None])
    product = sch.rfactor(part, 0)
    sch.set_scope(product, 0, "global")  # two kernels hand them on, wherever the sums themselves lie
    return product, sch.cache_write(product, 0, "global")


def _with_terms_joined(block):
    """The IndexMap that makes one iterator of those of a reduction."""
    initial = {iv.var: Var(iv.var.name.removeprefix("v_"), iv.var.dtype) for iv in block.iter_vars}
    terms = iter_vars(block, "reduce")
    k = joined([Axis(iv.var, iv.dom.extent) for iv in terms], initial, terms[0].var.dtype)
    spatial = [initial[iv.var] for iv in iter_vars(block, "spatial")]
    return IndexMap(tuple(initial.values()), (*spatial, Analyzer().simplify(k)))


def _add_up(sch, sums, epilogue):
    """Add the parts up where the epilogue needs them, an element a thread."""
    loops = sch.get_loops(epilogue)
    fused = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    several, threads = sch.split(fused, [None, THREADS_OF_SUMS])
    sch.compute_at(sums, threads, preserve_unit_loops=True)
    sch.set_scope(sums, 0, "local")
    sch.bind(several, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")


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
    sch.transform_block_layout(epilogue, _as_matrices(sch, form, found, every))
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


def _as_matrices(sch, form, found, every):
    """The IndexMap from the loops of an epilogue to batches, rows and columns."""
    initial = [Var(sch.get(loop).loop_var.name, sch.get(loop).loop_var.dtype) for loop in every]
    values = {var: initial[every.index(loop)] for var, loop in found.items()}
    values |= {axis.var: const(0, axis.var.dtype) for axis in form.axes if axis.var not in values}
    dtype = max((v.dtype for v in initial), key=lambda dtype: dtype.bits)
    sides = [Analyzer().simplify(joined(axes, values, dtype)) for axes in (form.rows, form.columns)]
    groups = {axis.var: axis for axis in form.batch if axis.part}
    within = {axis.var for axis in (*form.rows, *form.columns)} - set(groups)
    batch = []
    for loop, value in zip(every, initial):
        var = next((v for v, other in found.items() if other is loop), None)
        if var in groups:
            batch.append(groups[var].of(value))
        elif var not in within:
            batch.append(value)
    return IndexMap(tuple(initial), (*batch, *sides))


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
    if lanes is None and _lies_along_terms(block, letter):
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


def _lies_along_terms(copy, letter):
    """Whether what a copy reads lies in a row along the terms rather than along rows or columns."""
    loads = [load for load in collect(copy.body, BufferLoad) if load.indices]
    own = {iv.var for iv in copy.iter_vars if iv.var.name.startswith(f"v_{letter}")}
    return bool(loads) and not uses(loads[0].indices[-1], own)


def _hold(sch, copy, product, ki):
    """Hold what a thread reads of a shared operand for a term in registers."""
    held = sch.cache_read(product, place_of(sch.get(product), sch.get(copy).writes[0].buffer), "local")
    sch.compute_at(held, ki, preserve_unit_loops=True)
    *outer, lanes = sch.get_loops(held)[-4:]
    for loop in outer:
        sch.unroll(loop)
    sch.vectorize(lanes)
