"""Functions that return numbers: what the compiled module returns, and what no C can."""
import numpy as np
import pytest

import ingot as tvm
from ingot.script import tir as T


def test_a_sum_of_scalars():
    for dtype, a, b in (("float32", 1.5, 2.25), ("int8", 100, 27), ("uint16", 60000, 5535), ("float64", 1e300, 1e299),
                        ("int64", 1 << 40, 7)):
        x, y = tvm.tir.Var("x", dtype), tvm.tir.Var("y", dtype)
        func = tvm.tir.PrimFunc([x, y], tvm.tir.Evaluate(tvm.tir.ret(x + y)))
        got = tvm.build(func)(a, b)
        assert got == np.dtype(dtype).type(a) + np.dtype(dtype).type(b) and type(got) is type(a)


def test_a_bool_and_a_half():
    x = tvm.tir.Var("x", "float32")
    assert tvm.build(tvm.tir.PrimFunc([x], tvm.tir.Evaluate(tvm.tir.ret(x > 1))))(2.0) is True
    half = tvm.tir.PrimFunc([x], tvm.tir.Evaluate(tvm.tir.ret(x.astype("float16"))))
    assert tvm.build(half)(0.1) == float(np.float16(0.1))


@T.prim_func
def place(A: T.Buffer((4, 5), "int32"), k: T.int32, seen: T.Buffer((1,), "int32")) -> T.int32:
    seen[0] = 0
    for i in range(4):
        for j in range(5):
            seen[0] = seen[0] + 1
            if A[i, j] == k:
                return i * 5 + j
        seen[0] = seen[0] + 100
    seen[0] = seen[0] + 1000
    return -1


def test_nothing_runs_after_a_loop_returned():
    f, a, seen = tvm.build(place), np.arange(20, dtype="int32").reshape(4, 5), np.zeros(1, "int32")
    for k, turns in ((0, 1), (7, 108), (19, 320), (20, 1420)):
        assert f(a, k, seen) == (k if k < 20 else -1) and seen[0] == turns


@T.prim_func
def steps(n: T.int32) -> T.int32:
    count = T.alloc_buffer((1,), "int32")
    value = T.alloc_buffer((1,), "int32")
    count[0] = 0
    value[0] = n
    while value[0] != 1:
        if count[0] == 50:
            return -1
        if value[0] % 2 == 0:
            value[0] = value[0] // 2
        else:
            value[0] = value[0] * 3 + 1
        count[0] = count[0] + 1
    return count[0]


def test_a_while_that_returns():
    f = tvm.build(steps)
    assert [f(n) for n in (1, 2, 3, 6, 27)] == [0, 1, 7, 8, -1]


@T.prim_func
def kind(x: T.int32, y: T.int32) -> T.int32:
    if x < 0:
        if y < 0:
            return 1
        else:
            if y == 0:
                return 2
    else:
        return 3
    if y > 10:
        return 4
    return 5


def test_branches():
    f = tvm.build(kind)
    assert [f(*v) for v in ((-1, -1), (-1, 0), (1, 0), (-1, 11), (-1, 5))] == [1, 2, 3, 4, 5]


@T.prim_func
def dot(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> T.float32:
    C = T.alloc_buffer((1,), "float32")
    for i in range(64):
        with T.block("dot"):
            vi = T.axis.reduce(64, i)
            with T.init():
                C[0] = T.float32(0)
            C[0] = C[0] + A[vi] * B[vi]
    with T.block("out"):
        T.reads(C[0])
        T.writes()
        T.evaluate(T.ret(C[0]))


def test_a_block_returns():
    a, b = (np.random.default_rng(n).standard_normal(64).astype("float32") for n in (0, 1))
    module = tvm.build(dot)
    np.testing.assert_allclose(module(a, b), a @ b, rtol=1e-5)
    place = np.zeros(1, "float32")  # as C calls it
    assert module(a, b, place) is None and place[0] == module(a, b)


def test_what_is_refused():
    @T.prim_func
    def sometimes(x: T.int32) -> T.int32:
        if x > 0:
            return x

    @T.prim_func
    def together(A: T.Buffer((8,), "int32")) -> T.int32:
        for i in T.parallel(8):
            if A[i] > 0:
                T.ret(i)
        return -1

    x, y = tvm.tir.Var("x"), tvm.tir.Var("y", "float32")
    ways = tvm.tir.IfThenElse(x > 0, *(tvm.tir.Evaluate(tvm.tir.ret(v)) for v in (x, y)))
    for func, why in ((sometimes, "sometimes returns a value in some cases only"),
                      (together, "together: loop i is parallel and returns a value"),
                      (tvm.tir.PrimFunc([x, y], ways), "returns values of int32 and float32")):
        with pytest.raises(ValueError, match=why):
            tvm.build(func)
