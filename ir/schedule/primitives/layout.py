"""transform_layout and reorder_block_iter_var: the same computation, its elements or iterators in another order."""
from __future__ import annotations

from ...arith import Analyzer, affine_domains, eval_range
from ...expr import LE, IntImm, Range, Var, const, free_vars, is_const_int, logical_or, substitute
from ...node import Mutator, collect
from ...tir.index_map import IndexMap
from ...tir.region import access_regions
from ...tir.stmt import BufferRegion, seq
from ..blocks import is_true, name_of
from ..handles import SampledVar
from ..legality import require_kinds
from ..regions import whole
from ..registry import BLOCK, BOOL, BUFFER_REF, INDEX_MAP, INTS, PAD_VALUE, Result, primitive
from ..signature import choose_ref
from .inline import solve
from .layout_padding import pad_of, padded_body
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

        for i in range(14): B[i] = f(i)
    becomes, with index_map=lambda i: (i // 4, i % 4) and pad_value=0.0,
        for ax0, ax1 in grid(4, 4): B[ax0, ax1] = if_then_else(ax0 == 3 and 2 <= ax1, 0.0, f(ax0 * 4 + ax1))

    buffer: its name, ("read", n) or ("write", n). Requires a map proved to give each element a place of its own. What
    places left over hold says pad_value: a number or expression of the buffer's dtype, or a function or IndexMap from
    the new indices to one. A loop nest that does nothing but write the buffer in order runs over all places then, else
    a block behind the last writer fills them; of a parameter that is only read, T.assume says what the caller put
    there.
    assume_injective_transform: places may be left over without a pad_value, and hold anything. A parameter comes from
    the caller in the new layout.

    A function may say IndexMap.AXIS_SEPARATOR between indices, which is a step of its own: set_axis_separator.
    """
    old = choose_ref(ctx, block, buffer, "'buffer'")
    index_map, separators = _map_and_separators(ctx, index_map, len(old.shape))
    recorded = {"index_map": index_map}
    then = ("set_axis_separator", {"axis_separators": tuple(separators)}) if separators else ()
    same = index_map.initial_indices
    if len(same) == len(old.shape) and index_map.is_equivalent_to(IndexMap(same, same)):
        return Result(ctx.func, recorded=recorded, then=then)
    layout = _Layout(ctx, old, index_map)
    given = ctx.index.owner(old) is None
    pad, recorded["pad_value"] = pad_of(ctx, layout, pad_value)
    if layout.padded and pad is None and not assume_injective_transform:
        ctx.refuse("'pad_value'", f"the map makes {old.name} {_by(layout.new.shape)} for {_by(old.shape)} elements",
                   "say with pad_value what the others hold, or with assume_injective_transform=True that it does not "
                   "matter", [block])
    params = {handle: layout.new if b is old else b for handle, b in ctx.func.buffer_map.items()}
    if given:
        _require_told(ctx, block, old, params)
    body = padded_body(ctx, layout, pad, given) if layout.padded and pad is not None else ctx.func.body
    after = ctx.with_func(ctx.func.replace(body=_Move(ctx, layout).visit(body), buffer_map=params))
    require_kinds(after, list(after.index.loops.values()), "'index_map'")
    return Result(after.func, recorded=recorded, then=then)


def _require_told(ctx, block, old, params):
    """Refuse to take from the caller's arrays a dimension that no other parameter tells."""
    told = {*params, *(d for b in params.values() for d in (*b.shape, *b.strides)), *ctx.func.params}
    for v in free_vars(old.shape):
        if v not in told:
            ctx.refuse("'buffer'", f"only the shape {_by(old.shape)} of parameter {old.name} tells {v.name}",
                       "use cache_read or cache_write first", [block])


def index_map_of(ctx, index_map, ndim):
    """The IndexMap that was given, or the one of a function of `ndim` indices, with the numbers that were sampled."""
    found, separators = _map_and_separators(ctx, index_map, ndim)
    if separators:
        ctx.refuse("'index_map'", "it has an AXIS_SEPARATOR, which only buffers have", "leave it out")
    return found


def _map_and_separators(ctx, index_map, ndim):
    """(the IndexMap, the positions of axis separators)."""
    if isinstance(index_map, IndexMap):
        return ctx.own(index_map), ()
    try:
        found, separators = IndexMap.from_func_with_separators(index_map, ndim)
    except TypeError as why:
        ctx.refuse("'index_map'", str(why), "give a function from indices to a list of indices")
    sampled = {v: ctx.number(v.handle) for v in collect(found.final_indices, SampledVar)}
    if not sampled:
        return ctx.own(found), separators
    numbers = {v: const(n, v.dtype) for v, n in sampled.items()}
    final = tuple(map(Analyzer().simplify, substitute(found.final_indices, numbers)))
    return ctx.own(found.replace(final_indices=final)), separators


def _by(shape):
    return " x ".join(map(str, shape))


class _Layout:
    """The new buffer, and where an element of the old one lies in it.

    padded: whether places are left over; then `places` are variables for indices of the new buffer, `outside` says
    where of them no element lies, and `back` the old indices elsewhere.
    """

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
        if not self.padded:
            shape = [r.extent for r in found.domains]
        else:
            shape = self._divided(final) or self._shifted(ctx, variables, ranges, final)
        self.new = old.replace(shape=tuple(shape), data=Var(old.name, "handle"), axis_separators=(), strides=())

    def _divided(self, final):
        """The extents of a map by divisions that leave a rest, or None."""
        try:
            inverse, outside = self.map.non_surjective_inverse(self.old.shape)
            ranges = self.map.map_ranges(self.old.shape, whole=True)
        except ValueError:
            return None
        if is_const_int(outside, 0) or not all(is_const_int(r.min, 0) for r in ranges):
            return None
        self.places, self.back = inverse.initial_indices, inverse.final_indices
        self.outside = _NumbersFirst().visit(outside)
        return [r.extent for r in ranges]

    def _shifted(self, ctx, variables, ranges, final):
        """The extents of another map that is one to one but not onto; refuses when that is not proved."""
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
        self.places, self.outside, self.back = places, conditions, tuple(values[v] for v in variables)
        return [Analyzer().simplify(e) for e in shape]


class _NumbersFirst(Mutator):
    """2 <= i for i >= 2, as TVM's simplifier writes it, and for 2 == i where i is at most 2: bounds divide loops."""

    def visit_GE(self, e):
        return LE(e.b, e.a) if isinstance(e.b, IntImm) else e

    def visit_EQ(self, e):
        return LE(e.a, e.b) if isinstance(e.a, IntImm) else e


class _Move(Mutator):
    """Rewrites accesses, signatures and the allocation."""

    def __init__(self, ctx, layout):
        self.ctx, self.layout, self.analyzer = ctx, layout, Analyzer()

    def visit_For(self, loop):
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        return self.generic_visit(loop)

    def _access(self, access):
        access = self.generic_visit(access)
        if access.buffer is not self.layout.old:
            return access
        return access.replace(buffer=self.layout.new, indices=self._moved(access.indices))

    visit_BufferLoad = visit_BufferStore = _access

    def _moved(self, indices):
        return tuple(self.analyzer.simplify(i) for i in self.layout.map.map_indices(indices))

    def visit_BlockRealize(self, realize):
        """A condition may keep iterators to less than their loops count to: indices are simplified by what the loops
        say, as the analyses that read them look at loops and not at conditions."""
        for iv, value in zip(realize.block.iter_vars, realize.iter_values):
            if is_true(realize.predicate):
                self.analyzer.bind(iv.var, iv.dom, allow_override=True)
            else:
                self.analyzer.update(iv.var, self.analyzer.const_int_bound(value), override=True)
        return self.generic_visit(realize)

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
            points = self._moved([r.min for r in region.region])
            return BufferRegion(self.layout.new, tuple(Range(p, const(1, p.dtype)) for p in points))
        found = access_regions(body, analyzer=self.analyzer)[0 if field == "reads" else 1]
        return next((r for r in found if r.buffer is self.layout.new),
                    BufferRegion(self.layout.new, tuple(map(whole, self.layout.new.shape))))
