"""decompose_padding: write the border of a padded buffer apart from its inside."""
from __future__ import annotations

from ...expr import And, Call, FloatImm, GE, GT, IntImm, IterVar, LE, LT, Range, Select, Var, const, substitute
from ...node import Mutator
from ...tir.region import access_regions
from ...tir.stmt import Block, BlockRealize, BufferStore, For, seq
from ..blocks import conjuncts, name_of, only_clips, uses, why_not_complete
from ..legality import require_kinds, require_rectangular
from ..nest import build_nest, require_scope
from ..regions import Relaxed
from ..registry import BLOCK, LOOP, Result, primitive
from ..signature import domain_analyzer, is_leaf


@primitive(BLOCK, block=BLOCK, loop=LOOP)
def decompose_padding(ctx, block, loop):
    """Split a block that writes a value or a constant border in two; returns the block of the constant.

        for i in range(n + 2): P[i] = if_then_else(1 <= i and i < n + 1, A[i - 1], 0)
    becomes
        for i in range(n + 2): P_pad_const: P[i] = 0
        for ax0 in range(n): P: P[ax0 + 1] = A[ax0]

    Both nests stand where `loop` stood, and in each turn around it they write what the block wrote in that turn:
    whoever reads it finds the same. Requires a complete block that alone is under the loop, one store of such a choice,
    and a condition that gives each iterator its own constant range.
    """
    scope = ctx.scope(block, "'block'")
    require_scope(ctx, scope, loop)
    why = why_not_complete(ctx.index, scope, block)
    if why or not is_leaf(block.block):
        ctx.refuse("'block'", f"block {name_of(block)} is not complete: {why or 'it holds other blocks'}", "", [block])
    condition, value, border = _choice(ctx, block)
    inner = _chain_to(ctx, loop, block)
    if not only_clips(ctx.analyzer_at(block), block):
        ctx.refuse("'block'", f"block {name_of(block)} runs only where {block.predicate}",
                   "only conditions that keep iterators in their domains can be made anew", [block])
    kept = _ranges(ctx, block, condition)
    name = ctx.new_block_name(name_of(block) + "_pad_const")
    nest = seq(_border_nest(block, inner, border, name), _inside_nest(ctx, block, loop, inner, value, kept))
    after = ctx.with_func(ctx.index.rewrite({loop: nest}))
    require_kinds(after, [*ctx.index.loops_above(block), *after.index.loops_above(after.index.blocks[name])], "'loop'")
    return Result(after.func, (name,))


def _choice(ctx, block):
    """(condition, value, border) of a block that stores a choice between a value and a constant."""
    store = block.block.body
    value = store.value if isinstance(store, BufferStore) else None
    parts = None
    if isinstance(value, Call) and value.op == "tir.if_then_else":
        parts = value.args
    elif isinstance(value, Select):
        parts = value.condition, value.true_value, value.false_value
    if parts is None or not isinstance(parts[2], (IntImm, FloatImm)):
        ctx.refuse("'block'", f"block {name_of(block)} does not store if_then_else(condition, value, constant)", "",
                   [block])
    return parts


def _chain_to(ctx, loop, block):
    """The loops from `loop` down to the block, each the only statement in the one before."""
    loops, stmt = [], loop
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    if stmt is not block:
        ctx.refuse("'loop'", f"block {name_of(block)} is not alone under loop {loop.loop_var.name}",
                   "choose one of its inner loops", [loop, block])
    require_rectangular(ctx, "'loop'", loops)
    return loops


