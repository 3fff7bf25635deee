"""pad_einsum: round the extents of a sum of products up, so that its loops divide."""
from __future__ import annotations

from ...expr import (Add, Cast, Div, FloatImm, FloorDiv, FloorMod, IntImm, IterVar, Mod, Mul, Range, Var, const,
                     logical_and, substitute)
from ...names import unique_name
from ...node import Mutator, collect
from ...tir.buffer import decl_buffer
from ...tir.intrin import if_then_else
from ...tir.region import access_regions
from ...tir.stmt import Block, BlockRealize, BufferLoad, BufferStore, seq
from ..blocks import buffers_of, name_of, require_pure, uses
from ..combiner import combiner_of
from ..context import analyzer_of
from ..legality import require_still_legal
from ..nest import build_nest
from ..regions import whole
from ..registry import BLOCK, INTS, Result, primitive
from ..signature import is_leaf, stays_inside
from ..trivial import require_trivial


@primitive(None, block=BLOCK, padding=INTS)
def pad_einsum(ctx, block, padding):
    """Round the extent of each iterator of a block up to a multiple of its padding (0 and 1 leave it alone).

        C[i, j] += A[i, k] * B[k, j] over 13 x 22 x 9
    becomes, with padding=[8, 8, 4],
        A_pad[i, k] = if_then_else(i < 13 and k < 9, A[i, k], 0) over 16 x 12, likewise B_pad
        C_pad[i, j] += A_pad[i, k] * B_pad[k, j] over 16 x 24 x 12
        C[i, j] = C_pad[i, j] over 13 x 22

    Requires a block whose loops each run one iterator, that uses buffers at iterators or constants alone; where a
    reduction is padded, a sum of products that are zero in the padding.
    """
    scope = ctx.scope(block, "'block'")
    require_pure(ctx, scope, block, "'block'")
    store = _einsum(ctx, block)
    loops = require_trivial(ctx, block, "'block'")
    padded = _padded(ctx, block, padding)
    if not padded:
        return Result(ctx.func)
    _require_neutral(ctx, block, padded)
    accesses = _Accesses(ctx, block, padded)
    inner = accesses.visit(block.block.replace(iter_vars=tuple(
        iv.replace(dom=Range(iv.dom.min, padded.get(iv.var, iv.dom.extent))) for iv in block.block.iter_vars)))
    nest = block.replace(block=inner)
    extents = {value: padded[iv.var] for iv, value in zip(block.block.iter_vars, block.iter_values) if iv.var in padded}
    for loop in reversed(loops):
        nest = loop.replace(extent=extents.get(loop.loop_var, loop.extent), body=nest)
    before = [c for c in accesses.copies if c.block.writes[0].buffer is not store.buffer]
    behind = [c for c in accesses.copies if c.block.writes[0].buffer is store.buffer]
    copies = [[build_nest(c, {}, analyzer_of([]), preserve_unit_loops=True) for c in part] for part in (before, behind)]
    func = ctx.index.rewrite({loops[0] if loops else block: seq(*copies[0], nest, *copies[1])},
                             {scope: scope.block.alloc_buffers + tuple(sorted(
                                 accesses.buffers.values(), key=lambda b: b in buffers_of(inner.writes)))})
    after = ctx.with_func(func)
    for name in (*map(name_of, accesses.copies), name_of(block)):
        require_still_legal(after, after.index.blocks[name], "'block'")
    return Result(func)


# ---------------------------------------------------------------- checks

def _einsum(ctx, block):
    """The block's store; refuses a block that is no einsum."""
    store, name = block.block.body, name_of(block)
    if not isinstance(store, BufferStore) or not is_leaf(block.block):
        ctx.refuse("'block'", f"the body of block {name} is not one store",
                   "choose it before it is made of others", [block])
    own = {iv.var for iv in block.block.iter_vars}
    for access in collect((block.block.init, store), (BufferLoad, BufferStore)):
        for index in access.indices:
            if not (isinstance(index, IntImm) or isinstance(index, Var) and index in own):
                ctx.refuse("'block'", f"block {name} uses {access.buffer.name} at {index}, which is neither an "
                           "iterator nor a constant", "reindex it first, so that the index becomes an iterator",
                           [block])
        if not stays_inside(block.block, access.indices, [whole(e) for e in access.buffer.shape]):
            ctx.refuse("'block'", f"block {name} uses {access.buffer.name}[{', '.join(map(str, access.indices))}], "
                       "which may lie outside", "only what is always there can be copied", [block])
    for e in collect(store.value, (Div, Mod, FloorDiv, FloorMod)):
        if not e.dtype.is_float and not isinstance(e.b, IntImm):
            ctx.refuse("'block'", f"block {name} divides by {e.b}, which would be zero in the padding",
                       "leave it as it is", [block])
    return store


