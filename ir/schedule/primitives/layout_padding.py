"""What the places of a new layout hold where no element lies: who writes them, and how."""
from __future__ import annotations

from ...expr import EQ, IterVar, Not, PrimExpr, Var, binary, const, free_vars, logical_or, substitute
from ...node import Mutator, Visitor, collect, structural_equal
from ...tir.index_map import IndexMap
from ...tir.intrin import assume, if_then_else
from ...tir.region import access_regions
from ...tir.stmt import Block, BlockRealize, BufferLoad, BufferStore, Evaluate, For, SeqStmt, Stmt, seq
from ..blocks import name_of, uses
from ..nest import children_of
from ..regions import whole


def pad_of(ctx, layout, given):
    """(what gives the value at new indices, or None; what a trace keeps) of a pad_value. Refuses a value that is not of
    the buffer's dtype or that is not told by the indices and the function's parameters."""
    if given is None:
        return None, None
    new = layout.new
    ndim = len(new.shape)
    if isinstance(given, (IndexMap, PrimExpr)) or isinstance(given, (int, float)):
        kept = given
    else:
        try:
            kept = ctx.own(IndexMap.from_func(given, ndim))
        except (TypeError, ValueError) as why:
            ctx.refuse("'pad_value'", str(why), "give a function from the new indices to a value")
    if not isinstance(kept, IndexMap):
        return _checked(ctx, layout, (), _value_of(ctx, new, kept)), kept
    if len(kept.initial_indices) != ndim or len(kept.final_indices) != 1:
        ctx.refuse("'pad_value'", f"it gives {len(kept.final_indices)} values of {len(kept.initial_indices)} indices; "
                   f"{new.name} has {ndim}", "give one value of all new indices")
    places = [Var(v.name, e.dtype) for v, e in zip(kept.initial_indices, new.shape)]
    return _checked(ctx, layout, places, kept.map_indices(places)[0]), kept


def _value_of(ctx, new, given):
    """A number as a value of the buffer's dtype: an int where that has integers, a float where it has floats."""
    if isinstance(given, PrimExpr):
        return given
    if isinstance(given, float) != new.dtype.is_float:
        ctx.refuse("'pad_value'", f"{given!r} is no {new.dtype}, which buffer {new.name} holds",
                   f"give {'a float' if new.dtype.is_float else 'an int'}")
    try:
        return const(given, new.dtype)
    except (TypeError, ValueError) as why:
        return ctx.refuse("'pad_value'", str(why))


def _checked(ctx, layout, places, value):
    """A function from new indices to the value."""
    new = layout.new
    if value.dtype != new.dtype:
        ctx.refuse("'pad_value'", f"{value} is {value.dtype}, buffer {new.name} holds {new.dtype}",
                   f"give a value of {new.dtype}")
    loads = collect(value, BufferLoad)
    if loads:
        ctx.refuse("'pad_value'", f"{value} reads buffer {loads[0].buffer.name}", "compute it from the indices alone")
    known = {*places, *ctx.func.params, *(v for b in ctx.func.buffer_map.values() for v in free_vars(b.shape))}
    strange = [v for v in free_vars(value) if v not in known]
    if strange:
        ctx.refuse("'pad_value'", f"{value} uses {strange[0].name}, which is neither an index nor a parameter")
    return lambda indices: substitute(value, dict(zip(places, indices)))


def padded_body(ctx, layout, pad, given):
    """The body of the function with the places of the new buffer filled;
    what else touches the buffer stays as it is."""
    stores = _Stores(layout.old)
    stores.visit(ctx.func.body)
    scope = ctx.index.owner(layout.old) or ctx.func.body
    if not stores.found:
        if not given:
            ctx.refuse("'buffer'", f"no block directly inside block {name_of(scope)} writes {layout.old.name}", "")
        return _with_body(scope, seq(_promise(ctx, layout, pad), scope.block.body))
    replaced = {s.nest[0]: new for s in stores.found
                if s.nest and (new := _over_all_places(layout, pad, s)) is not None}
    if replaced and all(any(s in replaced for s in store.around) for store in stores.found):
        return ctx.index.rewrite(replaced).body
    last = next(s for s in reversed(children_of(scope)) if any(
        s is store.stmt or s in store.around for store in stores.found))
    nest = _filling(ctx, layout, pad, next(s for s in reversed(stores.found) if s.stmt is last or last in s.around))
    return ctx.index.rewrite({last: seq(last, nest)}).body


