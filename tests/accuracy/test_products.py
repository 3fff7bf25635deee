"""Products and convolutions are as near to the exact result as their arithmetic says, whatever the sizes of numbers."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import ingot
from elsewhere import run_elsewhere
from ingot.codegen.target import Target
from ingot.codegen.toolchains import is_supported_here
from ingot.ir.relax.arithmetic import ARITHMETICS, FMA

pytestmark = pytest.mark.optimization("-O3")
F32 = np.float32
TARGETS = ["c", "x86-64-v3", "x86-64-v4", "x86-64-v4-zen4"]
here = [pytest.param(t, marks=pytest.mark.skipif(not is_supported_here(Target.get(t)), reason=f"{t} does not run here"))
        for t in TARGETS]
TINY = 2.0 ** -126  # bounds are for results of normal numbers: below, each term may lose a whole one


# ---------------------------------------------------------------- numbers that are hard

def _spread(rng, shape, decades, axis):
    scale = 10.0 ** rng.uniform(-decades, decades, shape[axis])
    return scale.reshape([-1 if n == axis else 1 for n in range(len(shape))])


def normal(rng, x, w):
    return x, w


def equal(rng, x, w):
    """Roundings of equal terms all go one way."""
    return np.full_like(x, 0.1), np.full_like(w, 0.7)


def positive(rng, x, w):
    return abs(x), abs(w)


def terms(rng, x, w):
    """Inputs of sizes that their weights make up for."""
    scale = _spread(rng, x.shape, 4, 1)
    return x * scale, w / np.swapaxes(scale, 0, 1)


def rows(rng, x, w):
    return x * _spread(rng, x.shape, 6, 0), w


def columns(rng, x, w):
    return x, w * _spread(rng, w.shape, 6, 1)


def outliers(rng, x, w):
    x = x.copy()
    x[:, rng.integers(0, x.shape[1], 3)] *= 1e6
    return x, w


def cancelling(rng, x, w):
    """Sums that are nothing but what is left of large terms."""
    x, w = x.copy(), w.copy()
    half = x.shape[1] // 2
    x[:, half:2 * half], w[half:2 * half] = x[:, :half], -w[:half]
    w[0] += 1e-3
    return x, w


def denormals(rng, x, w):
    return x * 1e-30, w * 1e-9


def huge(rng, x, w):
    return x * 1e17, w * 1e17


KINDS = (normal, equal, positive, terms, rows, columns, outliers, cancelling, denormals, huge)
SHAPES = ((1, 64), (1, 4096), (5, 1000), (40, 300), (64, 2048))
COLUMNS = 48


def drawn(kind, seed, m, k):
    rng = np.random.default_rng(seed)
    x, w = kind(rng, rng.standard_normal((m, k)), rng.standard_normal((k, COLUMNS)) / np.sqrt(k))
    return x.astype(F32), w.astype(F32)


def products(constant, shapes=SHAPES):
    """A network of a product of each kind and shape: (model, inputs, [(kind, shape, x, w)])."""
    nodes, inputs, weights, cases, seed = [], {}, {}, [], 0
    for kind in KINDS:
        for m, k in shapes:
            seed += 1
            name = f"{kind.__name__}_{m}_{k}"
            x, w = drawn(kind, seed, m, k)
            inputs[f"x_{name}"] = x
            (weights if constant else inputs)[f"w_{name}"] = w
            nodes.append(helper.make_node("MatMul", [f"x_{name}", f"w_{name}"], [f"y_{name}"]))
            cases.append((kind.__name__, (m, k), f"y_{name}", x, w))
    return _model(nodes, inputs, weights), inputs, cases


def _model(nodes, inputs, weights):
    graph = helper.make_graph(
        nodes, "bounds", [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for node in nodes for o in node.output],
        [numpy_helper.from_array(a, n) for n, a in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def excess(found, x, w, limit):
    """The largest error over its bound."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    return (np.abs(found - x @ w) / (limit(x, w) + len(w) * TINY)).max()


def outside(cases, found, limit):
    lines = []
    for kind, shape, name, x, w in cases:
        over = excess(found[name].astype(np.float64), x, w, limit(kind, shape))
        if not over <= 1:
            lines.append(f"{kind} {shape}: {over:.2f} times its bound")
    return lines


@pytest.mark.parametrize("constant", [True, False], ids=["packed", "inputs"])
@pytest.mark.parametrize("kept", ["float32", "strict"])
@pytest.mark.parametrize("target", here)
def test_every_element_of_a_product_is_within_its_bound(target, kept, constant):
    model, inputs, cases = products(constant)
    with ingot.compile(model, target=target, threads="none", accuracy=kept) as library:
        found = library.run(inputs)
    assert not (wrong := outside(cases, found, lambda *_: FMA.limit)), "\n".join(wrong)


@pytest.mark.parametrize("target", here)
def test_relaxed_products_are_within_the_bounds_that_they_state(target):
    """That of the weakest of the arithmetics that the network uses: kernels say which."""
    model, inputs, cases = products(True)
    rows_of = {str(a): a for a in ARITHMETICS.values()}
    with ingot.compile(model, target=target, threads="none", accuracy="relaxed") as library:
        made = {b for kernel in library.model.kernels.values() for b in kernel.bounds}
        found = library.run(inputs)

    def limit(x, w):
        return np.maximum.reduce([rows_of[b].limit(x, w) for b in (*made, str(FMA))])
    assert not (wrong := outside(cases, found, lambda *_: limit)), "\n".join(wrong)


