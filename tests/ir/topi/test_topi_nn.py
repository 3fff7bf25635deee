"""topi.nn and topi.image against plain numpy, which is written here from the formulas."""
import numpy as np
import pytest
from topi_check import A, B, C, D, E, check, floats, tensors
from value_target import value_target

import ingot as tvm
from ingot.ir import te, topi
from ingot.ir.expr import Var
from ingot.ir.op import InferError

X, M, W = floats(2, 6, 9, 8, low=-1), floats(5, 7), floats(4, 6, 3, 2, low=-1)
V = floats(6, seed=3, low=0.5)


def pair(v):
    return (v, v) if isinstance(v, int) else v


def conv(x, w, stride=1, pads=(0, 0, 0, 0), dilation=1, groups=1):
    """The definition, in two dimensions; pads: top, left, bottom, right."""
    (sy, sx), (dy, dx) = pair(stride), pair(dilation)
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    kh, kw = w.shape[2:]
    oh, ow = (x.shape[2] - (kh - 1) * dy - 1) // sy + 1, (x.shape[3] - (kw - 1) * dx - 1) // sx + 1
    per_out, per_in = w.shape[0] // groups, w.shape[1]
    out = np.zeros((x.shape[0], w.shape[0], oh, ow))
    for o in range(w.shape[0]):
        own = x[:, o // per_out * per_in:(o // per_out + 1) * per_in]
        for i in range(kh):
            for j in range(kw):
                window = own[:, :, i * dy:i * dy + sy * (oh - 1) + 1:sy, j * dx:j * dx + sx * (ow - 1) + 1:sx]
                out[:, o] += (window * w[o, :, i, j][:, None, None]).sum(1)
    return out.astype(np.float32)


S = floats(6, 3, 3, 2, low=-1, seed=5)  # depthwise with multiplier 3
G = floats(4, 3, 3, 3, low=-1, seed=6)  # two groups
CONVS = [
    ("nn.conv2d", [A, B, 1, 0, 1], W, conv(X, W)), ("nn.conv2d", [A, B, (2, 1), (1, 0), 2, "NCHW"], W,
                                                   conv(X, W, (2, 1), (1, 0, 1, 0), 2)),
    ("nn.conv2d_nchw", [A, B, 2, (1, 1, 0, 2), 1, "float32"], W, conv(X, W, 2, (1, 1, 0, 2))),
    ("nn.conv2d", [A, B, 1, "SAME", 1], W, conv(X, W, 1, (1, 1, 1, 0))),
    ("nn.conv2d", [A, B, 2, "VALID", 1], W, conv(X, W, 2)),
    ("nn.depthwise_conv2d_nchw", [A, B, 1, 1, 1], S, conv(X, S.reshape(18, 1, 3, 2), 1, (1, 1, 1, 1), groups=6)),
    ("nn.depthwise_conv2d_nchw", [A, B, 2, 0, 1], S[:, :1], conv(X, S[:, :1], 2, groups=6)),
    ("nn.group_conv2d_nchw", [A, B, 1, 1, 1, 2], G, conv(X, G, 1, (1, 1, 1, 1), groups=2)),
]


@pytest.mark.parametrize("name, args, weight, expected", CONVS)
def test_convolutions(name, args, weight, expected):
    x = te.placeholder((2, 6, 9, 8), name="x")
    check(name, [X[:1], weight], args, expected[:1], 1e-4, symbolic=False)
    assert getattr(topi.nn, name[3:])(x, te.placeholder(weight.shape), *args[2:]).shape[0] == 2


def test_convolutions_of_integers_widen():
    x, w = (X[:1] * 50).astype(np.int8), (W * 50).astype(np.int8)
    expected = conv(x, w).astype(np.int32)
    check("nn.conv2d", [x, w], [A, B, 1, 0, 1, "NCHW", "", "int32"], expected)


def test_convolutions_of_other_ranks():
    x, w = X[:, :, :, 0], W[..., 0]
    check("nn.conv1d", [x, w], [A, B], conv(x[..., None], w[..., None])[..., 0], 1e-4)
    check("nn.conv1d_ncw", [x, w], [A, B, 2, 1], conv(x[..., None], w[..., None], (2, 1), (1, 0, 1, 0))[..., 0], 1e-4)
    deep, kernel = floats(1, 2, 4, 5, 4), floats(3, 2, 1, 3, 2)
    expected = np.stack([conv(deep[:, :, d], kernel[:, :, 0]) for d in range(4)], 2)
    check("nn.conv3d_ncdhw", [deep, kernel], [A, B], expected, 1e-4)


def test_a_transposed_convolution_is_the_adjoint():
    w, y = floats(6, 4, 3, 2, low=-1), floats(1, 6, 4, 3, low=-1)
    dilated = np.zeros((1, 6, 7, 5), np.float32)
    dilated[:, :, ::2, ::2] = y
    expected = conv(dilated, w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3), 1, (2, 1, 2, 1))
    check("nn.conv2d_transpose_nchw", [y, w], [A, B, 2, 0, "float32", 0], expected, 1e-4, symbolic=False)


