"""The rules for inner products: they keep results, and their loops have the intended shape."""

import numpy as np
import pytest
from rule_cases import checked, kernels, pointwise_by, product_by, winograd_by

from ingot.codegen.compile import Options
from ingot.codegen.target import Target
from ingot.ir.expr import Select
from ingot.ir.node import collect
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.plan import Plan, Tile, choose
from ingot.ir.schedule.rules import follow, winograd_blocks
from ingot.ir.schedule.rules.blocks import SYMBOLIC
from ingot.ir.schedule.rules.contraction import contraction
from ingot.ir.schedule.rules.inner_product_tiles import InnerProduct, is_profitable, tile_cycles
from ingot.ir.schedule.rules.threads import parallel_loops
from ingot.ir.schedule.rules.winograd import winograd as winograd_rule
from ingot.ir.tir.stmt import For
from machines import machine

CPU = machine(16, 32, multiply_adds=1, adds_beside=1)
ALONE = CPU.alone()
BOTH = pytest.mark.parametrize("cpu", [CPU, ALONE], ids=["threads", "alone"])


def product(rows, depth=64, columns=48):
    return product_by("inner_product", CPU, rows, depth, columns)


def convolution(*args, **options):
    return pointwise_by("inner_product", CPU, *args, **options)


def winograd(*sizes, **options):
    return winograd_by("inner_product", CPU, *sizes, scale=np.float32(1 / 8), **options)


def parallel(func):
    return sum(f.kind == "parallel" for f in collect(func.body, For))


# ---------------------------------------------------------------- products

