"""transform_layout, reindex, cache_inplace and decompositions of padding: structure, numbers, refusals and replay."""
import numpy as np
import pytest
from interp import run

from ingot.ir import te, tir
from ingot.ir.node import structural_equal
from ingot.ir.schedule import ScheduleError
from ingot.ir.tir.index_map import IndexMap
from ingot.ir.transform.pipeline import lower_prim_func
from ingot.script import tir as T
from schedule_programs import (arrays_for, assert_same, halves, matmul, packed_conv, padded, realize, replayed,
                               schedule, softmax_by_rows, symbolic)


@pytest.mark.parametrize("index_map, shape", [
    (lambda i, j: (j, i), [22, 13]),
    (lambda i, j: i * 22 + j, [286]),
    (lambda i, j: (i // 4, j, i % 4), [4, 22, 4]),
    (lambda i, j: (i // 6, j // 6, i % 6, j % 6), [3, 4, 6, 6]),
    (lambda i, j: (i, j // 2, j % 2), [13, 11, 2]),
    (lambda i, j: (i + 1, j), [14, 22]),
])
def test_transform_layout(index_map, shape):
    func = matmul(relu=True)
    sch = schedule(func)
    sch.transform_layout("C", ("write", 0), index_map, pad_value=1.5)
    assert [int(e) for e in sch.get(sch.get_block("C")).writes[0].buffer.shape] == shape
    assert_same(func, sch.func, exact=True)
    replayed(func, sch)


def test_transform_layout_of_any_number_of_indices():
    sch, named = schedule(matmul(relu=True)), schedule(matmul(relu=True))
    sch.transform_layout("C", "C", lambda *i: i[::-1])
    named.transform_layout("C", "C", lambda i, j: (j, i))
    assert structural_equal(sch.func, named.func)
    replayed(matmul(relu=True), sch)
    sch.transform_block_layout("D", lambda *i, last: (*i, last // 2, last % 2))
    assert [int(iv.dom.extent) for iv in sch.get(sch.get_block("D")).iter_vars] == [13, 11, 2]
    replayed(matmul(relu=True), sch)


def test_transform_layout_of_a_parameter():
    func = matmul(relu=True)
    sch = schedule(func)
    sch.transform_layout("C", ("read", 1), lambda k, j: (j // 11, k, j % 11))
    sch.transform_layout("D", ("write", 0), lambda i, j: (j, i))
    a, b, d = arrays_for(func)
    run(func, a, b, d)
    packed = np.ascontiguousarray(b.reshape(b.shape[0], 2, 11).transpose(1, 0, 2))
    out = np.zeros(d.T.shape, d.dtype)
    run(sch.func, a, packed, out)
    assert (out.T == d).all()
    replayed(func, sch)


def test_transform_layout_fills_what_is_left_over():
    sch = schedule(matmul(relu=True))
    sch.transform_layout("D", "C", lambda i, j: (i // 4, j, i % 4), pad_value=0.0)
    assert "T.if_then_else(v0 == 3 and 1 <= v2, T.float32(0.0)" in sch.func.script()
    sch = schedule(matmul(16, relu=True))
    sch.transform_layout("D", "C", lambda i, j: (i // 4, j, i % 4))
    assert "C_pad" not in sch.func.script()


def test_transform_layout_pads_parameters():
    """What the caller reads behind a result is the padding; what it puts behind an argument is said by T.assume."""
    @T.prim_func
    def func(A: T.Buffer((14,), "int32"), B: T.Buffer((14,), "int32")):
        for i in range(14):
            with T.block("B"):
                vi = T.axis.spatial(14, i)
                B[vi] = A[vi] * 2
    sch = schedule(func)
    sch.transform_layout("B", "B", lambda i: ((i + 1) // 8, (i + 1) % 8), pad_value=lambda i, j: i * 10 + j)
    sch.transform_layout("B", "A", lambda i: (i // 4, IndexMap.AXIS_SEPARATOR, i % 4), pad_value=7)
    text = sch.func.script()
    assert 'A = T.match_buffer(var_A, (4, 4), "int32", axis_separators=[1])' in text
    assert "T.assume(not (v0 == 3 and 2 <= v1) or A[v0, v1] == 7)" in text
    a, b = np.full((4, 4), 7, "int32"), np.zeros((2, 8), "int32")
    a.reshape(-1)[:14] = np.arange(14)
    run(sch.func, a, b)
    assert b.reshape(-1).tolist() == [0, *range(0, 28, 2), 17]
    assert (lowered_in(sch.func, a) == b).all()
    replayed(func, sch)


def lowered_in(func, a):
    """The result of a function of A and B once it is lowered: memory is flat there, and nothing is assumed."""
    out = np.zeros(16, "int32")
    run(lower_prim_func(func), a.reshape(-1), out)
    return out.reshape(2, 8)


def test_transform_layout_of_a_nest_that_does_more():
    """An element that depends on another one keeps its turn; a nest with two results is left as it is."""
    @T.prim_func
    def func(A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
        S = T.alloc_buffer((6,), "float32")
        for i in range(6):
            with T.block("S"):
                vi = T.axis.opaque(6, i)
                S[vi] = A[vi] + T.if_then_else(vi > 0, S[vi - 1], T.float32(0.0))
                C[vi] = A[vi]
        for i in range(6):
            with T.block("B"):
                vi = T.axis.spatial(6, i)
                B[vi] = S[vi]
    sch = schedule(func)
    sch.transform_layout("S", "S", lambda i: (i % 4, i // 4), pad_value=1.0)
    assert "S_pad_S" in sch.func.script()
    assert_same(func, sch.func, exact=True)


def test_transform_layout_by_a_sampled_number():
    func = matmul(relu=True)
    sch = schedule(func)
    n, m = sch.sample_perfect_tile(sch.get_loops("C")[1], 2, decision=[11, 2])
    sch.transform_layout("C", "C", lambda i, j: (j // (m * 1), i, j % m))
    assert [int(e) for e in sch.get(sch.get_block("C")).writes[0].buffer.shape] == [11, 13, 2]
    assert_same(func, sch.func, exact=True)
    replayed(func, sch)


def test_transform_layout_after_other_steps():
    func, sch, row = softmax_by_rows(debug_mask="all")
    sch.parallel(row)
    sch.transform_layout("T_exp", ("write", 0), lambda i, j: (j, i))
    assert_same(func, sch.func)
    func = halves()
    sch = schedule(func)
    sch.transform_layout("B", ("write", 0), lambda i: (i // 2, i % 2))
    assert_same(func, sch.func, exact=True)


def test_transform_layout_of_a_symbolic_shape():
    func = symbolic()
    sch = schedule(func)
    sch.transform_layout("B", ("write", 0), lambda i, j: (j, i))
    assert_same(func, sch.func, {"n": 3}, exact=True)


@pytest.mark.parametrize("call, message", [
    (lambda s: s.transform_layout("C", ("write", 1), lambda i, j: (j, i)), "1 is not a position among the writes"),
    (lambda s: s.transform_layout("C", ("take", 0), lambda i, j: (j, i)), 'must be \\("read" or "write", position\\)'),
    (lambda s: s.transform_layout("C", "C", lambda **i: i), "an index map takes indices, which \\*\\*i are not"),
    (lambda s: s.transform_layout("C", "C", 3), "must be a function from indices to indices"),
])
def test_transform_layout_refuses(call, message):
    with pytest.raises(ScheduleError, match="transform_layout: .*" + message):
        call(schedule(matmul(relu=True)))


# ---------------------------------------------------------------- reindex

@pytest.mark.parametrize("o, w", [(20, 7), (33, 17)])
def test_reindex_makes_a_matrix_product_of_a_convolution(o, w):
    func = packed_conv(o=o, w=w)
    sch = schedule(func)
    conv = sch.get_block("conv2d_packed")
    image = sch.reindex(conv, ("read", 0))
    sch.reindex(conv, "w")
    out = sch.reindex(conv, ("write", 0))
    assert sch.get(image).name_hint == "x_reindex" and sch.get(out).name_hint == "conv2d_packed_reindex"
    reads = [str(i.min) for i in realize(sch, "conv2d_packed").block.reads[0].region]
    assert reads == ["v_b", "v_y", "v_xx", "v_ic", "v_kh", "v_kw"]
    assert_same(func, sch.func)
    replayed(func, sch)


# ---------------------------------------------------------------- blocks inside blocks

@T.prim_func
def cached_running_sum(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32")):
    B_local = T.alloc_buffer((4, 6), "float32", scope="local")
    for i, j in T.grid(4, 6):
        with T.block("B_local"):
            vi, vj = T.axis.remap("SS", [i, j])
            B_local[vi, vj] = B[vi, vj]
    for i, j in T.grid(4, 6):
        with T.block("R"):
            vi, vj = T.axis.remap("SS", [i, j])
            B_local[vi, vj] = B_local[vi, T.max(vj - 1, 0)] + A[vi, vj]
    for i, j in T.grid(4, 6):
        with T.block("B_local_back"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = B_local[vi, vj]


def test_a_block_inside_a_block_shares_buffers_with_what_is_outside():
    """The turns of j go on from each other's values, though nothing else inside R_o touches the buffer."""
    func = cached_running_sum
    sch = schedule(func)
    sch.blockize(sch.get_loops("R")[1])
    with pytest.raises(ScheduleError, match="the turns of loop j are not proved to touch different parts of B_local"):
        sch.vectorize(sch.get_loops("R")[0])
    assert_same(func, sch.func, exact=True)


# ---------------------------------------------------------------- decompose_padding, decompose_border

def image(h=5, w=7, top=1, left=2):
    """P = A twice as large with a border, and a consumer that reads it."""
    a = te.placeholder((h, w), name="A")
    p = te.compute((h + 2 * top, w + 2 * left), lambda i, j: tir.if_then_else(
        tir.And(tir.And(i >= top, i < h + top), tir.And(left <= j, j - left < w)), a[i - top, j - left] * 2.0, -1.0),
        name="P")
    c = te.compute((h, w), lambda i, j: p[i, j] + p[i + 2 * top, j + 2 * left], name="C")
    return te.create_prim_func([a, c])


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
