"""transform_layout, reindex and cache_inplace: structure, numbers, refusals and replay."""
import numpy as np
import pytest
from interp import run

from ingot.ir.node import structural_equal
from ingot.ir.schedule import Schedule, ScheduleError, Trace
from schedule_programs import (arrays_for, assert_same, halves, matmul, packed_conv, realize, running_sum,
                               softmax_by_rows, symbolic)


def schedule(func):
    return Schedule(func, error_render_level="fast", debug_mask="all")


def replayed(func, sch):
    text, saved = Schedule(func), Schedule(func)
    exec(str(sch.trace), {"sch": text})
    Trace.from_json(sch.trace.as_json()).apply(saved)
    assert structural_equal(text.func, sch.func) and structural_equal(saved.func, sch.func)


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
    sch.transform_layout("D", "C", lambda i, j: (i // 4, j, i % 4), pad_value=0)
    assert "if v0 * 4 + v2 >= 13:" in sch.func.script()
    sch = schedule(matmul(16, relu=True))
    sch.transform_layout("D", "C", lambda i, j: (i // 4, j, i % 4))
    assert "C_pad" not in sch.func.script()


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
    (lambda s: s.transform_layout("C", ("read", 0), lambda i, j: (j // 4, i, j % 4)), "buffer A is a parameter, and"),
    (lambda s: s.transform_layout("C", ("write", 0), lambda i: i), "it takes 1 indices, buffer C has 2"),
    (lambda s: s.transform_layout("C", ("write", 0), lambda i, j: (i // 4, j, i % 4)),
     "argument 'pad_value': the map makes C 4 x 22 x 4 for 13 x 22 elements; say with pad_value"),
    (lambda s: s.transform_layout("C", ("write", 0), lambda i, j: (i // 2, j), pad_value=0),
     "not proved to keep elements of different i apart"),
    (lambda s: s.transform_layout("C", ("write", 0), lambda i, j: (i - 1, j), pad_value=0), "begin below 0"),
    (lambda s: s.transform_layout("C", ("write", 0), lambda i, j: (i * 2, j), pad_value=0),
     "the places that stay empty are not understood"),
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


# ---------------------------------------------------------------- cache_inplace


def test_a_block_inside_a_block_shares_buffers_with_what_is_outside():
    """The turns of j go on from each other's values, though nothing else inside R_o touches the buffer."""
    func = running_sum()
    sch = schedule(func)
    sch.cache_inplace("R", "B", "local")
    sch.blockize(sch.get_loops("R")[1])
    with pytest.raises(ScheduleError, match="the turns of loop j are not proved to touch different parts of B_local"):
        sch.vectorize(sch.get_loops("R")[0])
    assert_same(func, sch.func, exact=True)
