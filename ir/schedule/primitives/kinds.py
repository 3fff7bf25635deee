"""parallel, vectorize, unroll and bind: how a loop runs."""
from __future__ import annotations

from ...expr import IntImm
from ..independence import require_independent
from ..registry import LOOP, STR, Result, primitive

THREAD_AXES = (*(f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx", "vthread") for axis in "xyz"), "vthread")


@primitive(None, loop=LOOP)
def parallel(ctx, loop):
    """Let the turns of a loop run on several threads.

    Requires turns that do not depend on each other: the loop runs only spatial iterators, and each turn writes other
    elements, or buffers that live within the turn.
    """
    require_independent(ctx, loop)
    return _with_kind(ctx, loop, "parallel")


@primitive(None, loop=LOOP)
def vectorize(ctx, loop):
    """Let the turns of a loop run as lanes of vector operations.

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
    """Let each turn of a loop run on one GPU thread (or block of threads) along `thread_axis`, such as "threadIdx.x".

    Requires what `parallel` does, and no loop around or inside it that is bound to the same axis.
    """
    if thread_axis not in THREAD_AXES:
        ctx.refuse("'thread_axis'", f"{thread_axis!r} is no thread axis", f"known: {', '.join(THREAD_AXES)}", [loop])
    for other in ctx.index.loops.values():
        if other is not loop and other.thread_binding == thread_axis and _nested(ctx.index, loop, other):
            ctx.refuse("'thread_axis'", f"loop {other.loop_var.name}, which is nested with loop {loop.loop_var.name}, "
                       f"is bound to {thread_axis} too", "choose another axis", [loop, other])
    _require_unbound(ctx, loop)
    require_independent(ctx, loop)
    return Result(ctx.index.rewrite({loop: loop.replace(kind="thread_binding", thread_binding=thread_axis)}))


def _nested(index, a, b):
    """Whether one of two loops is around the other, blocks between them included."""
    return any(_above(index, x, y) for x, y in ((a, b), (b, a)))


def _above(index, outer, stmt):
    while stmt is not None and stmt is not outer:
        stmt = index.parent(stmt)
    return stmt is outer


def _with_kind(ctx, loop, kind):
    _require_unbound(ctx, loop)
    return Result(ctx.index.rewrite({loop: loop.replace(kind=kind)}))


def _require_unbound(ctx, loop):
    if loop.thread_binding is not None:
        ctx.refuse("'loop'", f"loop {loop.loop_var.name} is bound to {loop.thread_binding}", "", [loop])
