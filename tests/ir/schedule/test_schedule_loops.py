"""split, fuse, reorder and the loop kinds: what they make, and what they refuse."""
import pytest

from ingot.ir import te, tir
from ingot.ir.schedule import Schedule, ScheduleError
from schedule_programs import (assert_same, elementwise, loop_text, matmul, padded, realize, repeated_sum,
                               running_sum, softmax, softmax_by_rows, stencil, symbolic)


def schedule(func):
    return Schedule(func, error_render_level="fast", debug_mask="all")


# ---------------------------------------------------------------- split

def test_split_that_divides_adds_no_condition():
    func = elementwise((4, 32))
    sch = schedule(func)
    _, j = sch.get_loops("C")
    outer, inner = sch.split(j, [None, 8])
    assert loop_text(sch, "C") == ["i0:4:serial", "i1_0:4:serial", "i1_1:8:serial"]
    assert sch.get(outer).loop_var.name == "i1_0" and sch.get(inner).loop_var.name == "i1_1"
    assert str(realize(sch, "C").iter_values[1]) == "i1_0 * 8 + i1_1"
    assert int(realize(sch, "C").predicate) == 1
    assert_same(func, sch.func, exact=True)


def test_split_that_does_not_divide_guards_the_block():
    func = elementwise()
    sch = schedule(func)
    sch.split(sch.get_loops("C")[1], [None, 4, 4])
    assert loop_text(sch, "C")[1:] == ["i1_0:3:serial", "i1_1:4:serial", "i1_2:4:serial"]
    assert str(realize(sch, "C").predicate) == "i1_0 * 16 + i1_1 * 4 + i1_2 < 37"
    assert_same(func, sch.func, exact=True)


@pytest.mark.parametrize("shape", [(5, 7), (14, 14), (6, 10)])
def test_parts_of_what_was_fused_are_apart(shape):
    """Also where the simplifier takes a fused loop's multiples of a dimension out of its remainder: (16 * a + b) % 14 is
    (2 * a + b) % 14."""
    func = elementwise(shape)
    sch = schedule(func)
    _, inner = sch.split(sch.fuse(*sch.get_loops("C")), [None, 16])
    sch.vectorize(inner)
    assert_same(func, sch.func, exact=True)


def test_split_conditions_add_up():
    func = elementwise()
    sch = schedule(func)
    i, j = sch.get_loops("C")
    sch.split(i, [2, None])
    outer, inner = sch.split(j, [None, 10])
    sch.split(inner, [3, 4])
    assert_same(func, sch.func, exact=True)


def test_split_with_all_factors_may_overshoot():
    func = elementwise()
    sch = schedule(func)
    sch.split(sch.get_loops("C")[1], [8, 5])
    assert_same(func, sch.func, exact=True)


@pytest.mark.parametrize("preserve, text", [(True, "i1_0 * 8 + i1_1 + i1_2"), (False, "i1_0 * 8 + i1_1")])
def test_split_keeps_unit_iterators_on_request(preserve, text):
    sch = schedule(elementwise((4, 32)))
    sch.split(sch.get_loops("C")[1], [None, 8, 1], preserve_unit_iters=preserve)
    assert len(sch.get_loops("C")) == 4
    assert str(realize(sch, "C").iter_values[1]).replace("(", "").replace(")", "") == text


def test_split_of_a_symbolic_loop():
    func = symbolic()
    sch = schedule(func)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    assert sch.get(outer).loop_var.dtype == "int64"
    for n in (1, 4, 7):
        assert_same(func, sch.func, {"n": n}, exact=True)


def test_split_of_a_loop_that_does_not_start_at_zero():
    a = te.placeholder((12,), name="A")
    k = te.reduce_axis((3, 12), "k")
    func = te.create_prim_func([a, te.compute((2,), lambda i: te.sum(a[k] * (i + 1).astype("float32"), k), name="S")])
    sch = schedule(func)
    sch.split(sch.get_loops("S")[1], [None, 4])
    sch.fuse(*sch.get_loops("S")[:2])
    assert_same(func, sch.func)


