"""The rules for products by pairs: they keep results, and their loops have the intended shape."""

import numpy as np
import pytest
from rule_cases import checked, kernels, network, winograd_by

from ingot.codegen.compile import Options
from ingot.codegen.target import Target
from ingot.ir.expr import Select
from ingot.ir.node import collect
from ingot.ir.relax import Constant
from ingot.ir.relax.ops.conv_layouts import pack_weights
from ingot.ir.relax.ops.conv_pairs import pack_kernel
from ingot.ir.relax.ops.gathered_pairs import pack_groups
from ingot.ir.relax.ops.matmul_pairs import pack_columns
from ingot.ir.relax.ops.winograd_pairs import pack_planes
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.rules import pair_tiles, winograd_blocks
from ingot.ir.schedule.rules.blocks import SYMBOLIC
from ingot.ir.schedule.rules.column_pairs import column_pairs
from ingot.ir.schedule.rules.gathered_pairs import gathered_pairs
from ingot.ir.schedule.rules.pair_products import pair_products
from ingot.ir.schedule.rules.threads import parallel_loops
from ingot.ir.schedule.rules.winograd_blocks import Blocking
from ingot.ir.schedule.rules.winograd_pairs import winograd_pairs
from ingot.ir.tir.stmt import For
from machines import machine, set_costs, with_costs

CPU = machine(16, 32, multiply_adds=1, adds_beside=1)
ALONE = CPU.alone()
BOTH = pytest.mark.parametrize("cpu", [CPU, ALONE], ids=["threads", "alone"])


