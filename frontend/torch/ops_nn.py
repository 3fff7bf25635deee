"""Layers: convolutions, products, normalizations, embeddings, attention."""
from __future__ import annotations

import math
import warnings

import numpy as np

from ...ir.relax.expr import Constant, ShapeExpr, const
from ..shapes import product
from .dtypes import category
from .table import ATEN, CONVERTERS, FUNCTIONS, converts

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


# ---------------------------------------------------------------- convolutions

def _with_bias(b, y, bias, rank):
    return y if bias is None else b.op("add", y, b.made("reshape", bias, (1, -1) + (1,) * rank))


def _numbers(value, rank):
    """A number, or one per axis, as they are given; [3] stands for all axes."""
    return list(value) * rank if isinstance(value, (list, tuple)) and len(value) == 1 else value


def _conv(rank):
    def convert(b, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        x, one = _batched(b, x, rank)
        if padding in ("valid", "same"):
            padding = _same_padding(b, weight, dilation, rank) if padding == "same" else 0
        y = b.op(f"nn.conv{rank}d", x, weight, strides=_numbers(stride, rank), padding=_numbers(padding, rank),
                 dilation=_numbers(dilation, rank), groups=groups, data_layout="NC" + _SPATIAL[rank],
                 kernel_layout="OI" + _SPATIAL[rank], out_dtype=b.dtype(x))
        return _one(b, _with_bias(b, y, bias, rank), one)
    return convert


def _conv_transpose(rank):
    def convert(b, x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        x, one = _batched(b, x, rank)
        if rank == 3:
            y = _spread_convolution(b, x, weight, *(
                list(v) if isinstance(v, (list, tuple)) else [v] * rank
                for v in (_numbers(v, rank) for v in (stride, padding, output_padding, dilation))), groups)
            return _one(b, _with_bias(b, y, bias, rank), one)
        extra = {} if not _any(output_padding) else {"output_padding": _numbers(output_padding, rank)}
        y = b.op(f"nn.conv{rank}d_transpose", x, weight, strides=_numbers(stride, rank),
                 padding=_numbers(padding, rank), dilation=_numbers(dilation, rank), groups=groups,
                 data_layout="NC" + _SPATIAL[rank], kernel_layout="IO" + _SPATIAL[rank],
                 out_layout="NC" + _SPATIAL[rank], out_dtype=b.dtype(x), **extra)
        return _one(b, _with_bias(b, y, bias, rank), one)
    return convert


def _spread_convolution(b, x, w, stride, padding, extra, dilation, groups):
    """A transposed convolution of any rank: stride - 1 zeros between the elements of `x`, and the mirrored kernel."""
    (n, channels, *spatial), (_, outputs, *kernel), rank = b.dims(x), b.dims(w), len(stride)
    if max(stride) > 1:
        x = b.op("reshape", x, [n, channels, *(d for size in spatial for d in (size, 1))])
        x = b.op("nn.pad", x, [0] * 4 + [g for s in stride for g in (0, 0, 0, s - 1)])
        x = b.op("reshape", x, [n, channels, *(d * s for d, s in zip(spatial, stride))])
    reach = [(k - 1) * d - p for k, d, p in zip(kernel, dilation, padding)]
    x = b.op("nn.pad", x, [0] * 4 + [v for r, e, s in zip(reach, extra, stride) for v in (r, r + e - (s - 1))])
    for axis in range(2, 2 + rank):
        w = b.op("flip", w, axis)
    w = b.op("reshape", w, [groups, channels // groups, outputs, *kernel])
    w = b.op("permute_dims", w, [0, 2, 1, *range(3, 3 + rank)])
    w = b.op("reshape", w, [groups * outputs, channels // groups, *kernel])
    return b.op(f"nn.conv{rank}d", x, w, dilation=dilation, groups=groups, data_layout="NC" + _SPATIAL[rank],
                kernel_layout="OI" + _SPATIAL[rank], out_dtype=b.dtype(x))


def _any(value):
    return any(value) if isinstance(value, (list, tuple)) else bool(value)


def _batched(b, x, rank):
    """(a batch, whether it is one image that had no batch axis)"""
    one = b.rank(x) == rank + 1
    return (b.op("expand_dims", x, 0), True) if one else (x, False)


def _one(b, y, one):
    return b.op("squeeze", y, [0]) if one else y


def _same_padding(b, weight, dilation, rank):
    """padding="same": what is left over of an even kernel's lies behind."""
    dilation = (dilation,) * rank if isinstance(dilation, int) else tuple(_numbers(dilation, rank))
    totals = [d * (k - 1) for d, k in zip(dilation, b.dims(weight)[2:])]
    return [t // 2 for t in totals] + [t - t // 2 for t in totals]


for _rank in (1, 2, 3):
    CONVERTERS[f"conv{_rank}d"] = _conv(_rank)
    CONVERTERS[f"conv_transpose{_rank}d"] = _conv_transpose(_rank)


@converts("convolution", table=ATEN)
def convolution(b, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    rank = b.rank(x) - 2
    if transposed:
        return CONVERTERS[f"conv_transpose{rank}d"](b, x, weight, bias, stride, padding, output_padding, groups,
                                                    dilation)
    return CONVERTERS[f"conv{rank}d"](b, x, weight, bias, stride, padding, dilation, groups)


# ---------------------------------------------------------------- products

@converts("linear")
def linear(b, x, weight, bias=None):
    return b.op("linear", x, weight, bias, b.dtype(x))


@converts("matmul", "bmm", "mm", "mv", "dot", "__matmul__")
def matmul(b, x, y):
    return b.op("matmul", x, y, out_dtype=b.dtype(x))


def _scaled(b, x, factor):
    return x if factor == 1 else b.op("multiply", x, b.const_like(factor, x))


@converts("addmm", "addmv")
def addmm(b, x, y, z, beta=1, alpha=1):
    product = None if alpha == 0 else _scaled(b, b.op("matmul", y, z, out_dtype=b.dtype(y)), alpha)
    if beta == 0:
        return product
    bias = _scaled(b, x, beta)
    return bias if product is None else b.op("add", bias, product)


@converts("addbmm")
def addbmm(b, x, y, z, beta=1, alpha=1):
    """addmm of the sum of a batch's products."""
    rows, shared, columns = b.dims(y)[1], product([b.dims(y)[0], b.dims(y)[2]]), b.dims(z)[2]
    y = b.op("reshape", b.op("permute_dims", y, [1, 0, 2]), [rows, shared])
    return addmm(b, x, y, b.op("reshape", z, [shared, columns]), beta, alpha)


@converts("baddbmm")
def baddbmm(b, x, y, z, beta=1, alpha=1):
    product = None if alpha == 0 else _scaled(b, b.op("matmul", y, z), alpha)
    if beta == 0:
        return product
    bias = _scaled(b, x, beta)
    return bias if product is None else b.op("add", product, bias)


@converts("einsum")
def einsum(b, equation, *operands, path=None):
    operands = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    return b.op("einsum", tuple(operands), equation)


@converts("bilinear")
def bilinear(b, x, y, weight, bias=None):
    """x W y for each matrix W of the weight."""
    batch = b.dims(x)[:-1]
    x, y = (t if len(batch) == 1 else b.op("reshape", t, [-1, b.dims(t)[-1]]) for t in (x, y))
    result = b.op("einsum", (x, weight, y), "bi,oij,bj->bo")
    result = result if bias is None else b.op("add", result, bias)
    return result if len(batch) == 1 else b.op("reshape", result, [*batch, b.dims(weight)[0]])


@converts("cdist", "_cdist_forward")
def cdist(b, x, y, p=2.0, compute_mode=None):
    """The distances of all rows of `x` from all of `y`, by differences."""
    apart = b.op("subtract", b.made("expand_dims", x, -2), b.made("expand_dims", y, -3))
    return CONVERTERS["linalg_vector_norm"](b, apart, p, -1)


@converts("outer", "ger")
def outer(b, x, y):
    return CONVERTERS["mul"](b, b.op("expand_dims", x, 1), b.op("expand_dims", y, 0))


# ---------------------------------------------------------------- normalizations

def _filled(b, given, size, value, dtype):
    return const(np.full(size, value, dtype), dtype) if given is None else given


def _batch_norm(b, x, weight, bias, mean, var, training, eps):
    if training and mean is not None:
        raise ValueError(f"{_TRAINS}: its running mean and variance would be lost; call model.eval() before the export")
    if training:
        axes = [k for k in range(b.rank(x)) if k != 1]
        mean, var = b.op("mean", x, axes), b.op("variance", x, axes)
    size, dtype = (b.dims(x)[1],), b.dtype(x)
    given = [_filled(b, v, size, default, dtype) for v, default in ((weight, 1), (bias, 0), (mean, 0), (var, 1))]
    result = b.emit(b.made("nn.batch_norm", x, *given, axis=1, epsilon=eps))
    return b.emit(result[0])


_TRAINS = "normalization in training mode"


def _layer_in_training(b):
    warnings.warn(f"node {b.node.name!r}: {_TRAINS} is imported as inference has it; call model.eval() before",
                  stacklevel=2)


@converts("batch_norm", table=ATEN)
def batch_norm(b, x, weight, bias, mean, var, training, momentum, eps, cudnn_enabled=True):
    return _batch_norm(b, x, weight, bias, mean, var, training, eps)


@converts("_native_batch_norm_legit_no_training", table=ATEN)
def native_batch_norm(b, x, weight, bias, mean, var, momentum, eps):
    return _batch_norm(b, x, weight, bias, mean, var, False, eps), mean, var


@converts("_native_batch_norm_legit_functional", "native_batch_norm", table=ATEN)
def functional_batch_norm(b, x, weight, bias, mean, var, training, momentum, eps):
    return _batch_norm(b, x, weight, bias, mean, var, training, eps), mean, var, mean, var


@converts("batch_norm", table=FUNCTIONS)
def batch_norm_function(b, x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    return _batch_norm(b, x, weight, bias, mean, var, training, eps)


@converts("batch_norm_layer", table=FUNCTIONS)
def batch_norm_layer(b, x, mean, var, weight, bias, training, eps):
    """A layer, whose mode is not part of the graph: inference, as all layers of from_fx."""
    if training and mean is not None:
        _layer_in_training(b)
    return _batch_norm(b, x, weight, bias, mean, var, mean is None, eps)


@converts("layer_norm")
def layer_norm(b, x, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    size = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    weight, bias = (_filled(b, v, size, default, b.dtype(x)) for v, default in ((weight, 1), (bias, 0)))
    return b.op("nn.layer_norm", x, weight, bias, axes=list(range(-len(size), 0)), epsilon=eps)


@converts("native_layer_norm")
def native_layer_norm(b, *args):
    return layer_norm(b, *args), None, None


@converts("group_norm")
def group_norm(b, x, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    size = (b.dims(x)[1],)
    weight, bias = (_filled(b, v, size, default, b.dtype(x)) for v, default in ((weight, 1), (bias, 0)))
    return b.op("nn.group_norm", x, weight, bias, num_groups=num_groups, channel_axis=1,
                axes=list(range(2, b.rank(x))), epsilon=eps)


@converts("instance_norm", table=ATEN)
def instance_norm(b, x, weight, bias, mean, var, use_input_stats, momentum, eps, cudnn_enabled=True):
    if not use_input_stats:
        return _batch_norm(b, x, weight, bias, mean, var, False, eps)
    if mean is not None:
        return _batch_norm(b, x, weight, bias, mean, var, True, eps)  # which it refuses
    size = (b.dims(x)[1],)
    weight, bias = (_filled(b, v, size, default, b.dtype(x)) for v, default in ((weight, 1), (bias, 0)))
    return b.op("nn.instance_norm", x, weight, bias, epsilon=eps)


@converts("instance_norm", table=FUNCTIONS)
def instance_norm_function(b, x, mean=None, var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1,
                           eps=1e-5):
    return instance_norm(b, x, weight, bias, mean, var, use_input_stats, momentum, eps)


@converts("instance_norm_layer", table=FUNCTIONS)
def instance_norm_layer(b, x, mean, var, weight, bias, training, eps):
    if training and mean is not None:
        _layer_in_training(b)
    return instance_norm(b, x, weight, bias, mean, var, mean is None, None, eps)


@converts("rms_norm")
def rms_norm(b, x, normalized_shape, weight=None, eps=None):
    size = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    eps = float(np.finfo(b.dtype(x)).eps) if eps is None else eps
    weight = _filled(b, weight, size, 1, b.dtype(x))
    return b.op("nn.rms_norm", x, weight, axes=list(range(-len(size), 0)), epsilon=eps)


@converts("local_response_norm")
def local_response_norm(b, x, size, alpha=1e-4, beta=0.75, k=1.0):
    return b.op("nn.lrn", x, size=size, alpha=alpha, beta=beta, bias=k)


@converts("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
def dropout(b, x, p=0.5, train=True, inplace=False, training=None):
    """Inference drops nothing. train is ATen's name, training torch.nn.functional's."""
    if (train if training is None else training) and p:
        _warn_of_dropout(b)
    return x


def _warn_of_dropout(b):
    warnings.warn(f"node {b.node.name!r}: dropout of training mode is imported as inference has it, which drops "
                  "nothing; call model.eval() before", stacklevel=2)


# ---------------------------------------------------------------- tables and attention

def _embedding(b, indices, weight):
    indices = b.op("astype", indices, "int32")
    if b.rank(indices) == 1:
        return b.op("take", weight, indices, axis=0)
    rows = b.op("take", weight, b.op("reshape", indices, [-1]), axis=0)
    return b.op("reshape", rows, [*b.dims(indices), b.dims(weight)[-1]])


@converts("embedding", table=ATEN)
def embedding(b, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return _embedding(b, indices, weight)


@converts("embedding", table=FUNCTIONS)
def embedding_function(b, indices, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                       sparse=False):
    return _embedding(b, indices, weight)


@converts("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only", table=ATEN)
def embedding_bag(b, weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=None):
    """Rows of `weight`, summed (mode 0), averaged (1) or their maxima (2) over bags; offsets say where bags begin.
    (bags, None, None, None): what else ATen gives is for gradients."""
    bags, count = b.dims(offsets)[0] - bool(include_last_offset), b.dims(indices)[0]
    rows, dtype = _embedding(b, indices, weight), b.dtype(weight)
    places = b.op("reshape", b.op("arange", 0, count, 1, dtype=b.dtype(offsets)), [count, 1])
    begun = b.op("less_equal", b.op("expand_dims", offsets, 0), places)
    bag = b.op("subtract", b.op("sum", b.op("astype", begun, "int64"), [1]), const(1, "int64"))
    bag = b.op("minimum", bag, const(bags - 1, "int64"))
    bag = b.op("reshape", bag, [count, 1])
    counted = b.op("full", ShapeExpr((count, 1)), b.const_like(1, weight), dtype)
    padding = None if padding_idx is None or padding_idx < 0 else padding_idx
    if padding is not None:
        held = b.op("not_equal", indices, const(padding, b.dtype(indices)))
        counted = b.op("reshape", b.op("astype", held, dtype), [count, 1])
    if per_sample_weights is not None:
        rows = b.op("multiply", rows, b.op("expand_dims", per_sample_weights, 1))
    if mode == 2:
        return _largest_rows(b, rows, bag, counted, bags, padding is not None), None, None, None
    rows = rows if padding is None else b.op("multiply", rows, counted)
    zeros = _zeros(b, (bags, b.dims(weight)[1]), dtype)
    total = b.op("scatter_nd", zeros, bag, rows, reduction="add")
    if mode == 1:
        number = b.op("scatter_nd", _zeros(b, (bags, 1), dtype), bag, counted, reduction="add")
        total = b.op("divide", total, b.op("maximum", number, b.const_like(1, weight)))
    return total, None, None, None


def _zeros(b, shape, dtype):
    return b.op("zeros", ShapeExpr(shape), dtype)


def _largest_rows(b, rows, bag, counted, bags, padded):
    """The maxima of each bag; of none, zero."""
    least = b.const_like(-math.inf, rows)
    if padded:
        rows = b.op("where", b.op("greater", counted, b.const_like(0, rows)), rows, least)
    lowest = b.op("full", ShapeExpr((bags, b.dims(rows)[1])), least, b.dtype(rows))
    found = b.op("scatter_nd", lowest, bag, rows, reduction="max")
    number = b.op("scatter_nd", _zeros(b, (bags, 1), b.dtype(rows)), bag, counted, reduction="add")
    return b.op("where", b.op("greater", number, b.const_like(0, rows)), found, b.const_like(0, rows))


@converts("scaled_dot_product_attention")
def attention(b, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """softmax(q k^T scale + mask) v, of [..., heads, queries, width]."""
    rank = b.rank(query)
    if dropout_p:
        _warn_of_dropout(b)
    if enable_gqa:
        key, value = (_repeated_heads(b, t, b.dims(query)[-3]) for t in (key, value))
    mask = None if attn_mask is None else _additive(b, attn_mask, b.dtype(query))
    if rank != 4:
        query, key, value = (_four(b, t) for t in (query, key, value))
    if mask is not None and b.rank(mask) != 4:
        mask = _four(b, mask)
    query, key, value = _same_heads(b, query, key, value)
    turned = [b.made("permute_dims", t, [0, 2, 1, 3]) for t in (query, key, value)]
    result = b.made("nn.attention", *turned, bias=mask, scale=scale, causal_mask="TopLeft" if is_causal else None)
    result = b.op("permute_dims", result, [0, 2, 1, 3])
    return result if rank == 4 else b.op("squeeze", result, list(range(4 - rank)))


def _same_heads(b, *tensors):
    """Tensors of [batch, heads, length, width] with the same batch and heads: those of 1 are for all."""
    dims = [b.dims(t) for t in tensors]
    wanted = [next((n for n in axis if not _is_one(n)), 1) for axis in zip(*(d[:2] for d in dims))]
    return [b.op("broadcast_to", t, [*wanted, *d[2:]])
            if any(_is_one(n) and not _is_one(w) for n, w in zip(d, wanted)) else t for t, d in zip(tensors, dims)]


def _is_one(dim):
    return isinstance(dim, int) and dim == 1


def _four(b, x):
    """`x` with axes of 1 before its own, four in all."""
    if b.rank(x) > 4:
        raise ValueError(f"attention of tensors of {b.rank(x)} dimensions is not supported; 2 to 4 are")
    return b.op("expand_dims", x, list(range(4 - b.rank(x))))


def _additive(b, mask, dtype):
    """A mask as what is added to scores: of bools, 0 where they are true."""
    if category(b.dtype(mask)) == 2:
        return mask
    if isinstance(mask, Constant):
        return Constant(np.where(mask.data, 0, -math.inf).astype(dtype))
    return b.op("where", mask, const(0.0, dtype), const(-math.inf, dtype))


def _repeated_heads(b, x, heads):
    own = b.dims(x)[-3]
    return x if own == heads else b.op("repeat", x, heads // own, b.rank(x) - 3)


@converts("one_hot")
def one_hot(b, x, num_classes=-1, on_value=1, off_value=0, axis=-1):
    if num_classes is None or num_classes < 0:
        raise ValueError("one_hot needs num_classes, which decides the result's shape")
    return b.op("one_hot", x, on_value, off_value, num_classes, axis)


@converts("pixel_shuffle")
def pixel_shuffle(b, x, upscale_factor):
    *lead, c, h, w = b.dims(x)
    r, k = upscale_factor, len(lead)
    x = b.op("reshape", x, [*lead, c // (r * r), r, r, h, w])
    x = b.op("permute_dims", x, [*range(k), *(k + d for d in (0, 3, 1, 4, 2))])
    return b.op("reshape", x, [*lead, c // (r * r), h * r, w * r])


@converts("channel_shuffle")
def channel_shuffle(b, x, groups):
    n, c, *rest = b.dims(x)
    x = b.op("reshape", x, [n, groups, c // groups, *rest])
    x = b.op("permute_dims", x, [0, 2, 1, *range(3, 3 + len(rest))])
    return b.op("reshape", x, [n, c, *rest])


