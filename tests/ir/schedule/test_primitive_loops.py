"""The loop primitives: structure and numbers of each, and every refusal."""
import pytest
from primitive_programs import branch, doubled, matmul, nests, row_sum, rows, scan, shift, triangle, two_stages
from primitive_table import loop, table_tests
from schedule_programs import repeated_sum

from ingot.ir.schedule import Schedule, ScheduleError
from ingot.script import from_source
from ingot.script import tir as T


def _kinds(sch):
    outer, inner = sch.split(loop(sch, "B", 1), [None, 11])
    sch.parallel(loop(sch, "B", 0))
    sch.unroll(outer)
    sch.vectorize(inner)


def _rows_of(sch):
    return sch.func.buffer_map[sch.func.params[0]].shape[0]


@T.prim_func
def late(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 10):
        with T.block("B"):
            vi = T.axis.spatial(5, i)
            vk = T.axis.reduce(9, k - 1)
            T.where(1 <= k)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def sums_of_any(a: T.handle, b: T.handle):
    n, m = T.int32(), T.int32()
    A, B = T.match_buffer(a, (n, m, 3)), T.match_buffer(b, (n, m))
    for i, j, k in T.grid(n, m, 3):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                B[vi, vj] = T.float32(0)
            B[vi, vj] = B[vi, vj] + A[vi, vj, vk]


def _digits_exchanged(sch):
    outer, inner = sch.split(sch.fuse(*sch.get_loops("B")[:2]), [None, 8])
    sch.reorder(inner, outer)


@T.prim_func
def sums_together(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32"), C: T.Buffer((5, 9), "float32")):
    for i, k in T.grid(5, 9):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
        with T.block("C"):
            vi, vk = T.axis.remap("SS", [i, k])
            C[vi, vk] = A[vi, vk] * T.float32(2)


@T.prim_func
def handed_on(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[T.max(vi - 1, 0), vj]


@T.prim_func
def two_parts_apart(A: T.Buffer((5, 9), "float32"), C: T.Buffer((5, 9), "float32")):
    """B[4] is another iteration's."""
    B = T.alloc_buffer((9,), "float32")
    for i in range(5):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj] = A[vi, vj]
        for j in range(4):
            with T.block("B_1"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj + 5] = A[vi, vj] * T.float32(2)
        for j in range(9):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vj]


@T.prim_func
def squares(A: T.Buffer((14, 4), "float32"), B: T.Buffer((14, 4), "float32")):
    for i, j, k in T.grid(4, 4, 4):
        with T.block("B"):
            vi = T.axis.spatial(14, i * i + j)
            vk = T.axis.spatial(4, k)
            B[vi, vk] = A[vi, vk] + T.float32(1)