@pytest.mark.parametrize("factors, message", [
    ([None, None, 2], "more than one None"), ([4, 0], "not positive"), ([4, -2], "not positive"),
    ([3, 4], "the product of [3, 4] is 12, not proved to reach the extent 37 of loop i1"), ([], "is empty"),
    ("ab", "must be a list of ints with at most one None"), ([2.5], "must be a list of ints"), ([True], "must be"),
])
def test_split_refuses_bad_factors(factors, message):
    sch = schedule(elementwise())
    with pytest.raises(ScheduleError, match="split: argument 'factors': ") as caught:
        sch.split(sch.get_loops("C")[1], factors)
    assert message in str(caught.value)


def test_split_and_fuse_refuse_annotated_loops():
    sch = schedule(elementwise())
    i, j = sch.get_loops("C")
    sch.annotate(j, "pragma", 1)
    with pytest.raises(ScheduleError, match=r"loop i1 has annotations \['pragma'\], which would be lost"):
        sch.split(j, [None, 2])
    with pytest.raises(ScheduleError, match="would be lost"):
        sch.fuse(i, j)
    sch.unannotate(j, "pragma")
    sch.fuse(i, j)


# ---------------------------------------------------------------- fuse

def test_fuse_and_split_again():
    func = elementwise()
    sch = schedule(func)
    fused = sch.fuse(*sch.get_loops("C"))
    assert loop_text(sch, "C") == ["i0_i1_fused:185:serial"]
    assert [str(v) for v in realize(sch, "C").iter_values] == ["i0_i1_fused // 37", "i0_i1_fused % 37"]
    sch.split(fused, [None, 16])
    assert_same(func, sch.func, exact=True)


def test_fuse_with_a_symbolic_extent():
    func = symbolic()
    sch = schedule(func)
    sch.parallel(sch.fuse(*sch.get_loops("C")))
    for n in (1, 5):
        assert_same(func, sch.func, {"n": n}, exact=True)


# ---------------------------------------------------------------- reorder

def test_reorder_moves_reduction_outward():
    func = matmul()
    sch = schedule(func)
    i, j, k = sch.get_loops("C")
    sch.reorder(k, j, i)
    assert [t.split(":")[0] for t in loop_text(sch, "C")] == ["k", "j", "i"]
    assert_same(func, sch.func)


def test_reorder_leaves_other_loops_in_place():
    func = matmul()
    sch = schedule(func)
    i, j, k = sch.get_loops("C")
    sch.reorder(k, i)
    assert [t.split(":")[0] for t in loop_text(sch, "C")] == ["k", "j", "i"]
    sch.reorder(j)
    assert_same(func, sch.func)


def test_reorder_after_splits_that_do_not_divide():
    func = matmul()
    sch = schedule(func)
    i, j, k = sch.get_loops("C")
    (io, ii), (jo, ji), (ko, ki) = sch.split(i, [None, 4]), sch.split(j, [None, 8]), sch.split(k, [None, 2])
    sch.reorder(jo, io, ko, ii, ki, ji)
    assert_same(func, sch.func)


def test_reorder_over_two_blocks_needs_independent_turns():
    func = stencil()
    sch = schedule(func)
    outer, inner = sch.split(sch.get_loops("C")[0], [None, 8])
    sch.compute_at("B", inner)
    sch.reorder(inner, outer)  # every turn computes what it needs
    assert_same(func, sch.func)


def test_reorder_refuses_to_repeat_a_reduction():
    """Loop `r` repeats the sum as a whole; inside the reduction it would repeat every term."""
    func = repeated_sum()
    sch = schedule(func)
    r, k = sch.get_loops("S")
    with pytest.raises(ScheduleError, match="several of its turns may run one instance"):
        sch.reorder(k, r)
    with pytest.raises(ScheduleError, match="several of its turns may run one instance"):
        sch.decompose_reduction("S", r)


def test_reorder_refuses_a_block_that_reads_its_neighbours():
    sch = schedule(running_sum())
    i, j = sch.get_loops("R")
    with pytest.raises(ScheduleError, match="reads other elements of B than it writes"):
        sch.reorder(j, i)
    with pytest.raises(ScheduleError, match="not proved to touch different parts of B"):
        sch.parallel(j)
    sch.parallel(i)


