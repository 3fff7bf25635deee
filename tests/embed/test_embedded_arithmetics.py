"""Networks by split integers and by inner products: strict C, results as near as the contract says, with their units
and without."""
import numpy as np
import pytest

import ingot
from arithmetic_networks import AMX, BUILDS, UNIT, image, image_network, kernels_of, product_network
from c_folders import (HERE, STRICT, build, compile_all, definitions, library_sources, need, need_compiler, run,
                       selftest_sources)
from ingot.codegen.toolchains import is_supported_here, toolchain
from ingot.ir.relax.arithmetic import split_integer
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.schedule import plan
from ingot.ir.schedule.rules.winograd_blocks import Layer
from ingot.ir.schedule.rules.winograd_split_integer import SplitIntegerPlanes
from machines import set_costs

pytestmark = pytest.mark.optimization("-O0")
EACH = pytest.mark.parametrize("built", BUILDS, ids=lambda b: b.arithmetic)
EVERYWHERE = pytest.mark.parametrize("built, target", [
    pytest.param(b, target, id=f"{b.arithmetic}-{name}", marks=pytest.mark.skipif(
        not is_supported_here(target), reason=f"{target} does not run here"))
    for b in BUILDS for name, target in (("plain", b.plain), ("unit", b.target))])
EXACT, CONTRACT = 2e-6, 1e-4  # of the largest result


def results(mod, feeds, target, threads="none", seen="", **options):
    """What a network makes of each feed."""
    with ingot.compile(mod, target=target, threads=threads, **options) as library:
        assert seen in kernels_of(library) and "refused" not in kernels_of(library)
        return [next(iter(library.run({"x": feed}).values())).copy() for feed in feeds]


def convolved(built, target, algorithm, mod, feeds, contract, threads="none"):
    """The errors of a network whose convolution is made by an algorithm are within the contract."""
    name = algorithm if algorithm == built.arithmetic else f"{algorithm}_{built.arithmetic}"
    seen = built.seen if algorithm == built.arithmetic else built.winograd
    for x, found in zip(feeds, results(mod, feeds, target, threads, seen, algorithms={"conv": name})):
        exact = evaluate(mod, [x])
        assert np.abs(found - exact).max() <= contract * np.abs(exact).max()


# ---------------------------------------------------------------- products

@EVERYWHERE
@pytest.mark.parametrize("threads, rows, depth, columns", [
    ("none", (47,), 512, 320), ("openmp", (2, 47), 512, 241), ("none", (100,), 512, 186), ("openmp", (528,), 512, 192)])
def test_products(built, target, threads, rows, depth, columns):
    """Rows of very different size, one that is not finite and one of zeros, each by itself."""
    mod, w, b = product_network(rows, depth, columns)
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((*rows, depth)) * 10.0 ** rng.integers(-9, 9, (*rows, 1))).astype(np.float32)
    x.reshape(-1, depth)[0], x.reshape(-1, depth)[5] = np.nan, 0
    found = results(mod, [x], target, threads, built.seen, accuracy="relaxed")[0].reshape(-1, columns)
    exact = (x.astype(np.float64) @ w + b).reshape(-1, columns)
    assert np.isnan(found[0]).all() and (found[5] == b).all()
    largest = np.abs(exact[1:]).max(axis=1, keepdims=True)
    assert (np.abs(found[1:] - exact[1:]) <= EXACT * largest).all()


SPLIT_INTEGERS = pytest.mark.parametrize("target", [
    pytest.param(BUILDS[0].plain, id="plain"),
    pytest.param(AMX, id="unit", marks=pytest.mark.skipif(not is_supported_here(AMX), reason="no AMX here"))])


@SPLIT_INTEGERS
@pytest.mark.parametrize("threads, rows", [("none", 1), ("openmp", 3), ("openmp", 5)])
def test_few_rows(target, threads, rows):
    """Columns that L2 does not hold are read once, for the slices of all rows."""
    mod, w, b = product_network((rows,), columns=650)
    x = np.random.default_rng(1).standard_normal((rows, len(w))).astype(np.float32)
    (found,) = results(mod, [x], target, threads, BUILDS[0].seen, accuracy="relaxed")
    exact = x.astype(np.float64) @ w + b
    assert (np.abs(found - exact) <= 1e-6 * np.abs(exact).max(axis=1, keepdims=True)).all()


