"""LoopPartition of scripts: loops of symbolic extents, split where conditions hold throughout."""
import numpy as np
import pytest
from test_classic_passes import done
from interp import run
from tir_cases import assert_same_results, results

import ingot as tvm
from ingot.ir.node import collect
from ingot.ir.tir import For, IfThenElse, Select
from ingot.script import from_source, tir as T


@T.prim_func
def tiled(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), n: T.int32):
    for i in range((n + 3) // 4):
        for j in range(4):
            if T.likely(i * 4 + j < n):
                B[i * 4 + j] = A[i * 4 + j] + 1


@T.prim_func
def two_sides(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), n: T.int32):
    for i in range(n):
        for k in range(3):
            if T.likely(i + k >= 1 and i + k < n + 1):
                B[i] = B[i] + A[i + k - 1]
            else:
                B[i] = B[i] - 7


@T.prim_func
def chosen(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), n: T.int32):
    for i in range(n):
        B[i] = T.Select(T.likely(i * 2 < n), A[i], T.Select(T.likely(i > 5), A[n - i], 3))


@T.prim_func
def from_the_outer_one(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), n: T.int32):
    for i in range(n):
        for j in range(i, i + 8):
            if T.likely(i + j * 2 + n < 40 - i):
                B[i] = B[i] + j


@pytest.mark.parametrize("func, loops", [(tiled, 2), (two_sides, 3), (chosen, 2), (from_the_outer_one, 2)])
def test_the_parts_compute_what_the_loop_did(func, loops):
    after = done("LoopPartition", func)
    for n in (0, 1, 2, 3, 4, 5, 8, 13, 30):
        inputs = [np.arange(64, dtype="int32") * 3, np.zeros(64, "int32"), n]
        assert_same_results(results(func, inputs), after, inputs)
    outer = [loop for loop in collect(after.body, For) if loop.loop_var.name == "i"]
    assert len(outer) >= loops and any(not collect(loop, (IfThenElse, Select)) for loop in outer)


@pytest.mark.parametrize("extent", ["8", "n"])
def test_conditions_of_a_let_inside_stay(extent):
    func = from_source(f"""
from ingot.script import tir as T
@T.prim_func
def func(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), n: T.int32):
    for i in range({extent}):
        k: T.int32 = i * 2 + A[i]
        for j in range(4):
            if T.likely(k + j + i < n):
                B[i] = B[i] + j
""")
    after = done("LoopPartition", func)
    for n in (0, 3, 20):
        inputs = [np.arange(64, dtype="int32") % 5, np.zeros(64, "int32"), n]
        assert_same_results(results(func, inputs), after, inputs)
    assert len(collect(after.body, For)) == 2


def test_conditions_that_no_turn_decides_stay():
    @T.prim_func
    def func(n: T.int32, A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
        for i in range(n):
            for j in range(8):
                if T.likely(T.truncdiv(i, j + 1) < A[0]):
                    B[i] = B[i] + 1
                if T.likely(A[i] < n):
                    B[i] = B[i] + 2

    after = done("LoopPartition", func)
    assert len(collect(after.body, For)) == 2 and len(collect(after.body, IfThenElse)) == 2


# ---------------------------------------------------------------- RenormalizeSplitPattern

@pytest.mark.parametrize("before, after", [
    ("(i * 32 + j) % 128 // 32", "(i + j // 32) % 4"),
    ("(i * 32 + (j - 50)) // 64", "(i + (j - 50) // 32) // 2"),
    ("(i * 12 + j + k) // 4", "i * 3 + (j + k) // 4"),
    ("T.Select(8 <= i * 4 + j, 1, 0)", "T.Select(1 <= (i + j // 4) // 2, 1, 0)"),
    ("T.Select(not (i * 4 + j < 8), 1, 0)", "T.Select(1 <= (i + j // 4) // 2, 1, 0)"),
    ("T.Select(i * 4 + j > 7, 1, 0)", "T.Select((i * 4 + j) > 7, 1, 0)"),
    ("(i * 6 + j) // 4 + i % 6 // 4", "(i * 3 + j // 2) // 2 + i % 6 // 4"),
])
def test_quotients_have_one_form(before, after):
    text = ("@T.prim_func\ndef func(A: T.Buffer((8, 70, 3), 'int32')):\n    for i, j, k in T.grid(8, 70, 3):\n"
            "        A[i, j, k] = {}\n").format
    func, expected = (from_source("from ingot.script import tir as T\n" + text(e)) for e in (before, after))
    new = done("RenormalizeSplitPattern", func)
    inputs = [np.zeros((8, 70, 3), "int32")]
    assert_same_results(results(func, inputs), new, inputs)
    assert str(new.body) == str(expected.body)


def test_conditions_that_split_no_loop():
    """T.ignore_loop_partition: the loop is split for the other condition alone, and the mark goes."""
    @T.prim_func
    def func(A: T.Buffer((10,), "int32"), D: T.Buffer((10,), "int32")):
        B = T.decl_buffer((2,), "int32")
        for i in T.serial(12, annotations={"pragma_loop_partition_hint": 1}):
            if T.ignore_loop_partition(i < 10):
                B[i % 2] = A[i] + 1
            if 2 <= i:
                D[i - 2] = T.if_then_else(i < 10, B[i % 2], 5)
    mod = tvm.IRModule({"main": func})
    tr = tvm.tir.transform
    after = tvm.transform.Sequential([tr.LowerOpaqueBlock(), tr.LoopPartition(), tr.Simplify()])(mod)["main"]
    assert sorted(loop.extent.value for loop in collect(after.body, For)) == [2, 10]
    assert "ignore_loop_partition" in func.script() and "ignore_loop_partition" not in after.script()
    a = np.arange(10, dtype="int32")
    expected = [3, 4, 5, 6, 7, 8, 9, 10, 5, 5]
    for f in (func, after):
        d = np.zeros(10, "int32")
        run(f, a, d)
        assert d.tolist() == expected
    d = tvm.nd.empty((10,), "int32")
    tvm.build(func, target="c")(tvm.nd.array(a), d)
    assert d.numpy().tolist() == expected
