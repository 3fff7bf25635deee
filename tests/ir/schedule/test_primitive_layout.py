"""transform_layout, set_axis_separator, decompose_padding and decompose_border: structure and numbers of each,
and every refusal."""

from ingot.ir.expr import Var, const
from ingot.ir.schedule import Schedule
from ingot.ir.tir.index_map import IndexMap
from ingot.script import tir as T
from primitive_programs import bordered, nests, row_sum, two_stages
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


@T.prim_func
def first_row(a: T.handle, C: T.Buffer((6,), "float32")):
    n = T.int32()
    A = T.match_buffer(a, (n, 6), "float32")
    for j in range(6):
        with T.block("C"):
            vj = T.axis.spatial(6, j)
            C[vj] = A[n - 1, vj]


unwritten = nests("A[7], C[7]; B[7]", "i 7: C[i] = A[i] + B[i] * T.float32(0)")

whole = nests("A[4], P[4]", "i 4: P[i] = T.if_then_else(0 <= i and i < 4, A[i], T.float32(0))")
shared = nests("A[8], C[8]; P[10]", "i 10: P[i] = T.if_then_else(1 <= i and i < 9, A[i - 1], T.float32(0))",
               "i 8: C[i] = P[i] + P[i + 2]")


def in_turns(sch):
    """The loop over turns of four elements of C, each of which makes its part of P."""
    outer, _ = sch.split(loop(sch, "C", 0), [None, 4])
    sch.compute_at("P", outer)
    return outer


