"""pad_einsum: structure, numbers, tensorize at sizes that do not divide, refusals, replay."""
import pytest

from ingot.ir import te, tir
from ingot.ir.schedule import ScheduleError, TensorIntrin
from ingot.script import tir as T
from schedule_programs import (argmax, assert_same, elementwise, loop_text, matmul, realize, replayed, schedule,
                               softmax, stencil, symbolic)


def test_a_matrix_product_is_padded():
    func = matmul(13, 22, 9)
    sch = schedule(func)
    assert sch.pad_einsum("C", [8, 8, 4]) is None
    assert [sch.get(b).name_hint for b in sch.get_child_blocks("root")] == ["A_pad", "B_pad", "C", "C_pad"]
    assert [f"{b.name} {tuple(map(int, b.shape))}" for b in sch.func.root.alloc_buffers] == [
        "A_pad (16, 12)", "B_pad (12, 24)", "C_pad (16, 24)"]
    assert loop_text(sch, "C") == ["i:16:serial", "j:24:serial", "k:12:serial"]
    assert loop_text(sch, "C_pad") == ["ax0:13:serial", "ax1:22:serial"]
    script = sch.func.script()
    assert "A_pad[v_i, v_k] = T.if_then_else(v_i < 13 and v_k < 9, A[v_i, v_k], T.float32(0.0))" in script
    assert "C_pad[v_i, v_j] = C_pad[v_i, v_j] + A_pad[v_i, v_k] * B_pad[v_k, v_j]" in script
    assert_same(func, sch.func, exact=True)
    replayed(func, sch)


def test_only_what_grows_is_copied():
    func = matmul(13, 16, 9)
    sch = schedule(func)
    sch.pad_einsum("C", [4, 8, 0])
    assert [sch.get(b).name_hint for b in sch.get_child_blocks("root")] == ["A_pad", "C", "C_pad"]
    assert_same(func, sch.func, exact=True)
    sch = schedule(func)
    sch.pad_einsum("C", [1, 1, 4])
    assert [sch.get(b).name_hint for b in sch.get_child_blocks("root")] == ["A_pad", "B_pad", "C"]
    assert_same(func, sch.func, exact=True)
    sch = schedule(func)
    sch.pad_einsum("C", [13, 4, 3])
    assert sch.func is func


def test_padding_between_other_blocks():
    func = matmul(5, 6, 7, relu=True)
    sch = schedule(func)
    sch.pad_einsum("C", [4, 4, 4])
    sch.pad_einsum("D", [4, 4])
    assert_same(func, sch.func, exact=True)
    sch.compute_inline("C_pad")
    assert_same(func, sch.func, exact=True)
    replayed(func, sch)


def test_a_symbolic_extent_is_padded():
    func = symbolic(18)
    sch = schedule(func)
    sch.pad_einsum("B", [4, 16])
    outer, inner = sch.split(sch.get_loops("B")[0], [None, 4])
    assert "T.where" not in sch.func.script()
    for n in (1, 4, 7):
        assert_same(func, sch.func, {"n": n}, exact=True)


