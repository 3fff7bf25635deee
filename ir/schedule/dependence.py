"""Dependences between blocks: what each kind of block promises, and which loops carry nothing from turn to turn."""
from __future__ import annotations

from ..expr import Range, Var, as_expr
from ..node import Node, structural_equal
from ..tir.stmt import BlockRealize, For, SeqStmt
from .context import analyzer_of, is_unit, name_of
from .digits import Digits
from .index import blocks_below, statements_below
from .regions import Relaxed, holds, regions_of, touched_box, union_box, written_box


def uses(e, variables):
    """Whether an expression mentions any Var of a set."""
    if isinstance(e, Var):
        return e in variables
    if isinstance(e, Node):
        return any(uses(getattr(e, f), variables) for f in e._fields)
    return isinstance(e, tuple) and any(uses(x, variables) for x in e)


# ---------------------------------------------------------------- kinds of blocks

def _not_dominant(index, scope, realize):
    for region in realize.block.writes:
        others = [w for w in index.writers(region.buffer, scope) if w is not realize]
        if others:
            return f"block {name_of(others[0])} also writes {region.buffer.name}"
    return None


def why_not_complete(index, scope, realize):
    """None for a complete block: data-parallel, the only writer of its buffers, not reading them. Else the reason."""
    block = realize.block
    if block.init is not None:
        return "it has an init statement"
    for iv in block.iter_vars:
        if iv.iter_type != "spatial":
            return f"its iterator {iv.var.name} is of type {iv.iter_type}, not spatial"
    written = {id(r.buffer) for r in block.writes}
    own = [r.buffer.name for r in block.reads if id(r.buffer) in written]
    if own:
        return f"it reads {own[0]}, which it also writes"
    return _not_dominant(index, scope, realize)


def why_not_reduction(index, scope, realize):
    """None for a reduction block: with init, spatial and reduce iterators, reduce ones not in what it writes."""
    block = realize.block
    if block.init is None:
        return "it has no init statement"
    for iv in block.iter_vars:
        if iv.iter_type not in ("spatial", "reduce"):
            return f"its iterator {iv.var.name} is of type {iv.iter_type}"
    reduce_vars = {iv.var for iv in block.iter_vars if iv.iter_type == "reduce"}
    for region in block.writes:
        if any(uses(r, reduce_vars) for r in region.region):
            return f"a reduce iterator chooses where it writes {region.buffer.name}"
    return _not_dominant(index, scope, realize)


def require_pure(ctx, scope, realize, argument):
    """Refuse unless the block is complete or a reduction: then what it writes depends on its inputs alone."""
    reduction = realize.block.init is not None
    why = (why_not_reduction if reduction else why_not_complete)(ctx.index, scope, realize)
    if why:
        ctx.refuse(argument, f"block {name_of(realize)} is neither complete nor a reduction: {why}",
                   "only blocks whose value depends on their inputs alone can move", [realize])


# ---------------------------------------------------------------- reading what was written

def common_loops(index, a, b):
    """The loops around both of two statements of one scope, outermost first."""
    return [x for x, y in zip(index.loops_above(a), index.loops_above(b)) if x is y]


def unread_reason(index, scope, reader, buffer):
    """None when each turn of the loops that a reader shares with a writer of `buffer` reads only what that same turn
    wrote before. Else the reason, as words and the writer."""
    for writer in index.writers(buffer, scope):
        if writer is reader:
            continue
        common = common_loops(index, writer, reader)
        if not common:
            continue
        name = name_of(writer)
        if index.order[id(writer)] > index.order[id(reader)]:
            return f"block {name} writes {buffer.name} after it in the same loop", writer
        shared = {loop.loop_var for loop in common}
        for iv, value in zip(writer.block.iter_vars, writer.iter_values):
            if iv.iter_type != "spatial" and uses(value, shared):
                return f"the reduction of block {name} over {iv.var.name} is not finished there", writer
        analyzer = analyzer_of(common)
        written = written_box(analyzer, writer, buffer, index.loops_above(writer)[len(common):])
        relaxed = Relaxed(analyzer, index.loops_above(reader)[len(common):])
        needed = touched_box(relaxed, reader, buffer)
        if written is None or needed is None or not holds(analyzer, written, needed, buffer.shape):
            return (f"one turn of loop {common[-1].loop_var.name} is not proved to write all of {buffer.name} that "
                    f"block {name_of(reader)} reads in it"), writer
    return None


