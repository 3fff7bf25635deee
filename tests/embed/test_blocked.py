"""Kernels in blocked layout on every target: strict C, and the results of the reference."""
import re

import numpy as np
import pytest

import ingot
from c_folders import build_strictly, run
from ingot.codegen.target import Target
from ingot.codegen.toolchain import missing_tools, run_command
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.relax.ops.conv_layouts import pack_weights
from ingot.ir.relax.ops.phases import pack_phases

TARGETS = ["x86-64-v4", "x86-64-v3", "aarch64-linux-gnu", "armv7-linux-gnueabihf"]


def network(lanes):
    """A first layer of three channels, a depthwise convolution, pools, dense and gathered convolutions of 3x3 and 1x1,
    and a transposed one, none of them of a size that tiles divide."""
    rng = np.random.default_rng(0)
    layout, blocked = f"NCHW{lanes}c", f"OIHW{lanes}i{lanes}o"
    wide = 2 * lanes + 3
    x = RelaxVar("x", TensorStructInfo((1, 3, 35, 39), "float32"))
    bb = BlockBuilder()

    def op(name, *args, **attrs):
        return bb.emit(call_op(name, *args, **attrs))

    def weights(outputs, inputs, kernel, inner, groups=1):
        values = rng.standard_normal((outputs, inputs, kernel, kernel)).astype(np.float32) / (kernel * inputs ** 0.5)
        return Constant(pack_weights(values, lanes, groups, inner), "w")

    def places(blocks, groups, inputs):
        spots = rng.permutation(blocks * lanes)[:groups * inputs].astype(np.int32)
        return Constant(np.stack(divmod(spots, lanes), axis=-1).reshape(groups, inputs, 2), "places")

    with bb.function("main", [x]):
        y = op("nn.conv2d", x, weights(lanes, 3, 3, None), out_layout=layout, kernel_layout=f"OIHW{lanes}o",
               strides=(2, 2), out_channels=lanes)
        y = op("nn.relu", y)
        y = op("nn.conv2d", y, weights(lanes, 1, 3, None), data_layout=layout, kernel_layout=f"OIHW{lanes}o",
               groups=lanes, padding=(1, 1, 1, 1), out_channels=lanes)
        y = op("nn.max_pool2d", y, pool_size=(2, 2), layout=layout)
        y = op("nn.conv2d", y, weights(wide, lanes, 3, lanes), data_layout=layout, kernel_layout=blocked,
               out_channels=wide)
        skip = op("nn.relu", op("add", y, Constant(rng.standard_normal((1, 3, 1, 1, lanes)).astype(np.float32), "b")))
        y = op("nn.conv2d", skip, weights(wide, wide, 1, lanes), data_layout=layout, kernel_layout=blocked,
               out_channels=wide)
        y = op("nn.avg_pool2d", op("add", y, skip), pool_size=(3, 3), padding=(1, 1, 1, 1), layout=layout)
        y = op("nn.conv2d_gathered", y, weights(2 * lanes + 2, 5, 1, None, 2), places(3, 2, 5), data_layout=layout)
        y = op("nn.relu", y)
        y = op("nn.conv2d_gathered", y, weights(12, 3, 3, None, 3), places(4, 3, 3), data_layout=layout)
        blocks = y.struct_info.shape[1].value
        kernel = rng.standard_normal((blocks * lanes, 2 * lanes, 3, 3)).astype(np.float32) / (9 * blocks * lanes) ** 0.5
        y = op("nn.conv2d_phases", y, Constant(pack_phases(kernel, (2, 2), lanes, lanes), "w"), strides=(2, 2),
               padding=(1, 1, 1, 1), output_padding=(1, 0), out_channels=2 * lanes, data_layout=layout)
        bb.emit_func_output(y)
    return bb.get()


def mobile(lanes):
    """A 1x1 convolution whose result exceeds L2, and a depthwise one: one kernel. Wide vectors have a larger L2."""
    g, rng, channels = BlockBuilder(), np.random.default_rng(0), 18
    x = RelaxVar("x", TensorStructInfo((1, channels, 65 if lanes < 16 else 161, 67), "float32"))
    with g.function("main", [x]):
        y = x
        for shape, attrs in (((4 * channels, channels, 1, 1), {}),
                             ((4 * channels, 1, 3, 3), {"padding": (1, 1, 1, 1), "groups": 4 * channels}),
                             ((9, 4 * channels, 1, 1), {})):
            w = Constant(rng.standard_normal(shape).astype(np.float32) / float(np.prod(shape[1:])) ** 0.5, "w")
            y = g.emit(call_op("clip", g.emit(call_op("nn.conv2d", y, w, **attrs)), min=0.0, max=6.0))
        g.emit_func_output(g.emit(call_op("mean", y, axis=(2, 3))))
    return g.get()


def thin(lanes):
    """A plain first layer and a depthwise convolution of too few channels for a vector, then one that fills it."""
    rng, few = np.random.default_rng(0), lanes // 2
    x = RelaxVar("x", TensorStructInfo((1, 3, 11, 4 * lanes), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = x
        for shape, attrs in (((few, 3, 3, 3), {"strides": (2, 2), "padding": (1, 1, 1, 1)}),
                             ((few, 1, 3, 3), {"groups": few, "padding": (1, 1, 1, 1)}), ((lanes, few, 1, 1), {})):
            w = Constant(rng.standard_normal(shape).astype(np.float32), "w")
            y = bb.emit(call_op("nn.relu", bb.emit(call_op("nn.conv2d", y, w, **attrs))))
        bb.emit_func_output(y)
    return bb.get()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", [network, mobile, thin])
def test_every_target(tmp_path, make, target):
    if reason := missing_tools(target):
        pytest.skip(reason)
    with ingot.compile(make(Target.get(target).lanes), target=target, threads="none", accuracy="strict") as library:
        folder = library.export(tmp_path / "net")
    functions = [f for source in folder.glob("*_kernels_*.c") for f in source.read_text().split("\n}\n")]
    tiles = [{re.sub(r"_\d+$", "", name) for name in re.findall(r"\b(\w+_tile(?:_\w+)?)\(", f)}
             for f in functions]  # that each function calls; those of borders count with the others
    assert make is not mobile or any(len(names) == 2 for names in tiles), "no kernel has both convolutions"
    assert "ok" in run(run_command(target, build_strictly(folder, tmp_path / "selftest", target)))
