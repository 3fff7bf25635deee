"""Networks of other machines that QEMU runs: every tensor against the reference, and instructions of kernels."""
import numpy as np
import pytest
from onnx import TensorProto, helper

import ingot
from ingot import cli
from ingot.codegen.target import Target
from ingot.codegen.toolchain import ToolchainError, missing_tools
from ingot.runtime.binding import NetworkError
from ingot.runtime.emulated import EmulatedLibrary, is_emulated
from networks import conv_net, embedding_net, load, with_symbolic_batch

TARGETS = ["cortex-m4f", "rv32imafc", "s390x-linux-gnu", "riscv64-linux-gnu", "riscv64-v", "wasm32",
           "wasm32-simd128"]


def need_tools(target):
    if reason := missing_tools(target):
        pytest.skip(reason)


@pytest.mark.parametrize("target", TARGETS)
def test_every_tensor_is_compared(target):
    need_tools(target)
    report = ingot.verify(conv_net(), target=target, threads="none")
    assert report.ok and len(report.rows) > 3, report.summary()


@pytest.mark.parametrize("name", ["attention_net", "mobile_net", "recurrent_net", "shuffle_net", "unet"])
def test_tiles_of_floats_are_right(name):
    need_tools("cortex-m4f")
    report = ingot.verify(load(name), target="cortex-m4f")
    assert report.ok, report.summary()


@pytest.mark.parametrize("target", ["cortex-m4f", "s390x-linux-gnu"])
def test_integers_of_either_byte_order(target):
    need_tools(target)
    assert ingot.verify(embedding_net(), target=target, threads="none").ok


def test_what_is_computed_is_seen():
    """The answers are those of the program, not of this machine."""
    need_tools("cortex-m4f")
    model = ingot.compile(conv_net(), target="cortex-m4f").model
    with EmulatedLibrary(model) as library:
        x = np.random.default_rng(0).random((1, 3, 13, 11), np.float32)
        first = library(x)
        expected = ingot.compile(conv_net(), target="c", threads="none")(x)
        np.testing.assert_allclose(first, expected, rtol=1e-4, atol=1e-6)
        source = library._file(f"{model.name}_kernels_0.c")
        source.write_text(source.read_text().replace("0.0f", "1.0f"))
        library._make()
        assert not np.allclose(library(x), first, atol=1e-4)


def test_instructions_of_kernels():
    need_tools("cortex-m4f")
    with EmulatedLibrary(ingot.compile(conv_net(), target="cortex-m4f").model) as library:
        count = library.count()
        assert len(count.calls) == len(library.model.program.calls)
        assert count.total == pytest.approx(sum(n for _, n in count.calls), rel=0.1)
        assert library(np.ones((1, 3, 13, 11), np.float32)) is not None  # it is built without hooks again


@pytest.mark.parametrize("target, unit", [("cortex-m4f", "instructions"), ("wasm32-simd128", "ns")])
def test_the_command_line_counts(tmp_path, capsys, target, unit):
    need_tools(target)
    path = tmp_path / "net.onnx"
    path.write_bytes(load("conv_net").SerializeToString())
    assert cli.main(["bench", str(path), "--target", target]) == 0
    assert unit in capsys.readouterr().out
    assert unit == "ns" or cli.main(["verify", str(path), "--target", target]) == 0


def test_what_cannot_be_run_is_refused():
    need_tools("s390x-linux-gnu")
    with EmulatedLibrary(ingot.compile(conv_net(), target="s390x-linux-gnu", threads="none").model) as library, \
            pytest.raises(ToolchainError, match="no instructions of single kernels for s390x-linux-gnu"):
        library.count()
    symbolic = ingot.compile(with_symbolic_batch(conv_net()), target="s390x-linux-gnu", threads="none")
    with EmulatedLibrary(symbolic.model) as library, pytest.raises(ToolchainError, match="give .* by --dim"):
        library(np.ones((1, 3, 13, 11), np.float32))


def test_outputs_whose_size_a_run_decides_are_refused():
    node = helper.make_node("NonZero", ["x"], ["places"])
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
                              [helper.make_tensor_value_info("places", TensorProto.INT64, None)])
    model = ingot.compile(helper.make_model(graph), target="cortex-m4f").model
    with EmulatedLibrary(model) as library, pytest.raises(ToolchainError, match="sizes of the outputs places"):
        library(np.ones((2, 3), np.float32))


def test_a_failing_program_is_told():
    need_tools("cortex-m4f")
    with EmulatedLibrary(ingot.compile(conv_net(), target="cortex-m4f").model) as library:
        library.build()
        with pytest.raises(NetworkError, match="the example exited with 1: i9: 0 of"):
            library._program("i9", "o9")


def test_which_targets_are_emulated():
    assert is_emulated(Target.get("cortex-m4f"))
    assert not is_emulated(Target.get("host")) and not is_emulated(Target.get("cuda"))
