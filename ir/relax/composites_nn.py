"""Functions of relax.op.nn that are made of several operators: losses, dropout, convolutions and pools of any layout,
attention of heads. `ops(name, ...)` makes one call; see composites.py."""
from __future__ import annotations

import math
import re

from ..op import InferError
from .classic import dtype_of, plain, shape_of
from .composites import layout_transform, operands
from .ops.layout import block_size

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


# ---------------------------------------------------------------- losses and dropout

def dropout(ops, data, rate=0.5):
    """(data, mask): inference drops nothing."""
    return ops.tuple(data, ops("full_like", data, 1.0))


@operands("predictions labels")
def cross_entropy_with_logits(ops, predictions, labels):
    """-sum(predictions * labels), per example of a batch (dim 0 of two)."""
    a, b = shape_of(predictions), shape_of(labels)
    if len(a) != len(b):
        raise InferError(f"nn.cross_entropy_with_logits: predictions have {len(a)} dimensions, labels {len(b)}")
    ops.same_shape("nn.cross_entropy_with_logits", predictions, labels)
    products = ops("multiply", predictions, labels)
    if len(a) > 1 and not isinstance(plain(a[0]), int):  # the mean over a batch of symbolic extent
        return ops("negative", ops("mean", ops("sum", products, tuple(range(1, len(a))))))
    total = ops("negative", ops("sum", products))
    return total if len(a) < 2 else ops("divide", total, float(plain(a[0])))


@operands("predictions targets weights")
def nll_loss(ops, predictions, targets, weights=None, reduction="mean", ignore_index=-100):
    """The negative log likelihood of the class (axis 1, or 0 of one) that `targets` says."""
    shape, about = shape_of(predictions), shape_of(targets)
    axis = 0 if len(shape) == 1 else 1
    if not shape or len(about) != len(shape) - 1:
        raise InferError(f"nn.nll_loss: predictions of {len(shape)} dimensions need targets of {len(shape) - 1}, got "
                         f"{len(about)}")
    if reduction not in ("none", "sum", "mean"):
        raise InferError(f"nn.nll_loss: reduction {reduction!r} is none of none, sum, mean")
    ops.same_dims("nn.nll_loss: predictions and targets", (*shape[:axis], *shape[axis + 1:]), about)
    if weights is not None:
        if len(shape_of(weights)) != 1:
            raise InferError("nn.nll_loss: weights must have one dimension")
        ops.same_dims("nn.nll_loss: classes and weights", shape[axis:axis + 1], shape_of(weights))
    ops.integers("nn.nll_loss", targets)
    kept = ops("not_equal", targets, ignore_index)
    classes = ops("where", kept, targets, ops("full_like", targets, 0))
    picked = ops("squeeze", ops("gather_elements", predictions, ops("expand_dims", classes, axis), axis), [axis])
    weight = ops("astype", kept, dtype_of(predictions))
    if weights is not None:
        weight = ops("multiply", weight, ops("take", weights, classes, 0))
    loss = ops("negative", ops("multiply", picked, weight))
    loss = ops("where", kept, loss, ops("full_like", loss, 0))  # what is ignored may have picked an infinity
    if reduction == "none":
        return loss
    total = ops("sum", loss)
    return ops("divide", total, ops("sum", weight)) if reduction == "mean" else total


def softplus(ops, data, beta=1.0, threshold=20.0):
    """log(1 + exp(beta x)) / beta, and x where beta x > threshold, from 20 on the same in float32."""
    scaled = data if beta == 1 else ops("multiply", data, beta)
    out = ops.core("nn.softplus", scaled)
    out = out if beta == 1 else ops("divide", out, beta)
    return out if threshold >= 20 else ops("where", ops("greater", scaled, threshold), data, out)


# ---------------------------------------------------------------- layouts

def _order(source, target, what):
    """The permutation from one layout to another, None where they are the same."""
    if sorted(source) != sorted(target) or len(set(source)) != len(source):
        raise InferError(f"layout {source!r} of {what} must have the axes of {target}")
    return None if source == target else tuple(source.index(c) for c in target)


