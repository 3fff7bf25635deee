"""cache_read, cache_write, cache_index, cache_inplace, reindex and set_scope: structure and numbers of each,
and every refusal."""
import pytest

from ingot.ir.schedule import Schedule
from ingot.ir.script import script
from ingot.ir.tir import decl_buffer
from ingot.ir.tir.signatures import complete_signatures
from ingot.script import from_source
from ingot.script import tir as T
from primitive_programs import (bordered, matmul, nests, reused, row_sum, some, transposed, two_stages, update,
                                window)
from primitive_table import loop, table_tests
from schedule_programs import halves


@T.prim_func
def pointed(x: T.Buffer((8, 8), "float32", strides=(16, 1)), y: T.Buffer((8, 8), "float32", strides=(8, 1)),
            z: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            T.reads(x[vi, 0:8], y[vi, 0:8])
            T.writes(z[vi])
            T.evaluate(T.call_extern("int32", "f", T.address_of(x[vi, 0]), y.data, z.data))


@T.prim_func
def begun(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(5):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]


@T.prim_func
def by_rows(A: T.Buffer((24,), "float32"), C: T.Buffer((24,), "float32"), D: T.Buffer((24,), "float32")):
    B = T.alloc_buffer((24,), "float32")
    for i in range(4):
        for j in range(6):
            with T.block("B"):
                vi = T.axis.spatial(24, i * 6 + j)
                B[vi] = A[vi] * T.float32(2)
        for j in range(6):
            with T.block("C"):
                vi = T.axis.spatial(24, i * 6 + j)
                C[vi] = B[vi] + T.float32(1)
    for i in range(24):
        with T.block("D"):
            vi = T.axis.spatial(24, i)
            D[vi] = B[23 - vi]


@T.prim_func
def partly(A: T.Buffer((24,), "float32"), B: T.Buffer((30,), "float32"), C: T.Buffer((24,), "float32"),
           D: T.Buffer((30,), "float32")):
    for i in range(4):
        for j in range(6):
            with T.block("B"):
                vi = T.axis.spatial(30, i * 6 + j)
                B[vi] = A[vi] * T.float32(2)
        for j in range(6):
            with T.block("C"):
                vi = T.axis.spatial(24, i * 6 + j)
                C[vi] = B[vi] + T.float32(1)
    for i in range(30):
        with T.block("D"):
            vi = T.axis.spatial(30, i)
            D[vi] = B[29 - vi]


@T.prim_func
def replaced(A: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")):
    B = T.alloc_buffer((7,), "float32")
    for i in range(7):
        with T.block("B"):
            vi = T.axis.spatial(7, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, i)
            C[vi] = A[vi]
    for i in range(7):
        with T.block("A"):
            vi = T.axis.spatial(7, i)
            A[vi] = B[6 - vi]


quarters = nests("A[4, 4], B[30]", "i 4, j 4: B[i * 7 + j] = A[i, j]")


@T.prim_func
def resized(A: T.Buffer((6, 5), "float32"), B: T.Buffer((3, 11, 10), "float32")):
    for c, i, j in T.grid(3, 11, 10):
        with T.block("B"):
            vc, vi, vj = T.axis.remap("SSS", [c, i, j])
            B[vc, vi, vj] = A[(vi + vj) // 4, vj // 2] * T.cast(vj // 2, "float32") + A[vj // 2 + 1, 0]


@T.prim_func
def named(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
    x = T.int32()
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = T.Let(A[x + vi // 2], where={x: T.cast(A[vi], "int32") * 0 + 1})


@T.prim_func
def picked(A: T.Buffer((6, 5), "float32"), B: T.Buffer((3,), "float32"), C: T.Buffer((3, 5), "float32")):
    for i, j in T.grid(3, 5):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[T.cast(B[vi], "int32") % 6, vj], B[vi])
            C[vi, vj] = A[T.cast(B[vi], "int32") % 6, vj]


one_group = nests("A[4, 3], C[4, 5]", "i 4, j 5, k 3: C[i, j] += A[i, j // 5 * 2 + k]")
inner_tile = nests("A[4, 6], C[4, 6]", "i 4, j 6: C[i, j] = A[i, j] * T.float32(2)")

halves_apart = nests("A[9], C[9], D[9]; B[9]", "i 9: B[i] = A[i] * T.float32(2)", "i 9: C[i] = A[i]",
                     "i 9: D[i] = B[8 - i]")
updated = nests("A[7], C[7], D[7]", "i 7: C[i] = A[i]", "i 7: A[i] = D[6 - i]")


@T.prim_func
def by_tiles(A: T.Buffer((24,), "float32"), C: T.Buffer((24,), "float32"), D: T.Buffer((24,), "float32")):
    B = T.alloc_buffer((24,), "float32")
    for i in range(4):
        with T.block("tile"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi * 6:vi * 6 + 6], B[vi * 6:vi * 6 + 6])
            T.writes(B[vi * 6:vi * 6 + 6], C[vi * 6:vi * 6 + 6])
            for j in range(6):
                with T.block("B"):
                    vj = T.axis.spatial(6, j)
                    B[vi * 6 + vj] = A[vi * 6 + vj] * T.float32(2)
            for j in range(6):
                with T.block("C"):
                    vj = T.axis.spatial(6, j)
                    C[vi * 6 + vj] = B[vi * 6 + 5 - vj] + T.float32(1)
    for i in range(24):
        with T.block("D"):
            vi = T.axis.spatial(24, i)
            D[vi] = B[23 - vi]


@T.prim_func
def goes_on(A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32")):
    for i in range(1):
        with T.block("tile"):
            T.reads(B[0:6])
            T.writes(A[0:6], B[0:6])
            for j in range(6):
                with T.block("C"):
                    vj = T.axis.spatial(6, j)
                    A[vj] = B[vj]
            for j in range(6):
                with T.block("B"):
                    vj = T.axis.spatial(6, j)
                    B[vj] = T.float32(2)


@T.prim_func
def in_turn(A: T.Buffer((5,), "float32"), B: T.Buffer((6,), "float32"), C: T.Buffer((5,), "float32")):
    for i in range(5):
        with T.block("C"):
            vi = T.axis.spatial(5, i)
            C[vi] = B[vi]
        with T.block("B"):
            vi = T.axis.spatial(5, i)
            B[vi + 1] = A[vi]


@T.prim_func
def tailed(B: T.Buffer((5, 9), "float32")):
    for i in range(5):
        with T.block("B"):
            vi = T.axis.spatial(5, i)
            T.reads(B[vi, 0:9])
            T.writes(B[vi, 4:9])
            for k in range(5):
                B[vi, k + 4] = B[vi, 4 - k] + T.float32(1)


LEGAL = {
    "cache_read inside a block": (
        inner_tile, lambda s: (s.blockize(loop(s, "C", 1)), s.cache_read("C", 0, "local")), """
        for i in range(4):
            with T.block("C_o"):
                vi_o = T.axis.spatial(4, i)
                vj_o = T.axis.spatial(1, 0)
                T.reads(A[vi_o, 0:6])
                T.writes(C[vi_o, 0:6])
                A_local = T.alloc_buffer((1, 6), "float32", scope="local")
                for ax0, ax1 in T.grid(1, 6):
                    with T.block("A_local"):
                        v0, v1 = T.axis.remap("SS", [ax0, ax1])
                        A_local[v0, v1] = A[vi_o + v0, v1]
                for j in range(6):
                    with T.block("C"):
                        vj_i = T.axis.spatial(6, j)
                        C[vi_o, vj_i] = A_local[0, vj_i] * T.float32(2)"""),
    "cache_write inside a block": (
        inner_tile, lambda s: (s.blockize(loop(s, "C", 1)), s.cache_write("C", 0, "local")), """
        for i in range(4):
            with T.block("C_o"):
                vi_o = T.axis.spatial(4, i)
                vj_o = T.axis.spatial(1, 0)
                T.reads(A[vi_o, 0:6])
                T.writes(C[vi_o, 0:6])
                C_local = T.alloc_buffer((1, 6), "float32", scope="local")
                for j in range(6):
                    with T.block("C"):
                        vj_i = T.axis.spatial(6, j)
                        C_local[0, vj_i] = A[vi_o, vj_i] * T.float32(2)
                for ax0, ax1 in T.grid(1, 6):
                    with T.block("C_local"):
                        v0, v1 = T.axis.remap("SS", [ax0, ax1])
                        C[vi_o + v0, v1] = C_local[v0, v1]"""),
    "cache_read of what chooses elements": (picked, lambda s: s.cache_read("C", "B", "local"), """
        B_local = T.alloc_buffer((3,), "float32", scope="local")
        for ax0 in range(3):
            with T.block("B_local"):
                v0 = T.axis.spatial(3, ax0)
                B_local[v0] = B[v0]
        for i, j in T.grid(3, 5):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[T.cast(B_local[vi], "int32") % 6, vj], B_local[vi])
                C[vi, vj] = A[T.cast(B_local[vi], "int32") % 6, vj]"""),
    "reindex by the iterators that choose": (one_group, lambda s: s.reindex("C", ("read", 0)), """
        A_reindex = T.alloc_buffer((4, 3), "float32")
        for ax0, ax1 in T.grid(4, 3):
            with T.block("A_reindex"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                A_reindex[v0, v1] = A[v0, v1]
        for i, j, k in T.grid(4, 5, 3):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A_reindex[vi, vk]"""),
    "cache_index beside a Let": (named, lambda s: s.cache_index("B", "global"), """
        x = T.int32()
        index_var_0 = T.alloc_buffer((4,), "int32")
        for ax0 in range(4):
            with T.block("index_0"):
                v0 = T.axis.spatial(4, ax0)
                index_var_0[v0] = v0 // 2
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                T.reads(A[0:8], index_var_0[vi])
                B[vi] = T.Let(A[x + index_var_0[vi]], where={x: T.cast(A[vi], "int32") * 0 + 1})"""),
    "cache_index": (
        resized, lambda s: s.cache_index("B", "global"), """
        index_var_0 = T.alloc_buffer((11, 10), "int32")
        index_var_1 = T.alloc_buffer((10,), "int32")
        index_var_2 = T.alloc_buffer((10,), "float32")
        index_var_3 = T.alloc_buffer((10,), "int32")
        for ax0, ax1 in T.grid(11, 10):
            with T.block("index_0"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                index_var_0[v0, v1] = (v0 + v1) // 4
        for ax0 in range(10):
            with T.block("index_1"):
                v0 = T.axis.spatial(10, ax0)
                index_var_1[v0] = v0 // 2 + 1
        for ax0 in range(10):
            with T.block("index_2"):
                v0 = T.axis.spatial(10, ax0)
                index_var_2[v0] = T.Cast("float32", v0 // 2)
        for ax0 in range(10):
            with T.block("index_3"):
                v0 = T.axis.spatial(10, ax0)
                index_var_3[v0] = v0 // 2
        for c, i, j in T.grid(3, 11, 10):
            with T.block("B"):
                vc, vi, vj = T.axis.remap("SSS", [c, i, j])
                T.reads(A[0:6, 0:5], index_var_0[vi, vj], index_var_3[vj], index_var_2[vj], index_var_1[vj])
                B[vc, vi, vj] = A[index_var_0[vi, vj], index_var_3[vj]] * index_var_2[vj] + A[index_var_1[vj], 0]"""),
    "cache_index of what is there three times": (
        resized, lambda s: s.cache_index("B", "global", 3), """
        index_var_0 = T.alloc_buffer((10,), "int32")
        for ax0 in range(10):
            with T.block("index_0"):
                v0 = T.axis.spatial(10, ax0)
                index_var_0[v0] = v0 // 2
        for c, i, j in T.grid(3, 11, 10):
            with T.block("B"):
                vc, vi, vj = T.axis.remap("SSS", [c, i, j])
                T.reads(A[0:6, 0:5], index_var_0[vj])
                B[vc, vi, vj] = A[(vi + vj) // 4, index_var_0[vj]] * T.cast(index_var_0[vj], "float32") + (
                    A[index_var_0[vj] + 1, 0])"""),
    "cache_read": (matmul, lambda s: s.cache_read("C", 0, "shared"), """
        A_shared = T.alloc_buffer((13, 9), "float32", scope="shared")
        for ax0, ax1 in T.grid(13, 9):
            with T.block("A_shared"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                A_shared[v0, v1] = A[v0, v1]
        for i, j, k in T.grid(13, 22, 9):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0.0)
                C[vi, vj] = C[vi, vj] + A_shared[vi, vk] * B[vk, vj]"""),
    "cache_read of what a block makes": (two_stages, lambda s: s.cache_read("C", "B", "global"), """
        B = T.alloc_buffer((5, 22), "float32")
        B_global = T.alloc_buffer((5, 22), "float32")
        nest B
        for ax0, ax1 in T.grid(5, 22):
            with T.block("B_global"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                B_global[v0, v1] = B[v0, v1]
        for i, j in T.grid(5, 22):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B_global[vi, vj] + T.float32(1.0)"""),
    "cache_read in the loops of its producer": (
        window, lambda s: (s.compute_at("B", s.split(loop(s, "C", 0), [None, 4])[0]),
                           s.cache_read("C", 0, "local")), """
        B = T.alloc_buffer((12,), "float32")
        B_local = T.alloc_buffer((12,), "float32", scope="local")
        for i_0 in range(3):
            for ax0 in range(6):
                with T.block("B"):
                    vi = T.axis.spatial(12, i_0 * 4 + ax0)
                    T.where(i_0 * 4 + ax0 < 12)
                    B[vi] = A[vi] * T.float32(2.0)
            for ax0 in range(6):
                with T.block("B_local"):
                    v0 = T.axis.spatial(12, i_0 * 4 + ax0)
                    T.where(i_0 * 4 + ax0 < 12)
                    B_local[v0] = B[v0]
            for i_1 in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(10, i_0 * 4 + i_1)
                    T.where(i_0 * 4 + i_1 < 10)
                    C[vi] = B_local[vi] + B_local[vi + 2]"""),
    "cache_read for readers in and behind the loops of its producer": (
        by_rows, lambda s: s.cache_read("C", 0, "global"), """
        B = T.alloc_buffer((24,), "float32")
        B_global = T.alloc_buffer((24,), "float32")
        for i in range(4):
            for j in range(6):
                block B
            for ax0 in range(6):
                with T.block("B_global"):
                    v0 = T.axis.spatial(24, i * 6 + ax0)
                    B_global[v0] = B[v0]
            for j in range(6):
                with T.block("C"):
                    vi = T.axis.spatial(24, i * 6 + j)
                    C[vi] = B_global[vi] + T.float32(1.0)
        for i in range(24):
            with T.block("D"):
                vi = T.axis.spatial(24, i)
                D[vi] = B_global[23 - vi]"""),
    "cache_read of what is overwritten afterwards": (replaced, lambda s: s.cache_read("B", 0, "local"), """
        B = T.alloc_buffer((7,), "float32")
        A_local = T.alloc_buffer((7,), "float32", scope="local")
        for ax0 in range(7):
            with T.block("A_local"):
                v0 = T.axis.spatial(7, ax0)
                A_local[v0] = A[v0]
        for i in range(7):
            with T.block("B"):
                vi = T.axis.spatial(7, i)
                B[vi] = A_local[vi] * T.float32(2.0)
        for i in range(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                C[vi] = A_local[vi]
        nest A"""),
    "cache_write with readers in and behind the loops": (by_rows, lambda s: s.cache_write("B", 0, "global"), """
        B = T.alloc_buffer((24,), "float32")
        B_global = T.alloc_buffer((24,), "float32")
        for i in range(4):
            for j in range(6):
                with T.block("B"):
                    vi = T.axis.spatial(24, i * 6 + j)
                    B_global[vi] = A[vi] * T.float32(2.0)
            for ax0 in range(6):
                with T.block("B_global"):
                    v0 = T.axis.spatial(24, i * 6 + ax0)
                    B[v0] = B_global[v0]
            for j in range(6):
                block C
        nest D"""),
    "cache_write": (row_sum, lambda s: s.cache_write("B", 0, "local"), """
        B_local = T.alloc_buffer((5,), "float32", scope="local")
        for i, k in T.grid(5, 9):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B_local[vi] = T.float32(0.0)
                B_local[vi] = B_local[vi] + A[vi, vk]
        for ax0 in range(5):
            with T.block("B_local"):
                v0 = T.axis.spatial(5, ax0)
                B[v0] = B_local[v0]"""),
    "cache_write with a consumer that reads the cache": (
        two_stages, lambda s: s.cache_write("B", 0, "local", consumer_blocks=["C"]), """
        B = T.alloc_buffer((5, 22), "float32")
        B_local = T.alloc_buffer((5, 22), "float32", scope="local")
        for i, j in T.grid(5, 22):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B_local[vi, vj] = A[vi, vj] * T.float32(2.0)
        for i, j in T.grid(5, 22):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B_local[vi, vj] + T.float32(1.0)
        for ax0, ax1 in T.grid(5, 22):
            with T.block("B_local"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                B[v0, v1] = B_local[v0, v1]"""),
    "cache_write of what is read behind another nest": (
        halves_apart, lambda s: s.cache_write("B", 0, "local"), """
        B = T.alloc_buffer((9,), "float32")
        B_local = T.alloc_buffer((9,), "float32", scope="local")
        for i in range(9):
            with T.block("B"):
                vi = T.axis.spatial(9, i)
                B_local[vi] = A[vi] * T.float32(2.0)
        nest C
        for ax0 in range(9):
            with T.block("B_local"):
                v0 = T.axis.spatial(9, ax0)
                B[v0] = B_local[v0]
        nest D"""),
    "cache_write of what is read before, too": (updated, lambda s: s.cache_write("A", 0, "local"), """
        A_local = T.alloc_buffer((7,), "float32", scope="local")
        nest C
        for i in range(7):
            with T.block("A"):
                vi = T.axis.spatial(7, i)
                A_local[vi] = D[6 - vi]
        for ax0 in range(7):
            with T.block("A_local"):
                v0 = T.axis.spatial(7, ax0)
                A[v0] = A_local[v0]"""),
    "cache_write of a block that goes on from what it wrote": (by_tiles, lambda s: s.cache_write("tile", 0, "global"), """
        B = T.alloc_buffer((24,), "float32")
        B_global = T.alloc_buffer((24,), "float32")
        for i in range(4):
            with T.block("tile"):
                vi = T.axis.spatial(4, i)
                T.reads(A[vi * 6:vi * 6 + 6], B_global[vi * 6:vi * 6 + 6])
                T.writes(B_global[vi * 6:vi * 6 + 6], C[vi * 6:vi * 6 + 6])
                for j in range(6):
                    with T.block("B"):
                        vj = T.axis.spatial(6, j)
                        B_global[vi * 6 + vj] = A[vi * 6 + vj] * T.float32(2.0)
                for j in range(6):
                    with T.block("C"):
                        vj = T.axis.spatial(6, j)
                        C[vi * 6 + vj] = B_global[vi * 6 + 5 - vj] + T.float32(1.0)
        for ax0 in range(24):
            with T.block("B_global"):
                v0 = T.axis.spatial(24, ax0)
                B[v0] = B_global[v0]
        nest D"""),
    "cache_read of an input, in front of all": (halves_apart, lambda s: s.cache_read("C", "A", "local", ["C"]), """
        B = T.alloc_buffer((9,), "float32")
        A_local = T.alloc_buffer((9,), "float32", scope="local")
        for ax0 in range(9):
            with T.block("A_local"):
                v0 = T.axis.spatial(9, ax0)
                A_local[v0] = A[v0]
        nest B
        for i in range(9):
            with T.block("C"):
                vi = T.axis.spatial(9, i)
                C[vi] = A_local[vi]
        nest D"""),
    "cache_inplace": (update, lambda s: s.cache_inplace("B", 0, "local"), """
        B_local = T.alloc_buffer((11,), "float32", scope="local")
        for i in range(11):
            for ax0 in range(1):
                with T.block("B_local"):
                    v0 = T.axis.spatial(11, i + ax0)
                    B_local[v0] = B[v0]
            with T.block("B"):
                vi = T.axis.spatial(11, i)
                B_local[vi] = B_local[vi] + A[vi]
            for ax0 in range(1):
                with T.block("B_local_back"):
                    v0 = T.axis.spatial(11, i + ax0)
                    B[v0] = B_local[v0]"""),
    "cache_inplace of a part of a row": (tailed, lambda s: s.cache_inplace("B", 0, "local"), """
        B_local = T.alloc_buffer((5, 9), "float32", scope="local")
        for i in range(5):
            for ax0, ax1 in T.grid(1, 9):
                with T.block("B_local"):
                    v0 = T.axis.spatial(5, i + ax0)
                    v1 = T.axis.spatial(9, ax1)
                    B_local[v0, v1] = B[v0, v1]
            with T.block("B"):
                vi = T.axis.spatial(5, i)
                T.reads(B_local[vi, 0:9])
                T.writes(B_local[vi, 4:9])
                for k in range(5):
                    B_local[vi, k + 4] = B_local[vi, 4 - k] + T.float32(1)
            for ax0, ax1 in T.grid(1, 5):
                with T.block("B_local_back"):
                    v0 = T.axis.spatial(5, i + ax0)
                    v1 = T.axis.spatial(9, 4 + ax1)
                    B[v0, v1] = B_local[v0, v1]"""),
    "reindex of what a block reads": (transposed, lambda s: s.reindex("C", ("read", 0)), """
        A_reindex = T.alloc_buffer((5, 7), "float32")
        for ax0, ax1 in T.grid(5, 7):
            with T.block("A_reindex"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                A_reindex[v0, v1] = A[v1, v0]
        for i, j in T.grid(5, 7):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A_reindex[vi, vj] * T.float32(2.0)"""),
    "reindex of what a block writes": (row_sum, lambda s: s.reindex("B", ("write", 0)), """
        B_reindex = T.alloc_buffer((5,), "float32")
        for i, k in T.grid(5, 9):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B_reindex[vi] = T.float32(0.0)
                B_reindex[vi] = B_reindex[vi] + A[vi, vk]
        for ax0 in range(5):
            with T.block("B_reindex"):
                v0 = T.axis.spatial(5, ax0)
                B[v0] = B_reindex[v0]"""),
    "set_scope": (two_stages, lambda s: s.set_scope("B", 0, "shared"), """
        B_shared = T.alloc_buffer((5, 22), "float32", scope="shared")
        for i, j in T.grid(5, 22):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B_shared[vi, vj] = A[vi, vj] * T.float32(2.0)
        for i, j in T.grid(5, 22):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B_shared[vi, vj] + T.float32(1.0)"""),
}

REFUSED = [
    (pointed, lambda s: s.cache_read("A", 0, "local"), "block A uses a pointer into x, which has strides or an offset"),
    (resized, lambda s: s.cache_index("B", "global", 4),
     "cache_index: argument 'cse_thresh': block B has no arithmetic of its iterators 4 times"),
    (row_sum, lambda s: s.cache_index("B", "nowhere"), "'nowhere' is no kind of memory"),
    (two_stages, lambda s: s.cache_read("C", 1, "local"),
     "cache_read: argument 'read_buffer_index': 1 is not a position among the reads of block C; it has 1: B"),
    (two_stages, lambda s: s.cache_read("C", "Z", "local"), "block C has no buffer 'Z' among its reads; it has B"),
    (two_stages, lambda s: s.cache_read("C", 0, "attic"),
     "argument 'storage_scope': 'attic' is no kind of memory; known: global, shared"),
    (two_stages, lambda s: s.cache_read("C", 0, "local", consumer_blocks=["B"]),
     "argument 'consumer_blocks': block B does not read B, or also writes it; a consumer must only read it"),
    (partly, lambda s: s.cache_read("C", 0, "local"),
     "block D may read elements of B that no turn of loop i copies; name consumer_blocks in the loops of its producer"),
    (reused, lambda s: s.cache_read("C", 0, "local"),
     "block D writes S at or after a consumer; a copy would not follow the change"),
    (matmul, lambda s: (s.decompose_reduction("C", loop(s, "C", 2)), s.cache_write("C_update", 0, "local")),
     "cache_write: argument 'block': block C_update is neither a complete block nor a reduction block: "
     "its iterator vk is of type"),
    (some, lambda s: s.cache_write("C", 0, "local"),
     "block C is not proved to write every element of a box of C; the copy would"),
    (quarters, lambda s: s.cache_write("B", 0, "local"),
     "block B is not proved to write every element of a box of B; the copy would overwrite elements that the block"),
    (two_stages, lambda s: s.cache_write("B", 0, "local", consumer_blocks=["B"]),
     "argument 'consumer_blocks': block B does not read what block B writes of B; name readers of the buffer"),
    (begun, lambda s: s.cache_write("B", 0, "local", consumer_blocks=["C"]),
     "block C may read elements of B that block B does not write; let it read the copy"),
    (goes_on, lambda s: s.cache_write("tile", "B", "local"), "it reads B, which it also writes; only blocks whose result"),
    (in_turn, lambda s: s.cache_write("B", 0, "local"),
     "block B_local writes B after block C, which reads it; choose a place after its producers"),
    (two_stages, lambda s: s.cache_inplace("C", 0, "local"),
     "cache_inplace: argument 'read_buffer_index': block C does not write B; use cache_read"),
    (two_stages, lambda s: s.reindex("C", "Z"),
     "reindex: argument 'buffer': block C has no buffer 'Z' among its reads"),
    (window, lambda s: s.reindex("C", ("read", 0)),
     "reindex: argument 'buffer': block C does not use B at one index; only one element per instance can be copied"),
    (bordered, lambda s: s.reindex("P", ("read", 0)),
     "block P reads A[vi - 2], which may lie outside; only indices that are always valid can be read ahead"),
    (two_stages, lambda s: (s.blockize(loop(s, "B", 1)), s.reindex("B", ("read", 0))),
     "argument 'block': block B runs over a part of its domain inside block B_o; reindex first, then blockize"),
    (two_stages, lambda s: (s.blockize(loop(s, "B", 1)), s.reindex("B_o", ("read", 0))),
     "block B_o holds other blocks, matched buffers or pointers"),
    (two_stages, lambda s: (s.compute_at("B", loop(s, "C", 0)), s.reindex("C", ("read", 0))),
     "block B, which writes B, does not stand before the loops of block C; reindex first, then compute_at"),
    (two_stages, lambda s: (s.compute_at("B", loop(s, "C", 0)), s.reindex("B", ("write", 0))),
     "block C reads it within the same loops; reindex first, then compute_at"),
    (halves(), lambda s: s.reindex("B", ("write", 0)),
     "block B is neither a complete block nor a reduction block: block Odd also writes B; "
     "only blocks whose result depends on their"),
    (quarters, lambda s: s.reindex("B", ("write", 0)),
     "the instances of block B are not proved to write different elements: "),
    (begun, lambda s: s.reindex("B", ("write", 0)),
     "argument 'buffer': block B is not proved to run over its whole domain, and more of B would be written"),
    (two_stages, lambda s: s.set_scope("C", 0, "local"),
     "set_scope: argument 'buffer_index': buffer C is a parameter, whose memory is the caller's; use cache_write"),
    (two_stages, lambda s: (s.blockize(loop(s, "B", 1)), s.set_scope("B", 0, "local")),
     "buffer B is not allocated directly around the block; set its scope from a block inside root"),
]

test_legal, test_refused = table_tests(LEGAL, REFUSED)


@T.prim_func
def called(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(1):
        with T.block("fill"):
            T.reads(A[0:8])
            T.writes(B[0:8])
            T.evaluate(T.call_extern("int32", "fill", B.data, A.data))
    for i in range(1):
        with T.block("change"):
            T.reads(B[0:8])
            T.writes(B[0:8])
            T.evaluate(T.call_extern("int32", "change", B.data))
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]


@pytest.mark.parametrize("step, call", [
    (lambda s: s.cache_read("fill", 0, "local"), '"fill", B.data, A_local.data'),
    (lambda s: s.set_scope("fill", 0, "shared"), '"change", B_shared.data'),
    (lambda s: s.cache_inplace("change", 0, "local"), '"change", B_local.data'),
])
def test_pointers_move_with_their_buffer(step, call):
    """A call that writes through a pointer writes the new memory, not the old one."""
    sch = Schedule(called)
    step(sch)
    assert call in sch.func.script()



def test_a_pointer_writes_the_cache():
    """The only writer of a buffer is a call."""
    lines = called.script().splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if 'T.block("change")' in line) - 1
    sch = Schedule(from_source("".join(lines[:first] + lines[first + 4:])))
    sch.cache_write("fill", 0, "local")
    assert '"fill", B_local.data, A.data' in sch.func.script() and "B[v0] = B_local[v0]" in sch.func.script()


def test_pointers_stay_in_the_layout_that_they_count_by():
    """What a pointer leads to is not where it was in a compact copy, unless the buffer is compact."""
    sch = Schedule(pointed)
    sch.cache_read("A", 1, "local")
    assert [r.buffer.name for r in sch.get(sch.get_block("A")).reads] == ["x", "y_local"]


def test_a_copy_inside_a_block_is_of_what_is_read_there():
    """So that the blocks around it, in parts of loops, read no more than they say."""
    func = nests("A[9], B[4, 9]", "i 4, j 9: B[i, j] = A[j] + A[i]")
    sch = Schedule(func)
    sch.loop_partition(sch.get_loops("B")[1], [2, None])
    sch.cache_read("B_j0", 0, "local")
    assert not complete_signatures(sch.func)[1]
    around = sch.get(sch.get_block("B_j_common"))
    assert script(around.reads[0]) == "A[0:9]"
    sch = Schedule(nests("A[9, 4], B[4, 9]", "i 4, j 9: B[i, j] = A[j, i]"))
    sch.loop_partition(sch.get_loops("B")[1], [2, None])
    copied = sch.cache_read("B_j0", 0, "local")
    assert [int(sch.get(s).extent) for s in sch.get_loops(copied)] == [2, 1]
    assert not complete_signatures(sch.func)[1]


def test_strides_are_one_for_each_dimension():
    with pytest.raises(ValueError, match="buffer a has 1 strides for 2 dimensions"):
        decl_buffer((4, 4), name="a", strides=(1,))
