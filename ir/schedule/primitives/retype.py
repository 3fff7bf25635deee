"""unsafe_set_dtype, annotate_buffer_access, unsafe_hide_buffer_access: what a buffer holds, what a block says of it."""
from __future__ import annotations

from ...arith import Analyzer
from ...expr import Range, as_expr, cast, const
from ...node import Mutator, collect
from ...tir.index_map import IndexMap
from ...tir.region import access_regions
from ...tir.signatures import always_inside
from ...tir.stmt import BufferLoad, BufferRegion, BufferStore, seq
from ..blocks import name_of
from ..registry import BLOCK, BUFFER, INDEX_MAP, INTS, SIDE, STR, Result, primitive
from ..signature import choose, domain_analyzer
from .layout import index_map_of


@primitive(None, block=BLOCK, buffer_index=BUFFER, dtype=STR)
def unsafe_set_dtype(ctx, block, buffer_index, dtype):
    """Let a buffer that a block writes (by position among its writes) hold numbers of another type: what is stored is
    cast to it, what is loaded is cast back.

    The loops and blocks stay; results are those of the new type's precision and range, which is why it is called
    unsafe. Requires a buffer that the function allocates, and loads and stores of it alone.
    """
    old = choose(ctx, block, buffer_index, "writes", "'buffer_index'")
    if ctx.index.owner(old) is None:
        ctx.refuse("'buffer_index'", f"buffer {old.name} is a parameter, whose type is the caller's",
                   "use cache_write to compute it in memory of its own first", [block])
    try:
        new = old.replace(dtype=const(0, dtype).dtype)
    except (TypeError, ValueError) as why:
        ctx.refuse("'dtype'", f"{dtype!r} is no type of numbers: {why}", "", [block])
    return Result(ctx.func.replace(body=_Retype(ctx, old, new).visit(ctx.func.body)))


class _Retype(Mutator):
    """Puts a buffer of another dtype in the place of one; buffers matched with parts of it follow."""

    def __init__(self, ctx, old, new):
        self.ctx, self.dtype, self.new = ctx, new.dtype, {old: new}

    def visit_BufferLoad(self, load):
        load = self.generic_visit(load)
        new = self.new.get(load.buffer)
        return load if new is None else cast(load.replace(buffer=new), load.buffer.dtype)

    def visit_BufferStore(self, store):
        store = self.generic_visit(store)
        new = self.new.get(store.buffer)
        return store if new is None else store.replace(buffer=new, value=cast(store.value, self.dtype))

    def visit_Call(self, call):
        for buffer in self.new:
            if any(buffer.data is not None and arg is buffer.data for arg in call.args):
                self.ctx.refuse("'buffer_index'", f"a call takes the address of {buffer.name}", "")
        return self.generic_visit(call)

    def visit_Block(self, block):
        matched = []
        for match in block.match_buffers:
            source = self.new.get(match.source.buffer)
            if source is not None:
                self.new[match.buffer] = match.buffer.replace(dtype=self.dtype)
                match = match.replace(buffer=self.new[match.buffer], source=match.source.replace(buffer=source))
            matched.append(match)
        regions = {f: tuple(r.replace(buffer=self.new.get(r.buffer, r.buffer)) for r in getattr(block, f))
                   for f in ("reads", "writes")}
        return block.replace(
            **regions, match_buffers=tuple(matched), init=None if block.init is None else self.visit(block.init),
            body=self.visit(block.body), alloc_buffers=tuple(self.new.get(b, b) for b in block.alloc_buffers))


