"""Independence: may the iterations of loops run in another order, or at once?"""
from __future__ import annotations

from math import gcd

from ..arith import ConstIntBound
from ..arith.linear import DIV, MOD, PRODUCT
from ..expr import Range, Var, as_expr, const, is_const_int
from ..node import structural_equal
from ..tir.stmt import BlockRealize, For, SeqStmt
from .blocks import (buffers_of, is_true, late_start, name_of, uses, why_not_complete, why_not_pure,
                     why_not_reduction)
from .combiner import combiner_of
from .context import analyzer_of, is_unit, know_dimensions, ranges_of
from .dependence import turn_writes_input
from .digits import Digits
from .index import blocks_below, statements_below
from .regions import Relaxed, regions_of, touched_box


def require_independent(ctx, loop, argument="'loop'", joining=False):
    """Refuse unless the iterations of a loop can run in any order or at once.

    A buffer that lives within an iteration must be written before it is read in it; any other must be touched at
    different places by different turns. joining: threads may reduce together what no other block under the loop uses.
    """
    if is_unit(loop):
        return
    name = loop.loop_var.name
    below = _only_blocks(ctx, loop, argument)
    joined = [b for b in below if joining and reduces(b, loop)]
    for realize in joined:
        require_joinable(ctx, loop, realize, argument)
    for realize in below:
        if realize in joined:
            continue
        for iv, value in zip(realize.block.iter_vars, realize.iter_values):
            if iv.iter_type != "spatial" and uses(value, {loop.loop_var}):
                ctx.refuse(argument, f"loop {name} runs the {iv.iter_type} iterator {iv.var.name} of block "
                           f"{name_of(realize)}", "its turns work on the same element; choose a spatial loop",
                           [loop, realize])
        if realize.block.init is not None:
            require_quasi_affine(ctx, _loops_from(ctx.index, realize, loop), realize, argument)
    scope = ctx.scope(below[0], argument)
    for buffer in buffers_of([r for b in below for r in b.block.writes]):
        touching = _touching(ctx, scope, below, buffer)
        if _lives_in_a_turn(ctx, scope, below, buffer) or len(touching) == 1 and touching[0] in joined:
            continue
        if not separate(ctx, [loop], touching, buffer):
            ctx.refuse(argument, f"the turns of loop {name} are not proved to touch different parts of {buffer.name}",
                       "a turn must not touch what another one writes", [loop, *touching])


def reduces(realize, loop):
    """Whether a loop runs a reduce iterator of a block."""
    return any(iv.iter_type == "reduce" and uses(value, {loop.loop_var})
               for iv, value in zip(realize.block.iter_vars, realize.iter_values))


def require_joinable(ctx, loop, realize, argument):
    """Refuse unless threads, one for each iteration of a loop, may reduce a block together."""
    why = why_not_reduction(ctx.index, ctx.scope(realize, argument), realize) or combiner_of(realize.block)[1]
    if why:
        ctx.refuse(argument, f"threads cannot reduce block {name_of(realize)} together: {why}",
                   "choose a spatial loop, or bind before decompose_reduction", [loop, realize])
    require_distinct(ctx, loop, realize, argument)
    # one after the other, all of its loops: threads each begin with a value of their own
    outermost = next(above for above in ctx.index.loops_above(realize) if reduces(realize, above))
    require_init_first(ctx, outermost, realize, argument)


def require_reorderable(ctx, chain, named, argument="'loops'"):
    """Refuse unless the loops of a chain may be exchanged: loops, outermost first, each the only statement in the one
    before. Every block below must be data-parallel or a commutative reduction over their iterations. named: the chain
    that was asked for, whose first and last loops may stay: all of its loops bind a lone block plainly."""
    below = _only_blocks(ctx, chain[0], argument)
    variables = {loop.loop_var for loop in chain}
    for realize in below:
        for iv, value in zip(realize.block.iter_vars, realize.iter_values):
            if iv.iter_type not in ("spatial", "reduce"):
                ctx.refuse(argument, f"iterator {iv.var.name} of block {name_of(realize)} is of type {iv.iter_type}",
                           "its turns must keep their order", [realize])
            if iv.iter_type == "reduce" and len(below) > 1 and uses(value, variables):
                ctx.refuse(argument, f"the reduction of block {name_of(realize)} runs around several blocks",
                           "separate the blocks first", [realize])
    if len(below) == 1:
        require_quasi_affine(ctx, _loops_from(ctx.index, below[0], named[0]), below[0], argument, whole=True)
        _require_instances_apart(ctx, chain, below[0], argument)
        return
    scope = ctx.scope(below[0], argument)
    for buffer in buffers_of([r for b in below for r in b.block.writes]):
        writers = [b for b in below if b in ctx.index.writers(buffer, scope)]
        pure = len(writers) == 1 and why_not_pure(ctx.index, scope, writers[0]) is None
        touching = _touching(ctx, scope, below, buffer)
        if not (pure and _covered(ctx, scope, below, buffer)) and not separate(ctx, chain, touching, buffer):
            ctx.refuse(argument, f"a turn may use {buffer.name} as another turn left it",
                       "each turn must write what it reads, or touch a part of its own", [chain[0], *touching])


