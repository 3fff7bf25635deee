"""decompose_padding and decompose_border: structure, numbers, refusals and replay."""
import pytest

from ingot.ir import te, tir
from ingot.ir.node import structural_equal
from ingot.ir.schedule import Schedule
from schedule_programs import assert_same, padded


def schedule(func):
    return Schedule(func, error_render_level="fast", debug_mask="all")


def image(h=5, w=7, top=1, left=2):
    """P = A twice as large with a border, and a consumer that reads it."""
    a = te.placeholder((h, w), name="A")
    p = te.compute((h + 2 * top, w + 2 * left), lambda i, j: tir.if_then_else(
        tir.And(tir.And(i >= top, i < h + top), tir.And(left <= j, j - left < w)), a[i - top, j - left] * 2.0, -1.0),
        name="P")
    c = te.compute((h, w), lambda i, j: p[i, j] + p[i + 2 * top, j + 2 * left], name="C")
    return te.create_prim_func([a, c])


def replayed(func, sch):
    other = Schedule(func)
    exec(str(sch.trace), {"sch": other})
    assert structural_equal(other.func, sch.func)


def test_decompose_padding_of_a_split_loop():
    func = padded(11)
    sch = schedule(func)
    outer, inner = sch.split(sch.get_loops("P")[0], [None, 4])
    sch.decompose_padding("P", inner)
    assert_same(func, sch.func, exact=True)
    sch = schedule(func)
    outer, _ = sch.split(sch.get_loops("P")[0], [None, 4])
    sch.parallel(outer)
    sch.decompose_padding("P", outer)
    assert_same(func, sch.func, exact=True)


def test_decompose_border_has_no_side_where_nothing_is_padded():
    func = image(left=0)
    sch = schedule(func)
    assert len(sch.decompose_border("P", sch.get_loops("P")[0])) == 2
    assert_same(func, sch.func, exact=True)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_decompose_border_in_turns_that_run_at_once(rows):
    """Turns at the edge have sides, others do not; all write what they read."""
    func = image()
    sch = schedule(func)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, rows])
    sch.compute_at("P", outer)
    for side in sch.decompose_border("P", sch.get_loops("P")[1]):
        sch.vectorize(sch.get_loops(side)[-1])
    sch.parallel(outer)
    assert_same(func, sch.func, exact=True)
    replayed(func, sch)
