"""estimate_tir_flops and estimate_work: what counts, and how often."""
import pytest

from ingot import tir
from ingot.ir.expr import IntImm, const, substitute
from ingot.ir.arith import Analyzer
from ingot.ir.module import IRModule
from ingot.ir.script.functions import from_source
from ingot.ir.tir.flops import estimate_work


def function(body, params='A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")'):
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return from_source(f"    @T.prim_func\n    def main({params}):\n{lines}\n")


@pytest.mark.parametrize("body, flops", [
    ("B[0] = A[0, 0] * A[0, 1] + B[0]", 2),
    ("for i in range(8):\n    B[i] = T.max(A[i, 0], T.float32(0)) - A[i, 1] / A[i, 2]", 3 * 8),
    ("for i, j in T.grid(8, 4):\n    B[i] = B[i] + T.exp(A[i, j])", 17 * 32),
    ("for i in range(8):\n    B[i] = T.sqrt(A[i, 0])", 8),
    ("for i in range(8):\n    B[i] = T.fixed(A[i, 0], T.greater(A[i, 1], A[i, 2]), 8) + B[i]", 8),
    ("for i in range(8):\n    B[i] = T.if_then_else(i < 2, A[i, 0] + A[i, 1], A[i, i % 4])", 8),
    ("for i in range(8):\n    if i < 4:\n        B[i] = A[i, 0]\n    else:\n        B[i] = A[i, 0] + B[i] + B[i]", 16),
    ("for i in range(4):\n    for j in range(i + 1):\n        B[i] = B[i] + A[i, j]", 4 * 2),
    ("B[0] = T.Cast(\"float32\", 3 * 4 + 5)", 0),
    ("B[0:8] = A[0, 0:8] * B[0:8]", 8),
])
def test_flops(body, flops):
    assert tir.analysis.estimate_tir_flops(function(body)) == flops


def test_of_a_module_and_of_symbolic_dimensions():
    func = from_source("""
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in T.serial(n):
            for j in range(4):
                B[i] = B[i] + A[i, j] * A[i, j]
    """)
    n = func.buffers[0].shape[0]

    def at(e, value):
        return Analyzer().simplify(substitute(e, {n: const(value, n.dtype)}))
    assert isinstance(at(tir.analysis.estimate_tir_flops(func), 10), IntImm)
    assert at(tir.analysis.estimate_tir_flops(func), 10).value == 80
    flops, (of_a, of_b) = estimate_work(func)
    assert (at(flops, 3).value, at(of_a, 3).value, at(of_b, 3).value) == (24, 48, 12)
    static = function("B[0] = B[0] + A[0, 0]")
    assert tir.analysis.estimate_tir_flops(IRModule({"f": static, "g": static})) == 2


def test_bytes_are_those_that_are_touched():
    gather = function("for i in range(2):\n    B[i] = A[i, 0]")
    assert estimate_work(gather) == (0, (8, 8))
    again = function("for i, j, k in T.grid(8, 4, 100):\n    B[i] = B[i] + A[i, j]")
    assert estimate_work(again) == (3200, (128, 32))
