"""compute_at, reverse_compute_at, inlining, caches and decompose_reduction: legal uses, numbers and refusals."""
import pytest

from ingot.ir import te
from ingot.ir.schedule import ScheduleError
from ingot.script import tir as T
from schedule_programs import assert_same, loop_text, matmul, packed_conv, padded, realize, schedule, softmax


def values(sch, name):
    return [str(v) for v in realize(sch, name).iter_values]


def names(sch, handles):
    return [sch.get(h).name_hint for h in handles]


# ---------------------------------------------------------------- compute_at


def test_compute_at_clips_both_ends():
    func = padded()
    sch = schedule(func)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_at("P", outer)
    assert str(realize(sch, "P").predicate) == "i_0 * 4 + ax0 < 13"
    assert_same(func, sch.func, exact=True)


def test_packed_convolution_computes_exactly_its_tile():
    """The region of the use case: [1, 2, 1, 14, 16] at [n, co * 2, y, xo * 14, 0]."""
    func = packed_conv(n=2, o=64, w=30)
    sch = schedule(func)
    tile(sch)
    assert loop_text(sch, "conv2d_packed")[4:] == [
        "ax0:2:serial", "ax1:14:serial", "ax2:16:serial", "ax3:3:serial", "ax4:3:serial", "ax5:3:serial"]
    assert values(sch, "conv2d_packed")[:5] == ["b", "co_0 * 2 + ax0", "y", "xx_0 * 14 + ax1", "ax2"]
    assert int(realize(sch, "conv2d_packed").predicate) == 1
    assert_same(func, sch.func)


@pytest.mark.parametrize("o, w", [(40, 20), (33, 17), (16, 16), (7, 9), (64, 31)])
def test_packed_convolution_at_sizes_that_do_not_divide(o, w):
    func = packed_conv(o=o, w=w)
    sch = schedule(func)
    tile(sch, finish=True)
    assert_same(func, sch.func)


def tile(sch, finish=False):
    conv = sch.get_block("conv2d_packed")
    sch.compute_inline("conv2d")
    sch.compute_inline("add")
    relu = sch.get_block("relu")
    n, c, y, x = sch.get_loops(relu)
    co, ci, cl = sch.split(c, [None, 2, 16])
    xo, xi = sch.split(x, [None, 14])
    sch.reorder(n, co, y, xo, ci, cl, xi)
    sch.compute_at(conv, xo)
    if not finish:
        return
    sch.parallel(sch.fuse(n, co, y))
    copy = sch.cache_read(relu, 0, "local")
    sch.compute_at(copy, xo)
    sch.set_scope(conv, 0, "local")
    sch.compute_at(conv, xo, preserve_unit_loops=True)
    oo, ty, tx, oi, ic, kh, kw = sch.get_loops(conv)[-7:]
    sch.reorder(ic, kh, kw, oo, ty, tx, oi)
    sch.vectorize(oi)
    sch.unroll(tx)
    sch.unroll(oo)
    init = sch.decompose_reduction(conv, ic)
    assert sch.get(init).name_hint == "conv2d_packed_init" and sch.get(conv).name_hint == "conv2d_packed_update"


# ---------------------------------------------------------------- reverse_compute_at


def test_reverse_compute_at_unpacks():
    """v // 16 and v % 16 together tell v."""
    func = packed_conv(o=48)
    sch = schedule(func)
    sch.compute_inline("conv2d")
    sch.compute_inline("add")
    sch.reverse_compute_at("relu", sch.get_loops("conv2d_packed")[1])
    assert loop_text(sch, "relu")[2:] == ["ax0:16:serial", "ax1:3:serial", "ax2:18:serial"]
    assert_same(func, sch.func)


