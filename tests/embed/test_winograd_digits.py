"""Winograd convolutions by digits, by the unit for tiles of integers and in plain C: as near as the contract says."""

import numpy as np
import pytest

import ingot
from ingot.codegen.target import Target
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.schedule.rules import threads, winograd_digit_blocks
from ingot.ir.schedule.rules.winograd_digit_blocks import Blocking
from machines import set_costs
from test_digit_products import TARGETS, image_network

pytestmark = pytest.mark.optimization("-O0")
CONTRACT = 1e-4


def network(channels, outputs, size, kernel=3, stride=1):
    return image_network(channels, outputs, size, stride, kernel)[0]


def library(mod, target, threads, algorithm):
    return ingot.compile(mod, target=target, threads=threads, algorithms={"conv": algorithm})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("threads", ["none", "openmp"])
@pytest.mark.parametrize("algorithm, channels, outputs, size, options", [
    ("winograd2_digits", 64, 64, (14, 13), {}), ("winograd4_digits", 80, 40, (28, 27), {}),
    ("winograd6_digits", 32, 64, (13, 18), {}), ("winograd4_digits", 16, 32, (9, 9), {"kernel": 5}),
    ("winograd2_digits", 16, 48, (15, 14), {"kernel": 5, "stride": 2})])
def test_results(target, threads, algorithm, channels, outputs, size, options):
    mod = network(channels, outputs, size, **options)
    x = np.random.default_rng(1).standard_normal((1, channels, *size)).astype(np.float32)
    exact = evaluate(mod, [x])
    with library(mod, target, threads, algorithm) as compiled:
        kernels = "".join(text for name, text in compiled.model.files().items() if name.startswith("kernels"))
        assert kernels.count("ingot_tiles_products(") == 1
        (found,) = compiled.run({"x": x}).values()
    assert np.abs(found - exact).max() <= (3e-6 if "2" in algorithm else CONTRACT / 2) * np.abs(exact).max()


@pytest.mark.parametrize("columns", [16, 32])
@pytest.mark.parametrize("rows, over", [(1, "rows"), (2, "rows"), (2, "channels"), (4, "channels"), (2, "each"),
                                        (4, "each")])
def test_every_blocking(rows, columns, over, monkeypatch):
    set_costs(monkeypatch, {"threads.least_work": 1})
    monkeypatch.setattr(winograd_digit_blocks, "choose", lambda *_: Blocking(rows, columns, over, 0))
    mod, x = network(64, 80, (15, 6)), np.random.default_rng(1).standard_normal((1, 64, 15, 6)).astype(np.float32)
    exact = evaluate(mod, [x])
    with library(mod, TARGETS[0].values[0], "openmp", "winograd4_digits") as compiled:
        (found,) = compiled.run({"x": x}).values()
    assert np.abs(found - exact).max() <= CONTRACT / 2 * np.abs(exact).max()


def hard_image(kind, channels):
    """20 x 20 points: large means, alternating signs, few large values, nothing but positive numbers."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((1, channels, 20, 20))
    if kind == "mean":
        x += 100
    elif kind == "signs":
        x = np.abs(x) * (-1.0) ** np.add.outer(np.arange(20), np.arange(20))
    elif kind == "outliers":
        x[rng.random(x.shape) < 0.01] *= 1000
    else:
        x = np.maximum(x, 0)
    return x.astype(np.float32)


@pytest.mark.parametrize("kind", ["mean", "signs", "outliers"])
@pytest.mark.parametrize("algorithm", ["winograd2_digits", "winograd4_digits"])
def test_data_that_is_hard(kind, algorithm):
    x, mod = hard_image(kind, 64), network(64, 32, (20, 20))
    exact = evaluate(mod, [x])
    with library(mod, TARGETS[0].values[0], "none", algorithm) as compiled:
        (found,) = compiled.run({"x": x}).values()
    assert np.abs(found - exact).max() <= CONTRACT * np.abs(exact).max()


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_not_finite_stays_in_its_rows_of_tiles(target):
    mod = network(64, 64, (12, 12))
    x = np.random.default_rng(1).standard_normal((1, 64, 12, 12)).astype(np.float32)
    exact = evaluate(mod, [x])
    x[0, 7, 9, 3] = np.inf
    with library(mod, target, "none", "winograd4_digits") as compiled:
        (found,) = compiled.run({"x": x}).values()
    assert not np.isfinite(found[0, :, 8:11, 2:5]).any()
    assert np.abs(found[:, :, :8] - exact[:, :, :8]).max() <= CONTRACT * np.abs(exact).max()


def test_exact_keeps_direct_convolutions_and_other_targets_floats():
    mod = network(256, 256, (14, 14))
    amx = Target.get("x86-64-v4-amx")
    floats = amx.without("integer_tiles")
    for target, accuracy, digits in ((amx, "relaxed", True), (amx, "strict", False), (amx, "float32", False),
                                     (floats, "relaxed", False)):
        assert ("ingot_tiles.h" in ingot.compile(mod, target=target, accuracy=accuracy).model.files()) == digits
