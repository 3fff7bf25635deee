"""Blocks as they come from a tensor expression: one plain loop for each iterator, and nothing else in the nest."""
from __future__ import annotations

from ..expr import is_const_int
from .blocks import is_true, name_of


def require_trivial(ctx, block, argument):
    """The loops around a block, one for each iterator in some order; refuses where a binding is not just its loop."""
    loops, name = ctx.index.loops_above(block), name_of(block)
    if not is_true(block.predicate):
        ctx.refuse(argument, f"block {name} runs only where {block.predicate}", "choose it before its loops are split",
                   [block])
    by_var = {loop.loop_var: loop for loop in loops}
    analyzer = ctx.analyzer_at(block)
    for iv, value in zip(block.block.iter_vars, block.iter_values):
        loop = by_var.pop(value, None)
        if loop is None:
            ctx.refuse(argument, f"iterator {iv.var.name} of block {name} is bound to {value}, not to a loop of its "
                       "own", "choose it before its loops are split or fused", [block])
        plain = is_const_int(loop.min, 0) and is_const_int(iv.dom.min, 0)
        if not plain or not analyzer.can_prove_equal(loop.extent, iv.dom.extent):
            ctx.refuse(argument, f"loop {loop.loop_var.name} does not run over the whole domain of iterator "
                       f"{iv.var.name} of block {name}", "choose it before it is moved", [loop, block])
    if by_var:
        extra = next(iter(by_var.values()))
        ctx.refuse(argument, f"loop {extra.loop_var.name} runs no iterator of block {name}",
                   "choose it before loops are added", [extra, block])
    inner = block
    for loop in reversed(loops):
        if loop.body is not inner:
            ctx.refuse(argument, f"loop {loop.loop_var.name} holds more than block {name}",
                       "choose it before others are moved into its loops", [loop, block])
        inner = loop
    return loops