def require_inputs_ready(ctx, realize, argument):
    """Refuse unless a block reads only what is written before it, in the turn of the loops that it shares."""
    scope = ctx.scope(realize, argument)
    for buffer in {id(r.buffer): r.buffer for r in realize.block.reads}.values():
        late = [w for w in ctx.index.writers(buffer, scope)
                if ctx.index.order[id(w)] > ctx.index.order[id(realize)]]
        if late:
            ctx.refuse(argument, f"block {name_of(late[0])} writes {buffer.name} after block {name_of(realize)}, "
                       "which reads it", "choose a place after its producers", [realize, late[0]])
        why = unread_reason(ctx.index, scope, realize, buffer)
        if why:
            ctx.refuse(argument, why[0], "choose a place where its inputs are complete", [realize, why[1]])


# ---------------------------------------------------------------- loops

def only_blocks(ctx, loop, argument):
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


def _range_of(loops):
    return {loop.loop_var: Range(loop.min, loop.extent) for loop in loops}


def _inner_loops(index, realize, outer):
    """Loops between `outer` (included) and a block."""
    above = index.loops_above(realize)
    return above[next(i for i, loop in enumerate(above) if loop is outer):]


def require_independent(ctx, loop, argument="'loop'"):
    """Refuse unless the turns of a loop can run in any order or at once.

    Buffers that live within a turn must be written before they are read in it; all others must be touched at
    different places by different turns.
    """
    if is_unit(loop):
        return
    name, index = loop.loop_var.name, ctx.index
    below = only_blocks(ctx, loop, argument)
    inside = {id(b) for b in below}
    for realize in below:
        for iv, value in zip(realize.block.iter_vars, realize.iter_values):
            if iv.iter_type != "spatial" and uses(value, {loop.loop_var}):
                ctx.refuse(argument, f"loop {name} runs the {iv.iter_type} iterator {iv.var.name} of block "
                           f"{name_of(realize)}", "its turns add to the same element; choose a spatial loop",
                           [loop, realize])
    scope = ctx.scope(below[0], argument)
    for buffer in {id(r.buffer): r.buffer for b in below for r in b.block.writes}.values():
        readers, writers = index.readers(buffer, scope), index.writers(buffer, scope)
        everywhere = all(id(b) in inside for b in (*readers, *writers))
        if everywhere and index.owner(buffer) is not None and len(readers) > 0:
            if not any(unread_reason(index, scope, r, buffer) for r in readers):
                continue
        touching = [b for b in below if any(b is x for x in (*readers, *writers))]
        if not _separate(ctx, loop, touching, buffer):
            ctx.refuse(argument, f"the turns of loop {name} are not proved to touch different parts of {buffer.name}",
                       f"it is written by block {name_of(next(w for w in writers if id(w) in inside))} below",
                       [loop, *touching])


def _separate(ctx, loop, touching, buffer):
    """Whether different turns of `loop` touch disjoint parts of a buffer."""
    index, var = ctx.index, loop.loop_var
    analyzer = analyzer_of(index.loops_above(loop))
    if len(touching) == 1 and _reads_where_it_writes(touching[0], buffer):
        digits = Digits(analyzer, _range_of(_inner_loops(index, touching[0], loop)))
        regions = regions_of(touching[0], buffer, "writes")
        if len(regions) == 1 and var in digits.recovered([(r.min, as_expr(r.extent)) for r in regions[0]]):
            return True
    analyzer.bind(var, Range(loop.min, loop.extent))
    box = None
    for realize in touching:
        relaxed = Relaxed(analyzer, _inner_loops(index, realize, loop)[1:])
        box = union_box(box, touched_box(relaxed, realize, buffer, ("reads", "writes")), buffer, relaxed.an)
    digits = Digits(analyzer_of(index.loops_above(loop)), _range_of([loop]))
    return var in digits.recovered([(r.min, r.extent) for r in box])


