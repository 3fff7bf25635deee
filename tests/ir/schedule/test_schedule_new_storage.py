"""storage_align and transform_block_layout: structure, numbers, lowering, refusals, replay."""
import numpy as np
import pytest

from ingot.ir import tir
from ingot.ir.schedule import ScheduleError, TensorIntrin
from ingot.ir.transform.pipeline import lower_prim_func
from ingot.script import tir as T
from schedule_programs import (arrays_for, assert_same, elementwise, loop_text, matmul, realize, replayed, running_sum,
                               schedule, stencil, symbolic)


# ---------------------------------------------------------------- storage_align

def test_rows_are_kept_apart():
    func = elementwise((5, 37))
    sch = schedule(func)
    assert sch.storage_align("B", 0, axis=0, factor=32, offset=8) is None
    assert sch.get(sch.get_block("B")).annotations == {"buffer_dim_align": ((0, 0, 32, 8),)}
    lowered = lower_prim_func(sch.func)
    assert "B[i0 * 40 + i1]" in lowered.script()  # the least k * 32 + 8 that holds 37
    assert_same(func, sch.func)
    assert_same(func, lowered)
    replayed(func, sch)


def test_the_last_word_counts_and_axes_add_up():
    func = elementwise((3, 5, 7))
    sch = schedule(func)
    sch.storage_align("B", 0, 1, 16, 0)
    sch.storage_align("B", "B", -2, 8, 1)
    sch.storage_align("B", 0, 0, 4, 2)
    assert sch.get(sch.get_block("B")).annotations["buffer_dim_align"] == ((0, 1, 8, 1), (0, 0, 4, 2))
    lowered = lower_prim_func(sch.func)
    assert "B[i0 * 46 + i1 * 9 + i2]" in lowered.script()
    assert_same(func, lowered)


def test_what_is_compacted_is_aligned_then():
    func = elementwise((6, 37))
    sch = schedule(func)
    i, j = sch.get_loops("C")
    (io, ii), (jo, ji) = sch.split(i, [None, 2]), sch.split(j, [None, 10])
    sch.reorder(io, jo, ii, ji)
    sch.compute_at("B", jo)
    sch.storage_align("B", 0, 0, 8, 3)
    lowered = lower_prim_func(sch.func)
    assert "T.decl_buffer((21,)" in lowered.script()  # two rows of 10, 11 apart
    assert_same(func, lowered)
    replayed(func, sch)


def test_a_symbolic_extent():
    func = symbolic(18)
    sch = schedule(func)
    sch.storage_align("B", 0, 0, 16, 4)
    lowered = lower_prim_func(sch.func)
    assert "B[i * T.int64(20) + " in lowered.script()
    for n in (1, 5):
        found, expected = (arrays_for(func, {"n": n}) for _ in range(2))
        from interp import run
        run(func, *expected)
        run(sch.func, *found)
        np.testing.assert_allclose(found[-1], expected[-1], rtol=1e-6)