def require_quasi_affine(ctx, loops, realize, argument, whole=False):
    """Refuse unless the iterators of a block are sums of multiples, quotients and remainders of `loops`; whole: that
    leave none of their values out. Conditions may tie loops together."""
    variables, linear = {s.loop_var for s in loops if not is_unit(s)}, ctx.analyzer_at(realize).canonical.linear
    for iv, value in zip(realize.block.iter_vars, realize.iter_values):
        counted = {atom: k for atom, k in linear(as_expr(value)).terms.items() if not atom.vars.isdisjoint(variables)}
        where = f"the binding of block {name_of(realize)} is not affine: its iterator {iv.var.name} is"
        if any(_multiplies(atom, variables) for atom in counted):
            ctx.refuse(argument, f"{where} {value}, a product of loops", "bind iterators to sums, quotients and remainders "
                       "of loops, or choose loops that do not run it", [realize])
        step = gcd(*counted.values()) if whole and not any(atom.kind == PRODUCT for atom in counted) else 1
        if step > 1:
            ctx.refuse(argument, f"{where} {value}, which meets one value in {step}", "bind it to the loop, and multiply "
                       "in the block", [realize])


def _multiplies(atom, variables):
    """Whether an Atom multiplies loops by each other, or divides by one."""
    if atom.vars.isdisjoint(variables):
        return False
    if atom.kind == PRODUCT:
        used = [a for a in atom.parts if not a.vars.isdisjoint(variables)]
        return len(used) > 1 or _multiplies(used[0], variables)
    if atom.kind in (DIV, MOD):
        number, divisor = atom.parts
        return not divisor.vars.isdisjoint(variables) or any(_multiplies(a, variables) for a in number.terms)
    return False


def require_distinct(ctx, outermost, realize, argument):
    """Refuse unless each iteration of the loops from `outermost` down to a block runs another instance of it."""
    loops = _loops_from(ctx.index, realize, outermost)
    digits = Digits(know_dimensions(analyzer_of(ctx.index.loops_above(outermost)), ctx.func), ranges_of(loops))
    found = digits.recovered([(value, 1) for value in realize.iter_values])
    for loop in loops:
        if loop.loop_var not in found and not is_unit(loop):
            ctx.refuse(argument, f"the binding of block {name_of(realize)} is not affine in loop {loop.loop_var.name}: "
                       "several of its turns may run one instance",
                       "only loops that the block's iterators are split from or fused into qualify", [loop, realize])


def require_init_first(ctx, outermost, realize, argument):
    """Refuse unless, in the loops from `outermost` down to a reduction block, the instance that initialises an element
    runs before all others of that element.

    Requires distinct instances. It holds when loops run either spatial or reduce iterators, and the reduce ones start
    at their least value: then the first iteration of the reduction's loops is that instance, in whatever order they
    nest."""
    loops, block = _loops_from(ctx.index, realize, outermost), realize.block
    values = {kind: tuple(v for iv, v in zip(block.iter_vars, realize.iter_values) if iv.iter_type == kind)
              for kind in ("spatial", "reduce")}
    reducing = [loop for loop in loops if uses(values["reduce"], {loop.loop_var})]
    for loop in reducing:
        if uses(values["spatial"], {loop.loop_var}):
            ctx.refuse(argument, f"loop {loop.loop_var.name} runs spatial and reduce iterators of block "
                       f"{name_of(realize)} together, so its init might come late", "decompose_reduction first",
                       [loop, realize])
    late = late_start(analyzer_of(ctx.index.loops_above(realize)), realize, reducing)
    if late:
        ctx.refuse(argument, f"the reduction of block {name_of(realize)} over {late} is not proved to start at its "
                   "least value", "decompose_reduction first", [realize])


def _require_instances_apart(ctx, chain, realize, argument):
    """Refuse unless the instances of the only block under a chain may run in any order."""
    scope = ctx.scope(realize, argument)
    for buffer in buffers_of(realize.block.writes):
        if not _reads_where_it_writes(realize, buffer):
            ctx.refuse(argument, f"block {name_of(realize)} reads other elements of {buffer.name} than it writes",
                       "its turns must keep their order", [realize])
    if why_not_complete(ctx.index, scope, realize) is not None:  # else repeating an instance is harmless
        require_distinct(ctx, chain[0], realize, argument)
    if realize.block.init is not None:
        require_init_first(ctx, chain[0], realize, argument)


# ---------------------------------------------------------------- buffers under a loop