def _with_body(scope, body):
    return scope.replace(block=scope.block.replace(body=body))


class _Store:
    """A store of the buffer: the statements around it, outermost first, and the loops that run over its indices, which
    are `nest`, where each is the loop of an index and they lie directly in each other; else ()."""

    def __init__(self, stmt, around, old):
        self.stmt, self.around = stmt, tuple(around)
        values = {}
        for s in around:
            if isinstance(s, BlockRealize):
                values.update(zip((iv.var for iv in s.block.iter_vars), substitute(s.iter_values, values)))
        indices = substitute(stmt.indices, values)
        loops = [s for s in around if isinstance(s, For)]
        own = [loop for loop in loops if uses(indices, {loop.loop_var})]
        first = loops.index(own[0]) if own else 0
        ordered = own == loops[first:first + len(own)] and len(own) == len(indices) and all(
            i is loop.loop_var and structural_equal(loop.extent, extent) and getattr(loop.min, "value", 1) == 0
            and loop.kind == "serial" and not loop.annotations
            for i, loop, extent in zip(indices, own, old.shape))
        alone = all(loop.body is inner for loop, inner in zip(own, own[1:]))
        self.nest = tuple(own) if ordered and alone else ()


class _Stores(Visitor):
    def __init__(self, old):
        self.old, self.around, self.found = old, [], []

    def _inside(self, s):
        self.around.append(s)
        self.generic_visit(s)
        self.around.pop()

    visit_For = visit_BlockRealize = visit_SeqStmt = visit_IfThenElse = visit_LetStmt = visit_While = _inside
    visit_AttrStmt = visit_DeclBuffer = visit_AssertStmt = _inside

    def visit_BufferStore(self, s):
        if s.buffer is self.old:
            self.found.append(_Store(s, self.around, self.old))


def _over_all_places(layout, pad, store):
    """The loops of a store run over all places of the new buffer, a condition choosing between element and padding;
    None where the nest does something else too, or an element depends on another one."""
    nest = store.nest
    if not _only_stores(nest[-1].body, store.stmt, {loop.loop_var for loop in nest}):
        return None
    loops = [Var(f"ax{d}", p.dtype) for d, p in enumerate(layout.places)]
    body = _Widen(layout, pad, store, nest, loops).visit(nest[-1].body)
    for var, extent in reversed(list(zip(loops, layout.new.shape))):
        body = For(var, const(0, var.dtype), extent, "serial", body)
    return body


def _only_stores(body, store, loops):
    """Whether a nest does nothing but stores of one element, each iteration of its own one, in at most one block, which
    runs always and has either iterators that are the indices or none."""
    inner = collect(body, BlockRealize)
    if len(inner) > 1 or any(
            type(s) not in (For, SeqStmt, BlockRealize, Block, BufferStore) for s in collect(body, Stmt)):
        return False
    accesses = [*collect(body, BufferStore), *(x for x in collect(body, BufferLoad) if x.buffer is store.buffer)]
    if any(x.buffer is not store.buffer or not structural_equal(x.indices, store.indices) for x in accesses):
        return False
    for realize in inner:
        block = realize.block
        kept = [value for iv, value in zip(block.iter_vars, realize.iter_values)
                if not any(iv.var is i for i in store.indices)]
        if getattr(realize.predicate, "value", None) != 1 or block.match_buffers or block.alloc_buffers or uses(
                kept, loops):
            return False
        if block.iter_vars and _position(block, store) is None:
            return False
    return True


def _position(block, store):
    """Where among a block's iterators the indices of a store are, spatial ones and in order; None elsewhere."""
    variables = [iv.var for iv in block.iter_vars]
    first = next((n for n, v in enumerate(variables) if v is store.indices[0]), None)
    if first is None or len(variables) < first + len(store.indices) or not all(
            v is i for v, i in zip(variables[first:], store.indices)) or any(
            iv.iter_type != "spatial" for iv in block.iter_vars[first:first + len(store.indices)]):
        return None
    return first


