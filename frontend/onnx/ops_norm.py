"""Normalizations by the root of a mean of squares, by moments, by a p-norm."""
from __future__ import annotations

from ..shapes import dims_of
from .converter import converts
from .load import dtype_of
from .ops_math import scalar_like


@converts("LayerNormalization", 17)
def layer_norm(node):
    """Over the axes from `axis` on; with the optional outputs Mean and InvStdDev in steps."""
    x, scale, bias = node.input(0), node.input(1), node.input(2)
    rank = x.struct_info.ndim
    first = node.axis(node.attr("axis"), rank)
    axes, shape = tuple(range(first, rank)), dims_of(x)[first:]
    if node.wants(1) or node.wants(2):
        return _moments(node, x, scale, bias, axes)
    scale = _spread(node, scale, shape)
    bias = node.filled(shape, 0, x.struct_info.dtype) if bias is None else _spread(node, bias, shape)
    return node.call("nn.layer_norm", x, scale, bias, axes=axes, epsilon=float(node.attr("epsilon")))


def _moments(node, x, scale, bias, axes):
    dtype = _stash(node, x)
    wide = node.astype(x, dtype)
    mean = node.call("mean", wide, axis=axes, keepdims=True)
    centred = node.call("subtract", wide, mean)
    variance = node.call("mean", node.call("square", centred), axis=axes, keepdims=True)
    inverse = node.call("rsqrt", node.call("add", variance, scalar_like(node, node.attr("epsilon"), wide)))
    normal = node.astype(node.call("multiply", centred, inverse), x.struct_info.dtype)
    result = node.call("multiply", normal, scale)
    return (result if bias is None else node.call("add", result, bias)), mean, inverse


def _stash(node, x):
    """The dtype of the computation: at least float32."""
    stash = dtype_of(node.attr("stash_type", 1), f"{node.title}: attribute stash_type")
    dtype = x.struct_info.dtype
    if stash not in ("float32", str(dtype)):
        raise node.error(f"attribute stash_type is {stash}; float32 or the input's dtype are supported")
    return dtype if dtype.bits > 32 else "float32"


def _spread(node, x, shape):
    """x broadcast to the normalized shape, without leading dimensions of extent 1."""
    dims = dims_of(x)
    while len(dims) > len(shape) and dims[0] == 1:
        dims = dims[1:]
    return node.broadcast(node.reshape(x, dims), shape)


@converts("RMSNormalization", 23)
def rms_norm(node):
    x, scale = node.input(0), node.input(1)
    rank = x.struct_info.ndim
    first = node.axis(node.attr("axis"), rank)
    _stash(node, x)
    scale = _spread(node, node.astype(scale, x.struct_info.dtype), dims_of(x)[first:])
    return node.call("nn.rms_norm", x, scale, axes=tuple(range(first, rank)), epsilon=float(node.attr("epsilon")))


@converts("LpNormalization", 1)
def lp_norm(node):
    """x by its 1- or 2-norm along an axis; zeros stay."""
    x, p = node.input(0), node.attr("p", 2)
    axis = node.axis(node.attr("axis", -1), x.struct_info.ndim)
    if p not in (1, 2):
        raise node.error(f"attribute p is {p}; 1 and 2 are supported")
    total = node.call("sum", node.call("abs" if p == 1 else "square", x), axis=axis, keepdims=True)
    norm = total if p == 1 else node.call("sqrt", total)
    zero = node.call("equal", norm, scalar_like(node, 0, x))
    return node.call("divide", x, node.call("where", zero, scalar_like(node, 1, x), norm))


@converts("BatchNormalization", 14)
def batch_norm_v14(node):
    """In training mode by the batch's own moments, which the running ones take part of."""
    x, scale, bias, mean, variance = node.inputs
    epsilon = float(node.attr("epsilon"))
    if not node.attr("training_mode", 0):
        if any(node.outputs[1:]):
            raise node.error("has running statistics as outputs, and attribute training_mode is 0")
        return node.call("nn.batch_norm", *node.inputs, axis=1, epsilon=epsilon)
    axes = tuple(k for k in range(x.struct_info.ndim) if k != 1)
    own_mean = node.call("mean", x, axis=axes)
    own_variance = node.call("variance", x, axis=axes)
    momentum = node.attr("momentum")

    def running(old, new):
        new = node.astype(new, old.struct_info.dtype)
        return node.call("add", node.call("multiply", old, scalar_like(node, momentum, old)),
                         node.call("multiply", new, scalar_like(node, 1 - momentum, old)))

    result = node.call("nn.batch_norm", x, scale, bias, own_mean, own_variance, axis=1, epsilon=epsilon)
    return result, running(mean, own_mean), running(variance, own_variance)
