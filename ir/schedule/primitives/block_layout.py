"""transform_block_layout: other iterators for the same computation."""
from __future__ import annotations

from ...expr import IterVar, Range, Var, const, free_vars, is_const_int
from ...node import Mutator
from ...tir.stmt import BlockRealize, For
from ..blocks import name_of, require_pure, uses
from ..legality import require_still_legal
from ..registry import BLOCK, INDEX_MAP, Result, primitive
from ..signature import by_name
from ..trivial import require_trivial
from .layout import index_map_of


@primitive(None, block=BLOCK, index_map=INDEX_MAP)
def transform_block_layout(ctx, block, index_map):
    """Give a block the iterators that a map makes of its own, and a loop for each.

        for i, j in grid(4, 6): B[i, j] = f(i, j)
    becomes, with index_map=lambda i, j: (i * 6 + j,),
        for ax0 in range(24): B[ax0 // 6, ax0 % 6] = f(ax0 // 6, ax0 % 6)

    Requires plain serial loops that each run one iterator, a complete or reduction block, and a map proved to be one
    to one onto a box from 0, whose indices do not mix spatial and reduce iterators.
    """
    scope = ctx.scope(block, "'block'")
    require_pure(ctx, scope, block, "'block'")
    loops = require_trivial(ctx, block, "'block'")
    for loop in loops:
        if loop.kind != "serial" or loop.annotations:
            ctx.refuse("'block'", f"loop {loop.loop_var.name} is {loop.kind}"
                       f"{' with annotations' if loop.annotations else ''}, which would be lost",
                       "transform first, then say how loops run", [loop])
    old = block.block.iter_vars
    index_map = index_map_of(ctx, index_map, len(old))
    if len(index_map.initial_indices) != len(old):
        ctx.refuse("'index_map'", f"it takes {len(index_map.initial_indices)} indices, block {name_of(block)} has "
                   f"{len(old)} iterators", "name each of them once", [block])
    extents = [iv.dom.extent for iv in old]
    try:
        back, ranges = index_map.inverse(extents), index_map.map_ranges(extents)
    except ValueError as why:
        ctx.refuse("'index_map'", str(why), "it must be one to one onto a box: permutations, splits that divide, "
                   "fusions", [block])
    if not all(is_const_int(r.min, 0) for r in ranges):
        ctx.refuse("'index_map'", f"its indices run over {', '.join(f'[{r.min}, {r.min + r.extent})' for r in ranges)}",
                   "they must begin at 0", [block])
    final = index_map.map_indices([iv.var for iv in old])
    iters = tuple(IterVar(r, Var(_name_of(e, n), e.dtype), _type_of(ctx, block, e))
                  for n, (r, e) in enumerate(zip(ranges, final)))
    values = dict(zip((iv.var for iv in old), back.map_indices([iv.var for iv in iters])))
    values.update((e, iv.var) for iv, e in zip(iters, final) if isinstance(e, Var))  # of one value, too
    inside = _Renamed(values, by_name(block.block.replace(iter_vars=iters)))
    realize = BlockRealize(tuple(Var(f"ax{n}", iv.var.dtype) for n, iv in enumerate(iters)), const(True),
                           inside.visit(block.block.replace(iter_vars=())).replace(iter_vars=iters))
    nest = realize
    for var, iv in reversed(list(zip(realize.iter_values, iters))):
        nest = For(var, iv.dom.min, iv.dom.extent, "serial", nest)
    func = ctx.index.rewrite({loops[0] if loops else block: nest})
    after = ctx.with_func(func)
    require_still_legal(after, after.index.blocks[name_of(block)], "'index_map'")
    return Result(func, recorded={"index_map": index_map})


def _name_of(index, n):
    """The name of the only iterator in an index that is it, those of several joined: v_y * 7 + v_x is v_y_x."""
    first, *rest = [v.name for v in free_vars(index)] or [""]
    return "_".join((first, *(name.removeprefix("v_") for name in rest))) if rest or isinstance(index, Var) else f"v{n}"


def _type_of(ctx, block, index):
    types = {iv.iter_type for iv in block.block.iter_vars if uses(index, {iv.var})}
    if len(types) > 1:
        ctx.refuse("'index_map'", f"its index {index} mixes {' and '.join(sorted(types))} iterators of block "
                   f"{name_of(block)}", "map them apart", [block])
    return types.pop() if types else "spatial"


class _Renamed(Mutator):
    """Puts expressions for iterators, simplified where these made up an index or a bound."""

    def __init__(self, values, analyzer):
        self.values, self.analyzer = values, analyzer

    def visit_Var(self, v):
        return self.values.get(v, v)

    def _indices(self, access):
        access = self.generic_visit(access)
        return access.replace(indices=tuple(map(self.analyzer.simplify, access.indices)))

    visit_BufferLoad = visit_BufferStore = _indices

    def visit_Range(self, r):
        r = self.generic_visit(r)
        return Range(self.analyzer.simplify(r.min), self.analyzer.simplify(r.extent))
