"""LowerCrossThreadReduction: threads reduce together, whatever their number, rows and combiner."""
import numpy as np
import pytest
from gpu_programs import LOOPS, check, syncs
from tir_cases import CASES, scheduled

from ingot.ir import te, tir
from ingot.ir.expr import Var, const

PASSES = ("LowerCrossThreadReduction", *LOOPS, "ThreadSync")
FIRST = te.comm_reducer(
    lambda a, b: (tir.select(a[0] >= b[0], a[0], b[0]), tir.select(a[0] >= b[0], a[1], b[1])),
    lambda t, u: (tir.min_value(t), const(-1, u)), "argmax")


def rows(reducer, m, n, dtype="float32"):
    x = te.placeholder((m, n), dtype, "x")
    k = te.reduce_axis((0, n), "k")
    if reducer is FIRST:
        value, index = te.compute((m,), lambda i: FIRST((x[i, k.var], k.var), k), name="y")
        return te.create_prim_func([x, value, index])
    return te.create_prim_func([x, te.compute((m,), lambda i: reducer(x[i, k.var], k), name="y")])


def by_threads(threads, per_block=1, order="xy"):
    """threads reduce a row, per_block rows are of one block."""
    def steps(s):
        i, k = s.get_loops("y")
        io, ii = s.split(i, [None, per_block])
        ko, ki = s.split(k, [None, threads])
        s.reorder(io, ii, ki, ko)
        s.bind(io, "blockIdx.x")
        s.bind(ki, f"threadIdx.{order[0]}")
        if per_block > 1:
            s.bind(ii, f"threadIdx.{order[1]}")
    return steps


@pytest.mark.parametrize("threads", [1, 2, 5, 16, 20, 31, 32, 33, 64, 100, 256])
@pytest.mark.parametrize("reducer", [te.sum, te.max, FIRST], ids=["sum", "max", "argmax"])
def test_threads_of_one_row(threads, reducer):
    func = rows(reducer, 3, 70)
    done = check(func, scheduled(func, by_threads(threads)), passes=PASSES, rtol=1e-5)
    assert syncs(done) == (1 if threads > 32 else 0) and not syncs(done, "warp")


@pytest.mark.parametrize("threads, per_block", [(8, 4), (32, 2), (64, 3), (12, 5), (40, 3), (16, 3)])
@pytest.mark.parametrize("order", ["xy", "yx"])
def test_rows_side_by_side(threads, per_block, order):
    func = rows(te.sum, 7, 50)
    check(func, scheduled(func, by_threads(threads, per_block, order)), passes=PASSES, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("reducer", [te.sum, te.max], ids=["sum", "max"])
def test_dtypes(dtype, reducer):
    func = rows(reducer, 2, 70, dtype)
    for threads in (8, 64):
        check(func, scheduled(func, by_threads(threads)), passes=PASSES, rtol=2e-2 if "16" in dtype else 1e-5)
