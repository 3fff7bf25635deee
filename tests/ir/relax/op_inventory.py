"""Every operator of relax.op that computes tensors: CASES, (name, its call of `op` and `d`, inputs, numpy's result).

d.n and d.m are 5 and 6, as numbers or symbolic; axes of the inputs of these extents are as d says.
"""
import math

import numpy as np

from ingot import relax

RNG = np.random.default_rng(0)


def some(*shape, low=-2.0, high=2.0):
    return RNG.uniform(low, high, shape).astype(np.float32)


def whole(*shape, low=0, high=5, dtype="int32"):
    return RNG.integers(low, high, shape).astype(dtype)


X, Y, POSITIVE, UNIT = some(5, 6), some(5, 6), some(5, 6, low=0.5), some(5, 6, low=-0.9, high=0.9)
I, J = whole(5, 6, low=-9, high=9), whole(5, 6, low=1)
B, C = (whole(5, 6, high=2, dtype=bool) for _ in range(2))
SMALL = (10.0 ** np.linspace(-9, 0, 30) * np.tile([-0.9, 1], 15)).astype(np.float32).reshape(5, 6)
ODD_GAMMA = np.concatenate([some(2, 6, low=-1.9, high=-1.1), some(3, 6, low=0.1, high=30)]).astype(np.float64)
ODD = np.where(B, X, np.where(C, np.nan, np.inf)).astype(np.float32)
IMAGE, LINE, VOLUME = some(5, 4, 7, 6), some(5, 4, 9), some(5, 2, 4, 5, 6)
CHANNELS = [some(4), some(4), some(4), some(4, low=0.5)]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def erf(x):
    return np.vectorize(math.erf)(x)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def windows(x, size, stride=1, pad=0, fill=0.0):
    """(batch, channels, outputs ..., size ...) of an array of any number of spatial axes."""
    rank = x.ndim - 2
    x = np.pad(x, [(0, 0)] * 2 + [(pad, pad)] * rank, constant_values=fill)
    found = np.lib.stride_tricks.sliding_window_view(x, (size,) * rank, tuple(range(2, x.ndim)))
    return found[(slice(None), slice(None), *(slice(None, None, stride),) * rank)]


def conv(x, w, stride=1, pad=0):
    rank = x.ndim - 2
    inner = tuple(range(-rank, 0))
    found = np.tensordot(windows(x, w.shape[-1], stride, pad), w, (((1, *inner)), (1, *inner)))
    return np.moveaxis(found, -1, 1)


def transposed(x, w, stride):
    """The transposed convolution: each element adds its kernel; w: (in, out, size ...)."""
    rank, size = x.ndim - 2, w.shape[-1]
    out = np.zeros((x.shape[0], w.shape[1], *(stride * (n - 1) + size for n in x.shape[2:])), np.float32)
    for at in np.ndindex(*x.shape[2:]):
        part = tuple(slice(stride * k, stride * k + size) for k in at)
        out[(slice(None), slice(None), *part)] += np.tensordot(x[(slice(None), slice(None), *at)], w, (1, 0))
    return out


