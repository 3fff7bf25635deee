"""Odd programs that a random search once got wrong: steps on them keep the meaning, or are refused."""
import pytest

from ingot.ir.schedule import Schedule
from ingot.script import tir as T
from primitive_programs import wedge
from primitive_table import check_refused, loop
from schedule_programs import assert_same


@T.prim_func
def biased(A: T.Buffer((5, 7), "float32"), b: T.Buffer((5,), "float32"), C: T.Buffer((5,), "float32")):
    S = T.alloc_buffer((5,), "float32")
    for i in range(5):
        with T.block("S"):
            vi = T.axis.spatial(5, i)
            S[vi] = b[vi] * T.float32(2)
    for i, k in T.grid(5, 7):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = S[vi]
            C[vi] = C[vi] + A[vi, vk]


@T.prim_func
def nothing(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i, j in T.grid(4, 0):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi] = A[vi]


@T.prim_func
def matched(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
    for i in range(2):
        with T.block("C"):
            vi = T.axis.spatial(2, i)
            T.reads(B[vi * 4:vi * 4 + 4])
            T.writes(C[vi * 4:vi * 4 + 4])
            X = T.match_buffer(B[vi * 4:vi * 4 + 4], (4,), "float32")
            for j in range(4):
                C[vi * 4 + j] = X[3 - j]


@T.prim_func
def passed_on(A: T.Buffer((5, 6), "float32"), C: T.Buffer((5, 6), "float32")):
    S = T.alloc_buffer((6,), "float32")
    B = T.alloc_buffer((6,), "float32")
    for t in range(5):
        for i in range(6):
            with T.block("S"):
                vt, vi = T.axis.remap("SS", [t, i])
                S[vi] = A[vt, vi] * T.float32(2)
        for i in range(6):
            with T.block("B"):
                vi = T.axis.spatial(6, i)
                B[vi] = S[vi]
        for i in range(6):
            with T.block("C"):
                vt, vi = T.axis.remap("SS", [t, i])
                C[vt, vi] = B[vi] + B[5 - vi]


KEPT = {
    "split where a domain depends on the loop": (wedge, lambda s: s.split(loop(s, "C", 0), [None, 4])),
    "decompose_reduction of an init that reads": (biased, lambda s: s.decompose_reduction("C", loop(s, "C", 0))),
    "blockize of an init that reads": (biased, lambda s: s.blockize(loop(s, "C", 0))),
    "compute_inline into an init": (biased, lambda s: s.compute_inline("S")),
    "fuse with a loop that never runs": (nothing, lambda s: s.fuse(*s.get_loops("C"))),
    "set_scope of a buffer that is matched": (matched, lambda s: s.set_scope("B", 0, "local")),
    "cache_read of a buffer that is matched": (matched, lambda s: s.cache_read("C", 0, "local")),
}


@pytest.mark.parametrize("name", KEPT)
def test_kept(name):
    program, step = KEPT[name]
    sch = Schedule(program, debug_mask="all")
    step(sch)
    assert_same(program, sch.func)


def test_a_copy_of_what_passes_passes_too():
    """B has one value per element in each iteration of t alone: a block that reads it must stay in that turn."""
    check_refused(passed_on, lambda s: s.reverse_compute_at("C", loop(s, "B", 1)),
                  "block C may read values of B that are there in one turn of loop t alone")
