"""The rule for products of slices: what it makes of them, and when it is profitable."""

import pytest
from rule_cases import pointwise_by, product_by, scheduled

from ingot.ir.expr import Call
from ingot.ir.node import collect
from ingot.ir.relax.arithmetic import split_integer as row
from ingot.ir.relax.arithmetic.split_integer import MOST_TERMS
from ingot.ir.schedule import Schedule, TensorIntrin
from ingot.ir.schedule.plan import choose
from ingot.ir.schedule.rules import follow
from ingot.ir.schedule.rules.blocks import SYMBOLIC
from ingot.ir.schedule.rules.contraction import contraction
from ingot.ir.schedule.rules.split_integer_tiles import (SplitIntegerProduct, split_integer_tiles, is_profitable,
                                                         row_blocks)
from ingot.ir.schedule.rules.threads import parallel_loops
from ingot.ir.tir.stmt import Block
from ingot.ir.transform.pipeline import lower_prim_func
from machines import machine, with_costs

CPU = machine(16, 32, integer_tiles=True)


def kernel(rows, depth=128, columns=64):
    return product_by("split_integer", CPU, rows, depth, columns)


def calls_once(func, intrinsic, cpu=CPU):
    """The rule takes a function, and the micro-kernels are called in one place each."""
    sch = scheduled(contraction, func, cpu)
    assert intrinsic in str(sch.trace)
    calls = [c for c in collect(lower_prim_func(sch.func).body, Call) if c.op == "tir.call_extern"]
    assert [c.args[0].value for c in calls] == [f"ingot_tiles_{name}" for name in ("slices", "product")]


@pytest.mark.parametrize("rows, alone, shared", [
    ((20,), "split_integer_tiles.20x32x2", "split_integer_tiles.10x32x2"),
    ((3, 7), "split_integer_tiles.7x32x2", "split_integer_tiles.7x32x2"),
    ((640,), "split_integer_tiles.320x32x2", "split_integer_tiles.320x32x2"),
    ((197,), "split_integer_tiles.198x32x2", "split_integer_tiles.99x32x2"),
    ((577,), "split_integer_tiles.289x32x2", "split_integer_tiles.289x32x2")])
@pytest.mark.parametrize("columns", [64, 50])
def test_a_micro_kernel_makes_the_sums_of_a_panel(rows, alone, shared, columns):
    calls_once(kernel(rows, columns=columns), shared)
    calls_once(kernel(rows, columns=columns), alone, CPU.alone())


def test_terms_are_in_parts_where_slices_of_rows_are_beyond_the_second_cache(monkeypatch):
    monkeypatch.setattr(row, "RESIDENT", 20 * 128 * 3)
    monkeypatch.setattr(row, "PART", 2)
    calls_once(kernel((20,), depth=384, columns=200), "split_integer_tiles.20x32x2", CPU.alone())


@pytest.mark.parametrize("rows, columns, own", [
    ((128,), 256, True), ((512,), 4096, False), ((37,), 256, False), ((197,), 1024, True), ((128,), 1024, False)])
def test_threads_share_rows_where_each_may_read_all_columns(rows, columns, own):
    """Then a thread cuts its own rows; else all are cut before panels are shared."""
    for cpu, loops in ((CPU, 1 if own else 2), (CPU.alone(), 0)):
        sch = Schedule(kernel(rows, 512, columns))
        assert follow(contraction, sch, cpu)
        assert parallel_loops(lower_prim_func(sch.func).body) == loops


def test_sums_of_parts_fit_the_stack_of_a_thread():
    """Larger ones would be shared, and the loop over panels be one thread's."""
    sch = Schedule(kernel((2048,), 2048, 256))
    assert follow(contraction, sch, CPU)
    assert parallel_loops(lower_prim_func(sch.func).body) == 2


def convolution(*args, **options):
    return pointwise_by("split_integer", CPU, *args, **options)


