"""The algorithm of each convolution: direct, or Winograd with tiles of 2 to 6 results, by a model of their time. 1x1
convolutions and Winograd's products may be by any arithmetic that the processor has (relax/arithmetic/).

Only those are chosen whose arithmetics keep the accuracy that is asked for (relax/accuracy.py).
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..relax import accuracy
from ..relax.accuracy import FLOAT32, STRICT, admits, is_whole
from ..relax.arithmetic import ARITHMETICS, LANES, special
from ..relax.block_builder import call_op
from ..relax.expr import Constant, RelaxCall
from ..relax.ops.contraction import POINTWISE
from ..relax.ops.conv_layouts import form_of
from ..relax.ops.conv_winograd import pack_transformed
from ..relax.ops.pointwise import kernel_matrix
from ..relax.ops.winograd import KERNEL, KERNELS, tiles_of, transform_blocks, whole_blocks
from ..schedule.plan import choose
from ..schedule.rules import conv_tiles, winograd_blocks
from ..schedule.rules.arithmetics import schedule_of
from ..target import Target
from .graph import GraphRewriter, MadeOnce, leaves, node_name, on_main

DIRECT = "direct"
WINOGRAD = {f"winograd{tile}": tile for tile in sorted({tile for kernel in KERNELS for tile in tiles_of(kernel)})}
CONVOLUTION = "nn.conv2d"
CONVOLUTIONS = (CONVOLUTION, "nn.conv2d_gathered")  # the latter are direct
SCALED = {row.name: row for row in special() if row.scaling}  # what convolutions may be made by
WINOGRAD_BY = {name: {f"{winograd}_{name}": tile for winograd, tile in WINOGRAD.items()} for name in SCALED}
ALGORITHMS = (DIRECT, *SCALED, *WINOGRAD, *(name for names in WINOGRAD_BY.values() for name in names))
SECOND, THIRD = 1, 2  # caches that keep weights


@dataclass(frozen=True)
class ConvLayer:
    """A convolution of one image; height and width are the output's. plain: its input is not blocked. finite: its
    weights are all numbers."""

    in_channels: int
    out_channels: int
    height: int
    width: int
    kernel: tuple = (KERNEL, KERNEL)
    strides: tuple = (1, 1)
    dilation: tuple = (1, 1)
    groups: int = 1
    plain: bool = False
    finite: bool = True

    def is_by(self, target, row):
        """Whether its products may be made by an arithmetic with operands of its own, for blocks of channels."""
        return (row.needs(target) and target.lanes == LANES and not self.plain and self.groups == 1 and self.finite
                and self.in_channels >= target.cost(schedule_of(row).least))

    def has_winograd(self, lanes):
        """Whether it is of the kind that Winograd's algorithm computes, in blocks of so many channels: groups are of
        whole blocks."""
        whole = self.groups == 1 or all(c % (self.groups * lanes) == 0 for c in (self.in_channels, self.out_channels))
        return (lanes > 1 and whole and not self.plain and self.kernel[0] == self.kernel[1] in KERNELS
                and self.strides == self.dilation == (1, 1))


@dataclass(frozen=True)
class Fold:
    """A convolution of stride s as one of stride 1 over s * s times as many channels, the phases of its input: its
    kernel, the padding, and at which row and column the given kernel begins in the new one's s * kernel of them.
    space_to_depth makes them of a plain input; of a blocked one they are blocks that are read where they lie."""

    stride: int
    kernel: int
    padding: tuple
    begin: tuple

    @staticmethod
    def of(strides, kernel, padding, size, outputs):
        """The Fold of a convolution of an image of `size` with `outputs` points; None where there is none."""
        s, *others = set(strides)
        before = tuple(-(-p // s) for p in padding[:2])
        begin = tuple(b * s - p for b, p in zip(before, padding))
        if others or s == 1:
            return None
        r = max(-(-(b + k) // s) for b, k in zip(begin, kernel))
        after = tuple(out + r - 1 - b - -(-n // s) for out, b, n in zip(outputs, before, size))
        return Fold(s, r, before + after, begin) if all(0 <= p < r for p in before + after) else None

    def layer(self, layer):
        """The ConvLayer that it makes of one."""
        return replace(layer, in_channels=layer.in_channels * self.stride ** 2, kernel=(self.kernel,) * 2,
                       strides=(1, 1), plain=False)

    def weights(self, w, lanes):
        """Weights of a plain input [OB, I, KH, KW, o] -> [OB, IB, r, r, i, o] for the channels of space_to_depth, in
        blocks of `lanes`, or one block of all; of a blocked one [OB, IB, KH, KW, i, o] -> [OB, IB * s * s, r, r, o, o].
        """
        if w.ndim == 6:
            return self._phases(whole_blocks(w))
        w = self._phases(w)
        inner = min(lanes, w.shape[1])
        w = np.pad(w, ((0, 0), (0, -w.shape[1] % inner), *((0, 0),) * 3))
        w = w.reshape(len(w), -1, inner, *w.shape[2:])
        return np.ascontiguousarray(np.moveaxis(w, 2, 4))

    def _phases(self, w):
        """[OB, I, KH, KW, ...] -> [OB, I * s * s, r, r, ...]"""
        s, r, (out_blocks, channels, *kernel) = self.stride, self.kernel, w.shape[:4]
        rest = w.shape[4:]
        around = ((b, s * r - b - k) for b, k in zip(self.begin, kernel))
        w = np.pad(w, ((0, 0), (0, 0), *around, *((0, 0) for _ in rest)))
        w = np.moveaxis(w.reshape(out_blocks, channels, r, s, r, s, *rest), (3, 5), (2, 3))
        return w.reshape(out_blocks, channels * s * s, r, r, *rest)


# ---------------------------------------------------------------- the model

def predict(layer: ConvLayer, target: Target, fold: Fold | None = None, resident=0):
    """{algorithm: seconds} that one core needs for a layer in blocked layout, of the algorithms that fit. fold: how a
    strided layer becomes one of stride 1. resident: the cache that keeps the weights between runs, SECOND or THIRD
    (which differs from memory for inner products alone); 0: none."""
    third, resident = resident == THIRD, resident == SECOND
    blocks = [-(-channels // target.lanes) for channels in (layer.in_channels // layer.groups, layer.out_channels)]
    rows, columns = ((s - 1) * stride + k for s, stride, k in zip((layer.height, layer.width), layer.strides,
                                                                  layer.kernel))
    inputs = blocks[0] * layer.groups * rows * columns * target.lanes * 4
    outputs = blocks[1] * layer.height * layer.width * target.lanes * 4
    channels = layer.in_channels // layer.groups if layer.plain else blocks[0] * target.lanes
    cycles = {DIRECT: _direct(target, layer, channels, blocks[1], inputs, resident)}
    weights = 0 if resident else 4 * channels * layer.out_channels
    streamed = weights / target.cost("l3_read" if third else "stream.read")
    for name, row in SCALED.items():
        if layer.kernel == (1, 1) and layer.is_by(target, row):
            size = layer.height, layer.width
            cycles[name] = schedule_of(row).point_cycles(target, size, channels, layer.out_channels, streamed)
    dense = fold.layer(layer) if fold else layer
    if dense.has_winograd(target.lanes):
        channels, folding = dense.in_channels // dense.groups, 0
        in_blocks = -(-channels // target.lanes)
        if layer.plain:
            folding = target.cost("fold") * in_blocks * (layer.height + fold.kernel) * (layer.width + fold.kernel)
        for tile in tiles_of(dense.kernel[0]):
            tiles = (-(-size // tile) for size in (layer.height, layer.width))
            parts = winograd_blocks.Layer(tile, in_blocks, blocks[1], *tiles, target.lanes, dense.kernel[0],
                                          min(channels, target.lanes), resident, dense.groups)
            cycles[f"winograd{tile}"] = winograd_blocks.cycles(target, parts) + folding
            for name, row in SCALED.items():
                if dense.is_by(target, row) and dense.in_channels % LANES == 0:
                    time = schedule_of(row).plane_cycles(target, parts)
                    cycles[f"winograd{tile}_{name}"] = time and time + folding
    streamed = 0 if resident else (inputs + outputs) / target.cost("beyond_l2_read")
    return {name: (c + streamed) / target.cost("clock") for name, c in cycles.items() if c is not None}


def arithmetics(algorithm, layer, fold=None):
    """The arithmetics of a layer in an algorithm, as rows of relax/accuracy.py."""
    name, _, by = algorithm.partition("_")
    tile = WINOGRAD.get(name)
    row = SCALED.get(by if tile else algorithm)
    made = (row,) if row else ()
    kernel = fold.kernel if fold else layer.kernel[0]
    return (accuracy.winograd(tile, kernel), *made) if tile else made or (ARITHMETICS["fma"],)


def _direct(target, layer, channels, out_blocks, inputs, resident):
    steps = channels * layer.kernel[0] * layer.kernel[1]
    weights = steps * out_blocks * target.lanes * 4
    shape = conv_tiles.Shape(out_blocks, layer.height, layer.width, steps, weights, inputs)
    streamed = 0 if resident else weights / target.cost("beyond_l2_read")
    computed = conv_tiles.cycles(target, choose(shape, target).tile, shape)
    return max(computed, streamed) + (1 - target.cost("stream.hidden")) * streamed


def fastest(layer: ConvLayer, target: Target, fold: Fold | None = None, resident=0, wanted=FLOAT32):
    """The simplest algorithm that is predicted to be about as fast as any; direct unless another is clearly faster.
    wanted: the accuracy that its arithmetics must keep.

    Of Winograd's, by each arithmetic, the smallest tile is taken that is about as fast as larger ones: it rounds less,
    and has fewer weights, which in a whole network come from farther away than where a layer is measured alone. The
    next tile has few more; so have all where the model knows how fast weights come from memory."""
    times = {name: time for name, time in predict(layer, target, fold, resident).items()
             if admits(wanted, arithmetics(name, layer, fold))}
    shares = {name: target.cost(schedule_of(row).share) for name, row in SCALED.items()}
    if all(time >= shares.get(name, target.cost("conv.profitable")) * times[DIRECT] for name, time in times.items()):
        return DIRECT
    following = target.cost("winograd.next_tile")
    close = following if target.cost("stream.beside") else target.cost("winograd.larger_tiles")
    kinds = (*(((name,), 1) for name in SCALED), (WINOGRAD, close),
             *((names, close) for names in WINOGRAD_BY.values()))
    smallest = (_smallest(_of(kind, times), close, following) for kind, close in kinds)
    return min(filter(None, smallest), key=times.get)


def _of(kind, times):
    return {name: time for name, time in times.items() if name in kind}


def _smallest(times, close, following):
    """The first algorithm, with the smallest tile, that takes at most `close` times as long as those with larger ones,
    `following` times as long as the next one; None of none."""
    names, times = list(times), list(times.values())
    return next((name for k, name in enumerate(names)
                 if all(times[k] <= (close if larger > k + 1 else min(close, following)) * times[larger]
                        for larger in range(k + 1, len(times)))), None)


# ---------------------------------------------------------------- the pass

@on_main
def choose_convolution(func, target, algorithms=None, wanted=FLOAT32):
    """Requires blocked layouts (ConvertLayout) and padding still in the convolutions. Ensures convolutions of
    stride 1 with kernels of KERNELS, dense or in groups of whole blocks, and strided ones that are such over the phases
    of their input, are nn.conv2d_winograd, their weights transformed, where that is predicted to be faster. Phases of a
    plain input are made by space_to_depth.

    algorithms: {name of a model node: one of ALGORITHMS}, which overrides the choice. wanted: the accuracy that
    arithmetics must keep; where it is strict nothing overrides the choice. Raises ValueError for a name that no
    convolution has, an algorithm that is none, or one that does not fit its layer.
    """
    return _Choose(target, dict(algorithms or {}), wanted).run(func)


def check_algorithms(algorithms, wanted=FLOAT32):
    """Raises ValueError unless it is a mapping of names to ALGORITHMS, direct ones where the accuracy is strict."""
    if not isinstance(algorithms, Mapping):
        raise ValueError(f"algorithms is a mapping of model nodes to {', '.join(ALGORITHMS)}, not {algorithms!r}")
    for name, algorithm in algorithms.items():
        if algorithm not in ALGORITHMS:
            raise ValueError(f"algorithms[{name!r}] must be one of {', '.join(ALGORITHMS)}, not {algorithm!r}")
        if wanted == STRICT and algorithm != DIRECT:
            raise ValueError(f"algorithms[{name!r}] is {algorithm!r}, which accuracy={STRICT!r} excludes: leave out "
                             "one of them")


class _Choose(GraphRewriter):
    def __init__(self, target, algorithms, wanted):
        check_algorithms(algorithms, wanted)
        self.target, self.algorithms, self.wanted = target, algorithms, wanted
        self.once = MadeOnce()
        self.chosen = {}  # (layer, its Fold) -> algorithm

    def begin(self, func):
        names = [node_name(b) for b in func.bindings if isinstance(b.value, RelaxCall) and b.value.op in CONVOLUTIONS]
        weights = {id(v): v.data.nbytes for b in func.bindings for v in leaves(b.value) if isinstance(v, Constant)}
        total = sum(weights.values())
        self.resident = (SECOND if total <= self.target.cost("winograd.resident") * self.target.l2_bytes else
                           THIRD if total <= self.target.l3_bytes else 0)
        for name in self.algorithms:
            if name not in names:
                raise ValueError(f"algorithms names {name!r}, which is no convolution of this network; it has "
                                 f"{', '.join(names) or 'none'}")

    def call(self, binding, call):
        if call.op not in CONVOLUTIONS or call.args[0].struct_info.dtype != "float32":
            return call
        (layer, fold), wanted = self._layer(call), self.algorithms.get(node_name(binding))
        fitting = predict(layer, self.target, fold) if layer and wanted else (DIRECT,)
        if wanted and wanted not in fitting:
            raise ValueError(f"algorithms[{node_name(binding)!r}] is {wanted!r}, but this convolution can only be "
                             f"{' or '.join(fitting)}: Winograd's algorithm is for square kernels of "
                             f"{KERNELS[0]} to {KERNELS[-1]} and stride 1 over a static image, with constant weights "
                             "that are not all integers, and blocked channels, whole blocks in each group, for strided "
                             "ones whose kernels, divided by the stride, are such; "
                             + "; ".join(schedule_of(row).where(self.target) for row in SCALED.values()))
        if layer is None or wanted == DIRECT:
            return call
        algorithm = wanted or self.chosen.get((layer, fold)) or self.chosen.setdefault(
            (layer, fold), fastest(layer, self.target, fold, self.resident, self.wanted))
        if algorithm == DIRECT:
            return call
        if algorithm in SCALED:
            return self._pointwise(call, algorithm)
        name, _, kind = algorithm.partition("_")
        return self._winograd(call, WINOGRAD[name], fold, SCALED.get(kind))

    def _layer(self, call):
        """(the ConvLayer of a call that Winograd's algorithm may compute, its Fold or None), else (None, None)."""
        if call.op != CONVOLUTION:
            return None, None
        form, weight, info = form_of(call.attrs), call.args[1], call.struct_info
        shapes = info.shape[1:], call.args[0].struct_info.shape[1:]
        if form is None or form.out != self.target.lanes or not isinstance(weight, Constant):
            return None, None
        if not _is_static(call) or is_whole(weight.data):
            return None, None
        (blocks, *outputs, _), (channels, *size) = ([d.value for d in shape] for shape in shapes)
        kernel, padding, plain = weight.data.shape[2:4], call.attrs["padding"], form.name == "first"
        fold = Fold.of(call.attrs["strides"], kernel, padding, size, outputs)
        inputs = weight.data.shape[1] * weight.data.shape[4] * call.attrs["groups"]
        if plain or fold:
            inputs = channels * (1 if plain else form.lanes)
        layer = ConvLayer(inputs, blocks * form.lanes, *outputs, kernel, call.attrs["strides"],
                          call.attrs["dilation"], call.attrs["groups"], plain,
                          not any(row.needs(self.target) for row in SCALED.values()) or bool(
                              np.isfinite(weight.data).all()))
        if fold and not fold.layer(layer).has_winograd(self.target.lanes):
            fold = None
        fits = plain or fold or all(p < kernel[0] for p in padding) and (
            layer.has_winograd(self.target.lanes) or kernel == (1, 1))
        return (layer, fold) if fits and form.name in ("first", "dense") else (None, None)

    def _pointwise(self, call, algorithm):
        x, weight = call.args
        parts = self.once(weight, algorithm, lambda w: [
            Constant(part, w.name) for part in SCALED[algorithm].pack(kernel_matrix(w.data))])
        return call_op(POINTWISE, x, *parts, arithmetic=algorithm, strides=call.attrs["strides"],
                       out_channels=call.attrs["out_channels"])

    def _winograd(self, call, tile, fold, row):
        """row: the arithmetic; None: FMAs."""
        data, weight, attrs = *call.args, call.attrs
        layout, stride, kernel, padding = f"NCHW{self.target.lanes}c", 1, weight.data.shape[2], attrs["padding"]
        if fold:
            stride, kernel, padding = fold.stride, fold.kernel, fold.padding
        if fold and attrs["data_layout"] != layout:
            stride = 1
            data = self.emit(call_op("space_to_depth", data, block=fold.stride, layout=layout),
                             f"{self.current.name}_folded")

        def transformed(w):
            return transform_blocks(fold.weights(w.data, self.target.lanes) if fold else w.data, tile)

        attrs = {"tile": tile, "kernel": kernel, "padding": padding, "stride": stride, "data_layout": layout,
                 "out_channels": attrs["out_channels"]}
        if row:
            parts = self.once(weight, (tile, fold, row.name), lambda w: [
                Constant(part, w.name) for part in pack_transformed(row, transformed(w), tile, kernel)])
            return call_op("nn.conv2d_winograd", data, *parts, arithmetic=row.name, **attrs)
        u = self.once(weight, (tile, fold), lambda w: Constant(transformed(w), w.name))
        return call_op("nn.conv2d_winograd", data, u, groups=call.attrs["groups"], **attrs)


def _is_static(call):
    """Whether the sizes of a convolution's data and results are known, but for the batch."""
    shapes = call.args[0].struct_info.shape[1:], call.struct_info.shape[1:]
    return all(hasattr(d, "value") for shape in shapes for d in shape)
