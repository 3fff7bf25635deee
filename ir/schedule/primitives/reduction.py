"""decompose_reduction: initialise before the loop instead of in its first iteration."""
from __future__ import annotations

from ...arith.pattern import conjuncts
from ...expr import IterVar, Var, const, logical_and, substitute
from ...tir.region import access_regions
from ...tir.stmt import Block, BlockRealize, For, seq
from ..blocks import buffers_of, name_of, uses, why_not_reduction
from ..dependence import require_inputs_ready
from ..independence import require_distinct
from ..legality import require_kinds, require_same_order
from ..nest import require_scope
from ..registry import BLOCK, LOOP, Result, primitive


@primitive(BLOCK, block=BLOCK, loop=LOOP)
def decompose_reduction(ctx, block, loop):
    """Split a reduction block C into C_init, placed before `loop`, and C_update; returns the init block.

        for i, k: C[i] = C[i] + A[i, k], with init C[i] = 0
    becomes, with decompose_reduction(C, k),
        for i:
            C_init: C[i] = 0
            for k: C_update: C[i] = C[i] + A[i, k]

    Handles of the block follow the update. The init block gets copies of the spatial loops from `loop` downward,
    which keep their kind. Requires a loop around the block that is not inside any loop of the reduction.
    """
    scope = ctx.scope(block, "'block'")
    require_scope(ctx, scope, loop)
    why = why_not_reduction(ctx.index, scope, block)
    if why:
        ctx.refuse("'block'", f"block {name_of(block)} is no reduction block: {why}", "", [block])
    inner = _loops_from(ctx, block, loop)
    require_distinct(ctx, loop, block, "'loop'")
    name = name_of(block)
    init_name = ctx.new_block_name(name + "_init")
    update_name = ctx.new_block_name(name + "_update")
    init = _init_nest(ctx, block, inner, init_name)
    func = ctx.index.rewrite({block: _update(block, update_name)})
    after = ctx.with_func(func)
    target = after.index.loops[loop.loop_var]
    func = after.index.rewrite({target: seq(init, target)})
    after = ctx.with_func(func)
    made = after.index.blocks[init_name]
    require_same_order(ctx, block, after, made, "'loop'")
    require_inputs_ready(after, made, "'loop'")
    require_kinds(after, inner, "'loop'")
    return Result(func, (init_name,), {name: update_name})


def _loops_from(ctx, block, loop):
    """The loops from `loop` down to the block; refuses when `loop` is not around it or inside its reduction."""
    loops = ctx.index.loops_above(block)
    depth = loops.index(loop) if loop in loops else None
    if depth is None:
        ctx.refuse("'loop'", f"loop {loop.loop_var.name} is not around block {name_of(block)}",
                   "choose one of its loops", [loop, block])
    for iv, value in zip(block.block.iter_vars, block.iter_values):
        for outer in loops[:depth]:
            if iv.iter_type == "reduce" and uses(value, {outer.loop_var}):
                ctx.refuse("'loop'", f"loop {outer.loop_var.name}, which runs the reduction over {iv.var.name}, is "
                           f"outside loop {loop.loop_var.name}", "choose that loop or one outside it", [loop, outer])
    return loops[depth:]


def _init_nest(ctx, block, loops, name):
    """The init block under copies of the loops that its spatial iterators use."""
    spatial = [(iv, value) for iv, value in zip(block.block.iter_vars, block.iter_values) if iv.iter_type == "spatial"]
    kept = [loop for loop in loops if any(uses(value, {loop.loop_var}) for _, value in spatial)]
    dropped = {loop.loop_var for loop in loops} - {loop.loop_var for loop in kept}
    predicate = const(True)
    first = {loop.loop_var: loop.min for loop in loops if loop.loop_var in dropped}
    for condition in conjuncts(block.predicate):
        if not uses(condition, dropped):
            predicate = logical_and(predicate, condition)
        elif ctx.analyzer_at(block).can_prove(substitute(condition, first)):
            continue  # each element has a first iteration of the reduction, which initialises it
        elif uses(condition, {loop.loop_var for loop in ctx.index.loops_above(block)} - dropped):
            ctx.refuse("'loop'", f"the condition {condition} of block {name_of(block)} ties a loop of the reduction "
                       "to a spatial loop", "split the loops so that each condition is about one of them", [block])
    copies = {loop.loop_var: Var(loop.loop_var.name + "_init", loop.loop_var.dtype) for loop in kept}
    iters = tuple(IterVar(iv.dom, Var(iv.var.name + "_init", iv.var.dtype), "spatial") for iv, _ in spatial)
    rename = {iv.var: new.var for (iv, _), new in zip(spatial, iters)}
    writes = substitute(block.block.writes, rename)
    store = substitute(block.block.init, rename)
    init = Block(iters, access_regions(store)[0], writes, name, (), (), dict(block.block.annotations), None, store)
    nest = BlockRealize(tuple(substitute(value, copies) for _, value in spatial), substitute(predicate, copies), init)
    for loop in reversed(kept):
        low, extent = substitute(loop.min, copies), substitute(loop.extent, copies)
        nest = For(copies[loop.loop_var], low, extent, loop.kind, nest, loop.thread_binding, dict(loop.annotations))
    return nest


def _update(block, name):
    """The block without init; it now reads what it writes."""
    own = buffers_of(block.block.writes)
    reads = block.block.writes + tuple(r for r in block.block.reads if r.buffer not in own)
    return block.replace(block=block.block.replace(init=None, name_hint=name, reads=reads))
