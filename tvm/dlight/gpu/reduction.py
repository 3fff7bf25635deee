"""Reduction: one sum, with what follows it element by element."""
from __future__ import annotations

from dataclasses import dataclass

from ....ir.arith.iter_rewrite import normalize_to_iter_sum
from ....ir.expr import IntImm, is_const_int
from ..analysis import detect_dominant_read, get_reduction_expr, is_broadcast_epilogue, normalize_prim_func
from ..base import suggest_threads_per_block, try_inline_contiguous_spatial
from .base import GPUScheduleRule, Steps

_SIDE = 16  # threads along x, and along y, where sums run across rows


@dataclass(frozen=True)
class _Nest:
    """A sum's loops, made three: over elements, of the sum, over parts that lie together.

    rows: whether the sum runs along rows of what it reads most; parts: how many elements lie together, None for no
    loop over elements that is split; order: where in the first loop each iterator over elements is; at: which of them
    is split.
    """

    rows: bool
    parts: int | None
    order: list
    at: int | None


class Reduction(Steps):
    """Threads of a block add up a part each, in registers, then all together. Sums along rows have a block each, sums
    across rows a block for 16 of them, whose threads read neighbours."""

    names = ("rows",)

    def steps(self, sch, target):
        blocks = try_inline_contiguous_spatial(sch, normalize_prim_func(sch))
        if not blocks or len(blocks) > 2 or not all(b.is_injective() for b in blocks[1:]):
            return None
        info, after = blocks[0], blocks[1].block_rv if blocks[1:] else None
        block = sch.get(info.block_rv)
        if not info.is_reduction() or "R" not in info.dom_kind() or len(block.writes) != 1 or (
                get_reduction_expr(block) is None):
            return None
        elements = [i.dom for i in info.iters if i.kind == "S"]
        nest = _arranged(sch, info)
        if nest is None:
            return None
        make = _along_rows if nest.rows else _across_rows
        make(sch, target, info.block_rv, after, nest, elements[-1])
        return sch


def _arranged(sch, info):
    """The _Nest of a sum's loops; None where the index of what it reads is no sum of its iterators."""
    block = sch.get(info.block_rv)
    access = normalize_to_iter_sum(detect_dominant_read(block), {iv.var: iv.dom for iv in block.iter_vars})
    left, elements, sums, inner = {i.var: i for i in info.iters}, [], [], []
    parts = split = at = None
    if not is_const_int(access.base, 0) or not access.args:
        return None
    for term in access.args:
        found = left.pop(term.source.source, None)
        if found is None:
            return None
        loop, rows = found.loop_rv, found.kind == "R"
        if not is_const_int(term.lower_factor, 1):
            if inner or not isinstance(term.lower_factor, IntImm):
                return None
            loop, part = sch.split(loop, [None, term.lower_factor.value])
            inner.append(part)
            if not rows:
                split, at, parts = found.loop_rv, len(elements), term.lower_factor.value
        (sums if rows else elements).append(loop)
    if not all(i.kind == "S" and i.dom == 1 for i in left.values()):
        return None
    elements += [i.loop_rv for i in left.values()]
    if not sums or len(elements) != info.dom_kind().count("S"):
        return None
    order = [at if i.loop_rv is split else elements.index(i.loop_rv) for i in info.iters if i.kind == "S"]
    inner = inner or [sch.add_unit_loop(info.block_rv)]
    sch.reorder(*elements, *sums, *inner)
    sch.fuse(*elements)
    sch.fuse(*sums)
    return _Nest(rows, parts, order, at)


def _along_rows(sch, target, block, after, nest, _):
    (threads,) = suggest_threads_per_block(target, [sch.get(sch.get_loops(block)[1])])
    _, thread = sch.split(sch.get_loops(block)[1], [None, threads])
    partial = sch.rfactor(thread, 0)
    row, turn, thread, _ = sch.get_loops(partial)
    sch.reorder(row, thread, turn)
    sch.bind(row, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.annotate(thread, "pragma_auto_unroll_max_step", 256)
    sch.annotate(thread, "pragma_unroll_explicit", 1)
    sch.set_scope(partial, 0, "local")
    sch.decompose_reduction(partial, turn)
    sch.reverse_compute_at(block, row, preserve_unit_loops=True)
    _, thread, *elements = sch.get_loops(block)
    element, part = _joined(sch, elements, nest)
    sch.reorder(element, thread, *part)
    sch.bind(thread, "threadIdx.x")
    if after is not None:
        sch.reverse_compute_at(after, row, preserve_unit_loops=True)
        shared = is_broadcast_epilogue(sch, block, after)
        sch.set_scope(block, 0, "shared" if shared else "local")
        if shared:
            _, thread = sch.split(sch.fuse(*sch.get_loops(after)[1:]), [None, threads])
            sch.bind(thread, "threadIdx.x")


def _across_rows(sch, target, block, after, nest, extent):
    columns = next((n for n in range(_SIDE, 1, -1) if isinstance(extent, int) and extent % n == 0), 1)
    elements, turns, _ = sch.get_loops(block)
    sch.split(elements, [None, columns])
    _, thread = sch.split(turns, [None, _SIDE])
    partial = sch.rfactor(thread, 0)
    group, column, turn, thread, _ = sch.get_loops(partial)
    sch.reorder(group, column, thread, turn)
    sch.bind(column, "threadIdx.x")
    sch.bind(thread, "threadIdx.y")
    sch.bind(group, "blockIdx.x")
    sch.set_scope(partial, 0, "local")
    sch.decompose_reduction(partial, turn)
    sch.reverse_compute_at(block, group, preserve_unit_loops=True)
    _, thread, *elements = sch.get_loops(block)
    column, part = _joined(sch, elements, nest)
    sch.reorder(column, *part, thread)
    sch.bind(column, "threadIdx.x")
    sch.bind(thread, "threadIdx.y")
    if after is not None:
        sch.reverse_compute_at(after, group, preserve_unit_loops=True)
        shared = is_broadcast_epilogue(sch, block, after)
        sch.set_scope(block, 0, "shared" if shared else "local")
        rest = sch.fuse(*sch.get_loops(after)[1:])
        if shared:
            _, column, thread = sch.split(rest, [None, columns, _SIDE])
            sch.bind(thread, "threadIdx.y")
        else:
            column, _ = sch.split(rest, [columns, None])
        sch.bind(column, "threadIdx.x")


def _joined(sch, loops, nest):
    """(one loop over elements, [the one over parts that lie together])."""
    if not nest.parts:
        return sch.fuse(*loops), []
    loops = [loops[n] for n in nest.order]
    sch.reorder(*loops)
    loops[nest.at], part = sch.split(loops[nest.at], [None, nest.parts])
    sch.reorder(*loops, part)
    return sch.fuse(*loops), [part]


__all__ = ["Reduction"]
