"""Sums of products of float16 or bfloat16 on tensor cores (sm_80): products of matrices, and convolutions as implicit
ones.

A block of threads makes a tile of the result. Its warps share what it needs of both operands, which cp.async brings to
shared memory several turns ahead; each has a part of the tile as fragments, of 16 x 16 sums in float32.

    for tile (blocks):
        sums = 0
        for terms, a few at a time, in a software pipeline:
            left_shared, right_shared = operands, 0 outside          (all threads, asynchronously)
            for 16 of these:
                left, right = fragments of left_shared, right_shared   (ldmatrix)
                sums += left * right                                 (mma.sync)
        for 16 rows of a warp:
            sums_shared = sums
            result = epilogue(sums_shared)                           (the lanes of the warp)

Fragments are those of the wmma_* intrinsics (ir/schedule/intrin/cuda.py): tensorize proves that they do what the loops
do. What they become is ldmatrix and mma.sync (ingot_fragment.h), not the instructions that are called wmma, which hold
a tile in a layout of their own and reach a tenth of the speed on newer devices.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ....arith import Analyzer
from ....expr import Call, Cast, IntImm, Range, Var, cast, const, substitute
from ....node import collect
from ....tir.buffer import row_major_strides
from ....tir.hints import ASYNC_STAGES, ORDER, RING, STAGES, UNROLL
from ....tir.stmt import BufferLoad
from ...blocks import uses
from ...contraction_form import contraction_form
from ...intrin.cuda import get_wmma_intrin_group
from ...plan import Match, Plan, PlanError
from ..blocks import SYMBOLIC, place_of, static_extent
from .contractions import Product, add_up, as_matrices, count, in_parts, lies_along_terms, loops_of, matched
from .tensor_core_tiles import FRAGMENT, TILES, cost_of

LANES = 32
CHUNK = 8    # elements of 16 bits that one copy moves at most
LEAST_PART = 128  # terms of a part of a sum
FEW = 4      # rows or columns that other rules are for
FETCHES = 4  # elements that a thread has under way where no copy is asynchronous


@dataclass(frozen=True)
class TensorCoreProduct(Product):
    """One of numbers of 16 bits."""

    rule = "tensor_core_product"
    tiles = TILES

    def candidates(self, target):
        for tile in self.tiles:
            if tile.threads > target.launch.max_threads or tile.shared_bytes > target.launch.shared_dyn_bytes:
                continue
            for parts in self.parts(tile, target.launch.sms, LEAST_PART):
                yield Plan(self.rule, tile.name, turn=tile.depth, parts=parts)

    def cost(self, plan, target):
        return cost_of(by_name(self.tiles, plan.algorithm), self, plan.parts, target.launch)


def by_name(tiles, name):
    return next(tile for tile in tiles if tile.name == name)


def tensor_core_product(sch, target):
    """A sum of products of two operands of float16 or bfloat16, and what follows it."""
    found = matched(sch, fits) if "sm_80" in target.isa else None
    if found is None:
        return None
    anchor, epilogue, facts = found
    return Match(TensorCoreProduct(**facts), partial(applied, sch, anchor, epilogue, TILES, _multiply))


def fits(block):
    """Whether a block is a product of numbers that tensor cores take, of more rows and columns than one thread makes
    as fast."""
    form, _ = contraction_form(block)
    if form is None or block.writes[0].buffer.dtype != "float32" or _format(form) is None:
        return False
    return count(form.depth) > 1 and all(count(s) > FEW for s in (form.rows, form.columns))


def _format(form):
    """The dtype of both factors; None where tensor cores have none."""
    dtypes = {str(f.value.dtype) if isinstance(f, Cast) else "" for f in (form.left, form.right)}
    return next(iter(dtypes)) if len(dtypes) == 1 and dtypes <= {"float16", "bfloat16"} else None


# ---------------------------------------------------------------- schedule

def applied(sch, anchor, epilogue, tiles, multiply, plan, target, mapped=(False, False)):
    """Schedule a product by a plan. multiply: function that schedules what a turn of the loop over terms does with the
    copies of the operands; mapped: which of these tensor maps can say, for tiles with warps that only copy."""
    tile = by_name(tiles, plan.algorithm)
    _channels_last(sch, sch.get_block(anchor))
    if plan.parts > 1:
        product, sums = in_parts(sch, anchor, plan.parts)
        _tile(sch, product, sums, tile, multiply, mapped)
        add_up(sch, sch.get_block(anchor), epilogue)
    else:
        _tile(sch, sch.get_block(anchor), epilogue, tile, multiply, mapped)


def _channels_last(sch, block):
    """Number the terms of a convolution by positions of the window first, then by channels: in a turn of the loop over
    terms the position then is one, or few, and so are guards at the border."""
    iters = sch.get(block).iter_vars
    terms = [n for n, iv in enumerate(iters) if iv.iter_type == "reduce"]
    points = {iv.var for iv in iters if iv.iter_type != "reduce"}
    indices = [i for load in collect(sch.get(block).body, BufferLoad) for i in load.indices]
    slides = [n for n in terms if any(uses(i, {iters[n].var}) and uses(i, points) for i in indices)]
    if slides and terms[-1] not in slides:
        kept = [n for n in terms if n not in slides]
        sch.reorder_block_iter_var(block, [*(n for n in range(len(iters)) if n not in terms), *slides, *kept])


def _tile(sch, product, epilogue, tile, multiply, mapped):
    """Schedule a product and what reads it."""
    form, _ = contraction_form(sch.get(product))
    dtype = _format(form)
    found, every = loops_of(sch, sch.get(product), epilogue)
    copies = sch.tile_contraction(product, [tile.rows], [tile.columns], [tile.depth])
    along = [lies_along_terms(sch.get(copy), letter) for copy, letter in zip(copies, "mn")]
    warps, strip = _result(sch, form, found, every, epilogue, tile)
    sch.transform_layout(product, ("write", 0), lambda *i: (*i[:-4], i[-4], i[-2], i[-3], i[-1]))
    sch.compute_at(product, warps, preserve_unit_loops=True)
    sch.set_scope(product, 0, "wmma.accumulator")
    *_, m, n, turns, k = sch.get_loops(product)
    sch.reorder(turns, m, n, k)
    for copy, by_terms, of_map in zip(copies, along, mapped):
        _near(sch, copy, turns, by_terms)
        if not (tile.beside and of_map):
            _share(sch, copy, by_terms, tile)
    _back(sch, product, epilogue, strip, tile)
    multiply(sch, product, copies, turns, along, tile, dtype)
    if tile.beside:
        sch.annotate(turns, RING, tile.stages)
        return
    sch.annotate(turns, STAGES, [0, 0, tile.stages - 1 - tile.lag])
    sch.annotate(turns, ORDER, [0, 1, 2])
    sch.annotate(turns, ASYNC_STAGES, [0])
    sch.annotate(turns, UNROLL, 1)  # a turn has products enough; copies of it would only fill the instruction cache


def _multiply(sch, product, copies, turns, along, tile, dtype):
    """Let warps load fragments of what was copied, and multiply these."""
    (m, mi), (n, ni), (steps, ki) = (sch.split(loop, [None, FRAGMENT]) for loop in sch.get_loops(product)[-3:])
    sch.reorder(steps, m, n, mi, ni, ki)
    names = _names(dtype, along)
    for copy, by_terms, which in zip(copies, along, "ab"):
        sch.storage_align(copy, 0, -2, 2 * CHUNK, CHUNK)
        _fragments(sch, product, copy, steps, by_terms == (which == "a"), which, names)
    init = sch.decompose_reduction(product, turns)
    sch.tensorize(sch.get_loops(init)[-2], names["init"])
    sch.tensorize(mi, names["compute"])
    for loop in (steps, m, n):
        sch.unroll(loop)


def _names(dtype, along):
    """The intrinsics for operands whose terms lie in a row in shared memory, or do not."""
    names = get_wmma_intrin_group("shared", "shared", dtype, "float32", False)
    for which, by_terms in zip("ab", along):
        if by_terms != (which == "a"):
            names[f"load_{which}"] = names[f"load_{which}"].replace("_shared", "_by_column_shared")
    return names


def _result(sch, form, found, every, epilogue, tile):
    """Cut the result into tiles, warps, strips of 16 rows and what a lane stores of these. Returns the loop over warps
    and the one over strips."""
    sch.transform_block_layout(epilogue, as_matrices(sch, form, found, every))
    *batch, m, n = sch.get_loops(epilogue)
    out = sch.get(epilogue)
    rows_first = _nearer(_address(out.body), out, *((iv.var, s) for iv, s in zip(out.iter_vars[-2:], (1, CHUNK))))
    mo, wm, strip, rows = sch.split(m, [None, tile.warps_down, tile.fragments_down, FRAGMENT])
    no, wn, chunks, lanes = sch.split(n, [None, tile.warps_across, tile.warp_columns // CHUNK, CHUNK])
    if rows_first:  # neighbours along them lie in a row
        turn, chunks = sch.split(chunks, [None, LANES // FRAGMENT])
        inner = [chunks, rows]
    else:
        turn, rows = sch.split(rows, [None, LANES * CHUNK // tile.warp_columns])
        inner = [rows, chunks]
    kept = [loop for loop in batch if static_extent(sch, loop) == SYMBOLIC][1:]  # in a block of threads
    batch = [loop for loop in batch if loop not in kept]
    sch.reorder(*batch, mo, no, *kept, wm, wn, strip, turn, *inner, lanes)
    if batch:
        sch.bind(sch.fuse(*batch) if len(batch) > 1 else batch[0], "blockIdx.z")
    sch.bind(mo, "blockIdx.y")
    sch.bind(no, "blockIdx.x")
    warps = sch.fuse(wm, wn)
    sch.bind(warps, "threadIdx.y")
    sch.bind(sch.fuse(*inner), "threadIdx.x")
    for loop in (strip, turn):
        sch.unroll(loop)
    sch.vectorize(lanes)
    return warps, strip


def _near(sch, copy, turns, by_terms):
    """Copy the part of an operand that a turn needs to shared memory, in rows along the terms where it comes so."""
    if by_terms:
        sch.transform_layout(copy, ("write", 0), lambda *i: (*i[:-2], i[-1], i[-2]))
    sch.set_scope(copy, 0, "shared")
    sch.compute_at(copy, turns, preserve_unit_loops=True)


def _share(sch, copy, by_terms, tile):
    """Let all threads, or warps that do nothing else, do a copy to shared memory, up to 16 bytes at a time where these
    lie in a row: by_terms, along the terms."""
    size, across_first = _chunk(sch.get(copy), by_terms)
    if tile.beside and size == 1:
        raise PlanError(f"{sch.get(copy).name_hint} copies elements one by one, which nobody can wait for: {tile.name}")
    k, points = sch.get_loops(copy)[-2:]
    across, along = (points, k) if by_terms else (k, points)
    chunks, chunk = sch.split(along, [None, size])
    order, in_row = [chunks, across] if across_first else [across, chunks], sch.get(chunks).extent.value
    if size == CHUNK and in_row < 8 and not across_first:
        # Eight neighbours, which write at once, take rows that lie apart, and so do their banks.
        outer, apart, near = sch.split(across, [None, 8 // in_row, in_row])
        order = [outer, near, apart, chunks]
    sch.reorder(*order, chunk)
    fused, _, _ = sch.split(sch.fuse(*order), [None, tile.beside or tile.warps, LANES])
    warps, lanes = sch.get_loops(copy)[-3:-1]
    sch.bind(warps, "threadIdx.y")
    sch.bind(lanes, "threadIdx.x")
    if size == 1:  # no copy that is asynchronous: more of them, with their addresses and guards, would spill
        sch.annotate(fused, UNROLL, FETCHES)
    else:
        sch.unroll(fused)
        sch.vectorize(chunk)


def _chunk(copy, by_terms):
    """(how many elements of what a copy reads lie in a row, along terms or along rows or columns, from a multiple of
    their number on, and are there all or none: 8, 4, 2 or 1; whether their neighbours the other way are nearer than the
    next ones in the row, as in images in blocks of channels)."""
    k, points = copy.iter_vars[-2:]
    along, across = (k, points) if by_terms else (points, k)
    value, conditions = copy.body.value, []
    while isinstance(value, Call) and value.op == "tir.if_then_else":
        conditions.append(value.args[0])
        value = value.args[1]
    if not isinstance(value, BufferLoad):
        return 1, False
    lane, dtype = Var("lane", along.var.dtype), along.var.dtype
    analyzer = Analyzer()
    for iv in copy.iter_vars:
        analyzer.bind(iv.var, iv.dom)
    at = _address(value)
    for size in (CHUNK, CHUNK // 2, CHUNK // 4):
        first = Var("first", dtype)
        analyzer.bind(first, Range(const(0, dtype), along.dom.extent // size), allow_override=True)
        analyzer.bind(lane, Range(const(0, dtype), const(size, dtype)), allow_override=True)
        start, place = (substitute(at, {along.var: first * size + v}) for v in (const(0, dtype), lane))
        guards = [analyzer.simplify(substitute(c, {along.var: first * size + lane})) for c in conditions]
        if not uses(guards, {lane}) and analyzer.can_prove_equal(place, start + cast(lane, "int64")) and (
                analyzer.can_prove_equal(start % size, 0)):
            return size, _nearer(at, copy, (across.var, 1), (along.var, size))
    return 1, False


def _address(access):
    """The place of an element that is loaded or stored in its buffer."""
    strides = row_major_strides(access.buffer.shape)
    return sum((cast(i, "int64") * s for i, s in zip(access.indices, strides)), const(0, "int64"))


def _nearer(at, block, *steps):
    """Whether the first of two steps from the first element, (iterator of a block, by how much), is no longer than the
    second; False where it is not known."""
    first = {iv.var: const(0, iv.var.dtype) for iv in block.iter_vars}
    ends = [Analyzer().simplify(substitute(at, {**first, v: const(n, v.dtype)}) - substitute(at, first))
            for v, n in steps]
    return all(isinstance(e, IntImm) for e in ends) and abs(ends[0].value) <= abs(ends[1].value)


def _fragments(sch, product, copy, steps, in_order, which, names):
    """Load the fragments that a warp needs of a shared operand for 16 terms."""
    held = sch.cache_read(product, place_of(sch.get(product), sch.get(copy).writes[0].buffer), f"wmma.matrix_{which}")
    sch.compute_at(held, steps, preserve_unit_loops=True)
    if not in_order:
        sch.transform_layout(held, ("write", 0), lambda *i: (*i[:-2], i[-1], i[-2]))
        sch.reorder(*reversed(sch.get_loops(held)[-2:]))
    _by_fragments(sch, held, names[f"load_{which}"])


def _by_fragments(sch, block, intrinsic):
    """Let an intrinsic do what a block does with each fragment."""
    (i, ii), (j, jj) = (sch.split(loop, [None, FRAGMENT]) for loop in sch.get_loops(block)[-2:])
    sch.reorder(i, j, ii, jj)
    sch.tensorize(ii, intrinsic)
    sch.unroll(i)
    sch.unroll(j)


def _back(sch, product, epilogue, strip, tile):
    """Hand a strip of a warp's sums to its lanes by shared memory of its own, padded so that fragments are stored
    without conflicts of banks."""
    rows, columns = tile.fragments_down * FRAGMENT, tile.warp_columns
    back = sch.cache_read(epilogue, place_of(sch.get(epilogue), sch.get(product).writes[0].buffer), "local")
    sch.compute_at(back, strip, preserve_unit_loops=True)
    sch.transform_layout(back, ("write", 0), lambda *i: (
        *i[:-2], i[-2] // rows, i[-1] // columns, i[-2] // FRAGMENT % tile.fragments_down, i[-2] % FRAGMENT,
        i[-1] % columns))
    sch.set_scope(back, 0, "shared")
    sch.storage_align(back, 0, -2, 32, CHUNK)
    _by_fragments(sch, back, "wmma_store_16x16x16_f32_shared")
