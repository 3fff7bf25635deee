"""Functions as scripts, which the tests of modules build."""
from functools import lru_cache

import numpy as np

import ingot as tvm
from ingot.script import ir as I, tir as T


@T.prim_func
def vector_add(a: T.handle, b: T.handle, c: T.handle):
    T.func_attr({"global_symbol": "vector_add", "tir.noalias": True})
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    for i in range(n):
        with T.block("C"):
            vi = T.axis.spatial(n, i)
            C[vi] = A[vi] + B[vi]


@T.prim_func
def fixed(A: T.Buffer((2, 3), "int32"), B: T.Buffer((2, 3), "int32")):
    T.func_attr({"global_symbol": "fixed"})
    for i, j in T.grid(2, 3):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1


@T.prim_func
def groups(a: T.handle, b: T.handle):
    """B[i] is the sum of row i of A, whose rows are pairs of the n of B's length: an expression of a dimension."""
    T.func_attr({"global_symbol": "groups"})
    n = T.int32()
    A = T.match_buffer(a, (n, n * 2), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i, j in T.grid(n, n * 2):
        with T.block("B"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vj]


@T.prim_func
def scaled(a: T.handle, b: T.handle, alpha: T.float32, shift: T.int8):
    T.func_attr({"global_symbol": "scaled"})
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi] * alpha + T.cast(shift, "float32")


@T.prim_func
def strided(a: T.handle, b: T.handle):
    T.func_attr({"global_symbol": "strided"})
    m = T.int32()
    n = T.int32()
    s = T.int32()
    t = T.int32()
    A = T.match_buffer(a, (m, n), "float32", strides=(s, t))
    B = T.match_buffer(b, (m, n), "float32", strides=(n + 1, 1), align=32)
    for i, j in T.grid(m, n):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


@T.prim_func
def through_memory(a: T.handle, b: T.handle):
    """A temporary of symbolic size, which becomes workspace."""
    T.func_attr({"global_symbol": "through_memory"})
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    M = T.alloc_buffer((n,), "float32")
    for i in range(n):
        with T.block("M"):
            vi = T.axis.spatial(n, i)
            M[vi] = A[vi] * A[vi]
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = M[n - 1 - vi]


@T.prim_func
def checked(a: T.handle, b: T.handle, limit: T.int32):
    T.func_attr({"global_symbol": "checked"})
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    B = T.match_buffer(b, (n,), "int32")
    T.Assert(n <= limit, "n is above the \"limit\"")
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi] * A[vi]


ALL = (vector_add, fixed, groups, scaled, strided, through_memory, checked)


@I.ir_module
class Two:
    @T.prim_func
    def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] * T.float32(2)

    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] + T.float32(1)


@lru_cache(maxsize=None)
def built():
    """One Module of ALL."""
    return tvm.build(tvm.IRModule({f.attrs["global_symbol"]: f for f in ALL}))


def floats(*shape, seed=0):
    return np.random.default_rng(seed).random(shape, np.float32)
