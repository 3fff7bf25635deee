"""parallel, vectorize and unroll: how a loop runs."""
from __future__ import annotations

from ...expr import IntImm
from ..independence import require_independent
from ..registry import LOOP, Result, primitive


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


def _with_kind(ctx, loop, kind):
    if loop.thread_binding is not None:
        ctx.refuse("'loop'", f"loop {loop.loop_var.name} is bound to {loop.thread_binding}", "", [loop])
    return Result(ctx.index.rewrite({loop: loop.replace(kind=kind)}))
