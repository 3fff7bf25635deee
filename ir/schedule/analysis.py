"""What schedules ask of programs before they tile and tensorize; names follow tvm.tir.schedule.analysis."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..arith import Analyzer, IterMapLevel, IterSumExpr, detect_iter_map
from ..expr import IntImm, Range, Var, is_const_int
from ..node import collect
from ..tir.index_map import IndexMap
from ..tir.stmt import Block, BlockRealize, BufferLoad, BufferStore, For
from .blocks import uses
from .signature import domain_analyzer


@dataclass(frozen=True)
class TensorizeInfo:
    """loop_map: {StmtSRef of a loop: the loop of the description that it has to run as}; desc_loop_indexer: {loop of
    the description: its position}; block_iter_paddings: what each iterator of the block has to be a multiple of, or
    None where each is already."""

    loop_map: dict
    desc_loop_indexer: dict
    block_iter_paddings: list | None = None


@dataclass(frozen=True)
class AutoTensorizeMappingInfo:
    """mappings: IndexMaps from a block's iterators to those that it would have as the description."""

    mappings: list


def has_block(sch, block_name):
    """Whether the module of a schedule has a block of the name."""
    return any(block.name_hint == block_name for block in collect(tuple(sch.mod.functions.values()), Block))


def is_output_block(sch, block):
    """Whether a block writes a buffer that the block around it does not allocate."""
    ctx, realize = _place(sch, block)
    scope = ctx.index.scope(realize)
    return any(ctx.index.owner(r.buffer) is not scope for r in realize.block.writes)


def _place(sch, block):
    """(Context, BlockRealize) of a block, given as its handle or name."""
    block = sch.get_block(block) if isinstance(block, str) else block
    ctx = sch.context("analysis", {"block": block})
    return ctx, ctx.resolve(block)


def get_tensorize_loop_mapping(sch, block, desc_func, allow_padding=False):
    """The TensorizeInfo of a block and the PrimFunc that describes an intrinsic, or None where they do not fit.

    Iterators fit from the last to the first by their types, spatial or reduce, and loops to iterators; the extent of a
    loop has to be a multiple of that of the description, unless allow_padding says that the block may be padded. That
    the bodies are the same is not looked at: tensorize does.
    """
    desc_loops, desc = _described(desc_func)
    realize, loops = _with_loops(sch, block)
    if not all(is_const_int(loop.min, 0) for loop in loops):
        return None
    free, found, paddings = list(range(len(realize.iter_values))), {}, {}
    for want, value in reversed(list(zip(desc.block.iter_vars, desc.iter_values))):
        desc_loop = _loop_of(value, desc_loops, ())
        place = next((n for n in reversed(free) if realize.block.iter_vars[n].iter_type == want.iter_type), None)
        if desc_loop is None or place is None:
            return None
        free = free[:place]
        loop = _loop_of(realize.iter_values[place], loops, found)
        if loop is None or not isinstance(loop.extent, IntImm) or not isinstance(desc_loop.extent, IntImm):
            return None
        if loop.extent.value % desc_loop.extent.value:
            if not allow_padding or realize.iter_values[place] is not loop.loop_var:
                return None
            paddings[place] = desc_loop.extent.value
        found[loop] = desc_loop
    padded = [paddings.get(n, 1) for n in range(len(realize.iter_values))] if paddings else None
    return TensorizeInfo({sch.get_sref(loop): want for loop, want in found.items()},
                         {loop: n for n, loop in enumerate(desc_loops)}, padded)


def _described(desc_func):
    """(the loops, the BlockRealize inside) of a description, whose root block holds one nest."""
    loops = collect(desc_func.body, For)[::-1]
    return loops, next(r for r in collect(desc_func.body, BlockRealize) if r.block.iter_vars)


def _with_loops(sch, block):
    """(BlockRealize of a block, the loops that hold it alone, outermost first)."""
    ctx, realize = _place(sch, block)
    loops, inner = [], realize
    while isinstance(ctx.index.parent(inner), For):
        inner = ctx.index.parent(inner)
        loops.insert(0, inner)
    return realize, loops


def _loop_of(value, loops, taken):
    """The loop that a value is the variable of, plus what no loop changes; None where there is none."""
    variables = {loop.loop_var for loop in loops}
    for loop in loops:
        if loop not in taken and not uses(Analyzer().simplify(value - loop.loop_var), variables):
            return loop
    return None


