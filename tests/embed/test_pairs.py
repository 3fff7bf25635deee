"""Products by pairs: strict C, results as near as the contract says, on vectors of any machine."""
from dataclasses import replace

import numpy as np
import pytest

import ingot
from c_folders import STRICT, build, compile_all, need_compiler, run, selftest_sources
from ingot.codegen.target import Target
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.schedule.rules import threads as rule_threads, winograd_blocks
from ingot.ir.schedule.rules.tiles import Tile
from ingot.ir.schedule.rules.winograd_blocks import Blocking
from test_digit_products import image_network, network
from test_winograd_digits import hard_image

pytestmark = pytest.mark.optimization("-O0")
ZEN4 = Target.get("x86-64-v4-zen4")
# As plain C on any machine, in vectors as long as columns are packed for; with its own where there are such.
TARGETS = [pytest.param(replace(Target.get("c"), adders=True, multiply_adds=1, streamed_bytes=6,
                                vector_lanes=ZEN4.vector_lanes, vector_registers=ZEN4.vector_registers), id="plain"),
           pytest.param(ZEN4, id="zen4", marks=pytest.mark.skipif(not ZEN4.is_supported_here, reason="no AVX-512 with VBMI2"))]
BOTH = pytest.mark.parametrize("threads", ["none", "openmp"])
EVERYWHERE = pytest.mark.parametrize("target", TARGETS)
EXACT, CONTRACT = 2e-6, 1e-4


def kernels(library):
    return "".join(text for name, text in library.model.files().items() if name.startswith("kernels"))


@EVERYWHERE
@BOTH
@pytest.mark.parametrize("rows, depth, columns", [
    ((47,), 512, 320), ((2, 47), 64, 241), ((100,), 192, 186), ((8,), 768, 512), ((33,), 1040, 112)])
def test_products(target, threads, rows, depth, columns):
    """Rows of very different size, one that is not finite and one of zeros, each by itself."""
    mod, w, b = network(rows, depth, columns)
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((*rows, depth)) * 10.0 ** rng.integers(-9, 9, (*rows, 1))).astype(np.float32)
    x.reshape(-1, depth)[0], x.reshape(-1, depth)[5] = np.nan, 0
    with ingot.compile(mod, target=target, threads=threads, accuracy="relaxed") as library:
        assert "pairs_sums" in kernels(library)
        (found,) = library.run({"x": x}).values()
    found, exact = (y.reshape(-1, columns) for y in (found, x.astype(np.float64) @ w + b))
    assert np.isnan(found[0]).all() and (found[5] == b).all()
    largest = np.abs(exact[1:]).max(axis=1, keepdims=True)
    assert (np.abs(found[1:] - exact[1:]) <= EXACT * largest).all()


@EVERYWHERE
@BOTH
@pytest.mark.parametrize("channels, outputs, size, stride", [
    (64, 64, (9, 11), 1), (200, 50, (28, 24), 1), (96, 140, (7, 7), 1), (96, 64, (14, 14), 2)])
def test_images(target, threads, channels, outputs, size, stride):
    mod, *_ = image_network(channels, outputs, size, stride)
    x = np.random.default_rng(1).standard_normal((1, channels, *size)).astype(np.float32)
    exact = evaluate(mod, [x])
    with ingot.compile(mod, target=target, threads=threads, algorithms={"conv": "pairs"}) as library:
        assert "pairs_sums" in kernels(library)
        (found,) = library.run({"x": x}).values()
    assert np.abs(found - exact).max() <= EXACT * np.abs(exact).max()


