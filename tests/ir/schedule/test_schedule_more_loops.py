"""bind, add_unit_loop, rfactor and reorder_block_iter_var: what they make, numbers and refusals."""
import pytest

from ingot.ir import te
from ingot.ir.node import structural_equal
from ingot.ir.schedule import Schedule, ScheduleError
from schedule_programs import assert_same, loop_text, matmul, softmax_by_rows, stencil


def schedule(func):
    return Schedule(func, error_render_level="fast", debug_mask="all")


def replayed(func, sch):
    """The trace prints as Python that makes the same program."""
    other = Schedule(func)
    exec(str(sch.trace), {"sch": other})
    assert structural_equal(other.func, sch.func)


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