@T.prim_func
def stepping(A: T.Buffer((5, 8), "float32"), B: T.Buffer((5, 8), "float32")):
    for i, j in T.grid(5, 2):
        with T.block("B"):
            vi = T.axis.spatial(5, i)
            vj = T.axis.spatial(8, j * 4)
            B[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func
def squares_summed(A: T.Buffer((5, 8), "float32"), B: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 4):
        with T.block("B"):
            vi = T.axis.spatial(5, i)
            vk = T.axis.reduce(8, k * k // 2)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


LEGAL = {
    "reorder below a loop that squares": (squares, lambda s: s.reorder(*reversed(s.get_loops("B")[1:])), """
        for i, k, j in T.grid(4, 4, 4):
            block B"""),
    "split where the factor does not divide": (doubled, lambda s: s.split(loop(s, "B", 1), [None, 4]), """
        for i, j_0, j_1 in T.grid(5, 6, 4):
            with T.block("B"):
                vi = T.axis.spatial(5, i)
                vj = T.axis.spatial(22, j_0 * 4 + j_1)
                T.where(j_0 * 4 + j_1 < 22)
                B[vi, vj] = A[vi, vj] * T.float32(2.0)"""),
    "reorder of parts of fused symbolic loops around a sum": (sums_of_any, _digits_exchanged, """
        for i_j_fused_1, i_j_fused_0, k in T.grid(8, (n * m + 7) // 8, 3):
            with T.block("B"):
                vi = T.axis.spatial(n, (i_j_fused_0 * 8 + i_j_fused_1) // m)
                vj = T.axis.spatial(m, (i_j_fused_0 * 8 + i_j_fused_1) % m)
                vk = T.axis.reduce(3, k)
                T.where(i_j_fused_0 * 8 + i_j_fused_1 < n * m)
                with T.init():
                    B[vi, vj] = T.float32(0.0)
                B[vi, vj] = B[vi, vj] + A[vi, vj, vk]"""),
    "split of a symbolic loop, the outer factor given": (rows, lambda s: s.split(loop(s, "C", 0), [2, None]), """
        for i_0, i_1, j in T.grid(2, (n + 1) // 2, 6):
            with T.block("C"):
                vi = T.axis.spatial(n, i_0 * ((n + 1) // 2) + i_1)
                vj = T.axis.spatial(6, j)
                T.where(i_0 * ((n + 1) // 2) + i_1 < n)
                C[vi, vj] = A[vi, vj] + T.float32(1.0)"""),
    "split by as many as a dimension": (rows, lambda s: s.split(loop(s, "C", 1), [None, _rows_of(s) + 1]), """
        for i, j_0, j_1 in T.grid(n, 5 // (n + 1) + 1, n + 1):
            with T.block("C"):
                vi = T.axis.spatial(n, i)
                vj = T.axis.spatial(6, j_0 * (n + 1) + j_1)
                T.where(j_0 * (n + 1) + j_1 < 6)
                C[vi, vj] = A[vi, vj] + T.float32(1.0)"""),
    "split into rounded parts of a dimension": (
        rows, lambda s: s.split(loop(s, "C", 1), [(5 + _rows_of(s)) // _rows_of(s), _rows_of(s)]), """
        for i, j_0, j_1 in T.grid(n, 5 // n + 1, n):
            with T.block("C"):
                vi = T.axis.spatial(n, i)
                vj = T.axis.spatial(6, j_0 * n + j_1)
                T.where(j_0 * n + j_1 < 6)
                C[vi, vj] = A[vi, vj] + T.float32(1.0)"""),
    "split that leaves unit loops out of bindings": (
        doubled, lambda s: s.split(loop(s, "B", 1), [None, 11, 1], preserve_unit_iters=False), """
        for i, j_0, j_1, j_2 in T.grid(5, 2, 11, 1):
            with T.block("B"):
                vi = T.axis.spatial(5, i)
                vj = T.axis.spatial(22, j_0 * 11 + j_1)
                B[vi, vj] = A[vi, vj] * T.float32(2.0)"""),
    "fuse": (doubled, lambda s: s.fuse(*s.get_loops("B")), """
        for i_j_fused in range(110):
            with T.block("B"):
                vi = T.axis.spatial(5, i_j_fused // 22)
                vj = T.axis.spatial(22, i_j_fused % 22)
                B[vi, vj] = A[vi, vj] * T.float32(2.0)"""),
    "fuse of three loops": (nests("A[3, 4, 5], B[3, 4, 5]", "i 3, j 4, k 5: B[i, j, k] = A[i, j, k] * T.float32(2)"),
                            lambda s: s.fuse(*s.get_loops("B")), """
        for i_j_k_fused in range(60):
            with T.block("B"):
                vi = T.axis.spatial(3, i_j_k_fused // 20)
                vj = T.axis.spatial(4, i_j_k_fused % 20 // 5)
                vk = T.axis.spatial(5, i_j_k_fused % 5)
                B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2.0)"""),
    "split into three under a condition": (doubled, lambda s: s.split(loop(s, "B", 1), [None, 2, 3]), """
        for i, j_0, j_1, j_2 in T.grid(5, 4, 2, 3):
            with T.block("B"):
                vi = T.axis.spatial(5, i)
                vj = T.axis.spatial(22, j_0 * 6 + j_1 * 3 + j_2)
                T.where((j_0 * 2 + j_1) * 3 + j_2 < 22)
                B[vi, vj] = A[vi, vj] * T.float32(2.0)"""),
    "fuse of a symbolic loop": (rows, lambda s: s.fuse(*s.get_loops("C")), """
        for i_j_fused in range(n * 6):
            with T.block("C"):
                vi = T.axis.spatial(n, i_j_fused // 6)
                vj = T.axis.spatial(6, i_j_fused % 6)
                C[vi, vj] = A[vi, vj] + T.float32(1.0)"""),
    "reorder leaves the loops between in place": (matmul, lambda s: s.reorder(loop(s, "C", 2), loop(s, "C", 0)), """
        for k, j, i in T.grid(9, 22, 13):
            block C"""),
    "add_unit_loop around a block and a loop": (
        doubled, lambda s: (s.add_unit_loop("B"), s.add_unit_loop(loop(s, "B", 1))), """
        for i, u, j, u_1 in T.grid(5, 1, 22, 1):
            block B"""),
    "reorder_block_iter_var": (row_sum, lambda s: s.reorder_block_iter_var("B", [1, 0]), """
        for i, k in T.grid(5, 9):
            with T.block("B"):
                vk, vi = T.axis.remap("RS", [k, i])
                with T.init():
                    B[vi] = T.float32(0.0)
                B[vi] = B[vi] + A[vi, vk]"""),
    "parallel, unroll and vectorize": (doubled, _kinds, """
        for i in T.parallel(5):
            for j_0 in T.unroll(2):
                for j_1 in T.vectorized(11):
                    with T.block("B"):
                        vi = T.axis.spatial(5, i)
                        vj = T.axis.spatial(22, j_0 * 11 + j_1)
                        B[vi, vj] = A[vi, vj] * T.float32(2.0)"""),
    "bind": (doubled, lambda s: (s.bind(loop(s, "B", 0), "blockIdx.x"), s.bind(loop(s, "B", 1), "threadIdx.x")), """
        for i in T.thread_binding(5, thread="blockIdx.x"):
            for j in T.thread_binding(22, thread="threadIdx.x"):
                block B"""),
    "bind of a reduction": (row_sum, lambda s: s.bind(loop(s, "B", 1), "threadIdx.x"), """
        for i in range(5):
            for k in T.thread_binding(9, thread="threadIdx.x"):
                block B"""),
}

REFUSED = [
    (doubled, lambda s: s.split(loop(s, "B", 1), []), "split: argument 'factors': is empty"),
    (doubled, lambda s: s.split(loop(s, "B", 1), [None, None]), "[None, None] has more than one None; at most one"),
    (doubled, lambda s: s.split(loop(s, "B", 1), [4, 0]), "[4, 0] has a factor that is not positive"),
    (rows, lambda s: s.split(loop(s, "C", 1), [None, _rows_of(s) - 1]), "[None, n - 1] has a factor that is not positive"),
    (doubled, lambda s: s.split(loop(s, "B", 1), [None, _rows_of(Schedule(rows))]),
     "[None, n] have the variable n, which is neither a parameter nor a dimension of one"),
    (doubled, lambda s: s.split(loop(s, "B", 1), [3, 4]),
     "the product of [3, 4] is 12, not proved to reach the extent 22 of loop j; use None for one of them"),
    (doubled, lambda s: s.split(loop(s, "B", 1), [None, 4], disable_predication=True),
     "argument 'disable_predication': [None, 4] are not proved to divide the extent 22 of loop j, so a condition"),
    (doubled, lambda s: (s.annotate(loop(s, "B", 1), "note", 1), s.split(loop(s, "B", 1), [None, 2])),
     "loop j has annotations ['note'], which would be lost; split or fuse first, then annotate"),
    (doubled, lambda s: (s.annotate(loop(s, "B", 1), "note", 1), s.fuse(*s.get_loops("B"))),
     "loop j has annotations ['note'], which would be lost"),
    (branch, lambda s: s.split(loop(s, "C", 0), [None, 4]),
     "they do not divide the extent of loop i, which holds a IfThenElse outside any block"),
    (doubled, lambda s: s.fuse(), "fuse: argument 'loops': no loop is given"),
    (doubled, lambda s: s.fuse(loop(s, "B", 1), loop(s, "B", 0)),
     "loop i is not the only statement directly inside loop j; give a chain of nested loops"),
    (triangle, lambda s: s.fuse(*s.get_loops("C")), "the range of loop j depends on a loop it would be fused with"),
    (doubled, lambda s: s.reorder(), "reorder: argument 'loops': no loop is given"),
    (doubled, lambda s: s.reorder(loop(s, "B", 1), loop(s, "B", 1)), "a loop is given twice"),
    (two_stages, lambda s: s.reorder(loop(s, "B", 1), loop(s, "C", 0)), "loops i and j are not in one chain of loops"),
    (triangle, lambda s: s.reorder(*reversed(s.get_loops("C"))),
     "the range of loop j depends on a loop that would be inside it; keep it below that loop"),
    (scan, lambda s: s.reorder(*reversed(s.get_loops("B"))),
     "iterator vj of block B is of type scan; its turns must keep their order"),
    (shift, lambda s: s.reorder(*reversed(s.get_loops("A"))), "block A reads other elements of A than it writes"),
    (squares, lambda s: s.reorder(*(loop(s, "B", n) for n in (0, 2, 1))),
     "the binding of block B is not affine: its iterator vi is i * i + j, a product of loops; bind iterators to sums"),
    (stepping, lambda s: s.reorder(*reversed(s.get_loops("B"))),
     "the binding of block B is not affine: its iterator vj is j * 4, which meets one value in 4; bind it to the loop"),
    (squares_summed, lambda s: s.parallel(loop(s, "B", 0)),
     "parallel: argument 'loop': the binding of block B is not affine: its iterator vk is k * k // 2, a product of loops"),
    (sums_together, lambda s: s.reorder(loop(s, "B", 1), loop(s, "B", 0)),
     "the reduction of block B runs around several blocks; separate the blocks first"),
    (handed_on, lambda s: s.reorder(loop(s, "B", 1), loop(s, "B", 0)),
     "a turn may use B as another turn left it; each turn must write what it reads, or touch a part of its own"),
    (repeated_sum(), lambda s: s.reorder(loop(s, "S", 1), loop(s, "S", 0)),
     "the binding of block S is not affine in loop r: several of its turns may run one instance"),
    (row_sum, lambda s: s.reorder(*reversed(s.split(s.fuse(*s.get_loops("B")), [None, 4]))),
     "loop i_k_fused_0 runs spatial and reduce iterators of block B together, so its init might come late; decompose"),
    (late, lambda s: s.reorder(loop(s, "B", 1), loop(s, "B", 0)),
     "the reduction of block B over vk is not proved to start at its least value; decompose_reduction first"),
    (doubled, lambda s: s.add_unit_loop("root"),
     "argument 'block_or_loop': block root is the root block; name a block"),
    (matmul, lambda s: s.reorder_block_iter_var("C", [0, 0, 1]),
     "[0, 0, 1] is not an order of the 3 iterators of block C; give each position once"),
    (matmul, lambda s: s.parallel(loop(s, "C", 2)),
     "parallel: argument 'loop': loop k runs the reduce iterator vk of block C; its turns work on the same element"),
    (shift, lambda s: s.parallel(loop(s, "A", 0)), "the turns of loop i are not proved to touch different parts of A"),
    (two_parts_apart, lambda s: s.parallel(loop(s, "C", 0)),
     "the turns of loop i are not proved to touch different parts of B"),
    (branch, lambda s: s.parallel(loop(s, "C", 0)),
     "loop i holds a IfThenElse outside any block; only loops and blocks"),
    (rows, lambda s: s.vectorize(loop(s, "C", 0)),
     "vectorize: argument 'loop': the extent of loop i is n, not a constant; split it by the number of lanes first"),
    (doubled, lambda s: s.bind(loop(s, "B", 0), "threadIdx.w"), "'threadIdx.w' is no thread axis; known: blockIdx.x"),
    (doubled, lambda s: (s.bind(loop(s, "B", 0), "threadIdx.x"), s.bind(loop(s, "B", 1), "threadIdx.x")),
     "loop i, which is nested with loop j, is bound to threadIdx.x too, and their ranges differ: 5 and 22; choose "
     "another axis"),
    (doubled, lambda s: (s.bind(loop(s, "B", 1), "blockIdx.x"), s.bind(loop(s, "B", 0), "blockIdx.x")),
     "loop j, which is nested with loop i, is bound to blockIdx.x too, and only threads of one block can share work"),
    (row_sum, lambda s: s.bind(loop(s, "B", 1), "blockIdx.x"), "loop k runs the reduce iterator vk of block B"),
    (row_sum, lambda s: (s.decompose_reduction("B", loop(s, "B", 1)), s.bind(loop(s, "B_update", 1), "threadIdx.x")),
     "threads cannot reduce block B_update together: it has no init statement; choose a spatial loop, or bind before"),
    (matmul, lambda s: (s.compute_at(s.cache_read("C", 0, "local"), loop(s, "C", 2)),
                        s.bind(loop(s, "C", 2), "threadIdx.x")),
     "loop k runs a reduction around 2 blocks; separate the blocks first"),
]

test_legal, test_refused = table_tests(LEGAL, REFUSED)


def test_what_a_loop_is_may_change():
    """The last word holds: a bound loop is bound anew, or is none any more."""
    s = Schedule(doubled)
    s.bind(loop(s, "B", 0), "blockIdx.x")
    s.bind(loop(s, "B", 0), "threadIdx.x")
    assert s.get(loop(s, "B", 0)).thread_binding == "threadIdx.x"
    s.unroll(loop(s, "B", 0))
    found = s.get(loop(s, "B", 0))
    assert (found.kind, found.thread_binding) == ("unrolled", None)


@T.prim_func
def shared_by_digits(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    P = T.alloc_buffer((16,), "float32")
    for t in range(2):
        for i in range(8):
            with T.block("P"):
                v = T.axis.spatial(16, t * 8 + i)
                P[v] = A[v] + T.float32(1)
        for a, b in T.grid(4, 8):
            with T.block("Q"):
                v = T.axis.spatial(16, t * 8 + (a * 8 + b))
                T.where(a * 8 + b < 8)
                B[v] = P[v] * T.float32(2)


def test_conditions_say_how_far_a_turn_goes():
    """What block Q reads and writes in a turn of t is what its condition lets it, not what its loops could."""
    sch = Schedule(shared_by_digits)
    sch.parallel(sch.get_loops("P")[0])
    assert sch.get(sch.get_loops("Q")[0]).kind == "parallel"
    wider = from_source(shared_by_digits.script().replace("a * 8 + b < 8", "a * 8 + b < 9"))
    sch = Schedule(wider)
    with pytest.raises(ScheduleError, match="not proved to touch different parts of"):
        sch.parallel(sch.get_loops("P")[0])
