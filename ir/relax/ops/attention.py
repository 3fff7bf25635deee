"""nn.attention: softmax(q k^T * scale + mask) v of several heads, without a tensor of all scores.

q is [B, S, W], k and v are [B, T, W], as projections write them: head h of each is its columns offset + h * head_size
and the head_size - 1 after, so that one product may compute all three. Or each is [B, H, S, head_size], as caches of
keys are. The result is [B, S, heads * head_size], or with by_head [B, heads, S, head_size]. k and v have kv_heads heads
(0: as many as q), each for as many heads of q as follow one another. mask, which is added to the scores, broadcasts to
[B, heads, S, T]. lanes: how many keys the kernel handles at once. rows: how
many queries meet blocks of keys at once, whatever the sizes are; 0: the sizes decide between that and whole scores.
arithmetic: "fma", or "mma" of tensor cores, for operands of 16 bits whose heads are tiles of 16 columns; rows then are
16 of each warp.
"""
from __future__ import annotations

import numpy as np

from ... import te, tir
from ...expr import IntImm, const
from ...op import REQUIRED, InferError, register
from ...tir import intrin
from ..expr import TensorStructInfo
from .attention_cores import WIDEST, lower_on_cores
from .attention_kernel import TILE, lower_blocks
from .common import (broadcast_index, broadcast_shapes, dim_text, fail, need_dtype, need_rank, need_same_dtype,
                     same_dim, same_shape, shape_text, te_shape, tensor, tensors)
from .precision import narrow, sum_dtype, widen_array

OPERANDS = ("q", "k", "v")
HALF = ("float16", "bfloat16")  # of which tensor cores take operands
# The logarithm of the least weight of a key, next to 1 of the greatest. That of a masked one would underflow, which
# takes processors longer than all else; a NaN stays one.
LEAST = -80
FEW_ROWS = 6     # of queries that share keys: blocks of keys are read once, more than one tile of them
MOST_KEYS = 511  # whose scores are whole rows; of more L1 keeps blocks of them, but not rows


def _infer(call):
    infos = tensors(call)
    need_dtype(call, infos[0], "float")
    need_same_dtype(call, infos[:3])
    for mask in infos[3:]:
        need_dtype(call, mask, "float")
    attrs = call.attrs
    heads, size, lanes = attrs["heads"], attrs["head_size"], attrs["lanes"]
    for name, value in (("heads", heads), ("head_size", size), ("lanes", lanes)):
        if value < 1:
            fail(call, f"{name} {value} must be at least 1")
    if len(attrs["offsets"]) != 3:
        fail(call, f"offsets {attrs['offsets']} must be three: of q, k and v")
    if attrs["arithmetic"] == "mma" and not (on_cores(infos[0].dtype, size) and attrs["rows"] in (16, 32, 64, 128)):
        fail(call, f"tensor cores (arithmetic \"mma\") take float16 and bfloat16, heads of 16 to {WIDEST} columns, a "
                   f"multiple of 16, and 16, 32, 64 or 128 rows, not {infos[0].dtype}, {size} and {attrs['rows']}")
    groups = attrs["kv_heads"] or heads
    if heads % groups:
        fail(call, f"kv_heads {groups} must divide heads {heads}")
    for n, (name, offset) in enumerate(zip(OPERANDS, attrs["offsets"])):
        _check_operand(call, n, name, groups if n else heads, offset)
    q, k, v = infos[:3]
    if not (same_dim(q.shape[0], k.shape[0]) and same_shape([k.shape[0], length(k)], [v.shape[0], length(v)])):
        fail(call, f"q {shape_text(q)}, k {shape_text(k)} and v {shape_text(v)} must have the same batch (dim 0), "
                   "and k and v as many keys (dim 1, or 2 of four)")
    scores = (q.shape[0], const(heads, "int64"), length(q), length(k))
    if len(infos) == 4:
        _check_mask(call, tensor(call, 3), scores)
    shape = (heads, length(q), size) if attrs["by_head"] else (length(q), heads * size)
    return TensorStructInfo((q.shape[0], *shape), q.dtype)


def on_cores(dtype, size):
    """Whether tensor cores take heads of a size and dtype."""
    return str(dtype) in HALF and size % 16 == 0 and size <= WIDEST


def length(operand):
    """How many queries, or keys, an operand has."""
    return operand.shape[len(operand.shape) - 2]


def _check_operand(call, n, name, heads, offset):
    info, size = tensor(call, n), call.attrs["head_size"]
    if info.ndim == 4:
        if not same_shape([info.shape[1], info.shape[3]], [const(heads, "int64"), const(size, "int64")]) or offset:
            fail(call, f"{name} {shape_text(info)} must have {heads} heads of {size} columns, from column 0 on")
        return
    width = need_rank(call, n, 3).shape[2]
    if isinstance(width, IntImm) and not 0 <= offset <= width.value - heads * size:
        fail(call, f"{heads} heads of {size} columns from column {offset} on are not inside {name} "
                   f"{shape_text(info)}, whose rows have {width.value}")


