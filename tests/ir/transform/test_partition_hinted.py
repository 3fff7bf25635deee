"""Loops split where conditions in them begin or cease to hold: by a hint, or all of constant extents."""
import numpy as np
import pytest
from interp import run

from ingot.ir.module import IRModule
from ingot.ir.node import collect, structural_equal
from ingot.ir.script.functions import from_source
from ingot.ir.tir.stmt import For
from ingot.ir.transform.context import PassContext
from ingot.tir import transform as T

HEAD = '@T.prim_func\ndef main(A: T.Buffer((40,), "int32"), n: T.int32):\n'
HINTED = 'for i in T.serial({}, annotations={{"pragma_loop_partition_hint": 1}}):\n'


def program(text):
    return from_source(HEAD + "\n".join("    " + line for line in text.splitlines()))


def split(func, **config):
    with PassContext(config={"tir.LoopPartition": config}):
        mod = T.LoopPartition()(T.LowerOpaqueBlock()(IRModule({"main": func})))
        return T.Simplify()(mod)["main"]


CASES = {
    "branches": (HINTED.format(30) + "    if i < 10:\n        A[i] = 1\n    elif i < 28:\n        A[i] = 2\n    else:\n"
                 "        A[i] = 3",
                 "for i in range(10):\n    A[i] = 1\nfor i in range(18):\n    A[i + 10] = 2\n"
                 "for i in range(2):\n    A[i + 28] = 3"),
    "one iteration": (HINTED.format("2, 6") + "    if i == 3:\n        A[i] = n\n    else:\n        A[i] = i",
                      "A[2] = 2\nA[3] = n\nfor i in range(2):\n    A[i + 4] = i + 4"),
    "what inner loops leave open": (
        HINTED.format(6) + "    for j in range(4):\n        if 3 <= i + j:\n            A[i * 4 + j] = 1",
        "for i, j in T.grid(3, 4):\n    if 3 <= i + j:\n        A[i * 4 + j] = 1\n"
        "for i, j in T.grid(3, 4):\n    A[i * 4 + j + 12] = 1"),
    "a quotient": (HINTED.format(30) + "    if i // 10 == 1:\n        A[i] = 1",
                   "for i in range(10):\n    A[i + 10] = 1"),
    "likely ones": (
        "for i in range(30):\n    if T.likely(i < 20):\n        A[i] = 1\n    if i < 5:\n        A[i + 1] = 2",
        "for i in range(20):\n    A[i] = 1\n    if i < 5:\n        A[i + 1] = 2"),
    "what only a run decides": (HINTED.format(30) + "    if i < n:\n        A[i] = 1",
                                "for i in range(30):\n    if i < n:\n        A[i] = 1"),
    "every other iteration": (HINTED.format(30) + "    if i % 2 == 0:\n        A[i] = 1",
                              "for i in range(30):\n    if i % 2 == 0:\n        A[i] = 1"),
}


@pytest.mark.parametrize("name", CASES)
def test_loops_split_where_conditions_change(name):
    before, expected = map(program, CASES[name])
    done = split(before, partition_const_loop=True)
    assert structural_equal(done, T.Simplify()(IRModule({"main": expected}))["main"]), done.script()
    for n in (0, 7, 31):
        arrays = [np.arange(40, dtype="int32") for _ in range(2)]
        run(before, arrays[0], n)
        run(done, arrays[1], n)
        np.testing.assert_array_equal(*arrays)


def test_parts_that_are_open_unroll_and_single_iterations_stay_loops():
    open_ones = program(CASES["what inner loops leave open"][0])
    done = split(open_ones, unroll_loop_with_partition_hint_no_interval=True)
    assert [loop.kind for loop in collect(done.body, For) if loop.loop_var.name == "i"] == ["unrolled", "serial"]
    single = program(HINTED.format(6) + "    if i == 0:\n        A[i] = 1\n    else:\n        A[i] = n")
    with PassContext(config={"tir.LoopPartition": {"no_unroll_loop_with_extent_one": True}}):
        mod = T.LoopPartition()(T.LowerOpaqueBlock()(IRModule({"main": single})))
    assert [loop.extent.value for loop in collect(mod["main"].body, For)] == [1, 5]
