"""relax.op's calls in classic form: struct info of what is not known in full, and results of those made of several
operators, against numpy, by the reference evaluator and by compiled C."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax, tir
from ingot.ir.op import InferError
from ingot.ir.relax.evaluate import evaluate
from ingot.relax import BlockBuilder, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo, Var, op
from ingot.script import relax as R

RNG = np.random.default_rng(7)
A = RNG.standard_normal((3, 4, 5)).astype("float32")
P = np.log(RNG.random((4, 6)).astype("float32") + 0.1)
T = np.array([0, 5, 2, 2], "int64")


def var(name, *shape, dtype="float32"):
    return Var(name, TensorStructInfo(shape, dtype))


def unknown(ndim=-1, dtype="float32"):
    return Var("u", TensorStructInfo(None, dtype, ndim))


def module(build, *arrays):
    bb = BlockBuilder()
    params = [var(f"x{k}", *a.shape, dtype=a.dtype.name) for k, a in enumerate(arrays)]
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(build(*params))
        bb.emit_func_output(out)
    return bb.get()


def _nll(p, t, w):
    weight = w[t]
    return -(p[np.arange(len(t)), t] * weight).sum() / weight.sum()


W = np.arange(1, 7, dtype="float32")
IMAGE, KERNEL = RNG.standard_normal((2, 8, 9, 3)).astype("float32"), RNG.standard_normal((4, 3, 3, 3)).astype("float32")
ROW, DECONV = RNG.standard_normal((2, 3, 7)).astype("float32"), RNG.standard_normal((3, 2, 3)).astype("float32")


def _conv_nhwc(x, w):
    out = np.zeros((2, 6, 7, 4), "float32")
    for i in range(6):
        for j in range(7):
            out[:, i, j] = np.tensordot(x[:, i:i + 3, j:j + 3], w, ([1, 2, 3], [1, 2, 3]))
    return out


def _conv1d_transpose(x, w):
    out = np.zeros((2, 2, 15), "float32")
    for k in range(3):
        out[:, :, k:k + 13:2] += np.einsum("nil,io->nol", x, w[:, :, k])
    return out


def _attention(q, k, v):
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / 2
    scores = np.where(np.tril(np.ones(scores.shape[2:])) > 0, scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhqk,bkhd->bqhd", e / e.sum(-1, keepdims=True), v)


QKV = [RNG.standard_normal((1, 3, 2, 4)).astype("float32") for _ in range(3)]
COMPUTED = [
    (lambda x: op.sort(x, axis=1, descending=True), [A], -np.sort(-A, 1)),
    (lambda x: op.argsort(x, axis=2), [A], np.argsort(A, 2).astype("int32")),
    (lambda x: op.topk(x, 2, ret_type="indices"), [A], np.argsort(-A, 2)[..., :2].astype("int32")),
    (lambda x: op.einsum([x, x], "abc,abd->acd"), [A], np.einsum("abc,abd->acd", A, A)),
    (lambda x: op.einsum([x], "...c->..."), [A], A.sum(-1)),
    (lambda x: op.collapse_sum_to(x, (4, 1)), [A], A.sum((0, 2))[:, None]),
    (lambda p, t, w: op.nn.nll_loss(p, t, w), [P, T, W], _nll(P, T, W)),
    (lambda p, t: op.nn.nll_loss(p, t, reduction="none", ignore_index=2), [P, T],
     np.where(T == 2, 0, -P[np.arange(4), T])),
    (lambda p: op.nn.cross_entropy_with_logits(p, p), [P], -(P * P).sum() / np.float32(4)),
    (lambda x: op.nn.dropout(x)[0], [A], A),
    (lambda x, w: op.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="OHWI"), [IMAGE, KERNEL],
     _conv_nhwc(IMAGE, KERNEL)),
    (lambda x, w: op.nn.conv1d_transpose(x, w, strides=2), [ROW, DECONV], _conv1d_transpose(ROW, DECONV)),
    (lambda x: op.nn.max_pool2d(x, 2, 2, layout="NHWC"), [IMAGE],
     IMAGE[:, :, :8].reshape(2, 4, 2, 4, 2, 3).max((2, 4))),
    (lambda x: op.nn.adaptive_avg_pool1d(x, 1), [ROW], ROW.mean(2, keepdims=True)),
    (lambda q, k, v: op.nn.attention(q, k, v, causal_mask="TopLeft"), QKV, _attention(*QKV)),
    (lambda x: op.quantize(x, relax.const(0.1, "float32"), relax.const(3, "int8")), [A],
     np.clip(np.round(A / np.float32(0.1)) + 3, -128, 127).astype("int8")),
    (lambda x: op.eye_like(op.reshape(x, (6, 10)), 1), [A], np.eye(6, 10, 1, dtype="float32")),
    (lambda x: op.layout_transform(x, lambda i, j, k: (k, i, j // 2, j % 2)), [A],
     A.reshape(3, 2, 2, 5).transpose(3, 0, 1, 2)),
    (lambda x: op.layout_transform(x, lambda i, j, k: (i, j, k // 3, k % 3), pad_value=7.0), [A],
     np.pad(A, ((0, 0), (0, 0), (0, 1)), constant_values=7).reshape(3, 4, 2, 3)),
    (lambda x: op.hamming_window(8) + op.sum(x, [0, 1, 2]), [A],
     (0.54 - 0.46 * np.cos(np.arange(8) * np.pi / 4)).astype("float32") + A.sum()),
    (lambda x: op.split(x, 3, axis=1)[2], [RNG.standard_normal((2, 5)).astype("float32")], None),
    (lambda x, g: op.nn.group_norm(x, g, g, 2, channel_axis=-1, axes=[1, 2]), [
        RNG.standard_normal((2, 3, 4, 6)).astype("float32"), W], None),
]


@pytest.mark.parametrize("build, arrays, expected", COMPUTED)
def test_results(build, arrays, expected):
    mod = module(build, *arrays)
    found = evaluate(mod, arrays)
    if expected is not None:
        assert found.dtype == np.asarray(expected).dtype and found.shape == np.asarray(expected).shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    compiled = tvm.compile(mod)(*arrays)
    np.testing.assert_allclose(np.asarray(compiled).reshape(found.shape), found, rtol=1e-4, atol=1e-5)


n, m = tir.Var("n", "int64"), tir.Var("m", "int64")
S = Var("s", ShapeStructInfo(ndim=2))


@pytest.mark.parametrize("build, expected", [
    (lambda: op.exp(unknown(3)), TensorStructInfo(None, "float32", 3)),
    (lambda: op.exp(unknown()), TensorStructInfo(None, "float32")),
    (lambda: op.exp(Var("x", TensorStructInfo(S, "float16"))), TensorStructInfo(S, "float16")),
    (lambda: op.add(var("x", 2, 3), var("y", 2, 3, dtype="")), TensorStructInfo((2, 3), "")),
    (lambda: op.add(unknown(2), var("y", 4, 1, 3)), TensorStructInfo(None, "float32", 3)),
    (lambda: op.add(var("x", m, n), var("y", m, n + 2)), TensorStructInfo(None, "float32", 2)),
    (lambda: op.add(Var("x", PrimStructInfo("int32")), Var("y", PrimStructInfo("int32"))), PrimStructInfo("int32")),
    (lambda: op.less(unknown(1, ""), unknown(1)), TensorStructInfo(None, "bool", 1)),
    (lambda: op.sum(unknown(4), [1, 2]), TensorStructInfo(None, "float32", 2)),
    (lambda: op.sum(unknown()), TensorStructInfo((), "float32")),
    (lambda: op.argmax(var("x", 2, 3, dtype=""), 1), TensorStructInfo((2,), "int64")),
    (lambda: op.matmul(unknown(3), unknown(2)), TensorStructInfo(None, "float32", 3)),
    (lambda: op.reshape(unknown(), (3, 4)), TensorStructInfo((3, 4), "float32")),
    (lambda: op.reshape(var("x", 6), S), TensorStructInfo(S, "float32")),
    (lambda: op.nn.conv2d(unknown(4), unknown(4)), TensorStructInfo(None, "float32", 4)),
    (lambda: op.nn.conv2d(var("x", n, 3, m, 8), var("w", 4, 3, 3, 3), strides=(1, 2)),
     TensorStructInfo((n, 4, m - 2, 3), "float32")),
    (lambda: op.split(unknown(2), 2, 1), TupleStructInfo((TensorStructInfo(None, "float32", 2),) * 2)),
    (lambda: op.unique(unknown(3)), TensorStructInfo(None, "float32", 1)),
    (lambda: op.memory.view(var("x", 8), R.shape([2, 4])), TensorStructInfo((2, 4), "float32")),
])
def test_what_is_known(build, expected):
    assert BlockBuilder().normalize(build()).struct_info == expected


@pytest.mark.parametrize("build, message", [
    (lambda: op.add(unknown(2, "int8"), unknown(2)), "differ in dtype"),
    (lambda: op.reshape(unknown(3), (2, -1)), "cannot be told"),
    (lambda: op.nn.conv2d(unknown(3), unknown(4)), "data must have 4 dimensions"),
    (lambda: op.nn.conv2d(var("x", 1, 4, m, 8), var("w", 4, 3, 3, 3)), "channels"),
    (lambda: op.exp(Var("x", ShapeStructInfo((2,)))), "must be a tensor"),
    (lambda: op.memory.view(var("x", 8), R.shape([3, 4])), "are more than"),
    (lambda: op.memory.view(var("x", 8), R.shape([2]), None, -4), "relative_byte_offset is -4, before the first byte"),
])
def test_what_contradicts_itself_is_refused(build, message):
    with pytest.raises(InferError, match=message):
        build()


K = tir.Var("k", "int64")


@pytest.mark.parametrize("build, params, message", [
    (lambda x, y: op.equal(x, y), [var("x", 3), var("y", 3, dtype="int32")], "operands differ in dtype"),
    (lambda x, w: op.nn.conv2d(x, w), [var("x", 1, n, 8, 8), var("w", 4, K, 3, 3)], "has n channels"),
])
def test_what_cannot_be_compiled_says_so(build, params, message):
    bb = BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            y = bb.emit_output(build(*params))
        bb.emit_func_output(y)
    with pytest.raises(ValueError, match=message):
        tvm.compile(bb.get())


def test_devices_are_handed_on():
    device = tvm.ir.VDevice("llvm")
    x = Var("x", TensorStructInfo((2, 3), "float32", device))
    assert op.exp(x).struct_info == TensorStructInfo((2, 3), "float32", device)
    with pytest.raises(TypeError, match="several devices"):
        op.add(x, Var("y", TensorStructInfo((2, 3), "float32", tvm.ir.VDevice("cuda"))))
