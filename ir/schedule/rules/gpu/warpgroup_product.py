"""Sums of products of float16 or bfloat16 by warpgroups (wgmma, sm_90a), of operands that lie along the terms.

As in tensor_core_product.py, but both operands stay in shared memory, in rows of 64 terms that are swizzled: four warps
together read them from there, and hold 64 rows of sums, so that one instruction does 64 x 256 x 16 products. cp.async
brings operands, and not copies by tensor maps (TMA): of images it gathers what a convolution needs, and neither the
host nor alignments of rows have a say in it.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ....node import collect
from ....tir.hints import LAG, SWIZZLE
from ....tir.stmt import BufferLoad
from ...blocks import uses
from ...contraction_form import contraction_form
from ...plan import Match
from ..blocks import SYMBOLIC
from .contractions import matched
from .tensor_core_product import TensorCoreProduct, applied, fits
from .tensor_core_tiles import FRAGMENT, WARPGROUP_TILES


@dataclass(frozen=True)
class WarpgroupProduct(TensorCoreProduct):
    """As TensorCoreProduct."""

    rule = "warpgroup_product"
    tiles = WARPGROUP_TILES


def warpgroup_product(sch, target):
    """A sum of products of two operands of float16 or bfloat16 that lie along the terms, and what follows it."""
    found = matched(sch, lambda block: fits(block) and _along_terms(block)) if "sm_90a" in target.isa else None
    if found is None:
        return None
    anchor, epilogue, facts = found
    if facts["rows"] < 64 and facts["rows"] != SYMBOLIC:
        return None  # of 64 rows at once most would be for nothing
    return Match(WarpgroupProduct(**facts), partial(applied, sch, anchor, epilogue, WARPGROUP_TILES, _multiply))


def _along_terms(block):
    """Whether both factors read along the terms."""
    form, _ = contraction_form(block)
    loads = [collect(factor, BufferLoad) for factor in (form.left, form.right)]
    last, points = form.depth[-1].var, {axis.var for axis in (*form.rows, *form.columns)}
    return all(len(found) == 1 and uses(found[0].indices[-1], {last}) and not uses(found[0].indices[-1], points)
               for found in loads)


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
    sch.annotate(turns, LAG, 1)  # the next products wait in a queue while these run
