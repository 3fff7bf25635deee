"""compute_at, reverse_compute_at, compute_inline, reverse_compute_inline: structure, numbers and every refusal."""

from ingot.script import tir as T
from primitive_programs import (alias, before, branch, matmul_relu, nests, reused, scratch, some, two_stages, wedge,
                                window)
from primitive_table import loop, table_tests
from schedule_programs import guarded, softmax


three = nests("A[7], C[7], D[7]; B[7]", "i 7: B[i] = A[i] * T.float32(2)", "i 7: C[i] = B[i] + T.float32(1)",
              "i 7: D[i] = B[i] - T.float32(1)")
chained = nests("A[7], D[7]; B[7], C[7]", "i 7: B[i] = A[i] * T.float32(2)", "i 7: C[i] = B[i] + T.float32(1)",
                "i 7: D[i] = B[i] - C[i]")
shifted = nests("A[8], C[7]; B[8]", "i 8: B[i] = A[i] * T.float32(2)", "i 7: C[i] = B[i + 1] + T.float32(1)")
four = nests("A[7], D[7]; B[7], C[7]", "i 7: B[i] = A[i] * T.float32(2)", "i 7: C[i] = A[i] + T.float32(1)",
             "i 7: D[i] = B[i] - C[i]")
part = nests("A[3, 4], C[10]; B[3, 4]", "i 3, j 4: B[i, j] = A[i, j] * T.float32(2)",
             "i 10: C[i] = B[i // 4, i % 4] + T.float32(1)")
unread = nests("A[7], C[7]; B[7]", "i 7: B[i] = A[i] * T.float32(2)", "i 7: C[i] = A[i]")


@T.prim_func
def tiles(A: T.Buffer((20,), "float32"), C: T.Buffer((20,), "float32")):
    B = T.alloc_buffer((20,), "float32")
    for i in range(5):
        with T.block("B_o"):
            v = T.axis.spatial(5, i)
            for j in range(4):
                with T.block("B"):
                    vj = T.axis.spatial(20, v * 4 + j)
                    B[vj] = A[vj] * T.float32(2)
    for i in range(20):
        with T.block("C"):
            vi = T.axis.spatial(20, i)
            C[vi] = B[vi]


