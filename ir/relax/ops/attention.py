"""nn.attention: softmax(q k^T * scale + mask) v of several heads, without a tensor of all scores.

q is [B, S, W], k and v are [B, T, W], as projections write them: head h of each is its columns offset + h * head_size
and the head_size - 1 after, so that one product may compute all three. The result is [B, S, heads * head_size]. mask,
which is added to the scores, broadcasts to [B, heads, S, T]. lanes: how many keys the kernel handles at once.
"""
from __future__ import annotations

import numpy as np

from ... import te, tir
from ...expr import IntImm, const
from ...op import REQUIRED, InferError, register
from ...tir import intrin
from ..expr import TensorStructInfo
from .attention_kernel import lower_blocks
from .common import (broadcast_index, broadcast_shapes, dim_text, fail, need_dtype, need_rank, need_same_dtype,
                     same_dim, same_shape, shape_text, te_shape, tensor, tensors)
from .precision import narrow, sum_dtype, widen_array

OPERANDS = ("q", "k", "v")
# The logarithm of the least weight of a key, next to 1 of the greatest. That of a masked one would underflow, which
# takes processors longer than all else; a NaN stays one.
LEAST = -80
MOST_KEYS = 511  # whose scores are whole rows; of more L1 keeps blocks of them, but not rows


def _infer(call):
    infos = tensors(call)
    need_dtype(call, infos[0], "float")
    need_same_dtype(call, infos)
    attrs = call.attrs
    heads, size, lanes = attrs["heads"], attrs["head_size"], attrs["lanes"]
    for name, value in (("heads", heads), ("head_size", size), ("lanes", lanes)):
        if value < 1:
            fail(call, f"{name} {value} must be at least 1")
    if len(attrs["offsets"]) != 3:
        fail(call, f"offsets {attrs['offsets']} must be three: of q, k and v")
    for n, (name, offset) in enumerate(zip(OPERANDS, attrs["offsets"])):
        info = need_rank(call, n, 3)
        width = info.shape[2]
        if isinstance(width, IntImm) and not 0 <= offset <= width.value - heads * size:
            fail(call, f"{heads} heads of {size} columns from column {offset} on are not inside {name} "
                       f"{shape_text(info)}, whose rows have {width.value}")
    q, k, v = infos[:3]
    if not (same_dim(q.shape[0], k.shape[0]) and same_shape(k.shape[:2], v.shape[:2])):
        fail(call, f"q {shape_text(q)}, k {shape_text(k)} and v {shape_text(v)} must have the same batch (dim 0), "
                   "and k and v as many keys (dim 1)")
    scores = (q.shape[0], const(heads, "int64"), q.shape[1], k.shape[1])
    if len(infos) == 4:
        _check_mask(call, tensor(call, 3), scores)
    return TensorStructInfo((*q.shape[:2], heads * size), q.dtype)


def _check_mask(call, mask, scores):
    try:
        fits = same_shape(broadcast_shapes(call, mask.shape, scores), scores)
    except InferError:
        fits = False
    if not fits:
        fail(call, f"mask {shape_text(mask)} does not broadcast to the scores ({', '.join(map(dim_text, scores))})")


def _lower(args, attrs, out):
    known = all(isinstance(n, IntImm) for n in (*out.shape[1:], args[1].shape[1]))
    if not known or args[1].shape[1].value > MOST_KEYS:
        return lower_blocks(args, attrs, out, LEAST)
    q, k, v, *mask = args
    heads, size, lanes = attrs["heads"], attrs["head_size"], attrs["lanes"]
    acc, keys = sum_dtype(q.dtype), k.shape[1]
    batch, queries, _ = te_shape(out)
    of_q, of_k, of_v = (lambda h, d, offset=offset: h * size + d + offset for offset in attrs["offsets"])
    rows = (batch, heads, queries)

    def key(b, h, to, d, ti):
        t = to * lanes + ti
        return intrin.if_then_else(t < keys, k[b, t, of_k(h, d)].astype(acc), const(0, acc))

    packed = te.compute((batch, heads, (keys + lanes - 1) // lanes, size, lanes), key, name="attention_keys")
    n = te.reduce_axis((0, size), "n")
    scores = te.compute(
        (*rows, packed.shape[2], lanes),
        lambda b, h, s, to, ti: te.sum(q[b, s, of_q(h, n.var)].astype(acc) * packed[b, h, to, n.var, ti], n),
        name="attention_scores")

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
        (*rows, size), lambda b, h, s, d: te.sum(exp[b, h, s, u.var] * v[b, u.var, of_v(h, d)].astype(acc), u),
        name="attention_values")
    result = te.compute((batch, queries, heads * size),
                        lambda b, s, c: values[b, c // size, s, c % size] * scale[b, c // size, s], name="attention")
    return narrow(result, out.dtype)


def _evaluate(args, attrs):
    q, k, v, *mask = (widen_array(a) for a in args)
    heads, size = attrs["heads"], attrs["head_size"]

    def split(x, offset):
        return x[:, :, offset:offset + heads * size].reshape(*x.shape[:2], heads, size).transpose(0, 2, 1, 3)

    q, k, v = (split(x, offset) for x, offset in zip((q, k, v), attrs["offsets"]))
    scores = q @ k.swapaxes(2, 3) * q.dtype.type(attrs["scale"])
    scores = scores + mask[0] if mask else scores
    exp = np.exp(scores - scores.max(axis=3, keepdims=True))
    result = (exp / exp.sum(axis=3, keepdims=True)) @ v
    return result.transpose(0, 2, 1, 3).reshape(len(q), q.shape[2], -1).astype(args[0].dtype, copy=False)


register("nn.attention", _infer, _lower, _evaluate, "opaque", (3, 4), heads=REQUIRED, head_size=REQUIRED,
         offsets=(0, 0, 0), scale=1.0, lanes=16)
