"""Products on GPUs: schedules of every shape and layout keep the meaning, and tiles are chosen by what they cost."""
import numpy as np
import pytest
from gpu_cases import GPU, funcs, meaning_kept, scheduled

from ingot.ir.node import collect, structural_equal
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.plan import Plan, choose
from ingot.ir.schedule.rules.gpu import product as rule
from ingot.ir.schedule.rules.gpu.product import GpuProduct, by_name
from ingot.ir.schedule.rules.gpu.products import TILES, SimtTile
from ingot.ir.tir.stmt import For

SMALL = SimtTile(8, 8, 4, 4, 2, 32)  # of eight threads, whose work the interpreter does in no time


@pytest.fixture(autouse=True)
def tiles(monkeypatch):
    monkeypatch.setattr(rule, "TILES", (*TILES, SMALL))


@pytest.mark.parametrize("name", [
    "dense", "dense_odd_columns", "dense_3d", "dense_symbolic_batch", "dense_symbolic_sequence", "matmul_odd",
    "matmul_batched", "matmul_broadcast", "matmul_symbolic", "matmul_symbolic_batch", "matmul_int32", "matmul_float64",
    "matmul_transposed_columns", "matmul_transposed_small", "matmul_heads", "matmul_of_heads"])
def test_products_keep_the_meaning(name):
    func, = funcs(name)
    meaning_kept(func, scheduled(func, SMALL.name))


@pytest.mark.parametrize("name, parts", [("dense", 2), ("matmul_heads", 4), ("matmul_transposed_small", 5)])
def test_sums_in_parts_keep_the_meaning(name, parts):
    func, = funcs(name)
    sch = scheduled(func, SMALL.name, parts)
    assert len([loop for loop in collect(sch.func.body, For) if loop.thread_binding == "blockIdx.x"]) == 2
    meaning_kept(func, sch)


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
def test_every_tile_schedules(tile):
    """A block has the threads that the tile says, and holds its operands in shared memory, sums in registers."""
    func, = funcs("matmul_transposed_both")
    sch = scheduled(func, tile.name)
    loops = collect(sch.func.body, For)
    assert {loop.extent.value for loop in loops if loop.thread_binding == "threadIdx.x"} == {tile.threads}
    scopes = [b.scope for b in sch.func.root.alloc_buffers]
    assert scopes.count("shared") == 2 and scopes.count("local") == 3
    again = Schedule(func)
    sch.trace.apply(again)
    assert structural_equal(again.func, sch.func)


def test_what_does_not_fit_is_left_to_other_rules():
    for name in ("matmul_one_row", "matmul_narrow", "matmul_by_vector", "matmul_dot", "softmax", "relu"):
        for func in funcs(name):
            assert rule.gpu_product(Schedule(func), GPU) is None, name


def test_tiles_follow_the_shape():
    """Large products take the largest tile, whose FMAs hide its loads; small ones as many blocks as there are SMs."""
    large = choose(GpuProduct(4096, 4096, 4096), GPU)
    assert (large.algorithm, large.parts) == ("128x128x8", 1)
    deep = choose(GpuProduct(512, 49, 4608), GPU)
    assert deep.parts > 1
    tile = by_name(deep.algorithm)
    assert -(-512 // tile.rows) * -(-49 // tile.columns) * deep.parts >= GPU.launch.sms // 2
    given = Plan("gpu_product", "64x64x16")
    assert choose(GpuProduct(4096, 4096, 4096), GPU, given).algorithm == "64x64x16"


def test_shared_rows_are_padded_off_the_banks():
    func, = funcs("matmul_transposed_both")
    sch = scheduled(func, "64x64x16")
    for name in ("x0_tile", "x1_tile"):
        (_, axis, factor, offset), = sch.get(sch.get_block(name)).annotations["buffer_dim_align"]
        assert (factor, offset) == (32, 4) and isinstance(axis, int)


def test_numbers_of_a_whole_tile():
    """The largest tile has every thread's pieces where its neighbours' are not."""
    factors = TILES[0].factors()
    rows = np.arange(128).reshape(factors["rows"])
    assert rows[:, 0].tolist() == [[0, 1, 2, 3], [64, 65, 66, 67]]
    assert factors["columns"] == [2, 16, 4]
