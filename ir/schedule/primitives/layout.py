"""transform_layout and reorder_block_iter_var: the same computation, its elements or iterators in another order."""
from __future__ import annotations

from bisect import bisect_left

from ...arith import Analyzer, affine_domains, eval_range
from ...expr import IterVar, Not, Range, Var, const, is_const_int, logical_or, substitute
from ...node import Mutator
from ...tir.buffer import decl_buffer
from ...tir.index_map import IndexMap
from ...tir.region import access_regions
from ...tir.stmt import Block, BlockRealize, BufferRegion, BufferStore, IfThenElse, seq
from ..blocks import name_of
from ..legality import require_kinds
from ..nest import build_nest, removable
from ..regions import whole
from ..registry import BLOCK, BOOL, BUFFER_REF, INDEX_MAP, INTS, PAD_VALUE, Result, primitive
from ..signature import choose_ref
from .inline import solve
from .storage import unaligned


@primitive(None, block=BLOCK, new_order=INTS)
def reorder_block_iter_var(ctx, block, new_order):
    """List a block's iterators in another order: position i takes what was at new_order[i].

    Requires each position once.
    """
    count = len(block.block.iter_vars)
    if sorted(new_order) != list(range(count)):
        ctx.refuse("'new_order'", f"{list(new_order)} is not an order of the {count} iterators of block "
                   f"{name_of(block)}", "give each position once", [block])
    new = block.block.replace(iter_vars=tuple(block.block.iter_vars[i] for i in new_order))
    values = tuple(block.iter_values[i] for i in new_order)
    return Result(ctx.index.rewrite({block: block.replace(iter_values=values, block=new)}))


@primitive(None, block=BLOCK, buffer=BUFFER_REF, index_map=INDEX_MAP, pad_value=PAD_VALUE,
           assume_injective_transform=BOOL)
def transform_layout(ctx, block, buffer, index_map, pad_value=None, *, assume_injective_transform=False):
    """Store a buffer that a block reads or writes in another layout; every access in the function follows.

        B[i, j] with B of 14 x 8
    becomes, with index_map=lambda i, j: (i // 4, j, i % 4) and pad_value=0.0,
        B[i // 4, j, i % 4] with B of 4 x 8 x 4, of which a new block B_pad clears what no B[i, j] fills

    buffer: its name, ("read", n) or ("write", n). Requires a map proved to give each element a place of its own, and a
    pad_value when places are left over. A parameter, of constant shape and without places left over, comes from the
    caller in the new layout then. assume_injective_transform is known for the sake of scripts written for TVM and
    changes nothing: the map is always proved.
    """
    old = choose_ref(ctx, block, buffer, "'buffer'")
    given = ctx.index.owner(old) is None
    if given and not all(map(is_const_int, old.shape)):
        ctx.refuse("'buffer'", f"buffer {old.name} is a parameter, whose shape {_by(old.shape)} is the caller's",
                   "use cache_read or cache_write first", [block])
    index_map = index_map_of(ctx, index_map, len(old.shape))
    layout = _Layout(ctx, old, index_map)
    if layout.padded and given:
        ctx.refuse("'buffer'", f"buffer {old.name} is a parameter, and the map makes it {_by(layout.new.shape)} for "
                   f"{_by(old.shape)} elements", "use cache_read or cache_write first", [block])
    if layout.padded and pad_value is None:
        ctx.refuse("'pad_value'", f"the map makes {old.name} {_by(layout.new.shape)} for {_by(old.shape)} elements",
                   "say with pad_value what the others hold", [block])
    params = {handle: layout.new if b is old else b for handle, b in ctx.func.buffer_map.items()}
    func = ctx.func.replace(body=_Move(ctx, layout).visit(ctx.func.body), buffer_map=params)
    after = ctx.with_func(func)
    if layout.padded:
        after = after.with_func(_with_pad(after, layout, pad_value))
    require_kinds(after, list(after.index.loops.values()), "'index_map'")
    return Result(after.func, recorded={"index_map": index_map})


def index_map_of(ctx, index_map, ndim):
    """The IndexMap that was given, or the one of a function of `ndim` indices."""
    try:
        return index_map if isinstance(index_map, IndexMap) else IndexMap.from_func(index_map, ndim)
    except TypeError as why:
        return ctx.refuse("'index_map'", str(why), "give a function from indices to a list of indices")


def _by(shape):
    return " x ".join(map(str, shape))


