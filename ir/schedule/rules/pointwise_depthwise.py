"""A 1x1 convolution and the depthwise convolution that alone reads it, as one kernel: a band of rows of some channels
stays in L2 until the other has read it."""
from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import prod

from ...arith import Analyzer
from ...expr import is_const_int
from ...tir.hints import WHOLE
from .. import plan as plans
from ..blocks import uses
from ..plan import Kernel, Match, Plan, shared
from ..primitives.sample import divisors
from . import conv_tiles
from .blocked_convolution import tile
from .blocks import PADDED, find_block, iter_vars, operand_loads, static, static_extent, store_border
from .registers import anchored, by_element, ranks, steps
from .threads import parallel_nest
from .tiles import FLOAT
from .windows import Windows, tile_windows, windows_of

DEPTHWISE, POINTWISE = "depthwise_blocked", "conv2d_blocked"


@dataclass(frozen=True)
class Pair(Kernel):
    """How many vectors of channels (a plan's iteration) and rows of the result (its block) to take at a time.

    conv: the Shape of the 1x1 convolution; height: rows of the result, each of which takes `stride` rows of what
    lies between and, at the end, `more` that the next one takes too; middle_bytes: of a row of one vector of channels
    of that; data_bytes: of a row of all channels that it is made of. depthwise: the Windows of the other convolution,
    where there are loops yet."""

    conv: conv_tiles.Shape
    height: int
    stride: int
    more: int
    middle_bytes: int
    data_bytes: int
    depthwise: Windows | None = None

    rule = "pointwise_depthwise"

    def candidates(self, target):
        for vectors in divisors(self.conv.blocks):
            if vectors <= conv_tiles.MOST_VECTORS:
                yield Plan(self.rule, turn=vectors)

    def cost(self, plan, target):
        """As tiles of the 1x1 convolution like it."""
        own = self.part(plan.turn)
        return self.conv.blocks // plan.turn * conv_tiles.cycles(target, plans.choose(own, target).tile, own)

    def complete(self, plan, target):
        """As many rows as L2 holds, of at least two bands where threads share them."""
        def fits(band):
            own = self.rows(band) * plan.turn * self.middle_bytes
            every = own + self.rows(band) * self.data_bytes
            return own <= target.cost("band.most_bytes") and every <= target.cost("band.l2") * target.l2_bytes

        bands = [b for b in divisors(self.height) if fits(b) and not (target.parallel and b == self.height)]
        plan = plan.replace(block=plan.block or max(bands, default=1))
        if self.depthwise is None:
            return plan
        own = replace(self.part(plan.turn), height=self.rows(plan.block), in_rows=True, work=0)
        stages = own, replace(self.depthwise, band=plan.block)
        return plan.replace(stages=plan.stages or tuple(plans.choose(stage, target) for stage in stages),
                            threads=plan.threads or shared(target, self.conv.work, "bands and channels"))

    def part(self, vectors):
        """The part of the 1x1 convolution that makes so many vectors of channels."""
        return replace(self.conv, blocks=vectors, weight_bytes=self.conv.weight_bytes * vectors // self.conv.blocks)

    def rows(self, band):
        """Rows of the intermediate tensor that so many rows of the result need."""
        return band * self.stride + self.more


def pair_of(image, middle, data, terms, height, stride, more):
    """A Pair by the shapes of tensors: the 1x1 convolution's result, that with its border, and its data. terms: of its
    sums."""
    (_, blocks, rows, columns, lanes), (_, _, _, *middle_row), (_, channels, _, *row) = (
        map(static, shape) for shape in (image, middle, data))
    conv = conv_tiles.Shape(blocks, rows, columns, terms, FLOAT * terms * blocks * lanes,
                            FLOAT * channels * rows * prod(row))
    return Pair(conv, height, stride, more, FLOAT * prod(middle_row), FLOAT * channels * prod(row))


def is_profitable(target, pair):
    """Whether it is faster to make bands of what lies between when they are read than to store all of it and read it
    again: bands make some rows twice, and take vectors of channels that divide all of them."""
    plan = plans.choose(pair, target)
    whole = pair.rows(pair.height)
    middle = whole * pair.middle_bytes * pair.conv.blocks
    apart = conv_tiles.cycles(target, plans.choose(pair.conv, target).tile,
                              pair.conv) + 2 * middle / target.cost("beyond_l2_read")
    made = pair.height // plan.block * pair.rows(plan.block) / whole
    least = target.l2_bytes * (1 if target.parallel else target.cost("band.least"))
    return middle > least and made * pair.cost(plan, target) < apart


def pointwise_depthwise(sch, target):
    """Both convolutions in blocked layout, the second of any size and stride, with what is between and after them:

        for bands of rows, channels:
            border of middle = 0
            for rows, columns:  acc = 0;  for ic, ii: for points: acc += broadcast(x) * w;  middle = epilogue(acc)
            for rows, columns:  acc = 0;  for kh, kw: for points: acc += middle * w;  epilogue(acc)
    """
    parts = (find_block(sch, lambda b, n=name: _is_part(b, n)) for name in (DEPTHWISE, POINTWISE))
    if target.lanes == 1 or not all(parts):
        return None
    conv, depthwise = sch.get_block(POINTWISE), sch.get_block(DEPTHWISE)
    read = [sch.get(block).name_hint for block in sch.get_producers(depthwise)]
    found = len(read) == 1 and anchored(sch, lambda block: _is_part(block, DEPTHWISE), keep={POINTWISE, *read})
    if not found:
        return None
    middle = sch.cache_write(conv, 0, "local") if read == [POINTWISE] else sch.get_block(read[0])
    epilogue = found[1]
    windows = windows_of(sch, target, depthwise, epilogue, static_extent(sch, sch.get_loops(epilogue)[1]))
    windows = replace(windows, conv=replace(windows.conv, work=0))
    pair = _pair(sch.get(conv), sch.get(middle), sch.get(depthwise))
    by = by_element(target, sch.get(conv))[0].by_element
    pair = replace(pair, depthwise=windows, conv=replace(pair.conv, by_element=by, work=steps(sch.get(conv))))
    return Match(pair, partial(_apply, sch, conv, middle, depthwise, epilogue, pair))


def _apply(sch, conv, middle, depthwise, epilogue, pair, plan, target):
    rows, windows = plan.stages
    (n, bands, channels, _), _ = tile_windows(sch, target, depthwise, epilogue, pair.depthwise, windows)
    channels, _ = sch.split(channels, [None, plan.turn])
    sch.compute_at(middle, channels, preserve_unit_loops=True)
    sch.set_scope(middle, 0, "local")
    if sch.get(middle).name_hint == PADDED:
        for side in store_border(sch, middle):
            sch.vectorize(sch.get_loops(side)[-1])
    own = replace(pair.part(plan.turn), height=pair.rows(plan.block))
    (*_, row), _ = tile(sch, target, conv, middle, own, rows)
    sch.annotate(row, WHOLE, 0)
    parallel_nest(sch, target, [n, bands, channels], pair.conv.work)


def _is_part(block, name):
    """Whether a block is the depthwise convolution or the 1x1 convolution, by its name, with channels in vectors."""
    if block.name_hint != name or block.init is None:
        return False
    pointwise = all(is_const_int(iv.dom.extent, 1) for iv in iter_vars(block, "reduce")[1:3])
    return ranks(block) == (5, 2) if name == DEPTHWISE else ranks(block) == (5, 4) and pointwise


def _pair(conv, middle, depthwise):
    y, kh = iter_vars(depthwise, "spatial")[2], iter_vars(depthwise, "reduce")[0]
    row = _of_rows(depthwise).indices[2]
    stride, dilation = (Analyzer().step(row, v) for v in (y.var, kh.var))
    return pair_of(conv.writes[0].buffer.shape, middle.writes[0].buffer.shape, _of_rows(conv).buffer.shape,
                   prod(static(iv.dom.extent) for iv in iter_vars(conv, "reduce")), static(y.dom.extent), stride,
                   dilation * (static(kh.dom.extent) - 1) + 1 - stride)


def _of_rows(conv):
    """The load of a convolution's data, whose row index depends on the row of the result."""
    y = iter_vars(conv, "spatial")[2].var
    return next(load for load in operand_loads(conv) if uses(load.indices, {y}))
