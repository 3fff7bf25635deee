"""The rules for blocked layout, compiled, at sizes that tiles do not divide."""
import re
import shutil
from dataclasses import replace
from functools import partial
from math import prod

import blocked_programs as programs
import pytest
from compiled_batch import same_results
from rule_cases import const as const_of
from rule_cases import kernels, network
from test_rules_tiles import ASSEMBLY, KERNELS, assembly, assembly_of, innermost_loops
from tir_cases import arguments

from ingot.codegen.target import Target
from ingot.codegen.toolchains import is_native, is_supported_here, toolchain
from ingot.ir.expr import Call, const
from ingot.ir.node import collect, structural_equal
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.plan import Tile, choose
from ingot.ir.schedule.rules import schedule_by_rule, threads
from ingot.ir.schedule.rules.conv_tiles import Shape, streams
from ingot.ir.schedule.rules.pointwise_depthwise import is_profitable, pair_of
from ingot.ir.tir.function import PrimFunc
from ingot.ir.tir.stmt import Block, BufferStore, DeclBuffer, For, IfThenElse
from ingot.ir.transform.lower_ops import lower_ops
from ingot.ir.transform.pipeline import graph_passes, lower_prim_func
from machines import machine, set_costs, with_costs

CPUS = {4: machine(4, 32, accumulators=21), 8: machine(8, 16, costs={"tile.small": 14}), 16: machine(16, 32)}
BY_ELEMENT = machine(4, 32, accumulators=21, by_element=True)

# arguments of programs.conv2d but for the lanes
DENSE = {
    "3x3": dict(inputs=2, outputs=2, size=(3, 9), kernel=(3, 3)),
    "3x3_wide": dict(inputs=1, outputs=2, size=(2, 31), kernel=(3, 3), epilogue="residual"),
    "3x3_strided": dict(inputs=1, outputs=3, size=(3, 5), kernel=(3, 3), strides=(2, 2)),
    "dilated": dict(inputs=1, outputs=1, size=(4, 5), kernel=(3, 2), dilation=(2, 3), epilogue=None),
    "7x7_rows": dict(inputs=1, outputs=2, size=(7, 7), kernel=(2, 2), epilogue="residual"),
    "1x1": dict(inputs=2, outputs=4, size=(7, 7), epilogue="residual"),
    "1x1_strided": dict(inputs=2, outputs=1, size=(5, 3), strides=(2, 2)),
    "1x1_channels_left": dict(inputs=2, outputs=7, size=(3, 5), epilogue="residual"),
    "3x3_channels_left": dict(inputs=1, outputs=5, size=(5, 9), kernel=(3, 3)),
    "1x1_pixel": dict(inputs=2, outputs=5, size=(1, 1)),
    "1x1_batch": dict(inputs=1, outputs=2, size=(3, 5), batch=2, epilogue=None),
    "batch": dict(inputs=1, outputs=1, size=(3, 4), kernel=(2, 1), batch=3),
    "grouped": dict(inputs=1, outputs=4, size=(5, 6), kernel=(2, 2), groups=2),
    "grouped_1x1": dict(inputs=2, outputs=3, size=(3, 5), groups=3, epilogue=None),
    "first": dict(inputs=3, outputs=2, size=(3, 17), kernel=(3, 3), strides=(2, 2), plain_input=True),
    "first_1x1": dict(inputs=3, outputs=1, size=(3, 5), plain_input=True),
}

# of programs.gathered
GATHERED = {
    "1x1": dict(groups=3, inputs=7, outputs=3, size=(7, 5), epilogue="residual"),
    "1x1_batch": dict(groups=2, inputs=5, outputs=1, size=(3, 31), batch=2, epilogue=None),
    "3x3_strided": dict(groups=2, inputs=3, outputs=2, size=(4, 5), kernel=(3, 3), strides=(2, 1)),
    "few_channels": dict(groups=4, inputs=2, outputs=1, size=(3, 4)),
}

