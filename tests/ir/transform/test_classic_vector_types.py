"""PointerValueTypeRewrite, T.Shuffle, and vectors in what StorageRewrite leaves."""
import numpy as np
import pytest
from interp import run
from test_classic_passes import done

import ingot as tvm
from ingot.ir.node import collect
from ingot.ir.tir import Buffer, DeclBuffer, Shuffle
from ingot.script import tir as T


def assert_same_memory(before, after, *arrays):
    """The two leave the same bytes; arrays of vectors are the same memory, with a dimension of lanes."""
    kept, changed = [x.copy() for x in arrays], [x.copy() for x in arrays]
    run(before, *kept)
    views = []
    for x, b in zip(changed, after.buffers):
        lanes = b.dtype.lanes
        views.append(x.reshape(*x.shape[:-1], -1, lanes) if lanes > 1 else x)
    run(after, *views)
    for a, b in zip(kept, changed):
        np.testing.assert_array_equal(a, b)


def rows(shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def test_numbers_are_shuffled_out_of_vectors():
    @T.prim_func
    def before(A: T.Buffer((3, 8), "float32"), B: T.Buffer((3, 2), "float32")):
        kept = T.decl_buffer((3, 8), "float32", scope="local")
        for i, j in T.grid(3, 2):
            kept[i, T.ramp(j * 4, 1, 4)] = A[i, T.ramp(j * 4, 1, 4)]
        for i, j in T.grid(3, 2):
            B[i, j] = kept[i, j * 4 + 3] - kept[i, 5]

    after = done("PointerValueTypeRewrite", before)
    assert [str(b.dtype) for b in after.buffers] == ["float32x4", "float32"]
    decl, = collect(after.body, DeclBuffer)
    assert (str(decl.buffer.dtype), [int(n) for n in decl.buffer.shape]) == ("float32x4", [3, 2])
    assert sorted(int(s.indices[0]) for s in collect(after.body, Shuffle)) == [1, 3]
    assert_same_memory(before, after, rows((3, 8)), rows((3, 2)))


@T.prim_func
def stored_alone(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    A[0:8] = B[0:8]
    A[3] = T.float32(1)


@T.prim_func
def read_anywhere(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    B[0:4] = A[0:4]
    for i in range(4):
        B[4 + i] = A[i]


@T.prim_func
def not_aligned(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    B[2:6] = A[2:6]


@T.prim_func
def of_two_widths(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    B[0:4] = A[0:4]
    B[4:6] = A[4:6]


@T.prim_func
def not_whole(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
    B[0:4] = A[4:8]


@T.prim_func
def addressed(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    T.evaluate(T.address_of(A[0]))
    T.evaluate(T.address_of(B[0]))
    B[0:4] = A[4:8]


@pytest.mark.parametrize("func, kept", [(stored_alone, ["A"]), (read_anywhere, ["A", "B"]), (not_aligned, ["A", "B"]),
                                        (of_two_widths, ["A", "B"]), (not_whole, ["A", "B"]), (addressed, ["A", "B"])])
def test_what_stays_numbers(func, kept):
    after = done("PointerValueTypeRewrite", func)
    assert [b.name for b in after.buffers if b.dtype.lanes == 1] == kept


def test_constants_stay_numbers():
    @T.prim_func
    def func(A: T.Buffer((4,), "float32")):
        p = T.allocate_const([1.0, 2.0, 3.0, 4.0], "float32", [4])
        C = T.Buffer((4,), "float32", data=p)
        A[0:4] = C[0:4]

    after = done("PointerValueTypeRewrite", func)
    assert {b.name: b.dtype.lanes for b in collect(after.body, Buffer)} == {"A": 4, "C": 1}


def test_storage_rewrite_leaves_vectors():
    @T.prim_func
    def before(A: T.Buffer((16,), "float32")):
        twice = T.decl_buffer((16,), "float32", scope="local")
        for i in range(4):
            twice[T.ramp(i * 4, 1, 4)] = A[T.ramp(i * 4, 1, 4)] + A[T.ramp(i * 4, 1, 4)]
        for i in range(4):
            A[T.ramp(i * 4, 1, 4)] = twice[T.ramp(12 - i * 4, 1, 4)]

    after = done("StorageRewrite", before)
    assert [d.buffer.dtype.lanes for d in collect(after.body, DeclBuffer)] == [4] and after.buffers[0].dtype.lanes == 1
    assert_same_memory(before, after, rows(16))


def test_shuffles_are_lanes_of_all_vectors():
    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), B: T.Buffer((6,), "float32")):
        B[T.ramp(0, 1, 4)] = T.Shuffle([A[2:4], A[0:2]], [3, 0, 1, 1])
        B[4] = T.Shuffle([A[0:4]], [2])
        B[5] = T.float32(0)

    a, b = rows(4), rows(6)
    run(func, a, b)
    np.testing.assert_array_equal(b, [a[1], a[2], a[3], a[3], a[2], 0])
    tvm.ir.assert_structural_equal(tvm.script.from_source(func.script()), func)
    x = tvm.tir.Var("x", "int32x2")
    assert str(Shuffle.concat([x, x]).dtype) == "int32x4" and str(Shuffle.extract_element(x, 1).dtype) == "int32"
    with pytest.raises(ValueError, match="takes the lanes 0 to 1 of its vectors, not 2"):
        Shuffle([x], [2])
    with pytest.raises(TypeError, match="one element type, not float32, int32"):
        Shuffle([x, tvm.tir.Var("y", "float32x2")], [0])
    text = tvm.build(func, target="c").get_source()
    assert all(line in text for line in ("B[0] = A[1];", "B[2] = A[3];", "B[4] = A[2];"))


def test_vectors_that_no_header_has_are_lanes():
    """Of sizes, dtypes and functions that simd.h has not; what is overwritten is read before."""
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "int8")):
        C[T.ramp(4, 1, 4)] = C[T.ramp(0, 1, 4)] + C[T.ramp(4, 1, 4)]
        A[T.ramp(1, 1, 3)] = A[T.ramp(0, 1, 3)] * T.Shuffle([A[0:4]], [2, 1, 0])
        A[T.ramp(4, 1, 4)] = T.sin(A[T.ramp(4, 1, 4)])

    a, c = np.arange(8, dtype="float32") + 1, np.arange(8, dtype="int8")
    host = [tvm.nd.array(a), tvm.nd.array(c)]
    tvm.build(func, target="c")(*host)
    np.testing.assert_allclose(host[0].numpy(), [1, 3, 4, 3, *np.sin(a[4:])], rtol=1e-6)
    np.testing.assert_array_equal(host[1].numpy(), [*c[:4], *(c[:4] + c[4:])])


def test_lanes_of_what_is_stored_are_read_before():
    """Also behind a Shuffle, as places, by several lanes of one place, and as lanes of lanes."""
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), P: T.Buffer((8,), "int32"), C: T.Buffer((16,), "int8")):
        A[0:4] = T.Shuffle([A[0:4]], [3, 2, 1, 0])
        A[T.ramp(4, 1, 3)] = T.Broadcast(T.Shuffle([A[T.ramp(4, 1, 3)]], [T.int32(1)]), 3) * A[T.ramp(4, 1, 3)]
        P[P[0:4]] = T.Broadcast(7, 4)
        P[4:8] = T.Ramp(4, 1, 4)
        P[T.Broadcast(5, 3)] = P[T.Broadcast(5, 3)] + T.Broadcast(1, 3)
        A[0:4] = T.Select(P[4] > 1, A[0:4], A[P[0:4]])
        C[8:16] = C[0:8]

    arrays = [np.arange(8, dtype="float32"), np.array([3, 0, 1, 2, 4, 5, 6, 7], "int32"), np.arange(16, dtype="int8")]
    host = [tvm.nd.array(x) for x in arrays]
    run(func, *arrays)
    tvm.build(func, target="c")(*host)
    for x, expected in zip(host, arrays):
        np.testing.assert_array_equal(x.numpy(), expected)
    assert [*arrays[1][:6]] == [7, 7, 7, 7, 4, 6]


def test_all_lanes_have_the_value_of_one_call():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        A[T.ramp(0, 1, 3)] = T.Broadcast(T.call_extern("float32", "next_value"), 3)

    assert tvm.build(func, target="c").get_source().count("next_value()") == 1
