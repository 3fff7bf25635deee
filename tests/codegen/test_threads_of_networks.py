"""Which networks have parallel loops: those whose threads would wait most of the time run on one."""
import numpy as np
import pytest

from ingot.codegen.compile import Options, lower
from ingot.ir.expr import Var, const
from ingot.ir.node import collect
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.schedule.rules.threads import PARALLEL_MIN_TURN, parallel_loops, worth_threads
from ingot.ir.tir.function import PrimFunc
from ingot.ir.tir.stmt import Evaluate, For, SeqStmt


def products(count, rows, size):
    """A chain of products of more than PARALLEL_MIN_WORK multiply-adds each."""
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
    (40, 64, 64, "openmp", False), (2, 128, 128, "openmp", True), (2, 128, 128, "none", False),
    (1, Var("n", "int64"), 256, "openmp", True),
])
def test_networks_of_small_kernels_have_no_parallel_loop(count, rows, size, threads, shared):
    lowered = lower(products(count, rows, size), Options.check("x86-64-v4", threads=threads)).lowered
    loops = [loop for f in lowered.functions.values() if isinstance(f, PrimFunc) for loop in collect(f.body, For)]
    assert any(loop.kind == "parallel" for loop in loops) == shared


def test_bytes_count_as_operations_do():
    """A product with a vector is worth threads though its operations are few: its weights come from memory."""
    few = PARALLEL_MIN_TURN // 2
    assert not worth_threads([(few, (1000, 1000), 1)] * 7) and not worth_threads([])
    assert worth_threads([(few, (few, 1000), 1)] * 7)


def test_work_of_one_thread_counts_against_that_of_all():
    """Recurrent steps read what threads have computed from their caches, and are no faster for it."""
    much = 10 * PARALLEL_MIN_TURN
    assert worth_threads([(much, (), 1), (much // 2, (), 0)]) and not worth_threads([(much, (), 1), (much, (), 0)])
    assert not worth_threads([(much, (), 11)])


def test_parallel_loops_are_counted_as_often_as_they_run():
    def loop(kind, extent, body):
        return For(Var("i", "int32"), const(0), extent, kind, body)

    inner = loop("parallel", const(5), loop("parallel", const(2), Evaluate(const(0))))
    assert parallel_loops(inner) == 1
    assert parallel_loops(SeqStmt((loop("serial", const(3), inner), inner))) == 4
    assert parallel_loops(loop("serial", const(3), Evaluate(const(0)))) == 0
    assert parallel_loops(loop("serial", Var("n", "int32"), inner)) == 1
