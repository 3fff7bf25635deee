"""compute_at, reverse_compute_at, inlining, caches and decompose_reduction: legal uses, numbers and refusals."""
import pytest

from ingot.ir import te
from ingot.ir.schedule import Schedule, ScheduleError
from schedule_programs import (assert_same, chain, elementwise, guarded, loop_text, matmul, packed_conv, padded,
                               realize, softmax, stencil, symbolic)


def schedule(func):
    return Schedule(func, error_render_level="fast", debug_mask="all")


def values(sch, name):
    return [str(v) for v in realize(sch, name).iter_values]


def names(sch, handles):
    return [sch.get(h).name_hint for h in handles]


# ---------------------------------------------------------------- compute_at

@pytest.mark.parametrize("depth, loops", [(0, ["i0:5:serial", "ax0:37:serial"]), (1, ["i0:5:serial", "i1:37:serial"])])
def test_compute_at_makes_what_a_turn_reads(depth, loops):
    func = elementwise()
    sch = schedule(func)
    sch.compute_at("B", sch.get_loops("C")[depth])
    assert loop_text(sch, "B") == loops
    assert_same(func, sch.func, exact=True)


def test_compute_at_preserves_unit_loops_on_request():
    func = elementwise()
    sch = schedule(func)
    sch.compute_at("B", sch.get_loops("C")[0], preserve_unit_loops=True)
    assert loop_text(sch, "B") == ["i0:5:serial", "ax0:1:serial", "ax1:37:serial"]
    assert_same(func, sch.func, exact=True)


def test_compute_at_covers_a_halo():
    func = stencil()
    sch = schedule(func)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 8])
    sch.compute_at("B", outer)
    assert loop_text(sch, "B") == ["i_0:5:serial", "ax0:10:serial"]
    assert values(sch, "B") == ["i_0 * 8 + ax0"]
    assert_same(func, sch.func, exact=True)


def test_compute_at_clips_both_ends():
    func = padded()
    sch = schedule(func)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_at("P", outer)
    assert str(realize(sch, "P").predicate) == "i_0 * 4 + ax0 < 13"
    assert_same(func, sch.func, exact=True)


def test_compute_at_of_a_reduction_regenerates_its_loops():
    func = matmul(relu=True)
    sch = schedule(func)
    i, j = sch.get_loops("D")
    jo, ji = sch.split(j, [None, 8])
    sch.compute_at("C", jo)
    assert loop_text(sch, "C") == ["i:13:serial", "j_0:3:serial", "ax0:8:serial", "ax1:9:serial"]
    assert str(realize(sch, "C").predicate) == "j_0 * 8 + ax0 < 22"
    assert_same(func, sch.func)


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


def test_compute_at_index_chooses_among_legal_places():
    func = softmax()
    sch = schedule(func)
    row = sch.get_loops("Y")[0]
    sch.compute_at("T_sum", row)
    sch.compute_at("T_exp", row)
    with pytest.raises(ScheduleError, match="argument 'index': 2 is not between 0 .* and 0"):
        sch.compute_at("T_max", row, index=2)
    sch.compute_at("T_max", row, index=0)
    assert names(sch, sch.get_child_blocks(row)) == ["T_max", "T_exp", "T_sum", "Y"]
    assert_same(func, sch.func)


def test_compute_at_refuses_outputs_and_loops_of_its_own():
    sch = schedule(elementwise())
    with pytest.raises(ScheduleError, match="block C writes the output C, which must be written in full"):
        sch.compute_at("C", sch.get_loops("B")[0])
    with pytest.raises(ScheduleError, match="block C reads from block B but is not under loop i0"):
        sch.compute_at("B", sch.get_loops("B")[0])


def test_compute_at_refuses_inputs_that_are_not_complete():
    """C follows B turn by turn; D would also need what B makes in the next turn."""
    func = chain()
    sch = schedule(func)
    turn = sch.get_loops("B")[0]
    sch.reverse_compute_at("C", turn)
    with pytest.raises(ScheduleError, match="one turn of loop i is not proved to write all of B that block D reads"):
        sch.reverse_compute_at("D", turn)
    assert_same(func, sch.func, exact=True)


