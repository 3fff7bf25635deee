"""tile_contraction: a sum of products as a product of tiles of two matrices."""
from __future__ import annotations

from math import prod

from ...arith import Analyzer
from ...dtype import DataType
from ...expr import (Cast, FloorDiv, FloorMod, IntImm, IterVar, Range, Var, cast, const, is_const_int, logical_and,
                     substitute)
from ...node import Mutator, collect
from ...tir.buffer import decl_buffer
from ...tir.intrin import if_then_else
from ...tir.region import access_regions
from ...tir.stmt import Block, BlockRealize, BufferLoad, BufferStore, For, seq
from ..blocks import name_of, require_pure, uses
from ..contraction_form import contraction_form, joined, parted, size_of
from ..index import blocks_below
from ..legality import require_still_legal
from ..registry import BLOCK, BLOCKS, INTS, Result, primitive
from ..signature import is_leaf
from ..trivial import require_trivial

GUARDED = 8  # most elements that a guard asks about at once


@primitive(BLOCKS, block=BLOCK, rows=INTS, columns=INTS, depth=INTS)
def tile_contraction(ctx, block, rows, columns, depth):
    """Make a sum of products a product of tiles, whose operands are copied before; returns the blocks that copy them.

        C[i, j] += A[i, k] * B[k, j] over 13 x 22 x 9
        D[i, j] = f(C[i, j])
    becomes, with rows=[2, 4], columns=[8], depth=[4],
        A_tile[io, ko, ki, i1, i2] = if_then_else(io * 8 + i1 * 4 + i2 < 13 and ko * 4 + ki < 9, A[...], 0)
        B_tile[jo, ko, ki, j1] = likewise
        C_tile[io, i1, i2, jo, j1] += A_tile[io, ko, ki, i1, i2] * B_tile[jo, ko, ki, j1]
        D[i, j] = f(C_tile[i // 8, i // 4 % 2, i % 4, j // 8, j % 8])

    Rows, columns and terms are all iterators of their kind, joined: of an image's convolution the columns are its
    points, the terms the weights of a channel. Iterators that both factors use number products of a batch. The factors
    of `rows`, `columns` and `depth` are the dimensions of a tile, whose product is its size.

    Requires plain serial loops that each run one iterator, and a sum of products of two factors into a buffer that is
    allocated where the block is.
    """
    scope = ctx.scope(block, "'block'")
    require_pure(ctx, scope, block, "'block'")
    loops = require_trivial(ctx, block, "'block'")
    for name, sizes in (("'rows'", rows), ("'columns'", columns), ("'depth'", depth)):
        if not sizes or any(s < 1 for s in sizes):
            ctx.refuse(name, f"{list(sizes)} must be positive factors of the size of a tile", "such as [2, 16, 4]")
    form, why = contraction_form(block.block)
    if form is None:
        ctx.refuse("'block'", f"block {name_of(block)} is no product of matrices: {why}", "", [block])
    store = block.block.body
    if not isinstance(store, BufferStore) or not is_leaf(block.block):
        ctx.refuse("'block'", f"the body of block {name_of(block)} is not one store",
                   "choose it before it is made of others", [block])
    if ctx.index.owner(store.buffer) is not scope:
        ctx.refuse("'block'", f"block {name_of(block)} writes {store.buffer.name}, which is not allocated around it",
                   "use cache_write first", [block])
    own = {iv.var for iv in block.block.iter_vars if iv.iter_type == "spatial" and not is_const_int(iv.dom.extent, 1)}
    at = [i for i in store.indices if not is_const_int(i, 0)]
    if not own <= set(at) or len(set(at)) != len(at) or not all(isinstance(i, Var) for i in at):
        ctx.refuse("'block'", f"block {name_of(block)} does not store at one iterator per dimension: "
                   f"{store.buffer.name}[{', '.join(map(str, store.indices))}]", "", [block])
    tiled = _Tiled(ctx, block, form, {"rows": rows, "columns": columns, "depth": depth})
    readers = [r for r in ctx.index.readers(store.buffer, scope) if r is not block]
    changes = {reader: tiled.redirected(reader) for reader in readers}
    changes[loops[0] if loops else block] = seq(*tiled.copies, tiled.product)
    allocs = tuple(b for b in scope.block.alloc_buffers if b is not store.buffer) + tiled.buffers
    after = ctx.with_func(ctx.index.rewrite(changes, {scope: allocs}))
    names = [name_of(b) for c in tiled.copies for b in blocks_below(c)]
    for name in (*names, name_of(block)):
        require_still_legal(after, after.index.blocks[name], "'block'")
    return Result(after.func, tuple(names))