def adaptive(x, count):
    """Means over `count` parts of each spatial axis."""
    for axis in range(2, x.ndim):
        size = x.shape[axis]
        parts = [np.take(x, range(k * size // count, -(-(k + 1) * size // count)), axis).mean(axis, keepdims=True)
                 for k in range(count)]
        x = np.concatenate(parts, axis)
    return x


def normal(x, axes, epsilon=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def per_channel(v):
    return v.reshape(1, -1, 1, 1)


def scattered(x, at, updates):
    out = x.copy()
    np.put_along_axis(out, at, updates, 0)
    return out


def attention(q, k, v):
    q, k, v = (np.moveaxis(a, 1, 2) for a in (q, k, v))
    return np.moveaxis(softmax(q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])) @ v, 2, 1)


def first_of(x, u):
    return (np.cumsum(x, 1) <= u).sum(1, keepdims=True)


def unary(names, x, own=None):
    return [(n, lambda op, d, x, n=n: getattr(op, n)(x), [x], (own or {}).get(n) or getattr(np, n))
            for n in names.split()]


def binary(names, a, b, own=None):
    return [(n, lambda op, d, a, b, n=n: getattr(op, n)(a, b), [a, b], (own or {}).get(n) or getattr(np, n))
            for n in names.split()]


CASES = [
    # ------------------------------------------------------------ element by element
    *unary("abs ceil cos cosh exp floor negative round sign sin sinh square tan tanh sigmoid erf",
           X, {"sigmoid": sigmoid, "erf": erf}),
    *unary("acos asin atan atanh asinh", UNIT, {"acos": np.arccos, "asin": np.arcsin, "atan": np.arctan,
                                                "atanh": np.arctanh, "asinh": np.arcsinh}),
    *unary("log1p expm1", SMALL), *unary("lgamma", ODD_GAMMA, {"lgamma": np.vectorize(math.lgamma)}),
    ("digamma", lambda op, d, x: op.digamma(x), [ODD_GAMMA], lambda x: (
        np.vectorize(math.lgamma)(x + 1e-5) - np.vectorize(math.lgamma)(x - 1e-5)) / 2e-5),
    ("erf", lambda op, d, x: op.erf(op.erfinv(x)), [UNIT], lambda x: x),
    *unary("log sqrt rsqrt", POSITIVE, {"rsqrt": lambda x: 1 / np.sqrt(x)}),
    ("acosh", lambda op, d, x: op.acosh(x), [POSITIVE + 1], np.arccosh),
    *unary("isfinite isinf isnan", ODD), ("bitwise_not", lambda op, d, x: op.bitwise_not(x), [I], np.invert),
    ("logical_not", lambda op, d, x: op.logical_not(x), [B], np.logical_not),
    ("clip", lambda op, d, x: op.clip(x, -1, 1), [X], lambda x: np.clip(x, -1, 1)),
    *binary("add divide multiply subtract maximum minimum equal greater greater_equal less less_equal not_equal "
            "floor_divide floor_mod", X, Y, {"floor_mod": np.mod}),
    ("power", lambda op, d, x, y: op.power(x, y), [POSITIVE, Y], np.power),
    *binary("floor_divide floor_mod mod", I, J, {"floor_mod": np.mod, "mod": np.fmod}),
    *binary("bitwise_and bitwise_or bitwise_xor", I, J),
    *binary("left_shift right_shift", I, J),
    *binary("logical_and logical_or logical_xor", B, C),
    ("add", lambda op, d, x, y: op.add(x, y), [X, some(6)], np.add),
    ("where", lambda op, d, c, x, y: op.where(c, x, y), [B, X, Y], np.where),
    ("ewise_fma", lambda op, d, x, y, z: op.ewise_fma(x, y, z), [X, Y, POSITIVE], lambda x, y, z: x * y + z),
    ("masked_fill", lambda op, d, x, c: op.masked_fill(x, c, 2.5), [X, B],
     lambda x, c: np.where(c, np.float32(2.5), x)),
    ("astype", lambda op, d, x: op.astype(x, "int32"), [X], lambda x: x.astype("int32")),
    # ------------------------------------------------------------ reductions, order
    *((n, lambda op, d, x, n=n: getattr(op, n)(x, [1]), [X], lambda x, f=f: f(x, 1)) for n, f in (
        ("sum", np.sum), ("mean", np.mean), ("max", np.max), ("min", np.min), ("prod", np.prod), ("std", np.std),
        ("variance", np.var))),
    ("sum", lambda op, d, x: op.sum(x, keepdims=True), [X], lambda x: np.sum(x, keepdims=True)),
    ("argmax", lambda op, d, x: op.argmax(x, 1), [X], lambda x: x.argmax(1)),
    ("argmin", lambda op, d, x: op.argmin(x, 0, True), [X], lambda x: x.argmin(0, keepdims=True)),
    ("cumsum", lambda op, d, x: op.cumsum(x, 1), [X], lambda x: x.cumsum(1)),
    ("cumsum", lambda op, d, x: op.cumsum(x, 0, exclusive=True), [X], lambda x: x.cumsum(0) - x),
    ("cumprod", lambda op, d, x: op.cumprod(x), [X], lambda x: x.cumprod()),
    ("logcumsumexp", lambda op, d, x: op.logcumsumexp(x, 1), [X], lambda x: np.log(np.exp(x).cumsum(1))),
    *((n, lambda op, d, x, n=n: getattr(op, n)(x, 1)[0], [X], lambda x, f=f: f.accumulate(x, 1)) for n, f in (
        ("cummax", np.maximum), ("cummin", np.minimum))),
    ("sort", lambda op, d, x: op.sort(x, 1, descending=True), [X], lambda x: -np.sort(-x, 1)),
    ("argsort", lambda op, d, x: op.argsort(x, 0, dtype="int64"), [X], lambda x: np.argsort(x, 0)),
    ("topk", lambda op, d, x: op.topk(x, 2, 1, "values"), [X], lambda x: -np.sort(-x, 1)[:, :2]),
    # ------------------------------------------------------------ shapes
    ("reshape", lambda op, d, x: op.reshape(x, (d.m, d.n)), [X], lambda x: x.reshape(6, 5)),
    ("flatten", lambda op, d, x: op.flatten(x), [X], np.ravel),
    ("squeeze", lambda op, d, x: op.squeeze(x, [1]), [some(5, 1, 6)], lambda x: x[:, 0]),
    ("expand_dims", lambda op, d, x: op.expand_dims(x, [0, -1]), [X], lambda x: x[None, ..., None]),
    ("permute_dims", lambda op, d, x: op.permute_dims(x, [2, 0, 1]), [some(5, 3, 6)], lambda x: x.transpose(2, 0, 1)),
    ("broadcast_to", lambda op, d, x: op.broadcast_to(x, (3, d.n, d.m)), [X], lambda x: np.broadcast_to(x, (3, 5, 6))),
    ("concat", lambda op, d, x, y: op.concat([x, y], 1), [X, some(5, 2)], lambda x, y: np.concatenate([x, y], 1)),
    ("stack", lambda op, d, x, y: op.stack([x, y], 1), [X, Y], lambda x, y: np.stack([x, y], 1)),
    ("split", lambda op, d, x: op.split(x, 2, 1)[1], [X], lambda x: x[:, 3:]),
    ("split", lambda op, d, x: op.split(x, [2, 3], 0)[2], [X], lambda x: x[3:]),
    ("tile", lambda op, d, x: op.tile(x, (2, 3)), [X], lambda x: np.tile(x, (2, 3))),
    ("repeat", lambda op, d, x: op.repeat(x, 2, 1), [X], lambda x: x.repeat(2, 1)),
    ("flip", lambda op, d, x: op.flip(x, 1), [X], lambda x: x[:, ::-1]),
    ("layout_transform", lambda op, d, x: op.layout_transform(x, lambda i, j: (j, i)), [X], np.transpose),
    ("collapse_sum_to", lambda op, d, x: op.collapse_sum_to(x, (1, d.m)), [X], lambda x: x.sum(0, keepdims=True)),
    ("collapse_sum_like", lambda op, d, x, y: op.collapse_sum_like(x, y), [some(3, 5, 6), some(5, 1)],
     lambda x, y: x.sum((0, 2))[:, None]),
    ("strided_slice", lambda op, d, x: op.strided_slice(x, [0, 1], [1, 4], [5, 0], [2, -1]), [X],
     lambda x: x[1:5:2, 4:0:-1]),
    ("memory.view", lambda op, d, x: op.memory.view(x, (d.m, d.n)), [X], lambda x: x.reshape(6, 5)),
    ("memory.ensure_zero_offset", lambda op, d, x: op.memory.ensure_zero_offset(x), [X], lambda x: x),
    # ------------------------------------------------------------ by index
    ("take", lambda op, d, x, i: op.take(x, i, 1), [X, whole(3, 2)], lambda x, i: x[:, i]),
    ("gather_elements", lambda op, d, x, i: op.gather_elements(x, i, 1), [X, whole(5, 2, dtype="int64")],
     lambda x, i: np.take_along_axis(x, i, 1)),
    ("gather_nd", lambda op, d, x, i: op.gather_nd(x, i), [X, whole(3, 2, dtype="int64")],
     lambda x, i: x[i[:, 0], i[:, 1]]),
    ("scatter_elements", lambda op, d, x, i, u: op.scatter_elements(x, i, u, 0),
     [X, np.array([[3, 0, 2, 1, 4, 2]]), some(1, 6)], scattered),
    ("scatter_nd", lambda op, d, x, i, u: op.scatter_nd(x, i, u, "add"), [X, np.array([[3], [0], [2]]), some(3, 6)],
     lambda x, i, u: x + sum(np.eye(5, dtype="f")[:, [k]] * r for k, r in zip(i[:, 0], u))),
    ("one_hot", lambda op, d, i: op.one_hot(i, relax.PrimValue(1.0), relax.PrimValue(0.0), 4), [whole(5, high=4)],
     lambda i: np.eye(4, dtype="f")[i]),
    ("dynamic_strided_slice", lambda op, d, x, *i: op.dynamic_strided_slice(x, *i),
     [X, np.array([1, 0]), np.array([5, 6]), np.array([2, 3])], lambda x, *i: x[1:5:2, 0:6:3]),
    ("nonzero", lambda op, d, x: op.nonzero(x), [B], lambda x: np.array(np.nonzero(x))),
    ("unique", lambda op, d, x: op.unique(x), [I], np.unique),
    ("multinomial_from_uniform", lambda op, d, p, u: op.multinomial_from_uniform(p, u, dtype="int64"),
     [softmax(X), some(5, 1, low=0, high=1)], first_of),
    # ------------------------------------------------------------ of numbers
    ("full", lambda op, d, x: op.add(x, op.full((d.n, d.m), relax.const(2.5), "float32")), [X], lambda x: x + 2.5),
    ("full_like", lambda op, d, x: op.full_like(x, relax.const(2.5)), [X], lambda x: np.full_like(x, 2.5)),
    ("ones", lambda op, d, x: op.add(x, op.ones((d.n, d.m), "float32")), [X], lambda x: x + 1),
    ("zeros_like", lambda op, d, x: op.zeros_like(x), [X], np.zeros_like),
    ("ones_like", lambda op, d, x: op.ones_like(x), [X], np.ones_like),
    ("zeros", lambda op, d, x: op.maximum(x, op.zeros((d.n, d.m), "float32")), [X], lambda x: np.maximum(x, 0)),
    ("eye", lambda op, d, x: op.add(x, op.eye(d.n, d.m, 1, "float32")), [X], lambda x: x + np.eye(5, 6, 1, "f")),
    ("eye_like", lambda op, d, x: op.eye_like(x, -1), [X], lambda x: np.eye(5, 6, -1, "f")),
    ("arange", lambda op, d, x: op.add(x, op.arange(0, d.m, 1, "float32")), [X], lambda x: x + np.arange(6, dtype="f")),
    ("tril", lambda op, d, x: op.tril(x, 1), [X], lambda x: np.tril(x, 1)),
    ("triu", lambda op, d, x: op.triu(x, -1), [X], lambda x: np.triu(x, -1)),
    ("hamming_window", lambda op, d, x: op.add(x, op.hamming_window(6, False, 0.54, 0.46, "float32")), [some(2, 6)],
     lambda x: x + np.hamming(6).astype("f")),
    # ------------------------------------------------------------ products
    ("matmul", lambda op, d, x, y: op.matmul(x, y), [some(2, 5, 4), some(4, 6)], np.matmul),
    ("linear", lambda op, d, x, w, b: op.linear(x, w, b), [X, some(3, 6), some(3)], lambda x, w, b: x @ w.T + b),
    ("einsum", lambda op, d, x, y: op.einsum([x, y], "ij,kj->ki"), [X, some(3, 6)],
     lambda x, y: np.einsum("ij,kj->ki", x, y)),
    ("quantize", lambda op, d, x, s, z: op.quantize(x, s, z, 0),
     [X, some(5, low=0.1, high=0.2), whole(5, dtype="int8")],
     lambda x, s, z: np.clip(np.round(x / s[:, None]) + z[:, None], -128, 127).astype("int8")),
    ("dequantize", lambda op, d, x, s, z: op.dequantize(x, s, z, 0),
     [whole(5, 6, low=-99, high=99, dtype="int8"), some(5, low=0.1, high=0.2), whole(5, dtype="int8")],
     lambda x, s, z: (x.astype("f") - z[:, None]) * s[:, None]),
    # ------------------------------------------------------------ networks
    *((f"nn.conv{r}d", lambda op, d, x, w, r=r: getattr(op.nn, f"conv{r}d")(x, w, strides=2, padding=1), [x, some(
        3, x.shape[1], *(3,) * r)], lambda x, w: conv(x, w, 2, 1)) for r, x in ((1, LINE), (2, IMAGE), (3, VOLUME))),
    *((f"nn.conv{r}d_transpose", lambda op, d, x, w, r=r: getattr(op.nn, f"conv{r}d_transpose")(x, w, strides=2),
       [x, some(x.shape[1], 3, *(3,) * r)], lambda x, w: transposed(x, w, 2)) for r, x in ((1, LINE), (2, IMAGE))),
    *((f"nn.max_pool{r}d", lambda op, d, x, r=r: getattr(op.nn, f"max_pool{r}d")(x, 2, strides=2), [x],
       lambda x, r=r: windows(x, 2, 2).max(tuple(range(-r, 0)))) for r, x in ((1, LINE), (2, IMAGE), (3, VOLUME))),
    *((f"nn.avg_pool{r}d", lambda op, d, x, r=r: getattr(op.nn, f"avg_pool{r}d")(
        x, 3, padding=1, count_include_pad=True), [x], lambda x, r=r: windows(x, 3, 1, 1).mean(tuple(range(-r, 0))))
      for r, x in ((1, LINE), (2, IMAGE), (3, VOLUME))),
    *((f"nn.adaptive_avg_pool{r}d", lambda op, d, x, r=r: getattr(op.nn, f"adaptive_avg_pool{r}d")(x, 3), [x],
       lambda x: adaptive(x, 3)) for r, x in ((1, LINE), (2, IMAGE), (3, VOLUME))),
    ("nn.pad", lambda op, d, x: op.nn.pad(x, (1, 0, 2, 1), pad_value=1.5), [X],
     lambda x: np.pad(x, [(1, 0), (2, 1)], constant_values=1.5)),
    *((f"nn.{n}", lambda op, d, x, n=n: getattr(op.nn, n)(x), [X], f) for n, f in (
        ("relu", lambda x: np.maximum(x, 0)), ("leakyrelu", lambda x: np.where(x > 0, x, x * np.float32(0.01))),
        ("gelu", lambda x: x * (1 + erf(x / math.sqrt(2))) / 2), ("silu", lambda x: x * sigmoid(x)),
        ("gelu_tanh", lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))),
        ("selu", lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1))),
        ("softplus", lambda x: np.log1p(np.exp(x))), ("softmax", softmax),
        ("log_softmax", lambda x: np.log(softmax(x))))),
    ("nn.prelu", lambda op, d, x, a: op.nn.prelu(x, a), [X, some(6)], lambda x, a: np.where(x > 0, x, a * x)),
    ("nn.batch_norm", lambda op, d, *a: op.nn.batch_norm(*a, axis=1)[0], [IMAGE, *CHANNELS],
     lambda x, g, b, m, v: (x - per_channel(m)) / np.sqrt(per_channel(v) + 1e-5) * per_channel(g) + per_channel(b)),
    ("nn.layer_norm", lambda op, d, *a: op.nn.layer_norm(*a, axes=[-1]), [X, some(6), some(6)],
     lambda x, g, b: normal(x, -1) * g + b),
    ("nn.group_norm", lambda op, d, *a: op.nn.group_norm(*a, num_groups=2, channel_axis=1, axes=[2, 3]),
     [IMAGE, *CHANNELS[:2]],
     lambda x, g, b: normal(x.reshape(5, 2, -1), 2).reshape(x.shape) * per_channel(g) + per_channel(b)),
    ("nn.rms_norm", lambda op, d, *a: op.nn.rms_norm(*a, axes=[-1]), [X, some(6)],
     lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w),
    ("nn.dropout", lambda op, d, x: op.nn.dropout(x, 0.5)[0], [X], lambda x: x),
    ("nn.cross_entropy_with_logits", lambda op, d, x, y: op.nn.cross_entropy_with_logits(x, y), [X, Y],
     lambda x, y: -(x * y).sum() / 5),
    ("nn.nll_loss", lambda op, d, x, t, w: op.nn.nll_loss(x, t, w), [X, whole(5, dtype="int64"), some(6, low=0.5)],
     lambda x, t, w: -(x[range(5), t] * w[t]).sum() / w[t].sum()),
    ("nn.attention", lambda op, d, *a: op.nn.attention(*a), [some(2, 5, 3, 8) for _ in range(3)], attention),
    ("image.resize2d", lambda op, d, x: op.image.resize2d(
        x, (14, 12), method="nearest_neighbor", coordinate_transformation_mode="asymmetric", rounding_method="floor"),
     [IMAGE], lambda x: np.repeat(np.repeat(x, 2, 2), 2, 3)),
    ("image.resize2d", lambda op, d, x: op.image.resize2d(x, (14, 12), layout="NHWC", method="nearest_neighbor",
                                                          coordinate_transformation_mode="asymmetric",
                                                          rounding_method="floor"),
     [some(2, 7, 6, 3)], lambda x: np.repeat(np.repeat(x, 2, 1), 2, 2)),
]