@SPLIT_INTEGERS
@pytest.mark.parametrize("threads", ["none", "openmp"])
def test_terms_in_parts(target, threads, monkeypatch):
    monkeypatch.setattr(split_integer, "RESIDENT", 47 * 128 * 3)
    monkeypatch.setattr(split_integer, "PART", 2)
    mod, w, b = product_network((47,), columns=250)
    x = np.random.default_rng(1).standard_normal((47, len(w))).astype(np.float32)
    (found,) = results(mod, [x], target, threads, "47, 32, 2,", accuracy="relaxed")
    exact = x.astype(np.float64) @ w + b
    assert np.abs(found - exact).max() <= 1e-6 * np.abs(exact).max()


# ---------------------------------------------------------------- images

@EVERYWHERE
@pytest.mark.parametrize("threads, channels, outputs, size, stride", [
    ("openmp", 64, 64, (9, 11), 1), ("openmp", 200, 50, (28, 24), 1), ("none", 96, 140, (7, 7), 1),
    ("none", 96, 64, (14, 14), 2)])
def test_images(built, target, threads, channels, outputs, size, stride):
    convolved(built, target, built.arithmetic, image_network(channels, outputs, size, stride), [image(channels, size)],
              EXACT, threads)


@EVERYWHERE
@pytest.mark.parametrize("threads, size", [("openmp", (25, 5)), ("none", (28, 28)), ("openmp", (55, 27))])
def test_images_that_are_padded_for_the_next_layer(built, target, threads, size, monkeypatch):
    """Their rows do not follow one another: tiles are of whole rows, of parts of one, or across several; threads share
    blocks of them."""
    set_costs(monkeypatch, {"threads.least_work": 1})
    mod = image_network(64, 64, size, padded=True)
    convolved(built, target, built.arithmetic, mod, [image(64, size)], EXACT, threads)


@EVERYWHERE
@pytest.mark.parametrize("threads, algorithm, channels, outputs, size, options", [
    ("none", "winograd2", 64, 64, (14, 13), {}), ("openmp", "winograd4", 80, 40, (28, 27), {}),
    ("openmp", "winograd6", 48, 64, (13, 18), {}), ("none", "winograd3", 48, 32, (9, 9), {"kernel": 5}),
    ("openmp", "winograd2", 16, 48, (15, 14), {"kernel": 5, "stride": 2})])
def test_winograd(built, target, threads, algorithm, channels, outputs, size, options):
    mod = image_network(channels, outputs, size, **{"kernel": 3, **options})
    convolved(built, target, algorithm, mod, [image(channels, size)], 3e-6 if "2" in algorithm else CONTRACT / 2,
              threads)


@pytest.mark.parametrize("size, rows, over", [(1, 1, "rows"), (2, 1, "each"), (2, 2, "channels"), (1, 4, "each")])
@EACH
def test_every_plan(built, size, rows, over, monkeypatch):
    """size: vectors of an iteration by split integers, rows of a tile by inner products."""
    set_costs(monkeypatch, {"threads.least_work": 1})
    by_split_integers, chosen = built is BUILDS[0], plan._cheapest
    forced = plan.Plan("winograd", arithmetic=built.arithmetic, tile=None if by_split_integers else plan.Tile(
        1, min(size, rows), 2), block=rows, turn=size if by_split_integers else 1, threads=over)

    def is_forced(kernel):
        if by_split_integers:
            return isinstance(kernel, SplitIntegerPlanes)
        return isinstance(kernel, Layer) and kernel.inner_product

    monkeypatch.setattr(plan, "_cheapest", lambda k, target: forced if is_forced(k) else chosen(k, target))
    mod = image_network(64, 80, (15, 6), kernel=3)
    convolved(built, built.plain, "winograd4", mod, [image(64, (15, 6))], CONTRACT / 2, "openmp")


@EACH
@pytest.mark.parametrize("algorithm, contract", [(None, 1e-5), ("winograd2", 1e-5), ("winograd4", CONTRACT)])
def test_data_that_is_hard(built, algorithm, contract):
    mod = image_network(192, 32, (20, 20), kernel=3 if algorithm else 1)
    feeds = [image(192, (20, 20), kind) for kind in ("mean", "signs", "outliers", "positive")]
    convolved(built, built.plain, algorithm or built.arithmetic, mod, feeds, contract)


