"""decompose_padding and decompose_border: structure, numbers, refusals and replay."""
import pytest

from ingot.ir import te, tir
from ingot.ir.node import structural_equal
from ingot.ir.schedule import Schedule, ScheduleError
from schedule_programs import assert_same, elementwise, guarded, loop_text, padded, realize


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


def test_decompose_padding_at_the_outermost_loop():
    func = image()
    sch = schedule(func)
    border = sch.decompose_padding("P", sch.get_loops("P")[0])
    assert sch.get(border).name_hint == "P_pad_const"
    assert loop_text(sch, border) == ["i:7:serial", "j:11:serial"]
    assert loop_text(sch, "P") == ["ax0:5:serial", "ax1:7:serial"]
    assert "P[v_i + 1, v_j + 2] = A[v_i, v_j] * T.float32(2.0)" in sch.func.script()
    assert_same(func, sch.func, exact=True)
    sch.parallel(sch.get_loops(border)[0])
    sch.vectorize(sch.get_loops("P")[1])
    assert_same(func, sch.func, exact=True)
    replayed(func, sch)


def test_decompose_padding_at_an_inner_loop():
    func = image()
    sch = schedule(func)
    border = sch.decompose_padding("P", sch.get_loops("P")[1])
    assert loop_text(sch, border) == ["i:7:serial", "j:11:serial"]
    assert loop_text(sch, "P") == ["i:7:serial", "ax0:7:serial"]
    assert str(realize(sch, "P").predicate) == "i - 1 >= 0 and i < 6"
    assert_same(func, sch.func, exact=True)


def test_decompose_padding_in_a_turn_of_its_reader():
    """The inside alone is less than the reader needs; the border before it is all of that."""
    func = image()
    sch = schedule(func)
    sch.compute_at("P", sch.get_loops("C")[0])
    border = sch.decompose_padding("P", sch.get_loops("P")[-1])
    outer = [sch.get(sch.get_loops(block)[0]).loop_var for block in (border, "P", "C")]
    assert outer[0] is outer[1] is outer[2]
    assert_same(func, sch.func, exact=True)
    replayed(func, sch)


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


def test_decompose_padding_keeps_what_comes_before_and_after():
    func = guarded()
    sch = schedule(func)
    sch.decompose_padding("P", sch.get_loops("P")[0])
    sch.compute_inline("A2")
    assert_same(func, sch.func, exact=True)


def test_decompose_border_writes_each_side_once():
    """Columns along all rows, rows along the columns inside."""
    func = image()
    sch = schedule(func)
    sides = sch.decompose_border("P", sch.get_loops("P")[0])
    assert [loop_text(sch, side) for side in sides] == [
        ["ax0:7:serial", "ax1:2:serial"], ["ax0:7:serial", "ax1:2:serial"],
        ["ax0:1:serial", "ax1:7:serial"], ["ax0:1:serial", "ax1:7:serial"]]
    assert loop_text(sch, "P") == ["ax0:5:serial", "ax1:7:serial"]
    assert_same(func, sch.func, exact=True)
    replayed(func, sch)


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


def diagonal():
    a = te.placeholder((4, 4), name="A")
    return te.create_prim_func([a, te.compute((4, 4), lambda i, j: tir.if_then_else(i <= j, a[i, j], 0.0), name="P")])


def never():
    a = te.placeholder((4,), name="A")
    return te.create_prim_func([a, te.compute((4,), lambda i: tir.if_then_else(tir.And(i >= 3, i < 2), a[i], 0.0),
                                              name="P")])


@pytest.mark.parametrize("program, block, message", [
    (elementwise, "C", "block C does not store if_then_else"),
    (diagonal, "P", "the condition .* of block P gives no iterator a range of its own"),
    (never, "P", "the condition .* of block P may never hold"),
])
def test_decompose_padding_refuses(program, block, message):
    sch = schedule(program())
    with pytest.raises(ScheduleError, match="decompose_padding: argument 'block': " + message):
        sch.decompose_padding(block, sch.get_loops(block)[0])


def test_decompose_padding_refuses_loops_that_hold_more():
    sch = schedule(image())
    i, j = sch.get_loops("C")
    with pytest.raises(ScheduleError, match="argument 'loop': block P is not alone under loop i; choose one of its"):
        sch.decompose_padding("P", i)
    sch.compute_at("P", j)
    with pytest.raises(ScheduleError, match="block P is not alone under loop j"):
        sch.decompose_padding("P", j)
