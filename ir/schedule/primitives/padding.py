"""decompose_padding, decompose_border: write the border of a padded buffer apart from its inside."""
from __future__ import annotations

from ...arith import Analyzer
from ...expr import And, Call, FloatImm, GE, GT, IntImm, IterVar, LE, LT, Range, Select, Var, const, substitute
from ...node import Mutator
from ...tir.region import access_regions
from ...tir.stmt import Block, BlockRealize, BufferStore, For, seq
from ..blocks import conjuncts, name_of, only_clips, uses, why_not_complete
from ..dependence import turn_writes_input
from ..legality import require_kinds, require_rectangular
from ..nest import build_nest, require_scope
from ..regions import Relaxed
from ..registry import BLOCK, BLOCKS, LOOP, Result, primitive
from ..signature import domain_analyzer, is_leaf


@primitive(BLOCK, block=BLOCK, loop=LOOP)
def decompose_padding(ctx, block, loop):
    """Split a block that writes a value or a constant border in two; returns the block of the constant.

        for i in range(n + 2): P[i] = if_then_else(1 <= i and i < n + 1, A[i - 1], 0)
    becomes
        for i in range(n + 2): P_pad_const: P[i] = 0
        for ax0 in range(n): P: P[ax0 + 1] = A[ax0]

    Both nests stand where `loop` stood, and in each iteration around it they write what the block wrote in that turn:
    whoever reads it finds the same. Where `loop` holds other blocks too, only the border moves in front of it.
    Requires a complete block, one store of such a choice, a condition that gives each iterator its own constant range,
    at least one of which is not the whole domain, and of a loop that holds other blocks that it is serial and that
    these read only what the same turn has written.
    """
    value, border, kept = _decomposed(ctx, block, loop)
    _require_border(ctx, block, kept)
    above = ctx.index.loops_above(block)
    if loop not in above:
        ctx.refuse("'loop'", f"block {name_of(block)} is not under loop {loop.loop_var.name}",
                   "choose one of the loops around it", [loop, block])
    around = above[above.index(loop):]
    inner = _nest_of(block, around)
    name = ctx.new_block_name(name_of(block) + "_pad_const")
    require_rectangular(ctx, "'loop'", around)
    _require_filled_before(ctx, block, around[:len(around) - len(inner)])
    whole = _border_nest(ctx, block, loop, around, border, name)
    inside = _part_nest(ctx, block, inner[0] if inner else block, inner, value, kept)
    if inner == around:
        return _replaced(ctx, block, loop, [whole], inside, (name,))
    lower = ctx.with_func(ctx.index.rewrite({inner[0] if inner else block: inside}))
    rest = lower.index.loops[loop.loop_var]
    return _replaced(lower, lower.index.blocks[name_of(block)], rest, [whole], rest, (name,))


@primitive(BLOCKS, block=BLOCK, loop=LOOP)
def decompose_border(ctx, block, loop):
    """Split padding into a block for each side of the halo, and none for the interior; returns those blocks.

        for i in range(n + 2): P[i] = if_then_else(1 <= i and i < n + 1, A[i - 1], 0)
    becomes
        P_side: P[0] = 0
        P_side_1: P[n + 1] = 0
        for ax0 in range(n): P: P[ax0 + 1] = A[ax0]

    Sides of inner dimensions are as long as the buffer, those of outer ones as what is inside of the inner ones. What
    is inside has a loop for each iterator. Requires what decompose_padding requires.
    """
    value, border, kept = _decomposed(ctx, block, loop)
    inner = _chain_to(ctx, loop, block)
    sides, names, ranges = [], [], {iv.var: (iv.dom.min, iv.dom.min + iv.dom.extent) for iv in block.block.iter_vars}
    for v, (begin, end) in reversed(kept.items()):
        low, high = ranges[v]
        for side in ((low, begin), (end, high)):
            if not ctx.analyzer_at(loop).can_prove(side[0] >= side[1]):
                names.append(ctx.new_block_name(name_of(block) + "_side", names))
                sides.append(_part_nest(ctx, block, loop, inner, border, {**ranges, v: side}, True, names[-1]))
        ranges[v] = begin, end
    inside = _part_nest(ctx, block, loop, inner, value, kept, True)
    return _replaced(ctx, block, loop, sides, inside, tuple(names))


def _decomposed(ctx, block, loop):
    """(value, constant of the border, {iterator: its range inside}) of a block that can be decomposed."""
    scope = ctx.scope(block, "'block'")
    require_scope(ctx, scope, loop)
    why = why_not_complete(ctx.index, scope, block)
    if why or not is_leaf(block.block):
        ctx.refuse("'block'", f"block {name_of(block)} is not complete: {why or 'it holds other blocks'}", "", [block])
    condition, value, border = _choice(ctx, block)
    if not only_clips(ctx.analyzer_at(block), block):
        ctx.refuse("'block'", f"block {name_of(block)} runs only where {block.predicate}",
                   "only conditions that keep iterators in their domains can be made anew", [block])
    return value, border, _ranges(ctx, block, condition)


