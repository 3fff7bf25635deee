"""What must hold again after a rewrite around a block."""
from __future__ import annotations

from .blocks import buffers_of, uses
from .dependence import require_inputs_ready
from .independence import require_distinct, require_independent, require_init_first


def require_still_legal(ctx, realize, argument):
    """Check what a rewrite may have broken around a block, in the context of the new function.

    Its inputs are complete where it reads them, so are the inputs of those who read it; a reduction adds each
    term once, after its init; the parallel and vectorized loops around it still qualify.
    """
    scope, index = ctx.scope(realize, argument), ctx.index
    require_inputs_ready(ctx, realize, argument)
    for buffer in buffers_of(realize.block.writes):
        for reader in index.readers(buffer, scope):
            if reader is not realize:
                require_inputs_ready(ctx, reader, argument)
    loops = index.loops_above(realize)
    if realize.block.init is not None:
        values = tuple(v for iv, v in zip(realize.block.iter_vars, realize.iter_values) if iv.iter_type == "reduce")
        reducing = [loop for loop in loops if uses(values, {loop.loop_var})]
        if reducing:
            require_distinct(ctx, reducing[0], realize, argument)
            require_init_first(ctx, reducing[0], realize, argument)
    require_kinds(ctx, loops, argument)


def require_kinds(ctx, loops, argument):
    """Refuse unless those of the loops (of this or an earlier version of the function) that run at once still may.

    Moving a block out of a loop can break this too: what lived within a turn may then be read from outside.
    """
    for old in loops:
        loop = ctx.index.loops.get(old.loop_var)
        if loop is not None and loop.kind in ("parallel", "vectorized", "thread_binding"):
            require_independent(ctx, loop, argument)


def require_rectangular(ctx, argument, loops):
    """Refuse when the range of one of `loops` depends on another of them."""
    variables = {loop.loop_var for loop in loops}
    for loop in loops:
        if uses((loop.min, loop.extent), variables):
            ctx.refuse(argument, f"the range of loop {loop.loop_var.name} depends on another loop", "", [loop])