PRODUCTS = [
    ("matmul", [A, B], [M, floats(7, 3)], M @ floats(7, 3)),
    ("matmul", [A, B, False, True], [M, floats(4, 7)], M @ floats(4, 7).T),
    ("matmul", [A, B, True, False], [M, floats(5, 3)], M.T @ floats(5, 3)),
    ("nn.dense", [A, B], [M, floats(4, 7)], M @ floats(4, 7).T),
    ("nn.dense", [A, B, C], [M, floats(4, 7), V[:4]], M @ floats(4, 7).T + V[:4]),
    ("nn.batch_matmul", [A, B], [X[:, 0], floats(2, 5, 8)], X[:, 0] @ floats(2, 5, 8).transpose(0, 2, 1)),
    ("nn.batch_matmul", [A, B, None, None, True, False], [X[:, 0], floats(1, 9, 4)],
     X[:, 0].transpose(0, 2, 1) @ floats(1, 9, 4)),
]


@pytest.mark.parametrize("name, args, arrays, expected", PRODUCTS)
def test_products(name, args, arrays, expected):
    func = check(name, arrays, args, expected.astype(np.float32), 1e-4, symbolic=False)
    assert not func.root.alloc_buffers or name == "nn.dense"  # transposed operands are read in place
    n = Var("n", "int32")
    a, b = te.placeholder((n, 7)), te.placeholder((4, 7))
    assert topi.nn.dense(a, b).shape[0] is n


def test_dense_of_integers_widens():
    x, w = (M * 9).astype(np.int8), (floats(4, 7) * 9).astype(np.int8)
    check("nn.dense", [x, w], [A, B, None, "int32"], x.astype(np.int32) @ w.astype(np.int32).T, symbolic=False)


def pooled(function, x, kernel, stride):
    (kh, kw), (sy, sx) = kernel, stride
    oh, ow = (x.shape[2] - kh) // sy + 1, (x.shape[3] - kw) // sx + 1
    rows = [x[:, :, i * sy:i * sy + kh] for i in range(oh)]
    return np.stack([np.stack([function(row[..., j * sx:j * sx + kw], (2, 3)) for j in range(ow)], -1)
                     for row in rows], -2)


def test_pools():
    padded = np.pad(X, ((0, 0), (0, 0), (1, 0), (0, 1)))
    for kind, function in (("max", np.max), ("avg", np.mean)):
        check("nn.pool2d", [X], [A, (3, 2), (2, 2), (1, 1), (0, 0, 0, 0), kind],
              pooled(function, X, (3, 2), (2, 2)), 1e-4)
        check("nn.global_pool", [X], [A, kind], function(X, (2, 3), keepdims=True), 1e-4)
        check("nn.adaptive_pool", [X], [A, (3, 4), kind], pooled(function, X, (3, 2), (3, 2)), 1e-4)
        check("nn.pool1d", [X[..., 0]], [A, 3, 2, 1, 0, kind],
              pooled(function, X[..., :1], (3, 1), (2, 1))[..., 0], 1e-4)
    check("nn.pool2d", [X], [A, 3, 1, 1, (1, 0, 0, 1), "avg"], pooled(np.mean, padded, (3, 3), (1, 1)), 1e-4)
    ones = pooled(np.sum, np.pad(np.ones_like(X), ((0, 0), (0, 0), (1, 0), (0, 1))), (3, 3), (1, 1))
    check("nn.pool2d", [X], [A, 3, 1, 1, (1, 0, 0, 1), "avg"], pooled(np.sum, padded, (3, 3), (1, 1)) / ones, 1e-4,
          kwargs={"count_include_pad": False})


def normal(x, axes, epsilon=1e-5):
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def along(v, rank=4, axis=1):
    return v.reshape([-1 if k == axis else 1 for k in range(rank)])


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


