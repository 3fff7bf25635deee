"""Dense convolutions in blocked layout: a tile of sums, vectors of channels x points, stays in registers over the whole
reduction."""
from __future__ import annotations

from functools import partial
from math import prod

from ...arith import Analyzer
from ...expr import Call, IntImm, is_const_int
from ...node import collect, structural_equal
from ...relax.arithmetic.dot_product import WORD
from ...tir.hints import PAIRS, PREFETCH, PREFETCH_AHEAD
from ...tir.intrinsics import INTEGER_DOTS
from ..blocks import uses
from ..plan import Match
from . import conv_tiles
from .blocks import blocks, find_block, iter_vars, operand_loads, static_extent, vectorizes
from .registers import anchored, by_element, hold, in_registers, lane_by_lane, ranks, steps, turn_of
from .threads import parallel_nest

NAMES = ("conv2d_blocked", "conv2d_packed", "conv2d_gathered")


def blocked_convolution(sch, target):
    """A dense convolution whose output is in blocked layout, and whose input may be:

        for bands of rows, channels, rows, columns:
            acc = 0;  for ic, kh, kw, ii: for points: for vectors: acc += broadcast(x) * w;  epilogue(acc)

    What makes the data of a pointwise one is computed for each band, before its channels.
    """
    before = _prologue(sch) if target.lanes > 1 else ()
    found = anchored(sch, _fits, before) if target.lanes > 1 else None
    if found is None:
        return None
    conv, epilogue = sch.get_block(found[0]), found[1]
    if len(sch.get_loops(epilogue)) != 5:  # the result is unpacked
        return None
    prologue = [sch.get_block(name) for name in before]
    if _is_pointwise(sch.get(conv)) and not any(b.strides for b in sch.func.buffers):
        _join_rows(sch, conv, epilogue, *prologue)
    groups = int(sch.get(conv).annotations.get("groups", 1))
    shape = shape_of(sch, target, conv, epilogue, groups, made=bool(prologue))
    return Match(shape, partial(_apply, sch, conv, epilogue, shape, prologue))


def _apply(sch, conv, epilogue, shape, prologue, plan, target):
    loops, by_rows = tile(sch, target, conv, epilogue, shape, plan)
    if prologue:
        _compute_before(sch, prologue[0], loops[1])
        loops = loops[:2]
    parallel_nest(sch, target, loops, shape.work, by_rows)


def _prologue(sch):
    """The name of the block that makes the data of a pointwise convolution, in vectors; none where that is given."""
    name = find_block(sch, lambda block: _fits(block) and _is_pointwise(block))
    if name is None:
        return ()
    data = _operands(sch.get(sch.get_block(name)))[0]
    return tuple(b.name_hint for b in blocks(sch) if b.writes[0].buffer is data and b.init is None
                 and len(b.iter_vars) == 5 and vectorizes(b, b.iter_vars[-1].var))


def _compute_before(sch, prologue, band):
    """The data of a band, in vectors."""
    sch.compute_at(prologue, band, preserve_unit_loops=True)
    sch.set_scope(prologue, 0, "local")
    sch.vectorize(sch.get_loops(prologue)[-1])


def _fits(block):
    return block.name_hint in NAMES and ranks(block) in ((5, 3), (5, 4))


def _is_pointwise(block):
    """Each point of the output is made of the same point of the input: rows that lie in a row may be one."""
    height, width = (iv.dom.extent for iv in iter_vars(block, "spatial")[2:4])
    kernel = [iv.dom.extent for iv in iter_vars(block, "reduce")[1:3]]
    return (isinstance(width, IntImm) and not is_const_int(height, 1) and all(is_const_int(k, 1) for k in kernel)
            and all(map(structural_equal, _operands(block)[0].shape[2:4], (height, width))))


def _operands(block):
    """The buffers (input, weights) of a convolution: the same weights serve all rows. Pools have no weights."""
    row = iter_vars(block, "spatial")[2].var
    loads = operand_loads(block)
    data = next((load for load in loads if uses(load.indices, {row})), loads[0])
    weights = next((load.buffer for load in loads if load.buffer is not data.buffer), None)
    return data.buffer, weights


def _join_rows(sch, conv, epilogue, *prologue):
    """One dimension of rows and columns, which tiles of points cut into fewer and more even pieces."""
    width = iter_vars(sch.get(conv), "spatial")[3].dom.extent.value
    for block in (conv, epilogue, *prologue):
        sch.transform_block_layout(block, lambda n, c, y, x, *rest: (n, c, y * width + x, *rest))
    for block in (conv, *prologue):
        sch.transform_layout(block, ("write", 0), lambda n, c, y, x, o: (n, c, y * width + x, o))


def shape_of(sch, target, conv, epilogue, groups, **more):
    """The Shape of a convolution, from its blocks. more: other fields of the Shape."""
    block = sch.get(conv)
    data, weights = _operands(block)
    _, channels, *points, _ = (static_extent(sch, loop) for loop in _own_loops(sch, epilogue))
    return conv_tiles.Shape(channels, points[0], *(points[1:2] or [1]),
                            steps=prod(_static(iv.dom.extent) for iv in iter_vars(block, "reduce")),
                            weight_bytes=_bytes(weights, weights.shape) if weights else 0,
                            input_bytes=_bytes(data, data.shape[1:]), groups=groups, work=steps(block),
                            by_element=by_element(target, block)[0].by_element, by_lane=_by_lane(target, block),
                            in_pairs=_by_lane(target, block) and _pairs_fit(target, block), **more)


