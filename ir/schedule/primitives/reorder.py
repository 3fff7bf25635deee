"""reorder: exchange nested loops."""
from __future__ import annotations

from ...tir.stmt import For
from ..blocks import uses
from ..independence import require_reorderable
from ..registry import LOOPS, Result, primitive


@primitive(None, loops=LOOPS)
def reorder(ctx, *loops):
    """Nest the given loops in the given order, outermost first; loops between them stay in place.

        for i, j, k: S(i, j, k)
    becomes, with reorder(k, i),
        for k, j, i: S(i, j, k)

    Requires a chain of loops that hold nothing but each other, ranges that do not depend on loops moved inside, and
    blocks below that are data-parallel or commutative reductions over the loops, a lone one with iterators that sums,
    quotients and remainders of the loops bind.
    """
    chain = _chain(ctx, loops)
    rest = iter(loops)
    order = [next(rest) if loop in loops else loop for loop in chain]
    moved = [i for i, (a, b) in enumerate(zip(chain, order)) if a is not b]
    if not moved:
        return Result(ctx.func)
    named = chain
    chain, order = chain[moved[0]:moved[-1] + 1], order[moved[0]:moved[-1] + 1]
    _require_free_ranges(ctx, order)
    require_reorderable(ctx, chain, named)
    body = chain[-1].body
    for loop in reversed(order):
        body = loop.replace(body=body)
    return Result(ctx.index.rewrite({chain[0]: body}))


def _chain(ctx, loops):
    """All loops from the outermost to the innermost of `loops`, outermost first."""
    if not loops:
        ctx.refuse("'loops'", "no loop is given", "give the loops in their new order")
    if len(set(loops)) != len(loops):
        ctx.refuse("'loops'", "a loop is given twice", "", loops)
    outermost = min(loops, key=lambda loop: len(ctx.index.loops_above(loop)))
    chain, stmt = [], outermost
    while isinstance(stmt, For) and not all(loop in chain for loop in loops):
        chain.append(stmt)
        stmt = stmt.body
    lost = next((loop for loop in loops if loop not in chain), None)
    if lost is not None:
        ctx.refuse("'loops'", f"loops {outermost.loop_var.name} and {lost.loop_var.name} are not in one chain of loops "
                   "that hold nothing but each other", "statements between them must be moved first",
                   [outermost, lost])
    return chain


def _require_free_ranges(ctx, order):
    inside = {loop.loop_var for loop in order}
    for loop in order:
        if uses(loop.extent, inside) or uses(loop.min, inside):
            ctx.refuse("'loops'", f"the range of loop {loop.loop_var.name} depends on a loop that would be inside it",
                       "keep it below that loop", [loop])
        inside.discard(loop.loop_var)