@pytest.mark.parametrize("shape, outputs, strides, alone, rows, columns", [
    ((1, 4, 11, 11), 64, (1, 1), "121x32x1", "11x32x1", "121x32x1"),
    ((2, 5, 7, 7), 48, (1, 1), "49x16x2", "7x16x2", "49x32x2"),
    ((1, 2, 56, 56), 33, (1, 1), "448x16x1", "392x16x1", "448x16x1"),
    ((1, 9, 28, 28), 32, (2, 2), "196x32x3", "98x32x3", "196x16x3"),
    ((1, 4, 13, 13), 160, (1, 1), "169x32x1", "13x32x1", "169x16x1"),
    ((1, 1, 1, 3), 32, (1, 1), "3x32x1", "3x32x1", "3x32x1")])
def test_points_of_images_are_rows(shape, outputs, strides, alone, rows, columns):
    """Threads share rows, or columns where L2 does not hold them: halves of panels where one of them
    would have a panel more."""
    for cpu, sizes in ((CPU.alone(), alone), (CPU, rows), (with_costs(CPU, l2_bytes=0), columns)):
        calls_once(convolution(shape, outputs, strides), f"split_integer_tiles.{sizes}", cpu)


@pytest.mark.parametrize("cpu", [CPU, CPU.alone()])
def test_what_is_before_an_image_is_made_where_it_is_cut(cpu):
    func = convolution((1, 8, 6, 6), 32, before="nn.relu")
    calls_once(func, "split_integer_tiles.", cpu)
    sch = Schedule(func)
    follow(contraction, sch, cpu)
    names = {b.name_hint for b in collect(sch.func.body, Block)}
    assert len([n for n in names if n.startswith("relu")]) == 1  # the epilogue


def test_rows_of_unknown_number_are_not_for_it():
    assert not follow(contraction, Schedule(kernel(("n",))), CPU)


def test_the_micro_kernel_is_described_for_any_size():
    intrinsic = TensorIntrin.get(split_integer_tiles(5, 32, 3))
    assert [tuple(map(int, b.shape)) for b in intrinsic.desc.buffers] == [
        (3, 5, 3, 64), (1, 3, 3, 2, 16, 16, 4), (1, 5, 2, 16)]
    assert TensorIntrin.get(split_integer_tiles(5, 32, 3)) is intrinsic
    several = TensorIntrin.get(split_integer_tiles(6, 5, 16, 3))
    assert [tuple(map(int, b.shape)) for b in several.desc.buffers] == [
        (6, 3, 5, 3, 64), (6, 3, 3, 1, 16, 16, 4), (6, 1, 5, 1, 16)]
    with pytest.raises(ValueError, match="TensorIntrin split_integer_tiles.5 is not registered"):
        TensorIntrin.get("split_integer_tiles.5")


@pytest.mark.parametrize("rows, blocks", [(1, 1), (512, 512), (784, 392), (12544, 448), (997, 0), (SYMBOLIC, 0)])
def test_blocks_of_rows(rows, blocks):
    assert row_blocks(rows) == blocks


@pytest.mark.parametrize("points, depth, columns, rows", [
    ((14, 14), 576, 96, 98), ((27, 27), 64, 256, 81), ((56, 56), 64, 64, 224), ((7, 7), 512, 256, 49),
    ((13, 13), 512, 64, 13)])
def test_rows_that_threads_share(points, depth, columns, rows):
    """Even numbers of blocks, or many, of whole tiles; panels are shared where tiles of blocks would be small."""
    assert choose(SplitIntegerProduct(points, depth, columns, image=True, work=1 << 20), CPU).block == rows


@pytest.mark.parametrize("shape, cpu, expected", [
    ((128, 768, 3072), CPU, True), ((64, 768, 50257), CPU, True), ((197, 384, 384), CPU, True),
    ((128, 768, 3072), machine(16, 32), False), ((128, 100, 3072), CPU, False), ((1994, 768, 768), CPU, False),
    ((577, 768, 768), CPU, True),
    ((128, 2 * MOST_TERMS, 64), CPU, False), ((128, 512, 31), CPU, False), ((1, 1024, 1024), CPU, True),
    ((5, 1024, 1024), CPU, True), ((1, 512, 512), CPU, False), ((1, 4096, 1000), machine(16, 32), False)])
def test_when_it_is_profitable(shape, cpu, expected):
    assert is_profitable(cpu, *shape) == expected
