"""transform_layout, decompose_padding and decompose_border: structure and numbers of each, and every refusal."""

from ingot.ir.schedule import Schedule
from ingot.script import tir as T
from primitive_programs import bordered, nests, row_sum, rows, two_stages
from primitive_table import loop, table_tests
from schedule_programs import guarded


diagonal = nests("A[4, 4], P[4, 4]", "i 4, j 4: P[i, j] = T.if_then_else(i <= j, A[i, j], T.float32(0))")
never = nests("A[4], P[4]", "i 4: P[i] = T.if_then_else(3 <= i and i < 2, A[i], T.float32(0))")


@T.prim_func
def every_second(A: T.Buffer((4,), "float32"), P: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("P"):
            vi = T.axis.spatial(4, i)
            T.where(i % 2 == 0)
            P[vi] = T.if_then_else(1 <= vi, A[vi], T.float32(0))


@T.prim_func
def from_n(A: T.Buffer((4,), "float32"), P: T.Buffer((4,), "float32"), n: T.int32):
    for i in range(4):
        with T.block("P"):
            vi = T.axis.spatial(4, i)
            P[vi] = T.if_then_else(n <= vi, A[vi], T.float32(0))


unwritten = nests("A[7], C[7]; B[7]", "i 7: C[i] = A[i] + B[i] * T.float32(0)")


@T.prim_func
def spaced(A: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")):
    B = T.alloc_buffer((7,), "float32", strides=(2,))
    for i in range(7):
        with T.block("B"):
            vi = T.axis.spatial(7, i)
            B[vi] = A[vi]
    for i in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, i)
            C[vi] = B[vi]


@T.prim_func
def matched(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(2):
        with T.block("C"):
            vi = T.axis.spatial(2, i)
            T.reads(B[vi * 4:vi * 4 + 4])
            T.writes(C[vi * 4:vi * 4 + 4])
            X = T.match_buffer(B[vi * 4:vi * 4 + 4], (4,), "float32")
            for j in range(4):
                C[vi * 4 + j] = X[j]


LEGAL = {
    "transform_layout": (
        two_stages, lambda s: s.transform_layout("B", ("write", 0), lambda i, j: (j // 11, i, j % 11)), """
        B = T.alloc_buffer((2, 5, 11), "float32")
        for i, j in T.grid(5, 22):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj // 11, vi, vj % 11] = A[vi, vj] * T.float32(2.0)
        for i, j in T.grid(5, 22):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vj // 11, vi, vj % 11] + T.float32(1.0)"""),
    "transform_layout that pads": (
        two_stages, lambda s: s.transform_layout("C", "B", lambda i, j: (j // 4, i, j % 4), pad_value=0.0), """
        B = T.alloc_buffer((6, 5, 4), "float32")
        for ax0, ax1 in T.grid(5, 2):
            with T.block("B_pad"):
                v0 = T.axis.spatial(6, 5)
                v1 = T.axis.spatial(5, ax0)
                v2 = T.axis.spatial(4, 2 + ax1)
                if v0 * 4 + v2 >= 22:
                    B[v0, v1, v2] = T.float32(0.0)
        for i, j in T.grid(5, 22):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj // 4, vi, vj % 4] = A[vi, vj] * T.float32(2.0)
        for i, j in T.grid(5, 22):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vj // 4, vi, vj % 4] + T.float32(1.0)"""),
    "decompose_padding": (bordered, lambda s: s.decompose_padding("P", loop(s, "P", 0)), """
        for i in range(13):
            with T.block("P_pad_const"):
                vi = T.axis.spatial(13, i)
                P[vi] = T.float32(0.0)
        for ax0 in range(9):
            with T.block("P"):
                vi = T.axis.spatial(9, ax0)
                P[vi + 2] = A[vi]"""),
    "decompose_border": (bordered, lambda s: s.decompose_border("P", loop(s, "P", 0)), """
        for ax0 in range(2):
            with T.block("P_side"):
                vi = T.axis.spatial(2, ax0)
                P[vi] = T.float32(0.0)
        for ax0 in range(2):
            with T.block("P_side_1"):
                vi = T.axis.spatial(2, ax0)
                P[vi + 11] = T.float32(0.0)
        for ax0 in range(9):
            with T.block("P"):
                vi = T.axis.spatial(9, ax0)
                P[vi + 2] = A[vi]"""),
    "decompose_border inside a tile": (
        bordered, lambda s: s.decompose_border("P", s.split(loop(s, "P", 0), [None, 4])[1]), """
        for i_0 in range(4):
            for ax0 in range(4):
                with T.block("P_side"):
                    vi = T.axis.spatial(2, i_0 * 4 + ax0)
                    T.where(i_0 * 4 + ax0 < 2)
                    P[vi] = T.float32(0.0)
            for ax0 in range(4):
                with T.block("P_side_1"):
                    vi = T.axis.spatial(2, i_0 * 4 - 11 + ax0)
                    T.where(i_0 * 4 + ax0 - 11 >= 0 and i_0 * 4 + ax0 < 13)
                    P[vi + 11] = T.float32(0.0)
            for ax0 in range(4):
                with T.block("P"):
                    vi = T.axis.spatial(9, i_0 * 4 - 2 + ax0)
                    T.where(i_0 * 4 + ax0 - 2 >= 0 and i_0 * 4 + ax0 < 11)
                    P[vi + 2] = A[vi]"""),
    "decompose_padding inside a tile": (
        bordered, lambda s: s.decompose_padding("P", s.split(loop(s, "P", 0), [None, 4])[1]), """
        for i_0 in range(4):
            for i_1 in range(4):
                with T.block("P_pad_const"):
                    vi = T.axis.spatial(13, i_0 * 4 + i_1)
                    T.where(i_0 * 4 + i_1 < 13)
                    P[vi] = T.float32(0.0)
            for ax0 in range(4):
                with T.block("P"):
                    vi = T.axis.spatial(9, i_0 * 4 - 2 + ax0)
                    T.where(i_0 * 4 + ax0 - 2 >= 0 and i_0 * 4 + ax0 < 11)
                    P[vi + 2] = A[vi]"""),
}

REFUSED = [
    (two_stages, lambda s: s.transform_layout("B", ("read", 0), lambda i, j: (i // 4, j, i % 4), pad_value=0),
     "transform_layout: argument 'buffer': buffer A is a parameter, and the map makes it 2 x 22 x 4 for 5 x 22"),
    (rows, lambda s: s.transform_layout("C", ("read", 0), lambda i, j: (j, i)),
     "argument 'buffer': buffer A is a parameter, whose shape n x 6 is the caller's; use cache_read or cache_write"),
    (two_stages, lambda s: s.transform_layout("B", "B", lambda i, j, k, *more: (i, j)),
     "argument 'index_map': an index map of any number of indices (*more) needs ndim, at least 3, not 2; give a"),
    (two_stages, lambda s: s.transform_layout("B", ("write", 0), lambda i: i), "it takes 1 indices, buffer B has 2"),
    (two_stages, lambda s: s.transform_layout("B", ("write", 0), lambda i, j: (i // 4, j, i % 4)),
     "argument 'pad_value': the map makes B 2 x 22 x 4 for 5 x 22 elements; say with pad_value what the others hold"),
    (two_stages, lambda s: s.transform_layout("B", "B", lambda i, j: (i // 2, j), pad_value=0),
     "argument 'index_map': it is not proved to keep elements of different i apart; use permutations"),
    (two_stages, lambda s: s.transform_layout("B", "B", lambda i, j: (i - 1, j), pad_value=0),
     "the ranges of its indices are not known or begin below 0"),
    (two_stages, lambda s: s.transform_layout("B", "B", lambda i, j: (i * 2, j), pad_value=0),
     "the places that stay empty are not understood; use permutations"),
    (two_stages, lambda s: s.decompose_padding("C", loop(s, "C", 0)),
     "decompose_padding: argument 'block': block C does not store if_then_else(condition, value, constant)"),
    (row_sum, lambda s: s.decompose_padding("B", loop(s, "B", 0)), "block B is not complete: it has an init statement"),
    (two_stages, lambda s: s.decompose_border("C", loop(s, "C", 0)),
     "decompose_border: argument 'block': block C does not store if_then_else(condition, value, constant)"),
    (diagonal, lambda s: s.decompose_border("P", loop(s, "P", 0)),
     "the condition vi <= vj of block P gives no iterator a range of its own; it must compare one iterator with what"),
    (unwritten, lambda s: s.transform_layout("C", "B", lambda i: (i // 4, i % 4), pad_value=0),
     "no block directly inside block root writes B"),
    (spaced, lambda s: s.transform_layout("C", "B", lambda i: (i // 4, i % 4), pad_value=0),
     "buffer B has strides; only compact buffers can change layout"),
    (matched, lambda s: s.transform_layout("C", "B", lambda i: (i // 4, i % 4)),
     "block C matches a region of B with a buffer; transform the layout before tensorize"),
    (diagonal, lambda s: s.decompose_padding("P", loop(s, "P", 0)),
     "the condition vi <= vj of block P gives no iterator a range of its own; it must compare one iterator with what"),
    (never, lambda s: s.decompose_padding("P", loop(s, "P", 0)), "of block P may never hold"),
    (every_second, lambda s: s.decompose_padding("P", loop(s, "P", 0)), "block P runs only where i % 2 == 0"),
    (from_n, lambda s: s.decompose_padding("P", loop(s, "P", 0)),
     "the condition n <= vi of block P cannot be compared with its others"),
    (guarded(), lambda s: s.decompose_padding("P", loop(s, "A2", 0)),
     "argument 'loop': block P is not alone under loop i"),
]


def test_can_decompose_padding():
    sch = Schedule(bordered, seed=1)
    before = sch.rng.getstate()
    assert sch.can_decompose_padding("P", loop(sch, "P", 0)) and sch.func is bordered
    other = Schedule(two_stages)
    assert not other.can_decompose_padding("C", loop(other, "C", 0)) and sch.rng.getstate() == before
    assert len(other.trace) == 2

test_legal, test_refused = table_tests(LEGAL, REFUSED)
