"""Convolutions of plain images whose columns are the lanes of vectors: the rule, and which convolutions stay plain."""
from math import prod

import numpy as np
import pytest
from compiled_batch import same_results
from rule_cases import kernels, network, scheduled

from ingot.ir.expr import Call, Select
from ingot.ir.node import collect, structural_equal
from ingot.ir.relax import Constant
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.plan import Tile, choose
from ingot.ir.schedule.rules import follow, schedule_by_rule
from ingot.ir.schedule.rules.columns import Image, columns
from ingot.ir.schedule.rules.tiles import Window
from ingot.ir.tir.stmt import BufferLoad, DeclBuffer, For
from ingot.ir.target import Target
from ingot.ir.transform.pipeline import lower_prim_func
from machines import machine, set_costs, with_costs

CPUS = {4: machine(4, 32, accumulators=21, by_element=True), 8: machine(8, 16), 16: machine(16, 32)}

# (lanes, shape of the input, output channels, attributes); the last kernel of each is the convolution
CASES = {
    "3x3": (8, (1, 3, 5, 8), 4, {"padding": (1, 1, 1, 1)}),
    "strided": (8, (1, 3, 12, 32), 4, {"strides": (2, 2), "padding": (1, 1, 1, 1)}),
    "padded_behind": (8, (2, 2, 8, 16), 3, {"strides": (2, 2), "padding": (0, 0, 1, 2)}),
    "no_padding": (4, (1, 2, 7, 18), 2, {"strides": (3, 2), "kernel": (2, 3)}),
    "parted_by_three": (4, (1, 1, 6, 24), 2, {"strides": (1, 3), "padding": (0, 1, 0, 2), "kernel": (1, 4)}),
    "rows_strided": (16, (1, 3, 9, 16), 8, {"strides": (2, 1), "padding": (1, 1, 1, 1)}),
    "dilated": (16, (1, 2, 6, 32), 5, {"padding": (2, 4, 2, 4), "dilation": (2, 4)}),
    "depthwise": (8, (1, 4, 6, 24), 4, {"padding": (1, 1, 1, 1), "groups": 4}),
    "depthwise_strided": (16, (1, 8, 6, 32), 8, {"strides": (2, 2), "padding": (1, 1, 1, 1), "groups": 8}),
    "grouped": (8, (1, 4, 3, 8), 4, {"groups": 2, "kernel": (1, 1)}),
    "batch": (4, ("n", 3, 4, 8), 1, {"padding": (1, 1, 1, 1)}),
}


def convolution(case, epilogue="residual"):
    lanes, shape, outputs, attrs = CASES[case]
    attrs = dict(attrs)
    kernel = attrs.pop("kernel", (3, 3))
    w = np.random.default_rng(0).standard_normal((outputs, shape[1] // attrs.get("groups", 1), *kernel))
    w = Constant(w.astype(np.float32), "w")

    def build(op, x, bias):
        y = op("nn.conv2d", x, w, **attrs)
        return op("nn.relu", op("add", y, bias)) if epilogue else y

    return [f for f in kernels(lambda: network(build, [shape, (1, outputs, 1, 1)]), CPUS[lanes])][-1], CPUS[lanes]


@pytest.mark.parametrize("epilogue", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_results_are_kept(case, epilogue, monkeypatch):
    set_costs(monkeypatch, {"threads.least_work": 1})
    func, cpu = convolution(case, epilogue)
    sch = scheduled(columns, func, cpu)
    assert structural_equal(schedule_by_rule(func, cpu).func, sch.func)
    same_results(func, sch.func, atol=1e-5)


def test_threads_share_bands_of_which_each_is_copied_for_itself(monkeypatch):
    set_costs(monkeypatch, {"threads.least_work": 1})
    func, cpu = convolution("strided")
    cpu = with_costs(cpu, l1_bytes=4096)
    sch = schedule_by_rule(func, cpu)
    assert [loop.kind for loop in collect(sch.func.body, For)].count("parallel") == 1 and not sch.refused
    same_results(func, sch.func, atol=1e-5)


def test_sums_stay_in_registers_and_rows_are_copied_without_conditions():
    func, cpu = convolution("strided")
    lowered = lower_prim_func(schedule_by_rule(func, cpu).func)
    sums, = (d.buffer for d in collect(lowered.body, DeclBuffer) if d.buffer.scope == "local")
    tile = choose(Image(4, 6, 2), cpu).tile
    assert tile.accumulators == prod(d.value for d in sums.shape) and sums.dtype.lanes == 8
    copies = [loop for loop in collect(lowered.body, For) if not collect(loop.body, For) and any(
        load.buffer.name == "x0" for load in collect(loop.body, BufferLoad))]
    assert copies and not collect(copies, Select) and not any(
        c.op == "tir.if_then_else" for c in collect(copies, Call))


@pytest.mark.parametrize("cpu", [*CPUS.values(), machine(16, 32)], ids=str)
@pytest.mark.parametrize("channels, rows, vectors", [(8, 48, 3), (1, 48, 3), (4, 7, 1), (2, 1, 11), (3, 5, 14)])
def test_tiles_divide_and_fit(cpu, channels, rows, vectors):
    tile = choose(Image(channels, rows, vectors), cpu).tile
    assert channels % tile.channels == rows % tile.rows == vectors % tile.vectors == 0
    assert tile.accumulators + min(tile.channels, tile.rows * tile.vectors) < cpu.registers
    assert tile.accumulators <= (cpu.accumulators or cpu.registers)


def test_tiles_of_the_first_layers_of_a_small_network():
    """8 channels of 48x48: dense, and depthwise, where each channel has inputs of its own."""
    assert choose(Image(8, 48, 3), CPUS[16]).tile == Tile(3, 1, 1, 8)
    assert choose(Image(1, 48, 3, Window(3, 1, 1)), CPUS[16]).tile == Tile(1, 12)


def test_data_of_depthwise_kernels_is_loaded_once_for_a_column():
    func, cpu = convolution("depthwise")
    lowered = lower_prim_func(schedule_by_rule(func, cpu).func)
    tile = choose(Image(1, 6, 3, Window(3, 1, 1)), cpu).tile
    held, = (d.buffer.shape[0].value for d in collect(lowered.body, DeclBuffer) if "pad" in d.buffer.name)
    assert held == (tile.rows + 2) * tile.vectors
    assert len([c for c in collect(lowered.body, Call) if c.op == "tir.held"]) == 1


def test_what_is_not_for_it():
    """Rows of parts of vectors, and machines of which no registers are known."""
    func, cpu = convolution("3x3")
    assert not follow(columns, Schedule(func), Target.get("c"))
    assert not follow(columns, Schedule(func), machine(16, 32))
