"""parallel, vectorize, unroll and bind: how a loop runs."""
from __future__ import annotations

from ...expr import IntImm
from ...node import collect, structural_equal
from ...tir.stmt import Block
from ..blocks import uses
from ..independence import reduces, require_independent, require_joinable
from ..index import blocks_below
from ..registry import LOOP, STR, Result, primitive

THREAD_AXES = (*(f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx", "vthread") for axis in "xyz"), "vthread")


@primitive(None, loop=LOOP)
def parallel(ctx, loop):
    """Let the iterations of a loop run on several threads.

    Requires turns that do not depend on each other: the loop runs only spatial iterators, and each iteration writes
    other elements, or buffers that live within the turn.
    """
    require_independent(ctx, loop)
    return _with_kind(ctx, loop, "parallel")


@primitive(None, loop=LOOP)
def vectorize(ctx, loop):
    """Let the iterations of a loop run as lanes of vector operations.

    Requires what `parallel` does, and a constant extent.
    """
    if not isinstance(loop.extent, IntImm):
        ctx.refuse("'loop'", f"the extent of loop {loop.loop_var.name} is {loop.extent}, not a constant",
                   "split it by the number of lanes first", [loop])
    require_independent(ctx, loop)
    return _with_kind(ctx, loop, "vectorized")


@primitive(None, loop=LOOP)
def unroll(ctx, loop):
    """Repeat a loop's body in the code instead of looping. Always legal."""
    return _with_kind(ctx, loop, "unrolled")


@primitive(None, loop=LOOP, thread_axis=STR)
def bind(ctx, loop, thread_axis):
    """Let each iteration of a loop run on one GPU thread (or block of threads) along `thread_axis`, such as
    "threadIdx.x".

    Requires what `parallel` does, or for a "threadIdx" a loop of one reduction whose terms may be regrouped: threads
    then reduce together. No loop around or inside it may be bound to the same axis, unless that is a "threadIdx" and
    the threads fill shared memory together: loops of one extent, the inner one filling what each iteration of the outer
    one would fill alike. A loop that is bound already is bound anew.
    """
    if thread_axis not in THREAD_AXES:
        ctx.refuse("'thread_axis'", f"{thread_axis!r} is no thread axis", f"known: {', '.join(THREAD_AXES)}", [loop])
    for other in ctx.index.loops.values():
        if other is loop or other.thread_binding != thread_axis or thread_axis == "vthread":
            continue  # each loop of virtual threads without a letter is an axis of its own
        for outer, inner in ((loop, other), (other, loop)):
            why = _above(ctx.index, outer, inner) and _why_not_together(ctx.index, outer, inner, thread_axis)
            if why:
                ctx.refuse("'thread_axis'", f"loop {other.loop_var.name}, which is nested with loop "
                           f"{loop.loop_var.name}, is bound to {thread_axis} too, and {why}", "choose another axis",
                           [loop, other])
    if thread_axis.startswith("threadIdx") and _reduces(loop):
        _require_reduction(ctx, loop)
    else:
        require_independent(ctx, loop)
    return Result(ctx.index.rewrite({loop: loop.replace(kind="thread_binding", thread_binding=thread_axis)}))


def _why_not_together(index, outer, inner, thread_axis):
    """None when the threads of `outer` may run `inner` together, its iterations shared among them: else the reason."""
    if not thread_axis.startswith("threadIdx"):
        return "only threads of one block can share work"
    if not (structural_equal(outer.extent, inner.extent) and structural_equal(outer.min, inner.min)):
        return f"their ranges differ: {outer.extent} and {inner.extent}"
    if uses(inner, {outer.loop_var}):
        return f"what loop {inner.loop_var.name} does depends on {outer.loop_var.name}"
    below, around = (collect(loop, Block) for loop in (inner, outer))
    made = {r.buffer for b in around for r in b.writes}
    touched = [r.buffer for b in below for r in b.writes + tuple(r for r in b.reads if r.buffer in made)]
    alone = next((b for b in touched if not b.scope.startswith("shared")), None)
    return alone and f"{alone.name} is not in shared memory but in {alone.scope}"


def _reduces(loop):
    """Whether a loop runs a reduce iterator of a block right below it."""
    return any(reduces(b, loop) for b in blocks_below(loop))


def _require_reduction(ctx, loop):
    """Refuse unless a loop runs one reduction alone, whose iterations may be joined in any order."""
    below = blocks_below(loop)
    if len(below) != 1:
        ctx.refuse("'loop'", f"loop {loop.loop_var.name} runs a reduction around {len(below)} blocks",
                   "separate the blocks first", [loop, *below])
    require_joinable(ctx, loop, below[0], "'loop'")


def _above(index, outer, stmt):
    while stmt is not None and stmt is not outer:
        stmt = index.parent(stmt)
    return stmt is outer


def _with_kind(ctx, loop, kind):
    return Result(ctx.index.rewrite({loop: loop.replace(kind=kind, thread_binding=None)}))
