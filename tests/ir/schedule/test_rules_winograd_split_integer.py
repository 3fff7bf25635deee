"""The rule for Winograd convolutions by split integers: it keeps results, and its loops have the intended shape."""

import pytest
from rule_cases import scheduled, winograd_by

from ingot.ir.expr import Call, Select
from ingot.ir.node import collect
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.plan import Plan, choose, cost
from ingot.ir.schedule.rules import follow
from ingot.ir.schedule.rules.threads import parallel_loops
from ingot.ir.schedule.rules.winograd_blocks import Layer
from ingot.ir.schedule.rules.winograd_split_integer import SplitIntegerPlanes, cycles
from ingot.ir.schedule.rules.winograd import winograd
from ingot.ir.tir.stmt import For
from ingot.ir.transform.pipeline import lower_prim_func
from machines import machine

CPU = machine(16, 32, integer_tiles=True)
ALONE = CPU.alone()


def kernel(*sizes, **options):
    return winograd_by("split_integer", CPU, *sizes, **options)


def lowered_by(func, cpu):
    return lower_prim_func(scheduled(winograd, func, cpu).func)


@pytest.mark.parametrize("cpu", [CPU, ALONE], ids=["threads", "alone"])
@pytest.mark.parametrize("size, options", [
    ((14, 14), {"channels": 64, "outputs": 96, "tile": 4}), ((9, 7), {"channels": 80, "outputs": 33, "tile": 2}),
    ((28, 26), {"tile": 4, "epilogue": "residual"}), ((14, 12), {"stride": 2}),
    ((5, 6), {"batch": 2, "padding": (0,) * 4}),
    ((8, 8), {"batch": "n", "tile": 6})])
def test_the_unit_makes_the_products(size, options, cpu):
    """Slices are cut in one place, sums made in another; no choice by the row of a matrix is left."""
    lowered = lowered_by(kernel(size, **options), cpu)
    calls = [c.args[0].value for c in collect(lowered.body, Call) if c.op == "tir.call_extern"]
    assert calls == ["ingot_tiles_slices", "ingot_tiles_products"]
    choices = [s for s in collect(lowered.body, Select) if "split_integer_" not in str(s)]
    assert not choices, "those of scales that are not finite are left alone"


@pytest.mark.parametrize("over, loops", [("rows", 1), ("channels", 2), ("each", 1)])
def test_what_threads_share(over, loops):
    plan = Plan("winograd", arithmetic="split_integer", block=1 if over == "rows" else 4, turn=2, threads=over)
    func = kernel((14, 14), 64, 64, tile=4).with_attr("plan", plan)
    assert len([f for f in collect(lowered_by(func, CPU).body, For) if f.kind == "parallel"]) == loops
    assert not parallel_loops(lowered_by(func, ALONE).body)


LAYERS = [Layer(4, 4, 4, 14, 14, 16), Layer(2, 16, 16, 7, 7, 16), Layer(2, 32, 32, 4, 4, 16),
          Layer(4, 4, 4, 56, 56, 16), Layer(2, 3, 5, 1, 1, 16), Layer(4, 3, 16, 7, 7, 16, kernel=5)]


@pytest.mark.parametrize("layer", LAYERS, ids=str)
@pytest.mark.parametrize("cpu", [CPU, ALONE], ids=["threads", "alone"])
def test_blocks_divide_the_rows(cpu, layer):
    kernel = SplitIntegerPlanes(layer)
    plan = choose(kernel, cpu)
    assert layer.rows % plan.block == 0 and plan.block * layer.columns <= 512
    assert cycles(cpu, layer) >= cost(plan, kernel, cpu) > 0


def test_rows_of_too_many_tiles_have_no_blocks():
    assert not follow(winograd, Schedule(kernel((2, 1030))), CPU)
    assert choose(SplitIntegerPlanes(Layer(2, 4, 4, 2, 600, 16)), CPU) is None
    assert cycles(CPU, Layer(2, 4, 4, 2, 600, 16)) is None


def test_large_weights_are_read_once():
    """Measured: 256 channels at 14x14 340 us, 1150 in seven blocks; 64 at 56x56 430, 490 in one."""
    assert choose(SplitIntegerPlanes(Layer(2, 16, 16, 7, 7, 16)), ALONE).block == 7
    assert choose(SplitIntegerPlanes(Layer(4, 4, 4, 14, 14, 16)), ALONE).block < 14
