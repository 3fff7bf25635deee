"""annotate, unannotate, sampling, enter_postproc: structure and numbers, every refusal; and what queries give."""
import pytest

from ingot.ir.schedule import Schedule
from ingot.script import tir as T
from primitive_programs import doubled, matmul_relu, nests, rows, two_stages
from primitive_table import loop, table_tests
from schedule_programs import softmax


never = nests("A[5], B[5]", "i 0: B[i] = A[i]")


@T.prim_func
def said_more(A: T.Buffer((4,), "float32"), at: T.Buffer((4,), "int32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi], at[vi])
            T.writes(B[vi])
            B[vi] = A[vi]


LEGAL = {
    "annotate": (
        doubled, lambda s: (s.annotate(loop(s, "B", 0), "pragma_note", 1), s.annotate("B", "kind", ["a", 2])), """
        for i in T.serial(5, annotations={"pragma_note": 1}):
            for j in range(22):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.block_attr({"kind": ("a", 2)})
                    B[vi, vj] = A[vi, vj] * T.float32(2.0)"""),
    "unannotate": (
        doubled, lambda s: (s.annotate(loop(s, "B", 0), "one", 1), s.annotate(loop(s, "B", 0), "two", 2),
                            s.unannotate(loop(s, "B", 0), "one")), """
        for i in T.serial(5, annotations={"two": 2}):
            for j in range(22):
                block B"""),
    "sample_perfect_tile feeds split": (
        doubled, lambda s: s.split(loop(s, "B", 1), s.sample_perfect_tile(loop(s, "B", 1), n=2, decision=[2, 11])), """
        for i, j_0, j_1 in T.grid(5, 2, 11):
            with T.block("B"):
                vi = T.axis.spatial(5, i)
                vj = T.axis.spatial(22, j_0 * 11 + j_1)
                B[vi, vj] = A[vi, vj] * T.float32(2.0)"""),
    "sample_perfect_tile of a symbolic loop leaves it whole": (
        rows, lambda s: s.split(loop(s, "C", 0), s.sample_perfect_tile(loop(s, "C", 0), n=3)), """
        for i_0, i_1, i_2, j in T.grid(n, 1, 1, 6):
            with T.block("C"):
                vi = T.axis.spatial(n, i_0 + i_1 + i_2)
                vj = T.axis.spatial(6, j)
                C[vi, vj] = A[vi, vj] + T.float32(1.0)"""),
    "sample_categorical feeds annotate": (
        doubled, lambda s: s.annotate(
            "B", "unroll", s.sample_categorical([0, 16, 64], [0.5, 0.25, 0.25], decision=1)), """
        for i, j in T.grid(5, 22):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.block_attr({"unroll": 16})
                B[vi, vj] = A[vi, vj] * T.float32(2.0)"""),
    "sample_compute_location feeds compute_at": (
        two_stages, lambda s: s.compute_at("B", s.sample_compute_location("B", decision=0)), """
        B = T.alloc_buffer((5, 22), "float32")
        for i in range(5):
            for ax0 in range(22):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, ax0])
                    B[vi, vj] = A[vi, vj] * T.float32(2.0)
            for j in range(22):
                block C"""),
    "unsafe_hide_buffer_access": (
        said_more, lambda s: s.unsafe_hide_buffer_access("B", "read", [1]), """
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                T.reads(A[vi])
                T.writes(B[vi])
                B[vi] = A[vi]"""),
    "enter_postproc": (doubled, lambda s: s.enter_postproc(), """
        nest B"""),
}

REFUSED = [
    (said_more, lambda s: s.unsafe_hide_buffer_access("B", "read", [1, 0]),
     "unsafe_hide_buffer_access: argument 'buf_index_array': block B reads A; only what its body leaves alone can be"),
    (said_more, lambda s: s.unsafe_hide_buffer_access("B", "write", [1]),
     "1 is not a position among the writes of block B; it has 1: B"),
    (doubled, lambda s: s.annotate("B", "pragma_thread_rows", "many"),
     "annotate: argument 'ann_val':"),
    (doubled, lambda s: s.unannotate("B", "kind"),
     "unannotate: argument 'ann_key': there is no annotation 'kind'; there"),
    (doubled, lambda s: s.sample_categorical([1, 2], [1.0]),
     "sample_categorical: argument 'probs': there are 2 candidates and 1 probabilities; give one for each"),
    (doubled, lambda s: s.sample_categorical([1, 2], [0.5, 0.6]), "[0.5, 0.6] are no probabilities; they must not be"),
    (doubled, lambda s: s.sample_categorical([1, 2], [0.5, 0.5], decision=2),
     "argument 'decision': 2 is not a position among 2 candidates"),
    (doubled, lambda s: s.sample_perfect_tile(loop(s, "B", 1), n=0), "argument 'n': 0 is not positive"),
    (rows, lambda s: s.sample_perfect_tile(loop(s, "C", 0), n=2, decision=[2, 3]),
     "argument 'decision': the extent of loop i is n, not a constant; give split the factors"),
    (rows, lambda s: s.sample_perfect_tile(loop(s, "C", 0), n=2) and s.get(s.trace.insts[-1].outputs[0] * 2),
     "is to infer is no number yet"),
    (doubled, lambda s: s.sample_perfect_tile(loop(s, "B", 1), n=2, max_innermost_factor=-2),
     "argument 'max_innermost_factor': -2 is not positive"),
    (doubled, lambda s: s.sample_partitioned_tile(loop(s, "B", 1), 2, 3),
     "argument 'partition_pos': 3 is no position among 2 factors"),
    (doubled, lambda s: s.sample_partitioned_tile(loop(s, "B", 1), 2, 1, 0),
     "argument 'innerpart_factor': 0 is not positive"),
    (doubled, lambda s: s.sample_partitioned_tile(loop(s, "B", 1), 2, 2, 11),
     "argument 'partition_pos': no factor is behind position 2, and 11 must divide their product; choose a smaller"),
    (never, lambda s: s.sample_perfect_tile(loop(s, "B", 0), n=2), "the extent 0 of loop i has no factors"),
    (doubled, lambda s: s.sample_perfect_tile(loop(s, "B", 1), n=1, max_innermost_factor=4),
     "argument 'max_innermost_factor': extent 22 of loop j is no single factor of at most 4; ask for more factors"),
    (doubled, lambda s: s.sample_perfect_tile(loop(s, "B", 1), n=2, decision=[3, 4]),
     "argument 'decision': [3, 4] is not 2 factors of extent 22"),
    (two_stages, lambda s: s.sample_compute_location("B", decision=5),
     "argument 'decision': 5 is not a loop of block B's first consumer; it has 2; -1 is the root, -2 inlines"),
    (two_stages, lambda s: s.get_block("Z"),
     "get_block: Cannot find a block with the specified name, 'Z'; function main has root, B"),
    (two_stages, lambda s: s.get_producers("root"), "block root is the root block; name a block inside it"),
]

test_legal, test_refused = table_tests(LEGAL, REFUSED)


# ---------------------------------------------------------------- queries

def names(sch, handles):
    return [sch.get(b).name_hint for b in handles]


@pytest.mark.parametrize("query, block, found", [
    ("get_child_blocks", "root", ["T_max", "T_exp", "T_sum", "Y"]), ("get_child_blocks", "Y", []),
    ("get_producers", "Y", ["T_exp", "T_sum"]), ("get_producers", "T_max", []),
    ("get_consumers", "T_exp", ["T_sum", "Y"]), ("get_consumers", "Y", []), ("get_output_blocks", "root", ["Y"]),
])
def test_block_queries(query, block, found):
    sch = Schedule(softmax())
    assert names(sch, getattr(sch, query)(sch.get_block(block))) == found


def test_loop_queries():
    sch = Schedule(matmul_relu)
    assert [sch.get(each).loop_var.name for each in sch.get_loops(sch.get_block("C"))] == ["i", "j", "k"]
    sch.reverse_compute_at("D", loop(sch, "C", 1))
    assert names(sch, sch.get_child_blocks(loop(sch, "C", 0))) == ["C", "D"]
    assert [sch.get(each).loop_var.name for each in sch.get_loops(sch.get_block("D"))] == ["i", "j"]
