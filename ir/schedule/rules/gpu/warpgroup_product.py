"""Sums of products of float16 or bfloat16 by warpgroups (wgmma, sm_90a), of operands that lie along the terms.

As in tensor_core_product.py, but both operands stay in shared memory, in rows of 64 terms that are swizzled: four warps
together read them from there, and hold 64 rows of sums, so that one instruction does 64 x 256 x 16 products.

Tiles of plain matrices a warp of its own copies by tensor maps (TMA), stages ahead, and hands on by mbarriers
(ir/transform/gpu/warp_roles.py): those that multiply have no copies, no addresses and no barrier of the block in their
turns. Rows of both have to lie on multiples of 16 bytes. Of images, of other rows, and where a kernel reads an operand
twice, all threads copy by cp.async, which gathers what a convolution needs.
"""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial

from ....expr import IntImm, is_const_int
from ....node import collect, structural_equal
from ....tir.hints import LAG, SWIZZLE
from ....tir.lanes import weak_alignments
from ....tir.stmt import BufferLoad
from ...blocks import uses
from ...contraction_form import contraction_form
from ...plan import Match
from ..blocks import SYMBOLIC, static_extent
from .contractions import matched
from .tensor_core_product import TensorCoreProduct, applied, by_name, fits
from .tensor_core_tiles import FRAGMENT, GATHERING, WARPGROUP_TILES

CHUNK = 16  # bytes of which rows that a tensor map describes are a multiple


@dataclass(frozen=True)
class WarpgroupProduct(TensorCoreProduct):
    """As TensorCoreProduct. mapped: of which operands tensor maps can say what copies read; even: whether copies of the
    other one move two neighbours at least."""

    rule = "warpgroup_product"
    tiles = WARPGROUP_TILES
    mapped: tuple[bool, bool] = (False, False)
    even: bool = False

    def candidates(self, target):
        for plan in super().candidates(target):
            tile = by_name(self.tiles, plan.algorithm)
            if tile.beside == self.beside and self.ends_with(tile, plan.parts) or not tile.beside:
                yield plan

    @property
    def beside(self):
        """How many warps only copy, where some do."""
        return 1 if all(self.mapped) else GATHERING if any(self.mapped) and self.even else None

    def ends_with(self, tile, parts):
        """Whether the matrices end where products of a batch, or parts of sums, do, or tiles fit these."""
        return (parts == 1 or self.depth // parts % tile.depth == 0) and (
            self.batch == 1 or not (self.rows % tile.rows or self.columns % tile.columns))


def warpgroup_product(sch, target):
    """A sum of products of two operands of float16 or bfloat16 that lie along the terms, and what follows it."""
    found = matched(sch, lambda block: fits(block) and _along_terms(block)) if "sm_90a" in target.isa else None
    if found is None:
        return None
    anchor, epilogue, facts = found
    if facts["rows"] < 64 and facts["rows"] != SYMBOLIC:
        return None  # of 64 rows at once most would be for nothing
    block = sch.get(sch.get_block(anchor))
    mapped = _mapped(sch, block, epilogue)
    return Match(WarpgroupProduct(**facts, mapped=mapped, even=_even(block)), partial(
        applied, sch, anchor, epilogue, WARPGROUP_TILES, _multiply, mapped=mapped))


def _along_terms(block):
    """Whether both factors read along the terms."""
    form, _ = contraction_form(block)
    loads = [collect(factor, BufferLoad) for factor in (form.left, form.right)]
    last, points = form.depth[-1].var, {axis.var for axis in (*form.rows, *form.columns)}
    return all(len(found) == 1 and uses(found[0].indices[-1], {last}) and not uses(found[0].indices[-1], points)
               for found in loads)


def _mapped(sch, block, epilogue):
    """Which operands of a product are matrices that copies by tensor maps may read: as they are, row after row, rows on
    multiples of 16 bytes; read by nothing else, since a kernel gets the map in place of the matrix."""
    form, _ = contraction_form(block)
    symbolic = [loop for loop in sch.get_loops(epilogue) if static_extent(sch, loop) == SYMBOLIC]
    batch_is_static = all(axis.is_static for axis in form.batch)
    read = Counter(load.buffer for load in collect(sch.func.body, BufferLoad))
    return tuple(len(symbolic) <= 1 and batch_is_static and _is_matrix(
        factor, form, getattr(form, side), read, weak_alignments(sch.func))
        for factor, side in ((form.left, "rows"), (form.right, "columns")))


def _even(block):
    """Whether neighbours in both operands come in pairs, along the terms."""
    form, _ = contraction_form(block)
    loads = collect((form.left, form.right), BufferLoad)
    return all(isinstance(n, IntImm) and n.value % 2 == 0 for load in loads for n in (load.buffer.shape[-1],))


def _is_matrix(factor, form, points, read, weak):
    load = factor.value
    if not isinstance(load, BufferLoad) or read[load.buffer] > 1:
        return False
    terms = [axis.var for axis in form.depth if not is_const_int(axis.extent, 1)]
    *outer, last = load.indices
    *shape, width = load.buffer.shape
    outer = [(i, n) for i, n in zip(outer, shape) if not is_const_int(n, 1)]
    axes = [a for a in (*form.batch, *points) if not is_const_int(a.extent, 1) and uses(load.indices, {a.var})]
    many = not all(isinstance(n, IntImm) for _, n in outer[1:])
    return [last] == terms and not many and isinstance(width, IntImm) and (
        width.value * load.dtype.bytes % CHUNK == 0 and weak.get(load.buffer.data, CHUNK) % CHUNK == 0) and (
        len(outer) == len(axes) and all(i is a.var and not a.part and structural_equal(a.extent, n)
                                        for (i, n), a in zip(outer, axes)))


def _multiply(sch, product, copies, turns, along, tile, dtype):
    """Let warpgroups multiply what was copied."""
    rows = sch.get_loops(product)[-3]
    for copy in copies:
        sch.annotate(copy, SWIZZLE, 0)
    init = sch.decompose_reduction(product, turns)
    down, across = sch.get_loops(init)[-2:]
    outer, inner = sch.split(across, [None, FRAGMENT])
    sch.reorder(outer, down, inner)
    sch.tensorize(down, "wmma_fill_16x16x16_f32")
    short = {"float16": "f16", "bfloat16": "bf16"}[dtype]
    sch.tensorize(rows, f"wgmma_64x{tile.columns}x64_{short}_f32_lag")
    if not tile.beside:
        sch.annotate(turns, LAG, 1)  # the next products wait in a queue while these run
