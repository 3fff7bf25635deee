"""The algorithm of each convolution: direct, or Winograd with tiles of 2, 4 or 6 results, by a model of their time.

Accuracy: a convolution by Winograd is within 1e-4 of its output's largest magnitude of the exact result, also where
means are large or values of very different size; a direct one within 1e-5. Tiles of 2 are as exact as direct.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..relax.block_builder import call_op
from ..relax.expr import Constant, RelaxCall
from ..relax.ops.conv_layouts import form_of
from ..relax.ops.winograd import KERNEL, TILES, transform_blocks
from ..schedule.cpu import CpuModel
from ..schedule.rules import conv_tiles, winograd_blocks
from .graph import GraphRewriter, on_main

DIRECT = "direct"
WINOGRAD = {f"winograd{tile}": tile for tile in TILES}
ALGORITHMS = (DIRECT, *WINOGRAD)
CLOCK = 2.7e9
HIDDEN = 7 / 8  # of the time in which weights come from afar, by prefetching what the next tiles read
# Winograd is taken where it is predicted to need less than this share of the direct time, and then the smallest tile
# within a fifth of the best: it rounds less, and has fewer weights, which in a whole network come from farther away
# than where one layer is measured alone.
WORTH, NEAR = 0.9, 1.2


@dataclass(frozen=True)
class ConvLayer:
    """A convolution of one image; height and width are the output's."""

    in_channels: int
    out_channels: int
    height: int
    width: int
    kernel: tuple = (KERNEL, KERNEL)
    strides: tuple = (1, 1)
    dilation: tuple = (1, 1)
    groups: int = 1

    @property
    def has_winograd(self):
        """Whether it is of the kind that Winograd's algorithm computes."""
        return (self.kernel, self.strides, self.dilation, self.groups) == ((KERNEL, KERNEL), (1, 1), (1, 1), 1)


# ---------------------------------------------------------------- the model

