"""Which networks have parallel loops: those whose threads would wait most of the time run on one."""
import re
from itertools import combinations

import numpy as np
import pytest

from ingot.codegen.compile import Options, compile_module, lower
from ingot.ir.expr import Var, const
from ingot.ir.node import collect, structural_equal
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.schedule.rules.threads import most_threads, parallel_loops
from ingot.ir.target import MANY_THREADS
from ingot.ir.tir.function import PrimFunc
from ingot.ir.tir.stmt import Evaluate, For, SeqStmt
from machines import machine

CPU = machine()
PACE = 2 * CPU.lanes * CPU.cost("multiply_adds")  # operations in a cycle
WAIT_CYCLES, LEAST_WORK, CACHE_BYTES, PASSED_BYTES = map(
    CPU.cost, ("threads.wait", "threads.least_work", "l2_read", "threads.passed"))


def products(count, rows, size):
    """A chain of products."""
    x = RelaxVar("x", TensorStructInfo((rows, size), "float32"))
    weights = Constant(np.zeros((size, size), np.float32), "w")
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = x
        for _ in range(count):
            y = bb.emit(call_op("matmul", y, weights))
        bb.emit_func_output(y)
    return bb.get()


@pytest.mark.parametrize("count, rows, size, threads, shared", [
    (40, 48, 48, "openmp", False), (2, 128, 128, "openmp", True), (2, 128, 128, "none", False),
    (1, Var("n", "int64"), 256, "openmp", True),
])
def test_networks_of_small_kernels_have_no_parallel_loop(count, rows, size, threads, shared):
    assert not isinstance(rows, int) or rows * size * size > LEAST_WORK
    lowered = lower(products(count, rows, size), Options.check("x86-64-v4", threads=threads)).lowered
    loops = [loop for f in lowered.functions.values() if isinstance(f, PrimFunc) for loop in collect(f.body, For)]
    assert any(loop.kind == "parallel" for loop in loops) == shared


def test_bytes_count_as_operations_do():
    """A product with a vector is worth threads though its operations are few: its weights come from the caches."""
    few = WAIT_CYCLES * PACE
    assert most_threads(CPU, [(few, (1000, 1000), 1)] * 7) == most_threads(CPU, []) == 1
    assert most_threads(CPU, [(few, (2 * WAIT_CYCLES * CACHE_BYTES, 1000), 1)] * 7) > 1


def test_what_one_thread_reads_counts_against_what_all_save():
    """Recurrent steps read what threads have computed from their caches, whatever else they take."""
    much, saved = 20 * WAIT_CYCLES * PACE, 10 * WAIT_CYCLES
    assert most_threads(CPU, [(much, (), 1), (100 * much, (saved // 2 * PASSED_BYTES,), 0)]) > 1
    assert most_threads(CPU, [(much, (), 1), (0, (saved * PASSED_BYTES,), 0)]) == 1
    assert most_threads(CPU, [(much, (), 11)]) == 1


def test_a_unit_for_tiles_counts_where_the_accuracy_admits_it():
    short = [(3 * WAIT_CYCLES * PACE, (), 1)] * 7
    strict, float32, relaxed = (most_threads(machine(integer_tiles=True), short, a)
                                for a in ("strict", "float32", "relaxed"))
    assert strict == float32 == most_threads(CPU, short) > relaxed


def test_many_threads_wait_longer():
    short = [(3 * WAIT_CYCLES * PACE, (), 1)] * 7
    most = most_threads(CPU, short)
    assert 2 < most < most_threads(CPU, [(4 * WAIT_CYCLES * PACE, (), 1)] * 7) < MANY_THREADS
    assert most_threads(CPU, [(100 * WAIT_CYCLES * PACE, (), 1)] * 7) == MANY_THREADS
    assert most_threads(CPU, [(Var("n", "int64"), (), 1)]) == MANY_THREADS
    assert most_threads(CPU, [(0, (Var("n", "int64") * 4,), loops) for loops in (0, 1)] * 2000) == MANY_THREADS


@pytest.mark.parametrize("size, limited", [(72, True), (256, False)])
def test_a_team_of_too_many_threads_is_one_of_one(size, limited):
    model = compile_module(products(3, size, size), Options.check("x86-64-v4"))
    run = model.files()[f"{model.name}.c"]
    assert re.search(rf"ingot_together\({model.most_threads}, [^,]+, ingot_run_0, &call\);", run)
    assert (model.most_threads < MANY_THREADS) == limited and ("one makes all calls" in run) == limited


def test_parallel_loops_are_counted_as_often_as_they_run():
    def loop(kind, extent, body):
        return For(Var("i", "int32"), const(0), extent, kind, body)

    inner = loop("parallel", const(5), loop("parallel", const(2), Evaluate(const(0))))
    assert parallel_loops(inner) == 1
    assert parallel_loops(SeqStmt((loop("serial", const(3), inner), inner))) == 4
    assert parallel_loops(loop("serial", const(3), Evaluate(const(0)))) == 0
    assert parallel_loops(loop("serial", Var("n", "int32"), inner)) == 1


def images(channels, sizes):
    """A chain of convolutions that halve an image again and again."""
    x = RelaxVar("x", TensorStructInfo((1, channels, sizes[0], sizes[0]), "float32"))
    weights = Constant(np.zeros((channels, channels, 3, 3), np.float32), "w")
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = x
        for size, following in zip(sizes, sizes[1:]):
            y = bb.emit(call_op("nn.conv2d", y, weights, strides=(size // following,) * 2, padding=(1, 1, 1, 1)))
        bb.emit_func_output(y)
    return bb.get()


@pytest.mark.parametrize("channels, threads, apart", [(64, "openmp", True), (64, "none", False),
                                                      (256, "openmp", False)])
def test_threads_of_a_small_network_write_where_they_wrote_before(channels, threads, apart):
    """Images of different sizes, which are divided at different rows, share no memory where all fit L2;
    what is around them stays then."""
    options = Options.check("x86-64-v4", threads=threads)
    program = compile_module(images(channels, [32, 32, 32, 16, 16, 16, 16]), options).program
    pairs = [(a, b) for a, b in combinations(range(len(program.plan.buffers)), 2)
             if not structural_equal(program.plan.buffers[a].part, program.plan.buffers[b].part)]
    assert pairs and any(program.plan.meet(a, b) for a, b in pairs) != apart
    assert all(call.border for call in program.once) and (len(program.once) > 0) >= apart
    assert program.plan.total.value <= options.machine.l2_bytes or not apart