def _lives_in_a_turn(ctx, scope, below, buffer):
    """Whether a buffer is touched only by the blocks `below` a loop, each iteration reading only what it wrote
    itself."""
    readers, writers = ctx.index.readers(buffer, scope), ctx.index.writers(buffer, scope)
    inside = ctx.index.owner(buffer) is scope and all(b in below for b in (*readers, *writers))
    own = all(_reads_where_it_writes(b, buffer) for b in writers)  # else a turn may go on from another one's value
    return inside and own and _covered(ctx, scope, below, buffer)


def _covered(ctx, scope, below, buffer):
    """Whether the readers of a buffer among `below` read only what the same iteration of their common loops wrote."""
    readers = [b for b in below if b in ctx.index.readers(buffer, scope)]
    return all(turn_writes_input(ctx.index, scope, reader, buffer) for reader in readers)


def _touching(ctx, scope, below, buffer):
    users = (*ctx.index.readers(buffer, scope), *ctx.index.writers(buffer, scope))
    return [b for b in below if b in users]


def separate(ctx, chain, touching, buffer):
    """Whether different iterations of a chain of loops touch disjoint parts of a buffer."""
    index = ctx.index
    wanted = {loop.loop_var for loop in chain if not is_unit(loop)}
    outside = analyzer_of(index.loops_above(chain[0]))
    if len(touching) == 1 and _reads_where_it_writes(touching[0], buffer):
        told = list(_tells_apart(ctx, touching[0], buffer))
        loops, above = _loops_from(index, touching[0], chain[0]), index.loops_above(chain[0])
        # what tells the iterations of more loops apart may have a simpler form
        for analyzer, around in ((outside, loops), *([(analyzer_of([]), [*above, *loops])] if above else [])):
            _expect_instances(analyzer, touching[0].block)
            digits = Digits(analyzer, _running(around, touching[0].predicate))
            if any(wanted <= digits.recovered(values) for values in told):
                return True
    inside = analyzer_of(index.loops_above(chain[-1]) + [chain[-1]])
    relaxed = [Relaxed(inside, _loops_from(index, b, chain[-1])[1:]) for b in touching]
    box = touched_box(relaxed, touching, buffer, ("reads", "writes"))
    return wanted <= Digits(outside, ranges_of(chain)).recovered([(r.min, r.extent) for r in box])


def _running(loops, predicate):
    """The ranges of loops in which a condition may hold, no larger than their own."""
    ranges = ranges_of(loops)
    if is_true(predicate):
        return ranges
    analyzer = analyzer_of(loops)
    with analyzer.constraint_scope(predicate):
        for var, own in ranges.items():
            ends = analyzer.interval(var)
            if is_const_int(own.min) and is_const_int(own.extent) and ends.min_value <= ends.max_value:
                size = ends.max_value - ends.min_value + 1
                ranges[var] = Range(const(ends.min_value, var.dtype), const(size, var.dtype))
    return ranges


def _tells_apart(ctx, realize, buffer):
    """Lists of (value, box) pairs, each of which tells apart the instances of a block that touch different parts of a
    buffer."""
    regions = regions_of(realize, buffer, "writes")
    if len(regions) == 1:
        yield [(r.min, as_expr(r.extent)) for r in regions[0]]
    if why_not_pure(ctx.index, ctx.scope(realize, ""), realize) is None:  # each instance has its own elements
        yield [(v, 1) for iv, v in zip(realize.block.iter_vars, realize.iter_values) if iv.iter_type == "spatial"]


def _expect_instances(analyzer, block):
    """State that the symbolic extents of a block's iterators are at least 1: else nothing of it runs."""
    for iv in block.iter_vars:
        if isinstance(iv.dom.extent, Var):
            analyzer.update(iv.dom.extent, ConstIntBound(1, ConstIntBound.POS_INF), override=True)


def _reads_where_it_writes(realize, buffer):
    writes = [r for r in realize.block.writes if r.buffer is buffer]
    return all(any(structural_equal(r.region, w.region) for w in writes)
               for r in realize.block.reads if r.buffer is buffer)


# ---------------------------------------------------------------- structure

def _only_blocks(ctx, loop, argument):
    """The blocks under a loop; refuses when anything else is there."""
    def check(stmt):
        if isinstance(stmt, BlockRealize):
            return
        if not isinstance(stmt, (For, SeqStmt)):
            ctx.refuse(argument, f"loop {loop.loop_var.name} holds a {type(stmt).__name__} outside any block",
                       "only loops and blocks can be analysed", [loop])
        for child in statements_below(stmt):
            check(child)

    check(loop)
    return blocks_below(loop)


def _loops_from(index, realize, outer):
    """The loops from `outer` (included) down to a block."""
    above = index.loops_above(realize)
    return above[next(i for i, loop in enumerate(above) if loop is outer):]
