"""Which networks have parallel loops: small ones run on one thread, whatever their kernels are worth alone."""
import numpy as np
import pytest

from ingot.codegen.compile import Options, lower
from ingot.ir.expr import Var
from ingot.ir.node import collect
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.schedule.rules.threads import PARALLEL_MIN_NETWORK, worth_threads
from ingot.ir.tir.function import PrimFunc
from ingot.ir.tir.stmt import For


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
    (2, 96, 96, "openmp", False), (40, 96, 96, "openmp", True), (40, 96, 96, "none", False),
    (1, Var("n", "int64"), 256, "openmp", True),
])
def test_small_networks_have_no_parallel_loop(count, rows, size, threads, shared):
    lowered = lower(products(count, rows, size), Options.check(threads=threads)).lowered
    loops = [loop for f in lowered.functions.values() if isinstance(f, PrimFunc) for loop in collect(f.body, For)]
    assert any(loop.kind == "parallel" for loop in loops) == shared


def test_bytes_count_as_operations_do():
    """A product with a vector is worth threads though its operations are few: its weights come from memory."""
    few = PARALLEL_MIN_NETWORK // 8
    assert not worth_threads([(few, (1000, 1000))] * 7) and worth_threads([(few, (1000, 1000))] * 8)
    assert worth_threads([(few, (few * 2,))]) and not worth_threads([])
