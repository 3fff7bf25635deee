"""NarrowDataType of scripts: what becomes narrow computes what it did, and what would overflow stays."""
import pytest
from test_classic_passes import done
from tir_cases import arguments, assert_same_results, results

from ingot.ir.expr import Cast
from ingot.ir.node import collect
from ingot.ir.tir import For
from ingot.script import tir as T


@T.prim_func
def guarded(A: T.Buffer((130,), "float32"), B: T.Buffer((130,), "float32")):
    for i, j in T.grid(T.int64(2), T.int64(65)):
        if i * T.int64(65) + j < T.int64(128):
            B[i * T.int64(65) + j] = T.if_then_else(j > T.int64(3), A[i * T.int64(65) + j - T.int64(4)], T.float32(0))


@T.prim_func
def blocked(A: T.Buffer((128,), "int64"), B: T.Buffer((128,), "int64")):
    for i, j in T.grid(T.int64(16), T.int64(8)):
        with T.block("B"):
            vi = T.axis.spatial(T.int64(128), i * T.int64(8) + j)
            B[vi] = A[T.int64(127) - vi] * T.int64(1 << 40) + vi


@T.prim_func
def averaged(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for i in range(T.int64(8)):
        for j in range(T.int64(8)):
            B[i * T.int64(8) + j] = T.Cast("int32", T.truncdiv(
                T.Cast("int64", A[i * T.int64(8) + j]), T.max(T.min(j, T.int64(3)) * i, T.int64(1))))


@T.prim_func
def vectors(A: T.Buffer((128,), "int32"), B: T.Buffer((128,), "int32")):
    for i in range(T.int64(32)):
        B[T.Ramp(i * T.int64(4), T.int64(1), 4)] = A[T.Ramp(i * T.int64(4), T.int64(1), 4)]


@T.prim_func
def large(A: T.Buffer((8,), "int64"), B: T.Buffer((8,), "int64")):
    for i in range(T.int64(8)):
        B[i] = A[i] + i * T.int64(1 << 33)


@pytest.mark.parametrize("func, bits", [(guarded, 16), (blocked, 32), (averaged, 32), (vectors, 16)],
                         ids=["guarded", "blocked", "averaged", "vectors"])
def test_narrow_loops_compute_the_same(func, bits):
    after = done("NarrowDataType", func, bits)
    inputs = arguments(func)
    assert_same_results(results(func, inputs), after, inputs)
    assert {str(loop.loop_var.dtype) for loop in collect(after.body, For)} == {f"int{bits}"}
    assert "int64" not in after.script() or func is blocked


def test_what_is_large_stays():
    after = done("NarrowDataType", large, 32)
    inputs = arguments(large)
    assert_same_results(results(large, inputs), after, inputs)
    assert [loop.loop_var.dtype for loop in collect(after.body, For)] == ["int64"]
    assert not collect(done("NarrowDataType", averaged, 32).body, Cast)
    assert len(collect(done("NarrowDataType", averaged, 16).body, Cast)) == 2  # what is divided has 32 bits


def test_the_end_of_a_loop_fits_its_variable():
    @T.prim_func
    def func(B: T.Buffer((1,), "int32")):
        for i in range(T.int64(1 << 15)):
            B[T.int64(0)] = T.Cast("int32", i)

    @T.prim_func
    def from_below(B: T.Buffer((1,), "int32")):
        for i in range(T.int64(-2), T.int64(1 << 15) - T.int64(1)):
            B[T.int64(0)] = T.Cast("int32", i)

    assert collect(done("NarrowDataType", from_below, 16).body, For)[0].loop_var.dtype == "int64"
    assert collect(done("NarrowDataType", func, 16).body, For)[0].loop_var.dtype == "int64"
    assert collect(done("NarrowDataType", func, 32).body, For)[0].loop_var.dtype == "int32"
    with pytest.raises(ValueError, match="target_bits is 8, 16, 32 or 64, not 12"):
        done("NarrowDataType", func, 12)
