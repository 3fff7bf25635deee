"""Products in fixed point, by the unit for tiles of integers and in plain C: strict C, results as near as floats'."""
from dataclasses import replace

import numpy as np
import pytest

import ingot
from c_folders import (HERE, STRICT, build, compile_all, definitions, library_sources, need, need_compiler, run,
                       selftest_sources)
from ingot.codegen.target import Target
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.relax.arithmetic import digits

pytestmark = pytest.mark.optimization("-O0")
AMX = Target.get("x86-64-v4-amx")
UNIT = [flag for flag in AMX.cflags if flag.startswith("-mamx")]
# As plain C on any machine, in vectors as long as the unit's digits ask for; with the unit where there is one.
TARGETS = [pytest.param(replace(Target.get("host"), integer_tiles=True, vector_lanes=AMX.vector_lanes,
                                vector_registers=AMX.vector_registers, small_tile=0,
                                cflags=tuple(f for f in Target.get("host").cflags if f not in UNIT)), id="plain"),
           pytest.param(AMX, id="unit", marks=pytest.mark.skipif(not AMX.is_supported_here, reason="no AMX here"))]


def network(rows, depth=512, columns=192):
    """A product of many columns, whose rows and columns are no whole tiles, a bias and a GELU."""
    rng = np.random.default_rng(0)
    w, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((depth, columns), (columns,)))
    x = RelaxVar("x", TensorStructInfo((*rows, depth), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(call_op("matmul", x, Constant(w, "w")), "product")
        bb.emit_func_output(bb.emit(call_op("add", y, Constant(b, "b"))))
    return bb.get(), w.astype(np.float64), b


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("threads", ["none", "openmp"])
@pytest.mark.parametrize("rows, columns", [((47,), 320), ((2, 47), 241), ((528,), 192), ((100,), 186)])
def test_results(target, threads, rows, columns):
    mod, w, b = network(rows, columns=columns)
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((*rows, len(w))) * 10.0 ** rng.integers(-9, 9, (*rows, 1))).astype(np.float32)
    x.reshape(-1, len(w))[0], x.reshape(-1, len(w))[5] = np.nan, 0
    with ingot.compile(mod, target=target, threads=threads, accuracy="relaxed") as library:
        assert any(name.startswith("ingot_tiles.h") for name in library.model.files())
        (found,) = library.run({"x": x}).values()
    found, exact = (y.reshape(-1, columns) for y in (found, x.astype(np.float64) @ w + b))
    assert np.isnan(found[0]).all()
    largest = np.abs(exact[1:]).max(axis=1, keepdims=True)
    assert (np.abs(found[1:] - exact[1:]) <= 1e-6 * largest).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("threads", ["none", "openmp"])
@pytest.mark.parametrize("rows", [1, 3, 5])
def test_few_rows(target, threads, rows):
    """Columns that the second cache does not hold are read once, for the digits of all rows."""
    mod, w, b = network((rows,), columns=650)
    x = np.random.default_rng(1).standard_normal((rows, len(w))).astype(np.float32)
    exact = x.astype(np.float64) @ w + b
    with ingot.compile(mod, target=target, threads=threads, accuracy="relaxed") as library:
        assert any(name.startswith("ingot_tiles.h") for name in library.model.files())
        found = next(iter(library.run({"x": x}).values())).copy()
        x[-1, 7] = np.inf
        unknown = next(iter(library.run({"x": x}).values()))
    assert (np.abs(found - exact) <= 1e-6 * np.abs(exact).max(axis=1, keepdims=True)).all()
    assert np.isnan(unknown[-1]).all() and (unknown[:-1] == found[:-1]).all()


@pytest.mark.parametrize("threads, flags", [("none", ()), ("openmp", ("-fopenmp",))])
def test_shapes_of_tiles_are_the_threads_own(tmp_path, threads, flags):
    need_compiler("gcc", *flags)
    if not AMX.is_supported_here:
        pytest.skip("no AMX here")
    with ingot.compile(network((48,))[0], target=AMX, threads=threads, name="products", accuracy="relaxed") as library:
        folder = library.export(tmp_path / "net")
        flags = (*AMX.cflags, *flags, *definitions(library))
    run([build(folder, [*library_sources(folder), HERE / "own_tiles.c"], tmp_path / "program", "gcc", *flags)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("threads", ["none", "openmp"])
def test_terms_in_parts(target, threads, monkeypatch):
    monkeypatch.setattr(digits, "NEAR", 47 * 128 * 3)
    monkeypatch.setattr(digits, "PART", 2)
    mod, w, b = network((47,), columns=250)
    x = np.random.default_rng(1).standard_normal((47, len(w))).astype(np.float32)
    with ingot.compile(mod, target=target, threads=threads, accuracy="relaxed") as library:
        files = library.model.files().items()
        assert "47, 32, 2," in "".join(text for name, text in files if name.startswith("kernels"))
        (found,) = library.run({"x": x}).values()
    exact = x.astype(np.float64) @ w + b
    assert np.abs(found - exact).max() <= 1e-6 * np.abs(exact).max()


def image_network(channels, outputs, size, stride=1, kernel=1):
    """A ReLU, a convolution, a bias and a ReLU of a plain image."""
    rng = np.random.default_rng(0)
    w, b = (rng.standard_normal(shape).astype(np.float32)
            for shape in ((outputs, channels, kernel, kernel), (1, outputs, 1, 1)))
    x = RelaxVar("x", TensorStructInfo((1, channels, *size), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(call_op("nn.relu", x))
        y = bb.emit(call_op("nn.conv2d", y, Constant(w, "w"), strides=(stride, stride), padding=(kernel // 2,) * 4),
                    "conv")
        bb.emit_func_output(bb.emit(call_op("nn.relu", bb.emit(call_op("add", y, Constant(b, "b"))))))
    return bb.get(), w[:, :, 0, 0].astype(np.float64), b


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("threads", ["none", "openmp"])
@pytest.mark.parametrize("channels, outputs, size, stride", [
    (64, 64, (9, 11), 1), (200, 50, (28, 24), 1), (20, 140, (7, 7), 1), (96, 64, (14, 14), 2)])
def test_images(target, threads, channels, outputs, size, stride):
    mod, w, b = image_network(channels, outputs, size, stride)
    x = np.random.default_rng(1).standard_normal((1, channels, *size)).astype(np.float32)
    with ingot.compile(mod, target=target, threads=threads, algorithms={"conv": "digits"}) as library:
        assert "ingot_tiles.h" in library.model.files()
        (found,) = library.run({"x": x}).values()
    seen = np.maximum(x, 0).astype(np.float64)[:, :, ::stride, ::stride]
    exact = np.maximum(np.einsum("oi,niyx->noyx", w, seen) + b, 0)
    assert np.abs(found - exact).max() <= 1e-6 * np.abs(exact).max()


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_not_finite_stays_in_its_row_of_points(target):
    mod, w, b = image_network(64, 64, (5, 6), 1)
    x = np.random.default_rng(1).standard_normal((1, 64, 5, 6)).astype(np.float32)
    exact = np.delete(np.maximum(np.einsum("oi,niyx->noyx", w, np.maximum(x, 0)) + b, 0), 2, axis=2)
    x[0, 7, 2, 3] = np.inf
    with ingot.compile(mod, target=target, threads="none", algorithms={"conv": "digits"}) as library:
        (found,) = library.run({"x": x}).values()
    assert np.abs(np.delete(found, 2, axis=2) - exact).max() <= 1e-6 * np.abs(exact).max()


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", [AMX.cflags, [f for f in AMX.cflags if f not in UNIT], ["-O1"]],
                         ids=["unit", "plain", "baseline"])
def test_strict_c_and_the_self_test(tmp_path, compiler, flags):
    """A folder cast for the unit is C for every machine; where a processor has none, it computes the same."""
    need(compiler)
    with ingot.compile(network((48,))[0], target=AMX, threads="none", name="products", accuracy="relaxed") as library:
        folder = library.export(tmp_path / "net")
    compile_all(folder, compiler, *STRICT, *flags)
    if AMX.is_supported_here or flags == ["-O1"]:
        program = build(folder, selftest_sources(folder), tmp_path / "selftest", compiler, *flags)
        assert "ok" in run([program])


@pytest.mark.parametrize("flags", [UNIT, []], ids=["unit", "plain"])
def test_sanitized(tmp_path, flags):
    need("gcc")
    flags = ["-O1", "-march=x86-64-v4", *flags, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    if not AMX.is_supported_here:
        pytest.skip("no AMX here")
    with ingot.compile(network((48,), columns=186)[0], target=AMX, threads="none", name="products", accuracy="relaxed") as library:
        folder = library.export(tmp_path / "net")
    assert "ok" in run([build(folder, selftest_sources(folder), tmp_path / "selftest", "gcc", *flags)])


def test_only_relaxed_products_are_of_integers():
    for accuracy in ("relaxed", "float32", "strict"):
        files = ingot.compile(network((48,))[0], target=AMX, accuracy=accuracy).model.files()
        assert ("ingot_tiles.h" in files) == (accuracy == "relaxed")