DEPTHWISE = {
    "3x3": dict(blocks=2, size=(5, 7)),
    "5x5_wide": dict(blocks=1, size=(2, 31), kernel=(5, 5), epilogue="residual"),
    "strided": dict(blocks=3, size=(3, 5), strides=(2, 2), batch=2),
    "dilated": dict(blocks=1, size=(4, 3), kernel=(1, 3), dilation=(3, 2), epilogue=None),
    "7x7": dict(blocks=2, size=(7, 7)),
    "pixel": dict(blocks=2, size=(1, 1), kernel=(2, 2)),
}


# of programs.pointwise_depthwise
EXPANSIONS = {
    "3x3": dict(inputs=2, blocks=3, size=(8, 9)),
    "strided": dict(inputs=1, blocks=2, size=(6, 15), strides=(2, 2), padding=(0, 0, 1, 1), batch=2),
    "5x5": dict(inputs=1, blocks=4, size=(9, 7), kernel=(5, 5), padding=(2, 2, 2, 2), epilogue="residual"),
    "dilated": dict(inputs=2, blocks=2, size=(8, 30), dilation=(2, 1), padding=(2, 1, 2, 1), epilogue=None),
    "no_border": dict(inputs=2, blocks=1, size=(6, 5), padding=(0, 0, 0, 0)),
    "columns": dict(inputs=1, blocks=6, size=(10, 11), padding=(0, 1, 0, 1), between=None),
    "wide_border": dict(inputs=1, blocks=2, size=(15, 7), padding=(4, 3, 3, 2)),
    "few_rows": dict(inputs=1, blocks=2, size=(6, 7), padding=(4, 3, 3, 2)),  # each band reads the only one
    "nothing_between": dict(inputs=1, blocks=2, size=(4, 4), padding=(0, 0, 0, 0), between=None),
    "one_row": dict(inputs=2, blocks=3, size=(4, 9), kernel=(1, 3), strides=(2, 1), padding=(0, 1, 0, 1)),
}


# of programs.conv2d, whose data are made for a few tiles of points at a time
MADE = {
    "border": dict(inputs=3, outputs=4, size=(7, 9), prologue="scale", epilogue="residual"),
    "batch": dict(inputs=2, outputs=2, size=(5, 11), prologue="gate", batch=2),
    "even": dict(inputs=2, outputs=1, size=(8, 28), prologue="scale", epilogue=None),
    "few_points": dict(inputs=2, outputs=3, size=(2, 2), prologue="scale"),
}


def in_turn(names, *choices):
    """Each name with one of the choices, which take turns."""
    return [(name, choices[n % len(choices)]) for n, name in enumerate(names)]


@pytest.fixture
def threads_for_all_work(monkeypatch):
    set_costs(monkeypatch, {"threads.least_work": 1})


def inputs_of(func):
    """Arguments, of which integers are places in blocks of the least lanes."""
    return [a % min(CPUS) if a.dtype == "int32" else a for a in arguments(func)]


def assert_kept(func, cpu):
    """The schedule, the passes after it, and a replay of its trace keep what a function computes. Returns the function
    after the passes."""
    sch, again = schedule_by_rule(func, cpu), Schedule(func)
    sch.trace.apply(again)
    assert structural_equal(again.func, sch.func)
    return same_results(func, sch.func, inputs_of(func))


def rolled(func):
    return [f for f in collect(func.body, For) if f.annotations.get("pragma_unroll") == 1]


@pytest.mark.parametrize("name", DENSE)
def test_dense(name, threads_for_all_work):
    lowered = assert_kept(programs.conv2d(**DENSE[name], lanes=4), CPUS[4])
    assert rolled(lowered) and not collect(rolled(lowered), IfThenElse)


@pytest.mark.parametrize("name", GATHERED)
def test_gathered(name, threads_for_all_work):
    lowered = assert_kept(programs.gathered(**GATHERED[name], lanes=4), CPUS[4])
    assert rolled(lowered) and not collect(rolled(lowered), IfThenElse)


