"""compute_at and reverse_compute_at: move a block under a loop of its consumers or producers."""
from __future__ import annotations

from ...arith.int_set import union_ranges
from ...arith.linear import VAR, single_atom
from ...expr import Add, FloorDiv, FloorMod, IntImm, Mul, Range, Sub, Var, const, is_const_int
from ..blocks import name_of, require_pure
from ..dependence import is_shared, require_inputs_ready
from ..errors import ScheduleError
from ..handles import Mark
from ..legality import (require_all_provided, require_kinds, require_same_order, require_stable_inputs,
                        require_still_legal, require_whole_domain)
from ..nest import build_nest, insert, neighbours, place, removable, require_scope
from ..regions import Relaxed, touched_box, without_offset
from ..registry import BLOCK, BOOL, INT, LOCATION, Result, primitive
from ..signature import domain_analyzer
from .inline import compute_inline, reverse_compute_inline


@primitive(None, block=BLOCK, loop=LOCATION, preserve_unit_loops=BOOL, index=INT)
def compute_at(ctx, block, loop, preserve_unit_loops=False, index=-1):
    """Compute a producer where it is used: under `loop`, only what one iteration of the loop reads.

        for i, j: A[i, j] = f(i, j)
        for i, j: B[i, j] = g(A[i, j])
    becomes, with compute_at(A, i),
        for i:
            for ax0: A[i, ax0] = f(i, ax0)
            for j: B[i, j] = g(A[i, j])

    The block's loops are made anew over the region that its consumers under the loop read, clipped to its domain by
    a predicate where needed; of memory that GPU threads share, over what all of these read. index: its position under
    the loop; -1 the last possible one, -2 the first.

    A loop that sample_compute_location made of no loop inlines the block or leaves it where it is.

    Requires a complete or reduction block that writes no output, all consumers under the loop, all producers before.
    """
    if isinstance(loop, Mark):
        return compute_inline(ctx, block) if loop is Mark.INLINE else Result(ctx.func)
    scope = ctx.scope(block, "'block'")
    require_scope(ctx, scope, loop)
    require_pure(ctx, scope, block, "'block'")
    consumers = _consumers_under(ctx, scope, block, loop)
    analyzer = ctx.analyzer_at(loop)
    analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
    boxes = {}
    for region in block.block.writes:
        readers = [c for c in consumers if c in ctx.index.readers(region.buffer, scope)]
        for dim, need in zip(region.region, _touched_in(ctx, analyzer, region.buffer, readers, loop, "reads")):
            _solve(boxes, dim, need, analyzer)
    nest = build_nest(block, boxes, analyzer, preserve_unit_loops)
    return Result(_moved(ctx, scope, block, loop, nest, index))


@primitive(None, block=BLOCK, loop=LOCATION, preserve_unit_loops=BOOL, index=INT)
def reverse_compute_at(ctx, block, loop, preserve_unit_loops=False, index=-1):
    """Compute a consumer where its input is made: under `loop`, for what one iteration of the loop writes.

        for i, j: A[i, j] = f(i, j)
        for i, j: B[i, j] = g(A[i, j])
    becomes, with reverse_compute_at(B, i),
        for i:
            for j: A[i, j] = f(i, j)
            for ax0: B[i, ax0] = g(A[i, ax0])

    Requires a complete or reduction block, all producers under the loop or before it, and that one iteration writes all
    that the block reads in it. Marks of sample_compute_location as in compute_at.
    """
    if isinstance(loop, Mark):
        return reverse_compute_inline(ctx, block) if loop is Mark.INLINE else Result(ctx.func)
    scope = ctx.scope(block, "'block'")
    require_scope(ctx, scope, loop)
    require_pure(ctx, scope, block, "'block'")
    analyzer = ctx.analyzer_at(loop)
    analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
    require_whole_domain(ctx, block, "'block'")
    boxes = _provided(ctx, analyzer, scope, block, loop)

    def moved(exact):
        nest = build_nest(block, boxes, analyzer, preserve_unit_loops, exact)
        func = _moved(ctx, scope, block, loop, nest, index)
        after = ctx.with_func(func)
        require_still_legal(after, after.index.blocks[name_of(block)], "'loop'")
        return Result(func)

    try:
        return moved(exact=False)  # a whole domain has no conditions
    except ScheduleError as why:
        try:
            return moved(exact=True)
        except ScheduleError:
            raise why from None


