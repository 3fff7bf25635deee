"""tir.bounds: what provably leaves a buffer does not build; what may be right does."""
import pytest

import ingot
from ingot import te, tir
from ingot.ir.tir.bounds import check_bounds
from ingot.script import tir as T


def computed(f, n=16, shape=(16,)):
    A = te.placeholder(shape, "float32", name="A")
    return te.create_prim_func([A, te.compute((n,), f(A), name="B")])


def window(length):
    A = te.placeholder((16,), "float32", name="A")
    k = te.reduce_axis((0, length), name="k")
    return te.create_prim_func([A, te.compute((14,), lambda i: te.sum(A[i + k], axis=[k]), name="B")])


@T.prim_func
def writes_beyond(B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i * 2] = 1.0


@T.prim_func
def in_a_triangle(A: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(i + 2):
            A[i, j] = 1.0


@T.prim_func
def behind_a_guard(A: T.Buffer((8,), "float32")):
    for i in range(16):
        if i >= 8:
            A[i] = 1.0


@T.prim_func
def in_a_split_of_many(A: T.Buffer((1000000,), "float32")):
    for i, j in T.grid(62500, 16):
        with T.block("B"):
            v = T.axis.spatial(1000000, i * 16 + j)
            A[v + 1] = 1.0


REFUSED = {
    "next": (computed(lambda A: lambda i: A[i + 1]), "block B reads A[v_i + 1]", "from 1 to 16"),
    "negative": (computed(lambda A: lambda i: A[i - 1]), "block B reads A[v_i - 1]", "from -1 to 14"),
    "wrong guard": (computed(lambda A: lambda i: tir.if_then_else(i < 15, A[i + 2], 0.0)), "reads A", "from 2 to 16"),
    "quotient": (computed(lambda A: lambda i: A[i // 2 + i % 2], 32), "reads A", "from 0 to 16"),
    "window": (window(4), "block B reads A", "from 0 to 16"),
    "write": (writes_beyond, "writes B[i * 2]", "from 0 to 14"),
    "triangle": (in_a_triangle, "writes A[i, j]", "from 0 to 8"),
    "else": (behind_a_guard, "writes A[i]", "from 8 to 15"),
    "split": (in_a_split_of_many, "block B writes A", "to 1000000"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_leaves_a_buffer_is_refused(case):
    func, access, values = REFUSED[case]
    for make in (ingot.build, ingot.lower):
        with pytest.raises(ValueError) as error:
            make(func)
        message = str(error.value)
        assert access in message and values in message and "guard the access" in message and "\n" not in message


@T.prim_func
def where(A: T.Buffer((10,), "float32")):
    for i, j in T.grid(3, 4):
        with T.block("B"):
            T.where(i * 4 + j < 10)
            v = T.axis.spatial(10, i * 4 + j)
            A[v] = 1.0


@T.prim_func
def guarded_store(A: T.Buffer((8,), "float32")):
    for i in range(16):
        if 4 <= i and i < 12:
            A[i - 4] = 1.0


@T.prim_func
def by_data(A: T.Buffer((8,), "float32"), N: T.Buffer((1,), "int32")):
    for i in range(16):
        if i < N[0]:
            A[i] = 1.0
    for k in range(N[0]):
        A[k + 8] = 1.0
    A[N[0]] = 2.0


@T.prim_func
def no_iteration(A: T.Buffer((8,), "float32")):
    for _i in range(0):
        A[9] = 1.0


@T.prim_func
def short_circuit(A: T.Buffer((8,), "float32"), B: T.Buffer((9,), "float32")):
    for i in range(9):
        if i < 8 and A[i] > T.float32(0):
            B[i] = 1.0
        if i >= 8 or A[i] > T.float32(0):
            B[i] = 2.0


n = te.var("n")
PASSES = {
    "same": computed(lambda A: lambda i: A[i]),
    "padded": computed(lambda A: lambda i: tir.if_then_else(tir.all(i >= 1, i < 17), A[i - 1], 0.0), 18),
    "select": computed(lambda A: lambda i: tir.Select(i < 15, A[i + 1], tir.const(0, "float32"))),
    "never": computed(lambda A: lambda i: tir.if_then_else(i < 0, A[i - 100], 0.0)),
    "clamped": computed(lambda A: lambda i: A[tir.max(tir.min(i - 2, 15), 0)], 40),
    "floor": computed(lambda A: lambda i: A[i // 2 + i % 2], 31),
    "modulus": computed(lambda A: lambda i: A[(i * 7 - 3) % 16], 1000),
    "symbolic": computed(lambda A: lambda i: A[i + 1], n, (n,)),
    "no element": computed(lambda A: lambda i: A[i + 1], 0, (0,)),
    "window": window(3),
    "where": where, "store": guarded_store, "data": by_data, "loop of 0": no_iteration, "and, or": short_circuit,
}


@pytest.mark.parametrize("case", PASSES)
def test_what_may_be_right_passes(case):
    assert check_bounds(PASSES[case]) is PASSES[case]


def test_a_return_ends_what_is_known():
    @T.prim_func
    def early(N: T.Buffer((1,), "int32"), A: T.Buffer((8,), "float32")):
        if N[0] > 0:
            T.evaluate(T.ret(0))
        A[8] = 1.0
    assert check_bounds(early) is early