def _turned(ops, x, order):
    return x if order is None else ops("permute_dims", x, order)


def pads(padding, rank):
    padding = (padding,) if isinstance(padding, int) else tuple(map(plain, padding))
    if len(padding) not in (1, rank, 2 * rank):
        raise InferError(f"padding {padding} must be 1, {rank} or {2 * rank} numbers")
    return padding * (2 * rank) if len(padding) == 1 else padding * 2 if len(padding) == rank else padding


def each(value, rank, what):
    value = (value,) * rank if isinstance(value, int) else tuple(map(plain, value))
    if len(value) == 1:
        value *= rank
    if len(value) != rank:
        raise InferError(f"{what} {value} must be {rank} numbers")
    return value


def conv(rank, transposed=False):
    """nn.conv{rank}d, or its transpose, of any layout; the kernel layout may be any order too."""
    name = f"nn.conv{rank}d" + ("_transpose" if transposed else "")
    axes = _SPATIAL[rank]
    native, kernel = "NC" + axes, ("IO" if transposed else "OI") + axes

    def of_layout(ops, data, weight, strides, padding, dilation, groups, data_layout, kernel_layout, out_layout,
                  out_dtype, **more):
        blocks = re.search(r"\d", data_layout + kernel_layout)
        if blocks and more.get("out_channels") is None:  # TVM's, of whole blocks: the row's says what its weights hold
            x, w = layout_transform(ops, data, data_layout, native), layout_transform(ops, weight, kernel_layout, kernel)
            y = of_layout(ops, x, w, strides, padding, dilation, groups, native, kernel, native, out_dtype, **more)
            return layout_transform(ops, y, native, out_layout or data_layout)
        if blocks and out_layout and rank == 2:  # the row knows what blocks make
            more["out_layout"] = out_layout
        elif blocks and out_layout not in (None, "", data_layout):
            raise InferError(f"{name}: out_layout {out_layout!r} of blocks must be data_layout {data_layout!r}")
        out_layout = out_layout or data_layout
        if blocks or data_layout == native and kernel_layout == kernel and (
                out_layout == native):
            blocked = {"data_layout": data_layout} if data_layout != native else {}
            if transposed and rank == 1:
                return _conv1d_transpose(ops, data, weight, strides, padding, dilation, groups, out_dtype, **more)
            if transposed:
                return ops.core(name, data, weight, strides=strides, padding=padding, dilation=dilation, groups=groups,
                                **_typed(ops, data, out_dtype), **more)
            return ops.core(name, data, weight, strides=strides, padding=padding, dilation=dilation, groups=groups,
                            kernel_layout=kernel_layout, out_dtype=out_dtype or None, **blocked, **more)
        x = _turned(ops, data, _order(data_layout, native, "data"))
        w = _turned(ops, weight, _order(kernel_layout, kernel, "the kernel"))
        y = of_layout(ops, x, w, strides, padding, dilation, groups, native, kernel, native, out_dtype, **more)
        return _turned(ops, y, _order(native, out_layout, "the result"))

    if transposed:
        @operands("data weight")
        def made(ops, data, weight, strides=1, padding=0, output_padding=0, dilation=1, groups=1, data_layout=native,
                 kernel_layout=kernel, out_layout=None, out_dtype=None):
            return of_layout(ops, data, weight, each(strides, rank, "strides"), pads(padding, rank),
                             each(dilation, rank, "dilation"), groups, data_layout, kernel_layout, out_layout,
                             out_dtype, output_padding=each(output_padding, rank, "output_padding"))
    else:
        @operands("data weight")
        def made(ops, data, weight, strides=1, padding=0, dilation=1, groups=1, data_layout=native,
                 kernel_layout=kernel, out_layout=None, out_dtype=None, **more):
            return of_layout(ops, data, weight, each(strides, rank, "strides"), pads(padding, rank),
                             each(dilation, rank, "dilation"), groups, data_layout, kernel_layout, out_layout,
                             out_dtype, **more)
    made.over = True
    return made


