"""Convolutions of plain images: columns are the lanes of vectors, which few channels would leave empty."""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from ...arith import Analyzer
from ...expr import IntImm
from ..blocks import uses
from ..plan import Kernel, Match, Plan, Tile, shared
from ..primitives.sample import divisors
from . import tiles
from .blocks import find_block, iter_vars, operand_loads, place_of, static_extent, vectorizes
from .registers import anchored, hold, in_registers, ranks, steps, turn_of
from .threads import parallel_nest
from .tiles import Window

CONV, PAD = "conv2d", "pad_temp"
MOST_UNROLLED = 3  # columns of the kernel, where planes have every s-th column


def columns(sch, target):
    """A convolution with plain input, weights and output, whose rows are whole vectors:

        for bands of rows:
            band = the padded input, a plane for every s-th column
            for channels, rows, columns:
                acc = 0;  for ic, kh, kw: for rows, channels: for vectors: acc += band * broadcast(w);  epilogue(acc)

    Where each channel has inputs of its own and they are not copied, registers hold what the rows of a tile see in a
    column of the kernel:

                acc = 0;  for ic, kw: held = x;  for kh, rows: for vectors: acc += held * broadcast(w);  epilogue(acc)
    """
    if not target.has_tiles:
        return None
    found = anchored(sch, lambda block: _fits(block, target), keep={PAD})
    if found is None:
        return None
    conv, epilogue = sch.get_block(found[0]), found[1]
    if len(sch.get_loops(epilogue)) != 4 or not vectorizes(sch.get(epilogue)):
        return None
    block = sch.get(conv)
    strides, (channel, rows, width) = _strides(block), iter_vars(block, "spatial")[1:]
    own = uses(_operands(block)[0].indices, {channel.var})  # channels of each output channel
    data = _input(sch, conv, strides[1], target.lanes)
    kernel = Image(1 if own else channel.dom.extent.value, rows.dom.extent.value,
                   width.dom.extent.value // target.lanes,
                   _column(block) if own and not data else None, *(_rows(sch.get(conv), strides[0]) if data else ()),
                   work=steps(block))
    return Match(kernel, partial(_apply, sch, conv, epilogue, data, strides, kernel))


