"""reindex: let a block see a buffer by its own iterators."""
from __future__ import annotations

from ...arith import affine_domains
from ...expr import IterVar, Range, Var, const, substitute
from ...node import Mutator, collect, structural_equal
from ...tir.buffer import decl_buffer
from ...tir.stmt import Block, BlockRealize, BufferLoad, BufferRegion, BufferStore
from ..blocks import name_of, require_pure, uses
from ..context import analyzer_of
from ..legality import require_still_legal, require_whole_domain
from ..nest import build_nest, children_of, insert
from ..regions import whole
from ..registry import BLOCK, BUFFER_REF, Result, primitive
from ..signature import by_name, choose_ref, is_leaf, stays_inside
from .storage import unaligned


@primitive(BLOCK, block=BLOCK, buffer=BUFFER_REF)
def reindex(ctx, block, buffer):
    """Copy what a block reads of (or writes to) a buffer to one indexed by the block's iterators; returns the copy.

        C[i, j] += A[i + k] * B[j, k]
    becomes, with reindex(C, ("read", 0)),
        A_reindex[i, k] = A[i + k]
        C[i, j] += A_reindex[i, k] * B[j, k]

    buffer: its name, ("read", n) or ("write", n). The new buffer has the iterators that the index uses as dimensions,
    in the block's order. Requires that the block uses the buffer at one index, inside it in every instance, and, for a
    written one, a block whose instances write different elements.
    """
    scope = ctx.scope(block, "'block'")
    require_pure(ctx, scope, block, "'block'")
    if scope.block.iter_vars:
        ctx.refuse("'block'", f"block {name_of(block)} runs over a part of its domain inside block {name_of(scope)}",
                   "reindex first, then blockize", [block])
    target = choose_ref(ctx, block, buffer, "'buffer'")
    if not is_leaf(block.block, target):
        ctx.refuse("'block'", f"block {name_of(block)} holds other blocks, matched buffers or pointers", "", [block])
    writes = any(r.buffer is target for r in block.block.writes)
    indices = tuple(map(by_name(block.block).simplify, only_index(ctx, block, target)))
    iters = [iv for iv in block.block.iter_vars if uses(indices, {iv.var})]
    if not stays_inside(block.block, indices, [whole(e) for e in target.shape]):
        ctx.refuse("'buffer'", f"block {name_of(block)} reads {target.name}[{', '.join(map(str, indices))}], which may "
                   "lie outside", "only indices that are always valid can be read ahead", [block])
    if writes:
        _require_one_to_one(ctx, block, indices, iters)
        require_whole_domain(ctx, block, "'buffer'")
    else:
        _require_before(ctx, scope, block, target)
    new = decl_buffer([iv.dom.min + iv.dom.extent for iv in iters], target.dtype,
                      ctx.new_block_name(target.name + "_reindex"), target.scope, data_alignment=target.data_alignment)
    own = tuple(iv.var for iv in iters)
    copy = _copy(new, target, iters, indices, writes)
    inner = Redirect(target, new, own).visit(block.block)
    changed = block.replace(block=inner.replace(annotations=unaligned(inner.annotations)) if writes else inner)
    func = ctx.index.rewrite({block: changed}, {scope: scope.block.alloc_buffers + (new,)})
    after = ctx.with_func(func)
    parent = after.index.blocks[name_of(scope)]
    top = _outermost(after.index, after.index.blocks[name_of(block)])
    position = children_of(parent).index(top) + writes
    func = insert(after, parent, build_nest(copy, {}, analyzer_of([]), preserve_unit_loops=True), position)
    after = ctx.with_func(func)
    require_still_legal(after, after.index.blocks[new.name], "'buffer'")
    require_still_legal(after, after.index.blocks[name_of(block)], "'buffer'")
    return Result(func, (new.name,))


def only_index(ctx, block, buffer):
    accesses = [a for a in collect((block.block.init, block.block.body), (BufferLoad, BufferStore))
                if a.buffer is buffer]
    if not accesses or any(not structural_equal(a.indices, accesses[0].indices) for a in accesses):
        ctx.refuse("'buffer'", f"block {name_of(block)} does not use {buffer.name} at one index",
                   "only one element per instance can be copied", [block])
    return accesses[0].indices


def _require_before(ctx, scope, block, buffer):
    """Refuse unless all that writes a buffer stands before the outermost loop of the block."""
    top = _outermost(ctx.index, block)
    for writer in ctx.index.writers(buffer, scope):
        if _outermost(ctx.index, writer) is top or ctx.index.order[writer] > ctx.index.order[block]:
            ctx.refuse("'buffer'", f"block {name_of(writer)}, which writes {buffer.name}, does not stand before the "
                       f"loops of block {name_of(block)}", "reindex first, then compute_at", [block, writer])


def _require_one_to_one(ctx, block, indices, iters):
    found = affine_domains(indices, {iv.var: iv.dom for iv in iters}, bijective=True)
    rest = [iv for iv in block.block.iter_vars if iv.iter_type == "spatial" and iv not in iters]
    if not found or rest:
        ctx.refuse("'buffer'", f"the instances of block {name_of(block)} are not proved to write different elements: "
                   + (found.reason or f"iterator {rest[0].var.name} does not choose one"), "", [block])
    scope = ctx.scope(block, "'block'")
    top = _outermost(ctx.index, block)
    for reader in ctx.index.readers(next(r.buffer for r in block.block.writes), scope):
        if reader is not block and _outermost(ctx.index, reader) is top:
            ctx.refuse("'buffer'", f"block {name_of(reader)} reads it within the same loops",
                       "reindex first, then compute_at", [block, reader])


def _outermost(index, stmt):
    """The statement directly inside the scope that holds a block."""
    loops = index.loops_above(stmt)
    return loops[0] if loops else stmt


def _copy(new, target, iters, indices, back):
    """The unbound realize of the block that copies the target to the new buffer, or back."""
    fresh = tuple(IterVar(iv.dom, Var(f"v{n}", iv.var.dtype), "spatial") for n, iv in enumerate(iters))
    there = substitute(indices, {iv.var: f.var for iv, f in zip(iters, fresh)})
    here = tuple(f.var for f in fresh)
    sides = [(new, here), (target, there)]
    (source, at), (goal, to) = sides if back else reversed(sides)
    block = Block(fresh, (_point(source, at),), (_point(goal, to),), new.name, (), (), {}, None,
                  BufferStore(goal, BufferLoad(source, at), to))
    return BlockRealize(here, const(True), block)


def _point(buffer, indices):
    return BufferRegion(buffer, tuple(Range(i, const(1, i.dtype)) for i in indices))


class Redirect(Mutator):
    """Accesses of `old`, all at one index, become accesses of `new` at `own`."""

    def __init__(self, old, new, own):
        self.old, self.new, self.own = old, new, own

    def _access(self, access):
        access = self.generic_visit(access)
        return access.replace(buffer=self.new, indices=self.own) if access.buffer is self.old else access

    visit_BufferLoad = visit_BufferStore = _access

    def visit_BufferRegion(self, region):
        return _point(self.new, self.own) if region.buffer is self.old else region
