"""rolling_buffer: structure, numbers before and after lowering, what stays legal, refusals."""
import pytest

from ingot.ir import te, tir
from ingot.ir.node import structural_equal
from ingot.ir.schedule import ScheduleError
from ingot.ir.transform.pipeline import lower_prim_func
from schedule_programs import assert_same, elementwise, realize, schedule, stencil


def pool_pair(h=11, w=13):
    a = te.placeholder((h, w), name="A")
    axes = [te.reduce_axis((0, 3), n) for n in ("di", "dj", "ei", "ej")]
    b = te.compute((h - 2, w - 2), lambda i, j: te.max(a[i + axes[0], j + axes[1]], axes[:2]), name="B")
    c = te.compute((h - 4, w - 4), lambda i, j: te.max(b[i + axes[2], j + axes[3]], axes[2:]), name="C")
    return te.create_prim_func([a, c])


def tiled(func, rows, columns):
    """C in tiles, B under the tile loops."""
    sch = schedule(func)
    i, j, *rest = sch.get_loops("C")
    (io, ii), (jo, ji) = sch.split(i, [None, rows]), sch.split(j, [None, columns])
    sch.reorder(io, jo, ii, ji, *rest)
    sch.compute_at("B", jo)
    return sch, io, jo


def check(func, sch):
    assert_same(func, sch.func, exact=True)
    assert_same(func, lower_prim_func(sch.func), exact=True)
    again = schedule(func)
    exec("\n".join(sch.trace.as_python()), {"sch": again})
    assert structural_equal(again.func, sch.func)


def test_a_stencil_rolls():
    func = stencil(11)
    sch = schedule(func)
    sch.compute_at("B", sch.get_loops("C")[0])
    assert sch.rolling_buffer("B", 0) is None
    script = sch.func.script()
    for line in ('B = T.alloc_buffer((3,))', "v_i = T.axis.opaque(13, i + ax0)",
                 "T.where(i < 1 or 2 <= ax0)", "B[v_i % 3] = A[v_i] + A[v_i + 1] + A[v_i + 2]",
                 "C[v_i] = B[v_i % 3] * B[(v_i + 2) % 3]"):
        assert line in script
    check(func, sch)


@pytest.mark.parametrize("rows, columns", [(7, 4), (4, 4), (1, 3), (2, 5), (3, 1)])
def test_windows_in_two_dimensions(rows, columns):
    func = pool_pair()
    sch, io, jo = tiled(func, rows, columns)
    sch.rolling_buffer("B", "B")
    shape = [int(e) for e in sch.func.root.alloc_buffers[0].shape]
    if rows < 7:
        assert shape == [rows + 2, 11]  # the rows are folded, the columns kept
    else:
        assert shape == [9, columns + 2]
    check(func, sch)


def test_both_dimensions_are_computed_once():
    sch, io, jo = tiled(pool_pair(12, 12), 4, 4)
    sch.rolling_buffer("B", 0)
    assert str(realize(sch, "B").predicate) == "(i_0 < 1 or 2 <= ax0) and (j_0 < 1 or 2 <= ax1)"


def test_order_is_of_the_rolled_loop_in_the_block_and_its_readers():
    """The second dimension that overlaps is as sequential, though its iterator stays spatial."""
    sch, io, jo = tiled(pool_pair(12, 12), 4, 4)
    sch.rolling_buffer("B", 0)
    for name in "BC":
        assert [iv.iter_type for iv in realize(sch, name).block.iter_vars[:2]] == ["opaque", "spatial"]
    for call in (lambda: sch.parallel(io), lambda: sch.parallel(jo), lambda: sch.reorder(jo, io)):
        with pytest.raises(ScheduleError):
            call()


