"""Programs in script for the tables of primitives: plain ones at sizes that do not divide, then odd ones."""
from ingot.script import tir as T


@T.prim_func
def two_stages(A: T.Buffer((5, 22), "float32"), C: T.Buffer((5, 22), "float32")):
    B = T.alloc_buffer((5, 22), "float32")
    for i, j in T.grid(5, 22):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(5, 22):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)


@T.prim_func
def doubled(A: T.Buffer((5, 22), "float32"), B: T.Buffer((5, 22), "float32")):
    for i, j in T.grid(5, 22):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


@T.prim_func
def matmul(A: T.Buffer((13, 9), "float32"), B: T.Buffer((9, 22), "float32"), C: T.Buffer((13, 22), "float32")):
    for i, j, k in T.grid(13, 22, 9):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def matmul_relu(A: T.Buffer((13, 9), "float32"), B: T.Buffer((9, 22), "float32"), D: T.Buffer((13, 22), "float32")):
    C = T.alloc_buffer((13, 22), "float32")
    for i, j, k in T.grid(13, 22, 9):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(13, 22):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj], T.float32(0))


@T.prim_func
def row_sum(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 9):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def window(A: T.Buffer((12,), "float32"), C: T.Buffer((10,), "float32")):
    B = T.alloc_buffer((12,), "float32")
    for i in range(12):
        with T.block("B"):
            vi = T.axis.spatial(12, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(10):
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = B[vi] + B[vi + 2]


@T.prim_func
def rows(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 6), "float32")
    C = T.match_buffer(c, (n, 6), "float32")
    for i, j in T.grid(n, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func
def update(A: T.Buffer((11,), "float32"), B: T.Buffer((11,), "float32")):
    for i in range(11):
        with T.block("B"):
            vi = T.axis.spatial(11, i)
            B[vi] = B[vi] + A[vi]


@T.prim_func
def transposed(A: T.Buffer((7, 5), "float32"), C: T.Buffer((5, 7), "float32")):
    for i, j in T.grid(5, 7):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vj, vi] * T.float32(2)


@T.prim_func
def bordered(A: T.Buffer((9,), "float32"), P: T.Buffer((13,), "float32")):
    for i in range(13):
        with T.block("P"):
            vi = T.axis.spatial(13, i)
            P[vi] = T.if_then_else(2 <= vi and vi < 11, A[vi - 2], T.float32(0))


# ---------------------------------------------------------------- odd ones

@T.prim_func
def branch(A: T.Buffer((7,), "float32"), C: T.Buffer((7, 4), "float32")):
    B = T.alloc_buffer((7,), "float32")
    for i in range(7):
        with T.block("B"):
            vi = T.axis.spatial(7, i)
            B[vi] = A[vi]
    for i in range(7):
        if i < 3:
            for j in range(4):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi] * T.float32(2)


@T.prim_func
def triangle(A: T.Buffer((6, 6), "float32"), C: T.Buffer((6, 6), "float32")):
    for i in range(6):
        for j in range(i + 1):
            with T.block("C"):
                vi = T.axis.spatial(6, i)
                vj = T.axis.spatial(6, j)
                C[vi, vj] = A[vj, vi]


@T.prim_func
def wedge(A: T.Buffer((6, 6), "float32"), C: T.Buffer((6, 6), "float32")):
    for i in range(6):
        for j in range(i + 1):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vj, vi]


@T.prim_func
def scan(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 7), "float32")):
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.scan(6, j)
            B[vi, vj + 1] = B[vi, vj] + A[vi, vj]


@T.prim_func
def shift(A: T.Buffer((5, 6), "float32")):
    for i, j in T.grid(4, 6):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi + 1, vj]


@T.prim_func
def scratch(A: T.Buffer((5, 6), "float32"), C: T.Buffer((5, 6), "float32")):
    B = T.alloc_buffer((6,), "float32")
    for t in range(5):
        for i in range(6):
            with T.block("B"):
                vt, vi = T.axis.remap("SS", [t, i])
                B[vi] = A[vt, vi] * T.float32(2)
        for i in range(6):
            with T.block("C"):
                vt, vi = T.axis.remap("SS", [t, i])
                C[vt, vi] = B[vi] + B[5 - vi]


@T.prim_func
def reused(A: T.Buffer((7,), "float32"), E: T.Buffer((7,), "float32")):
    S = T.alloc_buffer((7,), "float32")
    C = T.alloc_buffer((7,), "float32")
    for i in range(7):
        with T.block("S"):
            vi = T.axis.spatial(7, i)
            S[vi] = A[vi]
    for i in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, i)
            C[vi] = S[vi] * T.float32(3)
    for i in range(7):
        with T.block("D"):
            vi = T.axis.spatial(7, i)
            S[vi] = A[6 - vi] + T.float32(7)
    for i in range(7):
        with T.block("E"):
            vi = T.axis.spatial(7, i)
            E[vi] = C[vi] + S[vi]


@T.prim_func
def alias(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(1):
        with T.block("outer"):
            vi = T.axis.spatial(1, i)
            T.reads(A[0:8])
            T.writes(C[0:8])
            X = T.match_buffer(C[0:8], (8,), "float32")
            for a in range(8):
                with T.block("X"):
                    va = T.axis.spatial(8, a)
                    X[va] = A[va] * T.float32(2)
            for a in range(4):
                with T.block("Y"):
                    va = T.axis.spatial(4, a)
                    C[va] = X[va + 4] + T.float32(1)


@T.prim_func
def some(A: T.Buffer((10,), "float32"), C: T.Buffer((10,), "float32")):
    B = T.alloc_buffer((10,), "float32")
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
            B[vi] = A[vi]
    for i in range(10):
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            T.where(i % 2 == 0)
            C[vi] = B[vi] * T.float32(2)


@T.prim_func
def downward(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 9):
        with T.block("B"):
            vi = T.axis.spatial(5, i)
            vk = T.axis.reduce(9, 8 - k)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def tied(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 9):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(2 <= i + k)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def before(A: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")):
    B = T.alloc_buffer((7,), "float32")
    for i in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, i)
            C[vi] = B[vi]
    for i in range(7):
        with T.block("B"):
            vi = T.axis.spatial(7, i)
            B[vi] = A[vi] * T.float32(2)