@pytest.mark.parametrize("name", list(DENSE)[::2])
def test_dense_by_element(name, threads_for_all_work):
    """Where the channels of a point lie in a row, an FMA takes one of them out of a vector."""
    lowered = assert_kept(programs.conv2d(**DENSE[name], lanes=4), BY_ELEMENT)
    calls = {c.op for c in collect(lowered.body, Call)} & {"tir.fma", "tir.fma_lane"}
    assert calls == ({"tir.fma"} if DENSE[name].get("plain_input") else {"tir.fma_lane"})


@pytest.mark.parametrize("name", DEPTHWISE)
def test_depthwise(name, threads_for_all_work):
    lowered = assert_kept(programs.depthwise(**DEPTHWISE[name], lanes=4), CPUS[4])
    assert rolled(lowered) and not collect(rolled(lowered), IfThenElse)


@pytest.mark.parametrize("lanes, kernel, strides, held", [
    (16, (3, 3), (1, 1), True), (16, (5, 5), (1, 1), True),
    (16, (5, 5), (2, 2), False),  # too few points fit to hide the latency of their sums
    (16, (3, 1), (1, 1), False),  # a row of one column shares nothing
    (8, (3, 3), (1, 1), False)])  # 16 registers
def test_data_of_windows_that_registers_hold(lanes, kernel, strides, held):
    """One load for each element that a row of points sees, and one for each weight."""
    func = programs.depthwise(2, (12, 12), kernel, strides, lanes=lanes)
    lowered = lower_prim_func(schedule_by_rule(func, CPUS[lanes]).func)
    assert [c.op for c in collect(lowered.body, Call)].count("tir.held") == 2 * held


def _kept(lowered):
    """The buffers of elements, not of vectors in registers, that a kernel has of its own."""
    return [d.buffer for d in collect(lowered.body, DeclBuffer) if d.buffer.dtype.lanes == 1]