def product(rows, depth=64, columns=48):
    """The PrimFunc of a product, a bias and a ReLU."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((depth, columns)).astype(np.float32)
    parts = [Constant(part, "w") for part in pack_columns(w)]

    def build(op, x, bias):
        return op("nn.relu", op("add", op("matmul_pairs", x, *parts), bias))

    func, = kernels(lambda: network(build, [(*rows, -(-depth // 16) * 16), (columns,)]), CPU, "relaxed")
    return func


def convolution(shape, outputs, strides=(1, 1), before=None):
    """The PrimFunc of a 1x1 convolution of an image [batch, blocks, height, width], a residual and a ReLU."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((outputs, shape[1] * 16, 1, 1)).astype(np.float32)
    parts = [Constant(part, "w") for part in pack_kernel(pack_weights(w, 16, 1, 16))]
    sizes = (-(-d // s) for d, s in zip(shape[2:], strides))

    def build(op, x, residual):
        x = op(before, x) if before else x
        return op("nn.relu", op("add", op("nn.conv2d_pairs", x, *parts, strides=strides), residual))

    func, = kernels(lambda: network(build, [(*shape, 16), (shape[0], -(-outputs // 16), *sizes, 16)]), CPU, "relaxed")
    return func


def grouped(groups, inputs, outputs, shape, strides=(1, 1)):
    """The PrimFunc of a 1x1 convolution in groups of channels that lie anywhere in an image, a residual and a ReLU."""
    batch, blocks, *size = shape
    rng = np.random.default_rng(0)
    w = pack_weights(rng.standard_normal((groups * outputs, inputs, 1, 1)).astype(np.float32), 16, groups)
    spots = np.stack([rng.permutation(blocks * 16)[:inputs] for _ in range(groups)])
    parts = [Constant(part, "w") for part in pack_groups(w, np.stack(divmod(spots, 16), axis=-1))]
    sizes = (-(-d // s) for d, s in zip(size, strides))

    def build(op, x, residual):
        return op("nn.relu", op("add", op("nn.conv2d_gathered_pairs", x, *parts, strides=strides), residual))

    func, = kernels(lambda: network(build, [(*shape, 16), (batch, len(w), *sizes, 16)]), CPU, "relaxed")
    return func


def winograd(*sizes, **options):
    return winograd_by("pairs", pack_planes, CPU, *sizes, scale=np.float32(1 / 8), **options)


def parallel(func):
    return sum(f.kind == "parallel" for f in collect(func.body, For))


# ---------------------------------------------------------------- products

@BOTH
@pytest.mark.parametrize("rows", [(5,), (16,), (17,), (33,), (3, 7), (2, 16)])
@pytest.mark.parametrize("depth, columns", [(64, 48), (48, 33), (16, 5), (40, 16)])
def test_products(rows, depth, columns, cpu):
    """No choice between pairs and terms by themselves is left."""
    lowered = checked(pair_products, product(rows, depth, columns), cpu)
    assert all("pairs_largest" in str(s) for s in collect(lowered.body, Select))


@pytest.mark.parametrize("over, block, loops", [("rows", 2, 1), ("panels", 8, 2)])
def test_what_threads_share(over, block, loops, monkeypatch):
    """Rows, which each of them divides itself, or panels of columns once all rows are divided."""
    monkeypatch.setattr(pair_tiles, "choose", lambda *_: pair_tiles.Plan((8,), block, over))
    func = product((64,), 128, 192)
    assert parallel(checked(pair_products, func, CPU)) == loops
    assert not parallel_loops(checked(pair_products, func, ALONE).body)


@BOTH
@pytest.mark.parametrize("depth, columns", [(64, 64), (100, 208), (97, 16)])
def test_columns_of_activations(depth, columns, cpu, monkeypatch):
    """Threads share columns of each of three kernels."""
    set_costs(monkeypatch, {"threads.least_work": 1})
    def build(op, w):
        scales = op("pair_scales", w)
        return op("pair_offsets", op("pair_columns", w, scales), scales)

    funcs = kernels(lambda: network(build, [(depth, columns)]), cpu, "relaxed")
    assert len(funcs) == 3
    for func in funcs:
        lowered = checked(column_pairs, func, cpu)
        assert parallel(lowered) == (cpu.parallel and columns > 16)
    assert not column_pairs(Schedule(product((8,))), cpu)


def test_columns_that_are_made_when_a_product_runs_are_one_threads(monkeypatch):
    plans = []
    monkeypatch.setattr(pair_tiles, "choose", lambda *args: plans.append(args[-1]) or pair_tiles.Plan((8,), 2))

    def build(op, x, *parts):
        return op("matmul_pairs", x, *parts, made=True)

    func, = kernels(lambda: network(build, [(64, 96), (2, 32, 3, 16), (32,), (32,)]), CPU, "relaxed")
    checked(pair_products, func, CPU)
    assert all(plans)
    checked(pair_products, product((64,)), CPU)
    assert plans[-1] is False


@BOTH
@pytest.mark.parametrize("shape, outputs, strides", [
    ((1, 4, 7, 7), 64, (1, 1)), ((2, 3, 5, 6), 40, (1, 1)), ((1, 2, 9, 8), 32, (2, 2)), ((1, 1, 1, 3), 16, (1, 1)),
    (("n", 2, 4, 5), 16, (1, 1))])
def test_points_of_images_are_rows(shape, outputs, strides, cpu):
    checked(pair_products, convolution(shape, outputs, strides), cpu)


@BOTH
def test_what_is_before_an_image_is_made_where_it_is_divided(cpu):
    func = convolution((1, 4, 6, 6), 32, before="nn.relu")
    assert "relu" in func.attrs.get("global_symbol", "fused_relu")
    checked(pair_products, func, cpu)


@BOTH
@pytest.mark.parametrize("groups, inputs, outputs, shape, strides", [
    (3, 20, 18, (1, 5, 3, 5), (1, 1)), (4, 68, 40, (1, 20, 7, 7), (1, 1)), (2, 50, 30, (2, 8, 5, 4), (2, 2)),
    (2, 7, 5, ("n", 2, 4, 4), (1, 1)), (1, 33, 16, (1, 3, 1, 3), (1, 2))])
def test_channels_of_groups_that_lie_anywhere(groups, inputs, outputs, shape, strides, cpu):
    """Which are turned once for all groups; threads share points."""
    lowered = checked(gathered_pairs, grouped(groups, inputs, outputs, shape, strides), cpu)
    assert all("pairs_largest" in str(s) for s in collect(lowered.body, Select))


def test_threads_share_points_of_groups(monkeypatch):
    set_costs(monkeypatch, {"threads.least_work": 1})
    func = grouped(4, 48, 32, (1, 12, 8, 8))
    assert [parallel(checked(gathered_pairs, func, cpu)) for cpu in (CPU, ALONE)] == [1, 0]


def test_other_products_are_not_for_it():
    func, = kernels("conv_1x1", ALONE, "relaxed")
    assert not gathered_pairs(Schedule(func), ALONE)
    assert not pair_products(Schedule(func), ALONE)
    assert not winograd_pairs(Schedule(func), ALONE)


# ---------------------------------------------------------------- Winograd

@BOTH
@pytest.mark.parametrize("size, options", [
    ((14, 14), {"channels": 32, "outputs": 48, "tile": 4}), ((9, 7), {"channels": 48, "outputs": 33, "tile": 2}),
    ((10, 9), {"tile": 3, "epilogue": "residual"}), ((14, 12), {"stride": 2}),
    ((5, 6), {"batch": 2, "padding": (0,) * 4}),
    ((8, 8), {"batch": "n", "tile": 6})])
def test_winograd(size, options, cpu):
    """No choice by the row of a matrix is left."""
    lowered = checked(winograd_pairs, winograd(size, **options), cpu)
    assert all("pairs_largest" in str(s) for s in collect(lowered.body, Select))


@pytest.mark.parametrize("vectors", [1, 2])
@pytest.mark.parametrize("over, loops", [("rows", 1), ("channels", 2), ("each", 1)])
def test_what_threads_share_of_winograd(over, loops, vectors, monkeypatch):
    blocking = Blocking(1 if over == "rows" else 4, winograd_blocks.tiles.Tile(1, 1, 4), vectors, over, 0)
    monkeypatch.setattr(winograd_blocks, "choose", lambda *_: blocking)
    func = winograd((14, 14), 32, 64, tile=4)
    assert parallel(checked(winograd_pairs, func, CPU)) == loops
    assert not parallel_loops(checked(winograd_pairs, func, ALONE).body)


# ---------------------------------------------------------------- the model

@pytest.mark.parametrize("layer, rows, vectors", [
    (winograd_blocks.Layer(4, 32, 32, 7, 7, 16, pairs=True), 7, 4),
    (winograd_blocks.Layer(3, 32, 32, 5, 5, 16, pairs=True), 5, 8),
    (winograd_blocks.Layer(4, 16, 16, 14, 14, 16, pairs=True), 1, 1)])
def test_turns_of_winograd(layer, rows, vectors):
    """Of several vectors where V has left the second cache, which then reads it fewer times; it keeps their M."""
    for threads in ("none", "openmp"):
        chosen = winograd_blocks.choose(Options(Target.get("x86-64-v4-zen4"), threads=threads).machine, layer)
        assert (chosen.rows, chosen.vectors) == (rows, vectors)


@pytest.mark.parametrize("rows, parts, panels, alone, shared", [
    ((128,), 256, 48, ((16,), 5, "rows"), ((16,), 2, "rows")),
    ((49,), 171, 128, ((13,), 1, "rows", 13), ((13,), 4, "panels")),
    ((49,), 342, 44, ((13,), 1, "rows", 13), ((13,), 1, "rows", 13)),
    ((8,), 256, 64, ((8,), 1, "rows"), ((8,), 1, "panels")),
    ((56, 28), 22, 4, ((1, 14), 32, "rows"), ((1, 14), 4, "rows")),
    ((28, 17), 64, 8, ((16, 1), 1, "rows"), ((14, 1), 1, "rows", 14)),
    ((25, 5), 22, 4, ((3, 5), 9, "rows"), ((3, 5), 2, "rows", 15)),
    ((6, 6), 43, 8, ((2, 6), 3, "rows"), ((1, 6), 3, "rows", 9)),
    ((4096,), 256, 48, ((16,), 5, "rows"), ((16,), 4, "rows")),
    ((196,), 171, 16, ((16,), 7, "rows"), ((16,), 3, "rows")),
    ((197,), 128, 96, ((16,), 10, "rows"), ((16,), 3, "rows"))])
def test_plans(rows, parts, panels, alone, shared):
    """Rows that the second cache holds meet all panels, whole vectors of them where threads do not share them better
    otherwise, but tiles that straddle lines one at a time; threads share four blocks of them or more, or panels where
    few rows meet large columns."""
    for cpu, expected in ((ALONE, alone), (CPU, shared)):
        assert pair_tiles.choose(cpu, rows, parts, panels) == pair_tiles.Plan(*expected)


def test_rows_of_all_groups_are_kept_beside_those_of_one():
    """The second cache holds both, and threads share rows, also where few meet large columns."""
    alone, beside = (pair_tiles.choose(ALONE, (784,), 23, 5, kept=kept) for kept in (0, 320))
    room = [4 * (69 + 320) * plan.tile[0] * plan.block for plan in (alone, beside)]
    assert room[0] > ALONE.l2_bytes // 4 >= room[1]
    assert [pair_tiles.choose(CPU, (8,), 256, 64, kept=kept).over for kept in (0, 768)] == ["panels", "rows"]


def test_columns_that_are_made_stay_with_their_thread():
    """Else all that one of them writes was read by the other before."""
    rows, parts, panels = (64,), 342, 64
    assert [pair_tiles.choose(CPU, rows, parts, panels, made).over for made in (False, True)] == ["rows", "panels"]
    assert pair_tiles.choose(ALONE, rows, parts, panels, True) == pair_tiles.choose(ALONE, rows, parts, panels)


@pytest.mark.parametrize("shape, across, cpu, expected", [
    ((64, 1024, 1024), False, ALONE, True), ((64, 1024, 1024), True, ALONE, False),
    ((256, 256, 256), True, ALONE, True), ((16, 1024, 1024), False, ALONE, False),
    ((128, 768, 3072), False, ALONE, True), ((128, 768, 3072), True, ALONE, False),
    ((256, 256, 250), False, ALONE, False), ((256, 36, 256), False, ALONE, False),
    ((SYMBOLIC, 768, 768), False, ALONE, False), ((256, 256, 256), False, machine(16, 32), False)])
def test_what_is_worth_dividing_when_it_runs(shape, across, cpu, expected):
    cpu = with_costs(cpu, l3_bytes=16 << 20)
    assert pair_tiles.worth_dividing(cpu, *shape, across) == expected


@pytest.mark.parametrize("parts, measured", [
    (22, {16: 32.9, 14: 28.6, 12: 24.9, 10: 21.2, 8: 16.4}), (43, {16: 32.4, 14: 28.2, 12: 24.7, 10: 20.5, 8: 16.6}),
    (128, {16: 32.6, 14: 28.6, 13: 26.5, 12: 25.0, 11: 23.6, 10: 21.2, 8: 17.8, 6: 16.6}),
    (256, {16: 32.6, 14: 28.8, 13: 26.8, 12: 25.0, 11: 23.2, 10: 21.7, 8: 18.1, 6: 16.6})])
def test_small_tiles_take_longer_where_the_first_cache_does_not_hold_what_they_read(parts, measured):
    """Cycles of a term of each third, measured on a Zen 4 core over 8 tiles of each block."""
    for rows, cycles in measured.items():
        predicted = (pair_tiles.tile_cycles(rows, parts) - pair_tiles.START) / parts
        assert predicted == pytest.approx(cycles, rel=0.04)


@pytest.mark.parametrize("shape, cpu, expected", [
    ((128, 768, 3072), CPU, True), ((64, 768, 50257), CPU, True), ((197, 384, 384), ALONE, True),
    ((128, 768, 3072), machine(16, 32), False), ((128, 100, 3072), CPU, True), ((98, 40, 384), ALONE, True),
    ((98, 36, 384), ALONE, False), ((1, 1024, 1024), CPU, False),
    ((5, 1024, 1024), CPU, False), ((SYMBOLIC, 768, 768), CPU, False), ((3136, 16, 32), CPU, False)])
def test_what_is_worth_it(shape, cpu, expected):
    assert pair_tiles.worth(cpu, *shape) == expected
