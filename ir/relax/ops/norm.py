"""Normalizations: nn.softmax, nn.log_softmax, nn.layer_norm, nn.instance_norm, nn.rms_norm,
nn.batch_norm, nn.lrn. The last also takes blocked images: layout="NCHW16c".

Variances are computed in two passes (mean first, then squared deviations), so that a large mean costs no digits.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import as_expr, const, logical_and
from ...op import REQUIRED, register
from ...tir import intrin
from .common import (dim_text, fail, need_dtype, need_same_dtype, normalize_axes, normalize_axis, product, same_dim,
                     same_shape, shape_text, short_name, tensor, tensors)
from .layout import block_size, check_layout, need_layout, through_plain
from .precision import narrow, sum_dtype, widen_array


def _without(indices, axes):
    return tuple(i for k, i in enumerate(indices) if k not in axes)


def _reduce_over(x, axes, element, name):
    """The tensor `name`: te.sum of element(indices of x) over `axes` of x, which the result does not have."""
    ks = {a: te.reduce_axis((0, x.shape[a]), f"k{a}" if len(axes) > 1 else "k") for a in axes}

    def body(*i):
        rest = iter(i)
        return te.sum(element(tuple(ks[a].var if a in ks else next(rest) for a in range(x.ndim))), list(ks.values()))

    return te.compute(_without(x.shape, axes), body, name=name)


# ---------------------------------------------------------------- softmax

def _infer_softmax(call):
    x = tensor(call)
    need_dtype(call, x, "float")
    normalize_axis(call, call.attrs["axis"], x.ndim)
    return x


def _lower_softmax(name):
    def lower(args, attrs, out):
        x = args[0]
        axis, acc = attrs["axis"] % x.ndim, sum_dtype(x.dtype)
        k = te.reduce_axis((0, x.shape[axis]), "k")
        peak = te.compute(_without(x.shape, {axis}),
                          lambda *i: te.max(x[(*i[:axis], k.var, *i[axis:])].astype(acc), k), name=name + "_max")
        exp = te.compute(x.shape, lambda *i: intrin.exp(x[i].astype(acc) - peak[_without(i, {axis})]),
                         name=name + "_exp")
        total = _reduce_over(exp, (axis,), lambda i: exp[i], name + "_sum")
        if name == "softmax":
            scale = te.compute(total.shape, lambda *i: const(1, acc) / total[i], name="softmax_scale")
            result = te.compute(x.shape, lambda *i: exp[i] * scale[_without(i, {axis})], name=name)
        else:
            result = te.compute(x.shape, lambda *i: x[i].astype(acc) - peak[_without(i, {axis})]
                                - intrin.log(total[_without(i, {axis})]), name=name)
        return narrow(result, out.dtype)
    return lower


def _evaluate_softmax(args, attrs):
    x = widen_array(args[0])
    result = np.exp(x - x.max(axis=attrs["axis"], keepdims=True, initial=-np.inf))
    result /= result.sum(axis=attrs["axis"], keepdims=True)
    return result.astype(args[0].dtype, copy=False)


def _evaluate_log_softmax(args, attrs):
    x = widen_array(args[0])
    x = x - x.max(axis=attrs["axis"], keepdims=True, initial=-np.inf)
    return (x - np.log(np.exp(x).sum(axis=attrs["axis"], keepdims=True))).astype(args[0].dtype, copy=False)


# ---------------------------------------------------------------- mean and variance of the input

def _infer_layer_norm(call):
    x, gamma, beta = tensors(call)
    need_dtype(call, x, "float")
    need_same_dtype(call, (x, gamma, beta))
    axes = normalize_axes(call, call.attrs["axes"], x.ndim)
    expected = tuple(x.shape[a] for a in axes)
    for name, info in (("gamma", gamma), ("beta", beta)):
        if not same_shape(info.shape, expected):
            fail(call, f"{name} has shape {shape_text(info)}, it must be {shape_text(expected)}: the axes {axes} of "
                       f"input {shape_text(x)}")
    return x


def _infer_channels(call):
    """Struct info of a per-channel normalization: every argument after the first has one value per channel."""
    x, *params = tensors(call)
    need_dtype(call, x, "float")
    need_same_dtype(call, (x, *params))
    axis = normalize_axis(call, call.attrs.get("axis", 1), x.ndim)
    for name, info in zip(("gamma", "beta", "mean", "var"), params):
        if info.ndim != 1 or not same_dim(info.shape[0], x.shape[axis]):
            fail(call, f"{name} has shape {shape_text(info)}, it must be ({dim_text(x.shape[axis])},): one value per "
                       f"channel (dim {axis}) of input {shape_text(x)}")
    return x


def _lower_moments(name, axes_of, param_indices):
    """Lowering of (x - mean) / sqrt(var + epsilon) * gamma + beta with the moments of x itself.

    axes_of(attrs, rank): the axes the moments run over. param_indices(indices, axes): where gamma and beta are read.
    """
    def lower(args, attrs, out):
        x, gamma, beta = args
        acc, axes = sum_dtype(x.dtype), axes_of(attrs, x.ndim)
        count = as_expr(product(x.shape[a] for a in axes)).astype(acc)
        total = _reduce_over(x, axes, lambda i: x[i].astype(acc), name + "_sum")
        mean = te.compute(total.shape, lambda *i: total[i] / count, name=name + "_mean")

        def square(i):
            deviation = x[i].astype(acc) - mean[_without(i, axes)]
            return deviation * deviation

        squares = _reduce_over(x, axes, square, name + "_var")
        rstd = te.compute(total.shape, lambda *i: const(1, acc) / intrin.sqrt(squares[i] / count
                                                                            + const(attrs["epsilon"], acc)),
                          name=name + "_rstd")

        def element(*i):
            at, own = _without(i, axes), param_indices(i, axes)
            return (x[i].astype(acc) - mean[at]) * rstd[at] * gamma[own].astype(acc) + beta[own].astype(acc)

        return narrow(te.compute(x.shape, element, name=name), out.dtype)
    return lower


def _evaluate_moments(axes_of, param_shape):
    def evaluate(args, attrs):
        x, gamma, beta = (widen_array(a) for a in args)
        axes = axes_of(attrs, x.ndim)
        centred = x - x.mean(axis=axes, keepdims=True)
        var = np.square(centred).mean(axis=axes, keepdims=True)
        shape = param_shape(x.shape, axes)
        result = centred / np.sqrt(var + x.dtype.type(attrs["epsilon"])) * gamma.reshape(shape) + beta.reshape(shape)
        return result.astype(args[0].dtype, copy=False)
    return evaluate


def _layer_axes(attrs, rank):
    axes = attrs["axes"]
    return tuple(sorted(a % rank for a in ((axes,) if isinstance(axes, int) else axes)))


def _spatial_axes(attrs, rank):
    return tuple(range(2, rank))


# ---------------------------------------------------------------- root mean square

def _infer_rms_norm(call):
    """x / sqrt(mean(x * x) + epsilon) * weight over `axes` (Zhang and Sennrich 2019)."""
    x, weight = tensors(call)
    need_dtype(call, x, "float")
    need_same_dtype(call, (x, weight))
    axes = normalize_axes(call, call.attrs["axes"], x.ndim)
    expected = tuple(x.shape[a] for a in axes)
    if not same_shape(weight.shape, expected):
        fail(call, f"weight has shape {shape_text(weight)}, it must be {shape_text(expected)}: the axes {axes} of "
                   f"input {shape_text(x)}")
    return x


def _lower_rms_norm(args, attrs, out):
    x, weight = args
    acc, axes = sum_dtype(x.dtype), _layer_axes(attrs, x.ndim)
    count = as_expr(product(x.shape[a] for a in axes)).astype(acc)
    squares = _reduce_over(x, axes, lambda i: x[i].astype(acc) * x[i].astype(acc), "rms_norm_sum")
    scale = te.compute(squares.shape, lambda *i: const(1, acc) / intrin.sqrt(squares[i] / count
                                                                           + const(attrs["epsilon"], acc)),
                       name="rms_norm_scale")

    def element(*i):
        return x[i].astype(acc) * scale[_without(i, axes)] * weight[tuple(i[a] for a in axes)].astype(acc)

    return narrow(te.compute(x.shape, element, name="rms_norm"), out.dtype)


def _evaluate_rms_norm(args, attrs):
    x, weight = (widen_array(a) for a in args)
    axes = _layer_axes(attrs, x.ndim)
    mean = np.square(x).mean(axis=axes, keepdims=True)
    weight = weight.reshape([n if a in axes else 1 for a, n in enumerate(x.shape)])
    return (x / np.sqrt(mean + x.dtype.type(attrs["epsilon"])) * weight).astype(args[0].dtype, copy=False)


# ---------------------------------------------------------------- given mean and variance

def _lower_batch_norm(args, attrs, out):
    x, acc, axis = args[0], sum_dtype(args[0].dtype), attrs["axis"] % args[0].ndim

    def element(*i):
        gamma, beta, mean, var = (p[i[axis]].astype(acc) for p in args[1:])
        return (x[i].astype(acc) - mean) / intrin.sqrt(var + const(attrs["epsilon"], acc)) * gamma + beta

    return narrow(te.compute(x.shape, element, name="batch_norm"), out.dtype)


def _evaluate_batch_norm(args, attrs):
    x, gamma, beta, mean, var = (widen_array(a) for a in args)
    shape = tuple(-1 if a == attrs["axis"] % x.ndim else 1 for a in range(x.ndim))
    scale = gamma / np.sqrt(var + x.dtype.type(attrs["epsilon"]))
    result = (x - mean.reshape(shape)) * scale.reshape(shape) + beta.reshape(shape)
    return result.astype(args[0].dtype, copy=False)


# ---------------------------------------------------------------- local response

def _infer_lrn(call):
    x, lanes, size = tensor(call), check_layout(call, "layout"), call.attrs["size"]
    need_dtype(call, x, "float")
    if lanes is not None:
        need_layout(call, 0, lanes)
    if x.ndim < 2:
        fail(call, f"takes an input of at least 2 dimensions (N, C, ...), got {shape_text(x)}")
    if size < 1:
        fail(call, f"size {size} must be at least 1")
    if lanes is not None and size // 2 > lanes:
        fail(call, f"size {size} reaches beyond the next block of {lanes} channels: use a plain image")
    return x


def _lower_lrn(args, attrs, out):
    x, acc = args[0], sum_dtype(args[0].dtype)
    lanes = block_size(attrs["layout"])
    squares = _sums_of_squares(x, attrs["size"], acc) if lanes is None else _blocked_sums(x, attrs["size"], acc, lanes)

    def element(*i):
        base = const(attrs["bias"], acc) + const(attrs["alpha"] / attrs["size"], acc) * squares[i]
        return x[i].astype(acc) / _power(base, attrs["beta"])

    return narrow(te.compute(x.shape, element, name="lrn"), out.dtype)


def _sums_of_squares(x, size, acc):
    k = te.reduce_axis((0, size), "k")

    def sums(n, c, *i):
        at = c + k.var - (size - 1) // 2
        value = x[(n, at, *i)].astype(acc)
        return te.sum(intrin.if_then_else(logical_and(at >= 0, at < x.shape[1]), value * value, const(0, acc)), k)

    return te.compute(x.shape, sums, name="lrn_sum")


def _blocked_sums(x, size, acc, lanes):
    """Sums over neighbours of a row of all channels' squares, with a block of zeros at both ends."""
    batch, blocks, height, width, _ = x.shape
    k = te.reduce_axis((0, size), "k")

    def square(n, y, i, c, l):
        value = x[n, c - 1, y, i, l].astype(acc)
        return intrin.if_then_else(logical_and(c >= 1, c <= blocks), value * value, const(0, acc))

    def sums(n, c, y, i, l):
        at = (c + 1) * lanes + l + (k.var - (size - 1) // 2)
        return te.sum(squares[n, y, i, at // lanes, at % lanes], k)

    squares = te.compute((batch, height, width, blocks + 2, lanes), square, name="lrn_squares")
    return te.compute(x.shape, sums, name="lrn_sum")


def _power(base, exponent):
    """base ** exponent; the usual exponents of nn.lrn by roots, which have vector forms: 20 times as fast."""
    if exponent == 0.75:
        return intrin.sqrt(base) * intrin.sqrt(intrin.sqrt(base))
    return intrin.sqrt(base) if exponent == 0.5 else intrin.power(base, const(exponent, base.dtype))


def _evaluate_lrn(args, attrs):
    x, size = widen_array(args[0]), attrs["size"]
    before = (size - 1) // 2
    sums = np.zeros((x.shape[0], x.shape[1] + 1, *x.shape[2:]))  # in place: numbers of 64 bits take much memory
    np.cumsum(np.square(x, dtype=np.float64, out=sums[:, 1:]), axis=1, out=sums[:, 1:])
    channels = np.arange(x.shape[1])
    scale = sums[:, np.minimum(channels + size - before, x.shape[1])]
    scale -= sums[:, np.maximum(channels - before, 0)]
    scale *= attrs["alpha"] / size
    scale += attrs["bias"]
    scale **= attrs["beta"]
    return np.divide(x, scale, out=scale).astype(args[0].dtype, copy=False)


# ---------------------------------------------------------------- rows

for _name, _evaluate in (("nn.softmax", _evaluate_softmax), ("nn.log_softmax", _evaluate_log_softmax)):
    register(_name, _infer_softmax, _lower_softmax(short_name(_name)), _evaluate, "reduction", (1, 1), axis=-1)

register("nn.layer_norm", _infer_layer_norm,
         _lower_moments("layer_norm", _layer_axes, lambda i, axes: tuple(i[a] for a in axes)),
         _evaluate_moments(_layer_axes, lambda shape, axes: [n if a in axes else 1 for a, n in enumerate(shape)]),
         "reduction", (3, 3), axes=(-1,), epsilon=1e-5)
register("nn.instance_norm", _infer_channels,
         _lower_moments("instance_norm", _spatial_axes, lambda i, axes: (i[1],)),
         _evaluate_moments(_spatial_axes, lambda shape, axes: (-1,) + (1,) * len(axes)),
         "reduction", (3, 3), epsilon=1e-5)
register("nn.rms_norm", _infer_rms_norm, _lower_rms_norm, _evaluate_rms_norm, "reduction", (2, 2), axes=(-1,),
         epsilon=1e-5)
register("nn.batch_norm", _infer_channels, _lower_batch_norm, _evaluate_batch_norm, "broadcast", (5, 5), axis=1,
         epsilon=1e-5, momentum=0.1)
register("nn.lrn", _infer_lrn, _lower_lrn, through_plain(_evaluate_lrn, "layout"), "reduction", (1, 1), size=REQUIRED,
         alpha=1e-4, beta=0.75, bias=1.0, layout="NCHW")
