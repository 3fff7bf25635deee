"""A convolution by Winograd's algorithm on every target: strict C, and results within the contract of accuracy."""
import numpy as np
import pytest

import ingot
from c_folders import build_strictly, run
from ingot.codegen.target import Target
from ingot.codegen.toolchain import missing_tools, run_command
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.ops.conv_layouts import pack_weights
from ingot.ir.relax.ops.winograd import TILES

TARGETS = ["x86-64-v4", "x86-64-v3", "aarch64-linux-gnu", "armv7-linux-gnueabihf"]


def network(lanes, kernel=3, groups=1, stride=1):
    """Two blocks of channels, in part where they are one group, an image that no tile divides, a bias and a ReLU."""
    outputs, inputs = (lanes + 3, lanes + 2) if groups == 1 else (2 * lanes, 2 * lanes // groups)
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((outputs, inputs, kernel, kernel)).astype(np.float32)
    x = RelaxVar("x", TensorStructInfo((1, 2, 13, 11, lanes), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(call_op("nn.conv2d", x, Constant(pack_weights(weights, lanes, groups, lanes), "w"),
                            padding=(kernel // 2,) * 4, strides=(stride,) * 2, data_layout=f"NCHW{lanes}c",
                            out_channels=outputs, groups=groups, kernel_layout=f"OIHW{lanes}i{lanes}o"), "conv")
        y = bb.emit(call_op("add", y, Constant(rng.standard_normal((1, 2, 1, 1, lanes)).astype(np.float32), "b")))
        bb.emit_func_output(bb.emit(call_op("nn.relu", y)))
    return bb.get()


def check(library, tmp_path, target):
    """Strict C, whose self-test passes."""
    folder = library.export(tmp_path / "net")
    assert "ok" in run(run_command(target, build_strictly(folder, tmp_path / "selftest", target)))


@pytest.mark.parametrize("tile, layer", [*((tile, (3,)) for tile in TILES), (4, (5, 2)), (2, (5, 1, 2))])
@pytest.mark.parametrize("target", TARGETS)
def test_every_target(tmp_path, target, tile, layer):
    """The self-test's reference is the plain convolution."""
    if reason := missing_tools(target):
        pytest.skip(reason)
    mod = network(Target.get(target).lanes, *layer)
    with ingot.compile(mod, target=target, threads="none", algorithms={"conv": f"winograd{tile}"}) as library:
        assert any("winograd" in name for name in library.model.kernels)
        check(library, tmp_path, target)


@pytest.mark.parametrize("target", TARGETS)
def test_a_strided_first_layer_on_every_target(tmp_path, target):
    """The channels of space_to_depth fill one block in part, or several."""
    if reason := missing_tools(target):
        pytest.skip(reason)
    lanes, rng = Target.get(target).lanes, np.random.default_rng(0)
    weights = pack_weights(rng.standard_normal((lanes + 3, 3, 7, 7)).astype(np.float32), lanes)
    x = RelaxVar("x", TensorStructInfo((1, 3, 19, 22), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(call_op("nn.conv2d", x, Constant(weights, "w"), padding=(3, 3, 3, 3), strides=(2, 2),
                            data_layout="NCHW", out_layout=f"NCHW{lanes}c", out_channels=lanes + 3,
                            kernel_layout=f"OIHW{lanes}o"), "conv")
        bb.emit_func_output(bb.emit(call_op("nn.relu", y)))
    with ingot.compile(bb.get(), target=target, threads="none", algorithms={"conv": "winograd5"}) as library:
        assert any("space_to_depth" in name for name in library.model.kernels)
        check(library, tmp_path / "winograd5", target)


@pytest.mark.parametrize("threads", ["none", "openmp"])
def test_accuracy_on_this_machine(threads):
    lanes = Target.get("host").lanes
    if lanes == 1:
        pytest.skip("no vectors here")
    mod = network(lanes)
    x = np.random.default_rng(1).standard_normal((1, 2, 13, 11, lanes)).astype(np.float32)
    exact = evaluate(mod, [x])
    for tile in TILES:
        with ingot.compile(mod, threads=threads, algorithms={"conv": f"winograd{tile}"}) as library:
            assert np.abs(library(x) - exact).max() <= 1e-4 * np.abs(exact).max()
