"""A 1x1 convolution and the depthwise convolution that alone reads it, as one kernel: a band of rows of some channels
stays in the second cache until the other has read it."""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from ...arith import Analyzer
from ...expr import is_const_int
from ...tir.hints import WHOLE
from ..blocks import uses
from ..primitives.sample import divisors
from . import conv_tiles
from .blocked_convolution import shape_of, tile
from .blocks import PADDED, find_block, iter_vars, operand_loads, static, static_extent, store_border
from .registers import anchored, ranks, steps
from .threads import parallel_nest
from .tiles import FLOAT
from .windows import tile_windows

DEPTHWISE, POINTWISE = "depthwise_blocked", "conv2d_blocked"
ROOM = 3 / 4  # of the second cache, for a band of what lies between, and of the data that it is made of
# How many times the second cache's size what lies between must be, where one thread hides loads and stores behind
# multiply-adds; threads also spare each other what would pass between their caches.
LEAST_SIZES = 2
MOST_BYTES = 768 << 10  # of a band of what lies between: a thread has it on its stack, twice if its last turn is apart


@dataclass(frozen=True)
class Pair:
    """conv: the Shape of the 1x1 convolution; height: rows of the result, each of which takes `stride` rows of what
    lies between and, at the end, `more` that the next one takes too; middle_bytes: of a row of one vector of channels
    of that; data_bytes: of a row of all channels that it is made of."""

    conv: conv_tiles.Shape
    height: int
    stride: int
    more: int
    middle_bytes: int
    data_bytes: int

    def rows(self, band):
        """Of what lies between, for so many rows of the result."""
        return band * self.stride + self.more


def pair_of(image, middle, data, terms, height, stride, more):
    """A Pair by the shapes of tensors: the 1x1 convolution's result, that with its border, and its data. terms: of its
    sums."""
    (_, blocks, rows, columns, lanes), (_, _, _, *middle_row), (_, channels, _, *row) = (
        map(static, shape) for shape in (image, middle, data))
    conv = conv_tiles.Shape(blocks, rows, columns, terms, FLOAT * terms * blocks * lanes,
                            FLOAT * channels * rows * prod(row))
    return Pair(conv, height, stride, more, FLOAT * prod(middle_row), FLOAT * channels * prod(row))


def choose(cpu, pair):
    """(vectors of channels, rows of the result) to take at a time: as many vectors as tiles of the 1x1 convolution like
    best; as many rows as the cache has room for, of at least two bands where threads share them."""
    vectors = min((v for v in divisors(pair.conv.blocks) if v <= conv_tiles.MOST_VECTORS),
                  key=lambda v: (_cycles(cpu, pair.conv, v), v))

    def fits(band):
        own = pair.rows(band) * vectors * pair.middle_bytes
        return own <= MOST_BYTES and own + pair.rows(band) * pair.data_bytes <= ROOM * cpu.l2_bytes

    bands = [b for b in divisors(pair.height) if fits(b) and not (cpu.parallel and b == pair.height)]
    return vectors, max(bands, default=1)


def pays(cpu, pair):
    """Whether it is faster to make bands of what lies between when they are read than to store all of it and read it
    again: bands make some rows twice, and take vectors of channels that divide all of them."""
    vectors, band = choose(cpu, pair)
    whole = pair.rows(pair.height)
    middle = whole * pair.middle_bytes * pair.conv.blocks
    apart = conv_tiles.cycles(cpu, conv_tiles.choose(cpu, pair.conv), pair.conv) + 2 * middle / cpu.cost("far_read")
    made = pair.height // band * pair.rows(band) / whole
    least = cpu.l2_bytes * (1 if cpu.parallel else LEAST_SIZES)
    return middle > least and made * _cycles(cpu, pair.conv, vectors) < apart


def _cycles(cpu, conv, vectors):
    """Of a 1x1 convolution that makes so many vectors of channels at a time."""
    own = _of_vectors(conv, vectors)
    return conv.blocks // vectors * conv_tiles.cycles(cpu, conv_tiles.choose(cpu, own), own)