class _Widen(Mutator):
    """Puts a choice between element and padding in the place of each store, and new iterators for the old indices."""

    def __init__(self, layout, pad, store, nest, loops):
        self.layout, self.pad, self.store = layout, pad, store
        self.indices, self.loops = loops, loops
        self._index_by(loops, [loop.loop_var for loop in nest])

    def _index_by(self, indices, olds):
        self.indices = indices
        at = dict(zip(self.layout.places, indices))
        self.outside = substitute(self.layout.outside, at)
        self.values = dict(zip(olds, substitute(self.layout.back, at)))

    def visit_Var(self, v):
        return self.values.get(v, v)

    def visit_BufferLoad(self, load):
        if load.buffer is self.layout.old:
            return load.replace(buffer=self.layout.new, indices=tuple(self.indices))
        return self.generic_visit(load)

    def visit_BufferStore(self, store):
        value = if_then_else(self.outside, self.pad(self.indices), self.visit(store.value))
        return BufferStore(self.layout.new, value, tuple(self.indices))

    def visit_BlockRealize(self, realize):
        block, ndim = realize.block, len(self.store.stmt.indices)
        iters, values = block.iter_vars, self.visit(realize.iter_values)
        if iters:
            at = _position(block, self.store.stmt)
            new = [IterVar(whole(extent), Var(f"v{d}", loop.dtype), "spatial")
                   for d, (extent, loop) in enumerate(zip(self.layout.new.shape, self.loops))]
            self._index_by([iv.var for iv in new], [iv.var for iv in iters[at:at + ndim]])
            iters = (*iters[:at], *new, *iters[at + ndim:])
            values = (*values[:at], *self.loops, *values[at + ndim:])
        init, body = self.visit(block.init), self.visit(block.body)
        reads, writes = access_regions(seq(init, body))
        written = {r.buffer for r in writes}
        block = block.replace(iter_vars=iters, init=init, body=body, writes=writes,
                              reads=tuple(r for r in reads if r.buffer not in written or init is None))
        return realize.replace(iter_values=tuple(values), block=block)


def _over_places(ctx, layout, name, statement, predicate=None):
    """A block `name` over all places of the new buffer: statement(indices), where predicate(loops) holds."""
    loops = [Var(f"ax{d}", p.dtype) for d, p in enumerate(layout.places)]
    iters = tuple(IterVar(whole(e), Var(f"v{d}", v.dtype), "spatial") for d, (v, e) in enumerate(
        zip(loops, layout.new.shape)))
    body = statement([iv.var for iv in iters])
    reads, writes = access_regions(body)
    block = Block(iters, reads, writes, ctx.new_block_name(name), (), (), {}, None, body)
    nest = BlockRealize(tuple(loops), predicate(loops) if predicate else const(True), block)
    for var, extent in reversed(list(zip(loops, layout.new.shape))):
        nest = For(var, const(0, var.dtype), extent, "serial", nest)
    return nest


def _outside(layout, indices):
    return substitute(layout.outside, dict(zip(layout.places, indices)))


def _filling(ctx, layout, pad, store):
    """The block behind the last writer, called after it, that stores the padding."""
    writer = next((s for s in reversed(store.around) if isinstance(s, BlockRealize)), ctx.func.body)
    return _over_places(ctx, layout, f"{name_of(writer)}_pad_{layout.old.name}",
                        lambda i: BufferStore(layout.new, pad(i), tuple(i)), lambda i: _outside(layout, i))


def _promise(ctx, layout, pad):
    """The block that says what the caller put where no element lies."""
    def said(indices):
        same = binary(EQ, BufferLoad(layout.new, tuple(indices)), pad(indices))
        return Evaluate(assume(logical_or(Not(_outside(layout, indices)), same)))
    return _over_places(ctx, layout, f"buffer_{layout.old.name}_assumptions", said)