def _moved(ctx, scope, block, loop, nest, index):
    """The function with the block's loops gone and `nest` under the loop, its inputs checked."""
    require_stable_inputs(ctx, block, "'block'")
    producers, consumers = neighbours(ctx.index, scope, block)
    without = ctx.with_func(ctx.index.rewrite({removable(ctx.index, block): None}))
    target = without.index.loops.get(loop.loop_var)
    if target is None:  # of a block that reads what it writes itself
        ctx.refuse("'loop'", f"loop {loop.loop_var.name} holds block {name_of(block)} alone",
                   "choose one around a producer or a consumer", [loop, block])
    position = place(without, target, producers, consumers, index, "'loop'")
    func = insert(without, target, nest, position)
    after = ctx.with_func(func)
    moved = after.index.blocks[name_of(block)]
    require_same_order(ctx, block, after, moved, "'loop'")
    require_inputs_ready(after, moved, "'loop'")
    require_kinds(after, [s for s in ctx.index.loops_above(block) if not ctx.index.is_below(loop, s)], "'loop'")
    return func


# ---------------------------------------------------------------- what an iteration needs

def _consumers_under(ctx, scope, block, loop):
    name = name_of(block)
    for region in block.block.writes:
        if ctx.index.owner(region.buffer) is not scope:
            ctx.refuse("'block'", f"block {name} is an output block: it writes {region.buffer.name}, "
                       "which must be written in full",
                       "only blocks whose results stay inside the function can be computed at a loop", [block])
    consumers = neighbours(ctx.index, scope, block)[1]
    if not consumers:
        ctx.refuse("'block'", f"nothing reads what block {name} writes", "", [block])
    for consumer in consumers:
        if not ctx.index.is_below(consumer, loop):
            around = ctx.index.is_below(block, loop)
            found = f"loop {loop.loop_var.name} is an ancestor of block {name} already, and " if around else ""
            ctx.refuse("'loop'", f"{found}it requires all the consumers of block {name} under it, and block "
                       f"{name_of(consumer)} is not under loop {loop.loop_var.name}",
                       "choose a loop around all consumers", [loop, consumer])
        if ctx.index.order[consumer] < ctx.index.order[block]:
            ctx.refuse("'block'", f"block {name_of(consumer)} reads {name} before it is written", "", [consumer, block])
    return consumers


def _touched_in(ctx, analyzer, buffer, blocks, loop, kind):
    """The region of a buffer that blocks touch in one iteration of a loop: one Range per dimension, none if untouched.

    What is read of memory that threads share is read by all of these.
    """
    relaxed, sharing = [], []
    if kind == "reads":
        sharing = [s for s in (*ctx.index.loops_above(loop), loop) if is_shared(buffer.scope, s.thread_binding)]
    for block in blocks:
        loops = ctx.index.loops_above(block)
        relaxed.append(Relaxed(analyzer, [*sharing, *loops[loops.index(loop) + 1:]]))
    return touched_box(relaxed, blocks, buffer, (kind,)) or ()


