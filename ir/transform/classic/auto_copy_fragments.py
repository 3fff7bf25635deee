"""Copies of LowerAutoCopy from and to fragments of matrices, tile by tile: a warp loads or stores one together."""
from __future__ import annotations

from dataclasses import dataclass

from ...arith import Analyzer
from ...expr import Call, IntImm, IterVar, Range, StringImm, Var, as_expr, const, free_vars, substitute
from ...node import Mutator, collect, structural_equal
from ...tir.buffer import decl_buffer
from ...tir.intrin import address_of
from ...tir.region import relax
from ...tir.stmt import (AttrStmt, Block, BlockRealize, BufferLoad, BufferRegion, BufferStore, Evaluate, For,
                         MatchBufferRegion, for_, seq)
from ..gpu.threads import AXES, WARP
from .auto_copy_nests import around, coalesced

PAD = 8        # what the strides of memory that fragments are loaded from are multiples of
WIDEST = 256   # columns of a buffer whose fragments the number of a tile counts


@dataclass(frozen=True)
class Kind:
    """The accumulators of a kind of product. tile: rows and columns of a fragment."""

    scope: str
    tile: int
    block: object  # (loops, store) -> the block that stores one, or None


def load_fragments(nest, copy):
    """From shared memory by load_matrix_sync."""
    tiles = _tiled(nest, WMMA.tile)
    layout = _layout(copy)
    if tiles is None or layout is None or not copy.is_known(nest) or _by_lane(nest, copy) or not isinstance(
            nest[1].value, BufferLoad):
        return None
    loops, store = tiles
    regions = _tile_regions(loops, store.value, store)
    if regions is None or not _counts(copy.target):
        return None
    copy.pads[copy.source] = PAD
    block = _synced("wmma_load", "tir.tvm_load_matrix_sync", *regions, layout, loads=True)
    return around(loops[:-2], block)


def from_fragments(nest, copy):
    """To shared memory by store_matrix_sync."""
    tiles = _tiled(nest, WMMA.tile)
    if tiles is None or not copy.is_known(nest) or _by_lane(nest, copy) or not isinstance(nest[1].value, BufferLoad):
        return None
    loops, store = tiles
    block = WMMA.block(loops, store)
    if block is None:
        return None
    copy.pads[copy.target] = PAD
    return around(loops[:-2], block)


def through_shared(nest, copy, kind):
    """To global memory, by way of shared memory that has room for a row of tiles of each warp."""
    tiles = _tiled(nest, kind.tile)
    loads = [load for load in collect(nest[1].value, BufferLoad) if load.buffer is copy.source]
    if tiles is None or not copy.is_known(nest) or _by_lane(nest, copy) or copy.threads.get(AXES[0]) != WARP or not all(
            structural_equal(load, loads[0]) for load in loads):
        return None
    loops, store = tiles
    load = next(load for load in collect(store.value, BufferLoad) if load.buffer is copy.source)
    inner = loops[-3:]
    shared = [loop for loop in copy.thread_loops() if loop.thread_binding != AXES[0]] + inner
    cache = decl_buffer([loop.extent for loop in shared], copy.source.dtype, f"{copy.source.name}_shared_dyn",
                        "shared.dyn")
    place = tuple(loop.loop_var for loop in shared)
    block = kind.block(loops, BufferStore(cache, load, place))
    if block is None:
        return None
    copy.buffers.append(cache)
    copy.pads[cache] = PAD
    renamed = {v: Var(f"{v.name}_cache", v.dtype) for v in place}
    rest = _Replaced(copy.source, BufferLoad(cache, place)).visit(store)
    cached = [For(renamed[loop.loop_var], loop.min, loop.extent, "serial", rest) for loop in shared]
    stores = around(*coalesced((cached, substitute(rest, renamed)), copy))
    return around(loops[:-3], seq(around(inner[:1], block), stores))


class _Replaced(Mutator):
    def __init__(self, buffer, load):
        self.buffer, self.load = buffer, load

    def visit_BufferLoad(self, load):
        return self.load if load.buffer is self.buffer else self.generic_visit(load)


# ---------------------------------------------------------------- tiles

