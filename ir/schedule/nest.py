"""Building and placing loop nests: a block over a box, and where it may stand among its neighbours."""
from __future__ import annotations

from ..expr import LE, Range, Var, cast, const, logical_and
from ..tir.signatures import complete_signatures
from ..tir.stmt import BlockRealize, For, SeqStmt, is_constant, seq
from .blocks import buffers_of, name_of
from .index import blocks_below, sequence


def build_nest(realize, boxes, analyzer, preserve_unit_loops=False, exact=False):
    """Fresh loops ax0, ax1 ... over a block's iterators, and the block bound to them.

    boxes: {iterator Var: Range it must cover}; an iterator that is not there covers its domain. What may lie outside
    the domain is cut off by the block's predicate. Loops of one iteration are left out unless preserved, all or those
    of a set of iterators' Vars.

    exact: nothing that is outside the boxes may run; else a whole domain may stand for a box of at least its size.
    """
    loops, values, predicate = [], [], const(True)
    for iv in realize.block.iter_vars:
        box, conditions = _clip(analyzer, boxes.get(iv.var), iv, exact)
        kept = iv.var in preserve_unit_loops if isinstance(preserve_unit_loops, set) else preserve_unit_loops
        if getattr(box.extent, "value", None) == 1 and not kept:
            value = box.min
        else:
            var = Var(f"ax{len(loops)}", iv.var.dtype)
            loops.append((var, box.extent))
            value = var + box.min if getattr(box.min, "value", None) == 0 else box.min + var
        values.append(value)
        for condition in conditions:  # a loop of one turn adds nothing
            predicate = logical_and(predicate, condition(box.min if getattr(box.extent, "value", None) == 1 else value))
    nest = BlockRealize(tuple(values), predicate, realize.block)
    for var, extent in reversed(loops):
        nest = For(var, const(0, var.dtype), extent, "serial", nest)
    return nest


def _clip(analyzer, box, iv, exact):
    """(Range, conditions on the value): the part of `box` inside the iterator's domain, as far as it can be proved."""
    domain = iv.dom
    if box is None:
        return domain, ()
    at_most = analyzer.can_prove_less_equal
    dtype = iv.var.dtype
    low, extent = cast(analyzer.simplify(box.min), dtype), cast(analyzer.simplify(box.extent), dtype)
    end, domain_end = low + extent, domain.min + domain.extent
    inside_low, inside_end = at_most(domain.min, low), at_most(end, domain_end)
    if inside_low and inside_end:
        return Range(low, extent), ()
    if (not exact and at_most(domain.extent, extent)) or (at_most(low, domain.min) and at_most(domain_end, end)):
        return domain, ()
    conditions = []
    if not inside_low:
        conditions.append(lambda value: _at_least(analyzer, value, domain.min))
    if not inside_end:
        conditions.append(lambda value: analyzer.simplify(value < domain_end))
    return Range(low, extent), conditions


def _at_least(analyzer, value, low):
    """low <= value, the constants on the left."""
    offset = analyzer.canonical.linear(value).const
    return LE(analyzer.simplify(low - offset), analyzer.simplify(value - offset))


def removable(index, realize):
    """The statement to remove with a block: the block and the loops that hold nothing else."""
    stmt = realize
    while isinstance(index.parent(stmt), For):
        stmt = index.parent(stmt)
    return stmt


def insert(ctx, parent, nest, position):
    """The function with `nest` at `position` among the statements of a loop's or scope block's body; blocks around list
    what it touches, too."""
    body = body_of(parent)
    children = sequence(body)
    func = ctx.index.rewrite({body: seq(*children[:position], nest, *children[position:])})
    scope = ctx.index.scope(parent) if isinstance(parent, For) else parent
    return func if ctx.index.scope(scope) is None else complete_signatures(func)[0]


def children_of(parent):
    """The statements in the body of a loop or scope block."""
    return sequence(body_of(parent))


def body_of(parent):
    """The body of a loop or scope block, below the constants at its top."""
    body = parent.body if isinstance(parent, For) else parent.block.body
    while is_constant(body):
        body = body.body
    return body


def position_of(parent, block):
    """Which of a parent's statements holds a block."""
    return next(i for i, child in enumerate(children_of(parent)) if block in blocks_below(child))


def place(ctx, parent, producers, consumers, wanted, argument):
    """The position for a block among a loop's statements: after its producers, before its consumers.

    wanted: -1 the last such position, -2 the first, else the position itself. Blocks elsewhere do not matter.
    """
    children = children_of(parent)
    first, last = 0, len(children)
    for i, child in enumerate(children):
        held = blocks_below(child)
        if any(b in producers for b in held):
            first = i + 1
        if last == len(children) and any(b in consumers for b in held):
            last = i
    if first > last:
        ctx.refuse(argument, "under it a producer of the block stands after one of its consumers",
                   "choose an inner or outer loop", [parent])
    if wanted == -1:
        return last
    if wanted == -2:
        return first
    if not first <= wanted <= last:
        ctx.refuse("'index'", f"{wanted} is not between {first} (after the last producer) and {last} (before the first "
                   "consumer)", "use -1 or -2", [parent])
    return wanted


def neighbours(index, scope, realize):
    """(producers, consumers) of a block in its scope, each in execution order."""
    before = {w for b in buffers_of(realize.block.reads) for w in index.writers(b, scope)}
    after = {r for b in buffers_of(realize.block.writes) for r in index.readers(b, scope)}
    return tuple(sorted(found - {realize}, key=index.order.get) for found in (before, after))


def require_scope(ctx, scope, loop, argument="'loop'"):
    """Refuse unless the loop is directly inside the scope block."""
    if ctx.index.scope(loop) is not scope:
        ctx.refuse(argument, f"loop {loop.loop_var.name} is not in the same block scope as the block",
                   f"choose a loop inside block {name_of(scope)}", [loop])
    for above in ctx.index.ancestors(loop):
        if not (isinstance(above, (For, SeqStmt, BlockRealize)) or is_constant(above)):
            ctx.refuse(argument, f"loop {loop.loop_var.name} lies under a {type(above).__name__}",
                       "only loops may lie around it", [loop])