def _check_mask(call, mask, scores):
    try:
        fits = same_shape(broadcast_shapes(call, mask.shape, scores), scores)
    except InferError:
        fits = False
    if not fits:
        fail(call, f"mask {shape_text(mask)} does not broadcast to the scores ({', '.join(map(dim_text, scores))})")


def reader(operand, offset, size, group=1):
    """Function (b, h, t, d) -> the element of a tensor or buffer for head h of the queries."""
    if len(operand.shape) == 4:
        return lambda b, h, t, d: operand[b, _shared(h, group), t, d]
    return lambda b, h, t, d: operand[b, t, _shared(h, group) * size + d + offset]


def _shared(h, group):
    return h if group == 1 else h // group


def _lower(args, attrs, out):
    q, k, v, *mask = args
    heads, size, lanes = attrs["heads"], attrs["head_size"], attrs["lanes"]
    groups, keys = attrs["kv_heads"] or heads, length(k)
    if attrs["arithmetic"] == "mma":
        return lower_on_cores(args, attrs, out)
    known = all(isinstance(n, IntImm) for n in (*out.shape[1:], keys))
    if attrs["rows"] or not known or keys.value > MOST_KEYS or (
            length(q).value * heads // groups <= FEW_ROWS and keys.value > TILE):
        return lower_blocks(args, attrs, out, LEAST)
    acc, batch, queries = sum_dtype(q.dtype), te_shape(out)[0], length(q)
    of_q, of_v = reader(q, attrs["offsets"][0], size), reader(v, attrs["offsets"][2], size, heads // groups)
    of_k = reader(k, attrs["offsets"][1], size)
    rows = (batch, heads, queries)

    def key(b, h, to, d, ti):
        t = to * lanes + ti
        return intrin.if_then_else(t < keys, of_k(b, h, t, d).astype(acc), const(0, acc))

    packed = te.compute((batch, groups, (keys + lanes - 1) // lanes, size, lanes), key, name="attention_keys")
    n = te.reduce_axis((0, size), "n")
    scores = te.compute(
        (*rows, packed.shape[2], lanes),
        lambda b, h, s, to, ti: te.sum(of_q(b, h, s, n.var).astype(acc) * packed[
            b, _shared(h, heads // groups), to, n.var, ti], n), name="attention_scores")

    def logit(b, h, s, t):
        value = scores[b, h, s, t // lanes, t % lanes]
        value = value if attrs["scale"] == 1 else value * const(attrs["scale"], acc)
        return value + mask[0][broadcast_index((b, h, s, t), mask[0].shape)].astype(acc) if mask else value

    logits = te.compute((*rows, keys), logit, name="attention_logits")
    m, t, u = (te.reduce_axis((0, keys), name) for name in ("m", "t", "u"))
    peak = te.compute(rows, lambda b, h, s: te.max(logits[b, h, s, m.var], m), name="attention_max")
    exp = te.compute((*rows, keys), lambda b, h, s, t: intrin.exp(tir.max(
        const(LEAST, acc), logits[b, h, s, t] - peak[b, h, s])), name="attention_exp")
    total = te.compute(rows, lambda b, h, s: te.sum(exp[b, h, s, t.var], t), name="attention_sum")
    scale = te.compute(rows, lambda b, h, s: const(1, acc) / total[b, h, s], name="attention_scale")
    values = te.compute(
        (*rows, size), lambda b, h, s, d: te.sum(exp[b, h, s, u.var] * of_v(b, h, u.var, d).astype(acc), u),
        name="attention_values")
    if attrs["by_head"]:
        result = te.compute((*rows, size), lambda b, h, s, d: values[b, h, s, d] * scale[b, h, s], name="attention")
    else:
        result = te.compute((batch, queries, heads * size), lambda b, s, c: values[b, c // size, s, c % size] * scale[
            b, c // size, s], name="attention")
    return narrow(result, out.dtype)


def _evaluate(args, attrs):
    q, k, v, *mask = (widen_array(a) for a in args)
    heads, size = attrs["heads"], attrs["head_size"]
    groups = attrs["kv_heads"] or heads

    def split(x, offset, count):
        if x.ndim == 3:
            x = x[:, :, offset:offset + count * size].reshape(*x.shape[:2], count, size).transpose(0, 2, 1, 3)
        return np.repeat(x, heads // count, axis=1)

    q, k, v = (split(x, offset, n) for x, offset, n in zip((q, k, v), attrs["offsets"], (heads, groups, groups)))
    scores = q @ k.swapaxes(2, 3) * q.dtype.type(attrs["scale"])
    scores = scores + mask[0] if mask else scores
    exp = np.exp(scores - scores.max(axis=3, keepdims=True))
    result = (exp / exp.sum(axis=3, keepdims=True)) @ v
    if not attrs["by_head"]:
        result = result.transpose(0, 2, 1, 3).reshape(len(q), q.shape[2], -1)
    return result.astype(args[0].dtype, copy=False)


register("nn.attention", _infer, _lower, _evaluate, "opaque", (3, 4), heads=REQUIRED, head_size=REQUIRED,
         offsets=(0, 0, 0), scale=1.0, lanes=16, kv_heads=0, by_head=False, rows=0, arithmetic="fma")