class _Tiled:
    """The nests of the copies and of the product, and the buffers between."""

    def __init__(self, ctx, block, form, tiles):
        self.form, self.tiles = form, tiles
        self.old, self.at = block.block.body.buffer, block.block.body.indices
        self.own = [iv.var for iv in block.block.iter_vars]
        self.dtype = DataType("int64" if any(str(a.extent.dtype) == "int64" for a in form.axes) else "int32")
        self.sizes = {side: size_of(getattr(form, side), self.dtype) for side in tiles}
        self.batch = {axis: self._iter(axis.var.name, cast(axis.extent, self.dtype)) for axis in form.batch}
        self.outer, self.inner = {}, {}
        for side, factors in tiles.items():
            letter = {"rows": "m", "columns": "n", "depth": "k"}[side]
            count = Analyzer().simplify((self.sizes[side] + (prod(factors) - 1)) // prod(factors))
            self.outer[side] = self._iter(f"v_{letter}o", count, side)
            self.inner[side] = [self._iter(f"v_{letter}{n + 1}", const(f, self.dtype), side)
                                for n, f in enumerate(factors)]
        made = []
        for factor, side in ((form.left, "rows"), (form.right, "columns")):
            made.append(self._copy(ctx, factor, side, [buffer.name for buffer, _, _ in made]))
        self.copies = [nest for _, _, nest in made]
        self.new = decl_buffer(self._shape(self._result()), self.old.dtype, self.old.name + "_tile", self.old.scope,
                               data_alignment=self.old.data_alignment)
        self.product = self._product(block, [load for _, load, _ in made])
        self.buffers = (*(buffer for buffer, _, _ in made), self.new)

    def _iter(self, name, extent, side=""):
        kind = "reduce" if side == "depth" else "spatial"
        return IterVar(Range(const(0, self.dtype), extent), Var(name, self.dtype), kind)

    def _shape(self, iters):
        return [iv.dom.extent for iv in iters]

    def _result(self):
        """The iterators that number an element of the result."""
        sides = [iv for side in ("rows", "columns") for iv in (self.outer[side], *self.inner[side])]
        return [*self.batch.values(), *sides]

    def _number(self, side):
        """The row, column or term that the iterators of a side stand for."""
        number = self.outer[side].var
        for iv in self.inner[side]:
            number = number * iv.dom.extent + iv.var
        return number

    def _copy(self, ctx, factor, side, taken):
        """(buffer, its element in the product, the nest that fills it) of the operand that `side` numbers."""
        values = {}
        for part in (side, "depth"):
            for axis, value in parted(getattr(self.form, part), self._number(part)).items():
                self._enter(values, axis, value)
        for axis, iv in self.batch.items():
            self._enter(values, axis, iv.var)
        analyzer = Analyzer()
        batch = [iv for axis, iv in self.batch.items() if uses(factor, {axis.var})]
        iters = [*batch, self.outer[side], self.outer["depth"], *self.inner["depth"], *self.inner[side]]
        for iv in iters:
            analyzer.bind(iv.var, iv.dom)
        value = factor.value if isinstance(factor, Cast) and factor.value.dtype.bits < factor.dtype.bits else factor
        value = _Put({v: cast(e, v.dtype) for v, e in values.items()}, analyzer).visit(value)
        inside = const(True)
        for part in (side, "depth"):
            inside = logical_and(inside, self._guard(part))
        if not (isinstance(inside, IntImm) and inside.value):
            value = if_then_else(inside, value, const(0, value.dtype))
        name = ctx.new_block_name(collect(factor, BufferLoad)[0].buffer.name + "_tile", taken)
        buffer = decl_buffer(self._shape(iters), value.dtype, name, "global")
        load = BufferLoad(buffer, tuple(iv.var for iv in iters))
        fresh = {iv.var: Var(iv.var.name, iv.var.dtype) for iv in iters}
        body = substitute(BufferStore(buffer, value, load.indices), fresh)
        own = tuple(IterVar(iv.dom, fresh[iv.var], "spatial") for iv in iters)
        reads, writes = access_regions(body)
        copy = Block(own, reads, writes, name, (), (), {}, None, body)
        return buffer, cast(load, factor.dtype), _nest(copy)

    def _enter(self, values, axis, value):
        """Note an axis' share of the value of its iterator."""
        share = value * axis.divisor if axis.part == "high" else value
        values[axis.var] = values[axis.var] + share if axis.var in values else share

    def _guard(self, side):
        """Whether the iterators of a side stand for a row, column or term that is there."""
        size, tile, number = self.sizes[side], prod(self.tiles[side]), self._number(side)
        if not isinstance(size, IntImm):
            return number < size
        if size.value % tile == 0:
            return const(True)
        step = next(s for s in (GUARDED, GUARDED // 2, GUARDED // 4, 1) if size.value % s == 0 and tile % s == 0)
        return number < size if step == 1 else FloorDiv(number, const(step, self.dtype)) < size.value // step

    def _product(self, block, operands):
        """The nest of the product."""
        iters = [*self.batch.values(), self.outer["rows"], self.outer["columns"], *self.inner["rows"],
                 *self.inner["columns"], self.outer["depth"], *self.inner["depth"]]
        at = tuple(iv.var for iv in self._result())
        left, right = operands
        init = BufferStore(self.new, const(0, self.new.dtype), at)
        body = BufferStore(self.new, BufferLoad(self.new, at) + left * right, at)
        reads, writes = access_regions(body)
        reads = tuple(r for r in reads if r.buffer is not self.new)
        return _nest(block.block.replace(iter_vars=tuple(iters), reads=reads, writes=writes, init=init, body=body))

    def redirected(self, reader):
        """A block that reads the result, reading it from the tiles."""
        analyzer = Analyzer()
        for iv in reader.block.iter_vars:
            analyzer.bind(iv.var, iv.dom)
        tiled = self

        class Redirect(Mutator):
            def visit_BufferLoad(self, load):
                load = self.generic_visit(load)
                if load.buffer is not tiled.old:
                    return load
                values = {v: const(0, v.dtype) for v in tiled.own}
                values.update((v, i) for v, i in zip(tiled.at, load.indices) if isinstance(v, Var))
                return BufferLoad(tiled.new, tuple(map(analyzer.simplify, tiled.place(values))))

        redirect = Redirect().visit
        inner = reader.block
        body, init = redirect(inner.body), redirect(inner.init)
        found, _ = access_regions(seq(init, body))
        reads = tuple(next((f for f in found if f.buffer is self.new), r) if r.buffer is self.old else r
                      for r in inner.reads)
        return reader.replace(block=inner.replace(body=body, init=init, reads=reads))

    def place(self, values):
        """The indices of the tiles for an element of the result. values: {iterator of the block: its value}."""
        indices = [cast(axis.of(values[axis.var]), self.dtype) for axis in self.form.batch]
        for side in ("rows", "columns"):
            number, inner = joined(getattr(self.form, side), values, self.dtype), []
            for factor in reversed(self.tiles[side]):
                factor = const(factor, self.dtype)
                inner.insert(0, FloorMod(number, factor))
                number = FloorDiv(number, factor)
            indices += [number, *inner]
        return indices


class _Put(Mutator):
    """Puts expressions for variables, simplified in indices."""

    def __init__(self, values, analyzer):
        self.values, self.analyzer = values, analyzer

    def visit_Var(self, v):
        return self.values.get(v, v)

    def visit_BufferLoad(self, load):
        load = self.generic_visit(load)
        return load.replace(indices=tuple(map(self.analyzer.simplify, load.indices)))


def _nest(block):
    """The block under a loop for each of its iterators."""
    loops = [Var(iv.var.name.removeprefix("v_"), iv.var.dtype) for iv in block.iter_vars]
    nest = BlockRealize(tuple(loops), const(True), block)
    for var, iv in reversed(list(zip(loops, block.iter_vars))):
        nest = For(var, iv.dom.min, iv.dom.extent, "serial", nest)
    return nest
