"""split, fuse, reorder, the loop kinds, bind and rfactor: what they make, and what they refuse."""
import pytest

from ingot.ir import te, tir
from ingot.ir.expr import const
from ingot.ir.node import Mutator
from ingot.ir.schedule import ScheduleError
from ingot.target import Target
from schedule_programs import (assert_same, elementwise, loop_text, matmul, padded, replayed, schedule, softmax,
                               softmax_by_rows, stencil, symbolic)


# ---------------------------------------------------------------- split


@pytest.mark.parametrize("shape", [(5, 7), (14, 14), (6, 10), (3, 4, 5)])
def test_parts_of_what_was_fused_are_apart(shape):
    """Also where the simplifier takes a fused loop's multiples of a dimension out of its remainder: (16 * a + b) % 14
    is (2 * a + b) % 14."""
    func = elementwise(shape)
    sch = schedule(func)
    _, inner = sch.split(sch.fuse(*sch.get_loops("C")), [None, 16])
    sch.vectorize(inner)
    assert_same(func, sch.func, exact=True)


def test_loops_of_a_symbolic_extent_are_fused_split_and_shared():
    func = symbolic()
    sch = schedule(func)
    outer, inner = sch.split(sch.fuse(*sch.get_loops("C")), [None, 16])
    assert sch.get(outer).loop_var.dtype == "int64"
    sch.parallel(outer)
    sch.vectorize(inner)
    for n in (1, 5):
        assert_same(func, sch.func, {"n": n}, exact=True)


def test_split_of_a_loop_that_does_not_start_at_zero():
    a = te.placeholder((12,), name="A")
    k = te.reduce_axis((3, 12), "k")
    func = te.create_prim_func([a, te.compute((2,), lambda i: te.sum(a[k] * (i + 1).astype("float32"), k), name="S")])
    sch = schedule(func)
    sch.split(sch.get_loops("S")[1], [None, 4])
    sch.fuse(*sch.get_loops("S")[:2])
    assert_same(func, sch.func)


# ---------------------------------------------------------------- reorder


def test_reorder_over_two_blocks_needs_independent_turns():
    func = stencil()
    sch = schedule(func)
    outer, inner = sch.split(sch.get_loops("C")[0], [None, 8])
    sch.compute_at("B", inner)
    sch.reorder(inner, outer)  # every iteration computes what it needs
    assert_same(func, sch.func)


# ---------------------------------------------------------------- kinds


def test_parallel_over_overlapping_producers_is_legal_when_they_are_private():
    func = stencil()
    sch = schedule(func)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 8])
    sch.compute_at("B", outer)
    sch.parallel(outer)
    assert_same(func, sch.func)


def test_parallel_over_what_two_blocks_write_is_legal_when_one_of_them_writes_all():
    """Zeros, then what lies between them: no iteration reads what another one wrote."""
    func = padded(12)
    sch = schedule(func)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_at("P", outer)
    sch.decompose_padding("P", sch.get_loops("P")[1])
    sch.parallel(outer)
    assert_same(func, sch.func)


# ---------------------------------------------------------------- the init of a reduction


def test_reverse_compute_at_refuses_to_make_an_init_late():
    func = softmax()
    sch = schedule(func)
    outer, inner = sch.split(sch.fuse(*sch.get_loops("T_exp")), [None, 6])
    sch.reorder(inner, outer)
    with pytest.raises(ScheduleError, match="runs spatial and reduce iterators of block T_sum together"):
        sch.reverse_compute_at("T_sum", outer)


# ---------------------------------------------------------------- bind


def test_moving_a_block_checks_bound_loops_again():
    sch = schedule(stencil())
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 8])
    sch.compute_at("B", outer)
    sch.bind(outer, "blockIdx.x")
    with pytest.raises(ScheduleError):
        sch.reverse_compute_at("C", sch.get_loops("B")[1])
    assert_same(stencil(), sch.func)


# ---------------------------------------------------------------- rfactor

@pytest.mark.parametrize("factor", [3, 4, 9])
@pytest.mark.parametrize("axis, dims", [(0, 0), (1, 1), (2, 2), (-1, 2), (-3, 0)])
def test_rfactor_of_the_inner_loop(factor, axis, dims):
    func = matmul(relu=True)
    sch = schedule(func)
    i, j, k = sch.get_loops("C")
    sch.split(j, [None, 5])
    sch.split(i, [1, None])
    ko, ki = sch.split(k, [None, factor])
    partial = sch.rfactor(ki, axis)
    assert sch.get(partial).name_hint == "C_rf"
    buffer = sch.get(partial).writes[0].buffer
    expected = [13, 22]
    expected.insert(dims, factor)
    assert buffer.name == "C_rf" and [int(e) for e in buffer.shape] == expected
    assert [iv.iter_type for iv in sch.get(partial).iter_vars] == ["spatial", "spatial", "spatial", "reduce"]
    assert [t.split(":")[0] for t in loop_text(sch, "C")] == ["i_0", "i_1", "j_0", "j_1", "k_1"]
    assert_same(func, sch.func)
    replayed(func, sch)


def test_rfactor_inside_shared_loops():
    func, sch, row = softmax_by_rows(debug_mask="all")
    sch.parallel(row)
    for name in ("T_sum", "T_max"):
        sch.rfactor(sch.split(sch.get_loops(name)[-1], [None, 4])[1])
    assert [sch.get(b).name_hint for b in sch.get_child_blocks(row)] == [
        "T_max_rf", "T_max", "T_exp", "T_sum_rf", "T_sum", "Y"]
    assert_same(func, sch.func)
    replayed(func, sch)


def test_rfactor_of_a_whole_reduction_and_of_products():
    a = te.placeholder((5, 7), name="A")
    k = te.reduce_axis((2, 7), "k")
    func = te.create_prim_func([a, te.compute((5,), lambda i: te.prod(a[i, k], k), name="P")])
    sch = schedule(func)
    sch.rfactor(sch.get_loops("P")[1])
    assert_same(func, sch.func)


def test_lengths_that_processors_have_divide():
    """128 is a multiple of 4 times each T.vscale() that there is on aarch64, of any that may be it is none."""
    func = elementwise((128,))
    parts = [tir.ceildiv(128, 4 * tir.vscale()), 4 * tir.vscale()]
    with Target("llvm -mtriple=aarch64-linux-gnu -mattr=+sve"):
        sch = schedule(func)
        sch.split(sch.get_loops("B")[0], parts, disable_predication=True)
        with pytest.raises(ScheduleError, match="are not proved to divide the extent 128"):
            sch.split(sch.get_loops("C")[0], [None, 12 * tir.vscale()], disable_predication=True)
    assert "T.where" not in sch.mod.script()
    for n in (1, 2, 4, 8, 16):
        assert_same(func, scale(sch.func, n))
    sch = schedule(func)
    with pytest.raises(ScheduleError, match="are not proved to divide the extent 128"):
        sch.split(sch.get_loops("B")[0], parts, disable_predication=True)


def scale(func, number):
    """The function for a T.vscale() that is a number."""
    class Scale(Mutator):
        def visit_Call(self, call):
            return const(number, call.dtype) if call.op == "tir.vscale" else self.generic_visit(call)
    return func.replace(body=Scale().visit(func.body))
