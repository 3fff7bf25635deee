"""Reductions over domains that depend on other axes, as a block in a block for each level of dependence."""
from __future__ import annotations

from dataclasses import dataclass

from ..arith import Analyzer
from ..expr import IterVar, Range, Var, as_expr, const, free_vars, substitute
from ..tir.stmt import For, seq


@dataclass(frozen=True)
class Level:
    """The block of one level: what its loops run over, its iterators, and what these are bound to.

    axes: {axis: variable of the iterator}; of axes of the levels around it, the iterator has one value."""

    loops: tuple
    iter_vars: tuple
    values: tuple
    axes: dict


def depth_of(axes):
    """{axis: how many axes one after the other its domain depends on}."""
    depth = {}
    for iv in axes:
        behind = free_vars(iv.dom.min) + free_vars(iv.dom.extent)
        depth[iv.var] = 1 + max((depth[v] for v in behind if v in depth), default=-1)
    return depth


def levels_of(axes):
    """The Levels of axes, the outermost first."""
    depth, levels = depth_of(axes), []
    for n in range(1 + max(depth.values(), default=0)):
        around, loops, iter_vars, values, new = levels[-1].axes if levels else {}, [], [], [], {}
        for iv in axes:
            if depth[iv.var] > n:
                continue
            var = new[iv.var] = Var("v_" + iv.var.name, iv.var.dtype)
            if depth[iv.var] < n:
                dom, value = Range(around[iv.var], const(1, var.dtype)), around[iv.var]
            else:
                dom = Range(*(substitute(as_expr(e, var.dtype), around) for e in (iv.dom.min, iv.dom.extent)))
                value = Var(iv.var.name, var.dtype)
                loops.append((value, dom))
            iter_vars.append(IterVar(dom, var, iv.iter_type))
            values.append(value)
        levels.append(Level(tuple(loops), tuple(iter_vars), tuple(values), new))
    return levels


def nested_reduction(levels, statements, block):
    """The loops and blocks of a reduction.

    statements(variables) gives its (init, update) in terms of {axis: variable}; block(level, body, init, leaf) the
    realize of a block. What it starts with is stored once: by the block of the first level that reduces, or, where that
    may have no iteration, before its loops.
    """
    first = next(n for n, level in enumerate(levels) if any(iv.iter_type == "reduce" for iv in level.iter_vars))
    runs = first == 0 or _surely_runs(levels[:first + 1])
    body = None
    for n in reversed(range(len(levels))):
        init, update = statements(levels[n].axes)
        inside = update if body is None else body
        if n == first - 1 and not runs:
            inside = seq(init, inside)
        body = block(levels[n], inside, init if n == first and runs else None, body is None)
        for var, dom in reversed(levels[n].loops):
            body = For(var, dom.min, dom.extent, "serial", body)
    return body


def _surely_runs(levels):
    """Whether the loops of the last level have an iteration, whatever those around them are at."""
    analyzer = Analyzer()
    for level in levels[:-1]:
        for iv in level.iter_vars:
            analyzer.bind(iv.var, iv.dom)
    return all(analyzer.can_prove(dom.extent >= 1) for _, dom in levels[-1].loops)