def _in_pairs(sch, reduce):
    """(loops over terms, the unrolled one inside of them over two blocks of channels), whose words meet those of two
    points and two channels of the output in an instruction (MatrixDots)."""
    blocks, *reduce = reduce
    blocks, pair = sch.split(blocks, [None, 2])
    sch.unroll(pair)
    sch.annotate(blocks, PAIRS, 1)
    return [blocks, *reduce], [pair]


def _pairs_fit(target, block):
    """Whether an instruction multiplies words of two blocks of channels, and there are pairs of these."""
    *_, row, column, _ = iter_vars(block, "spatial")
    channels = iter_vars(block, "reduce")[0].dom.extent
    return _dot_of(block) in target.matrix_dots and isinstance(channels, IntImm) and channels.value % 2 == 0 and (
        not is_const_int(column.dom.extent, 1))


def _dot_of(block):
    """The name of the dot products of a convolution of integers; None for another one."""
    names = (call.op.removeprefix("tir.") for call in collect(block.body, Call))
    return next((name for name in names if name in INTEGER_DOTS), None)


def _by_lane(target, block):
    """Whether dot products take one lane of a vector of words of points that follow one another (LaneIndexedDot)."""
    word = next((call.args[0] for call in collect(block.body, Call) if call.op == "tir.word"), None)
    if word is None or _dot_of(block) not in target.dots_by_lane:
        return False
    *_, point, _ = spatial = iter_vars(block, "spatial")
    joined = len(spatial) == 4  # points of the output are those of the input
    return is_const_int(word.buffer.shape[-1], WORD) and (
        joined or Analyzer().step(word.indices[-2], point.var) == 1)


def _own_loops(sch, block, split=0):
    """The loops over the block's own iteration variables, inside the loops that it was moved to. split: how many of
    them were split in two."""
    return sch.get_loops(block)[-len(sch.get(block).iter_vars) - split:]


def _bytes(buffer, shape):
    return buffer.dtype.bytes * prod(map(_static, shape))


def _static(extent):
    """An extent; a large number for a symbolic one."""
    return extent.value if isinstance(extent, IntImm) else 1 << 12


def tile(sch, target, conv, epilogue, shape, plan, phases=(), held=()):
    """Tile the output, compute the convolution in each tile, with sums in registers. Returns the loops whose iterations
    threads may share, outermost first: images, bands of rows, channels and rows; and whether each keeps its rows.

    phases: loops over interleaved parts of the output, each of which has tiles of its own; they stand after the points.
    held: buffers of which registers hold what the iterations of the innermost loop of the reduction share.
    """
    block = sch.get(conv)
    target, operand = by_element(target, block)
    n, c, *points, lane = _own_loops(sch, epilogue, len(phases))
    points = points[:len(points) - len(phases)]
    co, ci = sch.split(c, [None, plan.tile.vectors])
    bands = [1, None] if plan.block == shape.height else [None, plan.block // plan.tile.rows]
    band, yo, yi = sch.split(points[0], [*bands, plan.tile.rows])
    outer, inner = [yo], [yi]
    for x in points[1:]:  # none where rows were joined
        xo, xi = sch.split(x, [None, plan.tile.columns])
        outer, inner = [yo, xo], [yi, xi]
    sch.reorder(n, band, co, outer[0], *phases, *outer[1:], *inner, ci, lane)
    sch.compute_at(conv, outer[-1], preserve_unit_loops=True)
    sch.set_scope(conv, 0, "local")
    in_registers(sch, (*inner, ci), lane)
    loops = sch.get_loops(conv)[-len(block.iter_vars):]
    spatial = len(iter_vars(block, "spatial"))
    _, oo, *points, oi = loops[:spatial]
    reduce, lane = lane_by_lane(sch, target, loops[spatial:], operand)
    if shape.in_pairs:
        reduce, lane = _in_pairs(sch, reduce)
    sch.reorder(*reduce, *lane, *points, oo, oi)
    in_registers(sch, (*points, oo), oi)
    if held:
        sch.unroll(reduce.pop())
        hold(sch, conv, reduce[-1], held)
    sch.decompose_reduction(conv, reduce[0])
    once = not lane and is_const_int(sch.get(reduce[-1]).extent, 1)  # asked for once, inside of the iteration
    turn = turn_of(sch, target, conv, reduce)
    turn = reduce[-1] if once else turn
    if shape.weight_bytes > target.l1_bytes:
        weights = [_operands(block)[1].name]
        if not target.cost("tile.small"):
            sch.annotate(turn, PREFETCH_AHEAD, weights)
        if conv_tiles.streams(target, shape, plan):
            sch.annotate(turn, PREFETCH, weights)
    by_rows = plan.block == shape.height and shape.weight_bytes <= target.l2_bytes  # each thread reads all weights
    return [n, band, co, yo], by_rows