def test_reverse_compute_at_of_a_row_that_a_condition_ends():
    """The loop of one turn that compute_at kept is part of where the block writes, and not of its condition."""
    a = te.placeholder((7,), name="A")
    b = te.compute((7,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((7,), lambda i: b[i] + 1.0, name="C")
    func = te.create_prim_func([a, te.compute((7,), lambda i: c[i] - 3.0, name="D")])
    sch = schedule(func)
    outer, _ = sch.split(sch.get_loops("D")[0], [None, 4])
    for block in ("C", "B"):
        sch.compute_at(block, outer, preserve_unit_loops=True)
    row = sch.get_loops("C")[1]
    sch.compute_at("B", row, preserve_unit_loops=True)
    assert str(realize(sch, "B").predicate) == "i_0 * 4 + ax0 < 7"
    sch.reverse_compute_at("C", sch.get_loops("B")[2], preserve_unit_loops=True)
    assert_same(func, sch.func, exact=True)


# ---------------------------------------------------------------- inlining


def test_reverse_inline_inverts_packing():
    """C[v // 4, v % 4] reads and C[v * 4 + w] reads; part of the producer is not read."""
    a = te.placeholder((12,), name="A")
    b = te.compute((12,), lambda i: a[i] + 1.0, name="B")
    func = te.create_prim_func([a, te.compute((2, 4), lambda v, w: b[v * 4 + w + 1] * 2.0, name="C")])
    sch = schedule(func)
    sch.reverse_compute_inline("C")
    assert_same(func, sch.func, exact=True)
    b2 = te.compute((3, 4), lambda i, j: a[i * 4 + j] + 1.0, name="B")
    func = te.create_prim_func([a, te.compute((10,), lambda v: b2[v // 4, v % 4] * 2.0, name="C")])
    sch = schedule(func)
    sch.split(sch.get_loops("B")[1], [2, 2])
    sch.reverse_compute_inline("C")
    assert_same(func, sch.func, exact=True)


# ---------------------------------------------------------------- caches


def test_cache_read_by_name_twice_gets_new_names():
    func = matmul()
    sch = schedule(func)
    first = sch.cache_read("C", "A", "local")
    second = sch.cache_read(first, "A", "local")
    assert [sch.get(b).name_hint for b in (first, second)] == ["A_local", "A_local_1"]
    assert_same(func, sch.func)


def test_cache_read_for_some_consumers():
    func = softmax()
    sch = schedule(func)
    copy = sch.cache_read("T_exp", "X", "local", ["T_exp"])
    assert names(sch, sch.get_consumers(copy)) == ["T_exp"]
    everyone = sch.cache_read("T_max", "X", "local")
    assert names(sch, sch.get_consumers(everyone)) == ["X_local", "T_max"]
    assert_same(func, sch.func)


# ---------------------------------------------------------------- decompose_reduction


def test_decompose_of_a_fused_reduction():
    """Loops that run spatial and reduce iterators together are copied whole: the init repeats, which is harmless."""
    func = matmul()
    sch = schedule(func)
    i, j, k = sch.get_loops("C")
    outer, inner = sch.split(sch.fuse(j, k), [None, 7])
    with pytest.raises(ScheduleError, match="loop j_k_fused_0, which runs the reduction over v_k, is outside"):
        sch.decompose_reduction("C", inner)
    sch.decompose_reduction("C", outer)
    assert_same(func, sch.func)


# ---------------------------------------------------------------- scopes


def test_moving_a_block_out_of_a_parallel_loop_checks_it_again():
    """B overlaps between the iterations of C's loop: fine while it lives within an iteration, a race once D reads it
    outside."""
    a = te.placeholder((14,), name="A")
    b = te.compute((14,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((12,), lambda i: b[i] + b[i + 2], name="C")
    func = te.create_prim_func([a, te.compute((12,), lambda i: c[i] * 2.0, name="D")])
    sch = schedule(func)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_at("B", outer)
    sch.parallel(outer)
    other = sch.copy()
    for move in (lambda: sch.compute_inline("C"), lambda: sch.compute_at("C", sch.get_loops("D")[0])):
        with pytest.raises(ScheduleError, match="the turns of loop i_0 are not proved to touch different parts of B"):
            move()
    other.reverse_compute_at("D", outer)
    other.compute_inline("C")
    assert_same(func, other.func, exact=True)


def test_inlined_are_stores_at_0_of_one_place():
    @T.prim_func
    def func(A: T.Buffer((6, 8), "float32"), C: T.Buffer((1, 48), "float32")):
        B = T.alloc_buffer((1, 6, 1, 8))
        for i, j in T.grid(6, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[0, vi, 0, vj] = A[vi, vj] + T.float32(1)
        for i, j in T.grid(1, 48):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj // 8, 0, vj % 8] * T.float32(2)
    sch = schedule(func)
    sch.compute_inline("B")
    assert "C[vi, vj] = (A[vj // 8, vj % 8] + T.float32(1.0)) * T.float32(2.0)" in sch.mod.script()
    assert_same(func, sch.func)