@T.prim_func
def late(A: T.Buffer((4,), "float32"), P: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("P"):
            vi = T.axis.spatial(4, i)
            P[vi] = T.if_then_else(1 <= vi, A[vi], T.float32(0))
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = P[3 - vi]


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
        for ax0, ax1, ax2 in T.grid(6, 5, 4):
            with T.block("B"):
                v0, v1, v2 = T.axis.remap("SSS", [ax0, ax1, ax2])
                B[v0, v1, v2] = T.if_then_else(v0 == 5 and 2 <= v2, T.float32(0.0), A[v1, v0 * 4 + v2] * T.float32(2.0))
        for i, j in T.grid(5, 22):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vj // 4, vi, vj % 4] + T.float32(1.0)"""),
    "transform_layout whose padding depends on indices, of a nest that is split": (
        two_stages, lambda s: (s.split(loop(s, "B", 0), [None, 5]), s.transform_layout(
            "B", "B", lambda i, j: (i // 2, j, i % 2), pad_value=lambda i, j, k: T.cast(i + k, "float32"))), """
        B = T.alloc_buffer((3, 22, 2), "float32")
        for i_0, i_1, j in T.grid(1, 5, 22):
            with T.block("B"):
                vi = T.axis.spatial(5, i_0 * 5 + i_1)
                vj = T.axis.spatial(22, j)
                B[vi // 2, vj, vi % 2] = A[vi, vj] * T.float32(2.0)
        for ax0, ax1, ax2 in T.grid(3, 22, 2):
            with T.block("B_pad_B"):
                v0, v1, v2 = T.axis.remap("SSS", [ax0, ax1, ax2])
                T.where(ax0 == 2 and 1 <= ax2)
                B[v0, v1, v2] = T.cast(v0 + v2, "float32")
        for i, j in T.grid(5, 22):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi // 2, vj, vi % 2] + T.float32(1.0)"""),
    "transform_layout without padding": (
        two_stages, lambda s: s.transform_layout("B", "B", lambda i, j: (i // 2, j, i % 2),
                                                 assume_injective_transform=True), """
        B = T.alloc_buffer((3, 22, 2), "float32")
        for i, j in T.grid(5, 22):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi // 2, vj, vi % 2] = A[vi, vj] * T.float32(2.0)
        for i, j in T.grid(5, 22):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi // 2, vj, vi % 2] + T.float32(1.0)"""),
    "transform_layout with an axis separator": (
        two_stages, lambda s: s.transform_layout("B", "B", lambda i, j: (j, IndexMap.AXIS_SEPARATOR, i)), """
        B = T.alloc_buffer((22, 5), "float32", axis_separators=[1])
        for i, j in T.grid(5, 22):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj, vi] = A[vi, vj] * T.float32(2.0)
        for i, j in T.grid(5, 22):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vj, vi] + T.float32(1.0)"""),
    "set_axis_separator": (
        matched, lambda s: s.set_axis_separator("B", ("write", 0), [0, 1]), """
        B = T.alloc_buffer((8,), "float32", axis_separators=[0, 1])
        nest B
        for i in range(2):
            with T.block("C"):
                vi = T.axis.spatial(2, i)
                T.reads(B[vi * 4:vi * 4 + 4])
                T.writes(C[vi * 4:vi * 4 + 4])
                X = T.match_buffer(B[vi * 4:vi * 4 + 4], (4,), "float32", axis_separators=[0, 1])
                for j in range(4):
                    C[vi * 4 + j] = X[j]"""),
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
                    vi = T.axis.spatial(2, i_0 * 4 + ax0 - 11)
                    T.where(11 <= i_0 * 4 + ax0 and i_0 * 4 + ax0 < 13)
                    P[vi + 11] = T.float32(0.0)
            for ax0 in range(4):
                with T.block("P"):
                    vi = T.axis.spatial(9, i_0 * 4 + ax0 - 2)
                    T.where(2 <= i_0 * 4 + ax0 and i_0 * 4 + ax0 < 11)
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
                    vi = T.axis.spatial(9, i_0 * 4 + ax0 - 2)
                    T.where(2 <= i_0 * 4 + ax0 and i_0 * 4 + ax0 < 11)
                    P[vi + 2] = A[vi]"""),
    "decompose_padding in front of other blocks": (
        shared, lambda s: s.decompose_padding("P", in_turns(s)), """
        P = T.alloc_buffer((10,), "float32")
        for i_0, ax0 in T.grid(2, 6):
            with T.block("P_pad_const"):
                vi = T.axis.spatial(10, i_0 * 4 + ax0)
                P[vi] = T.float32(0.0)
        for i_0 in range(2):
            for ax0 in range(6):
                with T.block("P"):
                    vi = T.axis.spatial(8, i_0 * 4 + ax0 - 1)
                    T.where(1 <= i_0 * 4 + ax0 and i_0 * 4 + ax0 < 9)
                    P[vi + 1] = A[vi]
            for i_1 in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(8, i_0 * 4 + i_1)
                    C[vi] = P[vi] + P[vi + 2]"""),
}

REFUSED = [
    (first_row, lambda s: s.transform_layout("C", ("read", 0), lambda i, j: i * 6 + j),
     "argument 'buffer': only the shape n x 6 of parameter A tells n; use cache_read or cache_write first"),
    (two_stages, lambda s: s.transform_layout("B", "B", lambda i, j: (j // 4, i, j % 4), pad_value=0),
     "argument 'pad_value': 0 is no float32, which buffer B holds; give a float"),
    (two_stages, lambda s: s.transform_layout("B", "B", lambda i, j: (j // 4, i, j % 4),
                                              pad_value=const(0.0, "float16")),
     "T.float16(0.0) is float16, buffer B holds float32; give a value of float32"),
    (two_stages, lambda s: s.transform_layout("B", "B", lambda i, j: (j // 4, i, j % 4),
                                              pad_value=lambda i, j, k: two_stages.buffers[0][i, j]),
     "argument 'pad_value': A[i, j] reads buffer A; compute it from the indices alone"),
    (two_stages, lambda s: s.transform_layout("B", "B", lambda i, j: (j // 4, i, j % 4), pad_value=Var("x", "float32")),
     "x uses x, which is neither an index nor a parameter"),
    (two_stages, lambda s: s.transform_layout("B", "B", lambda i, j: (j // 4, i, j % 4), pad_value=lambda i: i),
     "argument 'pad_value': it gives 1 values of 1 indices; B has 3; give one value of all new indices"),
    (two_stages, lambda s: s.transform_layout("B", "D", lambda i, j: (j, i)),
     "argument 'buffer': block B has no buffer 'D' among its reads"),
    (two_stages, lambda s: s.transform_block_layout("B", lambda i, j: (i, IndexMap.AXIS_SEPARATOR, j)),
     "argument 'index_map': it has an AXIS_SEPARATOR, which only buffers have"),
    (two_stages, lambda s: s.set_axis_separator("B", ("write", 0), [2, 1]),
     "set_axis_separator: argument 'axis_separators': buffer B: axis_separators [2, 1] must not decrease"),
    (two_stages, lambda s: s.set_axis_separator("B", ("write", 1), [1]),
     "argument 'buffer': 1 is not a position among the writes of block B"),
    (two_stages, lambda s: s.transform_layout("B", "B", lambda i, j, k, *more: (i, j)),
     "argument 'index_map': an index map of any number of indices (*more) needs ndim, at least 3, not 2; give a"),
    (two_stages, lambda s: s.transform_layout("B", ("write", 0), lambda i: i), "it takes 1 indices, buffer B has 2"),
    (two_stages, lambda s: s.transform_layout("B", ("write", 0), lambda i, j: (i // 4, j, i % 4)),
     "argument 'pad_value': the map makes B 2 x 22 x 4 for 5 x 22 elements; "
     "say with pad_value what the others hold, or"),
    (two_stages, lambda s: s.transform_layout("B", "B", lambda i, j: (i // 2, j), pad_value=0.0),
     "argument 'index_map': it is not proved to keep elements of different i apart; use permutations"),
    (two_stages, lambda s: s.transform_layout("B", "B", lambda i, j: (i - 1, j), pad_value=0.0),
     "the ranges of its indices are not known or begin below 0"),
    (two_stages, lambda s: s.transform_layout("B", "B", lambda i, j: (i * 2, j), pad_value=0.0),
     "the places that stay empty are not understood; use permutations"),
    (two_stages, lambda s: s.decompose_padding("C", loop(s, "C", 0)),
     "decompose_padding: argument 'block': block C does not store if_then_else(condition, value, constant)"),
    (row_sum, lambda s: s.decompose_padding("B", loop(s, "B", 0)), "block B is not complete: it has an init statement"),
    (two_stages, lambda s: s.decompose_border("C", loop(s, "C", 0)),
     "decompose_border: argument 'block': block C does not store if_then_else(condition, value, constant)"),
    (diagonal, lambda s: s.decompose_border("P", loop(s, "P", 0)),
     "the condition vi <= vj of block P gives no iterator a range of its own; it must compare one iterator with what"),
    (unwritten, lambda s: s.transform_layout("C", "B", lambda i: (i // 4, i % 4), pad_value=0.0),
     "no block directly inside block root writes B"),
    (spaced, lambda s: s.transform_layout("C", "B", lambda i: (i // 4, i % 4), pad_value=0.0),
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
     "argument 'loop': block P is not under loop i; choose one of the loops around it"),
    (whole, lambda s: s.decompose_padding("P", loop(s, "P", 0)), "the condition of block P always holds, so it has no"),
    (shared, lambda s: (s.parallel(in_turns(s)), s.decompose_padding("P", loop(s, "P", 0))),
     "loop i_0 is parallel and holds more than block P; choose one of its inner loops"),
    (late, lambda s: s.decompose_padding("P", loop(s, "P", 0)),
     "block C may read what block P has not written yet in the same turn of loop i; choose one of its inner loops"),
    (shared, lambda s: s.decompose_border("P", in_turns(s)), "block P is not alone under loop i_0; choose one of its"),
]


def test_can_decompose_padding():
    sch = Schedule(bordered, seed=1)
    before = sch.rng.state
    assert sch.can_decompose_padding("P", loop(sch, "P", 0)) and sch.func is bordered
    other = Schedule(two_stages)
    assert not other.can_decompose_padding("C", loop(other, "C", 0)) and sch.rng.state == before
    assert len(other.trace) == 2

test_legal, test_refused = table_tests(LEGAL, REFUSED)
