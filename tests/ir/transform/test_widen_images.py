"""Networks of convolutions over small floats compute in float32."""
import numpy as np
import pytest
from graph_check import Graph, ops, param

import ingot
from ingot.ir.dtype import DataType
from ingot.ir.relax import Constant, TupleGetItem
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.verifier import verify
from ingot.ir.transform.widen_images import widen_images


def half(*shape, seed=0, dtype="float16"):
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return Constant(values.astype(DataType(dtype).numpy), f"w{seed}")


def network(dtype="float16", size=4):
    """Convolution, scale, Relu, a split, a comparison, a cast and a product."""
    x = param("x", 1, 3, 6, 6, dtype=dtype)
    g = Graph(x)
    y = g.op("nn.conv2d", x, half(size, 3, 3, 3, dtype=dtype), padding=(1, 1, 1, 1))
    y = g.op("nn.relu", g.op("multiply", y, half(size, 1, 1, seed=1, dtype=dtype)))
    positive = g.op("greater", y, half(1, seed=2, dtype=dtype))
    y = g.op("where", positive, y, g.op("astype", g.op("astype", y, dtype="float32"), dtype=dtype))
    y = g.op("matmul", g.op("reshape", y, [1, size * 36]), half(size * 36, 5, seed=3, dtype=dtype))
    return g.module(y)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_all_is_float32_between_input_and_output(dtype):
    mod = network(dtype)
    wide = verify(widen_images(mod))
    small = [b for b in wide["main"].bindings if b.var.struct_info.dtype == dtype]
    assert {b.value.op for b in small} == {"astype"}
    assert wide["main"].outputs[0].struct_info.dtype == dtype
    x = np.random.default_rng(9).standard_normal((1, 3, 6, 6)).astype(half(1, dtype=dtype).data.dtype)
    expected, found = (np.asarray(evaluate(m, [x]), np.float32) for m in (mod, wide))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found / scale, expected / scale, atol=4e-3 if dtype == "float16" else 4e-2)


def test_in_c_too():
    mod, x = network(size=16), np.random.default_rng(9).standard_normal((1, 3, 6, 6)).astype(np.float16)
    expected = np.asarray(evaluate(widen_images(mod), [x]), np.float32)
    with ingot.compile(mod, threads="none") as library:
        found = library(x)
    assert found.dtype == np.float16
    np.testing.assert_allclose(np.float32(found), expected, atol=2e-3 * np.abs(expected).max())


def test_what_has_no_convolution_of_small_floats_stays():
    g = Graph(param("x", 2, 4, dtype="float16"))
    mod = g.module(g.op("nn.relu", g.op("matmul", g.params[0], half(4, 4))))
    assert widen_images(mod)["main"] is mod["main"]


def test_tuples_keep_their_dtype():
    g = Graph(param("x", 1, 2, 4, 4, dtype="float16"))
    y = g.op("nn.conv2d", g.params[0], half(4, 2, 1, 1))
    parts = g.op("split", y, sections=(2, 2), axis=1)
    mod = g.module(g.op("add", g.bind(TupleGetItem(parts, 0)), g.bind(TupleGetItem(parts, 1))))
    verify(widen_images(mod))
    assert ops(widen_images(mod)).count("split") == 1
