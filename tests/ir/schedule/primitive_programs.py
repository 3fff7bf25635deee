"""Programs in script for the tables of primitives: plain ones at sizes that do not divide, then odd ones."""
import re

from ingot.script import from_source
from ingot.script import tir as T


def nests(buffers, *stages):
    """A PrimFunc of one loop nest a stage, over float32. buffers: "A[7], C[7]; B[7]", parameters, then temporaries. A
    stage: "i 5, j 7: C[i, j] = A[j] + B[i]", its loops and the store of a block, which has the buffer's name, or that
    in "i 7 (D): ..."; with += a sum over the loops that its place does not depend on."""
    params, _, temporaries = buffers.partition("; ")
    shapes = re.findall(r"(\w+)\[(.*?)\]", params)
    lines = ["@T.prim_func", "def main({}):".format(", ".join(f'{x}: T.Buffer(({s},), "float32")' for x, s in shapes))]
    lines += [f'    {x} = T.alloc_buffer(({s},), "float32")' for x, s in re.findall(r"(\w+)\[(.*?)\]", temporaries)]
    for stage in stages:
        loops, store = stage.split(": ", 1)
        place, name = store[:store.index("]") + 1], re.search(r"\((\w+)\)", loops)
        names, extents = zip(*re.findall(r"(\w) (\d+)", loops))
        kinds = "".join("S" if re.search(rf"\b{v}\b", place) or "+=" not in store else "R" for v in names)
        moved = re.compile(rf"\b({'|'.join(names)})\b")
        place, store = moved.sub(r"v\1", place), moved.sub(r"v\1", store)
        lines += [f"    for {', '.join(names)} in T.grid({', '.join(extents)}):",
                  f'        with T.block("{name[1] if name else place.split("[")[0]}"):',
                  f"            {', '.join('v' + v for v in names)} = T.axis.remap(\"{kinds}\", [{', '.join(names)}])"]
        if "R" in kinds:
            lines += ["            with T.init():", f"                {place} = T.float32(0)"]
        lines.append("            " + store.replace("+=", f"= {place} +", 1))
    return from_source("\n".join(lines) + "\n")


two_stages = nests("A[5, 22], C[5, 22]; B[5, 22]", "i 5, j 22: B[i, j] = A[i, j] * T.float32(2)",
                   "i 5, j 22: C[i, j] = B[i, j] + T.float32(1)")
doubled = nests("A[5, 22], B[5, 22]", "i 5, j 22: B[i, j] = A[i, j] * T.float32(2)")
matmul = nests("A[13, 9], B[9, 22], C[13, 22]", "i 13, j 22, k 9: C[i, j] += A[i, k] * B[k, j]")
matmul_relu = nests("A[13, 9], B[9, 22], D[13, 22]; C[13, 22]", "i 13, j 22, k 9: C[i, j] += A[i, k] * B[k, j]",
                    "i 13, j 22: D[i, j] = T.max(C[i, j], T.float32(0))")
row_sum = nests("A[5, 9], B[5]", "i 5, k 9: B[i] += A[i, k]")
window = nests("A[12], C[10]; B[12]", "i 12: B[i] = A[i] * T.float32(2)", "i 10: C[i] = B[i] + B[i + 2]")


@T.prim_func
def rows(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 6), "float32")
    C = T.match_buffer(c, (n, 6), "float32")
    for i, j in T.grid(n, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + T.float32(1)


update = nests("A[11], B[11]", "i 11: B[i] = B[i] + A[i]")
transposed = nests("A[7, 5], C[5, 7]", "i 5, j 7: C[i, j] = A[j, i] * T.float32(2)")
bordered = nests("A[9], P[13]", "i 13: P[i] = T.if_then_else(2 <= i and i < 11, A[i - 2], T.float32(0))")


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


shift = nests("A[5, 6]", "i 4, j 6: A[i, j] = A[i + 1, j]")


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


reused = nests("A[7], E[7]; S[7], C[7]", "i 7: S[i] = A[i]", "i 7: C[i] = S[i] * T.float32(3)",
               "i 7 (D): S[i] = A[6 - i] + T.float32(7)", "i 7: E[i] = C[i] + S[i]")


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


before = nests("A[7], C[7]; B[7]", "i 7: C[i] = B[i]", "i 7: B[i] = A[i] * T.float32(2)")