@EVERYWHERE
@BOTH
@pytest.mark.parametrize("size", [(25, 5), (28, 28), (30, 22), (9, 19), (55, 27)])
def test_images_that_are_padded_for_the_next_layer(target, threads, size, monkeypatch):
    """Their rows do not follow one another: tiles are of whole rows, of parts of one, or across several; threads share
    blocks of them."""
    monkeypatch.setattr(rule_threads, "PARALLEL_MIN_WORK", 1)
    rng = np.random.default_rng(0)
    shapes = (64, 64, 1, 1), (64, 1, 3, 3)
    pointwise, depthwise = (rng.standard_normal(shape).astype(np.float32) / 8 for shape in shapes)
    x = RelaxVar("x", TensorStructInfo((1, 64, *size), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(call_op("nn.relu", bb.emit(call_op("nn.conv2d", x, Constant(pointwise, "w")), "conv")))
        bb.emit_func_output(bb.emit(call_op("nn.conv2d", y, Constant(depthwise, "d"), groups=64, padding=(1,) * 4)))
    mod, value = bb.get(), rng.standard_normal((1, 64, *size)).astype(np.float32)
    with ingot.compile(mod, target=target, threads=threads, algorithms={"conv": "pairs"}) as library:
        assert "pairs_sums" in kernels(library) and "refused" not in kernels(library)
        (found,) = library.run({"x": value}).values()
    exact = evaluate(mod, [value])
    assert np.abs(found - exact).max() <= EXACT * np.abs(exact).max()


@EVERYWHERE
@BOTH
@pytest.mark.parametrize("algorithm, channels, outputs, size, options", [
    ("winograd2_pairs", 64, 64, (14, 13), {}), ("winograd4_pairs", 80, 40, (28, 27), {}),
    ("winograd6_pairs", 48, 64, (13, 18), {}), ("winograd3_pairs", 48, 32, (9, 9), {"kernel": 5}),
    ("winograd2_pairs", 16, 48, (15, 14), {"kernel": 5, "stride": 2})])
def test_winograd(target, threads, algorithm, channels, outputs, size, options):
    mod, *_ = image_network(channels, outputs, size, **{"kernel": 3, **options})
    x = np.random.default_rng(1).standard_normal((1, channels, *size)).astype(np.float32)
    exact = evaluate(mod, [x])
    with ingot.compile(mod, target=target, threads=threads, algorithms={"conv": algorithm}) as library:
        assert "pairs_sums" in kernels(library)
        (found,) = library.run({"x": x}).values()
    assert np.abs(found - exact).max() <= (3e-6 if "2" in algorithm else CONTRACT / 2) * np.abs(exact).max()


@pytest.mark.parametrize("rows, over", [(1, "rows"), (2, "rows"), (4, "channels")])
@pytest.mark.parametrize("tile", [Tile(1, 1, 2), Tile(1, 2, 2)])
def test_every_blocking(rows, tile, over, monkeypatch):
    monkeypatch.setattr(rule_threads, "PARALLEL_MIN_WORK", 1)
    monkeypatch.setattr(winograd_blocks, "choose", lambda *_: Blocking(rows, tile if rows > 1 else Tile(1, 1, 2), 1,
                                                                       over, 0))
    mod, *_ = image_network(64, 80, (15, 6), kernel=3)
    x = np.random.default_rng(1).standard_normal((1, 64, 15, 6)).astype(np.float32)
    exact = evaluate(mod, [x])
    with ingot.compile(mod, target=TARGETS[0].values[0], algorithms={"conv": "winograd4_pairs"}) as library:
        (found,) = library.run({"x": x}).values()
    assert np.abs(found - exact).max() <= CONTRACT / 2 * np.abs(exact).max()


@pytest.mark.parametrize("kind", ["mean", "signs", "outliers", "positive"])
@pytest.mark.parametrize("algorithm, contract", [
    ("pairs", 1e-5), ("winograd2_pairs", 1e-5), ("winograd4_pairs", CONTRACT), ("winograd6_pairs", CONTRACT)])
def test_data_that_is_hard(kind, algorithm, contract):
    x, (mod, *_) = hard_image(kind, 192), image_network(192, 32, (20, 20), kernel=1 if algorithm == "pairs" else 3)
    exact = evaluate(mod, [x])
    with ingot.compile(mod, target=TARGETS[0].values[0], threads="none", algorithms={"conv": algorithm}) as library:
        (found,) = library.run({"x": x}).values()
    assert np.abs(found - exact).max() <= contract * np.abs(exact).max()


@EVERYWHERE
def test_what_is_not_finite_stays_in_its_point(target):
    mod, *_ = image_network(64, 64, (12, 12))
    x = np.random.default_rng(1).standard_normal((1, 64, 12, 12)).astype(np.float32)
    with ingot.compile(mod, target=target, threads="none", algorithms={"conv": "pairs"}) as library:
        found = next(iter(library.run({"x": x}).values())).copy()
        x[0, 7, 9, 3] = np.inf
        (unknown,) = library.run({"x": x}).values()
    assert np.isnan(unknown[0, :, 9, 3]).all()
    unknown[0, :, 9, 3] = found[0, :, 9, 3]
    assert (unknown == found).all()


def test_exact_does_without():
    mod, *_ = image_network(256, 256, (14, 14))
    for accuracy, named in (("relaxed", True), ("float32", False), ("strict", False)):
        with ingot.compile(mod, target=ZEN4, accuracy=accuracy) as library:
            assert ("pairs_sums" in kernels(library)) == named


def networks():
    return {"product": network((40,), 256, 96)[0], "image": image_network(64, 96, (14, 14))[0],
            "winograd": image_network(96, 64, (14, 14), kernel=3)[0]}


ALGORITHMS = {"image": {"conv": "pairs"}, "winograd": {"conv": "winograd4_pairs"}}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("name", networks())
def test_strict(tmp_path, compiler, name):
    """Also for machines that this is none of."""
    need_compiler(compiler, "-fopenmp", *ZEN4.cflags)
    with ingot.compile(networks()[name], target=ZEN4, name="products", accuracy="relaxed",
                       algorithms=ALGORITHMS.get(name)) as library:
        folder = library.export(tmp_path / "folder")
    compile_all(folder, compiler, *STRICT, *ZEN4.cflags, "-fopenmp")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("name", networks())
def test_sanitized(tmp_path, compiler, name):
    flags = ["-O1", "-DINGOT_SIMD_SCALAR", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    need_compiler(compiler, *flags)
    with ingot.compile(networks()[name], target=TARGETS[0].values[0], threads="none", name="products",
                       accuracy="relaxed", algorithms=ALGORITHMS.get(name)) as library:
        folder = library.export(tmp_path / "folder")
    run([build(folder, selftest_sources(folder), tmp_path / "program", compiler, *flags)])