U = floats(6, seed=4)
GROUPED = normal(X.reshape(2, 3, -1), 2).reshape(X.shape) * along(V) + along(U)
NORMS = [
    ("nn.softmax", [A], [M], softmax(M, -1)), ("nn.softmax", [A, 1], [X], softmax(X, 1)),
    ("nn.fast_softmax", [A], [M], softmax(M, -1)),
    ("nn.log_softmax", [A], [M], np.log(softmax(M, -1))),
    ("nn.layer_norm", [A, B, C, [3], 1e-3], [X, floats(8), V[:1].repeat(8)], normal(X, 3, 1e-3) * floats(8) + V[0]),
    ("nn.instance_norm", [A, B, C, 1, [2, 3]], [X, V, U], normal(X, (2, 3)) * along(V) + along(U)),
    ("nn.group_norm", [A, B, C, 3, 1, [2, 3]], [X, V, U], GROUPED),
    ("nn.rms_norm", [A, B, [1]], [M, floats(7)], M / np.sqrt((M * M).mean(1, keepdims=True) + 1e-5) * floats(7)),
    ("nn.batch_norm", [A, B, C, D, E, 1, 1e-3], [X, V, U, U, V],
     [(X - along(U)) / np.sqrt(along(V) + 1e-3) * along(V) + along(U), U, V]),
    ("nn.batch_norm", [A, B, C, D, E, None, None, False, False], [X, V, U, U, V],
     [(X - along(U)) / np.sqrt(along(V) + 1e-5), U, V]),
    ("nn.scale_shift_nchw", [A, B, C], [X, V, U], X * along(V) + along(U)),
    ("nn.bias_add", [A, B], [X, V], X + along(V)),
    ("nn.bias_add", [A, B, -1], [M, V[:1].repeat(7)], M + V[0]),
    ("nn.lrn", [A, 3, 1, 1e-2, 0.5, 2.0], [X], None),
]


@pytest.mark.parametrize("name, args, arrays, expected", NORMS)
def test_normalizations(name, args, arrays, expected):
    if expected is None:
        squares = np.pad(X ** 2, ((0, 0), (1, 1), (0, 0), (0, 0)))
        expected = X / (2 + 1e-2 / 3 * sum(squares[:, k:k + 6] for k in range(3))) ** 0.5
    expected = [e.astype(np.float32) for e in (expected if isinstance(expected, list) else [expected])]
    check(name, arrays, args, expected, 1e-4, symbolic=name not in ("nn.scale_shift_nchw",))


def test_wide_and_small_floats():
    """A root mean square of float64 is computed in that; the place of the least float16 is found by compiled pairs."""
    x, w = M.astype("float64"), floats(7).astype("float64")
    check("nn.rms_norm", [x, w], [A, B, [1]], x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * w, 1e-14, symbolic=False)
    a = te.placeholder((5, 7), "float16", name="a")
    places, found = topi.argmin(a, axis=-1), tvm.nd.empty((5,), "int32")
    tvm.build(te.create_prim_func([a, places]), target=value_target())(tvm.nd.array(M.astype("float16")), found)
    assert np.array_equal(found.numpy(), M.astype("float16").argmin(-1))


ACTIVATIONS = [
    ("relu", [], np.maximum(X, 0)), ("leaky_relu", [0.1], np.where(X < 0, X * np.float32(0.1), X)),
    ("silu", [], X / (1 + np.exp(-X))), ("elu", [0.5], np.where(X < 0, np.expm1(X) / 2, X)),
    ("relu6", [], X.clip(0, 6)), ("softplus", [], np.log1p(np.exp(X))), ("gelu_tanh", [], None),
    ("selu", [], 1.0507009873554805 * np.where(X < 0, 1.6732632423543772 * np.expm1(X), X)),
]


@pytest.mark.parametrize("name, args, expected", ACTIVATIONS, ids=[r[0] for r in ACTIVATIONS])
def test_activations(name, args, expected):
    if expected is None:
        expected = X / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X ** 3)))
    check("nn." + name, [X], [A, *args], expected.astype(np.float32), 1e-4)


def test_prelu_and_shapes():
    check("nn.prelu", [X, V], [A, B], np.where(X < 0, X * along(V), X))
    check("nn.flatten", [X], [A], X.reshape(2, -1))
    wide = np.pad(X, ((0, 0), (0, 0), (1, 2), (0, 3)), constant_values=5)
    check("nn.pad", [X], [A, (0, 0, 1, 0), (0, 0, 2, 3), 5.0], wide)
    check("nn.pad", [M], [A, (1, 2)], np.pad(M, ((1, 1), (2, 2))))
    mirrored = np.pad(M, ((1, 0), (2, 1)), mode="reflect")
    check("nn.mirror_pad", [M], [A, (1, 2), (0, 1), "REFLECT"], mirrored, symbolic=False)
    assert topi.nn.pad(te.placeholder((3, 4)), (1, 1), name="data_pad").op.name == "data_pad"


