"""What is computed in float16, where that is asked for: in which vectors, how near, and what stays float32."""
import dataclasses

import numpy as np
import pytest
from graph_check import Graph, param

import ingot
from ingot.codegen.target import Target
from ingot.codegen.toolchain import missing_tools
from ingot.ir.relax import Constant
from ingot.ir.relax.arithmetic import ARITHMETICS
from ingot.runtime.emulated import EmulatedLibrary
from ingot.runtime.library import CompiledLibrary

TARGET, F16 = "aarch64-fp16", np.float16
HALF = {"target": TARGET, "threads": "none", "arithmetic": "fp16", "name": "halves"}
RNG = np.random.default_rng(0)


def constant(name, *shape, scale=1.0):
    return Constant((RNG.standard_normal(shape) * scale).astype(F16), name)


def networks():
    """{what: (a network, its input)}: products with outliers, and what convolutional networks are made of."""
    g = Graph(param("x", 13, 70, dtype="float16"))
    w, v = constant("w", 70, 24), constant("v", 1030, 9)
    wide = g.op("concat", *[g.params[0]] * 15, axis=1)
    deep = g.op("matmul", g.op("strided_slice", wide, axes=(1,), begin=(0,), end=(1030,), strides=(1,)), v)
    x = RNG.standard_normal((13, 70))
    x[:, 5:65:20] *= 30  # sums stay in float16's range
    products = g.module(g.op("matmul", g.params[0], w), deep), x.astype(F16)
    g = Graph(param("x", 1, 8, 12, 12, dtype="float16"))
    y = g.op("nn.relu", g.op("nn.conv2d", g.params[0], constant("a", 16, 8, 3, 3, scale=0.1), padding=(1, 1, 1, 1)))
    y = g.op("clip", g.op("nn.conv2d", y, constant("b", 16, 1, 3, 3, scale=0.3), padding=(1, 1, 1, 1), groups=16),
             min=0.0, max=6.0)
    y = g.op("nn.max_pool2d", g.op("nn.conv2d", y, constant("c", 24, 16, 1, 1, scale=0.2)), pool_size=(2, 2),
             strides=(2, 2))
    y = g.op("nn.avg_pool2d", g.op("add", g.op("multiply", y, constant("s", 1, 24, 1, 1)), constant("t", 1, 24, 1, 1)),
             pool_size=(2, 2), strides=(2, 2))
    images = g.module(y, g.op("nn.softmax", y, axis=1)), RNG.standard_normal((1, 8, 12, 12)).astype(F16)
    return {"products": products, "images": images}


NETWORKS = networks()


@pytest.fixture(scope="module")
def run():
    """run(library, x): on the target under its emulator; without one by the model of its vectors in plain C."""
    if not missing_tools(TARGET):
        return lambda library, x: EmulatedLibrary(library.model)(x)
    plain = Target.get("c")
    return lambda library, x: CompiledLibrary(dataclasses.replace(library.model, target=plain))(x)


def test_maxima_begin_at_minus_infinity(run):
    """Not at the least number of float16, which is greater than that."""
    g = Graph(param("x", 2, 8, 6, dtype="float16"))
    library = ingot.compile(g.module(g.op("max", g.params[0], axis=(1,))), **HALF)
    x = RNG.standard_normal((2, 8, 6)).astype(F16)
    x[0] = -np.inf
    np.testing.assert_array_equal(run(library, x), x.max(axis=1))


def test_the_least_number_is_no_factor():
    """0 times it is 0: of minus infinity, which it is in float16, it would be no number."""
    g = Graph(param("x", 2, 8, dtype="float16"))
    wide = g.op("astype", g.params[0], dtype="float32")
    masked = g.op("multiply", wide, Constant(np.array(np.finfo("float32").min)))
    library = ingot.compile(g.module(g.op("astype", masked, dtype="float16")), **HALF)
    assert not any("f16x8_mul" in text for text in map(str, library.model.files().values()))


def test_products_keep_their_bound(run):
    mod, x = NETWORKS["products"]
    library = ingot.compile(mod, **HALF)
    limit = ARITHMETICS["fp16"].limit
    args = (a for b in mod["main"].bindings for a in getattr(b.value, "args", ()))
    weights = {a.name: a.data for a in args if isinstance(a, Constant)}
    for got, left, right in zip(run(library, x), (x, np.tile(x, 15)[:, :1030]), (weights[n] for n in "wv")):
        left, right = left.astype(np.float64), right.astype(np.float64)
        rounding = 2.0 ** -11 * np.abs(left @ right)
        assert got.dtype == F16
        assert (np.abs(got - left @ right) <= limit(left, right) + rounding).all()


def test_images_are_near(run):
    mod, x = NETWORKS["images"]
    library = ingot.compile(mod, **HALF)
    kernels = {name: str(kernel) for name, kernel in library.model.kernels.items()}
    wide = {name for name, text in kernels.items() if "f32x" in text or "ingot_f16_to_f32" in text}
    assert len(wide) == 1 and "softmax" in wide.pop(), "functions are float32's"
    assert sum("f16x8" in text for text in kernels.values()) >= 5
    for got, expected in zip(run(library, x), ingot.compile(mod, threads="none", name="wide")(x)):
        expected = expected.astype(np.float64)
        assert np.abs(got - expected).max() <= 2 ** -7 * np.abs(expected).max()


def test_by_default_sums_are_float32():
    library = ingot.compile(NETWORKS["products"][0], target=TARGET, threads="none")
    assert "f16x8" not in str(library.model.kernels)


def test_a_constant_that_float16_does_not_hold_stays_float32():
    g = Graph(param("x", 4, 32, dtype="float16"))
    y = g.op("nn.rms_norm", g.params[0], constant("g", 32), axes=(-1,), epsilon=1e-9)
    assert "f16x8" not in str(ingot.compile(g.module(y), **HALF).model.kernels)


def test_targets_without_such_vectors_refuse():
    with pytest.raises(ValueError, match="x86-64-v3 does not compute in vectors of float16: leave out arithmetic"):
        ingot.compile(NETWORKS["products"][0], target="x86-64-v3", arithmetic="fp16")


def test_networks_without_float16_are_as_they_were():
    g = Graph(param("x", 1, 8, 6, 6))
    w = Constant(RNG.standard_normal((16, 8, 1, 1)).astype(np.float32), "w")
    mod = g.module(g.op("nn.conv2d", g.params[0], w))
    texts = [str(ingot.compile(mod, **{**HALF, "arithmetic": a}).model.kernels) for a in (None, "fp16")]
    assert texts[0] == texts[1]
