"""Tensors: how they are indexed and made, and what create_prim_func makes of them."""
import numpy as np
import pytest
from te_check import argmax, argmax_reference, block, block_names, check, matmul

from ingot.ir import te, tir
from ingot.ir.node import structural_equal
from ingot.ir.tir.verifier import verify

A = te.placeholder((5, 7), name="A")


def source(func):
    return func.script().split("\n\n", 1)[1]


def test_indexing_piece_by_piece():
    b = te.compute((5, 7), lambda i, j: A[i][j] + A(i, j) + A[i, j], name="B")
    check(te.create_prim_func([A, b]), [A, b], lambda a: 3 * a)
    assert b.op.input_tensors[0].op is A.op and b.ndim == 2 and b.dtype == "float32"


@pytest.mark.parametrize("wrong, error, message", [
    (lambda i, j: A[i] + 1.0, TypeError, "TensorSlice"),
    (lambda i, j: te.exp(A[i]), IndexError, "tensor A has 2 dimensions, indexed with 1"),
    (lambda i, j: A[i, j, 0], IndexError, "tensor A has 2 dimensions, indexed with 3"),
    (lambda i, j: A[i:j, 0], TypeError, "tensor A is indexed with a slice"),
    (lambda i, j: A[A[i, j], 0], TypeError, "of tensor A is float32 instead of an integer"),
    (lambda i: 0.0, ValueError, "compute B: fcompute takes 1 indices, the shape has 2 dimensions"),
    (lambda i, j: te.sum(A[i, j], axis=te.reduce_axis((0, 2))) + 1.0, ValueError,
     "compute B: a reduction must be the whole body"),
    (lambda i, j: te.sum(A[i, j], axis=tir.IterVar(None, i, "spatial")), TypeError,
     "sum reduces over i, a spatial axis; make the axis with te.reduce_axis"),
    (lambda i, j: te.sum(A[i, j], axis=[3]), TypeError, "sum reduces over 3; make the axis with te.reduce_axis"),
    (lambda i, j: te.sum(A[i, j], axis=te.reduce_axis((0, 2)), init=(1.0, 2.0)), ValueError,
     "sum reduces 1 values, init has 2"),
    (lambda i, j: (A[i, j], te.sum(A[i, j], axis=te.reduce_axis((0, 2)))), ValueError,
     "compute B: either all outputs are reductions or none is")])
def test_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        te.compute((5, 7), wrong, name="B")


def test_axis_names():
    names = [iv.var.name for iv in te.compute((2, 3, 4), lambda n, *rest: 0.0, varargs_names=["h", "w"]).op.axis]
    assert names == ["n", "h", "w"]
    assert [iv.var.name for iv in te.compute((2, 3), lambda *i: 0.0).op.axis] == ["i0", "i1"]
    with pytest.raises(ValueError, match="compute B: varargs_names has 1 names for 2 axes"):
        te.compute((2, 3), lambda *i: 0.0, name="B", varargs_names=["h"])


def test_a_tensor_without_dimensions_is_a_number():
    k = te.reduce_axis((0, 7), name="k")
    total = te.compute((), lambda: te.sum(A[0, k], axis=k), name="total")
    b = te.compute((5, 7), lambda i, j: A[i, j] / total, name="B")
    check(te.create_prim_func([A, b]), [A, b], lambda a: a / a[0].sum(), 1e-3)


def test_tensors_in_arithmetic_broadcast():
    pytest.importorskip("ingot.ir.topi")
    row = te.placeholder((7,), name="row")
    b = (A + row) * A - row / 2.0 + (1.0 - A)
    check(te.create_prim_func([A, row, b]), [A, row, b], lambda a, r: (a + r) * a - r / 2 + (1 - a))