# ---------------------------------------------------------------- convolutions

IMAGES = ((3, 32, 12), (3, 256, 7), (1, 300, 9), (5, 24, 10))  # kernel, channels, size


def convolutions(images=IMAGES):
    seed = 0
    nodes, inputs, weights, cases = [], {}, {}, []
    for kind in KINDS:
        for kernel, channels, size in images:
            seed += 1
            rng, name = np.random.default_rng(seed), f"{kind.__name__}_{kernel}_{channels}"
            base = rng.standard_normal((channels, COLUMNS))
            x, w = kind(rng, rng.standard_normal((size * size, channels)), base)
            if kind in (equal, positive, cancelling):
                w = w[:, :, None] * np.ones(kernel * kernel)
            else:  # no sum over channels is small in all taps at once, by its sizes
                w = (w / base)[:, :, None] * rng.standard_normal((channels, COLUMNS, kernel * kernel))
            image = x.T.reshape(1, channels, size, size).astype(F32)
            weight = w.transpose(1, 0, 2).reshape(COLUMNS, channels, kernel, kernel).astype(F32)
            inputs[f"x_{name}"], weights[f"w_{name}"] = image, weight
            nodes.append(helper.make_node("Conv", [f"x_{name}", f"w_{name}"], [f"y_{name}"], name=f"n_{name}",
                                          pads=[kernel // 2] * 4))
            cases.append((kind.__name__, (kernel, channels, size), f"y_{name}", image, weight))
    return _model(nodes, inputs, weights), inputs, cases


def patches(image, kernel):
    """The inputs of each point of the output, as rows [points, channels * kernel * kernel]."""
    padded = np.pad(image[0], ((0, 0), (kernel // 2,) * 2, (kernel // 2,) * 2))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(1, 2))
    return seen.transpose(1, 2, 0, 3, 4).reshape(image.shape[2] * image.shape[3], -1)


def as_products(cases, found):
    for kind, shape, name, image, weight in cases:
        x, w = patches(image, shape[0]), weight.reshape(len(weight), -1).T
        yield kind, shape, found[name][0].reshape(len(weight), -1).T.astype(np.float64), x, w


def outside_of_images(cases, found):
    return [f"{kind} {shape}: {over:.2f} times its bound" for kind, shape, y, x, w in as_products(cases, found)
            if not (over := excess(y, x, w, FMA.limit)) <= 1]


@pytest.mark.parametrize("target", here)
def test_every_element_of_a_strict_convolution_is_within_its_bound(target):
    model, inputs, cases = convolutions()
    with ingot.compile(model, target=target, threads="none", accuracy="strict") as library:
        found = library.run(inputs)
    assert not (wrong := outside_of_images(cases, found)), "\n".join(wrong)


@pytest.mark.parametrize("algorithm", ["winograd2", "winograd3", "winograd4", "chosen"])
@pytest.mark.parametrize("target", here[1:])
def test_winograd_is_within_a_part_of_its_channel(target, algorithm):
    """1e-5 of the largest magnitude of the output's channel, or what sums of floats may be off."""
    model, inputs, cases = convolutions()
    given = {n.name: algorithm for n in model.graph.node if "_3_" in n.name} if algorithm != "chosen" else None
    with ingot.compile(model, target=target, threads="none", algorithms=given) as library:
        found = library.run(inputs)
    wrong = []
    for kind, shape, y, x, w in as_products(cases, found):
        if kind == "cancelling":  # channels are nothing but what is left of large terms
            continue
        x, w = x.astype(np.float64), w.astype(np.float64)
        exact = x @ w
        off = np.abs(y - exact).max(axis=0) / (np.abs(exact).max(axis=0) + len(w) * TINY)
        if not off.max() <= 1e-5:
            wrong.append(f"{kind} {shape}: {off.max():.1e}")
    assert not wrong, "\n".join(wrong)


# ---------------------------------------------------------------- other machines, emulated

ELSEWHERE = pytest.mark.parametrize("target", ["aarch64-linux-gnu", "armv7-linux-gnueabihf"])


@ELSEWHERE
@pytest.mark.parametrize("kept", ["float32", "strict"])
def test_products_elsewhere(tmp_path, target, kept):
    model, inputs, cases = products(True, ((1, 64), (5, 1000), (20, 300)))
    with ingot.compile(model, target=target, threads="none", accuracy=kept, name="bounds") as library:
        found = run_elsewhere(library, inputs, tmp_path)
    assert not (wrong := outside(cases, found, lambda *_: FMA.limit)), "\n".join(wrong)


@ELSEWHERE
def test_strict_convolutions_elsewhere(tmp_path, target):
    model, inputs, cases = convolutions(((3, 32, 12), (1, 300, 9)))
    with ingot.compile(model, target=target, threads="none", accuracy="strict", name="bounds") as library:
        found = run_elsewhere(library, inputs, tmp_path)
    assert not (wrong := outside_of_images(cases, found)), "\n".join(wrong)
