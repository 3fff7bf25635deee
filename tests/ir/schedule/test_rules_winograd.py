"""The rule for Winograd convolutions: it keeps results at every size, and its loops have the intended shape."""

import numpy as np
import pytest
from compiled_batch import same_results
from rule_cases import checked, followed, kernels, network

from ingot.ir.expr import Select
from ingot.ir.node import collect
from ingot.ir.relax import Constant
from ingot.ir.relax.ops.winograd import transform_weights
from ingot.ir.schedule.plan import Plan, Tile, choose
from ingot.ir.schedule.rules import schedule_by_rule
from ingot.ir.schedule.rules.winograd import winograd
from ingot.ir.schedule.rules.winograd_blocks import Layer
from ingot.ir.tir.stmt import BufferStore, DeclBuffer, For, IfThenElse
from ingot.ir.transform.pipeline import lower_prim_func
from ingot.ir.target import Threads
from machines import machine, set_costs, with_costs

CPUS = {16: machine(16, 32), 8: machine(8, 16), 4: machine(4, 32, parallel=False, accumulators=21, by_element=True)}


def kernel(lanes, tile, size, channels=(1, 2), padding=(1, 1, 1, 1), batch=1, epilogue="relu", side=3, depth=None,
           groups=1, stride=1):
    """The PrimFunc of a convolution with `channels` blocks of input and output channels, and what follows it."""
    rng = np.random.default_rng(0)
    outputs = channels[1] * lanes - (groups == 1)
    weights = rng.standard_normal((outputs, channels[0] * stride ** 2 * lanes // groups, side, side)).astype(np.float32)
    u = Constant(transform_weights(weights, tile, lanes)[:, :, :, :depth].copy(), "u")
    out = [-(-s // stride) + padding[k] + padding[k + 2] - side + 1 for k, s in enumerate(size)]
    shapes = [(batch, channels[0], *size, lanes), (batch, channels[1], *out, lanes), (1, channels[1], 1, 1, lanes)]

    def build(op, x, residual, bias):
        y = op("nn.conv2d_winograd", x, u, tile=tile, kernel=side, padding=padding,
               stride=stride, groups=groups, out_channels=outputs, data_layout=f"NCHW{lanes}c")
        return followed(op, y, epilogue, residual, bias)

    func, = kernels(lambda: network(build, shapes), CPUS[lanes])
    return func


@pytest.mark.parametrize("lanes, tile, size, options", [
    (4, 2, (5, 4), {}), (4, 4, (3, 5), {"channels": (2, 3)}), (4, 6, (5, 3), {"padding": (0, 1, 2, 0)}),
    (8, 4, (5, 4), {"epilogue": "residual"}), (8, 2, (3, 3), {"padding": (0, 0, 0, 0)}),
    (4, 4, (4, 4), {"batch": 2}), (16, 2, (3, 2), {"epilogue": "none", "channels": (1, 1)}),
    (4, 2, (2, 3), {"batch": "n", "epilogue": "silu"}),
    (16, 5, (6, 7), {"side": 4, "depth": 12, "padding": (2, 2, 1, 1)}), (4, 3, (5, 4), {"side": 4, "depth": 3}),
    (4, 4, (6, 5), {"side": 5, "padding": (2, 2, 1, 2)}), (4, 2, (5, 4), {"groups": 2, "channels": (4, 6)}),
    (8, 2, (3, 4), {"groups": 2, "channels": (2, 4)}), (8, 2, (7, 6), {"stride": 2, "padding": (0, 1, 1, 2)}),
    (4, 4, (11, 13), {"stride": 2, "padding": (0,) * 4}), (4, 3, (7, 5), {}), (8, 5, (6, 9), {}),
])
def test_results_are_kept(lanes, tile, size, options, monkeypatch):
    set_costs(monkeypatch, {"threads.least_work": 1})
    checked(winograd, kernel(lanes, tile, size, **options), CPUS[lanes])


@pytest.mark.parametrize("over, rows, tile, vectors", [
    ("rows", 1, Tile(1, 1, 3), 2), ("channels", 2, Tile(1, 1, 2), 1), ("rows", 2, Tile(2, 1, 3), 2),
    ("channels", 3, Tile(1, 2, 1), 2), ("each", 6, Tile(1, 2, 1), 1)])
def test_every_plan_keeps_results(over, rows, tile, vectors, monkeypatch):
    """Also where blocks of rows do not divide the tiles, and register tiles not the block."""
    set_costs(monkeypatch, {"threads.least_work": 1})
    plan = Plan("winograd", arithmetic="fma", tile=tile, block=rows, turn=vectors, threads=over)
    checked(winograd, kernel(4, 2, (6, 5), channels=(1, 2)).with_attr("plan", plan), machine(4, 32))


def test_threads_share_turns_of_which_the_last_has_fewer_channels(monkeypatch):
    """Five vectors of channels in turns of three: each iteration writes its own, as a loop of threads must."""
    set_costs(monkeypatch, {"threads.least_work": 1})
    plan = Plan("winograd", arithmetic="fma", tile=Tile(3, 1, 3), block=3, turn=3, threads="channels")
    func, cpu = kernel(4, 2, (6, 5), channels=(1, 5)).with_attr("plan", plan), machine(4, 16)
    checked(winograd, func, cpu)
    lowered = lower_prim_func(schedule_by_rule(func, cpu).func)
    assert 2 in [f.extent.value for f in collect(lowered.body, For) if f.kind == "parallel"]


@pytest.mark.parametrize("lanes, tile, options", [(16, 4, {}), (8, 2, {}), (4, 6, {}), (16, 2, {"groups": 2}),
                                                  (16, 4, {"stride": 2})])
def test_inner_loops(lanes, tile, options):
    """No choice by the row of a matrix is left, and no condition in the products, whose sums are vectors."""
    func = kernel(lanes, tile, (12, 12), channels=(2, 2), **options)
    lowered = lower_prim_func(schedule_by_rule(func, CPUS[lanes]).func)
    assert not collect(lowered.body, Select)
    sums = {id(d.buffer) for d in collect(lowered.body, DeclBuffer) if d.buffer.name.startswith("winograd_product")}
    rolled = [f for f in collect(lowered.body, For) if f.annotations.get("pragma_unroll") == 1
              and any(id(s.buffer) in sums for s in collect(f, BufferStore))]
    assert rolled and not collect(rolled, IfThenElse)
    assert all(s.value.dtype.lanes == lanes for f in rolled for s in collect(f, BufferStore))


def test_blocks_of_other_lanes_and_scalar_machines():
    """They keep their stages, which nothing inlines into each other."""
    func = kernel(8, 2, (3, 2), channels=(1, 1))
    for cpu in (machine(1, 16), machine(16, 32)):
        same_results(func, schedule_by_rule(func, cpu).func, rtol=1e-4, atol=5e-4)


# ---------------------------------------------------------------- blocks

LAYERS = [Layer(4, 4, 4, 14, 14, 16), Layer(4, 8, 8, 7, 7, 16), Layer(2, 16, 16, 7, 7, 16), Layer(4, 32, 32, 7, 7, 16),
          Layer(6, 4, 4, 38, 38, 16), Layer(4, 4, 4, 56, 56, 16), Layer(2, 3, 5, 1, 1, 16),
          Layer(4, 3, 16, 7, 7, 16, kernel=5, groups=2)]


@pytest.mark.parametrize("layer", LAYERS, ids=str)
@pytest.mark.parametrize("cpu", [machine(), machine(parallel=False), machine(8, 16), CPUS[4]], ids=str)
def test_blocks_fit(cpu, layer):
    plan = choose(layer, cpu)
    assert layer.out_blocks // layer.groups % plan.tile.vectors == 0 and plan.tile.columns <= layer.columns
    assert plan.tile.accumulators + plan.tile.vectors + 1 <= cpu.registers
    assert 1 <= plan.block <= layer.rows
    assert layer.out_blocks % plan.turn == 0 and plan.turn % plan.tile.vectors == 0
    if plan.threads != "rows":
        assert layer.out_blocks > plan.turn


@pytest.mark.parametrize(
    "layer", [Layer(2, 20, 40, 7, 7, 8), Layer(2, 20, 40, 3, 3, 8), Layer(4, 8, 20, 7, 7, 8)], ids=str)
def test_turns_are_of_whole_small_tiles(layer):
    """Only the last leaves some channels to a tile of their own; each tile of an iteration that did would do more
    work."""
    plan = choose(layer, machine(8, 16, costs={"tile.small": 14}))
    assert plan.turn % plan.tile.vectors == 0 or plan.turn == layer.out_blocks
    assert layer.out_blocks % plan.tile.vectors and plan.turn < layer.out_blocks


def test_what_leaves_the_second_cache_for_one_that_is_near():
    """Tiles of five results of 64 channels of 224x224 on AVX2, measured: 45 rows of tiles 18.5 ms, one 12.2."""
    cpu, layer = machine(8, 16, parallel=False, costs={"tile.small": 14}, l2_bytes=1 << 19), Layer(5, 8, 8, 45, 45, 8)
    assert choose(layer, cpu).block == 45 and choose(layer, with_costs(cpu, l3_bytes=2 << 20)).block == 1


def test_large_weights_are_read_by_large_blocks():
    cpu = machine()
    assert choose(Layer(4, 32, 32, 7, 7, 16), cpu).block == 7
    assert choose(Layer(4, 4, 4, 14, 14, 16), cpu).threads == "rows"


@pytest.mark.parametrize("layer, rows", [(Layer(4, 1, 1, 8, 8, 16), 2), (Layer(2, 8, 2, 7, 7, 16), 1)])
def test_small_blocks_stay_in_the_first_cache(layer, rows):
    """Measured: 16 channels of 32x32 13.5 us with two rows of tiles, 15.5 with all; 128 to 32 of 14x14 36 us, 48."""
    assert choose(layer, machine(parallel=False)).block == rows


@pytest.mark.parametrize("layer, over", [
    (Layer(4, 16, 16, 14, 14, 16), "rows"), (Layer(4, 32, 32, 7, 7, 16), "channels"),
    (Layer(4, 2, 8, 7, 7, 16), "rows")])
def test_what_threads_share_fits_their_stacks(layer, over):
    """Else one thread would do all iterations. Small weights are rather read by all than results passed on (27x27, 32
    to 128 channels)."""
    plan = choose(layer, machine(16, 32, parallel=True))
    points = plan.block * layer.columns
    local = layer.vector * points * (plan.turn + (layer.in_blocks if over == "rows" else 0))
    assert plan.threads == over and local <= Threads().local_bytes
    assert plan.turn < layer.out_blocks if over == "channels" else plan.block < layer.rows


@pytest.mark.parametrize("layer, over", [
    (Layer(4, 16, 16, 4, 4, 16), "each"), (Layer(2, 32, 32, 4, 4, 16, inner_product=True), "each"),
    (Layer(4, 16, 16, 4, 4, 16, groups=2), "rows"), (Layer(2, 8, 2, 7, 7, 16), "rows"),
    (Layer(4, 48, 16, 7, 7, 16), "channels")])
def test_data_of_one_block_that_each_thread_makes_for_itself(layer, over):
    """Each reads half of the weights then, and V does not pass between cores (measured, 256 channels of 14x14: 594 us
    by rows, 456); not where a thread needs half of V, where weights are few, and where V does not fit its stack."""
    cpu = machine(16, 32, parallel=True, costs={"stream.read": 6, "stream.beside": 1}, l3_bytes=16 << 20)
    plan = choose(layer, cpu)
    assert plan.threads == over and (over != "each" or plan.block == layer.rows)
    assert choose(layer, cpu.alone()).threads == "rows"