# ---------------------------------------------------------------- reverse_compute_at

def test_reverse_compute_at_follows_its_producer():
    func = matmul(relu=True)
    sch = schedule(func)
    i, j, _ = sch.get_loops("C")
    io, ii = sch.split(i, [None, 4])
    jo, ji = sch.split(j, [None, 8])
    sch.reorder(io, jo, ii, ji)
    sch.reverse_compute_at("D", jo)
    assert loop_text(sch, "D") == ["i_0:4:serial", "j_0:3:serial", "ax0:4:serial", "ax1:8:serial"]
    assert_same(func, sch.func)


def test_reverse_compute_at_unpacks():
    """v // 16 and v % 16 together tell v."""
    func = packed_conv(o=48)
    sch = schedule(func)
    sch.compute_inline("conv2d")
    sch.compute_inline("add")
    sch.reverse_compute_at("relu", sch.get_loops("conv2d_packed")[1])
    assert loop_text(sch, "relu")[2:] == ["ax0:16:serial", "ax1:3:serial", "ax2:18:serial"]
    assert_same(func, sch.func)


def test_reverse_compute_at_refuses_to_lose_instances():
    """P reads A2 only where it exists: its border has no producer."""
    func = guarded()
    for apply in (lambda s: s.reverse_compute_at("P", s.get_loops("A2")[0]), lambda s: s.reverse_compute_inline("P")):
        with pytest.raises(ScheduleError, match="outside what block A2 writes.*and would be lost"):
            apply(schedule(func))
    sch = schedule(func)
    sch.compute_at("A2", sch.get_loops("P")[0])
    assert str(realize(sch, "A2").predicate) != "True"
    assert_same(func, sch.func, exact=True)


def test_reverse_compute_at_under_a_parallel_loop_checks_it_again():
    func = matmul(relu=True)
    sch = schedule(func)
    i, j, _ = sch.get_loops("C")
    sch.parallel(i)
    sch.reverse_compute_at("D", i)
    assert_same(func, sch.func)


# ---------------------------------------------------------------- inlining

def test_inline_into_a_shifted_reader():
    func = stencil()
    sch = schedule(func)
    sch.compute_inline("B")
    assert "B" not in [b.name for b in sch.func.root.alloc_buffers]
    assert str(sch.get(sch.get_block("C")).reads[0].region[0].extent) == "5"
    assert_same(func, sch.func, exact=True)


def test_inline_into_several_readers_and_a_reduction():
    func = softmax()
    sch = schedule(func)
    sch.compute_inline("T_exp")
    assert names(sch, sch.get_producers("Y")) == ["T_max", "T_sum"]
    assert_same(func, sch.func)


def test_inline_a_guarded_producer():
    func = padded()
    sch = schedule(func)
    sch.compute_inline("P")
    assert_same(func, sch.func, exact=True)


def test_inline_works_inside_tiles():
    func = symbolic()
    sch = schedule(func)
    i, j = sch.get_loops("C")
    sch.split(j, [None, 4])
    sch.compute_inline("B")
    assert_same(func, sch.func, {"n": 3}, exact=True)


@pytest.mark.parametrize("program, block, message", [
    (elementwise, "C", "block C writes the output C, which must stay"),
    (lambda: matmul(relu=True), "C", "block C is not complete: it has an init statement"),
])
def test_inline_refuses(program, block, message):
    with pytest.raises(ScheduleError, match="compute_inline: argument 'block': " + message):
        schedule(program()).compute_inline(block)


def test_reverse_inline_of_an_epilogue():
    func = elementwise()
    sch = schedule(func)
    sch.reverse_compute_inline("C")
    assert names(sch, sch.get_child_blocks("root")) == ["B"]
    assert_same(func, sch.func, exact=True)


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

