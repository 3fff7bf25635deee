"""loop_partition, merge, reindex_cache_read, reindex_cache_write, unsafe_set_dtype, annotate_buffer_access."""
import numpy as np
import pytest

from ingot.ir.schedule import Schedule, ScheduleError
from ingot.script import tir as T
from primitive_table import refusal
from schedule_programs import assert_same, matmul, replayed


@T.prim_func
def two(A: T.Buffer((12, 8), "float32"), C: T.Buffer((12, 8), "float32"), D: T.Buffer((12, 8), "float32")):
    B = T.alloc_buffer((12, 8), "float32")
    for i, j in T.grid(12, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(12, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0
    for i, j in T.grid(12, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[11 - vi, vj] + C[vi, vj]


@T.prim_func
def resized(A: T.Buffer((8, 8), "float32"), B: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[0:8, 0:8])
            T.writes(B[vi, vj])
            B[vi, vj] = A[T.Cast("int32", T.floor(T.Cast("float32", vi) * 2.0 + 0.5)), vj * 2]


def loops(sch, block):
    return sch.get_loops(sch.get_block(block))


def done(func, step):
    """The Schedule after a step, whose result computes the same and whose trace replays."""
    sch = Schedule(func, error_render_level="fast")
    step(sch)
    assert_same(func, sch.func)
    replayed(func, sch)
    return sch


def test_loop_partition():
    sch = done(two, lambda s: s.loop_partition(loops(s, "C")[0], [3, None, 2]))
    assert [sch.get(n).name_hint for n in sch.get_child_blocks("C_i_common")] == [
        "C_i0_partition", "C_i1_partition", "C_i2_partition"]
    ranges = [(sch.get(loops(sch, f"C_i{n}")[0]).min.value, sch.get(loops(sch, f"C_i{n}")[0]).extent.value)
              for n in range(3)]
    assert ranges == [(0, 3), (3, 7), (10, 2)]

    def further(s):
        s.loop_partition(loops(s, "C")[1], [4])
        s.vectorize(loops(s, "C_j1")[-1])
    done(two, further)


@T.prim_func
def near_and_far(A: T.Buffer((4, 3), "float32"), D: T.Buffer((4, 3), "float32")):
    B, C = T.alloc_buffer((4, 3)), T.alloc_buffer((4, 3))
    for i in range(4):
        for j in range(3):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1.0
        for j in range(3):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] * 2.0
    for i, j in T.grid(4, 3):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] + C[vi, vj]


def test_merge():
    sch = done(two, lambda s: s.merge(loops(s, "B")[1], loops(s, "C")[1]))
    outer, inner = loops(sch, "C")
    assert loops(sch, "B") and sch.get(outer).loop_var.name == "i_m" and sch.get(inner).loop_var.name == "j_m"
    assert len(done(two, lambda s: s.merge(loops(s, "B")[0], loops(s, "C")[0])).get_child_blocks("root")) == 3


def test_reindex_cache():
    sch = done(two, lambda s: s.reindex_cache_read("C", 0, "local", lambda i, j: (j, i // 3, i % 3)))
    assert [n.value for n in sch.get(sch.get_block("B_local")).writes[0].buffer.shape] == [8, 4, 3]
    sch = done(two, lambda s: s.reindex_cache_write("B", 0, "local", lambda i, j: (j, i)))
    assert [n.value for n in sch.get(sch.get_block("B_local")).reads[0].buffer.shape] == [8, 12]
    done(matmul(), lambda s: s.reindex_cache_write("C", 0, "local", lambda i, j, k: (j, i)))
    done(near_and_far, lambda s: s.reindex_cache_write("B", 0, "local", lambda i, j: (j, i)))


def test_set_dtype():
    sch = Schedule(two)
    sch.unsafe_set_dtype("B", 0, "float64")
    assert_same(two, sch.func)
    half = Schedule(two)
    half.unsafe_set_dtype("B", 0, "float16")
    assert half.get(half.get_block("C")).reads[0].buffer.dtype == "float16"
    replayed(two, half)


def test_annotate_buffer_access():
    def wide(i, j):
        return (i * 2 - 1, i * 2 + 2), j * 2
    sch = done(resized, lambda s: s.annotate_buffer_access("B", 0, "read", wide))
    block = sch.get(sch.get_block("B"))
    assert block.annotations == {"explicit_read_region": (0,)} and block.reads[0].region[0].extent.value == 3

    def moved(s):
        s.cache_read("B", 0, "local")
        s.annotate_buffer_access("B", 0, "read", wide)
        s.compute_at("A_local", loops(s, "B")[0])
    at = done(resized, moved)
    assert np.prod([at.get(x).extent.value for x in loops(at, "A_local")]) == 4 * 3 * 7


@pytest.mark.parametrize("program, step, message", [
    (two, lambda s: s.loop_partition(loops(s, "C")[0], [13]), "[13] add up to 13, but loop i runs 12 times"),
    (two, lambda s: s.loop_partition(loops(s, "C")[0], [None, None]), "must be positive numbers, at most one"),
    (matmul(), lambda s: s.loop_partition(loops(s, "C")[2], [2]), "block C reduces over loop k, and would begin anew"),
    (two, lambda s: s.merge(loops(s, "B")[0], loops(s, "D")[0]), "do not follow one another directly"),
    (two, lambda s: s.merge(*(loops(s, b)[0] for b in "BCD")), "is not proved to write all of B that block D reads"),
    (two, lambda s: s.merge(loops(s, "B")[0], loops(s, "C")[1]), "do not lie at the same depth"),
    (two, lambda s: s.reindex_cache_read("C", 0, "local", lambda i, j: (i,)), "not proved to give different places"),
    (two, lambda s: s.reindex_cache_write("B", 0, "local", lambda i, j: (i + j,)), "not proved to give different"),
    (two, lambda s: s.unsafe_set_dtype("C", 0, "float16"), "buffer C is a parameter, whose type is the caller's"),
    (two, lambda s: s.unsafe_set_dtype("B", 0, "float12"), "'float12' is no type of numbers"),
    (two, lambda s: s.annotate_buffer_access("C", 0, "read", lambda i, j: (i + 1, j)), "not proved to access B at vi"),
    (resized, lambda s: s.annotate_buffer_access("B", 0, "read", lambda i, j: (i * 2, j * 2)),
     "not proved to access A"),
    (two, lambda s: s.annotate_buffer_access("C", 0, "both", lambda i, j: (i, j)), 'must be "read" or "write"'),
])
def test_refused(program, step, message):
    error = refusal(program, step)
    assert isinstance(error, ScheduleError) and message in str(error)
