"""Operators over axes: sums, norms, extrema, losses."""
from __future__ import annotations

import math

import numpy as np

from ...ir.expr import PrimExpr
from ...ir.relax.expr import const
from ..shapes import product
from .dtypes import category, dtype_of
from .table import ATEN, CONVERTERS, FUNCTIONS, converts


def _axes(dim):
    """torch's axes: none are all."""
    return None if dim is None or dim == [] or dim == () else [dim] if isinstance(dim, int) else dim


def _typed(b, x, dtype):
    return x if dtype is None else b.cast(x, dtype_of(dtype))


@converts("nansum")
def nansum(b, x, dim=None, keepdim=False, dtype=None):
    zeroed = x if category(b.dtype(x)) != 2 else b.op("where", b.made("isnan", x), b.const_like(0, x), x)
    return sum_(b, zeroed, dim, keepdim, dtype)


@converts("sum")
def sum_(b, x, dim=None, keepdim=False, dtype=None):
    if dtype is None and category(b.dtype(x)) < 2:
        dtype = "int64"
    return b.op("sum", _typed(b, x, dtype), _axes(dim), keepdims=keepdim)


@converts("mean")
def mean(b, x, dim=None, keepdim=False, dtype=None):
    return b.op("mean", _typed(b, x, dtype), _axes(dim), keepdims=keepdim)


@converts("prod")
def prod(b, x, dim=None, keepdim=False, dtype=None):
    if dtype is None and category(b.dtype(x)) < 2:
        dtype = "int64"
    return b.op("prod", _typed(b, x, dtype), _axes(dim), keepdims=keepdim)


def _spread(relax, power):
    """std and var. torch divides by n - correction, relax by n."""
    def convert(b, x, dim=None, unbiased=None, keepdim=False, correction=1):
        if isinstance(dim, bool):  # torch.var(x, unbiased)
            dim, unbiased = None, dim
        correction = (1 if unbiased else 0) if unbiased is not None else 1 if correction is None else correction
        result = b.op(relax, x, _axes(dim), keepdims=keepdim)
        count = _count(b, x, dim)
        if not correction:
            return result
        if isinstance(count, PrimExpr):
            n = b.tensor(count, b.dtype(x))
            factor = b.op("divide", n, b.made("subtract", n, b.const_like(correction, x)))
            return b.op("multiply", result, factor if power == 1 else b.made("sqrt", factor))
        factor = (count / (count - correction)) ** power if count > correction else math.nan
        return b.op("multiply", result, b.const_like(factor, x))

    def of_correction(b, x, dim=None, correction=None, keepdim=False):
        return convert(b, x, dim, None, keepdim, correction)

    ATEN[f"{relax[:3]}.correction"] = of_correction
    CONVERTERS[relax[:3]] = convert


_spread("std", 0.5)
_spread("variance", 1)


def _count(b, x, dim):
    """How many elements one of a reduction is made of."""
    dims = b.dims(x)
    axes = range(len(dims)) if _axes(dim) is None else (dim,) if isinstance(dim, int) else dim
    return product([dims[a] for a in axes])


def _var_mean(name):
    def convert(b, x, dim=None, unbiased=None, keepdim=False, correction=1):
        axes = None if isinstance(dim, bool) else dim  # torch.var_mean(x, unbiased)
        return CONVERTERS[name](b, x, dim, unbiased, keepdim, correction), mean(b, x, axes, keepdim)

    ATEN[f"{name}_mean.correction"] = lambda b, x, dim=None, correction=None, keepdim=False: convert(
        b, x, dim, None, keepdim, correction)
    return convert


CONVERTERS.update({"var_mean": _var_mean("var"), "std_mean": _var_mean("std")})


def _extremum(name, pair):
    """torch.max and min: of two tensors, of all elements, or (values, indices) along an axis."""
    def convert(b, x, dim=None, keepdim=False, other=None):
        other = dim if b.is_tensor(dim) else other
        if other is not None or not b.is_tensor(x):
            return CONVERTERS[pair](b, x, dim if other is None else other)
        if dim is None:
            return b.op(name, x)
        found = b.cast(x, "uint8") if b.dtype(x) == "bool" else x
        place = b.op("astype", b.made(f"arg{name}", found, dim, keepdim), "int64")
        return b.cast(b.op(name, found, dim, keepdim), b.dtype(x)), place
    return convert


CONVERTERS.update({"max": _extremum("max", "maximum"), "min": _extremum("min", "minimum")})


@converts("amax")
def amax(b, x, dim=(), keepdim=False):
    return b.op("max", x, _axes(dim), keepdim)


@converts("amin")
def amin(b, x, dim=(), keepdim=False):
    return b.op("min", x, _axes(dim), keepdim)


@converts("aminmax")
def aminmax(b, x, dim=None, keepdim=False):
    return amin(b, x, dim, keepdim), amax(b, x, dim, keepdim)


@converts("argmax")
def argmax(b, x, dim=None, keepdim=False):
    return b.op("argmax", x, dim, keepdim)


@converts("argmin")
def argmin(b, x, dim=None, keepdim=False):
    return b.op("argmin", x, dim, keepdim)


def _logical(name):
    def convert(b, x, dim=None, keepdim=False):
        truth = x if b.dtype(x) == "bool" else b.op("not_equal", x, b.const_like(0, x))
        return b.op(name, truth, _axes(dim), keepdims=keepdim)
    return convert


