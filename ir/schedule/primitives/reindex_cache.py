"""reindex_cache_read and reindex_cache_write: copies in other memory, laid out by the block's iterators."""
from __future__ import annotations

from ...arith import affine_domains
from ...expr import IterVar, Range, Var, const, substitute
from ...tir.buffer import decl_buffer
from ...tir.stmt import Block, BlockRealize, BufferLoad, BufferRegion, BufferStore, For
from ..blocks import name_of, require_pure, uses
from ..dependence import common_loops
from ..legality import require_still_legal, require_whole_domain
from ..nest import insert, position_of
from ..registry import BLOCK, BUFFER, INDEX_MAP, STR, Result, primitive
from ..signature import choose, is_leaf, require_memory, stays_inside
from ..regions import whole
from .layout import index_map_of
from .reindex import Redirect, only_index
from .storage import unaligned


@primitive(BLOCK, block=BLOCK, read_buffer_index=BUFFER, storage_scope=STR, index_map=INDEX_MAP)
def reindex_cache_read(ctx, block, read_buffer_index, storage_scope, index_map):
    """Copy what a block reads of a buffer into other memory, at places that follow from the block's iterators, and
    let the block read that; returns the copying block.

        C[i, j] = f(B[i, j])
    becomes, with index_map=lambda i, j: (j, i // 2, i % 2),
        B_shared[j, i // 2, i % 2] = B[i, j]
        C[i, j] = f(B_shared[j, i // 2, i % 2])

    Requires that the block reads the buffer at one index that is always inside, and a map that gives different places
    to all values of the iterators in this index.
    """
    return _cached(ctx, block, choose(ctx, block, read_buffer_index, "reads", "'read_buffer_index'"), storage_scope,
                   index_map, writes=False)


@primitive(BLOCK, block=BLOCK, write_buffer_index=BUFFER, storage_scope=STR, index_map=INDEX_MAP)
def reindex_cache_write(ctx, block, write_buffer_index, storage_scope, index_map):
    """Let a block write to other memory, at places that follow from its iterators, and copy that to the buffer behind
    it; returns the copying block.

        B[i, j] = f(A[i, j])
    becomes, with index_map=lambda i, j: (j, i),
        B_shared[j, i] = f(A[i, j])
        B[i, j] = B_shared[j, i]

    Requires a block that uses the buffer at one index, each element of which one instance alone (or one reduction)
    writes, and a map that gives different places to all values of the iterators in this index.
    """
    require_pure(ctx, ctx.scope(block, "'block'"), block, "'block'")
    buffer = choose(ctx, block, write_buffer_index, "writes", "'write_buffer_index'")
    require_whole_domain(ctx, block, "'block'")
    return _cached(ctx, block, buffer, storage_scope, index_map, writes=True)


def _cached(ctx, block, buffer, storage_scope, index_map, writes):
    scope = ctx.scope(block, "'block'")
    require_memory(ctx, storage_scope, block)
    if not is_leaf(block.block, buffer):
        ctx.refuse("'block'", f"block {name_of(block)} holds other blocks, matched buffers or pointers", "", [block])
    if not writes and any(r.buffer is buffer for r in block.block.writes):
        ctx.refuse("'read_buffer_index'", f"block {name_of(block)} also writes {buffer.name}", "", [block])
    indices = only_index(ctx, block, buffer)
    if not stays_inside(block.block, indices, [whole(e) for e in buffer.shape]):
        ctx.refuse("'block'", f"block {name_of(block)} accesses {buffer.name}[{', '.join(map(str, indices))}], which "
                   "may lie outside", "", [block])
    index_map = index_map_of(ctx, index_map, len(block.block.iter_vars))
    iters, places, shape = _places(ctx, block, indices, index_map)
    name = ctx.new_block_name(f"{buffer.name}_{storage_scope}")
    cache = decl_buffer(shape, buffer.dtype, name, storage_scope, data_alignment=buffer.data_alignment)
    shared = _shared_loops(ctx, scope, block, buffer, writes)
    nest = _copying(ctx, block, (cache, places), (buffer, indices), iters, name, shared, writes)
    inner = Redirect(buffer, cache, places).visit(block.block)
    changed = block.replace(block=inner.replace(annotations=unaligned(inner.annotations)) if writes else inner)
    at = ctx.with_func(ctx.index.rewrite({block: changed}, {scope: scope.block.alloc_buffers + (cache,)}))
    now = at.index.blocks[name_of(block)]
    parent = at.index.loops[shared[-1].loop_var] if shared else at.index.blocks[name_of(scope)]
    after = ctx.with_func(insert(at, parent, nest, position_of(parent, now) + writes))
    for changed_block in (name, name_of(block)):
        require_still_legal(after, after.index.blocks[changed_block], "'block'")
    return Result(after.func, (name,), recorded={"index_map": index_map})


def _places(ctx, block, indices, index_map):
    """(iterators that choose a place, its indices in the new buffer, the shape of that)."""
    variables = [iv.var for iv in block.block.iter_vars]
    if len(index_map.initial_indices) != len(variables):
        ctx.refuse("'index_map'", f"it takes {len(index_map.initial_indices)} indices, block {name_of(block)} has "
                   f"{len(variables)} iterators", "", [block])
    places = tuple(index_map.map_indices(variables))
    iters = [iv for iv in block.block.iter_vars if uses((indices, places), {iv.var})]
    found = affine_domains(places, {iv.var: iv.dom for iv in iters}, bijective=True)
    if not found:
        ctx.refuse("'index_map'", "it is not proved to give different places to "
                   f"{', '.join(iv.var.name for iv in iters)}: {found.reason or 'values share a place'}",
                   "name each iterator that the index uses", [block])
    return iters, places, [r.min + r.extent for r in found.domains]


def _shared_loops(ctx, scope, block, buffer, writes):
    """The loops around a block in which the copy stands: the most that it shares with another that uses the buffer,
    which finds there, in each turn of theirs, what it found."""
    others = ctx.index.readers(buffer, scope) if writes else ctx.index.writers(buffer, scope)
    shared = (common_loops(ctx.index, block, other) for other in others if other is not block)
    return max(shared, key=len, default=[])


def _copying(ctx, block, cache, target, iters, name, shared, back):
    """The nest of the copying block: those of the block's loops that its places need."""
    fresh = {iv.var: Var(iv.var.name, iv.var.dtype) for iv in iters}
    sides = [(buffer, substitute(at, fresh)) for buffer, at in (cache, target)]
    (source, there), (goal, to) = sides if back else reversed(sides)
    bound = dict(zip((iv.var for iv in block.block.iter_vars), block.iter_values))
    values = tuple(bound[iv.var] for iv in iters)
    needed = (values, block.predicate)
    body = Block(tuple(IterVar(iv.dom, fresh[iv.var], "spatial") for iv in iters), (_point(source, there),),
                 (_point(goal, to),), name, (), (), {}, None, BufferStore(goal, BufferLoad(source, there), to))
    loops = [s for s in ctx.index.loops_above(block)[len(shared):] if uses(needed, {s.loop_var})]
    variables = {loop.loop_var: Var(f"ax{n}", loop.loop_var.dtype) for n, loop in enumerate(loops)}
    nest = BlockRealize(*substitute(needed, variables), body)
    for loop in reversed(loops):
        nest = For(variables[loop.loop_var], *substitute((loop.min, loop.extent), variables), "serial", nest)
    return nest


def _point(buffer, indices):
    return BufferRegion(buffer, tuple(Range(i, const(1, i.dtype)) for i in indices))