@pytest.mark.parametrize("rows", [(5,), (16,), (17,), (33,), (3, 7), (2, 16)])
@pytest.mark.parametrize("depth, columns", [(64, 48), (48, 33), (16, 5), (40, 16)])
def test_products(rows, depth, columns):
    """No choice between pairs and terms by themselves is left."""
    cpu = (CPU, ALONE)[(sum(rows) + depth // 16) % 2]
    lowered = checked(contraction, product(rows, depth, columns), cpu)
    assert all("inner_product_largest" in str(s) for s in collect(lowered.body, Select))


@pytest.mark.parametrize("over, block, loops", [("rows", 2, 1), ("panels", 8, 2)])
def test_what_threads_share(over, block, loops):
    """Rows, which each of them divides itself, or panels of columns once all rows are divided."""
    plan = Plan("contraction", arithmetic="inner_product", tile=Tile(1, 8), block=block, turn=16, threads=over)
    func = product((64,), 128, 192).with_attr("plan", plan)
    assert parallel(checked(contraction, func, CPU)) == loops
    assert not parallel_loops(checked(contraction, func, ALONE).body)


@pytest.mark.parametrize("shape, outputs, strides, cpu", [
    ((1, 4, 7, 7), 64, (1, 1), CPU), ((2, 3, 5, 6), 40, (1, 1), ALONE), ((1, 2, 9, 8), 32, (2, 2), CPU),
    ((1, 1, 1, 3), 16, (1, 1), ALONE), (("n", 2, 4, 5), 16, (1, 1), CPU)])
def test_points_of_images_are_rows(shape, outputs, strides, cpu):
    checked(contraction, convolution(shape, outputs, strides), cpu)


@BOTH
def test_what_is_before_an_image_is_made_where_it_is_divided(cpu):
    func = convolution((1, 4, 6, 6), 32, before="nn.relu")
    assert "relu" in func.attrs.get("global_symbol", "fused_relu")
    checked(contraction, func, cpu)


def test_other_products_are_not_for_it():
    func, = kernels("conv_1x1", ALONE, "relaxed")
    assert not follow(contraction, Schedule(func), ALONE)
    assert not follow(winograd_rule, Schedule(func), ALONE)


# ---------------------------------------------------------------- Winograd

@pytest.mark.parametrize("size, options, cpu", [
    ((14, 14), {"channels": 32, "outputs": 48, "tile": 4}, CPU),
    ((9, 7), {"channels": 48, "outputs": 33, "tile": 2}, ALONE),
    ((10, 9), {"tile": 3, "epilogue": "residual"}, CPU), ((14, 12), {"stride": 2}, ALONE),
    ((5, 6), {"batch": 2, "padding": (0,) * 4}, CPU),
    ((8, 8), {"batch": "n", "tile": 6}, ALONE)])
def test_winograd(size, options, cpu):
    """No choice by the row of a matrix is left."""
    lowered = checked(winograd_rule, winograd(size, **options), cpu)
    assert all("inner_product_largest" in str(s) for s in collect(lowered.body, Select))


@pytest.mark.parametrize("over, loops, vectors", [("rows", 1, 1), ("rows", 1, 2), ("channels", 2, 2), ("each", 1, 1)])
def test_what_threads_share_of_winograd(over, loops, vectors):
    plan = Plan("winograd", arithmetic="inner_product", tile=Tile(1, 1, 4), block=1 if over == "rows" else 4,
                turn=vectors,
                threads=over)
    func = winograd((14, 14), 32, 64, tile=4).with_attr("plan", plan)
    assert parallel(checked(winograd_rule, func, CPU)) == loops
    assert not parallel_loops(checked(winograd_rule, func, ALONE).body)


# ---------------------------------------------------------------- the model

@pytest.mark.parametrize("layer, rows, vectors", [
    (winograd_blocks.Layer(4, 32, 32, 7, 7, 16, inner_product=True), 7, 4),
    (winograd_blocks.Layer(3, 32, 32, 5, 5, 16, inner_product=True), 5, 8),
    (winograd_blocks.Layer(4, 16, 16, 14, 14, 16, inner_product=True), 1, 1)])
def test_turns_of_winograd(layer, rows, vectors):
    """An iteration takes several vectors where V exceeds L2, and so reads V fewer times; L2 keeps their M."""
    for threads in ("none", "openmp"):
        chosen = choose(layer, Options(Target.get("x86-64-v4-zen4"), threads=threads).machine)
        assert (chosen.block, chosen.turn) == (rows, vectors)


@pytest.mark.parametrize("rows, parts, panels, alone, shared", [
    ((128,), 256, 48, ((16,), 5, "none", 16), ((16,), 2, "rows", 16)),
    ((49,), 171, 128, ((13,), 1, "none", 13), ((13,), 4, "panels", 16)),
    ((49,), 342, 44, ((13,), 1, "none", 13), ((13,), 1, "rows", 13)),
    ((8,), 256, 64, ((8,), 1, "none", 16), ((8,), 1, "panels", 16)),
    ((56, 28), 22, 4, ((1, 14), 32, "none", 16), ((1, 14), 4, "rows", 16)),
    ((28, 17), 64, 8, ((16, 1), 1, "none", 16), ((14, 1), 1, "rows", 14)),
    ((25, 5), 22, 4, ((3, 5), 9, "none", 16), ((3, 5), 2, "rows", 15)),
    ((6, 6), 43, 8, ((2, 6), 3, "none", 16), ((1, 6), 3, "rows", 9)),
    ((4096,), 256, 48, ((16,), 5, "none", 16), ((16,), 4, "rows", 16)),
    ((196,), 171, 16, ((16,), 7, "none", 16), ((16,), 3, "rows", 16)),
    ((197,), 128, 96, ((16,), 10, "none", 16), ((16,), 3, "rows", 16))])
def test_plans(rows, parts, panels, alone, shared):
    """Rows that L2 holds meet all panels, whole vectors of them where threads do not share them better
    otherwise, but tiles that straddle lines one at a time; threads share four blocks of them or more, or panels where
    few rows meet large columns."""
    for cpu, (tile, block, threads, group) in ((ALONE, alone), (CPU, shared)):
        assert choose(InnerProduct(rows, parts, panels, work=1 << 20), cpu) == Plan(
            "contraction", arithmetic="inner_product", tile=Tile(1, *tile), block=block, turn=group, threads=threads)


@pytest.mark.parametrize("parts, measured", [
    (22, {16: 32.9, 14: 28.6, 12: 24.9, 10: 21.2, 8: 16.4}), (43, {16: 32.4, 14: 28.2, 12: 24.7, 10: 20.5, 8: 16.6}),
    (128, {16: 32.6, 14: 28.6, 13: 26.5, 12: 25.0, 11: 23.6, 10: 21.2, 8: 17.8, 6: 16.6}),
    (256, {16: 32.6, 14: 28.8, 13: 26.8, 12: 25.0, 11: 23.2, 10: 21.7, 8: 18.1, 6: 16.6})])
def test_small_tiles_take_longer_where_the_first_cache_does_not_hold_what_they_read(parts, measured):
    """Cycles of a term of each third, measured on a Zen 4 core over 8 tiles of each block."""
    for rows, cycles in measured.items():
        predicted = (tile_cycles(CPU, rows, parts) - CPU.cost("inner_product.start")) / parts
        assert predicted == pytest.approx(cycles, rel=0.04)


@pytest.mark.parametrize("shape, cpu, expected", [
    ((128, 768, 3072), CPU, True), ((64, 768, 50257), CPU, True), ((197, 384, 384), ALONE, True),
    ((128, 768, 3072), machine(16, 32), False), ((128, 100, 3072), CPU, True), ((98, 40, 384), ALONE, True),
    ((98, 36, 384), ALONE, False), ((1, 1024, 1024), CPU, False),
    ((5, 1024, 1024), CPU, False), ((SYMBOLIC, 768, 768), CPU, False), ((3136, 16, 32), CPU, False)])
def test_when_they_are_profitable(shape, cpu, expected):
    assert is_profitable(cpu, *shape) == expected
