"""BeginSums: sums begin at what would be added to them, where each has a number of its own and that is known before."""
import pytest

from ingot.ir.module import IRModule
from ingot.ir.node import structural_equal
from ingot.ir.transform.pass_table import TIR
from ingot.script import tir as T


def begin(func):
    return TIR["BeginSums"](True)(IRModule({"main": func}))["main"]


def test_sums_of_a_tile_begin_at_the_biases_of_their_channels():
    @T.prim_func
    def before(x: T.Buffer((32,), "int32"), bias: T.Buffer((2,), "int32"), y: T.Buffer((6,), "float32")):
        acc = T.decl_buffer((6,), "int32", scope="local")
        for p, c in T.grid(3, 2):
            acc[p * 2 + c] = 0
        for k in range(5):
            for p in range(3):
                for c in range(2):
                    acc[p * 2 + c] = acc[p * 2 + c] + x[k * 6 + p * 2 + c]
        for q, o in T.grid(3, 2):
            y[o * 3 + q] = T.Cast("float32", acc[q * 2 + o] + bias[o])

    @T.prim_func
    def after(x: T.Buffer((32,), "int32"), bias: T.Buffer((2,), "int32"), y: T.Buffer((6,), "float32")):
        acc = T.decl_buffer((6,), "int32", scope="local")
        for p, c in T.grid(3, 2):
            acc[p * 2 + c] = bias[c]
        for k in range(5):
            for p in range(3):
                for c in range(2):
                    acc[p * 2 + c] = acc[p * 2 + c] + x[k * 6 + p * 2 + c]
        for q, o in T.grid(3, 2):
            y[o * 3 + q] = T.Cast("float32", acc[q * 2 + o])

    assert structural_equal(begin(before).body, after.body, map_free_vars=True), begin(before).script()


def transposed():
    @T.prim_func
    def func(x: T.Buffer((4,), "int32"), bias: T.Buffer((2,), "int32"), y: T.Buffer((4,), "int32")):
        acc = T.decl_buffer((4,), "int32", scope="local")
        for p, c in T.grid(2, 2):
            acc[p * 2 + c] = 0
        for n in range(4):
            acc[n] = acc[n] + x[n]
        for q, o in T.grid(2, 2):
            y[q * 2 + o] = acc[o * 2 + q] + bias[o]  # the loops are those of other sums
    return func


def one_sum_for_all():
    @T.prim_func
    def func(x: T.Buffer((2,), "int32"), bias: T.Buffer((2,), "int32"), y: T.Buffer((2,), "int32")):
        acc = T.decl_buffer((1,), "int32", scope="local")
        for n in range(2):
            acc[0] = 0
        acc[0] = acc[0] + x[0]
        for n in range(2):
            y[n] = acc[0] + bias[n]
    return func


def other_loops():
    @T.prim_func
    def func(x: T.Buffer((4,), "int32"), bias: T.Buffer((4,), "int32"), y: T.Buffer((4,), "int32")):
        acc = T.decl_buffer((4,), "int32", scope="local")
        for n in range(4):
            acc[n] = 0
        acc[1] = acc[1] + x[0]
        for n in range(3):
            y[n] = acc[n] + bias[n]
    return func


def what_changes():
    @T.prim_func
    def func(x: T.Buffer((2,), "int32"), bias: T.Buffer((2,), "int32"), y: T.Buffer((2,), "int32")):
        acc = T.decl_buffer((2,), "int32", scope="local")
        for n in range(2):
            acc[n] = 0
        for n in range(2):
            acc[n] = acc[n] + x[n]
            bias[n] = x[n]
        for n in range(2):
            y[n] = acc[n] + bias[n]
    return func


def two_numbers():
    @T.prim_func
    def func(x: T.Buffer((2,), "int32"), bias: T.Buffer((4,), "int32"), y: T.Buffer((4,), "int32")):
        acc = T.decl_buffer((2,), "int32", scope="local")
        for n in range(2):
            acc[n] = 0
        for n in range(2):
            acc[n] = acc[n] + x[n]
        for n in range(2):
            y[n] = acc[n] + bias[n]
        for n in range(2):
            y[n + 2] = acc[n] + bias[n + 2]
    return func


def what_a_condition_guards():
    @T.prim_func
    def func(x: T.Buffer((4,), "int32"), bias: T.Buffer((3,), "int32"), y: T.Buffer((3,), "int32")):
        acc = T.decl_buffer((4,), "int32", scope="local")
        for n in range(4):
            acc[n] = 0
        for n in range(4):
            acc[n] = acc[n] + x[n]
        for n in range(4):
            if n < 3:
                y[n] = acc[n] + bias[n]  # which has no fourth number
    return func


@pytest.mark.parametrize("make", [what_a_condition_guards, transposed, one_sum_for_all, other_loops, what_changes, two_numbers])
def test_what_stays(make):
    func = make()
    assert structural_equal(begin(func).body, func.body)
