"""decompose_reduction and rfactor: structure and numbers of each, and every refusal."""

from ingot.script import tir as T
from primitive_programs import matmul, matmul_relu, row_sum, tied
from primitive_table import loop, tile, table_tests
from schedule_programs import repeated_sum


@T.prim_func
def started(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32")):
    S = T.alloc_buffer((5,), "float32")
    for i in range(5):
        with T.block("S"):
            vi = T.axis.spatial(5, i)
            S[vi] = A[vi, 0]
        for k in range(9):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = S[vi]
                B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def difference(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 9):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] - A[vi, vk]


@T.prim_func
def sometimes(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 9):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            if A[vi, vk] > 0.5:
                B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def prefix(A: T.Buffer((9,), "float32"), B: T.Buffer((9,), "float32")):
    for i in range(9):
        for k in range(i + 1):
            with T.block("B"):
                vi = T.axis.spatial(9, i)
                vk = T.axis.reduce(9, k)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vk]


@T.prim_func
def ticking(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 9):
        T.evaluate(T.call_extern("int32", "tick"))
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def at_once(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32")):
    for i in range(5):
        for k in T.vectorized(9):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def with_notes(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32"), N: T.Buffer((5, 3), "float32")):
    for i, k in T.grid(5, 3):
        with T.block("N"):
            vi, vk = T.axis.remap("SS", [i, k])
            N[vi, vk] = A[vi, vk]
        for j in range(3):
            with T.block("B"):
                vi = T.axis.spatial(5, i)
                vk = T.axis.reduce(9, k * 3 + j)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def partly_written(A: T.Buffer((5, 9), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,), "float32")
    for i, k in T.grid(5, 9):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi]


@T.prim_func
def init_by_let(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 9):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                zero: T.float32 = T.float32(0)
                B[vi] = zero
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def two_sums(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32"), C: T.Buffer((6,), "float32")):
    for i, k in T.grid(5, 9):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
                C[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
            C[vi] = C[vi] + A[vi, vk] * A[vi, vk]


@T.prim_func
def two_kept_sums(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32"), C: T.Buffer((6,), "float32")):
    for i, k in T.grid(5, 9):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
                C[vi] = T.float32(0)
            b: T.float32 = B[vi] + A[vi, vk]
            c: T.float32 = C[vi] + A[vi, vk] * A[vi, vk]
            B[vi] = b
            C[vi] = c


@T.prim_func
def factor_kept(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 9):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            a: T.float32 = A[vi, vk]
            b: T.float32 = B[vi] + a
            B[vi] = b


LEGAL = {
    "decompose_reduction at the reduction": (matmul, lambda s: s.decompose_reduction("C", loop(s, "C", 2)), """
        for i, j in T.grid(13, 22):
            with T.block("C_init"):
                vi_init, vj_init = T.axis.remap("SS", [i, j])
                C[vi_init, vj_init] = T.float32(0.0)
            for k in range(9):
                with T.block("C_update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"""),
    "decompose_reduction above it, loops split unevenly": (
        matmul, lambda s: (tile(s, "C", (13, 8, 4)), s.decompose_reduction("C", loop(s, "C", 2))), """
        for i_0, j_0 in T.grid(1, 3):
            for i_1_init, j_1_init in T.grid(13, 8):
                with T.block("C_init"):
                    vi_init = T.axis.spatial(13, i_0 * 13 + i_1_init)
                    vj_init = T.axis.spatial(22, j_0 * 8 + j_1_init)
                    T.where(j_0 * 8 + j_1_init < 22)
                    C[vi_init, vj_init] = T.float32(0.0)
            for k_0, i_1, j_1, k_1 in T.grid(3, 13, 8, 4):
                with T.block("C_update"):
                    vi = T.axis.spatial(13, i_0 * 13 + i_1)
                    vj = T.axis.spatial(22, j_0 * 8 + j_1)
                    vk = T.axis.reduce(9, k_0 * 4 + k_1)
                    T.where(j_0 * 8 + j_1 < 22 and k_0 * 4 + k_1 < 9)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"""),
    "decompose_reduction where a condition ties the lanes to the reduction, but holds in its first turn": (
        row_sum, lambda s: (s.rfactor(s.split(loop(s, "B", 1), [None, 4])[1]),
                            s.decompose_reduction("B_rf", loop(s, "B_rf", 1))), """
        B_rf = T.alloc_buffer((4, 5), "float32")
        for i in range(5):
            for k_1_init in range(4):
                with T.block("B_rf_init"):
                    vk_1_init, vi_init = T.axis.remap("SS", [k_1_init, i])
                    B_rf[vk_1_init, vi_init] = T.float32(0.0)
            for k_0, k_1 in T.grid(3, 4):
                with T.block("B_rf_update"):
                    vk_1, vi, vk_0 = T.axis.remap("SSR", [k_1, i, k_0])
                    T.where(k_0 * 4 + k_1 < 9)
                    B_rf[vk_1, vi] = B_rf[vk_1, vi] + A[vi, vk_0 * 4 + vk_1]
        for i, k_1 in T.grid(5, 4):
            with T.block("B"):
                vk_1, vi = T.axis.remap("RS", [k_1, i])
                with T.init():
                    B[vi] = T.float32(0.0)
                B[vi] = B[vi] + B_rf[vk_1, vi]"""),
    "rfactor of the inner part": (row_sum, lambda s: s.rfactor(s.split(loop(s, "B", 1), [None, 4])[1]), """
        B_rf = T.alloc_buffer((4, 5), "float32")
        for i, k_0, k_1 in T.grid(5, 3, 4):
            with T.block("B_rf"):
                vk_1, vi, vk_0 = T.axis.remap("SSR", [k_1, i, k_0])
                T.where(k_0 * 4 + k_1 < 9)
                with T.init():
                    B_rf[vk_1, vi] = T.float32(0.0)
                B_rf[vk_1, vi] = B_rf[vk_1, vi] + A[vi, vk_0 * 4 + vk_1]
        for i, k_1 in T.grid(5, 4):
            with T.block("B"):
                vk_1, vi = T.axis.remap("RS", [k_1, i])
                with T.init():
                    B[vi] = T.float32(0.0)
                B[vi] = B[vi] + B_rf[vk_1, vi]"""),
    "rfactor of the outer part, along the last dimension": (
        row_sum, lambda s: s.rfactor(s.split(loop(s, "B", 1), [None, 4])[0], factor_axis=-1), """
        B_rf = T.alloc_buffer((5, 3), "float32")
        for i, k_0, k_1 in T.grid(5, 3, 4):
            with T.block("B_rf"):
                vk_0, vi, vk_1 = T.axis.remap("SSR", [k_0, i, k_1])
                T.where(k_0 * 4 + k_1 < 9)
                with T.init():
                    B_rf[vi, vk_0] = T.float32(0.0)
                B_rf[vi, vk_0] = B_rf[vi, vk_0] + A[vi, vk_0 * 4 + vk_1]
        for i, k_0 in T.grid(5, 3):
            with T.block("B"):
                vk_0, vi = T.axis.remap("RS", [k_0, i])
                with T.init():
                    B[vi] = T.float32(0.0)
                B[vi] = B[vi] + B_rf[vi, vk_0]"""),
    "rfactor of the whole reduction": (row_sum, lambda s: s.rfactor(loop(s, "B", 1), factor_axis=1), """
        B_rf = T.alloc_buffer((5, 9), "float32")
        for i, k in T.grid(5, 9):
            with T.block("B_rf"):
                vk, vi = T.axis.remap("SS", [k, i])
                B_rf[vi, vk] = A[vi, vk]
        for i, k in T.grid(5, 9):
            with T.block("B"):
                vk, vi = T.axis.remap("RS", [k, i])
                with T.init():
                    B[vi] = T.float32(0.0)
                B[vi] = B[vi] + B_rf[vi, vk]"""),
    "rfactor of a loop of one turn": (
        row_sum, lambda s: (s.annotate("B", "note", 1), s.rfactor(s.split(loop(s, "B", 1), [None, 1])[1])), """
        B_rf = T.alloc_buffer((1, 5), "float32")
        for i, k_0, k_1 in T.grid(5, 9, 1):
            with T.block("B_rf"):
                vk_1 = T.axis.spatial(1, k_1)
                vi = T.axis.spatial(5, i)
                vk_0 = T.axis.reduce(9, k_0)
                T.block_attr({"note": 1})
                with T.init():
                    B_rf[vk_1, vi] = T.float32(0.0)
                B_rf[vk_1, vi] = B_rf[vk_1, vi] + A[vi, vk_0 + vk_1]
        for i, k_1 in T.grid(5, 1):
            with T.block("B"):
                vk_1, vi = T.axis.remap("RS", [k_1, i])
                T.block_attr({"note": 1})
                with T.init():
                    B[vi] = T.float32(0.0)
                B[vi] = B[vi] + B_rf[vk_1, vi]"""),
}

REFUSED = [
    (matmul_relu, lambda s: s.decompose_reduction("D", loop(s, "D", 0)),
     "decompose_reduction: argument 'block': block D is no reduction block: it has no init statement"),
    (matmul_relu, lambda s: s.decompose_reduction("C", loop(s, "D", 0)), "loop i is not around block C; choose one of"),
    (matmul, lambda s: (s.reorder(loop(s, "C", 2), loop(s, "C", 0)), s.decompose_reduction("C", loop(s, "C", 1))),
     "loop k, which runs the reduction over vk, is outside loop j; choose that loop or one outside it"),
    (repeated_sum(), lambda s: s.decompose_reduction("S", loop(s, "S", 0)),
     "several of its turns may run one instance"),
    (tied, lambda s: s.decompose_reduction("B", loop(s, "B", 1)),
     "the condition 2 <= i + k of block B ties a loop of the reduction to a spatial loop; split the loops so that"),
    (started, lambda s: s.decompose_reduction("B", loop(s, "B", 0)),
     "block B must stay after block S: one writes what the other touches; choose a place that keeps their order"),
    (matmul_relu, lambda s: s.rfactor(loop(s, "D", 0)),
     "rfactor: argument 'loop': block D is no reduction block: it has"),
    (matmul_relu, lambda s: (s.reverse_compute_at("D", loop(s, "C", 1)), s.rfactor(loop(s, "C", 0))),
     "loop i holds 2 blocks; one reduction block is needed"),
    (sometimes, lambda s: s.rfactor(loop(s, "B", 1)),
     "the terms of block B cannot be regrouped: its init and its body are not one store each of the same buffers"),
    (partly_written, lambda s: s.rfactor(loop(s, "B", 1)),
     "block root is no stage pipeline: block C may read elements of B that no block has written; write all of them"),
    (init_by_let, lambda s: s.rfactor(loop(s, "B", 1)),
     "its init keeps zero in a variable; store the value itself"),
    (two_sums, lambda s: s.rfactor(loop(s, "B", 1)),
     "its value of B is no variable of its own; keep each in one before the stores"),
    (two_kept_sums, lambda s: s.rfactor(loop(s, "B", 1)),
     "B and C are of different shapes; give the results buffers of one shape"),
    (factor_kept, lambda s: s.rfactor(loop(s, "B", 1)),
     "variable a is no result of it; put its value in where it is used"),
    (started, lambda s: s.rfactor(loop(s, "B", 1)),
     "its init S[vi] is not the neutral element T.float32(0.0) of its operation"),
    (difference, lambda s: s.rfactor(loop(s, "B", 1)),
     "it combines by Sub, which is not one of sum, product, min and max, or a choice"),
    (matmul, lambda s: s.rfactor(loop(s, "C", 0)),
     "loop i does not run reduce iterators of block C alone; choose a loop of the reduction"),
    (prefix, lambda s: s.rfactor(loop(s, "B", 1)), "the range of loop k depends on another loop"),
    (ticking, lambda s: s.rfactor(loop(s, "B", 1)),
     "between loop k and block B are other statements; choose an inner loop"),
    (at_once, lambda s: s.rfactor(loop(s, "B", 1)), "loop k is vectorized; factor it first, then run it at once"),
    (with_notes, lambda s: s.rfactor(loop(s, "B", 2)),
     "loop k, which runs the reduction, holds other statements too; the whole reduction must be one nest"),
    (matmul, lambda s: s.rfactor(loop(s, "C", 2), 3),
     "argument 'factor_axis': 3 is not between -3 and 2; buffer C has 2 dimensions, the new one 3"),
    (matmul, lambda s: s.rfactor(s.split(loop(s, "C", 2), [None, 12])[1]),
     "some turns of loop k_1 may have no term, because block C runs only where k_0 * 12 + k_1 < 9; choose factors"),
]

test_legal, test_refused = table_tests(LEGAL, REFUSED)
