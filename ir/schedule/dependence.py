"""Dependences: is everything that a block reads written before, in the same iteration of the loops it shares?"""
from __future__ import annotations

from ..arith import affine_domains
from ..expr import is_const_int
from .blocks import SPATIAL, buffers_of, is_true, name_of, uses
from .context import analyzer_of, know_dimensions, ranges_of
from .regions import Relaxed, holds, joined, regions_of, touched_box, written_box


def common_loops(index, a, b):
    """The loops around both of two statements of one scope, outermost first."""
    return [x for x, y in zip(index.loops_above(a), index.loops_above(b)) if x is y]


def incomplete_input(index, scope, reader, buffer, spatial=SPATIAL):
    """None when each iteration of the loops that a reader shares with a writer of `buffer` reads only what that same
    iteration wrote before. Else (reason, writer). spatial: the types of iterators that hand nothing on in a writer."""
    for writer in _sharing_loops(index, scope, reader, buffer):
        why = _incomplete(index, writer, reader, buffer, spatial)
        if why:
            return why, writer
    return None


def turn_writes_input(index, scope, reader, buffer):
    """Whether all that a reader reads of `buffer` was written before in the same iteration of the loops that it shares
    with the writers, by one of them, zeros for instance, over which others write, or each a part."""
    writers = _sharing_loops(index, scope, reader, buffer)
    return (not writers or any(_incomplete(index, w, reader, buffer) is None for w in writers)
            or _complete_together(index, writers, reader, buffer))


def _sharing_loops(index, scope, reader, buffer):
    """The other writers of a buffer that share loops with a reader."""
    return [w for w in index.writers(buffer, scope) if w is not reader and common_loops(index, w, reader)]


def _complete_together(index, writers, reader, buffer):
    """Whether writers that share the same loops with a reader wrote boxes side by side, which hold what it reads."""
    common, *others = (common_loops(index, w, reader) for w in writers)
    return (all(loops == common for loops in others)
            and not any(_unfinished(index, w, reader, buffer, common) for w in writers)
            and _cover(index, writers, reader, buffer, common))


def _cover(index, writers, reader, buffer, common):
    """Whether an iteration of the loops that writers share with a reader is proved to write all that this reads in
    it."""
    analyzer = know_dimensions(analyzer_of(common), index.func)
    boxes = [written_box(analyzer, w, buffer, index.loops_above(w)[len(common):]) for w in writers]
    needed = _needed(analyzer, index.loops_above(reader)[len(common):], reader, buffer)
    return None not in (*boxes, needed) and any(
        holds(analyzer, box, needed, buffer.shape) for box in joined(analyzer, boxes, buffer.shape))


def _needed(analyzer, loops, reader, buffer):
    """The box of a buffer that a block reads while loops run: as far as its conditions let them, where that is told for
    all of them together, as of threads that share fewer iterations than there are threads."""
    regions = regions_of(reader, buffer, "reads")
    if len(regions) == 1 and not is_true(reader.predicate) and all(is_const_int(r.extent, 1) for r in regions[0]):
        box = affine_domains([r.min for r in regions[0]], ranges_of(loops), reader.predicate, analyzer, bijective=False)
        if box:
            return list(box.domains)
    return touched_box([Relaxed(analyzer, loops)], [reader], buffer, ("reads",))


def _unfinished(index, writer, reader, buffer, common, spatial=SPATIAL):
    """Why a writer may not be done where a reader begins, in an iteration of the loops that they share."""
    name = name_of(writer)
    if index.order[writer] > index.order[reader]:
        return f"block {name} writes {buffer.name} after block {name_of(reader)} in the same loop"
    shared = {loop.loop_var for loop in common}
    for iv, value in zip(writer.block.iter_vars, writer.iter_values):
        if iv.iter_type not in spatial and uses(value, shared):
            return f"the reduction of block {name} over {iv.var.name} is not finished there"
    return None


def _incomplete(index, writer, reader, buffer, spatial=SPATIAL):
    """Why an iteration of the loops that a reader shares with one writer may read what this writer did not write in
    it."""
    common = common_loops(index, writer, reader)
    why = _unfinished(index, writer, reader, buffer, common, spatial)
    if why:
        return why
    if not _cover(index, [writer], reader, buffer, common):
        return (f"one turn of loop {common[-1].loop_var.name} is not proved to write all of {buffer.name} that "
                f"block {name_of(reader)} reads in it")
    return None


def require_inputs_ready(ctx, realize, argument):
    """Refuse unless a block reads only what is written before it, in the iteration of the loops that it shares."""
    scope, order = ctx.scope(realize, argument), ctx.index.order
    for buffer in buffers_of(realize.block.reads):
        late = [w for w in ctx.index.writers(buffer, scope) if order[w] > order[realize]]
        if late:
            ctx.refuse(argument, f"block {name_of(late[0])} writes {buffer.name} after block {name_of(realize)}, "
                       "which reads it", "choose a place after its producers", [realize, late[0]])
        why = incomplete_input(ctx.index, scope, realize, buffer)
        if why:
            ctx.refuse(argument, why[0], "choose a place where its inputs are complete", [realize, why[1]])


def require_stage_pipeline(ctx, scope, argument):
    """Refuse unless each block of a scope reads, of what the scope allocates, only what others have written."""
    for reader in ctx.index.children(scope):
        for buffer in buffers_of(reader.block.reads):
            if ctx.index.owner(buffer) is scope and not region_cover(ctx.index, scope, reader, buffer):
                ctx.refuse(argument, f"block {name_of(scope)} is no stage pipeline: block {name_of(reader)} may read "
                           f"elements of {buffer.name} that no block has written", "write all of them, or read fewer",
                           [reader, *ctx.index.writers(buffer, scope)])


def region_cover(index, scope, reader, buffer):
    """Whether all that an iteration of the loops which a reader shares with the writers of a buffer reads of it is
    proved to be written in that iteration, by all threads that share the memory."""
    writers = [w for w in index.writers(buffer, scope) if w is not reader]
    if not writers:
        return True
    common = index.loops_above(reader)
    for writer in writers:
        common = common_loops(index, writer, reader)[:len(common)]
    threads = [loop for loop in common if is_shared(buffer.scope, loop.thread_binding)]
    analyzer = analyzer_of([loop for loop in common if loop not in threads])
    boxes = [written_box(analyzer, w, buffer, [*threads, *index.loops_above(w)[len(common):]]) for w in writers]
    loops = [*threads, *index.loops_above(reader)[len(common):]]
    needed = _needed(analyzer, loops, reader, buffer)
    return needed is not None and any(
        holds(analyzer, box, needed, buffer.shape)
        for box in joined(analyzer, [b for b in boxes if b is not None], buffer.shape))


def own_work(index, realize):
    """The buffers of which a block that holds others reads only what these wrote before, in the same instance."""
    def is_made(reader, buffer):
        others = [w for w in index.writers(buffer, realize) if w is not reader]
        return (others and all(index.order[w] < index.order[reader] for w in others)
                and region_cover(index, realize, reader, buffer))

    inside = index.children(realize)
    return [b for b in buffers_of(realize.block.writes)
            if inside and all(is_made(r, b) for r in index.readers(b, realize))]


def is_shared(scope, thread_axis):
    """Whether the threads along an axis share a memory that is not everyone's."""
    if scope == "warp":
        return thread_axis == "threadIdx.x"
    return scope.startswith("shared") and thread_axis is not None and not thread_axis.startswith("blockIdx")
