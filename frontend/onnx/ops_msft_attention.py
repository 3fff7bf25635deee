"""Attention of the domain com.microsoft, as products, a softmax and transposes, which fuse to one kernel.

Letters: B batch, S queries, P keys of the past, T = P + S keys in all, H heads, D head size. What hides a key is added
to its score, as onnxruntime does: a row whose keys are all hidden has the weights that its scores say.
"""
from __future__ import annotations

import math

import numpy as np

from ...ir.relax.control import tensor_to_shape
from ..shapes import dims_of, may_be_same, same, settle, simplify
from .converter import microsoft
from .ops_msft_quantized import integer_product
from .ops_math import scalar_like
from .ops_scatter import scattered
from .run_shapes import as_dims

FILTER = -10000.0  # of attribute mask_filter_value
LOWEST = {"float32": -3.4028234663852886e38, "float16": -65504.0, "float64": -1.7976931348623157e308}


# ---------------------------------------------------------------- parts

def cut(node, x, axis, begin, end):
    if begin == 0 and same(dims_of(x)[axis], end):
        return x
    return node.call("strided_slice", x, axes=(axis,), begin=(begin,), end=(end,), strides=(1,))


def heads(node, x, count):
    """[B, S, H * D] as [B, H, S, D]."""
    batch, length, width = dims_of(x)
    if not isinstance(width, int) or width % count:
        raise node.error(f"{count} heads do not divide the last dimension, {width}")
    return node.transpose(node.reshape(x, [batch, length, count, width // count]), (0, 2, 1, 3))


def attend(node, q, k, v, bias, scale=None, softcap=0.0, sink=None):
    """softmax(q k' * scale + bias) v of [B, H, S, D] as [B, S, H * D]. softcap: what scores come close to at most, 0
    for no limit; sink: [H], a score of each head whose weight no value has."""
    batch, count, length, size = dims_of(q)
    scale = scale or 1 / math.sqrt(size)
    scores = node.call("matmul", q, node.transpose(k, (0, 1, 3, 2)))
    scores = node.call("multiply", scores, scalar_like(node, scale, scores))
    if softcap:
        cap = scalar_like(node, softcap, scores)
        scores = node.call("multiply", node.call("tanh", node.call("divide", scores, cap)), cap)
    scores = scores if bias is None else node.call("add", scores, bias)
    if sink is not None:
        sink = node.broadcast(node.reshape(sink, [1, count, 1, 1]), [batch, count, length, 1])
        scores = node.call("concat", node.bind(scores), sink, axis=3)
    weights = node.call("nn.softmax", scores, axis=3)
    weights = weights if sink is None else cut(node, node.bind(weights), 3, 0, dims_of(k)[2])
    result = node.transpose(node.call("matmul", weights, v), (0, 2, 1, 3))
    return node.reshape(result, [batch, length, count * dims_of(v)[3]])


def both(node, a, b):
    """The sum of what is added to scores; either may be None."""
    return b if a is None else a if b is None else node.call("add", a, b)


def future(node, length, past, total, dtype):
    """[1, 1, S, T]: what hides the keys after each query."""
    rows, columns = (node.tensor(node.positions(n)) for n in (length, total))
    rows = node.call("add", node.reshape(rows, [length, 1]), node.tensor(past, "int64"))
    hidden = node.call("greater", node.reshape(columns, [1, total]), rows)
    bias = node.call("where", hidden, node.const(LOWEST[str(dtype)], dtype), node.const(0, dtype))
    return node.reshape(bias, [1, 1, length, total])


def masked(node, mask, length, total, dtype, batch):
    """What a mask hides: of keys [B, T] or [B], how many there are; of queries and keys [B, S, T]; or [2 B], ends and
    beginnings."""
    dims = dims_of(mask)
    hidden = node.const(node.attr("mask_filter_value", FILTER), dtype)
    if len(dims) == 1:
        keys = node.astype(node.reshape(node.tensor(node.positions(total)), [1, total]), mask.struct_info.dtype)
        if same(dims[0], batch):
            seen = node.call("less", keys, node.reshape(mask, [batch, 1]))
        elif isinstance(batch, int) and same(dims[0], 2 * batch):
            mask = node.bind(mask)
            end, begin = (node.reshape(cut(node, mask, 0, a, a + batch), [batch, 1]) for a in (0, batch))
            seen = node.call("logical_and", node.call("less", keys, end), node.call("greater_equal", keys, begin))
        else:
            raise node.error("a mask of one dimension must hold a length, or an end and a beginning, for each sequence")
        dims = [batch, total]
    elif len(dims) in (2, 3) and same(dims[-1], total) and (len(dims) == 2 or same(dims[1], length)):
        seen = node.call("greater", mask, scalar_like(node, 0, mask))
    else:
        raise node.error(f"a mask of these {len(dims)} dimensions is not supported; supported are [batch], "
                         "[2 * batch], [batch, keys] and [batch, queries, keys]")
    bias = node.call("where", seen, node.const(0, dtype), hidden)
    return node.reshape(bias, [dims[0], 1, 1 if len(dims) == 2 else length, total])


def require(node, **wanted):
    """An error for attributes that have another value than the supported one, which is what their absence means."""
    for name, value in wanted.items():
        if node.attr(name, value) != value:
            raise node.error(f"attribute {name} is {node.attr(name)}, and only {value} is supported")


# ---------------------------------------------------------------- the operators

def _self_attention(node, projected, sizes, mask, past, bias):
    """Attention of [B, S, sum of sizes] with itself; (result, present or None)."""
    require(node, do_rotary=0, past_present_share_buffer=0)
    count = node.attr("num_heads")
    projected = node.bind(projected)
    batch, length, _ = dims_of(projected)
    ends = np.cumsum(sizes).tolist()
    q, k, v = (heads(node, cut(node, projected, 2, end - size, end), count) for size, end in zip(sizes, ends))
    before, present = 0, None
    if past is not None:
        past = node.bind(past)
        before = dims_of(past)[3]
        k, v = (node.bind(node.call("concat", node.reshape(cut(node, past, 0, n, n + 1), dims_of(past)[1:]), x, axis=2))
                for n, x in enumerate((k, v)))
    if node.wants(1):
        k, v = node.bind(k), node.bind(v)
        present = node.call("concat", *(node.reshape(x, [1, *dims_of(x)]) for x in (k, v)), axis=0)
    total, dtype = dims_of(k)[2], projected.struct_info.dtype
    added = None if mask is None else masked(node, mask, length, total, dtype, batch)
    if node.attr("unidirectional", 0):
        added = both(node, added, future(node, length, before, total, dtype))
    result = attend(node, q, k, v, both(node, added, bias), node.attr("scale"))
    return (result, present) if present is not None else result


def _sizes(node, weight):
    width = dims_of(weight)[1]
    given = node.attr("qkv_hidden_sizes")
    sizes = list(given) if given else [width // 3] * 3
    if len(sizes) != 3 or sum(sizes) != width:
        raise node.error(f"the weight's {width} columns are not those of q, k and v, {sizes}")
    return sizes


@microsoft("Attention")
def attention(node):
    x, weight, bias, mask, past, added, length = (node.input(k) for k in range(7))
    if length is not None:
        raise node.error("a past in a shared buffer (input past_sequence_length) is not supported")
    projected = node.call("matmul", x, weight)
    projected = projected if bias is None else node.call("add", projected, bias)
    return _self_attention(node, projected, _sizes(node, weight), mask, past, added)


@microsoft("QAttention")
def quantized_attention(node):
    """Attention whose projection is one of bytes."""
    x, weight, bias, x_scale, weight_scale, mask, x_zero, weight_zero, past = (node.input(k) for k in range(9))
    projected = integer_product(node, x, x_scale, x_zero, weight, weight_scale, weight_zero, bias)
    return _self_attention(node, projected, _sizes(node, weight), mask, past, None)


@microsoft("MultiHeadAttention")
def multi_head_attention(node):
    q, k, v, bias, mask, added, past_k, past_v, length, order = (node.input(i) for i in range(10))
    if length is not None or order is not None or node.wants(3):
        raise node.error("shared buffers of the past, beams and the output qk are not supported")
    if k is None or v is None or q.struct_info.ndim != 3:
        raise node.error("a query packed with key and value is not supported; q, k and v must be three inputs")
    count, dtype = node.attr("num_heads"), q.struct_info.dtype
    widths = [dims_of(q)[2]] * 2 + [dims_of(v)[2] if v.struct_info.ndim == 3 else dims_of(v)[1] * dims_of(v)[3]]
    if bias is not None:
        bias, ends = node.bind(bias), np.cumsum(widths).tolist()
        parts = [cut(node, bias, 0, end - width, end) for width, end in zip(widths, ends)]
    else:
        parts = [None] * 3
    if bias is not None and k.struct_info.ndim == 4:
        raise node.error("a bias of keys that are split into heads is not supported")
    q, k, v = (x if x.struct_info.ndim == 4 else heads(node, x if part is None else node.call("add", x, part), count)
               for x, part in zip((q, k, v), parts))
    before = 0
    if past_k is not None and past_v is not None:
        before = dims_of(past_k)[2]
        k, v = node.call("concat", past_k, k, axis=2), node.call("concat", past_v, v, axis=2)
    k, v = node.bind(k), node.bind(v)
    (batch, _, length, _), total = dims_of(q), dims_of(k)[2]
    hidden = None if mask is None else masked(node, mask, length, total, dtype, batch)
    if node.attr("unidirectional", 0):
        hidden = both(node, hidden, future(node, length, before, total, dtype))
    result = attend(node, q, k, v, both(node, hidden, added), node.attr("scale"))
    return (result, k, v) if node.wants(1) or node.wants(2) else result


def rotated(node, x, cos, sin, interleaved):
    """x [B, H, S, D], the first R of D turned by the angles of cos and sin [B or 1, S, R / 2]."""
    dims, half = dims_of(x), dims_of(cos)[-1]
    cos, sin = (node.reshape(v, [dims_of(v)[0], 1, *dims_of(v)[1:]]) for v in (cos, sin))
    x = node.bind(x)
    turned = node.bind(cut(node, x, 3, 0, 2 * half))
    if interleaved:
        a, b = (node.call("strided_slice", turned, axes=(3,), begin=(n,), end=(2 * half,), strides=(2,))
                for n in (0, 1))
    else:
        a, b = cut(node, turned, 3, 0, half), cut(node, turned, 3, half, 2 * half)
    a, b = node.bind(a), node.bind(b)
    first = node.call("subtract", node.call("multiply", a, cos), node.call("multiply", b, sin))
    second = node.call("add", node.call("multiply", a, sin), node.call("multiply", b, cos))
    if interleaved:
        pair = [node.reshape(v, [*dims[:3], half, 1]) for v in (first, second)]
        result = node.reshape(node.call("concat", *pair, axis=4), [*dims[:3], 2 * half])
    else:
        result = node.call("concat", first, second, axis=3)
    if same(dims[3], 2 * half):
        return result
    return node.call("concat", result, cut(node, x, 3, 2 * half, dims[3]), axis=3)


@microsoft("RotaryEmbedding")
def rotary_embedding(node):
    """Rows of [B, S, H * D] or [B, H, S, D] turned by angles of their positions: that of the first row, or each's."""
    x, places, cos, sin = node.inputs
    require(node, is_packed_batching=0, scale=1.0)
    half, rotary = dims_of(cos)[1], node.attr("rotary_embedding_dim", 0)
    count, dims = node.attr("num_heads", 0), dims_of(x)
    if rotary and not count:
        raise node.error("attribute rotary_embedding_dim needs num_heads")
    if len(dims) == 3:
        count = count or dims[2] // (2 * half)
        wide = heads(node, x, count)
    else:
        wide = x
    length = dims_of(wide)[2]
    if places.struct_info.ndim == 1:
        first = node.reshape(places, [1, 1])
        places = node.call("add", node.reshape(node.tensor(node.positions(length)), [1, length]), first)
    if rotary and rotary != 2 * half:
        raise node.error(f"attribute rotary_embedding_dim {rotary} must be twice the {half} columns of cos_cache")
    cos, sin = (node.call("take", v, places, axis=0) for v in (cos, sin))
    result = rotated(node, wide, cos, sin, bool(node.attr("interleaved", 0)))
    return result if len(dims) == 4 else node.reshape(node.transpose(result, (0, 2, 1, 3)), dims)


@microsoft("GroupQueryAttention")
def group_query_attention(node):
    """Causal attention in which groups of heads share keys and values, from the first one on. Sequence b has
    seqlens_k[b] + 1 keys."""
    q, k, v, past_k, past_v, lengths = (node.input(i) for i in range(6))
    cos, sin, order, bias, sink = (node.input(i) for i in (7, 8, 9, 10, 11))
    if any(node.input(i) is not None for i in range(12, 17)) or node.wants(3):
        raise node.error("scales of a quantized cache, norms of q and k and the output qk are not supported")
    require(node, causal=1, sliding_window_cache=0)
    count, groups = node.attr("num_heads"), node.attr("kv_num_heads")
    if groups < 1 or count % groups:
        raise node.error(f"attribute num_heads {count} must be a multiple of kv_num_heads {groups}")
    if k is None:
        q, width = node.bind(q), dims_of(q)[2]
        size = width // (count + 2 * groups)
        ends = [count * size, (count + groups) * size, width]
        q, k, v = (cut(node, q, 2, a, b) for a, b in zip([0, *ends], ends))
    q, k, v = heads(node, q, count), heads(node, k, groups), heads(node, v, groups)
    batch, _, length, _ = dims_of(q)
    has_past = past_k is not None and dims_of(past_k)[2] != 0
    several = has_past and batch != 1  # whose pasts end where each one's length says
    past = 0 if not has_past else _ends_of_pasts(node, past_k, lengths, length) if several else _rows_of_past(
        node, past_k, lengths, length)
    rows = node.reshape(node.tensor(node.positions(length)), [1, length])  # of queries among the keys: [B or 1, S]
    if several:
        rows = node.bind(node.call("add", rows, node.reshape(past, [batch, 1])))
    elif has_past:
        rows = node.call("add", rows, node.tensor(past, "int64"))
    if node.attr("do_rotary", 0):
        if cos is None or sin is None:
            raise node.error("attribute do_rotary needs cos_cache and sin_cache")
        places = rows if order is None else node.call(  # whose first of each sequence counts
            "add", cut(node, order, 1, 0, 1), node.reshape(node.tensor(node.positions(length)), [1, length]))
        cos, sin = (node.bind(node.call("take", table, places, axis=0)) for table in (cos, sin))
        q, k = (rotated(node, x, cos, sin, bool(node.attr("rotary_interleaved", 0))) for x in (q, k))
    k, v, dtype = node.bind(k), node.bind(v), q.struct_info.dtype
    present, total = (k, v), length
    if several:
        present = tuple(node.bind(scattered(node, *pair, 2, past)) for pair in ((past_k, k), (past_v, v)))
        (k, v), total = present, dims_of(past_k)[2]
    elif has_past:
        present = tuple(_after_past(node, *pair, past) for pair in ((past_k, k), (past_v, v)))
        total = simplify(past + length)
        k, v = (x if same(dims_of(x)[2], total) else
                node.bind(node.call("memory.part", x, axis=2, begin=0, extent=total)) for x in present)
    wide = [k, v] if count == groups else [node.call("repeat", x, repeats=count // groups, axis=1) for x in (k, v)]
    hidden = _outside_of_window(node, rows, total, dtype) if several or node.attr("local_window_size", -1) >= 0 else (
        future(node, length, past, total, dtype))
    if not has_past:
        lengths = node.reshape(node.call("add", lengths, scalar_like(node, 1, lengths)), [batch, 1])
        keys = node.astype(node.reshape(node.tensor(node.positions(length)), [1, length]), lengths.struct_info.dtype)
        seen = node.call("where", node.call("less", keys, lengths), node.const(0, dtype), node.const(
            LOWEST[str(dtype)], dtype))
        hidden = node.call("minimum", node.reshape(seen, [batch, 1, 1, length]), hidden)
    if bias is not None and not may_be_same(dims_of(bias)[3], total):
        raise node.error(f"attention_bias has {dims_of(bias)[3]} columns, and there are {total} keys")
    if sink is None and node.attr("smooth_softmax") > 0:
        sink = node.const(np.zeros(count), dtype)
    result = attend(node, q, *wide, both(node, hidden, bias), node.attr("scale"), node.attr("softcap", 0.0), sink)
    return (result, *present) if node.wants(1) or node.wants(2) else result


def _outside_of_window(node, rows, total, dtype):
    """[B or 1, 1, S, T]: what hides the keys after each query, whose place among them `rows` [B or 1, S] says, and
    those more than attribute local_window_size before."""
    batch, length = dims_of(rows)
    rows = node.bind(node.reshape(rows, [batch, length, 1]))
    columns = node.reshape(node.tensor(node.positions(total)), [1, 1, total])
    hidden = node.call("greater", columns, rows)
    window = node.attr("local_window_size", -1)
    if window >= 0:
        first = node.call("subtract", rows, node.const(window, "int64"))
        hidden = node.call("logical_or", hidden, node.call("less_equal", columns, first))
    bias = node.call("where", hidden, node.const(LOWEST[str(dtype)], dtype), node.const(0, dtype))
    return node.reshape(bias, [batch, 1, length, total])


def _ends_of_pasts(node, past, lengths, length):
    """[B]: how many keys each sequence has before the new ones, in a buffer of constant size."""
    batch, _, rows, _ = dims_of(past)
    if not isinstance(rows, int):
        raise node.error(f"a growing past of {batch} sequences is not supported: sequences of several lengths would "
                         "share one dimension; pin the batch to 1, or the past's rows to those of a buffer")
    first = node.call("subtract", node.astype(lengths, "int64"), node.tensor(simplify(length - 1), "int64"))
    first = node.bind(node.call("maximum", node.reshape(first, [batch]), node.const(0, "int64")))  # 0: of a prompt
    last = node.tensor(simplify(rows - length), "int64")
    _refuse(node, node.call("max", node.astype(node.call("greater", first, last), "int64"), axis=0), "beyond")
    return first


def _rows_of_past(node, past, lengths, length):
    """How many keys there are before the new ones of one sequence, an expression. Where the past grows from run to run
    those are all that it has, which the run checks; a buffer of constant size has so many as seqlens_k says."""
    rows = dims_of(past)[2]
    node.scope.note_ones(node.proto.input[5])
    last = node.reshape(node.astype(lengths, "int64"), [1])
    ends = node.call("add", last, node.const([1], "int64"))
    begin = node.call("subtract", ends, node.tensor(settle(np.array([length], object), "int64")))
    if isinstance(rows, int):
        return as_dims(node, begin, [f"{node.stem}_past"], [rows], "how many keys there are")[0]
    wrong = node.call("not_equal", begin, node.tensor(settle(np.array([rows], object), "int64")))
    _refuse(node, node.astype(wrong, "int64"), "wrong")
    return rows


def _refuse(node, count, what):
    """A run fails where a number, of [] or [1], is not 0."""
    count = node.bind(node.reshape(count, [1]))
    node.emit(tensor_to_shape(count, [node.scope.new_dim(f"{node.stem}_{what}", 0)]))


def _after_past(node, past, new, begin):
    """Keys or values with those of the past, [B, H, T, D]: a buffer of constant size stays one."""
    if isinstance(dims_of(past)[2], int):
        return node.bind(node.call("update_slice", past, new, axis=2, begin=begin))
    return node.bind(node.call("concat", past, new, axis=2))