def predict(layer: ConvLayer, cpu: CpuModel):
    """{algorithm: seconds} that one core needs for a layer in blocked layout, of the algorithms that fit."""
    blocks = [-(-channels // cpu.lanes) for channels in (layer.in_channels // layer.groups, layer.out_channels)]
    rows, columns = ((s - 1) * stride + k for s, stride, k in zip((layer.height, layer.width), layer.strides,
                                                                  layer.kernel))
    inputs = blocks[0] * layer.groups * rows * columns * cpu.lanes * 4
    outputs = blocks[1] * layer.height * layer.width * cpu.lanes * 4
    cycles = {DIRECT: _direct(cpu, layer, *blocks, inputs)}
    if layer.has_winograd and cpu.lanes > 1:
        for name, tile in WINOGRAD.items():
            tiles = (-(-size // tile) for size in (layer.height, layer.width))
            cycles[name] = winograd_blocks.choose(cpu, winograd_blocks.Layer(tile, *blocks, *tiles, cpu.lanes)).cycles
    far = (inputs + outputs) / winograd_blocks.FAR_BYTES
    return {name: (c + far) / CLOCK for name, c in cycles.items()}


def _direct(cpu, layer, in_blocks, out_blocks, inputs):
    steps = in_blocks * cpu.lanes * layer.kernel[0] * layer.kernel[1]
    weights = steps * out_blocks * cpu.lanes * 4
    shape = conv_tiles.Shape(out_blocks, layer.height, layer.width, steps, weights, inputs)
    far = weights / winograd_blocks.FAR_BYTES
    return max(conv_tiles.cycles(cpu, conv_tiles.choose(cpu, shape), shape), far) + (1 - HIDDEN) * far


def fastest(layer: ConvLayer, cpu: CpuModel):
    """The simplest algorithm that is predicted to be about as fast as any; direct unless another is clearly faster."""
    times = predict(layer, cpu)
    best = min(times.values())
    if best >= WORTH * times[DIRECT]:
        return DIRECT
    return next(name for name, time in times.items() if name != DIRECT and time <= NEAR * best)


# ---------------------------------------------------------------- the pass

@on_main
def choose_convolution(func, cpu, exact=False, algorithms=None):
    """Requires blocked layouts (ConvertLayout) and padding still in the convolutions. Ensures dense 3x3 convolutions of
    stride 1 are nn.conv2d_winograd, their weights transformed, where that is predicted to be faster.

    exact: all stay direct. algorithms: {name of a model node: one of ALGORITHMS}, which overrides the prediction.
    Raises ValueError for a name that no convolution has, an algorithm that is none, or one that does not fit its layer.
    """
    return _Choose(cpu, exact, dict(algorithms or {})).run(func)


def check_algorithms(algorithms, exact=False):
    """Raises ValueError unless it is a mapping of names to ALGORITHMS, direct ones where `exact`."""
    if not isinstance(algorithms, Mapping):
        raise ValueError(f"algorithms is a mapping of model nodes to {', '.join(ALGORITHMS)}, not {algorithms!r}")
    for name, algorithm in algorithms.items():
        if algorithm not in ALGORITHMS:
            raise ValueError(f"algorithms[{name!r}] must be one of {', '.join(ALGORITHMS)}, not {algorithm!r}")
        if exact and algorithm != DIRECT:
            raise ValueError(f"algorithms[{name!r}] is {algorithm!r}, which exact excludes: leave out one of them")


class _Choose(GraphRewriter):
    def __init__(self, cpu, exact, algorithms):
        check_algorithms(algorithms, exact)
        self.cpu, self.exact, self.algorithms = cpu, exact, algorithms
        self.transformed = {}  # (id of the weights, tile) -> (weights, transformed): used twice, they are made once

    def begin(self, func):
        names = [_name(b) for b in func.bindings if isinstance(b.value, RelaxCall) and b.value.op == "nn.conv2d"]
        for name in self.algorithms:
            if name not in names:
                raise ValueError(f"algorithms names {name!r}, which is no convolution of this network; it has "
                                 f"{', '.join(names) or 'none'}")

    def call(self, binding, call):
        if call.op != "nn.conv2d":
            return call
        layer, wanted = self._layer(call), self.algorithms.get(_name(binding))
        if layer is None and wanted not in (None, DIRECT):
            raise ValueError(f"algorithms[{_name(binding)!r}] is {wanted!r}, but this convolution is none of a "
                             f"{KERNEL}x{KERNEL} kernel of stride 1 over a static image, dense, with constant weights "
                             "and blocked channels: it can only be direct")
        if layer is None or self.exact or wanted == DIRECT:
            return call
        algorithm = wanted or fastest(layer, self.cpu)
        return call if algorithm == DIRECT else self._winograd(call, WINOGRAD[algorithm])

    def _layer(self, call):
        """The ConvLayer of a call that Winograd's algorithm may compute, else None."""
        form, weight, info = form_of(call.attrs), call.args[1], call.struct_info
        if form is None or form.name != "dense" or form.data != self.cpu.lanes or not isinstance(weight, Constant):
            return None
        if not all(hasattr(d, "value") for d in info.shape[1:]) or any(p >= KERNEL for p in call.attrs["padding"]):
            return None
        blocks, height, width = (d.value for d in info.shape[1:4])
        shape = weight.data.shape
        layer = ConvLayer(shape[1] * shape[4], blocks * form.lanes, height, width, shape[2:4], call.attrs["strides"],
                          call.attrs["dilation"], call.attrs["groups"])
        return layer if layer.has_winograd else None

    def _winograd(self, call, tile):
        weight, attrs = call.args[1], call.attrs
        key = (id(weight.data), tile)
        if key not in self.transformed:
            data = transform_blocks(weight.data, tile)
            self.transformed[key] = (weight, Constant(data, weight.name))
        return call_op("nn.conv2d_winograd", call.args[0], self.transformed[key][1], tile=tile,
                       **{name: attrs[name] for name in ("padding", "out_channels", "data_layout")})


def _name(binding):
    return binding.var.origin.name if binding.var.origin is not None else binding.var.name