def get_auto_tensorize_mapping_info(sch, block, desc_func):
    """The AutoTensorizeMappingInfo of a block and a description, or None where they compute other things.

    Iterators that appear in the indices of the same buffers as one of the description are one after
    transform_block_layout; those that appear in all of them, and are none of the description's, stay in front.
    """
    _, desc = _described(desc_func)
    block = _place(sch, block)[1].block
    wanted, have = _accesses(desc.block), _accesses(block)
    if [(how, b.dtype) for how, b, _ in wanted] != [(how, b.dtype) for how, b, _ in have]:
        return None
    groups = {(_pattern(iv, wanted), iv.iter_type): [] for iv in desc.block.iter_vars}
    if len(groups) < len(desc.block.iter_vars):
        return None
    front = []
    for iv in block.iter_vars:
        key = _pattern(iv, have), iv.iter_type
        if key not in groups and not all(key[0]):
            return None
        groups.get(key, front).append(iv)
    if not all(groups.values()):
        return None
    indices = [iv.var for iv in front] + [_fused(group) for group in groups.values()]
    return AutoTensorizeMappingInfo([IndexMap(tuple(iv.var for iv in block.iter_vars), tuple(indices))])


def _accesses(block):
    """[(what a block does, buffer, simplified indices)], what it stores first. Iterators of one value stay."""
    simplify = domain_analyzer(block.replace(iter_vars=tuple(
        iv for iv in block.iter_vars if not is_const_int(iv.dom.extent, 1)))).simplify
    return [(type(a), a.buffer, tuple(map(simplify, a.indices)))
            for a in (*collect(block.body, BufferStore), *collect(block.body, BufferLoad))]


def _pattern(iv, accesses):
    return tuple(uses(indices, {iv.var}) for _, _, indices in accesses)


def _fused(iters):
    total = iters[0].var
    for iv in iters[1:]:
        total = total * iv.dom.extent + iv.var
    return total


def suggest_index_map(buffer, indices, loops, predicate):
    """The IndexMap that lays out a buffer in the order in which loops touch it at `indices`, or None where these are
    not all of its elements by splits and fusions of the loops."""
    extents = [extent.value if isinstance(extent, IntImm) else None for extent in buffer.shape]
    if None in extents:
        return None
    flat = _row_major(indices, extents)
    ranges = {loop.loop_var: Range(loop.min, loop.extent) for loop in loops}
    found = detect_iter_map([flat], ranges, predicate, check_level=IterMapLevel.NoCheck)
    digits = [_digit(split) for split in _splits(found.indices)]
    if None in digits or not _are_all(digits, prod(extents)):
        return None
    variables, analyzer = [Var(f"i{n}", i.dtype) for n, i in enumerate(indices)], Analyzer()
    for v, extent in zip(variables, extents):
        analyzer.bind(v, Range.from_min_extent(0, extent))
    place, position = _row_major(variables, extents), {loop.loop_var: n for n, loop in enumerate(loops)}
    order = sorted(digits, key=lambda d: (position[d[3]], -d[1]))
    return IndexMap(tuple(variables), tuple(analyzer.simplify(place // s % e) for s, _, e, _ in order))


def _are_all(digits, count):
    """Whether each number below `count` is a sum of digits times their scales, in one way."""
    size = 1
    for scale, _, extent, _ in reversed(digits):
        if scale != size:
            return False
        size *= extent
    return size == count


def _row_major(indices, extents):
    total = indices[0]
    for i, extent in zip(indices[1:], extents[1:]):
        total = total * extent + i
    return total


def _splits(sums):
    """The IterSplitExprs of loops in a list of one IterSumExpr, the largest scale first."""
    args = sums[0].args if sums else ()
    inner = args[0].source.source if len(args) == 1 else None
    if isinstance(inner, IterSumExpr) and is_const_int(args[0].scale, 1) and is_const_int(args[0].lower_factor, 1):
        return _splits([inner])
    return args


def _digit(split):
    """(scale, lower factor, extent, variable) of an IterSplitExpr of one loop; None for another."""
    numbers = split.scale, split.lower_factor, split.extent
    if not isinstance(split.source.source, Var) or not all(isinstance(n, IntImm) for n in numbers):
        return None
    return *(n.value for n in numbers), split.source.source


__all__ = ["AutoTensorizeMappingInfo", "TensorizeInfo", "get_auto_tensorize_mapping_info", "get_tensorize_loop_mapping",
           "has_block", "is_output_block", "suggest_index_map"]