def test_an_axis_in_arithmetic_is_its_variable():
    k = te.reduce_axis((0, 5), name="k")
    b = te.compute((3,), lambda i: te.sum(A[k, i + k - (k // 2) * 2] * (4 - k).astype("float32"), axis=k,
                                          where=k > 0), name="B")
    check(te.create_prim_func([A, b]), [A, b],
          lambda a: np.array([sum(a[k, i + k % 2] * (4 - k) for k in range(1, 5)) for i in range(3)]))


def test_reductions_with_init_and_where():
    k = te.reduce_axis((0, 7), name="k")
    bias = te.placeholder((5,), name="bias")
    b = te.compute((5,), lambda i: te.sum(A[i, k], axis=k, where=k % 2 == 0, init=bias[i]), name="B")
    func = check(te.create_prim_func([A, bias, b]), [A, bias, b], lambda a, c: c + a[:, ::2].sum(1))
    assert [r.buffer.name for r in block(func, "B").reads] == ["bias", "A"]


@pytest.mark.parametrize("reducer, reference", [
    (te.sum, np.sum), (te.prod, np.prod), (te.max, np.max), (te.min, np.min)])
def test_reducers(reducer, reference):
    k = te.reduce_axis((0, 7), name="k")
    b = te.compute((5,), lambda i: reducer(A[i, k], axis=k), name="B")
    check(te.create_prim_func([A, b]), [A, b], lambda a: reference(a, 1), 1e-4)


def test_reducers_called_with_expressions_combine_them():
    b = te.compute((5, 7), lambda i, j: te.max(A[i, j], 0.0) + te.min(A[i, j], te.max(1.0, A[0, 0])), name="B")
    check(te.create_prim_func([A, b]), [A, b], lambda a: np.maximum(a, 0) + np.minimum(a, max(a[0, 0], 1)))


def test_argmax_prints_as_in_the_classic_form():
    index, value, first, second = argmax()
    func = check(te.create_prim_func([index, value, first, second]), [index, value, first, second], argmax_reference)
    text = source(func)
    assert "v_T_v0: T.int32 = T.Select(T_v1[v_i] >= val[v_i, v_k], T_v0[v_i], idx[v_i, v_k])" in text
    assert "T.writes(T_v0[v_i], T_v1[v_i])" in text and block_names(func) == ["T"]


def test_a_wrong_reducer_is_refused():
    for combine, identity, message in (
            (lambda x, y: (x[0],), lambda t, u: (0, 0), "pair reduces 2 values, fcombine returned 1"),
            (lambda x, y: x, lambda t, u: (0,), "pair reduces 2 values, fidentity returned 1")):
        with pytest.raises(ValueError, match=message):
            te.comm_reducer(combine, identity, name="pair")((A[0, 0], A[0, 1]), axis=te.reduce_axis((0, 2)))


def test_several_outputs_are_blocks_of_one_nest():
    b, c = te.compute((5, 7), lambda i, j: (A[i, j] + 2.0, A[i, j] * 3.0), name="B")
    func = check(te.create_prim_func([A, b, c]), [A, b, c], lambda a: (a + 2, a * 3))
    assert block_names(func) == ["B.v0", "B.v1"] and source(func).count("T.grid(5, 7)") == 1


def test_attrs_and_tags():
    b = te.compute((5, 7), lambda i, j: A[i, j] + 1.0, name="B", tag="elemwise", attrs={"layout": "NC"})
    assert b.op.tag == "elemwise"
    assert block(te.create_prim_func([A, b]), "B").annotations == {"layout": "NC"}
    with te.tag_scope("broadcast"):
        assert te.compute((5,), lambda i: A[i, 0]).op.tag == "broadcast"
        with pytest.raises(ValueError, match="tag scope inner lies inside tag scope broadcast; scopes do not nest"):
            with te.tag_scope("inner"):
                pass
    tagged = te.tag_scope("injective")(lambda: te.compute((5,), lambda i: A[i, 0]))
    assert tagged().op.tag == "injective" and te.compute((5,), lambda i: A[i, 0]).op.tag == ""


def test_matmul_is_the_classic_program():
    from ingot.script import tir as T

    @T.prim_func
    def main(A: T.Buffer((13, 9), "float32"), B: T.Buffer((9, 22), "float32"), C: T.Buffer((13, 22), "float32")):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i, j, k in T.grid(13, 22, 9):
            with T.block("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                T.reads(A[v_i, v_k], B[v_k, v_j])
                T.writes(C[v_i, v_j])
                with T.init():
                    C[v_i, v_j] = T.float32(0)
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]

    assert structural_equal(te.create_prim_func(list(matmul())), main)


def test_symbolic_shapes_come_from_buffers_or_parameters():
    n, m = te.size_var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    text = source(verify(te.create_prim_func([a, b])))
    assert "n, m = T.int32(is_size_var=True), T.int32()" in text and "A = T.match_buffer(var_A, (n, m)" in text
    text = source(verify(te.create_prim_func([n, m, a, b])))
    assert "def main(n: T.int32, m: T.int32, var_A: T.handle, var_B: T.handle)" in text


def test_index_dtype_override():
    n = te.var("n")
    a = te.placeholder((n, 7), name="A")
    picked = te.placeholder((5,), "int32", name="picked")
    b = te.compute((5, 7), lambda i, j: te.if_then_else(j < 6, a[picked[i], j], te.floormod(i, 2).astype("float32")),
                   name="B")
    func = verify(te.create_prim_func([a, picked, b], index_dtype_override="int64"))
    text = source(func)
    assert "n = T.int64()" in text and "T.grid(T.int64(5), T.int64(7))" in text
    assert 'picked: T.Buffer((T.int64(5),), "int32")' in text and "v_j < T.int64(6)" in text
    picks, x = np.array([3, 0, 2, 2, 1], "int32"), np.random.default_rng(0).random((4, 7), np.float32)
    out = np.zeros((5, 7), np.float32)
    from interp import run
    run(func, x, picks, out)
    expected = x[picks]
    expected[:, 6] = np.arange(5) % 2
    np.testing.assert_array_equal(out, expected)
    index, value, first, second = argmax()
    args = [index, value, first, second]
    func = check(te.create_prim_func(args, index_dtype_override="int64"), args, argmax_reference)
    assert "v_T_v0: T.int32" in source(func) and "range" not in source(func).replace("T.grid", "")
    with pytest.raises(ValueError, match="index_dtype_override is 'int8'; known: \"int32\", \"int64\""):
        te.create_prim_func([a, picked, b], index_dtype_override="int8")


def test_math_is_lent_from_tir():
    b = te.compute((5, 7), lambda i, j: te.exp(A[i, j]) + te.tanh(A[i, j]) + te.indexmod(j, 3).astype("float32")
                   + te.floor(te.power(te.abs(A[i, j]), 2.0)), name="B")
    check(te.create_prim_func([A, b]), [A, b],
          lambda a: np.exp(a) + np.tanh(a) + np.arange(7) % 3 + np.floor(np.abs(a) ** 2))
    with pytest.raises(AttributeError, match="module 'ingot.ir.te' has no attribute 'nothing'"):
        te.nothing
    for name in te._FROM_TIR:
        assert callable(getattr(te, name)), name


def test_thread_axes():
    axis = te.thread_axis((0, 32), "threadIdx.x")
    assert axis.thread_tag == "threadIdx.x" and int(axis.dom.extent) == 32
    assert te.thread_axis("blockIdx.y").var.name == "blockIdx.y"
    with pytest.raises(ValueError, match='thread_axis: no tag is given, such as "threadIdx.x"'):
        te.thread_axis((0, 4))


def test_a_whole_quotient_is_a_dimension():
    a = te.placeholder((96 / 32, 4.0), name="A")
    assert [d.value for d in te.compute((64 / 32, 4), lambda i, j: a[i, j] + 1).shape] == [2, 4]
    assert a.shape[0].dtype == "int32"
    with pytest.raises(TypeError, match=r"a dimension of shape \(T.float32\(3.5\)\) is float32 instead of an integer"):
        te.placeholder((7 / 2,))


def test_two_sided_functions_take_tensors_and_expressions():
    a, x = te.placeholder((3,), name="A"), te.var("x")
    assert str(te.add(x, 1)) == "x + 1" and str(te.multiply(2, te.subtract(x, 1))) == "2 * (x - 1)"
    assert te.add(a, a).shape[0].value == 3


def test_representations_are_short():
    a = te.placeholder((3, 4), name="A")
    b = te.compute((3, 4), lambda i, j: a[i, j] * 2, name="B")
    assert repr(b) == "Tensor(shape=[3, 4], op.name=B)" and repr([te.var("x") + 1]) == "[x + 1]"
    assert repr(a.op) == 'PlaceholderOp(A, shape=(3, 4), dtype="float32")' and a.op.tag == "" and a.op.attrs == {}