def _tiled(nest, size):
    """The nest with its two innermost loops in tiles; None where tiles do not fit."""
    loops, store = nest
    if len(loops) < 2 or any(loop.extent.value % size for loop in loops[-2:]):
        return None
    outer, inner, values = [], [], {}
    for loop in loops[-2:]:
        v = loop.loop_var
        one, other = (Var(f"{v.name}_{n}", v.dtype) for n in (0, 1))
        values[v] = one * size + other
        outer.append(for_(one, loop.extent.value // size, store))
        inner.append(for_(other, size, store))
    return [*loops[:-2], *outer, *inner], substitute(store, values)


def _tile_regions(loops, load, store):
    """The regions of a load and a store while the two innermost loops run; None where one is no tile of rows and
    columns."""
    row, column = (loop.loop_var for loop in loops[-2:])
    ranges = {loop.loop_var: Range(loop.min, loop.extent) for loop in loops[-2:]}
    an, found = Analyzer(), []
    for access in (load, store):
        *rest, y, x = access.indices if len(access.indices) > 1 else (None, None)
        if y is None or not {row, column}.isdisjoint(free_vars([*rest, an.simplify(y - row), an.simplify(x - column)])):
            return None
        region = [Range(i, const(1, i.dtype)) for i in rest] + [
            relax(Range(i, const(1, i.dtype)), ranges, extent, an, clip=False)
            for i, extent in zip((y, x), access.buffer.shape[-2:])]
        found.append(BufferRegion(access.buffer, tuple(region)))
    return found


def _by_lane(nest, copy):
    """Whether the threads of a warp copy different elements."""
    lanes = {loop.loop_var for loop in copy.thread_loops() if loop.thread_binding == AXES[0]}
    return not lanes.isdisjoint(free_vars((nest[1].value, nest[1].indices)))


def _counts(fragments):
    """Whether the number of a fragment tells all of a buffer apart."""
    width = fragments.shape[-1]
    return not fragments.strides and isinstance(width, IntImm) and width.value % WMMA.tile == 0 and (
        width.value <= WIDEST)


def _layout(copy):
    """How tiles of a factor lie in its buffer, as products use it: "row_major" or "col_major"; None where that is not
    known. A second factor that none uses is as one that is multiplied transposed."""
    second = copy.target.scope == "wmma.matrix_b"
    usual = "col_major" if second else "row_major"
    layouts = set()
    for block in collect(copy.func.body, Block):
        reads = [r for r in block.reads if r.buffer is copy.target]
        sums = [r for r in block.writes if r.buffer.scope == WMMA.scope]
        if reads and sums and block is not copy.block and len(reads[0].region) > 1 and len(sums[0].region) > 1:
            of_sum = sums[0].region[-1 if second else -2].min
            rows, columns = (structural_equal(reads[0].region[n].min, of_sum) for n in (-2, -1))
            layouts.add(None if rows == columns else "row_major" if rows != second else "col_major")
    if second and layouts == {None}:
        return _layout_by_loops(copy)
    if second:
        return usual if not layouts else layouts.pop() if len(layouts) == 1 else None
    return usual if layouts in (set(), {usual}) else None


def _layout_by_loops(copy):
    """The layout of a second factor by the loops around that move its copy and that of the columns of the only first
    factor: these loops reduce."""
    loads = {}
    for store in collect(copy.func.body, BufferStore):
        if store.buffer.scope.startswith("wmma.matrix") and isinstance(store.value, BufferLoad):
            loads.setdefault(store.buffer, []).append(store.value)
    firsts = [found for b, found in loads.items() if b.scope == "wmma.matrix_a"]
    mine = loads[copy.target]
    if len(firsts) != 1 or len(firsts[0]) != 1 or len(mine) != 1 or len(firsts[0][0].indices) < 2:
        return None
    reducing = set(free_vars(firsts[0][0].indices[-1]))
    rows, columns = (not reducing.isdisjoint(free_vars(mine[0].indices[n])) for n in (-2, -1))
    return None if rows == columns else "row_major" if rows else "col_major"


# ---------------------------------------------------------------- blocks

def _matched(tile, region, name, strided):
    strides = tuple(Var(n) for n in ("s1", "s0")) if strided else ()
    buffer = decl_buffer((tile, tile), region.buffer.dtype, name, region.buffer.scope, strides, offset_factor=tile)
    return MatchBufferRegion(buffer, region)


def _block(name, read, write, matches, body):
    return BlockRealize((), as_expr(True), Block((), (read,), (write,), name, (), tuple(matches), {}, None, body))


def _synced(name, op, read, write, layout, loads):
    """The block of one call that moves a fragment; loads: from memory."""
    src = _matched(WMMA.tile, read, "src", loads)
    tgt = _matched(WMMA.tile, write, "tgt", not loads)
    fragment, memory = (tgt.buffer, src.buffer) if loads else (src.buffer, tgt.buffer)
    size, place = WMMA.tile, fragment.elem_offset
    number = place // size ** 2 + place % size ** 2 // size
    body = Evaluate(Call("handle", op, (
        fragment.data, *(const(size) for _ in range(3)), number, address_of(memory[0, 0]), memory.strides[0],
        StringImm(layout))))
    return _block(name, read, write, (src, tgt), body)


def _store_wmma(loops, store):
    regions = _tile_regions(loops, store.value, store)
    if regions is None or not _counts(store.value.buffer):
        return None
    return _synced("wmma_store", "tir.tvm_store_matrix_sync", *regions, "row_major", loads=False)


def _store_mma(loops, store):
    """Each thread of a warp has two neighbours of a row of the tile."""
    regions = _tile_regions(loops, store.value, store)
    if regions is None:
        return None
    tile = TENSOR.tile
    src, tgt = (_matched(tile, region, name, name == "tgt") for region, name in zip(regions, ("src", "tgt")))
    tx, vec = Var("tx"), Var("vec")
    place = tx // 4, tx % 4 * 2 + vec
    body = for_(vec, 2, BufferStore(tgt.buffer, BufferLoad(src.buffer, place), place), "vectorized")
    thread = IterVar(Range(const(0), const(WARP)), tx, "thread", AXES[0])
    return _block("mma_store", *regions, (src, tgt), AttrStmt(thread, "thread_extent", const(WARP), body))


WMMA = Kind("wmma.accumulator", 16, _store_wmma)
TENSOR = Kind("m16n8k8.matrixC", 8, _store_mma)

__all__ = ["TENSOR", "WMMA", "from_fragments", "load_fragments", "through_shared"]