def _of_vectors(conv, vectors):
    """The part of a 1x1 convolution that makes so many vectors of channels."""
    return replace(conv, blocks=vectors, weight_bytes=conv.weight_bytes * vectors // conv.blocks)


def pointwise_depthwise(sch, cpu):
    """Both convolutions in blocked layout, the second of any size and stride, with what is between and after them:

        for bands of rows, channels:
            border of middle = 0
            for rows, columns:  acc = 0;  for ic, ii: for points: acc += broadcast(x) * w;  middle = epilogue(acc)
            for rows, columns:  acc = 0;  for kh, kw: for points: acc += middle * w;  epilogue(acc)
    """
    if cpu.lanes == 1 or not all(find_block(sch, lambda b, n=name: _is_part(b, n)) for name in (DEPTHWISE, POINTWISE)):
        return False
    conv, depthwise = sch.get_block(POINTWISE), sch.get_block(DEPTHWISE)
    read = [sch.get(block).name_hint for block in sch.get_producers(depthwise)]
    found = len(read) == 1 and anchored(sch, lambda block: _is_part(block, DEPTHWISE), keep={POINTWISE, *read})
    if not found:
        return False
    middle = sch.cache_write(conv, 0, "local") if read == [POINTWISE] else sch.get_block(read[0])
    pair, epilogue = _pair(sch.get(conv), sch.get(middle), sch.get(depthwise)), found[1]
    vectors, band = choose(cpu, pair)
    shape = shape_of(sch, depthwise, epilogue, static_extent(sch, sch.get_loops(epilogue)[1]))
    (n, bands, channels, _), _ = tile_windows(sch, cpu, depthwise, epilogue, shape, band)
    channels, _ = sch.split(channels, [None, vectors])
    sch.compute_at(middle, channels, preserve_unit_loops=True)
    sch.set_scope(middle, 0, "local")
    if read == [PADDED]:
        for side in store_border(sch, middle):
            sch.vectorize(sch.get_loops(side)[-1])
    own = replace(_of_vectors(pair.conv, vectors), height=pair.rows(band))
    (*_, row), _ = tile(sch, cpu, conv, middle, own, _in_rows)
    sch.annotate(row, WHOLE, 0)
    parallel_nest(sch, cpu, [n, bands, channels], steps(sch.get(conv)))
    return True


def _is_part(block, name):
    """Whether a block is the depthwise convolution or the 1x1 convolution, by its name, with channels in vectors."""
    if block.name_hint != name or block.init is None:
        return False
    pointwise = all(is_const_int(iv.dom.extent, 1) for iv in iter_vars(block, "reduce")[1:3])
    return ranks(block) == (5, 2) if name == DEPTHWISE else ranks(block) == (5, 4) and pointwise


def _in_rows(cpu, shape):
    """Tiles of one row: whether a row lies inside of the image is then asked once for each."""
    return replace(conv_tiles.choose(cpu, shape), rows=1, band=shape.height)


def _pair(conv, middle, depthwise):
    y, kh = iter_vars(depthwise, "spatial")[2], iter_vars(depthwise, "reduce")[0]
    row = _of_rows(depthwise).indices[2]
    stride, dilation = (Analyzer().step(row, v) for v in (y.var, kh.var))
    return pair_of(conv.writes[0].buffer.shape, middle.writes[0].buffer.shape, _of_rows(conv).buffer.shape,
                   prod(static(iv.dom.extent) for iv in iter_vars(conv, "reduce")), static(y.dom.extent), stride,
                   dilation * (static(kh.dom.extent) - 1) + 1 - stride)


def _of_rows(conv):
    """What a convolution loads of its data: another row of it for each row of the result."""
    y = iter_vars(conv, "spatial")[2].var
    return next(load for load in operand_loads(conv) if uses(load.indices, {y}))