def test_windows_upon_windows_and_steps_of_fractions():
    """What reads a folded buffer folds its own; two points and three in turn are a step of at most three."""
    a = te.placeholder((20,), name="A")
    b = te.compute((18,), lambda i: a[i] + a[i + 2], name="B")
    c = te.compute((16,), lambda i: b[i] * b[i + 2], name="C")
    d = te.compute((24,), lambda i: c[i // 2] - c[i // 2 + 4], name="D")
    func = te.create_prim_func([a, d])
    sch = schedule(func)
    outer, _ = sch.split(sch.get_loops("D")[0], [None, 4])
    for name in "CB":
        sch.compute_at(name, outer)
    for name in "BC":
        sch.rolling_buffer(name, 0)
    assert [int(b.shape[0]) for b in sch.func.root.alloc_buffers] == [8, 6]
    check(func, sch)
    sch = schedule(func)
    outer, _ = sch.split(sch.get_loops("D")[0], [None, 3])
    sch.compute_at("C", outer)
    sch.rolling_buffer("C", 0)
    assert "4 <= ax0" in str(realize(sch, "C").predicate)  # of windows of 6, moved by 1 or 2
    check(func, sch)


def test_a_window_that_is_clipped():
    """Tiles that do not divide: the block's own condition stays."""
    func = pool_pair(12, 10)
    sch, io, jo = tiled(func, 3, 4)
    before = str(realize(sch, "B").predicate)
    sch.rolling_buffer("B", 0)
    assert before != "True" and "i_0 < 1" in str(realize(sch, "B").predicate)
    check(func, sch)


def test_only_the_inner_loop_overlaps():
    func = pool_pair(9, 12)
    sch = schedule(func)
    i, j, *rest = sch.get_loops("C")
    jo, ji = sch.split(j, [None, 2])
    sch.compute_at("B", jo)
    sch.rolling_buffer("B", 0)
    check(func, sch)


def test_what_stays_legal_and_what_does_not():
    func = stencil(12)
    sch = schedule(func)
    i, = sch.get_loops("C")
    sch.compute_at("B", i)
    sch.rolling_buffer("B", 0)
    for call in (lambda: sch.parallel(i), lambda: sch.vectorize(i), lambda: sch.compute_inline("B"),
                 lambda: sch.compute_at("B", i), lambda: sch.cache_read("C", 0, "local"),
                 lambda: sch.cache_write("B", 0, "local"), lambda: sch.rolling_buffer("B", 0)):
        with pytest.raises(ScheduleError):
            call()
    sch.unroll(i)
    outer, inner = sch.split(i, [None, 4])
    sch.unroll(inner)
    check(func, sch)


def pointwise(sch):
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.rolling_buffer("B", 0)


def parallel_first(sch):
    i, = sch.get_loops("C")
    sch.compute_at("B", i)
    sch.parallel(i)
    sch.rolling_buffer("B", 0)


@pytest.mark.parametrize("program, call, message", [
    (stencil, lambda s: s.rolling_buffer("B", 1), "argument 'write_buffer_index': 1 is not a position among the "
     "writes of block B; it has 1: B"),
    (stencil, lambda s: s.rolling_buffer("C", 0), "buffer C is no intermediate buffer of the block's scope; only "
     "buffers that the function allocates around the block can be folded"),
    (stencil, lambda s: s.rolling_buffer("B", 0), "block B shares no loop with block C, which reads B; compute_at it "
     "under a loop of its consumers first"),
    (elementwise, pointwise, "no dimension of B has a window that overlaps with the next turn's: block B writes .*; "
     "its consumers must read overlapping regions, one plain step of a loop apart"),
    (stencil, parallel_first, "loop i is parallel, but a turn would use what the turns of loop i before it have left; "
     "roll over serial loops only"),
])
def test_rolling_buffer_refuses(program, call, message):
    sch = schedule(program())
    with pytest.raises(ScheduleError, match=message):
        call(sch)


def test_readers_in_other_loops():
    a = te.placeholder((14,), name="A")
    b = te.compute((13,), lambda i: a[i] + a[i + 1], name="B")
    c = te.compute((11,), lambda i: b[i] + b[i + 2], name="C")
    d = te.compute((11,), lambda i: c[i] + b[i + 1], name="D")
    sch = schedule(te.create_prim_func([a, c, d]))
    with pytest.raises(ScheduleError, match="block B shares no loop with block C, which reads B"):
        sch.rolling_buffer("B", 0)


def test_blocks_inside_blocks_and_unread_buffers():
    func = pool_pair(12, 12)
    sch, io, jo = tiled(func, 4, 4)
    sch.blockize(sch.get_loops("B")[-1])
    with pytest.raises(ScheduleError, match="block B_o holds other blocks, matched buffers or pointers"):
        sch.rolling_buffer("B_o", 0)
    sch, io, jo = tiled(func, 4, 4)
    sch.blockize(sch.get_loops("C")[-1])
    with pytest.raises(ScheduleError, match="block C_o holds other blocks, matched buffers or pointers"):
        sch.rolling_buffer("B", 0)


def test_two_dimensions_moved_by_one_loop():
    """A diagonal: each iteration moves both indices, so an element of the last iteration's window may be outside in the
    other."""
    a = te.placeholder((16, 16), name="A")
    b = te.compute((16, 16), lambda i, j: a[i, j] * 2.0, name="B")
    r, q = te.reduce_axis((0, 3), "r"), te.reduce_axis((0, 3), "q")
    c = te.compute((12,), lambda i: te.sum(b[i + r, i + q], [r, q]), name="C")
    func = te.create_prim_func([a, c])
    sch = schedule(func)
    sch.compute_at("B", sch.get_loops("C")[0])
    with pytest.raises(ScheduleError, match="no dimension of B has a window that overlaps"):
        sch.rolling_buffer("B", 0)
    assert_same(func, sch.func)
    assert isinstance(realize(sch, "B").block.body, tir.BufferStore)