def _require_border(ctx, block, kept):
    """Refuse where the ranges that a condition lets through are the whole domains."""
    can_prove = ctx.analyzer_at(block).can_prove
    if all(can_prove(low <= iv.dom.min) and can_prove(end >= iv.dom.min + iv.dom.extent)
           for iv, (low, end) in zip(block.block.iter_vars, kept.values())):
        ctx.refuse("'block'", f"the condition of block {name_of(block)} always holds, so it has no border",
                   "leave it as it is", [block])


def _nest_of(block, loops):
    """Those of the loops around a block that hold nothing else, outermost first."""
    alone, inner = len(loops), block
    while alone and loops[alone - 1].body is inner:
        alone -= 1
        inner = loops[alone]
    return loops[alone:]


def _require_filled_before(ctx, block, shared):
    """Refuse unless the border may be written before loops that the block shares with others: these must find in the
    buffer what the same turn has written."""
    for loop in shared:
        if loop.kind not in ("serial", "unrolled"):
            ctx.refuse("'loop'", f"loop {loop.loop_var.name} is {loop.kind} and holds more than block {name_of(block)}",
                       "choose one of its inner loops", [loop, block])
    scope, buffer = ctx.scope(block, "'block'"), block.block.writes[0].buffer
    for reader in ctx.index.readers(buffer, scope):
        inside = shared and shared[0] in ctx.index.loops_above(reader)
        if inside and not turn_writes_input(ctx.index, scope, reader, buffer):
            ctx.refuse("'loop'", f"block {name_of(reader)} may read what block {name_of(block)} has not written yet in "
                       f"the same turn of loop {shared[0].loop_var.name}", "choose one of its inner loops",
                       [shared[0], reader, block])


def _replaced(ctx, block, loop, sides, inside, names):
    """The Result with nests of the border and of the inside in the place of `loop`."""
    after = ctx.with_func(ctx.index.rewrite({loop: seq(*sides, inside)}))
    written = [after.index.blocks[name] for name in names]
    require_kinds(after, [*ctx.index.loops_above(block), *(s for b in written for s in after.index.loops_above(b))],
                  "'loop'")
    return Result(after.func, names)


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


def _border_nest(ctx, block, loop, around, border, name):
    """Copies of the loops from `loop` to the block, in which the constant is stored wherever the block stores."""
    copies = {s.loop_var: Var(s.loop_var.name, s.loop_var.dtype) for s in around}
    simplify = ctx.analyzer_at(loop).simplify  # a loop of one turn around it drops out
    iters = tuple(iv.replace(var=Var(iv.var.name, iv.var.dtype)) for iv in block.block.iter_vars)
    rename = {iv.var: new.var for iv, new in zip(block.block.iter_vars, iters)}
    store = block.block.body
    const_block = Block(iters, (), substitute(block.block.writes, rename), name, (), (), {}, None,
                        BufferStore(store.buffer, border, substitute(store.indices, rename)))
    values = tuple(simplify(v) for v in substitute(block.iter_values, copies))
    nest = BlockRealize(values, substitute(block.predicate, copies), const_block)
    for s in reversed(around):
        nest = For(copies[s.loop_var], s.min, s.extent, s.kind, nest, s.thread_binding, dict(s.annotations))
    return nest


def _part_nest(ctx, block, loop, inner, value, ranges, exact=False, name=None):
    """The block over a range of each iterator, counted from 0, storing `value`. exact: with a loop for each, which runs
    over nothing else, even where it would be shorter; name: of a block of its own, else it is still the same one."""
    analyzer = ctx.analyzer_at(loop)
    around = Relaxed(analyzer, inner)
    iters, moved, boxes = [], {}, {}
    for iv, at in zip(block.block.iter_vars, block.iter_values):
        low, end = ranges[iv.var]
        var = Var(iv.var.name, iv.var.dtype) if name else iv.var
        iters.append(IterVar(Range(const(0, var.dtype), analyzer.simplify(end - low)), var, iv.iter_type))
        moved[iv.var] = var + low
        box = around.cover(Range(at, const(1, at.dtype)), iv.dom.min + iv.dom.extent)
        boxes[var] = Range(analyzer.simplify(box.min - low), box.extent)
    part = block.block.replace(iter_vars=tuple(iters), name_hint=name or name_of(block))
    simplify = Analyzer().simplify  # a side of one row stays where the iteration is that stores it

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
    part = part.replace(reads=reads, writes=writes, body=body)
    looped = {s.loop_var for s in inner}
    units = exact or {iv.var for iv, at in zip(iters, block.iter_values) if uses(at, looped)}
    nest = build_nest(BlockRealize((), const(True), part), boxes, analyzer, preserve_unit_loops=units, exact=exact)
    return _simplified(nest, simplify)


def _simplified(nest, simplify):
    """A nest whose block is bound to simplified values: offsets come last."""
    if isinstance(nest, For):
        return nest.replace(body=_simplified(nest.body, simplify))
    return nest.replace(iter_values=tuple(map(simplify, nest.iter_values)))