def _ranges(ctx, block, condition):
    """{iterator: (least, end)} of what a condition lets through, each narrower than the domain; refuses others."""
    domains = {iv.var: iv.dom for iv in block.block.iter_vars}
    analyzer = domain_analyzer(block.block)
    ends = {v: [d.min, d.min + d.extent] for v, d in domains.items()}
    for part in _parts(condition):
        if analyzer.can_prove(part):
            continue
        v, low, high = _bound(analyzer, part, domains) or (None, None, None)
        if v is None:
            ctx.refuse("'block'", f"the condition {part} of block {name_of(block)} gives no iterator a range of its "
                       "own", "it must compare one iterator with what does not change", [block])
        if low is not None and analyzer.can_prove(low >= ends[v][0]):
            ends[v][0] = low
        if high is not None and analyzer.can_prove(high <= ends[v][1]):
            ends[v][1] = high
        if (low is not None and ends[v][0] is not low) or (high is not None and ends[v][1] is not high):
            ctx.refuse("'block'", f"the condition {part} of block {name_of(block)} cannot be compared with its others",
                       "", [block])
        if not analyzer.can_prove(ends[v][0] <= ends[v][1]):
            ctx.refuse("'block'", f"the condition {condition} of block {name_of(block)} may never hold", "", [block])
    return {v: tuple(e) for v, e in ends.items()}


def _parts(condition):
    if isinstance(condition, And):
        return [*_parts(condition.a), *_parts(condition.b)]
    if isinstance(condition, Call) and condition.op == "tir.likely":
        return _parts(condition.args[0])
    return conjuncts(condition)


def _bound(analyzer, part, domains):
    """(iterator, least or None, end or None) of a comparison that bounds one iterator; None for others."""
    if type(part) not in (LT, LE, GT, GE):
        return None
    low, high = (part.a, part.b) if type(part) in (LT, LE) else (part.b, part.a)
    strict = type(part) in (LT, GT)
    for v in domains:
        if uses(part, {v}) and not uses(part, domains.keys() - {v}):
            for side, other, sign in ((low, high, 1), (high, low, -1)):
                rest = analyzer.simplify(side - v)
                if uses(side, {v}) and not uses(rest, {v}) and not uses(other, {v}):
                    limit = analyzer.simplify(other - rest)  # v < limit, or v > limit
                    if sign > 0:
                        return v, None, analyzer.simplify(limit if strict else limit + 1)
                    return v, analyzer.simplify(limit + 1 if strict else limit), None
    return None


def _border_nest(block, inner, border, name):
    copies = {s.loop_var: Var(s.loop_var.name, s.loop_var.dtype) for s in inner}
    iters = tuple(iv.replace(var=Var(iv.var.name, iv.var.dtype)) for iv in block.block.iter_vars)
    rename = {iv.var: new.var for iv, new in zip(block.block.iter_vars, iters)}
    store = block.block.body
    const_block = Block(iters, (), substitute(block.block.writes, rename), name, (), (), {}, None,
                        BufferStore(store.buffer, border, substitute(store.indices, rename)))
    nest = BlockRealize(substitute(block.iter_values, copies), substitute(block.predicate, copies), const_block)
    for s in reversed(inner):
        nest = For(copies[s.loop_var], s.min, s.extent, s.kind, nest, s.thread_binding, dict(s.annotations))
    return nest


def _inside_nest(ctx, block, loop, inner, value, kept):
    """The block over what the condition lets through, its iterators counted from 0."""
    analyzer = ctx.analyzer_at(loop)
    around = Relaxed(analyzer, inner)
    iters, moved, boxes = [], {}, {}
    for iv, at in zip(block.block.iter_vars, block.iter_values):
        low, end = kept[iv.var]
        new = IterVar(Range(const(0, iv.var.dtype), analyzer.simplify(end - low)), iv.var, iv.iter_type)
        iters.append(new)
        moved[iv.var] = iv.var + low
        box = around.cover(Range(at, const(1, at.dtype)), iv.dom.min + iv.dom.extent)
        boxes[iv.var] = Range(analyzer.simplify(box.min - low), box.extent)
    inside = block.block.replace(iter_vars=tuple(iters))
    simplify = domain_analyzer(inside).simplify

    class Shift(Mutator):
        def visit_Var(self, v):
            return moved.get(v, v)

        def visit_BufferLoad(self, load):
            load = self.generic_visit(load)
            return load.replace(indices=tuple(map(simplify, load.indices)))

    shift = Shift().visit
    store = block.block.body
    body = BufferStore(store.buffer, shift(value), tuple(map(simplify, shift(store.indices))))
    reads, writes = access_regions(body)
    inside = inside.replace(reads=reads, writes=writes, body=body)
    return build_nest(BlockRealize((), const(True), inside), boxes, analyzer)