def _typed(ops, data, out_dtype):
    """out_dtype of a transposed convolution, which is computed in the data's."""
    if out_dtype and out_dtype not in ("void", dtype_of(data)):
        raise InferError(f"out_dtype {out_dtype} of a transposed convolution must be the data's, {dtype_of(data)}")
    return {}


def _conv1d_transpose(ops, data, weight, strides, padding, dilation, groups, out_dtype, output_padding):
    """That of images of one row."""
    image = ops("expand_dims", data, 2), ops("expand_dims", weight, 2)
    result = ops.core("nn.conv2d_transpose", *image, strides=(1, *strides),
                      padding=(0, padding[0], 0, padding[1]), output_padding=(0, *output_padding),
                      dilation=(1, *dilation), groups=groups, **_typed(ops, data, out_dtype))
    return ops("squeeze", result, [2])


def pool(rank, kind):
    """nn.{kind}_pool{rank}d of any layout."""
    name, native = f"nn.{kind}_pool{rank}d", "NC" + _SPATIAL[rank]

    def of_layout(ops, data, layout, out_layout, attrs):
        out_layout = out_layout or layout
        if layout == out_layout and (layout == native or rank == 2 and block_size(layout)):
            return ops.core(name, data, layout=layout, **attrs)
        if re.search(r"\d", layout + out_layout):
            y = ops.core(name, layout_transform(ops, data, layout, native), **attrs)
            return layout_transform(ops, y, native, out_layout)
        y = ops.core(name, _turned(ops, data, _order(layout, native, "data")), **attrs)
        return _turned(ops, y, _order(native, out_layout, "the result"))

    def sizes(pool_size, strides, padding, dilation, ceil_mode):
        size = each(pool_size, rank, "pool_size")
        return {"pool_size": size, "strides": size if strides is None else each(strides, rank, "strides"),
                "padding": pads(padding, rank), "dilation": each(dilation, rank, "dilation"),
                "ceil_mode": ceil_mode}

    def made(ops, data, pool_size=1, strides=1, padding=0, dilation=1, ceil_mode=False, count_include_pad=False,
             layout=native, out_layout=None, **more):
        counted = {"count_include_pad": count_include_pad} if kind == "avg" else {}  # padding is never the greatest
        return of_layout(ops, data, layout, out_layout, {
            **sizes(pool_size, strides, padding, dilation, ceil_mode), **counted, **more})
    made.over = True
    return made


def adaptive_avg_pool(rank):
    """nn.adaptive_avg_pool{rank}d of any layout; output_size None keeps the size."""
    native = "NC" + _SPATIAL[rank]

    def made(ops, data, output_size=None, layout=native, out_layout=None):
        out_layout, shape = out_layout or layout, shape_of(data)
        if re.search(r"\d", layout):
            if output_size is None or out_layout != layout:
                raise InferError(f"nn.adaptive_avg_pool{rank}d: blocks of {layout!r} need an output_size, and stay blocks")
            return ops.core(f"nn.adaptive_avg_pool{rank}d", data, output_size, layout)
        order = _order(layout, native, "data")
        if len(shape) != rank + 2:
            raise InferError(f"nn.adaptive_avg_pool{rank}d: data must have {rank + 2} dimensions, it has {len(shape)}")
        if output_size is None:
            return _turned(ops, data, _order(layout, out_layout, "the result"))
        size = each(output_size, rank, "output_size")
        x = _turned(ops, data, order)
        if rank == 2:
            y = ops.core("nn.adaptive_avg_pool2d", x, size)
        elif rank == 1:
            y = ops("squeeze", ops.core("nn.adaptive_avg_pool2d", ops("expand_dims", x, 2), (1, *size)), [2])
        else:  # windows of an average are averages of those of each axis: first the images, then depth
            n, c, d, h, w = shape_of(x)
            images = ops.core("nn.adaptive_avg_pool2d", ops("reshape", x, (n, c * d, h, w)), size[1:])
            each_image = size[1] * size[2]
            flat = ops("reshape", images, (n, c, d, each_image))
            y = ops("reshape", ops.core("nn.adaptive_avg_pool2d", flat, (size[0], each_image)), (n, c, *size))
        return _turned(ops, y, _order(native, out_layout, "the result"))
    made.over = True
    return made


