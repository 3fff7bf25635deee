"""bind, add_unit_loop, rfactor and reorder_block_iter_var: what they make, numbers and refusals."""
import pytest

from ingot.ir import te, tir
from ingot.ir.node import structural_equal
from ingot.ir.schedule import Schedule, ScheduleError
from schedule_programs import (assert_same, elementwise, loop_text, matmul, realize, repeated_sum,
                               softmax_by_rows, stencil)


def schedule(func):
    return Schedule(func, error_render_level="fast", debug_mask="all")


def replayed(func, sch):
    """The trace prints as Python that makes the same program."""
    other = Schedule(func)
    exec(str(sch.trace), {"sch": other})
    assert structural_equal(other.func, sch.func)


# ---------------------------------------------------------------- bind

def test_bind_runs_turns_on_threads():
    func = elementwise()
    sch = schedule(func)
    i, j = sch.get_loops("C")
    outer, inner = sch.split(j, [None, 8])
    sch.bind(i, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    assert [t.split(":")[2] for t in loop_text(sch, "C")] == ["thread_binding", "serial", "thread_binding"]
    assert sch.get(inner).thread_binding == "threadIdx.x"
    assert 'T.thread_binding(8, thread="threadIdx.x")' in sch.func.script()
    assert_same(func, sch.func, exact=True)
    replayed(func, sch)


def test_moving_a_block_checks_bound_loops_again():
    sch = schedule(stencil())
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 8])
    sch.compute_at("B", outer)
    sch.bind(outer, "blockIdx.x")
    with pytest.raises(ScheduleError):
        sch.reverse_compute_at("C", sch.get_loops("B")[1])
    assert_same(stencil(), sch.func)


# ---------------------------------------------------------------- add_unit_loop

def test_add_unit_loop_around_a_block_and_a_loop():
    func = elementwise()
    sch = schedule(func)
    u = sch.add_unit_loop("C")
    assert loop_text(sch, "C") == ["i0:5:serial", "i1:37:serial", "u:1:serial"] and sch.get(u).loop_var.name == "u"
    sch.add_unit_loop(sch.get_loops("B")[0])
    assert loop_text(sch, "B") == ["u:1:serial", "i0:5:serial", "i1:37:serial"]
    sch.fuse(*sch.get_loops("C"))
    assert_same(func, sch.func, exact=True)
    replayed(func, sch)


# ---------------------------------------------------------------- reorder_block_iter_var

def test_reorder_block_iter_var():
    func = matmul()
    sch = schedule(func)
    sch.reorder_block_iter_var("C", [2, 0, 1])
    block = realize(sch, "C")
    assert [iv.var.name for iv in block.block.iter_vars] == ["v_k", "v_i", "v_j"]
    assert [str(v) for v in block.iter_values] == ["k", "i", "j"]
    assert_same(func, sch.func, exact=True)
    replayed(func, sch)


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [1, 2, 3]])
def test_reorder_block_iter_var_refuses(order):
    with pytest.raises(ScheduleError, match="is not an order of the 3 iterators of block C; give each position once"):
        schedule(matmul()).reorder_block_iter_var("C", order)


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


def test_rfactor_then_parallel_and_decompose():
    func = matmul(relu=True)
    sch = schedule(func)
    ko, _ = sch.split(sch.get_loops("C")[2], [None, 3])
    partial = sch.rfactor(ko)
    sch.parallel(sch.get_loops(partial)[2])
    sch.decompose_reduction(partial, sch.get_loops(partial)[3])
    sch.reverse_compute_at("D", sch.get_loops("C")[1])
    assert_same(func, sch.func)


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


def biased():
    """C starts from a bias instead of 0."""
    func = matmul()
    block = func.root.body.body.body.body.block
    init = block.init.replace(value=tir.const(1.0))

    def rebuild(stmt):
        if isinstance(stmt, tir.For):
            return stmt.replace(body=rebuild(stmt.body))
        return stmt.replace(block=block.replace(init=init))

    return func.with_root_body(rebuild(func.root.body))


@pytest.mark.parametrize("program, pick, message", [
    (matmul, lambda s: s.get_loops("C")[0], "loop i does not run reduce iterators of block C alone"),
    (elementwise, lambda s: s.get_loops("C")[0], "block C is no reduction block: it has no init statement"),
    (biased, lambda s: s.get_loops("C")[2], "its init .*1.0.* is not the neutral element"),
    (repeated_sum, lambda s: s.get_loops("S")[1], "several of its turns may run one instance"),
])
def test_rfactor_refuses(program, pick, message):
    sch = schedule(program())
    with pytest.raises(ScheduleError, match="rfactor: argument 'loop': .*" + message):
        sch.rfactor(pick(sch))


def test_rfactor_refuses_other_loops_and_axes():
    sch = schedule(matmul(relu=True))
    i, j, k = sch.get_loops("C")
    with pytest.raises(ScheduleError, match="argument 'factor_axis': 3 is not between -3 and 2; buffer C has 2 dimens"):
        sch.rfactor(k, 3)
    with pytest.raises(ScheduleError, match="some turns of loop k_1 may have no term, because block C runs only where"):
        sch.rfactor(sch.split(k, [None, 12])[1])
    sch = schedule(matmul(relu=True))
    sch.reverse_compute_at("D", sch.get_loops("C")[1])
    with pytest.raises(ScheduleError, match="loop i holds 2 blocks"):
        sch.rfactor(sch.get_loops("C")[0])
    sch.rfactor(sch.get_loops("C")[2])
    assert_same(matmul(relu=True), sch.func)
    sch = schedule(matmul(relu=True))
    i, j, k = sch.get_loops("C")
    sch.decompose_reduction("C", k)
    with pytest.raises(ScheduleError, match="block C_update is no reduction block"):
        sch.rfactor(k)
