"""Conditions to check again after a rewrite around a block."""
from __future__ import annotations

from ..arith import affine_domains
from ..arith.int_set import covers
from .blocks import buffers_of, name_of, uses, why_not_pure
from .context import analyzer_of, know_dimensions, ranges_of
from .dependence import common_loops, incomplete_input, require_inputs_ready
from .independence import require_distinct, require_independent, require_init_first, separate
from .regions import Relaxed, holds, touched_box, whole, written_box
from .signature import stays_inside


def require_still_legal(ctx, realize, argument):
    """Check what a rewrite may have broken around a block, in the context of the new function.

    Its inputs are complete where it reads them, so are the inputs of those who read it (but for those that read what
    was there before, in loops in front of its own); a reduction adds each
    term once, after its init; the parallel and vectorized loops around it still qualify.
    """
    scope, index = ctx.scope(realize, argument), ctx.index
    require_inputs_ready(ctx, realize, argument)
    for buffer in buffers_of(realize.block.writes):
        for reader in index.readers(buffer, scope):
            if reader is not realize and not (index.order[reader] < index.order[realize]
                                              and not common_loops(index, reader, realize)):
                require_inputs_ready(ctx, reader, argument)
    loops = index.loops_above(realize)
    if realize.block.init is not None:
        values = tuple(v for iv, v in zip(realize.block.iter_vars, realize.iter_values) if iv.iter_type == "reduce")
        reducing = [loop for loop in loops if uses(values, {loop.loop_var})]
        if reducing:
            require_distinct(ctx, reducing[0], realize, argument)
            require_init_first(ctx, reducing[0], realize, argument)
    require_kinds(ctx, loops, argument)


def require_stable_inputs(ctx, realize, argument):
    """Refuse unless a block reads the same values of its inputs wherever it stands after their writers."""
    found = _passing_input(ctx, ctx.scope(realize, argument), realize)
    if found:
        buffer, writer, loop = found
        ctx.refuse(argument, f"block {name_of(realize)} may read values of {buffer.name} that are there in one turn of "
                   f"loop {loop.loop_var.name} alone, in which block {name_of(writer)} writes them", "",
                   [loop, realize, writer])


def _passing_input(ctx, scope, realize):
    """(buffer, writer, shared loop) of an input that another iteration of the loop may change; None when there is none.

    A writer in the same loop is no trouble when it gives each element one value, or when each iteration of the loop has
    a part of the buffer to itself.
    """
    index = ctx.index
    for buffer in buffers_of(realize.block.reads):
        for writer in index.writers(buffer, scope):
            common = common_loops(index, writer, realize)
            if writer is realize or not common:
                continue
            once = (index.order[writer] < index.order[realize] and index.owner(buffer) is scope
                    and why_not_pure(index, scope, writer) is None and _passing_input(ctx, scope, writer) is None)
            if not once and (index.order[writer] > index.order[realize]
                             or incomplete_input(index, scope, realize, buffer)
                             or not separate(ctx, common, [writer], buffer)):
                return buffer, writer, common[-1]
    return None


def require_all_provided(ctx, realize, region, writer, argument):
    """Refuse unless all that a block reads of a buffer is written by all instances of a writer together: then every
    instance of the block runs when it stands where its input is made."""
    buffer, common = region.buffer, common_loops(ctx.index, writer, realize)
    analyzer = know_dimensions(analyzer_of(common), ctx.func)
    loops = [ctx.index.loops_above(b)[len(common):] for b in (writer, realize)]
    written = written_box(analyzer, writer, buffer, loops[0])
    needed = touched_box([Relaxed(analyzer, loops[1])], [realize], buffer, ("reads",))
    shape = [whole(e) for e in buffer.shape]
    inside = (stays_inside(realize.block, [r.min for r in region.region], shape)
              and stays_inside(realize.block, [r.min + r.extent - 1 for r in region.region], shape))
    if written is None or not inside or not holds(analyzer, written, needed, buffer.shape):
        ctx.refuse(argument, f"some instances of block {name_of(realize)} may read outside what block "
                   f"{name_of(writer)} writes of {buffer.name}, and would be lost",
                   "compute_at or compute_inline the producer instead", [realize, writer])


def require_whole_domain(ctx, realize, argument):
    """Refuse unless a block that writes what others see runs over its whole domain: made anew, it would."""
    scope, index = ctx.scope(realize, argument), ctx.index
    if all(index.owner(r.buffer) is scope for r in realize.block.writes):
        return
    spatial = [(iv, v) for iv, v in zip(realize.block.iter_vars, realize.iter_values) if iv.iter_type == "spatial"]
    found = affine_domains([v for _, v in spatial], ranges_of(index.loops_above(realize)), None,
                           know_dimensions(analyzer_of([]), ctx.func), bijective=False)
    if not found or not all(covers(have, iv.dom) for have, (iv, _) in zip(found.domains, spatial)):
        ctx.refuse(argument, f"block {name_of(realize)} is not proved to run over its whole domain, and more of "
                   f"{realize.block.writes[0].buffer.name} would be written", "", [realize])


def require_same_order(ctx, realize, after, moved, argument):
    """Refuse when a block has passed another one that writes what it touches, or reads what it writes.

    ctx, realize: the block in the old function. after, moved: what now does its work in the new one.
    """
    scope, old, new = ctx.scope(realize, argument), ctx.index, after.index
    still, writes = set(buffers_of(moved.block.reads)), buffers_of(realize.block.writes)  # an init does not read inputs
    reads = [b for b in buffers_of(realize.block.reads) if b in still]
    others = {b for buffer in {*reads, *writes} for b in old.writers(buffer, scope)}
    others.update(b for buffer in writes for b in old.readers(buffer, scope))
    for other in sorted(others - {realize}, key=old.order.get):
        now = new.blocks.get(name_of(other))
        if now is None or now is moved:
            continue
        if (old.order[other] < old.order[realize]) != (new.order[now] < new.order[moved]):
            before, first = (name_of(b) for b in sorted((other, realize), key=old.order.get))
            ctx.refuse(argument, f"block {first} must stay after block {before}: one writes what the other touches",
                       "choose a place that keeps their order", [realize, other])


def require_kinds(ctx, loops, argument):
    """Refuse unless those of the loops (of this or an earlier version of the function) that run at once still may.

    Moving a block out of a loop can break this too: what lived within an iteration may then be read from outside.
    """
    for old in loops:
        loop = ctx.index.loops.get(old.loop_var)
        if loop is not None and loop.kind in ("parallel", "vectorized", "thread_binding"):
            require_independent(ctx, loop, argument, joining=(loop.thread_binding or "").startswith("threadIdx"))


def require_rectangular(ctx, argument, loops, around=()):
    """Refuse when the range of one of `loops` depends on another of them, or on one of the loops `around` them."""
    known = {loop.loop_var: loop for loop in (*around, *loops)}
    for loop in loops:
        for var, other in known.items():
            if uses((loop.min, loop.extent), {var}):
                ctx.refuse(argument, f"the range of loop {loop.loop_var.name} depends on another loop, {var.name}",
                           "only loops over a box qualify", [loop, other])