def test_reorder_refuses_dependent_ranges():
    sch = schedule(triangle())
    i, j = sch.get_loops("T")
    with pytest.raises(ScheduleError, match="the range of loop j depends on a loop that would be inside it"):
        sch.reorder(j, i)
    with pytest.raises(ScheduleError, match="depends on a loop it would be fused with"):
        sch.fuse(i, j)


def triangle():
    b = tir.decl_buffer((5, 5), name="B")
    i, j, vi, vj = (tir.Var(n) for n in ("i", "j", "vi", "vj"))
    iters = tuple(tir.IterVar(tir.Range(tir.const(0), tir.const(5)), v, "spatial") for v in (vi, vj))
    block = tir.Block(iters, (), (b[vi:vi + 1, vj:vj + 1],), "T", (), (), {}, None,
                      tir.BufferStore(b, tir.const(1.0), (vi, vj)))
    inner = tir.For(j, tir.const(0), i + 1, "serial", tir.BlockRealize((i, j), tir.const(True), block))
    return tir.prim_func([b], tir.for_(i, 5, inner))


# ---------------------------------------------------------------- kinds

def test_kinds_of_loops():
    func = matmul()
    sch = schedule(func)
    i, j, k = sch.get_loops("C")
    jo, ji = sch.split(j, [None, 8])
    sch.reorder(i, jo, k, ji)
    sch.parallel(i)
    sch.vectorize(ji)
    sch.unroll(k)
    assert [t.split(":")[2] for t in loop_text(sch, "C")] == ["parallel", "serial", "unrolled", "vectorized"]
    assert_same(func, sch.func)


@pytest.mark.parametrize("primitive", ["parallel", "vectorize"])
def test_reduction_loops_cannot_run_at_once(primitive):
    sch = schedule(matmul())
    with pytest.raises(ScheduleError, match=primitive + ": argument 'loop': loop k runs the reduce iterator v_k of "
                       "block C; its turns work on the same element"):
        getattr(sch, primitive)(sch.get_loops("C")[2])


def test_parallel_over_overlapping_producers_is_legal_when_they_are_private():
    func = stencil()
    sch = schedule(func)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 8])
    sch.compute_at("B", outer)
    sch.parallel(outer)
    assert_same(func, sch.func)


def test_parallel_over_what_two_blocks_write_is_legal_when_one_of_them_writes_all():
    """Zeros, then what lies between them: no turn reads what another one wrote."""
    func = padded(12)
    sch = schedule(func)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_at("P", outer)
    sch.decompose_padding("P", sch.get_loops("P")[1])
    sch.parallel(outer)
    assert_same(func, sch.func)


def test_parallel_refuses_two_turns_that_write_one_element():
    sch = schedule(repeated_sum())
    with pytest.raises(ScheduleError, match="the turns of loop r are not proved to touch different parts of S"):
        sch.parallel(sch.get_loops("S")[0])


def test_parallel_over_rows_of_softmax():
    func, sch, row = softmax_by_rows(debug_mask="all")
    sch.parallel(row)
    assert_same(func, sch.func)


# ---------------------------------------------------------------- the init of a reduction

def test_reorder_refuses_to_make_an_init_late():
    """After fusing k with j, a turn of the inner loop can hold another term of an element before its first."""
    func = matmul(5, 7, 4)
    sch = schedule(func)
    i, j, k = sch.get_loops("C")
    sch.reorder(k, j, i)
    outer, inner = sch.split(sch.fuse(k, j, i), [None, 4])
    with pytest.raises(ScheduleError, match="loop k_j_i_fused_0 runs spatial and reduce iterators of block C together, "
                       "so its init might come late; decompose_reduction first"):
        sch.reorder(inner, outer)
    sch.decompose_reduction("C", outer)
    sch.reorder(inner, outer)
    assert_same(func, sch.func)


def test_reverse_compute_at_refuses_to_make_an_init_late():
    func = softmax()
    sch = schedule(func)
    outer, inner = sch.split(sch.fuse(*sch.get_loops("T_exp")), [None, 6])
    sch.reorder(inner, outer)
    with pytest.raises(ScheduleError, match="runs spatial and reduce iterators of block T_sum together"):
        sch.reverse_compute_at("T_sum", outer)