# ---------------------------------------------------------------- attention

@operands("query key value bias")
def attention(ops, query, key, value, bias=None, scale=None, causal_mask=None, window_size=None, **own):
    """softmax(q k^T * scale + bias) v; q is [batch, queries, heads, width], k and v have keys for queries.

    causal_mask: None, "TopLeft" or "BottomRight"; window_size: of how many keys, the last that it shows a query.
    Other attributes (heads ...) are the table's operator."""
    if own:
        rest = {k: v for k, v in (("scale", scale), ("window_size", window_size)) if v is not None}
        return ops.core("nn.attention", *(v for v in (query, key, value, bias) if v is not None), **rest, **own)
    q, k, v = map(shape_of, (query, key, value))
    if not len(q) == len(k) == len(v) == 4:
        raise InferError("nn.attention: query, key and value must have 4 dimensions: batch, sequence, heads, width")
    for what, a, b in (("batches of query and key", q[:1], k[:1]), ("heads of query and key", q[2:3], k[2:3]),
                       ("widths of query and key", q[3:], k[3:]), ("key and value", k[:3], v[:3])):
        ops.same_dims(f"nn.attention: {what}", a, b)
    if bias is not None and len(shape_of(bias)) != 4:
        raise InferError("nn.attention: bias must have 4 dimensions: batch, heads, queries, keys")
    if causal_mask not in (None, "TopLeft", "BottomRight"):
        raise InferError(f"nn.attention: causal_mask {causal_mask!r} is none of None, TopLeft, BottomRight")
    if window_size is not None and causal_mask is None:
        raise InferError("nn.attention: window_size needs a causal_mask, which says where windows end")
    scale = 1 / math.sqrt(ops.size(q[3])) if scale is None else plain(scale)
    rows, columns = (ops("permute_dims", x, (0, 2, 1, 3)) for x in (query, key))
    scores = ops("multiply", ops("matmul", rows, ops("permute_dims", columns, (0, 1, 3, 2))), float(scale))
    if bias is not None:
        scores = ops("add", scores, bias)
    if causal_mask is not None:
        shift = 0 if causal_mask == "TopLeft" else plain(k[1]) - plain(q[1])
        mask = ops("tril", ops("full", (q[1], k[1]), 1.0, "float32"), shift)
        if window_size is not None:
            mask = ops("triu", mask, shift + 1 - plain(window_size))
        lowest = ops.range_of(dtype_of(scores))[0]
        scores = ops("where", ops("greater", mask, 0.5), scores, ops("full_like", scores, lowest))
    weights = ops("nn.softmax", scores, axis=-1)
    result = ops("matmul", weights, ops("permute_dims", value, (0, 2, 1, 3)))
    return ops("permute_dims", result, (0, 2, 1, 3))


attention.over = True
NN = {
    "nn.dropout": dropout, "nn.cross_entropy_with_logits": cross_entropy_with_logits, "nn.nll_loss": nll_loss,
    "nn.attention": attention, "nn.softplus": softplus,
    **{f"nn.conv{n}d": conv(n) for n in (1, 2, 3)},
    **{f"nn.conv{n}d_transpose": conv(n, True) for n in (1, 2)},
    **{f"nn.{kind}_pool{n}d": pool(n, kind) for kind in ("max", "avg") for n in (1, 2, 3)},
    **{f"nn.adaptive_avg_pool{n}d": adaptive_avg_pool(n) for n in (1, 2, 3)},
}
__all__ = ["NN"]