@primitive(None, block=BLOCK, buffer_index=BUFFER, buf_type=SIDE, gen_new_ranges=INDEX_MAP)
def annotate_buffer_access(ctx, block, buffer_index, buf_type, gen_new_ranges):
    """Say what a block reads or writes of a buffer, where that cannot be told from its indices.

    gen_new_ranges: from the block's iterators to an index or (begin, end) of each dimension; (block, 0, "read",
    lambda h, w: ((2 * h - 1, 2 * h + 2), w)). Its annotation explicit_read_region (or explicit_write_region) lists the
    buffer. Requires a region that is proved to hold what is accessed, if need be by trying each instance of the block.
    """
    kind = buf_type + "s"
    buffer = choose(ctx, block, buffer_index, kind, "'buffer_index'")
    regions = list(getattr(block.block, kind))
    position = next(n for n, r in enumerate(regions) if r.buffer is buffer)
    iters = tuple(iv.var for iv in block.block.iter_vars)
    index_map, bounds = _bounds(ctx, block, buffer, gen_new_ranges)
    simplify = Analyzer().simplify
    ranges = [Range(simplify(low), simplify(high - low)) for low, high in bounds(iters)]
    for access in collect((block.block.init, block.block.body), BufferLoad if buf_type == "read" else BufferStore):
        if access.buffer is buffer:
            for index, have in zip(access.indices, ranges):
                _require_inside(ctx, block, buffer, index, have)
    regions[position] = BufferRegion(buffer, tuple(ranges))
    key = f"explicit_{buf_type}_region"
    listed = (*(p for p in block.block.annotations.get(key, ()) if p != position), position)
    inner = block.block.replace(**{kind: tuple(regions)}, annotations={**block.block.annotations, key: listed})
    return Result(ctx.index.rewrite({block: block.replace(block=inner)}), recorded={"gen_new_ranges": index_map})


@primitive(None, block=BLOCK, buf_type=SIDE, buf_index_array=INTS)
def unsafe_hide_buffer_access(ctx, block, buf_type, buf_index_array):
    """Leave regions, by their positions, out of what a block says that it reads or writes.

    Schedules trust what blocks say, so that only what the body does not touch in this way can be left out: regions that
    are written by hand, or what an earlier step left behind.
    """
    kind = buf_type + "s"
    regions = getattr(block.block, kind)
    touched = {
        r.buffer for r in access_regions(seq(block.block.init, block.block.body))[0 if buf_type == "read" else 1]}
    for n in buf_index_array:
        if not 0 <= n < len(regions):
            ctx.refuse("'buf_index_array'", f"{n} is not a position among the {kind} of block {name_of(block)}",
                       f"it has {len(regions)}: {', '.join(r.buffer.name for r in regions) or 'none'}", [block])
        if regions[n].buffer in touched:
            ctx.refuse("'buf_index_array'", f"block {name_of(block)} {buf_type}s {regions[n].buffer.name}",
                       "only what its body leaves alone can be hidden; tensorize compares bodies, not regions", [block])
    kept = tuple(r for n, r in enumerate(regions) if n not in buf_index_array)
    return Result(ctx.index.rewrite({block: block.replace(block=block.block.replace(**{kind: kept}))}))


def _bounds(ctx, block, buffer, given):
    """(IndexMap to begin and end of each dimension, a function from iterators to [(begin, end)])."""
    if not isinstance(given, IndexMap):
        ask = given

        def given(*iters):
            found = ask(*iters)
            found = found if isinstance(found, (list, tuple)) else [found]
            if len(found) == 2 * len(buffer.shape) and not any(isinstance(r, (list, tuple)) for r in found):
                return list(found)  # as traces print it
            pairs = [r if isinstance(r, (list, tuple)) else (r, as_expr(r) + 1) for r in found]
            return [e for low, high in pairs for e in (low, high)]
    try:
        made = index_map_of(ctx, given, len(block.block.iter_vars))
    except ValueError as why:
        ctx.refuse("'gen_new_ranges'", str(why), "an index or (begin, end) of each dimension", [block])
    if (len(made.initial_indices), len(made.final_indices)) != (len(block.block.iter_vars), 2 * len(buffer.shape)):
        ctx.refuse("'gen_new_ranges'", f"it is of {len(made.initial_indices)} iterators and "
                   f"{len(made.final_indices) // 2} dimensions; block {name_of(block)} has "
                   f"{len(block.block.iter_vars)}, {buffer.name} {len(buffer.shape)}", "", [block])

    def bounds(iters):
        ends = made.map_indices(iters)
        return list(zip(ends[::2], ends[1::2]))
    return made, bounds


def _require_inside(ctx, block, buffer, index, have):
    """Refuse unless an index of a block's access is proved to lie in a Range, whatever the iterators are."""
    analyzer = domain_analyzer(block.block)
    if analyzer.can_prove(index >= have.min) and analyzer.can_prove(index < have.min + have.extent):
        return
    if always_inside(block.block.iter_vars, index, have):
        return
    ctx.refuse("'gen_new_ranges'", f"block {name_of(block)} is not proved to access {buffer.name} at {index} within "
               f"[{have.min}, {have.min + have.extent})", "give a larger region", [block])
