"""Scales in fixed point: CMSIS-NN's roundings, with numbers that are halves."""
import numpy as np
import pytest
from graph_check import Graph, execute, ops, param
from onnx import TensorProto, helper, numpy_helper

import ingot
from ingot.ir.relax import Constant
from ingot.ir.relax.ops.requantize import multiplier_of
from ingot.ir.transform.fixed_requantize import fixed_requantize

RNG = np.random.default_rng(5)


def fixed(total, multiplier, shift):
    """The rounding, with whole numbers of Python: the high half of twice the product, halves up; a quotient by a power
    of two, halves away from 0."""
    high = (int(total) * int(multiplier) * 2 + (1 << 31)) >> 32
    half = (1 << int(shift)) >> 1
    return (high + half) >> int(shift) if high >= 0 else -((-high + half) >> int(shift))


def requantized(total, scales, zero, dtype):
    multiplier, shift = multiplier_of(scales)
    made = np.array([[fixed(t, m, s) for t, m, s in zip(row, np.broadcast_to(multiplier, len(row)),
                                                       np.broadcast_to(shift, len(row)))] for row in total])
    limits = np.iinfo(dtype)
    return np.clip(made + int(zero), limits.min, limits.max).astype(dtype)


@pytest.mark.parametrize("scale", [0.25, 0.5, 1 / 3, 0.0007, 0.999999999999, 2.0 ** -31, 1e-12])
def test_multipliers(scale):
    found = multiplier_of(np.float64(scale))
    if scale > 0.9:  # rounds to 1, which has no multiplier below 2^31
        assert found is None
        return
    multiplier, shift = found
    assert multiplier == 0 or 1 << 30 <= multiplier < 1 << 31
    assert float(multiplier) * 2.0 ** -(31 + int(shift)) == pytest.approx(scale, rel=1e-9, abs=2.0 ** -33)


@pytest.mark.parametrize("scales", [[1.0], [0.5, 2.0], [0.0], [-0.5], [np.nan]])
def test_scales_that_stay_floats(scales):
    assert multiplier_of(np.float32(scales)) is None


@pytest.mark.parametrize("target", ["c", "host"])
@pytest.mark.parametrize("dtype, zero", [(np.int8, -3), (np.uint8, 128)])
def test_a_product_with_a_scale_for_each_column(dtype, zero, target):
    """Powers of two make halves of whole numbers."""
    a, b = RNG.integers(-128, 128, (9, 24)).astype(np.int8), RNG.integers(-128, 128, (24, 6)).astype(np.int8)
    a[0], b[0, 0] = [1] + [0] * 23, 1  # whose sum is 1, half of which is rounded up, or to an even number
    scales = np.float32([0.5, 0.25, 1 / 128, 0.003, 1 / 1024, 0.7])
    weights = {"one": np.float32(1), "az": np.int8(0), "b": b, "bs": scales, "bz": np.zeros(6, np.int8),
               "yz": np.array(zero, dtype)}
    node = helper.make_node("QLinearMatMul", ["a", "one", "az", "b", "bs", "bz", "one", "yz"], ["y"])
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("a", TensorProto.INT8, a.shape)],
        [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)],
        [numpy_helper.from_array(np.asarray(w), name) for name, w in weights.items()])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    total = a.astype(int) @ b.astype(int)
    with ingot.compile(proto, target=target, threads="none", requantize="fixed") as library:
        found = library.run({"a": a})["y"]
    np.testing.assert_array_equal(found, requantized(total, scales, zero, dtype))
    with ingot.compile(proto, target=target, threads="none") as library:
        floats = library.run({"a": a})["y"]
    limits = np.iinfo(dtype)
    np.testing.assert_array_equal(floats, np.clip(np.rint(total.astype(np.float32) * scales) + zero, limits.min,
                                                  limits.max).astype(dtype))
    assert found[0, 0] == zero + 1 and floats[0, 0] == zero


def test_the_pass_leaves_scales_that_a_run_knows():
    g = Graph(param("x", 3, 4, dtype="int32"), param("s", 4))
    scaled = g.op("multiply", g.op("astype", g.params[0], dtype="float32"), g.params[1])
    y = g.op("astype", g.op("clip", g.op("round", scaled), min=-128.0, max=127.0), dtype="int8")
    assert "qnn.requantize" not in ops(fixed_requantize(g.module(y)))


def test_sums_of_all_sizes():
    x = np.array([[0, 1, -1, 3, -3, 2 ** 31 - 1, -2 ** 31, 12345]], np.int32)
    g = Graph(param("x", 1, 8, dtype="int32"))
    scaled = g.op("multiply", g.op("astype", g.params[0], dtype="float32"), Constant(np.float32(0.5), "s"))
    y = g.op("astype", g.op("clip", g.op("add", g.op("round", scaled), Constant(np.float32(2))), min=-128.0, max=127.0),
             dtype="int8")
    made = fixed_requantize(g.module(y))
    assert ops(made) == ["qnn.requantize", "add", "clip", "astype"]
    np.testing.assert_array_equal(execute(made, x)[0], requantized(x, np.float32([0.5]), 2, np.int8))


def test_options():
    with pytest.raises(ValueError, match="requantize must be one of float, fixed, not 'half'"):
        ingot.compile("net.onnx", requantize="half")
