"""cache_index: indices and other pure arithmetic of a block, computed once for all instances that need the same."""
from __future__ import annotations

from ...arith import Analyzer
from ...expr import (Broadcast, Call, Div, FloorDiv, FloorMod, IterVar, Let, Mod, PrimExpr, Ramp, Range, Var, const,
                     free_vars, substitute)
from ...node import Mutator, Visitor, collect, structural_equal
from ...tir.buffer import Buffer, decl_buffer
from ...tir.intrinsics import INTRINSICS
from ...tir.signatures import complete_signatures
from ...tir.stmt import Block, BlockRealize, BufferLoad, BufferRegion, BufferStore
from ..blocks import name_of
from ..nest import build_nest, insert, position_of
from ..registry import BLOCK, BLOCKS, INT, STR, Result, primitive
from ..signature import is_leaf, require_memory


@primitive(BLOCKS, block=BLOCK, storage_scope=STR, cse_thresh=INT)
def cache_index(ctx, block, storage_scope, cse_thresh=0):
    """Compute expressions of a block's iterators before it, into buffers index_var_0, index_var_1 ... that it reads;
    returns the blocks that do, index_0, index_1 ...

        for i, j in grid(8, 8): B[i, j] = A[i // 4 + j // 4]
    becomes
        for ax0, ax1 in grid(8, 8): index_var_0[ax0, ax1] = ax0 // 4 + ax1 // 4
        for i, j in grid(8, 8): B[i, j] = A[index_var_0[i, j]]

    Cached is what the value that is stored has at least cse_thresh times: the largest expressions without loads, and
    what these are made of where they are fewer. The block then reads all of a dimension of which such a buffer tells the
    place. Requires one store in a block of its own.
    """
    scope = ctx.scope(block, "'block'")
    require_memory(ctx, storage_scope, block)
    store = block.block.body
    if not isinstance(store, BufferStore) or not is_leaf(block.block):
        ctx.refuse("'block'", f"the body of block {name_of(block)} is not one store", "", [block])
    own = {iv.var: iv.dom for iv in block.block.iter_vars}
    cached, nests, names = [], [], []
    for expr in _repeated(store.value, own, cse_thresh):
        number = len(cached)
        names.append(ctx.new_block_name(f"index_{number}", names))
        cache, nest = _made(expr, own, f"index_var_{number}", names[-1], storage_scope)
        cached.append((expr, cache))
        nests.append(nest)
    if not cached:
        ctx.refuse("'cse_thresh'", f"block {name_of(block)} has no arithmetic of its iterators {cse_thresh} times", "",
                   [block])
    inner = store.replace(value=_Cached(cached).visit(store.value))
    reads = tuple(BufferRegion(load.buffer, tuple(Range(i, const(1, i.dtype)) for i in load.indices))
                  for load in _first_of_each(collect(inner, BufferLoad))
                  if any(load.buffer is b for _, (b, _) in cached))
    changed = block.block.replace(body=inner, reads=(*block.block.reads, *reads))
    after = ctx.with_func(ctx.index.rewrite({block: block.replace(block=changed)}, {
        scope: (*scope.block.alloc_buffers, *(b for _, (b, _) in cached))}))
    for nest in nests:
        target = after.index.blocks[name_of(block)]
        around = after.index.scope(target)
        after = after.with_func(insert(after, around, nest, position_of(around, target)))
    return Result(complete_signatures(after.func)[0], tuple(names))


def _first_of_each(loads):
    return [load for n, load in enumerate(loads) if not any(structural_equal(load, other) for other in loads[:n])]


def _is_worth_it(e, own, lets):
    """Whether an expression is arithmetic of a block's iterators that may run for all of their values, outside the
    Lets around it."""
    used = free_vars(e)
    if type(e) in (Var, Ramp, Broadcast) or not any(v in own for v in used):
        return False
    if not lets.intersection(used) <= {let.var for let in collect(e, Let)}:
        return False
    below = collect(e, PrimExpr)
    return not any(
        type(x) is BufferLoad or isinstance(x, Call) and x.op.removeprefix("tir.") not in INTRINSICS
        or isinstance(x, (Div, Mod, FloorDiv, FloorMod)) and not getattr(x.b, "value", 0) for x in below)


class _Largest(Visitor):
    """The largest parts of an expression that are worth it."""

    def __init__(self, own, lets):
        self.own, self.lets, self.found = own, lets, []

    def visit(self, value):
        if isinstance(value, PrimExpr) and _is_worth_it(value, self.own, self.lets):
            self.found.append(value)
        elif not isinstance(value, Buffer):
            super().visit(value)


def _repeated(value, own, least):
    """The expressions in a value that are there `least` times, the most complex first."""
    counts, lets = [], {let.var for let in collect(value, Let)}

    def add(exprs, times):
        for e in exprs:
            known = next((c for c in counts if structural_equal(c[0], e)), None)
            if known:
                known[1] += times
            else:
                counts.append([e, times, len(collect(e, PrimExpr)), False])

    whole = _Largest(own, lets)
    whole.visit(value)
    add(whole.found, 1)
    while todo := [c for c in counts if c[1] < least and not c[3]]:
        rare = max(todo, key=lambda c: c[2])
        rare[3] = True
        parts = _Largest(own, lets)
        parts.generic_visit(rare[0])
        add(parts.found, rare[1])
    return [e for e, times, _, _ in sorted(counts, key=lambda c: -c[2]) if times >= least]


def _made(expr, own, name, block_name, storage_scope):
    """((buffer, indices by the block's iterators), the nest that fills the buffer)."""
    used = [v for v in free_vars(expr) if v in own]
    cache = decl_buffer([own[v].extent for v in used], expr.dtype, name, storage_scope)
    iters = tuple(IterVar(own[v], Var(f"v{n}", v.dtype), "spatial") for n, v in enumerate(used))
    indices = tuple(iv.var - iv.dom.min for iv in iters)
    body = BufferStore(cache, substitute(expr, dict(zip(used, (iv.var for iv in iters)))), indices)
    point = BufferRegion(cache, tuple(Range(i, const(1, i.dtype)) for i in indices))
    block = Block(iters, (), (point,), block_name, (), (), {}, None, body)
    return (cache, tuple(v - own[v].min for v in used)), build_nest(
        BlockRealize((), const(True), block), {}, Analyzer())


class _Cached(Mutator):
    """Loads what is cached."""

    def __init__(self, cached):
        self.cached = cached

    def visit(self, value):
        if isinstance(value, PrimExpr):
            for expr, (cache, indices) in self.cached:
                if structural_equal(expr, value):
                    return BufferLoad(cache, indices)
        return super().visit(value)