class _Layout:
    """The new buffer, and where an element of the old one lies in it."""

    def __init__(self, ctx, old, index_map):
        if len(index_map.initial_indices) != len(old.shape):
            ctx.refuse("'index_map'", f"it takes {len(index_map.initial_indices)} indices, buffer {old.name} has "
                       f"{len(old.shape)}", "")
        if old.strides or not (old.elem_offset is None or is_const_int(old.elem_offset, 0)):
            ctx.refuse("'buffer'", f"buffer {old.name} has {'strides' if old.strides else 'an offset'}",
                       "only compact buffers can change layout")
        self.old, self.map = old, index_map
        variables, ranges = index_map.ranges(old.shape)
        final = index_map.map_indices(variables)
        found = affine_domains(final, ranges, bijective=True)
        self.padded = not (found and all(is_const_int(r.min, 0) for r in found.domains))
        self.outside = None  # for indices of the new buffer: whether no element lies there
        if self.padded:
            shape = self._padded_shape(ctx, variables, ranges, final)
        else:
            shape = [r.extent for r in found.domains]
        self.new = decl_buffer(shape, old.dtype, old.name, old.scope, data_alignment=old.data_alignment)

    def _padded_shape(self, ctx, variables, ranges, final):
        """The extents of a map that is one to one but not onto; refuses when that is not proved."""
        ends = [eval_range(e, ranges) for e in final]
        if any(e is None or not Analyzer().can_prove(e[0] >= 0) for e in ends):
            ctx.refuse("'index_map'", "the ranges of its indices are not known or begin below 0", "")
        shape = [high + 1 for _, high in ends]
        places = [Var(f"p{d}", e.dtype) for d, e in enumerate(final)]
        values = solve(ranges, final, places)
        analyzer = Analyzer()
        for v, r in ranges.items():
            analyzer.bind(v, r)
        for v in variables:
            back = values.get(v)
            if back is None or not analyzer.can_prove_equal(substitute(back, dict(zip(places, final))), v):
                ctx.refuse("'index_map'", f"it is not proved to keep elements of different {v.name} apart",
                           "use permutations, v // c together with v % c, or v * c + w")
        conditions = const(False)
        analyzer = Analyzer()
        for p, e in zip(places, shape):
            analyzer.bind(p, Range(const(0, p.dtype), e))
        for v in variables:
            for inside, outside in ((values[v] >= 0, values[v] < 0),
                                    (values[v] < ranges[v].extent, values[v] >= ranges[v].extent)):
                if not analyzer.can_prove(inside):
                    conditions = logical_or(conditions, analyzer.simplify(outside))
        for p, e in zip(places, final):
            again = substitute(e, values)
            if not analyzer.can_prove_equal(again, p):
                ctx.refuse("'index_map'", "the places that stay empty are not understood",
                           "use permutations, v // c together with v % c, or v * c + w")
        self.outside = places, conditions
        return [Analyzer().simplify(e) for e in shape]


class _Move(Mutator):
    """Rewrites accesses, signatures and the allocation."""

    def __init__(self, ctx, layout):
        self.ctx, self.layout = ctx, layout

    def _access(self, access):
        access = self.generic_visit(access)
        if access.buffer is not self.layout.old:
            return access
        indices = tuple(Analyzer().simplify(i) for i in self.layout.map.map_indices(access.indices))
        return access.replace(buffer=self.layout.new, indices=indices)

    visit_BufferLoad = visit_BufferStore = _access

    def visit_Block(self, block):
        old, new = self.layout.old, self.layout.new
        if any(m.source.buffer is old for m in block.match_buffers):
            self.ctx.refuse("'buffer'", f"block {block.name_hint} matches a region of {old.name} with a buffer",
                            "transform the layout before tensorize")
        body, init = self.visit(block.body), self.visit(block.init)
        changes = {"body": body, "init": init,
                   "alloc_buffers": tuple(new if b is old else b for b in block.alloc_buffers)}
        if any(r.buffer is old for r in block.writes):
            changes["annotations"] = unaligned(block.annotations)
        for field in ("reads", "writes"):
            changes[field] = tuple(self._region(seq(init, body), field, r) for r in getattr(block, field))
        return block.replace(**changes)

    def _region(self, body, field, region):
        if region.buffer is not self.layout.old:
            return region
        if all(is_const_int(r.extent, 1) for r in region.region):
            points = self.layout.map.map_indices([r.min for r in region.region])
            return BufferRegion(self.layout.new, tuple(Range(Analyzer().simplify(p), const(1, p.dtype))
                                                       for p in points))
        found = access_regions(body)[0 if field == "reads" else 1]
        return next((r for r in found if r.buffer is self.layout.new),
                    BufferRegion(self.layout.new, tuple(map(whole, self.layout.new.shape))))


def _with_pad(ctx, layout, pad_value):
    """The function with a block that fills the places of the new buffer where no element lies."""
    new, (places, outside) = layout.new, layout.outside
    writers = [b for b in ctx.index.blocks.values() if any(r.buffer is new for r in b.block.writes)]
    scope = ctx.index.owner(new)
    writers = [b for b in writers if ctx.index.scope(b) is scope]
    iters = tuple(IterVar(whole(e), Var(f"v{d}", e.dtype), "spatial") for d, e in enumerate(new.shape))
    indices = tuple(iv.var for iv in iters)
    store = BufferStore(new, const(pad_value, new.dtype), indices)
    outside = substitute(outside, dict(zip(places, indices)))
    body = IfThenElse(outside, store)
    point = tuple(Range(i, const(1, i.dtype)) for i in indices)
    block = Block(iters, (), (BufferRegion(new, point),), ctx.new_block_name(new.name + "_pad"), (), (), {}, None, body)
    nest = build_nest(BlockRealize(indices, const(True), block), _first_places(iters, outside), Analyzer())
    if not writers:
        ctx.refuse("'buffer'", f"no block directly inside block {name_of(scope)} writes {new.name}", "")
    first = removable(ctx.index, writers[0])
    return ctx.index.rewrite({first: seq(nest, first)})


def _first_places(iters, outside):
    """{iterator: Range} without the places before the first one for which `outside` may hold."""
    analyzer, boxes = Analyzer(), {}
    for iv in iters:
        analyzer.bind(iv.var, iv.dom)
    for iv in iters:
        if is_const_int(iv.dom.extent):
            end, dtype = iv.dom.extent.value, iv.var.dtype
            first = bisect_left(range(1, end), True, key=lambda n: not _never(
                outside, iv.var, Range(const(0, dtype), const(n, dtype)), analyzer))
            boxes[iv.var] = Range(const(first, dtype), const(end - first, dtype))
            analyzer.bind(iv.var, boxes[iv.var], allow_override=True)
    return boxes


def _never(condition, var, box, analyzer):
    """Whether a condition is proved to fail throughout a box."""
    analyzer.bind(var, box, allow_override=True)
    return analyzer.can_prove(Not(condition))