def _solve(boxes, dim, need, analyzer):
    """Enter in `boxes` what an iterator must run over so that a written point, or a tile of one size at each multiple
    of it, runs over the Range `need`, if plain."""
    if isinstance(dim.min, Sub) and isinstance(dim.min.b, Var) and isinstance(dim.min.a, IntImm):  # it counts down
        need = Range(dim.min.a - need.min - need.extent + 1, need.extent)
        dim = Range(dim.min.b, dim.extent)
    (index, offset), tile = without_offset(dim.min), 1
    if isinstance(index, Mul) and isinstance(index.b, IntImm) and index.b.value > 0:
        index, tile = index.a, index.b.value
    if not isinstance(index, Var) or not is_const_int(dim.extent, tile):
        return
    need = Range(need.min - offset, need.extent)
    if tile > 1:
        first, last = (analyzer.simplify(e // tile) for e in (need.min, need.min + need.extent - 1))
        most = analyzer.interval(analyzer.simplify(last - first + 1)).max_value
        if most is None:
            return
        need = Range(first, const(most, index.dtype))
    boxes[index] = union_ranges(boxes[index], need, analyzer) if index in boxes else need


# ---------------------------------------------------------------- what an iteration provides

def _provided(ctx, analyzer, scope, block, loop):
    """{iterator: Range} that follow from what one iteration of the loop writes; by the buffer that says most."""
    best = None
    for region in block.block.reads:
        writers = [w for w in ctx.index.writers(region.buffer, scope) if ctx.index.is_below(w, loop)]
        if not writers:
            continue
        boxes = _invert(analyzer, block.block, region.region,
                        _touched_in(ctx, analyzer, region.buffer, writers, loop, "writes"))
        if best is None or len(boxes) > len(best):
            best = boxes
        for writer in writers:
            require_all_provided(ctx, block, region, writer, "'block'")
    if best is None:
        ctx.refuse("'loop'", f"no producer of block {name_of(block)} is under loop {loop.loop_var.name}",
                   "choose a loop around one of its producers", [loop, block])
    return best


def _invert(analyzer, block, region, box):
    """{iterator: Range} such that the point indices of a read region run over the box.

    v alone gives v; the pair v // c and v % c gives v when all remainders are provided, and so does that of a sum like
    v * 8 + w, with w in [0, 8).
    """
    boxes, quotients, known = {}, {}, domain_analyzer(block)
    for dim, have in zip(region, box):
        if not is_const_int(dim.extent, 1):
            continue
        index = dim.min
        if isinstance(index, Var):
            boxes[index] = have
        elif isinstance(index, Add) and isinstance(index.b, IntImm) and isinstance(index.a, Var):
            boxes[index.a] = Range(have.min - index.b, have.extent)
        elif isinstance(index, (FloorDiv, FloorMod)) and isinstance(index.b, IntImm):
            number = known.canonical.linear(index.a)
            quotients.setdefault((number.key, index.b.value), (number, {}))[1][type(index)] = have
    for (_, c), (number, parts) in quotients.items():
        rest = parts.get(FloorMod)
        whole = rest is None or (is_const_int(rest.min, 0) and is_const_int(rest.extent, c))
        lead, step = _leading(block, number)
        if FloorDiv in parts and whole and lead is not None and lead not in boxes:
            low, size = (analyzer.simplify(e * c) for e in (parts[FloorDiv].min, parts[FloorDiv].extent))
            if all(analyzer.can_prove_equal(e % step, 0) for e in (low, size)):
                boxes[lead] = Range(analyzer.simplify(low // step), analyzer.simplify(size // step))
    return boxes


def _leading(block, number):
    """(iterator, its factor) of a sum of a block's iterators, which the others do not reach; (None, 1) of others."""
    alone = single_atom(number)
    if alone is not None and alone.kind == VAR:
        return alone.expr, 1
    extents = {iv.var: iv.dom.extent for iv in block.iter_vars if is_const_int(iv.dom.min, 0)}
    terms = sorted(number.terms.items(), key=lambda term: -term[1])
    if number.const or not terms or any(atom.kind != VAR or atom.expr not in extents or k < 0 for atom, k in terms):
        return None, 1
    (lead, step), *others = terms
    below = [extents[atom.expr] for atom, _ in others]
    if not all(isinstance(e, IntImm) for e in below):
        return None, 1
    reach = sum(k * (e.value - 1) for (_, k), e in zip(others, below))
    return (lead.expr, step) if reach < step else (None, 1)