@T.prim_func
def tile_desc(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    with T.block("root"):
        T.reads(C[0:4, 0:8], A[0:4, 0:4], B[0:4, 0:8])
        T.writes(C[0:4, 0:8])
        for i, j, k in T.grid(4, 8, 4):
            with T.block("tile"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def tile_impl(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    with T.block("root"):
        T.reads(C[0:4, 0:8], A[0:4, 0:4], B[0:4, 0:8])
        T.writes(C[0:4, 0:8])
        for k, i in T.grid(4, 4):
            for j in T.vectorized(8):
                with T.block("row"):
                    vk, vi, vj = T.axis.remap("RSS", [k, i, j])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def test_tensorize_where_the_sizes_do_not_divide():
    TensorIntrin.register("test_pad_tile", tile_desc, tile_impl, override=True)
    func = matmul(13, 22, 9)
    sch = schedule(func)
    c = sch.get_block("C")
    sch.pad_einsum(c, [4, 8, 4])
    i, j, k = sch.get_loops(c)
    (io, ii), (jo, ji), (ko, ki) = (sch.split(loop, [None, n]) for loop, n in ((i, 4), (j, 8), (k, 4)))
    sch.reorder(io, jo, ko, ii, ji, ki)
    sch.decompose_reduction(c, ko)
    sch.tensorize(ii, "test_pad_tile")
    assert loop_text(sch, "C_update_o")[:3] == ["i_0:4:serial", "j_0:3:serial", "k_0:3:serial"]
    assert_same(func, sch.func)
    replayed(func, sch)
    plain = schedule(func)
    i, j, k = plain.get_loops("C")
    (io, ii), (jo, ji), (ko, ki) = (plain.split(loop, [None, n]) for loop, n in ((i, 4), (j, 8), (k, 4)))
    plain.reorder(io, jo, ko, ii, ji, ki)
    plain.decompose_reduction("C", ko)
    with pytest.raises(ScheduleError, match="runs only where"):
        plain.tensorize(ii, "test_pad_tile")


def test_blockize_where_the_sizes_do_not_divide():
    func = matmul(13, 22, 9)
    sch = schedule(func)
    sch.pad_einsum("C", [4, 8, 1])
    i, j, k = sch.get_loops("C")
    (io, ii), (jo, ji) = sch.split(i, [None, 4]), sch.split(j, [None, 8])
    sch.reorder(io, jo, ii, ji, k)
    outer = sch.blockize(ii)
    assert [int(iv.dom.extent) for iv in sch.get(outer).iter_vars][:2] == [4, 3]
    assert_same(func, sch.func, exact=True)


def product(cols=9, dtype="float32", term=lambda a, d, i, k: a[i, k] * d[i], combine=te.sum):
    a, d = te.placeholder((5, cols), dtype, name="A"), te.placeholder((5,), dtype, name="D")
    k = te.reduce_axis((0, cols), "k")
    return te.create_prim_func([a, d, te.compute((5,), lambda i: combine(term(a, d, i, k), k), name="C")])


def test_integers_pad_though_a_factor_is_not_zero():
    func = product(dtype="int32")
    sch = schedule(func)
    sch.pad_einsum("C", [2, 4])
    assert loop_text(sch, "C") == ["i:6:serial", "k:12:serial"]
    script = sch.func.script()
    assert "A_pad = T.alloc_buffer((6, 12)" in script and "D_pad = T.alloc_buffer((6,)" in script


def test_spatial_padding_of_other_reductions():
    func = softmax(5, 7)
    sch = schedule(func)
    sch.pad_einsum("T_max", [4, 1])
    assert_same(func, sch.func, exact=True)


def split_first(sch):
    sch.split(sch.get_loops("C")[0], [None, 4])
    sch.pad_einsum("C", [4, 4, 4])


def moved_first(sch):
    sch.compute_at("C", sch.get_loops("D")[0])
    sch.pad_einsum("C", [4, 4, 4])


@pytest.mark.parametrize("program, call, message", [
    (matmul, lambda s: s.pad_einsum("C", [4, 4]), r"argument 'padding': \[4, 4\] is for 2 iterators, block C has 3: "
     "v_i, v_j, v_k; give one for each; 1 leaves it alone"),
    (matmul, lambda s: s.pad_einsum("C", [4, -4, 4]), r"\[4, -4, 4\] has a negative number; give multiples to round"),
    (matmul, split_first, "block C runs only where i_0 . 4 . i_1 < 13; choose it before its loops are split"),
    (lambda: matmul(8, 8, 8), split_first, "iterator v_i of block C is bound to i_0 . 4 . i_1, not to a loop "
     "of its own"),
    (lambda: matmul(5, 6, 7, relu=True), moved_first, "iterator v_i of block C is bound to i, not to a loop of its own|"
     "loop i runs no iterator of block C|does not run over the whole domain|holds more than block C"),
    (stencil, lambda s: s.pad_einsum("B", [4]), "block B uses A at v_i . 1, which is neither an iterator nor a "
     "constant; reindex it first, so that the index becomes an iterator"),
    (argmax, lambda s: s.pad_einsum("best", [4, 4]), "the body of block best is not one store"),
    (lambda: softmax(5, 7), lambda s: s.pad_einsum("T_max", [4, 4]), "the reduction of block T_max is no sum but a "
     "max; only sums of products can be padded with zeros; pad its spatial iterators alone"),
    (lambda: product(), lambda s: s.pad_einsum("C", [1, 4]), "is not zero in the padding of v_k, which does not choose "
     "an element of D .zero times infinity is not zero.; leave v_k as it is"),
    (lambda: product(term=lambda a, d, i, k: d[i] * 2.0), lambda s: s.pad_einsum("C", [1, 4]),
     "is not zero in the padding of v_k, which does not choose an element of D; leave"),
    (lambda: product(term=lambda a, d, i, k: a[i, k] + 1.0), lambda s: s.pad_einsum("C", [1, 4]),
     "of block C is no product of elements; compute its factors in blocks of their own"),
])
def test_pad_einsum_refuses(program, call, message):
    sch = schedule(program())
    with pytest.raises(ScheduleError, match=message):
        call(sch)


def test_an_iterator_that_chooses_nothing_is_left_alone():
    """After an inlining at a unit dimension an iterator may choose no element any more."""
    a = te.placeholder((6, 1), name="A")
    b = te.compute((6, 1), lambda i, j: a[i, j] * 2.0, name="B")
    func = te.create_prim_func([a, te.compute((6,), lambda i: b[i, 0] + 1.0, name="C")])
    sch = schedule(func)
    sch.reverse_compute_inline("C")
    with pytest.raises(ScheduleError, match="iterator v_j of block B does not choose where it writes, so that its "
                       "padding would overwrite results; leave v_j as it is|iterator v_i1 of block B does not choose"):
        sch.pad_einsum("B", [1, 4])
    sch.pad_einsum("B", [4, 1])
    assert_same(func, sch.func, exact=True)


def test_a_guarded_access_outside_is_not_copied():
    a = te.placeholder((3,), name="A")
    func = te.create_prim_func([a, te.compute((5,), lambda i: tir.if_then_else(i < 3, a[i], 0.0), name="C")])
    with pytest.raises(ScheduleError, match=r"block C uses A\[v_i\], which may lie outside; only what is always there "
                       "can be copied"):
        schedule(func).pad_einsum("C", [4])


def test_division_by_what_would_be_zero():
    a, b = te.placeholder((5,), "int32", name="A"), te.placeholder((5,), "int32", name="B")
    func = te.create_prim_func([a, b, te.compute((5,), lambda i: tir.floordiv(a[i], b[i]), name="C")])
    with pytest.raises(ScheduleError, match=r"block C divides by B\[v_i\], which would be zero in the padding"):
        schedule(func).pad_einsum("C", [4])


def test_blocks_that_hold_blocks_and_moved_ones():
    func = elementwise((6, 10))
    sch = schedule(func)
    sch.blockize(sch.get_loops("C")[1])
    with pytest.raises(ScheduleError, match="the body of block C_o is not one store"):
        sch.pad_einsum("C_o", [4, 4])
    sch = schedule(func)
    sch.add_unit_loop("C")
    with pytest.raises(ScheduleError, match="loop u runs no iterator of block C"):
        sch.pad_einsum("C", [4, 4])
    assert realize(sch, "C").block.name_hint == "C"