def _reads_where_it_writes(realize, buffer):
    reads = [r for r in realize.block.reads if r.buffer is buffer]
    writes = [r for r in realize.block.writes if r.buffer is buffer]
    return all(any(structural_equal(r.region, w.region) for w in writes) for r in reads)


def require_reorderable(ctx, chain, argument="'loops'"):
    """Refuse unless the loops of a chain (outermost first, each the only statement of the one before) may be
    exchanged: every block below is data-parallel or a commutative reduction over their turns."""
    below = only_blocks(ctx, chain[0], argument)
    variables = {loop.loop_var for loop in chain}
    for realize in below:
        for iv, value in zip(realize.block.iter_vars, realize.iter_values):
            if iv.iter_type not in ("spatial", "reduce"):
                ctx.refuse(argument, f"iterator {iv.var.name} of block {name_of(realize)} is of type {iv.iter_type}",
                           "its turns must keep their order", [realize])
            if iv.iter_type == "reduce" and len(below) > 1 and uses(value, variables):
                ctx.refuse(argument, f"the reduction of block {name_of(realize)} runs over several blocks",
                           "separate the blocks first", [realize])
    if len(below) == 1:
        _require_instances_apart(ctx, chain, below[0], argument)
        return
    scope = ctx.scope(below[0], argument)
    for realize in below:
        for buffer in {id(r.buffer): r.buffer for r in realize.block.reads}.values():
            if any(any(w is b for b in below) and w is not realize for w in ctx.index.writers(buffer, scope)):
                why = unread_reason(ctx.index, scope, realize, buffer)
                if why:
                    ctx.refuse(argument, why[0], "a turn must not use what another turn wrote", [realize, why[1]])


def _require_instances_apart(ctx, chain, realize, argument):
    """Refuse unless the instances of the only block under a chain may run in any order."""
    scope, block = ctx.scope(realize, argument), realize.block
    for region in block.writes:
        if not _reads_where_it_writes(realize, region.buffer):
            ctx.refuse(argument, f"block {name_of(realize)} reads other elements of {region.buffer.name} than it writes",
                       "its turns must keep their order", [realize])
    if why_not_complete(ctx.index, scope, realize) is not None:  # else repeating an instance is harmless
        require_distinct(ctx, chain[0], realize, argument)


def require_distinct(ctx, outermost, realize, argument):
    """Refuse unless each turn of the loops from `outermost` down to a block runs another instance of it."""
    loops = _inner_loops(ctx.index, realize, outermost)
    digits = Digits(analyzer_of(ctx.index.loops_above(outermost)), _range_of(loops))
    found = digits.recovered([(value, 1) for value in realize.iter_values])
    for loop in loops:
        if loop.loop_var not in found and not is_unit(loop):
            ctx.refuse(argument, f"the binding of block {name_of(realize)} is not affine in loop {loop.loop_var.name}: "
                       "several of its turns may run one instance",
                       "only loops that the block's iterators are split from or fused into qualify", [loop, realize])


# ---------------------------------------------------------------- after a move

def require_still_legal(ctx, realize, argument):
    """Check what a rewrite may have broken around a block, in the context of the new function.

    Its inputs are complete where it reads them, so are the inputs of those who read it; a reduction does not add an
    element twice; the parallel and vectorized loops around it still qualify.
    """
    scope, index = ctx.scope(realize, argument), ctx.index
    require_inputs_ready(ctx, realize, argument)
    for buffer in {id(w.buffer): w.buffer for w in realize.block.writes}.values():
        for reader in index.readers(buffer, scope):
            if reader is not realize:
                require_inputs_ready(ctx, reader, argument)
    loops = index.loops_above(realize)
    if realize.block.init is not None:
        values = [v for iv, v in zip(realize.block.iter_vars, realize.iter_values) if iv.iter_type == "reduce"]
        reducing = [loop for loop in loops if uses(tuple(values), {loop.loop_var})]
        if reducing:
            require_distinct(ctx, reducing[0], realize, argument)
    for loop in loops:
        if loop.kind in ("parallel", "vectorized"):
            require_independent(ctx, loop, argument)


__all__ = ["common_loops", "only_blocks", "require_distinct", "require_independent", "require_inputs_ready",
           "require_pure", "require_reorderable", "require_still_legal", "uses", "why_not_complete",
           "why_not_reduction"]