def test_stages_have_tvms_names():
    a, b = te.placeholder((4, 8), name="A"), te.placeholder((6, 8), name="B")
    image, kernel = te.placeholder((1, 3, 5, 5), name="X"), te.placeholder((2, 3, 3, 3), name="K")
    found = {
        "T_matmul_NT": topi.nn.dense(a, b), "T_matmul": topi.matmul(a, topi.transpose(b)), "T_add": topi.add(a, 1.0),
        "T_transpose": topi.transpose(a), "T_softmax_norm": topi.nn.softmax(a), "compute": topi.nn.relu(a),
        "conv2d_nchw": topi.nn.conv2d(image, kernel, 1, 0, 1), "T_reshape": topi.reshape(a, (32,))}
    assert {name: t.op.name for name, t in found.items()} == {name: name for name in found}


def test_images():
    check("nn.upsampling", [X], [A, 2, 3], X.repeat(2, 2).repeat(3, 3))
    check("image.resize2d", [X], [A, None, (9, 8)], X)
    check("image.resize2d", [X], [A, (0.0,) * 4, (3, 8), "NCHW", "nearest_neighbor", "asymmetric"], X[:, :, ::3])
    half = X.reshape(2, 6, 9, 4, 2).mean(-1)  # the middle between two pixels
    check("image.resize2d", [X], [A, None, (9, 4)], half, 1e-5)
    ends = X[:, :, [0, 4, 8]][..., [0, 7]]
    check("nn.upsampling", [X], [A, 1 / 3, 1 / 4, "NCHW", "bilinear", True], ends, 1e-5)


@pytest.mark.parametrize("build, message", [
    (lambda x: topi.nn.conv2d(x, te.placeholder((4, 5, 3, 3)), 1, 0, 1),
     r"topi.nn.conv2d: input \(2, 6, 9, 8\) has 6 channels"),
    (lambda x: topi.nn.conv2d(x, te.placeholder((4, 6, 3, 3)), 1, 0, 1, "NHWC"),
     "topi.nn.conv2d: data_layout 'NHWC' must be NCHW or NCHW{n}c"),
    (lambda x: topi.nn.depthwise_conv2d_nchw(x, te.placeholder((Var("c"), 1, 3, 3)), 1, 0, 1), "must be a number"),
    (lambda x: topi.nn.dense(x, x), "topi.nn.dense: the weight must have 2 dimensions"),
    (lambda x: topi.nn.batch_matmul(x, x), "topi.nn.batch_matmul: takes tensors of 3 dimensions, got 4 and 4"),
    (lambda x: topi.nn.dense(te.placeholder((2, 3)), te.placeholder((4, 5))),
     "topi.nn.dense: shapes .* do not multiply"),
    (lambda x: topi.nn.pool2d(x, 2, 2, 1, 0, "sum"), "topi.nn.pool2d: pool_type='sum' is neither 'max' nor 'avg'"),
    (lambda x: topi.nn.global_pool(x, "max", "NCW"), "layout='NCW' must have the axes H, W, whole"),
    (lambda x: topi.nn.batch_norm(x, x, x, x, x, training=True), "topi.nn.batch_norm: training=True is not supported"),
    (lambda x: topi.nn.pad(x, (1, 1)), "topi.nn.pad: pad_before and pad_after need one number for each of the 4 axes"),
    (lambda x: topi.nn.mirror_pad(x, (1,) * 4), "topi.nn.mirror_pad: mode='SYMMETRIC' is not supported"),
    (lambda x: topi.nn.upsampling(x, 2, 2, "NHWC"), "topi.nn.upsampling: layout='NHWC' is not supported"),
    (lambda x: topi.image.resize2d(x, (0, 0, 1, 1), (3, 3)), "topi.image.resize2d: roi is not supported"),
    (lambda x: topi.nn.lrn(x, 3, 3), "topi.nn.lrn: axis=3 is not supported, it must be 1"),
])
def test_errors(build, message):
    with pytest.raises(InferError, match=message):
        build(te.placeholder((2, 6, 9, 8)))


def test_inputs_of_a_graph_are_shared():
    """One te graph of several functions becomes one PrimFunc."""
    data, weight = tensors([X[:1], W])
    out = topi.nn.relu(topi.nn.conv2d(data, weight, 1, 1, 1))
    func = te.create_prim_func([data, weight, out])
    assert [b.name for b in func.buffers] == ["a0", "a1", "compute"]