@T.prim_func
def addressed(A: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")):
    B = T.alloc_buffer((7,), "float32")
    for i in range(7):
        with T.block("B"):
            vi = T.axis.spatial(7, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, i)
            C[vi] = T.call_extern("float32", "look", B.access_ptr("r", extent=7))


@T.prim_func
def ticking(A: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")):
    B = T.alloc_buffer((7,), "float32")
    for i in range(7):
        with T.block("B"):
            vi = T.axis.spatial(7, i)
            B[vi] = T.call_extern("float32", "tick", A[vi])
    for i in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, i)
            C[vi] = B[vi] + B[6 - vi]


@T.prim_func
def conditioned(A: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")):
    B = T.alloc_buffer((7,), "float32")
    for i in range(7):
        with T.block("B"):
            vi = T.axis.spatial(7, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, i)
            T.where(B[i] < T.float32(1))
            C[vi] = B[vi]


regrouped = nests("A[4, 6], C[2, 3, 4]; B[4, 6]", "i 4, j 6: B[i, j] = A[i, j] * T.float32(2)",
                  "i 2, j 3, k 4: C[i, j, k] = B[(i * 12 + j * 4 + k) // 6, (i * 12 + j * 4 + k) % 6]")
split_rows = nests("A[8, 3], C[2, 4, 3]; B[2, 4, 3]", "i 8, j 3: B[i // 4, i % 4, j] = A[i, j] * T.float32(2)",
                   "i 2, j 4, k 3: C[i, j, k] = B[i, j, k] + T.float32(1)")
one_row = nests("A[1, 7], C[1, 7]; B[1, 7]", "i 1, j 7: B[i, j] = A[i, j] * T.float32(2)",
                "i 1, j 7: C[i, j] = B[i, j] + T.float32(1)")


@T.prim_func
def pair(A: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32"), D: T.Buffer((7,), "float32")):
    B = T.alloc_buffer((7,), "float32")
    for i in range(7):
        with T.block("B"):
            vi = T.axis.spatial(7, i)
            B[vi] = A[vi] * T.float32(2)
            D[vi] = A[vi]
    for i in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, i)
            C[vi] = B[vi]


outputs = nests("A[7], B[7], C[7]", "i 7: B[i] = A[i] * T.float32(2)", "i 7: C[i] = B[i]")
spread = nests("A[5], C[5, 7]; B[5]", "i 5: B[i] = A[i] * T.float32(2)", "i 5, j 7: C[i, j] = B[i]")
strided = nests("A[5], C[5]; B[10]", "i 5: B[i * 2] = A[i] * T.float32(2)", "i 5: C[i] = B[i * 2]")


@T.prim_func
def crossed(A: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32"), E: T.Buffer((7,), "float32")):
    S = T.alloc_buffer((7,), "float32")
    for i in range(7):
        with T.block("E"):
            vi = T.axis.spatial(7, i)
            E[vi] = C[vi]
        with T.block("S"):
            vi = T.axis.spatial(7, i)
            S[vi] = A[vi]
    for i in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, i)
            C[vi] = S[vi]


@T.prim_func
def partly(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(5):
        with T.block("C"):
            vi = T.axis.spatial(8, i + 2)
            C[vi] = B[vi]


mirrored = nests("A[7, 5], C[5, 7]; B[7, 5]", "i 7, j 5: B[6 - i, 4 - j] = A[i, j] * T.float32(2)",
                 "i 5, j 7: C[i, j] = B[j, i] + T.float32(1)")
relaid = nests("A[3, 5, 8], C[6, 5, 4]; B[3, 5, 8]", "i 3, j 5, k 8: B[i, j, k] = A[i, j, k] * T.float32(2)",
               "i 6, j 5, k 4: C[i, j, k] = B[(i * 4 + k) // 8, j, (i * 4 + k) % 8] + T.float32(1)")
softened = nests("A[5, 8], C[5]; B[5, 8]", "i 5, k 8: B[i, k] = A[i, k] * T.float32(2)", "i 5, k 8: C[i] += B[i, k]")
corner = nests("A[6, 8], C[1, 3]; B[6, 8]", "i 6, j 8: B[i, j] = A[i, j] * T.float32(2)",
               "i 1, j 3: C[i, j] = B[i, j] + T.float32(1)")
joined = nests("A[4], X[6], D[7]; B[4], C[10]", "i 4: B[i] = A[i] * T.float32(2)",
               "i 10: C[i] = T.if_then_else(6 <= i, B[i - 6], X[i])", "i 7: D[i] = C[i] + T.float32(1)")


@T.prim_func
def by_any(a: T.handle, c: T.handle):
    n = T.int32()
    A, C = T.match_buffer(a, (4, n)), T.match_buffer(c, (4, n))
    B = T.alloc_buffer((3, 4, n))
    for f, p in T.grid(n * 4, 3):
        with T.block("B"):
            vp, vi, vj = T.axis.spatial(3, p), T.axis.spatial(4, f // n), T.axis.spatial(n, f % n)
            B[vp, vi, vj] = A[vi, vj] * T.cast(vp, "float32")
    for f, p in T.grid(n * 4, 3):
        with T.block("C"):
            vp, vi, vj = T.axis.reduce(3, p), T.axis.spatial(4, f // n), T.axis.spatial(n, f % n)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + B[vp, vi, vj]


diagonal = nests("A[3], C[3, 3]; B[3, 3]", "i 3: B[i, i] = A[i]", "i 3, j 3: C[i, j] = B[i, j]")

LEGAL = {
    "reverse_compute_at of a reduction by the threads that made its terms": (
        softened, lambda s: (s.bind(loop(s, "B", 1), "threadIdx.x"), s.reverse_compute_at("C", loop(s, "B", 1))), """
        B = T.alloc_buffer((5, 8), "float32")
        for i in range(5):
            for k in T.thread_binding(8, thread="threadIdx.x"):
                with T.block("B"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    B[vi, vk] = A[vi, vk] * T.float32(2)
                with T.block("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = T.float32(0)
                    C[vi] = C[vi] + B[vi, vk]"""),
    "compute_at of what is written from the end": (mirrored, lambda s: s.compute_at("B", loop(s, "C", 0)), """
        B = T.alloc_buffer((7, 5), "float32")
        for i in range(5):
            for ax0 in range(7):
                with T.block("B"):
                    vi = T.axis.spatial(7, ax0)
                    vj = T.axis.spatial(5, 4 - i)
                    B[6 - vi, 4 - vj] = A[vi, vj] * T.float32(2)
            for j in range(7):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vj, vi] + T.float32(1)"""),
    "compute_at of a part that a condition keeps inside": (
        joined, lambda s: (s.compute_at("C", s.split(loop(s, "D", 0), [1, 7])[0]), s.compute_at("B", loop(s, "D", 0))), """
        B = T.alloc_buffer((4,), "float32")
        C = T.alloc_buffer((10,), "float32")
        for i_0 in range(1):
            with T.block("B"):
                vi = T.axis.spatial(4, 0)
                B[vi] = A[vi] * T.float32(2)
            for ax0 in range(7):
                with T.block("C"):
                    vi = T.axis.spatial(10, ax0)
                    C[vi] = T.if_then_else(6 <= vi, B[vi - 6], X[vi])
            for i_1 in range(7):
                with T.block("D"):
                    vi = T.axis.spatial(7, i_0 * 7 + i_1)
                    D[vi] = C[vi] + T.float32(1)"""),
    "reverse_compute_at of another layout": (relaid, lambda s: s.reverse_compute_at("C", loop(s, "B", 0)), """
        B = T.alloc_buffer((3, 5, 8), "float32")
        for i in range(3):
            for j, k in T.grid(5, 8):
                block B
            for ax0, ax1, ax2 in T.grid(2, 5, 4):
                with T.block("C"):
                    vi = T.axis.spatial(6, i * 2 + ax0)
                    vj, vk = T.axis.remap("SS", [ax1, ax2])
                    C[vi, vj, vk] = B[(vi * 4 + vk) // 8, vj, (vi * 4 + vk) % 8] + T.float32(1)"""),
    "reverse_compute_at of what reads a corner": (
        corner, lambda s: (s.split(loop(s, "B", 1), [None, 4]), s.reverse_compute_at("C", loop(s, "B", 1), True)), """
        B = T.alloc_buffer((6, 8), "float32")
        for i, j_0 in T.grid(6, 2):
            for j_1 in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(6, i)
                    vj = T.axis.spatial(8, j_0 * 4 + j_1)
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for ax0, ax1 in T.grid(1, 4):
                with T.block("C"):
                    vi = T.axis.spatial(1, i + ax0)
                    vj = T.axis.spatial(3, j_0 * 4 + ax1)
                    T.where(i < 1 and j_0 * 4 + ax1 < 3)
                    C[vi, vj] = B[vi, vj] + T.float32(1)"""),
    "reverse_compute_at under a fused loop of an unknown extent": (
        by_any, lambda s: s.reverse_compute_at("C", loop(s, "B", 0)), """
        B = T.alloc_buffer((3, 4, n), "float32")
        for f in range(n * 4):
            for p in range(3):
                block B
            for ax0 in range(3):
                with T.block("C"):
                    vp = T.axis.reduce(3, ax0)
                    vi = T.axis.spatial(4, f // n)
                    vj = T.axis.spatial(n, f % n)
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + B[vp, vi, vj]"""),
    "compute_at covers the halo of a tile": (
        window, lambda s: s.compute_at("B", s.split(loop(s, "C", 0), [None, 4])[0]), """
        B = T.alloc_buffer((12,), "float32")
        for i_0 in range(3):
            for ax0 in range(6):
                with T.block("B"):
                    vi = T.axis.spatial(12, i_0 * 4 + ax0)
                    T.where(i_0 * 4 + ax0 < 12)
                    B[vi] = A[vi] * T.float32(2.0)
            for i_1 in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(10, i_0 * 4 + i_1)
                    T.where(i_0 * 4 + i_1 < 10)
                    C[vi] = B[vi] + B[vi + 2]"""),
    "compute_at keeps unit loops": (
        two_stages, lambda s: s.compute_at("B", loop(s, "C", 0), preserve_unit_loops=True), """
        B = T.alloc_buffer((5, 22), "float32")
        for i in range(5):
            for ax0, ax1 in T.grid(1, 22):
                with T.block("B"):
                    vi = T.axis.spatial(5, i + ax0)
                    vj = T.axis.spatial(22, ax1)
                    B[vi, vj] = A[vi, vj] * T.float32(2.0)
            for j in range(22):
                block C"""),
    "compute_at of a reduction": (matmul_relu, lambda s: s.compute_at("C", loop(s, "D", 1)), """
        C = T.alloc_buffer((13, 22), "float32")
        for i, j in T.grid(13, 22):
            for ax0 in range(9):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, ax0])
                    with T.init():
                        C[vi, vj] = T.float32(0.0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
            block D"""),
    "compute_at of tiles": (tiles, lambda s: s.compute_at("B_o", s.split(loop(s, "C", 0), [None, 8])[0]), """
        B = T.alloc_buffer((20,), "float32")
        for i_0 in range(3):
            for ax0 in range(2):
                with T.block("B_o"):
                    v = T.axis.spatial(5, i_0 * 2 + ax0)
                    T.where(i_0 * 2 + ax0 < 5)
                    T.reads(A[v * 4:v * 4 + 4])
                    T.writes(B[v * 4:v * 4 + 4])
                    for j in range(4):
                        with T.block("B"):
                            vj = T.axis.spatial(20, v * 4 + j)
                            B[vj] = A[vj] * T.float32(2)
            for i_1 in range(8):
                with T.block("C"):
                    vi = T.axis.spatial(20, i_0 * 8 + i_1)
                    T.where(i_0 * 8 + i_1 < 20)
                    C[vi] = B[vi]"""),
    "compute_at at a position": (
        four, lambda s: (s.compute_at("C", loop(s, "D", 0)), s.compute_at("B", loop(s, "D", 0), index=1)), """
        B = T.alloc_buffer((7,), "float32")
        C = T.alloc_buffer((7,), "float32")
        for i in range(7):
            block C
            block B
            block D"""),
    "reverse_compute_at": (matmul_relu, lambda s: s.reverse_compute_at("D", s.split(loop(s, "C", 0), [None, 4])[0]), """
        C = T.alloc_buffer((13, 22), "float32")
        for i_0 in range(4):
            for i_1, j, k in T.grid(4, 22, 9):
                with T.block("C"):
                    vi = T.axis.spatial(13, i_0 * 4 + i_1)
                    vj, vk = T.axis.remap("SR", [j, k])
                    T.where(i_0 * 4 + i_1 < 13)
                    with T.init():
                        C[vi, vj] = T.float32(0.0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
            for ax0, ax1 in T.grid(4, 22):
                with T.block("D"):
                    vi = T.axis.spatial(13, i_0 * 4 + ax0)
                    vj = T.axis.spatial(22, ax1)
                    T.where(i_0 * 4 + ax0 < 13)
                    D[vi, vj] = T.max(C[vi, vj], T.float32(0.0))"""),
    "reverse_compute_at at a position": (
        three, lambda s: (s.reverse_compute_at("C", loop(s, "B", 0)),
                          s.reverse_compute_at("D", loop(s, "B", 0), index=-2)), """
        B = T.alloc_buffer((7,), "float32")
        for i in range(7):
            block B
            block D
            block C"""),
    "reverse_compute_at behind two producers": (
        chained, lambda s: (s.reverse_compute_at("C", loop(s, "B", 0)), s.reverse_compute_at("D", loop(s, "B", 0))), """
        B = T.alloc_buffer((7,), "float32")
        C = T.alloc_buffer((7,), "float32")
        for i in range(7):
            block B
            block C
            block D"""),
    "reverse_compute_at of a shifted reader": (shifted, lambda s: s.reverse_compute_at("C", loop(s, "B", 0)), """
        B = T.alloc_buffer((8,), "float32")
        for i in range(8):
            block B
            with T.block("C"):
                vi = T.axis.spatial(7, i - 1)
                T.where(1 <= i)
                C[vi] = B[vi + 1] + T.float32(1.0)"""),
    "compute_inline": (window, lambda s: s.compute_inline("B"), """
        for i in range(10):
            with T.block("C"):
                vi = T.axis.spatial(10, i)
                C[vi] = A[vi] * T.float32(2.0) + A[vi + 2] * T.float32(2.0)"""),
    "compute_inline of what nobody reads": (unread, lambda s: s.compute_inline("B"), """
        for i in range(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                C[vi] = A[vi]"""),
    "compute_inline into a condition": (conditioned, lambda s: s.compute_inline("B"), """
        for i in range(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                T.where(A[i] * T.float32(2) < T.float32(1))
                C[vi] = A[vi] * T.float32(2)"""),
    "compute_inline keeps iterators of one value": (one_row, lambda s: s.compute_inline("B"), """
        for i, j in T.grid(1, 7):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj])
                T.writes(C[vi, vj])
                C[vi, vj] = A[vi, vj] * T.float32(2) + T.float32(1)"""),
    "reverse_compute_inline through a map": (regrouped, lambda s: s.reverse_compute_inline("C"), """
        for i, j in T.grid(4, 6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi // 2, (vi % 2 * 6 + vj) // 4, (vi * 2 + vj) % 4] = A[vi, vj] * T.float32(2)"""),
    "reverse_compute_inline into elements at sums": (split_rows, lambda s: s.reverse_compute_inline("C"), """
        for i, j in T.grid(8, 3):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi // 4, vi % 4, vj] = A[vi, vj] * T.float32(2) + T.float32(1)"""),
    "reverse_compute_inline": (two_stages, lambda s: s.reverse_compute_inline("C"), """
        for i, j in T.grid(5, 22):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * T.float32(2.0) + T.float32(1.0)"""),
    "reverse_compute_inline where the consumer reads a part": (part, lambda s: s.reverse_compute_inline("C"), """
        for i, j in T.grid(3, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.where(i * 4 + j < 10)
                C[vi * 4 + vj] = A[vi, vj] * T.float32(2.0) + T.float32(1.0)"""),
}

@T.prim_func
def listing(A: T.Buffer((4, 5), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 5):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk], B[vi])
            T.writes(B[vi])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def backward_sums(A: T.Buffer((4, 5), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,))
    for i, k in T.grid(4, 5):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(5, 4 - k)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi]


REFUSED = [
    (backward_sums, lambda s: s.compute_at("B", loop(s, "C", 0)),
     "block B is neither a complete block nor a reduction block: it is not proved to start its sums where vk is least"),
    (listing, lambda s: s.reverse_compute_at("B", loop(s, "B", 0)),
     "reverse_compute_at: argument 'loop': loop i holds block B alone"),
    (softmax(), lambda s: s.compute_at("T_exp", loop(s, "Y", 0)),
     "compute_at: argument 'loop': it requires all the consumers of block T_exp under it, "
     "and block T_sum is not under loop i; choose a loop around"),
    (two_stages, lambda s: s.compute_at("C", loop(s, "B", 0)),
     "argument 'block': block C is an output block: it writes C, which must be written in full"),
    (unread, lambda s: s.compute_at("B", loop(s, "C", 0)), "argument 'block': nothing reads what block B writes"),
    (before, lambda s: s.compute_at("B", loop(s, "C", 0)), "block C reads B before it is written"),
    (matmul_relu, lambda s: (s.decompose_reduction("C", loop(s, "C", 2)), s.compute_at("C_update", loop(s, "D", 0))),
     "block C_update is neither a complete block nor a reduction block: "
     "its iterator vk is of type reduce, not spatial"),
    (some, lambda s: s.compute_at("B", loop(s, "B", 0)),
     "loop i is an ancestor of block B already, and it requires all "
     "the consumers of block B under it, and block C is not under loop i"),
    (some, lambda s: s.reverse_compute_at("C", loop(s, "B", 0)),
     "block C runs only where i % 2 == 0; only conditions that keep iterators in their domains can be made anew"),
    (branch, lambda s: s.reverse_compute_at("C", loop(s, "B", 0)),
     "block C lies under a IfThenElse; only loops may lie"),
    (scratch, lambda s: s.compute_at("B", loop(s, "C", 1)),
     "block B is neither a complete block nor a reduction block: "
     "its iterator vt is not proved to choose where it writes B"),
    (scratch, lambda s: s.reverse_compute_at("C", loop(s, "B", 1)),
     "block C may read values of B that are there in one turn of loop t alone, in which block B writes them"),
    (reused, lambda s: s.compute_at("C", loop(s, "E", 0)),
     "block D must stay after block C: one writes what the other touches; choose a place that keeps their order"),
    (alias, lambda s: s.reverse_compute_at("Y", loop(s, "X", 0)),
     "inside block outer, X and C are parts of one buffer; use one of them alone there"),
    (wedge, lambda s: s.compute_at("C", loop(s, "C", 0)),
     "the domain of iterator vj of block C depends on a loop; give the iterator a constant domain"),
    (crossed, lambda s: s.reverse_compute_at("C", loop(s, "S", 0)),
     "under it a producer of the block stands after one of its consumers; choose an inner or outer loop"),
    (branch, lambda s: s.compute_at("B", loop(s, "C", 1)),
     "loop j lies under a IfThenElse; only loops may lie around it"),
    (three, lambda s: s.reverse_compute_at("C", loop(s, "D", 0)), "no producer of block C is under loop i"),
    (window, lambda s: s.reverse_compute_at("C", loop(s, "B", 0)),
     "one turn of loop i is not proved to write all of B that block C reads in it; choose a place where its inputs"),
    (matmul_relu, lambda s: s.reverse_compute_at("D", loop(s, "C", 2)),
     "argument 'loop': the reduction of block C over vk is not finished there"),
    (guarded(), lambda s: s.reverse_compute_at("P", loop(s, "A2", 0)),
     "some instances of block P may read outside what block A2 writes of A2, and would be lost"),
    (four, lambda s: (s.compute_at("B", loop(s, "D", 0)), s.compute_at("C", loop(s, "D", 0), index=3)),
     "argument 'index': 3 is not between 0 (after the last producer) and 1 (before the first consumer); use -1 or -2"),
    (two_stages, lambda s: (s.blockize(loop(s, "B", 0)), s.reverse_compute_at("C", loop(s, "B", 0))),
     "loop i is not in the same block scope as the block; choose a loop inside block root"),
    (partly, lambda s: s.reverse_compute_at("C", loop(s, "B", 0)),
     "reverse_compute_at: argument 'block': block C is not proved to run over its whole domain, and more of C would"),
    (partly, lambda s: s.reverse_compute_inline("C"),
     "block C is not proved to run over its whole domain, and more of"),
    (two_stages, lambda s: s.compute_inline("C"),
     "compute_inline: argument 'block': block C is an output block: it writes C, which"),
    (matmul_relu, lambda s: s.compute_inline("C"),
     "block C is not complete: it has an init statement; only blocks whose"),
    (pair, lambda s: s.compute_inline("B"), "the body of block B is not one store"),
    (diagonal, lambda s: s.compute_inline("B"),
     "block B does not store at one distinct iterator per dimension: B[vi, vi]"),
    (strided, lambda s: s.compute_inline("B"),
     "block B does not store at one distinct iterator per dimension: B[vi * 2]"),
    (addressed, lambda s: s.compute_inline("B"),
     "block C, which reads B, holds other blocks, matched buffers or pointers; inline before they are made"),
    (ticking, lambda s: s.compute_inline("B"), "block B calls T.call_extern(\"float32\", \"tick\", A[vi]), which may do "),
    (reused, lambda s: s.compute_inline("C"), "block D writes S after block C reads it"),
    (two_stages, lambda s: (s.blockize(loop(s, "C", 0)), s.compute_inline("B")),
     "block C_o, which reads B, holds other blocks, matched buffers or pointers; inline before they are made"),
    (softmax(), lambda s: s.reverse_compute_inline("Y"), "block Y has 2 producers (T_exp, T_sum); it can be put into"),
    (three, lambda s: s.reverse_compute_inline("C"), "block D also reads B; inline it first"),
    (window, lambda s: s.reverse_compute_inline("C"),
     "block C reads several elements of B or has a pointer to it; each instance must read one"),
    (some, lambda s: s.reverse_compute_inline("C"), "block C runs only where i % 2 == 0; only conditions that keep"),
    (outputs, lambda s: s.reverse_compute_inline("C"), "B, which block B writes, is an output"),
    (spread, lambda s: s.reverse_compute_inline("C"),
     "the element that block C reads does not tell its iterator vj; its"),
    (guarded(), lambda s: s.reverse_compute_inline("P"),
     "may read outside what block A2 writes of A2, and would be lost"),
]

test_legal, test_refused = table_tests(LEGAL, REFUSED)