@T.prim_func
def row_desc(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    with T.block("root"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        for i in range(8):
            with T.block("row"):
                vi = T.axis.remap("S", [i])
                B[vi] = A[vi] * T.float32(2.0)


@T.prim_func
def row_impl(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    with T.block("root"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        for i in T.vectorized(8):
            with T.block("row"):
                vi = T.axis.remap("S", [i])
                B[vi] = A[vi] * T.float32(2.0)


def test_matched_buffers_see_the_strides():
    TensorIntrin.register("test_align_row", row_desc, row_impl, override=True)
    func = elementwise((3, 16))
    sch = schedule(func)
    outer, inner = sch.split(sch.get_loops("B")[1], [None, 8])
    sch.storage_align("B", 0, 0, 32, 24)
    sch.tensorize(inner, "test_align_row")
    sch.storage_align("B_o", 0, 0, 32, 24)
    assert_same(func, sch.func)
    lowered = lower_prim_func(sch.func)
    assert "* 24" in lowered.script()
    assert_same(func, lowered)


@pytest.mark.parametrize("call, message", [
    (lambda s: s.storage_align("C", 0, 0, 8, 0), "argument 'buffer_index': buffer C is a parameter, whose layout is "
     "the caller's; use cache_write to compute it in memory of its own first"),
    (lambda s: s.storage_align("B", 1, 0, 8, 0), "1 is not a position among the writes of block B; it has 1: B"),
    (lambda s: s.storage_align("B", 0, 2, 8, 0), "argument 'axis': 2 is no dimension of buffer B, which has 2"),
    (lambda s: s.storage_align("B", 0, -3, 8, 0), "-3 is no dimension of buffer B"),
    (lambda s: s.storage_align("B", 0, 0, 0, 0), "argument 'factor': 0 is not positive"),
    (lambda s: s.storage_align("B", 0, 0, 8, 8), "argument 'offset': 8 is not between 0 and 7"),
    (lambda s: (s.annotate("B", "buffer_dim_align", 3), s.storage_align("B", 0, 0, 8, 0)),
     "the annotation 'buffer_dim_align' of block B is 3; it must list .position, axis, factor, offset."),
])
def test_storage_align_refuses(call, message):
    with pytest.raises(ScheduleError, match=message):
        call(schedule(elementwise()))


def test_a_malformed_annotation_is_named_when_lowered():
    for entry in ((0, 5, 8, 0), (3, 0, 8, 0), (0, 0, 0, 0), (0, 0, 8), "x"):
        sch = schedule(elementwise())
        sch.annotate("B", "buffer_dim_align", [entry])
        with pytest.raises(ValueError, match="block B: annotation 'buffer_dim_align' holds .*; it must be"):
            lower_prim_func(sch.func)


@pytest.mark.parametrize("program, call, name", [
    (lambda: elementwise((6, 8)), lambda s: s.transform_layout("B", ("write", 0), lambda i, j: (i * 8 + j,)), "B"),
    (lambda: elementwise((6, 8)), lambda s: s.reindex("B", ("write", 0)), "B"),
    (lambda: elementwise((6, 8)), lambda s: s.reverse_compute_inline("C"), "B"),
    (lambda: matmul(5, 6, 7, relu=True), lambda s: s.rfactor(s.get_loops("C")[2], 1), "C_rf"),
])
def test_alignment_goes_when_a_block_writes_another_buffer(program, call, name):
    func = program()
    sch = schedule(func)
    sch.storage_align("C" if name == "C_rf" else "B", 0, 1, 8, 1)
    call(sch)
    assert sch.get(sch.get_block(name)).annotations == {}
    assert_same(func, lower_prim_func(sch.func))


# ---------------------------------------------------------------- transform_block_layout

def test_iterators_of_a_fused_one_are_quotients_of_remainders():
    """The indices are simplified."""
    @T.prim_func
    def func(A: T.Buffer((9, 7), "float32"), B: T.Buffer((4, 5, 3), "float32"), C: T.Buffer((60,), "float32")):
        for i, j, k in T.grid(4, 5, 3):
            with T.block("B"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                B[vi, vj, vk] = A[vi * 2 + vk, vj + 1] + C[vi * 15 + vj * 3 + vk]
    sch = schedule(func)
    sch.transform_block_layout("B", lambda i, j, k: (i * 15 + j * 3 + k,))
    assert "A[v // 15 * 2 + v % 3, v // 3 % 5 + 1] + C[v]" in sch.mod.script().replace("vi_vj_vk", "v")
    assert_same(func, sch.func)
    replayed(func, sch)


@pytest.mark.parametrize("block, index_map, loops", [
    ("B", lambda i, j: (i * 6 + j,), ["ax0:24:serial"]),
    ("C", lambda i, j: (j // 2, i, j % 2), ["ax0:3:serial", "ax1:4:serial", "ax2:2:serial"]),
    ("B", lambda i, j: ((i * 6 + j) // 8, (i * 6 + j) % 8 // 2, j % 2),
     ["ax0:3:serial", "ax1:4:serial", "ax2:2:serial"])])
def test_iterators_are_fused_split_and_permuted(block, index_map, loops):
    func = elementwise((4, 6))
    sch = schedule(func)
    assert sch.transform_block_layout(block, index_map) is None
    assert loop_text(sch, block) == loops
    if len(loops) == 1:
        assert "B[v_i0_i1 // 6, v_i0_i1 % 6] = A[v_i0_i1 // 6, v_i0_i1 % 6] * T.float32(2.0)" in sch.func.script()
    sch.vectorize(sch.get_loops(block)[-1])
    assert_same(func, sch.func, exact=True)
    replayed(func, sch)


def test_a_reduction_keeps_its_types():
    func = matmul(6, 4, 15)
    sch = schedule(func)
    sch.transform_block_layout("C", lambda i, j, k: (k // 5, i * 4 + j, k % 5))
    assert [iv.iter_type for iv in realize(sch, "C").block.iter_vars] == ["reduce", "spatial", "reduce"]
    assert_same(func, sch.func)
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    assert_same(func, sch.func)


def test_a_constant_index_and_blocks_inside():
    func = elementwise((1, 6))
    sch = schedule(func)
    sch.transform_block_layout("B", lambda i, j: (0, j, i))
    assert_same(func, sch.func, exact=True)
    func = elementwise((4, 6))
    sch = schedule(func)
    i, j = sch.get_loops("B")
    jo, ji = sch.split(j, [2, 3])
    sch.blockize(ji)
    sch.transform_block_layout("B_o", lambda i, j: (j, i))
    assert_same(func, sch.func, exact=True)


def TURN(i, j):
    return j, i


def mixed(s):
    s.transform_block_layout("C", lambda i, j, k: (i, j * 9 + k))


@pytest.mark.parametrize("program, call, message", [
    (elementwise, lambda s: s.transform_block_layout("B", lambda i: (i,)), "argument 'index_map': it takes 1 indices, "
     "block B has 2 iterators"),
    (elementwise, lambda s: s.transform_block_layout("B", lambda i, j: (i,)), r"'index_map': lambda i, j: \(i,\) has "
     "no inverse over 5, 37: loop j is not used; it must be one to one onto a box: permutations, splits that"),
    (elementwise, lambda s: s.transform_block_layout("B", lambda i, j: (i, j // 4, j % 4)), "has no inverse over 5, "),
    (elementwise, lambda s: s.transform_block_layout("B", lambda i, j: (i + 1, j)), r"its indices run over \[1, 6\), "
     r"\[0, 37\); they must begin at 0"),
    (matmul, mixed, "its index .* mixes reduce and spatial iterators of block C; map them apart"),
    (elementwise, lambda s: (s.parallel(s.get_loops("B")[0]), s.transform_block_layout("B", lambda i, j: (j, i))),
     "loop i0 is parallel, which would be lost; transform first, then say how loops run"),
    (elementwise, lambda s: (s.annotate(s.get_loops("B")[0], "x", 1), s.transform_block_layout("B", TURN)),
     "loop i0 is serial with annotations, which would be lost"),
    (elementwise, lambda s: (s.compute_at("B", s.get_loops("C")[0]), s.transform_block_layout("B", TURN)),
     "iterator v_i0 of block B is bound to i0, not to a loop of its own|holds more than block B"),
    (stencil, lambda s: (s.split(s.get_loops("C")[0], [None, 7]), s.transform_block_layout("C", lambda i: (i,))),
     "block C runs only where i_0 . 7 . i_1 < 40"),
    (running_sum, lambda s: s.transform_block_layout("R", lambda i, j: (j, i)), "block R is neither a complete "
     "block nor a reduction block: it reads B, which it also writes"),
])
def test_transform_block_layout_refuses(program, call, message):
    with pytest.raises(ScheduleError, match=message):
        call(schedule(program()))


def test_a_loop_of_part_of_the_domain():
    """An iterator whose domain is larger than its loop."""
    a, b = tir.decl_buffer((8,), name="A"), tir.decl_buffer((8,), name="B")
    i, v = tir.Var("i"), tir.Var("v")
    iv = tir.IterVar(tir.Range(tir.const(0), tir.const(8)), v, "spatial")
    block = tir.Block((iv,), (a[v:v + 1],), (b[v:v + 1],), "S", (), (), {}, None, tir.BufferStore(b, a[v], (v,)))
    sch = schedule(tir.prim_func([a, b], tir.for_(i, 4, tir.BlockRealize((i,), tir.const(True), block))))
    with pytest.raises(ScheduleError, match="loop i does not run over the whole domain of iterator v of block S"):
        sch.transform_block_layout("S", lambda i: (i,))
