"""A run refuses sizes of symbolic dimensions that a network has no result for; the self-test takes none of them."""
import numpy as np
import onnx
import pytest
from onnx import helper

import ingot
from networks import make_model, onnxruntime_outputs


def _conv(kernel):
    return make_model("conv", [helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
                               helper.make_node("Relu", ["c"], ["y"], name="relu")],
                      {"x": (np.float32, [1, 1, "n"])}, {"y": (np.float32, None)},
                      {"w": np.ones((2, 1, kernel), np.float32)})


def _reshape(shape, columns=3):
    return make_model("reshape", [helper.make_node("Reshape", ["x", "s"], ["r"], name="r"),
                                  helper.make_node("Neg", ["r"], ["y"], name="neg")],
                      {"x": (np.float32, ["n", columns])}, {"y": (np.float32, None)}, {"s": np.array(shape)})


@pytest.mark.parametrize("model, shape, fitting, others", [
    (_conv(5), lambda n: (1, 1, n), (5, 9), (4 - 1, 1)), (_reshape([2, 4, -1]), lambda n: (n, 3), (8, 16), (7, 1, 9))])
def test_a_run_refuses_other_sizes(model, shape, fitting, others):
    rng = np.random.default_rng(0)
    with ingot.compile(model, target="c", threads="none") as library:
        for n in fitting:
            x = rng.standard_normal(shape(n)).astype(np.float32)
            np.testing.assert_allclose(library(x), onnxruntime_outputs(model, {"x": x})[0], rtol=1e-5, atol=1e-6)
        for n in others:
            with pytest.raises(ValueError, match="the network has no result for these sizes: it needs .*'n': "):
                library(np.zeros(shape(n), np.float32))
        c = library.model.files()[f"{library.name}.c"]
        assert "return INGOT_ERR_DIM;" in c.split("_run(")[1].split("arena_bytes")[0].replace("n > INT32_MAX", "", 1)
        assert len(library.model.dim_checks) == 1


def test_what_holds_for_all_sizes_is_not_checked():
    for model in (_reshape([-1, 1, 3]), _reshape([-1]), _conv(1)):
        assert ingot.compile(model, target="c", threads="none").model.dim_checks == ()


@pytest.mark.parametrize("kernel, size", [(1, 3), (5, 6), (100, 128), (200, 224), (5000, 5000)])
def test_the_self_test_takes_sizes_that_fit(kernel, size):
    model = ingot.compile(_conv(kernel), target="c", threads="none").model
    assert model.test_dims == (size,) and model.test_outputs[0].shape == (1, 2, size - kernel + 1)


def test_a_network_without_sizes_is_refused():
    with pytest.raises(ValueError,
                       match=r"no sizes of the symbolic dimensions n were found with which n \* n == 7: pin"):
        ingot.compile(_reshape([7], "n"), target="c", threads="none")


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 24, reason="this onnx has no TensorScatter")
def test_an_update_in_a_branch_lies_inside():
    info = helper.make_tensor_value_info
    branches = {name: helper.make_graph([node], name, [], [info(f"{name}_out", onnx.TensorProto.FLOAT, [1, 8, 2])])
                for name, node in (
                    ("then", helper.make_node("TensorScatter", ["cache", "x"], ["then_out"], axis=1)),
                    ("else", helper.make_node("Neg", ["cache"], ["else_out"])))}
    node = helper.make_node("If", ["cond"], ["y"], then_branch=branches["then"], else_branch=branches["else"])
    graph = helper.make_graph([node], "update", [info("cond", onnx.TensorProto.BOOL, []),
                                                 info("cache", onnx.TensorProto.FLOAT, [1, 8, 2]),
                                                 info("x", onnx.TensorProto.FLOAT, [1, "n", 2])],
                              [info("y", onnx.TensorProto.FLOAT, [1, 8, 2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
    cache = np.zeros((1, 8, 2), np.float32)
    with ingot.compile(model, target="c", threads="none") as library:
        y = library(np.array(True), cache, np.ones((1, 3, 2), np.float32))
        assert np.array_equal(y[0, :, 0], [1] * 3 + [0] * 5)
        long = np.ones((1, 9, 2), np.float32)
        assert np.array_equal(library(np.array(False), cache, long), -cache)
        with pytest.raises(RuntimeError, match="dimension"):
            library(np.array(True), cache, long)