@EVERYWHERE
@pytest.mark.parametrize("algorithm, spoilt", [(None, np.s_[9:10]), ("winograd4", np.s_[8:12])])
def test_what_is_not_finite_stays_in_its_rows(built, target, algorithm, spoilt):
    """Rows are points, or tiles; the point itself is not finite."""
    mod, x = image_network(64, 64, (12, 12), kernel=3 if algorithm else 1), image(64, (12, 12))
    wanted = {"conv": f"{algorithm}_{built.arithmetic}" if algorithm else built.arithmetic}
    spoiled = x.copy()
    spoiled[0, 7, 9, 3] = np.inf
    found, unknown = results(mod, [x, spoiled], target, algorithms=wanted)
    assert not np.isfinite(unknown[0, :, 9, 3]).any()
    rows = np.delete(np.arange(12), np.arange(12)[spoilt])
    rows = rows[rows < 8] if algorithm else rows  # the tiles below see the point, too
    assert (unknown[:, :, rows] == found[:, :, rows]).all()


# ---------------------------------------------------------------- who has it, and its C

@EACH
@pytest.mark.parametrize("mod", [product_network((48,))[0], image_network(256, 256, (14, 14), kernel=3)],
                         ids=["product", "winograd"])
def test_only_relaxed_networks_of_its_machine_have_it(built, mod):
    for accuracy, target, has in (("relaxed", built.target, True), ("float32", built.target, False),
                                  ("strict", built.target, False), ("relaxed", "x86-64-v4", False)):
        with ingot.compile(mod, target=target, accuracy=accuracy) as library:
            assert (f"accuracy: {built.arithmetic}" in kernels_of(library)) == has


NETWORKS = {"product": product_network((48,))[0], "image": image_network(64, 96, (14, 14)),
            "winograd": image_network(96, 64, (14, 14), kernel=3)}


def quick(flags):
    """-O1 has all warnings that look at the flow of values."""
    return ["-O1" if flag == "-O3" else flag for flag in flags]


def folder_of(tmp_path, built, name, target, **options):
    algorithms = {"image": built.arithmetic, "winograd": f"winograd4_{built.arithmetic}"}
    wanted = {"conv": algorithms[name]} if name in algorithms else None
    with ingot.compile(NETWORKS[name], target=target, name="products", accuracy="relaxed", algorithms=wanted,
                       **options) as library:
        return library.export(tmp_path / "folder"), definitions(library)


@EACH
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("name", NETWORKS)
def test_strict(tmp_path, built, compiler, name):
    """Also for machines that this is none of."""
    need_compiler(compiler, "-fopenmp", *toolchain(built.target).cflags)
    folder, _ = folder_of(tmp_path, built, name, built.target)
    compile_all(folder, compiler, *STRICT, *quick(toolchain(built.target).cflags), "-fopenmp")


@EACH
@pytest.mark.parametrize("name, compiler", zip(NETWORKS, ("gcc", "clang", "gcc")))
def test_sanitized(tmp_path, built, compiler, name):
    flags = ["-O1", "-DINGOT_SIMD_SCALAR", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    need_compiler(compiler, *flags)
    folder, _ = folder_of(tmp_path, built, name, built.plain, threads="none")
    assert "ok" in run([build(folder, selftest_sources(folder), tmp_path / "program", compiler, *flags)])


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", [toolchain(AMX).cflags, [f for f in toolchain(AMX).cflags if f not in UNIT], ["-O1"]],
                         ids=["unit", "plain", "baseline"])
def test_a_folder_for_the_unit_is_c_for_every_machine(tmp_path, compiler, flags):
    """Where a processor has none, it computes the same."""
    need(compiler)
    folder, _ = folder_of(tmp_path, BUILDS[0], "product", AMX, threads="none")
    compile_all(folder, compiler, *STRICT, *quick(flags), "-I.")
    if is_supported_here(AMX) or flags == ["-O1"]:
        program = build(folder, selftest_sources(folder), tmp_path / "selftest", compiler, *STRICT[1:], *quick(flags))
        assert "ok" in run([program])


@pytest.mark.parametrize("threads, flags", [("none", ()), ("openmp", ("-fopenmp",))])
def test_shapes_of_tiles_are_the_threads_own(tmp_path, threads, flags):
    need_compiler("gcc", *flags)
    if not is_supported_here(AMX):
        pytest.skip("no AMX here")
    folder, defined = folder_of(tmp_path, BUILDS[0], "product", AMX, threads=threads)
    sources = [*library_sources(folder), HERE / "own_tiles.c"]
    run([build(folder, sources, tmp_path / "program", "gcc", *toolchain(AMX).cflags, *flags, *defined)])