CONVERTERS.update({"all": _logical("all"), "any": _logical("any")})
any_ = CONVERTERS["any"]


@converts("logsumexp")
def logsumexp(b, x, dim, keepdim=False):
    most = b.op("max", x, dim, True)
    most = b.op("where", b.made("isfinite", most), most, b.const_like(0, x))  # of infinities, exp(x) says all
    total = b.op("log", b.made("sum", b.made("exp", b.made("subtract", x, most)), dim, keepdims=keepdim))
    return b.op("add", total, most if keepdim else b.op("squeeze", most, _axes(dim)))


@converts("linalg_vector_norm")
def vector_norm(b, x, ord=2, dim=None, keepdim=False, dtype=None):  # noqa: A002 (torch's name)
    x, dim = _typed(b, x, dtype), _axes(dim)
    size = b.op("abs", x)
    if ord in (math.inf, -math.inf):
        return b.op("max" if ord > 0 else "min", size, dim, keepdim)
    if ord == 0:
        nonzero = b.made("astype", b.made("not_equal", size, b.const_like(0, x)), b.dtype(x))
        return b.op("sum", nonzero, dim, keepdims=keepdim)
    total = b.op("sum", b.op("power", size, b.const_like(float(ord), x)), dim, keepdims=keepdim)
    return b.op("power", total, b.const_like(1 / float(ord), x))


@converts("norm")
def norm(b, x, p=2, dim=None, keepdim=False, dtype=None):
    return vector_norm(b, x, {"fro": 2, None: 2}.get(p, p), dim, keepdim, dtype)


@converts("pdist", "_pdist_forward")
def pdist(b, x, p=2.0):
    """The distance of each row from each after it."""
    first, second = (const(k, "int64") for k in np.triu_indices(b.dims(x)[0], 1))
    return vector_norm(b, b.op("subtract", b.made("take", x, first, 0), b.made("take", x, second, 0)), p, [-1])


@converts("normalize")
def normalize(b, x, p=2.0, dim=1, eps=1e-12):
    return b.op("divide", x, b.made("maximum", vector_norm(b, x, p, dim, True), b.const_like(eps, x)))


# ---------------------------------------------------------------- losses

_REDUCTIONS = ("none", "mean", "sum")  # as ATen numbers them


@converts("cross_entropy", table=FUNCTIONS)
def cross_entropy(b, x, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    if label_smoothing or category(b.dtype(target)) == 2:
        return _soft_cross_entropy(b, x, target, weight, ignore_index, reduction, label_smoothing)
    logs = b.made("nn.log_softmax", x, 1 if b.rank(x) > 2 else -1)
    return b.op("nn.nll_loss", logs, target, weight, reduction, ignore_index)


def _soft_cross_entropy(b, x, target, weight, ignore_index, reduction, smoothing):
    """Against probabilities of classes, or classes and a share of all others."""
    of_classes = category(b.dtype(target)) != 2
    if not of_classes and ignore_index >= 0:
        raise ValueError("cross_entropy of probabilities takes no ignore_index")
    axis = 1 if b.rank(x) > 1 else 0
    logs, classes = b.op("nn.log_softmax", x, axis), b.dims(x)[axis]
    if not isinstance(classes, int):
        raise ValueError(f"the number of classes, {classes}, must be static: pin it")
    if weight is not None:
        weight = b.op("reshape", weight, [classes, *[1] * (b.rank(x) - axis - 1)])
        logs = b.op("multiply", logs, weight)
    kept = b.op("not_equal", target, b.const_like(ignore_index, target)) if of_classes else None
    if of_classes:
        target = own = b.cast(b.op("one_hot", target, 1.0, 0.0, classes, axis), b.dtype(x))
    if smoothing:
        target = b.op("multiply", target, b.const_like(1 - smoothing, x))
        target = b.op("add", target, b.const_like(smoothing / classes, x))
    loss = b.op("negative", b.made("sum", b.made("multiply", target, logs), [axis]))
    if of_classes:
        loss = b.op("where", kept, loss, b.const_like(0, x))
        if reduction == "mean":  # of those that count, as their weights say
            total = b.cast(kept, b.dtype(x)) if weight is None else b.op("where", kept, b.made(
                "sum", b.made("multiply", own, weight), [axis]), b.const_like(0, x))
            return b.op("divide", b.made("sum", loss), b.made("sum", total))
    return loss if reduction == "none" or not b.rank(loss) else b.op(reduction, loss)


@converts("cross_entropy_loss", table=ATEN)
def cross_entropy_loss(b, x, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    return cross_entropy(b, x, target, weight, None, ignore_index, None, _REDUCTIONS[reduction], label_smoothing)


@converts("nll_loss", "nll_loss_nd", "nll_loss2d", table=ATEN)
def nll_loss(b, x, target, weight=None, reduction=1, ignore_index=-100):
    return b.op("nn.nll_loss", x, target, weight, _REDUCTIONS[reduction], ignore_index)


@converts("mse_loss")
def mse_loss(b, x, target, size_average=None, reduce=None, reduction="mean"):
    reduction = size_average if size_average in (0, 1, 2) and reduce is None and reduction == "mean" else reduction
    reduction = _REDUCTIONS[reduction] if isinstance(reduction, int) else reduction
    squares = b.op("square", b.made("subtract", x, target))
    return squares if reduction == "none" else b.op(reduction, squares)