def test_cache_read_of_a_parameter_and_moving_it_inward():
    func = matmul()
    sch = schedule(func)
    i, j, k = sch.get_loops("C")
    jo, ji = sch.split(j, [None, 8])
    sch.reorder(jo, i, k, ji)
    copy = sch.cache_read("C", 1, "shared")
    assert sch.get(copy).name_hint == "B_shared" and loop_text(sch, copy) == ["ax0:9:serial", "ax1:22:serial"]
    sch.compute_at(copy, jo)
    assert loop_text(sch, copy) == ["j_0:3:serial", "ax0:9:serial", "ax1:8:serial"]
    assert [b.scope for b in sch.func.root.alloc_buffers if b.name == "B_shared"] == ["shared"]
    assert_same(func, sch.func)


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
    assert names(sch, sch.get_consumers(everyone)) == ["T_max", "X_local"]
    assert_same(func, sch.func)


def test_cache_write_and_moving_it_inward():
    func = matmul()
    sch = schedule(func)
    i, j, k = sch.get_loops("C")
    io, ii = sch.split(i, [None, 4])
    copy = sch.cache_write("C", 0, "local")
    assert sch.get(copy).name_hint == "C_local" and sch.get(sch.get_block("C")).writes[0].buffer.name == "C_local"
    sch.reverse_compute_at(copy, io)
    assert loop_text(sch, copy) == ["i_0:4:serial", "ax0:4:serial", "ax1:22:serial"]
    sch.decompose_reduction("C", k)
    assert_same(func, sch.func)


def test_cache_write_between_producer_and_consumer():
    func = matmul(relu=True)
    sch = schedule(func)
    sch.compute_at("C", sch.get_loops("D")[0])
    copy = sch.cache_write("C", 0, "local")
    assert loop_text(sch, copy) == ["i:13:serial", "ax0:1:serial", "ax1:22:serial"]
    assert_same(func, sch.func)


# ---------------------------------------------------------------- decompose_reduction

@pytest.mark.parametrize("depth", [0, 1, 2])
def test_decompose_at_every_legal_loop(depth):
    func = matmul()
    sch = schedule(func)
    c = sch.get_block("C")
    loops = sch.get_loops(c)
    init = sch.decompose_reduction(c, loops[depth])
    assert [t.split(":")[0] for t in loop_text(sch, init)] == ["i", "j"][:depth] + ["i_init", "j_init"][depth:]
    assert sch.get(c).name_hint == "C_update" and sch.get(c).init is None
    assert_same(func, sch.func)


def test_decompose_drops_conditions_of_the_reduction():
    func = matmul()
    sch = schedule(func)
    i, j, k = sch.get_loops("C")
    jo, ji = sch.split(j, [None, 8])
    ko, ki = sch.split(k, [None, 4])
    sch.reorder(jo, ko, ki, ji)
    sch.vectorize(ji)
    init = sch.decompose_reduction("C", ko)
    assert loop_text(sch, init)[-1] == "j_1_init:8:vectorized"
    assert str(realize(sch, "C_init").predicate) == "j_0 * 8 + j_1_init < 22"
    assert_same(func, sch.func)


def test_decompose_refuses():
    sch = schedule(matmul(relu=True))
    i, j, k = sch.get_loops("C")
    with pytest.raises(ScheduleError, match="block D is no reduction block: it has no init statement"):
        sch.decompose_reduction("D", sch.get_loops("D")[0])
    with pytest.raises(ScheduleError, match="loop i is not around block C"):
        sch.decompose_reduction("C", sch.get_loops("D")[0])
    sch.reorder(k, i, j)
    with pytest.raises(ScheduleError, match="loop k, which runs the reduction over v_k, is outside loop i"):
        sch.decompose_reduction("C", i)


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

def test_set_scope():
    func = elementwise()
    sch = schedule(func)
    sch.set_scope("B", 0, "local")
    assert [b.scope for b in sch.func.root.alloc_buffers] == ["local"]
    sch.set_scope("B", "B_local", "local")
    with pytest.raises(ScheduleError, match="buffer C is a parameter, whose memory is the caller's"):
        sch.set_scope("C", 0, "local")
    assert_same(func, sch.func, exact=True)


def test_moving_a_block_out_of_a_parallel_loop_checks_it_again():
    """B overlaps between the turns of C's loop: fine while it lives within a turn, a race once D reads it outside."""
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