def _apply(sch, conv, epilogue, data, strides, kernel, plan, target):
    tile = plan.tile
    n, c, y, x = sch.get_loops(epilogue)
    co, ci = sch.split(c, [None, tile.channels])
    yb, yo, yi = sch.split(y, [None, plan.block // tile.rows, tile.rows])
    xo, xv, xl = sch.split(x, [None, tile.vectors, target.lanes])
    sch.reorder(n, yb, co, yo, xo, yi, ci, xv, xl)
    sch.compute_at(conv, xo, preserve_unit_loops=True)
    sch.set_scope(conv, 0, "local")
    in_registers(sch, (yi, ci, xv), xl)
    n_, c, y, x, *reduce = sch.get_loops(conv)[-7:]
    xv, xl = sch.split(x, [None, target.lanes])
    sch.reorder(*reduce, n_, y, c, xv, xl)
    in_registers(sch, (y, c, xv), xl)
    if kernel.column:
        ic, kh, kw = reduce
        sch.reorder(ic, kw, kh)
        sch.unroll(kh)
        hold(sch, conv, kw, [_operands(sch.get(conv))[0].buffer], target.lanes)
        reduce = [ic, kw]
    if (data or target.lanes == 1) and static_extent(sch, reduce[-1]) <= MOST_UNROLLED:
        sch.unroll(reduce.pop())  # the place of a column in its plane is a constant, or compilers load it once
    sch.decompose_reduction(conv, reduce[0])
    turn_of(sch, target, conv, reduce)
    if data:
        _fill(sch, data, yb, strides[1], target.lanes)
    parallel_nest(sch, target, [n, yb], kernel.work)


def _fits(block, target):
    if block.name_hint != CONV or ranks(block) != (4, 3) or block.init is None or not vectorizes(block):
        return False
    width = iter_vars(block, "spatial")[3].dom.extent
    return all(isinstance(iv.dom.extent, IntImm) for iv in block.iter_vars[1:]) and width.value % target.lanes == 0


def _operands(block):
    """The loads of the input, which moves with the columns, and of the weights."""
    column = iter_vars(block, "spatial")[3].var
    return sorted(operand_loads(block), key=lambda load: not uses(load.indices, {column}))


def _strides(block, kind="spatial", first=2):
    """By how many rows and columns the input moves with those of the output, or of the kernel."""
    load, _ = _operands(block)
    return [Analyzer().step(index, iv.var) for index, iv in zip(load.indices[2:], iter_vars(block, kind)[first:])]


def _column(block):
    """The Window of a column of the kernel; None where it has one row."""
    taps = iter_vars(block, "reduce")[1].dom.extent.value
    return Window(taps, _strides(block)[0], _strides(block, "reduce", 1)[0]) if taps > 1 else None


def _input(sch, conv, stride, lanes):
    """The block that makes what the convolution reads of each band; None where that is the input as it is, whose
    columns lie apart for a stride, which only vectors mind."""
    pad = find_block(sch, lambda block: block.name_hint == PAD)
    if pad is None and (stride == 1 or lanes == 1):
        return None
    if pad:
        return sch.get_block(pad)
    block = sch.get(conv)
    return sch.cache_read(conv, place_of(block, _operands(block)[0].buffer), "global")


def _rows(block, stride):
    """(bytes of a row of the input, by how many it moves with one of the output, how many more the first one sees)."""
    shape = _operands(block)[0].buffer.shape
    more = iter_vars(block, "reduce")[1].dom.extent.value - stride
    return 4 * prod(d.value for d in (shape[1], *shape[3:])), stride, more


def _fill(sch, data, at, stride, lanes):
    """Rows without a condition inside, zeros first. Neighbours go to planes of their own: compilers make two vectors of
    two by shuffling them. Whole planes, as an iteration of rows is then seen to write all that it reads."""
    if stride > 1:
        sch.transform_layout(data, ("write", 0), lambda n, c, y, x: (n, c, y, x % stride, x // stride),
                             assume_injective_transform=True)
        sch.storage_align(data, 0, 3, lanes, 0)
    sch.compute_at(data, at, preserve_unit_loops=True)
    row = sch.get_loops(data)[-1]
    zeros = sch.decompose_padding(data, row) if sch.can_decompose_padding(data, row) else None
    if stride == 1:
        return
    _, plane = sch.split(sch.get_loops(data)[-1], [None, stride])
    sch.unroll(plane)
    if zeros:
        column, plane = sch.split(sch.get_loops(zeros)[-1], [None, stride])
        sch.reorder(plane, column)


@dataclass(frozen=True)
class Image(Kernel):
    """A convolution of channels x rows x vectors of columns: the input's vectors are loaded for all channels of a tile,
    each weight for all its vectors. column: the Window whose data registers hold. row_bytes, stride, more: of the
    input, where it is copied, in bands of a plan's block of rows of the output: bytes of a row, rows for one of the
    output, and those that the first one sees besides. work: FMAs."""

    channels: int
    rows: int
    vectors: int
    column: Window | None = None
    row_bytes: int = 0
    stride: int = 1
    more: int = 0
    work: int = 0

    rule = "columns"

    def candidates(self, target):
        """Tiles that divide the output."""
        most = min(target.registers, target.accumulators or target.registers)
        found = (Tile(v, r, 1, c) for c in divisors(self.channels) for r in divisors(self.rows)
                 for v in divisors(self.vectors))
        fitting = (t for t in found if t.accumulators <= most and t.accumulators + (
            self.column.seen(t.rows) * t.vectors + 1 if self.column else min(t.channels, t.rows * t.vectors))
            < target.registers)
        for tile in sorted(fitting, key=lambda t: (t.rows, t.channels)):
            yield Plan(self.rule, tile=tile)

    def cost(self, plan, target):
        """Cycles for an FMA in a step, or in the steps over the rows of the kernel."""
        tile, column = plan.tile, self.column
        points, across = tile.rows * tile.vectors, target.cost("columns.across")
        if column:
            return column.cycles(target, points, across * column.seen(tile.rows) * tile.vectors + column.taps) / (
                points * column.taps)
        loads = tile.channels + across * points
        return (tiles.step(target, tile.channels, points) + target.cost("tile.load") * loads) / tile.accumulators

    def complete(self, plan, target):
        rows, most = plan.tile.rows, target.cost("columns.l1") * target.l1_bytes
        band = max((b for b in range(rows, self.rows + 1, rows) if self.rows % b == 0
                    and (b * self.stride + self.more) * self.row_bytes <= most), default=rows)
        return plan.replace(block=plan.block or (band if self.row_bytes else rows),
                            threads=plan.threads or shared(target, self.work, "bands of rows"))