def _padded(ctx, block, padding):
    """{iterator: its greater extent}, of those that grow."""
    iters = block.block.iter_vars
    if len(padding) != len(iters):
        ctx.refuse("'padding'", f"{list(padding)} is for {len(padding)} iterators, block {name_of(block)} has "
                   f"{len(iters)}: {', '.join(iv.var.name for iv in iters)}", "give one for each; 1 leaves it alone")
    if any(p < 0 for p in padding):
        ctx.refuse("'padding'", f"{list(padding)} has a negative number", "give multiples to round up to")
    analyzer, out = ctx.analyzer_at(block), {}
    for iv, p in zip(iters, padding):
        extent = iv.dom.extent
        rounded = analyzer.simplify((extent + (p - 1)) // p * p) if p > 1 else extent
        if not analyzer.can_prove_equal(rounded, extent):
            out[iv.var] = rounded
    return out


def _require_neutral(ctx, block, padded):
    """Refuse unless the padding's instances write elsewhere, or add zero where they belong to a reduction."""
    grown = [iv.var for iv in block.block.iter_vars if iv.var in padded and iv.iter_type == "reduce"]
    for v in padded.keys() - set(grown):
        if not uses(block.block.body.indices, {v}):
            ctx.refuse("'padding'", f"iterator {v.name} of block {name_of(block)} does not choose where it writes, so "
                       "that its padding would overwrite results", f"leave {v.name} as it is", [block])
    if not grown:
        return
    combiner, why = combiner_of(block.block)
    if combiner is None or combiner.operation is not Add:
        ctx.refuse("'padding'", f"the reduction of block {name_of(block)} is no sum"
                   + (f": {why}" if why else f" but a {combiner.operation.__name__.lower()}"),
                   "only sums of products can be padded with zeros; pad its spatial iterators alone", [block])
    factors = _factors(combiner.terms[0])
    loads = [f for f in factors if isinstance(f, BufferLoad)]
    if not all(isinstance(f, (BufferLoad, IntImm, FloatImm)) for f in factors):
        ctx.refuse("'padding'", f"the term {combiner.terms[0]} of block {name_of(block)} is no product of elements",
                   "compute its factors in blocks of their own", [block])
    for v in grown:
        left = [f for f in loads if not uses(f.indices, {v})]
        if len(left) == len(loads) or left and combiner.terms[0].dtype.is_float:
            ctx.refuse("'padding'", f"the term {combiner.terms[0]} of block {name_of(block)} is not zero in the "
                       f"padding of {v.name}, which does not choose an element of {(left or loads)[0].buffer.name}"
                       + (" (zero times infinity is not zero)" if left and len(left) < len(loads) else ""),
                       f"leave {v.name} as it is", [block])


def _factors(e):
    if isinstance(e, Mul):
        return [*_factors(e.a), *_factors(e.b)]
    return _factors(e.value) if isinstance(e, Cast) else [e]


# ---------------------------------------------------------------- rewriting

class _Accesses(Mutator):
    """Sends the accesses that padded iterators take part in to padded buffers.

    buffers: {(buffer, indices): its padded buffer}; copies: the unbound realizes of the blocks that pad and unpad.
    """

    def __init__(self, ctx, block, padded):
        self.padded = padded
        self.domains = {iv.var: iv.dom.extent for iv in block.block.iter_vars}
        self.buffers, self.copies, self._names = {}, [], set(ctx.index.names)

    def visit_Block(self, block):
        body, init = self.visit(block.body), self.visit(block.init)
        reads, writes = access_regions(body)
        return block.replace(body=body, init=init, writes=writes,
                             reads=tuple(r for r in reads if r.buffer not in buffers_of(writes)))

    def visit_BufferLoad(self, load):
        new = self._buffer(load, True)
        return load if new is None else load.replace(buffer=new)

    def visit_BufferStore(self, store):
        new = self._buffer(store, False)  # before the value, which may read the same element
        value = self.visit(store.value)
        return store.replace(value=value, buffer=store.buffer if new is None else new)

    def _buffer(self, access, reads):
        if not uses(access.indices, self.padded.keys()):
            return None
        key = access.buffer, tuple(i if isinstance(i, Var) else i.value for i in access.indices)
        if key not in self.buffers:
            old = access.buffer
            shape = [extent if isinstance(i, IntImm) else self.padded.get(i, self.domains[i])
                     for i, extent in zip(access.indices, old.shape)]
            name = unique_name(old.name + "_pad", self._names)
            self.buffers[key] = new = decl_buffer(shape, old.dtype, name, old.scope, data_alignment=old.data_alignment)
            self.copies.append(self._copy(old, new, access.indices, name, reads))
        return self.buffers[key]

    def _copy(self, old, new, indices, name, pads):
        """The unbound realize of the block that pads `old` into `new`, or takes `new` back to `old`."""
        variables = list(dict.fromkeys(i for i in indices if isinstance(i, Var)))
        extents = {v: self.padded.get(v, self.domains[v]) if pads else self.domains[v] for v in variables}
        iters = tuple(IterVar(Range(const(0, v.dtype), extents[v]), Var(v.name, v.dtype), "spatial") for v in variables)
        fresh = {v: iv.var for v, iv in zip(variables, iters)}
        at = substitute(indices, fresh)
        value = BufferLoad(old if pads else new, at)
        if pads:
            inside = const(True)
            for v in variables:
                if v in self.padded:
                    inside = logical_and(inside, fresh[v] < self.domains[v])
            value = if_then_else(inside, value, const(0, old.dtype))
        body = BufferStore(new if pads else old, value, at)
        reads, writes = access_regions(body)
        block = Block(iters, reads, writes, name, (), (), {}, None, body)
        return BlockRealize(tuple(iv.var for iv in iters), const(True), block)
