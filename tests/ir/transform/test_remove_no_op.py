"""RemoveNoOp: stores, loops, branches and variables that do nothing."""
import numpy as np
import pytest
from interp import run
from tir_cases import arguments, assert_same_results, results

import ingot as tvm
from ingot.ir.node import collect, structural_equal
from ingot.ir.script.functions import from_source
from ingot.ir.tir import DeclBuffer
from ingot.ir.transform.assumptions import remove_assume, remove_store_undef
from ingot.ir.transform.pipeline import lower_prim_func
from ingot.ir.transform.simplify import simplify
from ingot.script import tir as T
from ingot.tir.transform import RemoveNoOp

HEAD = "@T.prim_func\ndef main(A: T.Buffer((16,), \"int32\"), n: T.int32):\n"

CASES = {
    "a loop of no iterations": ("for i in range(0):\n    A[i] = 1\nA[2] = 3", "A[2] = 3"),
    "a store of what is there": ("for i in range(16):\n    A[i] = A[i]\nA[0] = A[1]", "A[0] = A[1]"),
    "a variable that nothing uses": ("x: T.int32 = n + 1\nA[0] = n", "A[0] = n"),
    "a variable that something uses": ("x: T.int32 = n + 1\nA[0] = x", "x: T.int32 = n + 1\nA[0] = x"),
    "what a value does stays": ('x: T.int32 = T.call_extern("int32", "f")\nA[0] = n',
                                'T.evaluate(T.call_extern("int32", "f"))\nA[0] = n'),
    "what the extent of a loop does stays": (
        'for i in range(T.call_extern("int32", "f")):\n    A[0] = A[0]\nA[0] = n',
        'for i in range(T.call_extern("int32", "f")):\n    T.evaluate(0)\nA[0] = n'),
    "a branch of which only the other case is left": (
        "if n < 8:\n    A[0] = A[0]\nelse:\n    A[1] = 2", "if not n < 8:\n    A[1] = 2"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_does_nothing_goes(name):
    before, after = (from_source(HEAD + "\n".join("    " + line for line in text.splitlines())) for text in CASES[name])
    done = RemoveNoOp()(tvm.IRModule({"main": before}))["main"]
    assert structural_equal(done, after), done.script()


def test_a_pointer_in_a_builder():
    ib = tvm.tir.ir_builder.create()
    p = ib.pointer("float32", name="p")
    with ib.for_range(0, 4) as i:
        p[i] = p[i] + 1.0
    text = str(ib.get())
    assert "p[i] = p[i] + T.float32(1.0)" in text


def test_simplify_keeps_what_conditions_and_extents_do():
    func = from_source(HEAD + '    if T.call_extern("int32", "f") > 0:\n        T.evaluate(0)\n'
                              '    for i in range(T.call_extern("int32", "g")):\n        T.evaluate(0)\n    A[0] = 1')
    for run in (simplify, remove_assume, remove_store_undef):
        text = run(func).script()
        assert '"f"' in text and '"g"' in text
    source = tvm.build(func, target="c").get_source()
    assert "f() > 0" in source and "g()" in source


def test_memory_that_only_views_use_stays():
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        B = T.decl_buffer((4, 5), "float32")
        V = T.Buffer((4, 4), "float32", data=B.data, strides=(5, 1))
        D = T.decl_buffer((16,), "float32")
        W = T.Buffer((4, 4), "float32", data=D.data)
        for i, j in T.grid(4, 4):
            V[i, j] = A[i * 4 + j]
            W[i, j] = V[i, j]
        for i, j in T.grid(4, 4):
            C[j * 4 + i] = V[i, j]

    after = tvm.tir.transform.RemoveNoOp()(tvm.IRModule({"main": before}))["main"]
    assert [d.buffer.name for d in collect(after.body, DeclBuffer)] == ["B"] and "W[" not in str(after)
    inputs = arguments(before)
    assert_same_results(results(before, inputs), after, inputs)


def test_a_pipeline_counts_what_nothing_uses():
    """Its stages and places are of the statements as they were given."""
    @T.prim_func
    def func(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
        for i in T.serial(8, annotations={"software_pipeline_stage": [0, 0, 1], "software_pipeline_order": [0, 1, 2]}):
            with T.block("turn"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi, 0:4])
                T.writes(B[vi, 0:4])
                unused, used = T.alloc_buffer((8, 4)), T.alloc_buffer((8, 4))
                for j in range(4):
                    with T.block("unused"):
                        vj = T.axis.spatial(4, j)
                        unused[vi, vj] = A[vi, vj] * 3.0
                for j in range(4):
                    with T.block("used"):
                        vj = T.axis.spatial(4, j)
                        used[vi, vj] = A[vi, vj] * 2.0
                for j in range(4):
                    with T.block("B"):
                        vj = T.axis.spatial(4, j)
                        B[vi, vj] = used[vi, vj] + 1.0

    lowered = lower_prim_func(func)
    assert "unused" not in lowered.script() and "range(7)" in lowered.script()
    a, b = np.arange(32, dtype="float32").reshape(8, 4), np.zeros((8, 4), "float32")
    run(lowered, a, b)
    np.testing.assert_array_equal(b, a * 2 + 1)
