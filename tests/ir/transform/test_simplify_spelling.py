"""Simplify of scripts: how expressions are written afterwards, and that they are what they were."""
from tir_cases import arguments, assert_same_results, results

import ingot as tvm
from ingot.script import tir as T


@T.prim_func
def sums(A: T.Buffer((12, 8), "int32")):
    for i, j in T.grid(12, 8):
        if i + 3 > j and T.shift_left(1, j) >= 1:
            A[i, j] = (i + 1 - T.max(1 - j, 0)) * (T.min(j, 3) + 2 - T.max(1 - i, 0)) + T.cast(
                T.ceil(T.log2(T.cast(i + 1025, "float64"))), "int32")


def test_products_of_sums_stay_closed_and_comparisons_are_turned():
    done = tvm.tir.transform.Simplify()(tvm.IRModule({"main": sums}))["main"]
    text = done.script()
    assert "if j < i + 3:" in text and text.count(" * ") == 1 and "+ 11" in text
    assert_same_results(results(sums, arguments(sums)), done, arguments(sums))