@pytest.mark.parametrize("name, cpu", in_turn(MADE, BY_ELEMENT, CPUS[4]))
def test_data_that_are_made(name, cpu, threads_for_all_work):
    """The kernel keeps one band of the data that it makes; conditions are at its border only."""
    case = MADE[name]
    lowered = assert_kept(programs.conv2d(**case, lanes=4), cpu)
    kept = _kept(lowered)
    points, = {b.shape[0].value // (case["inputs"] * 4) for b in kept}
    assert points <= (42 if name == "even" else prod(case["size"]))
    assert not all(collect(loop, IfThenElse) for loop in rolled(lowered))


@pytest.mark.parametrize("name, cpu", in_turn(EXPANSIONS, CPUS[4], BY_ELEMENT, CPUS[4].alone()))
def test_pointwise_and_depthwise(name, cpu, threads_for_all_work):
    """In one kernel a band of the 1x1 convolution's result is all that is kept of it, by each thread for itself."""
    case = EXPANSIONS[name]
    func = programs.pointwise_depthwise(**case, lanes=4)
    lowered = assert_kept(func, cpu)
    rows, columns = programs.input_size(case["size"], *(case.get(key, default) for key, default in (
        ("kernel", (3, 3)), ("strides", (1, 1)), ("dilation", (1, 1)))))
    shared = cpu.parallel and name != "few_rows"
    kept = max(d.buffer.shape[0].value * d.buffer.dtype.lanes for d in collect(lowered.body, DeclBuffer))
    assert kept % (columns * 4) == 0 and (kept < rows * columns * 4 * case["blocks"] or not shared)
    assert rolled(lowered) and not collect(rolled(lowered), IfThenElse)
    assert any(loop.kind == "parallel" for loop in collect(lowered.body, For)) == shared


def pair_at(size, channels, expanded, stride, kernel=3):
    """The Pair of an expansion at so many rows and columns, then a depthwise convolution, on AVX-512."""
    image, padded, data = (tuple(map(const, (1, -(-blocks // 16), rows, columns, 16))) for blocks, rows, columns in (
        (expanded, size, size), (expanded, size + kernel - stride, size + 2), (channels, size, size)))
    return pair_of(image, padded, data, channels, size // stride, stride, kernel - stride)


@pytest.mark.parametrize("size, channels, expanded, stride, expected", [
    (112, 16, 96, 2, (True, True)),       # of MobileNetV2: what lies between exceeds L2,
    (56, 24, 144, 1, (True, False)),      # or hardly, where threads alone gain
    (56, 24, 144, 2, (True, False)),
    (28, 32, 192, 1, (False, False)),     # in L2
    (28, 2048, 1024, 1, (False, False)),  # rows that each band makes again take longer than storing all of them
])
def test_expansions_pay_where_the_cache_does_not_hold_what_lies_between(size, channels, expanded, stride, expected):
    """By threads and by one."""
    pair = pair_at(size, channels, expanded, stride)
    assert tuple(is_profitable(machine(16, 32, parallel=p), pair) for p in (True, False)) == expected


def test_bands_of_expansions():
    """As many rows as fit; threads have at least two bands to share."""
    narrow, wide = pair_at(56, 24, 144, 1), pair_at(112, 16, 96, 2)
    alone, threads = machine(16, 32, parallel=False, l2_bytes=2 << 20), machine(16, 32, l2_bytes=2 << 20)
    assert [choose(narrow, cpu).block for cpu in (alone, threads)] == [56, 28]
    alone, threads = (with_costs(cpu, l2_bytes=1 << 20) for cpu in (alone, threads))
    assert [choose(wide, cpu).block for cpu in (alone, threads)] == [14, 14]
    assert choose(wide, with_costs(alone, l2_bytes=64 << 10)).block == 1  # no room: row by row
    vectors = choose(wide, machine(8, 16, costs={"tile.small": 14})).turn
    assert vectors > 1 and narrow.conv.blocks % vectors == 0, "16 registers want tiles of several vectors"


# arguments of phases but for the lanes
PHASES = {
    "4x4": dict(size=(3, 9), kernel=(4, 4), padding=(1, 1, 1, 1), border=((1, 1), (1, 1))),
    "2x2": dict(size=(4, 31), kernel=(2, 2), batch=2),
    "3x3": dict(size=(3, 5), kernel=(3, 3), padding=(3, 3, 1, 1), output_padding=(1, 1), border=((1, 1), (0, 0))),
    "3x3_odd": dict(size=(3, 17), kernel=(3, 3), padding=(3, 3, 1, 1), border=((1, 1), (0, 0))),
    "below_the_stride": dict(size=(2, 3), kernel=(2, 1), strides=(3, 2)),
}


def phases(size, kernel, lanes, inputs=2, outputs=3, batch=1, border=((0, 0), (0, 0)), **attrs):
    """The kernel of a transposed convolution and relu in blocked layout. border: room that `size` leaves out."""
    size = [n + sum(b) for n, b in zip(size, zip(*border))]
    net = network(lambda op, x, w: op("nn.relu", op("nn.conv2d_phases", x, w, data_layout=f"NCHW{lanes}c",
                                                    out_channels=outputs * lanes, **{"strides": (2, 2), **attrs})),
                  [(batch, inputs, *size, lanes), (outputs, *kernel, inputs, lanes, lanes)])
    return kernels(lambda: net, CPUS[lanes])[-1]


@pytest.mark.parametrize("name, cpu", in_turn(PHASES, CPUS[4], BY_ELEMENT))
def test_phases(name, cpu, threads_for_all_work):
    """No condition is inside of a tile's reduction over channels, and nothing is chosen there."""
    lowered = assert_kept(phases(**PHASES[name], lanes=4), cpu)
    assert rolled(lowered) and not collect(rolled(lowered), IfThenElse)
    assert "tir.if_then_else" not in {c.op for c in collect(rolled(lowered), Call)}


# operator, size of the input, attributes
POOLS = {
    "max": ("nn.max_pool2d", (9, 11), dict(pool_size=(3, 3), strides=(2, 2))),
    "max_padded": ("nn.max_pool2d", (5, 6), dict(pool_size=(3, 2), padding=(1, 0, 1, 1))),
    "avg": ("nn.avg_pool2d", (8, 62), dict(pool_size=(2, 2), strides=(2, 2))),
    "avg_made": ("nn.avg_pool2d", (4, 18), dict(pool_size=(2, 2), strides=(2, 2)), "exp"),
    "avg_padded": ("nn.avg_pool2d", (7, 7), dict(pool_size=(3, 3), padding=(1, 1, 1, 1))),
    "avg_ceil": ("nn.avg_pool2d", (6, 6), dict(pool_size=(3, 3), strides=(2, 2), ceil_mode=True,
                                               count_include_pad=True)),
    "global": ("nn.adaptive_avg_pool2d", (3, 4), dict(output_size=(1, 1))),
}


def pool(name, size, attrs, before="nn.relu", lanes=4):
    """The kernel of a pool and relu in blocked layout. before: an operator that makes the data, if it is fused."""
    net = network(lambda op, x: op("nn.relu", op(name, op(before, x), layout=f"NCHW{lanes}c", **attrs)),
                  [(1, 3, *size, lanes)])
    return kernels(lambda: net, CPUS[lanes])[-1]


@pytest.mark.parametrize("name", POOLS)
def test_pools(name, threads_for_all_work):
    lowered = assert_kept(pool(*POOLS[name], lanes=4), CPUS[4])
    assert rolled(lowered)


def moved(size, lanes, batch=1):
    """The kernel of an image whose channels move to other places, and relu."""
    net = network(lambda op, x, places: op("nn.relu", op("gather_channels", x, places, layout=f"NCHW{lanes}c")),
                  [(batch, 3, *size, lanes), (4, lanes)], ["float32", "int32"])
    return kernels(lambda: net, CPUS[lanes])[-1]


@pytest.mark.parametrize("size, batch", [((5, 7), 1), ((1, 3), 2)])
def test_places_are_read_once_for_a_row(size, batch, threads_for_all_work):
    lowered = assert_kept(moved(size, 4, batch), CPUS[4])
    innermost, = (f for f in collect(lowered.body, For) if not collect(f.body, For))
    assert innermost.extent.value == size[1]


def local_response(blocks, size, neighbours, lanes):
    """The kernel of a local response normalization and relu in blocked layout."""
    net = network(lambda op, x: op("nn.relu", op("nn.lrn", x, size=neighbours, alpha=0.3, layout=f"NCHW{lanes}c")),
                  [(2, blocks, *size, lanes)])
    return kernels(lambda: net, CPUS[lanes])[-1]


@pytest.mark.parametrize("blocks, size, neighbours", [(3, (2, 26), 5), (1, (3, 17), 2), (2, (1, 3), 8)])
def test_local_response(blocks, size, neighbours, threads_for_all_work):
    func = local_response(blocks, size, neighbours, 4)
    lowered = assert_kept(func, CPUS[4])
    stores = [s for s in collect(lowered.body, BufferStore) if s.value.dtype.lanes == 1]
    assert not stores, "all in vectors"


PROGRAMS = {"local_response": partial(local_response, 2, (2, 26), 5), "moved": partial(moved, (5, 7)),
            **{f"dense_{n}": partial(programs.conv2d, **case) for n, case in DENSE.items()},
            **{f"gathered_{n}": partial(programs.gathered, **case) for n, case in GATHERED.items()},
            **{f"phases_{n}": partial(phases, **case) for n, case in PHASES.items()},
            **{f"depthwise_{n}": partial(programs.depthwise, **case) for n, case in DEPTHWISE.items()},
            **{f"made_{n}": partial(programs.conv2d, **case) for n, case in MADE.items()},
            **{f"expansion_{n}": partial(programs.pointwise_depthwise, **case) for n, case in EXPANSIONS.items()},
            **{f"pool_{n}": partial(pool, *case) for n, case in POOLS.items()}}


@pytest.mark.parametrize("name, target", in_turn(PROGRAMS, "x86-64-v4", "x86-64-v3"))
def test_compiled(name, target):
    """The scheduled function, in the machine's vectors, computes what the plain one does."""
    lanes = Target.get(target).lanes
    if not is_supported_here(Target.get(target)):
        pytest.skip(f"this machine does not run {target}")
    func = PROGRAMS[name](lanes=lanes)
    flags = [f for f in toolchain(Target.get(target)).cflags if not f.startswith("-O")]
    same_results(func, schedule_by_rule(func, CPUS[lanes]).func, inputs_of(func), atol=1e-4, flags=("-O1", *flags))


# ---------------------------------------------------------------- plans

def shape(blocks, height, width, steps, input_bytes=0, weight_bytes=0):
    return Shape(blocks, height, width, steps, weight_bytes, input_bytes)


@pytest.mark.parametrize("cpu", CPUS.values(), ids=str)
@pytest.mark.parametrize("blocks", [1, 2, 5, 8, 32])
@pytest.mark.parametrize("size", [(1, 1), (7, 7), (13, 13), (27, 27), (49, 1), (56, 56), (149, 149)])
def test_plans_fit_registers(cpu, blocks, size):
    plan = choose(shape(blocks, *size, 576), cpu)
    tile, band = plan.tile, plan.block
    assert tile.accumulators + tile.vectors + 1 <= cpu.registers
    assert cpu.cost("tile.small") or blocks % tile.vectors == 0
    assert tile.columns == size[1] or tile.rows == 1
    assert band == size[0] or band % tile.rows == 0 and size[0] % band == 0
    done = sum(min(tile.rows, size[0] - y) * size[1] for y in range(0, size[0], tile.rows))
    assert done == size[0] * size[1] and tile.points <= size[0] * size[1]


@pytest.mark.parametrize("arguments, expected", [
    (shape(4, 56, 56, 576, 861 << 10, 147 << 10), (Tile(2, 1, 14), 1)),  # all weights stay in the cache: row by row
    (shape(16, 14, 14, 2304, 262 << 10, 2304 << 10), (Tile(2, 1, 14), 14)),  # those of a tile and the input do
    (shape(32, 28, 28, 4608, 1843 << 10, 9216 << 10), (Tile(2, 1, 14), 14)),  # those of a tile and a half of the input
    (shape(32, 49, 1, 2048, 401 << 10, 4096 << 10), (Tile(2, 13, 1), 49)),
    (shape(16, 13, 13, 576), (Tile(2, 1, 13), 1)),
    (shape(12, 27, 27, 432), (Tile(2, 1, 14), 1)),
])
def test_plans_of_known_layers(arguments, expected):
    plan = choose(arguments, machine(16, 32, l2_bytes=2 << 20))
    assert (plan.tile, plan.block) == expected


@pytest.mark.parametrize("arguments, expected", [
    (shape(125, 169, 1, 512, weight_bytes=2000 << 10), (3, 4, 1)),  # 41 times three vectors and two
    (shape(5, 784, 1, 240, weight_bytes=38 << 10), (3, 4, 1)),
    (shape(64, 7, 7, 4608, weight_bytes=9216 << 10), (3, 1, 4)),  # 4 columns and 3
    (shape(20, 49, 1, 960, weight_bytes=600 << 10), (2, 5, 1)),  # 9 times 5 points and 4
    (Shape(68, 49, 1, 136, 289 << 10, 104 << 10, groups=4), (1, 13, 1)),  # of groups there is no border
])
def test_small_tiles_leave_channels_rather_than_load_for_each_multiply_add(arguments, expected):
    """Measured on a core of Zen 3: 512 to 1000 channels of 169 points take 1.8 ms by 3 vectors x 4 points with two
    vectors at the border, 2.1 by 1 x 13 and 2.4 by 5 x 2."""
    assert choose(arguments, CPUS[8]).tile == Tile(*expected)


def test_data_are_made_for_few_tiles_at_a_time():
    """Whether tiles leave a border or not; nothing else of a plan changes."""
    for size, tiles in ((196, 2), (50, 3), (56, 2), (13, 1), (14, 1), (98, 7)):
        arguments = shape(8, size, 1, 512)
        alone = choose(arguments, machine(16, 32))
        assert choose(replace(arguments, made=True), machine(16, 32)) == alone.replace(block=tiles * alone.tile.rows)


def test_tiles_ask_no_more_weights_of_the_second_cache_than_it_gives():
    """Seven vectors a step, for three points, are too many, unless L1 holds them."""
    cpu = machine(16, 32)
    plan = choose(shape(7, 169, 1, 512, weight_bytes=224 << 10), cpu)
    assert (plan.tile, plan.block) == (Tile(1, 29, 1), 169)
    assert choose(shape(7, 169, 1, 64, weight_bytes=28 << 10), cpu).tile.vectors == 7


def test_of_tiles_as_fast_that_which_reads_weights_less_often():
    """Measured: 256 to 256 channels of 9 points 8.1 us by two tiles of 4 vectors x 5 points, 6.8 by one of 2 x 9."""
    plan = choose(shape(16, 9, 1, 256, weight_bytes=256 << 10), machine(16, 32))
    assert (plan.tile, plan.block) == (Tile(2, 9, 1), 9)


@pytest.mark.parametrize("arguments, expected", [
    (shape(32, 49, 1, 2048, 401 << 10, 4096 << 10), True),
    (shape(4, 56, 56, 576, 861 << 10, 147 << 10), False),  # every row reads them
    (shape(32, 49, 1, 32768, 401 << 10, 65536 << 10), False),  # those of a tile exceed the cache
    (Shape(60, 7, 7, 9, 34 << 10, 300 << 10, groups=60), False),  # depthwise
])
def test_weights_are_asked_for_where_each_is_read_once(arguments, expected):
    cpu = machine(16, 32, l2_bytes=2 << 20)
    assert streams(cpu, arguments, choose(arguments, cpu)) == expected


# ---------------------------------------------------------------- what compilers make of them

HOT = {
    "3x3_56": partial(programs.conv2d, 4, 4, (56, 56), (3, 3)),
    "3x3_7": partial(programs.conv2d, 8, 8, (7, 7), (3, 3), epilogue="residual"),
    "1x1_14": partial(programs.conv2d, 16, 8, (14, 14)),
    "1x1_odd": partial(programs.conv2d, 4, 9, (13, 13)),
    "1x1_left": partial(programs.conv2d, 16, 5, (13, 13)),
    "1x1_made": partial(programs.conv2d, 16, 8, (14, 14), prologue="gate"),
    "first": partial(programs.conv2d, 3, 4, (56, 56), (7, 7), (2, 2), plain_input=True),
    "gathered_28": partial(programs.gathered, 4, 34, 3, (28, 28)),
    "gathered_7": partial(programs.gathered, 4, 136, 9, (7, 7), epilogue="residual"),
    "depthwise": partial(programs.depthwise, 4, (28, 28)),
    "depthwise_5x5": partial(programs.depthwise, 4, (14, 14), (5, 5), (2, 2)),
}
# target: (most instructions for an FMA in the longest of the hot loops, compilers)
COMPILERS = [("x86-64-v4", 2.0, ["gcc"]), ("x86-64-v4", 2.0, ["clang"]), ("x86-64-v3", 2.6, ["gcc"]),
             ("x86-64-v3", 2.6, ["clang"]), ("aarch64-linux-gnu", 2.6, ["aarch64-linux-gnu-gcc"]),
             ("aarch64-linux-gnu", 2.6, ["clang", "--target=aarch64-linux-gnu"])]


@pytest.mark.parametrize("name, target, most, compiler", [
    (name, *row) for n, name in enumerate(HOT) for row in COMPILERS[n % 2::2]],
    ids=lambda x: x[0] if isinstance(x, list) else str(x))
def test_hot_loops(name, target, most, compiler):
    """No vector is spilled in the loop over a tile, and little but FMAs and their loads is there."""
    target = Target.get(target)
    if shutil.which(compiler[0]) is None or compiler == ["gcc"] and not is_native(target):
        pytest.skip(f"no {compiler[0]} for {target}")
    lines = assembly_of(HOT[name](lanes=target.lanes), target, compiler)
    loops = list(innermost_loops(lines, toolchain(target).arch))
    assert loops and not [spill for _, spills in loops for spill in spills]
    multiply_add = re.compile(ASSEMBLY[toolchain(target).arch][2])
    found = [(sum(bool(multiply_add.search(x)) for x in body), len(body)) for body, _ in loops]
    sums, instructions = max(found)
    assert instructions <= most * sums


@pytest.mark.parametrize("name, compiler", in_turn(
    ["3x3_56", "1x1_14", "1x1_made", "1x1_left", "dense", "dense_in_parts", "matmul"], "gcc", "clang"))
def test_small_tiles_take_several_terms_a_turn(name, compiler):
    """Sums take 12 of 16 registers: loop counters and prefetches would be a third of an iteration of one
    term."""
    target = Target.get("x86-64-v3")
    if shutil.which(compiler) is None or not is_native(target):
        pytest.skip(f"no {compiler} for {target}")
    lines = (assembly_of(HOT[name](lanes=8), target, [compiler]) if name in HOT
             else assembly(KERNELS[name], target, compiler))
    body, spills = max(innermost_loops(lines, toolchain(target).arch), key=lambda loop: len(loop[0]))
    sums = [x for x in body if re.search(ASSEMBLY[toolchain(target).arch][2], x)]
    assert not spills and len(sums) >= 32 and len(body) <= 1.9 * len(sums)


@pytest.mark.parametrize("name", ["3x3_56", "3x3_7", "1x1_14", "dense", "matmul"])
@pytest.mark.parametrize("compiler", [c for t, _, c in COMPILERS if t == "aarch64-linux-gnu"], ids=lambda c: c[0])
def test_multiply_adds_by_element(name, compiler):
    """At least three quarters of the hot loop of a convolution and of a product are FMAs, each of one lane."""
    target = Target.get("aarch64-linux-gnu")
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"no {compiler[0]} for {target}")
    lines = (assembly_of(HOT[name](lanes=4), target, compiler) if name in HOT
             else assembly(KERNELS[name], target, compiler))
    body, spills = max(innermost_loops(lines, toolchain(target).arch), key=lambda loop: len(loop[0]))
    sums = [x for x in body if re.search(ASSEMBLY[toolchain(target).arch][2], x)]
    assert not spills and all(re.search(r"\.s\[[0-3]\]$", x) for x in sums) and len(body) <= 1.34 * len(sums)


@pytest.mark.parametrize("kernel, lanes", [(1, 4), (1, 16), (3, 4), (3, 8)])
def test_a_costly_activation_that_is_read_twice_is_computed_in_the_tile(kernel, lanes):
    """x + tanh(x) of x = silu(convolution), direct and by Winograd's algorithm: both are one block in the end."""
    def build(op, x):
        for channels in (8, 32):
            x = op("nn.conv2d", x, const_of(32, channels, kernel, kernel), padding=(kernel // 2,) * 4)
            x = op("multiply", x, op("sigmoid", x))
            x = op("add", x, op("tanh", x))
        return op("nn.conv2d", x, const_of(32, 32, 1, 1))

    cpu, mod = CPUS[lanes], network(build, [(1, 8, 12, 12)])
    for run in graph_passes(2, cpu):
        mod = run(mod)
    for func in filter(lambda f: isinstance(f, PrimFunc), lower_ops(mod).functions.values()):
        sch = schedule_by_rule(func, cpu)
        same_results(func, sch.func)
        assert not sch.refused
        assert not {"silu", "tanh"} & {b.name_hint for b in collect(sch.func.body, Block)}
