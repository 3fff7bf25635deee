"""Attention found in graphs as frameworks export it: what becomes nn.attention, with the same results, and what not."""
from functools import partial

import numpy as np
import pytest
from graph_check import Graph, check, close, const, data, ops, param

from ingot.ir.expr import Var
from ingot.ir.relax import Constant, TupleGetItem
from ingot.ir.transform.fuse_attention import fuse_attention
from ingot.ir.transform.identities import remove_identities

S, H, D = 6, 2, 4
W = H * D


def number(value):
    return Constant(np.array(value, np.float32), "number")


def heads(g, x, axes, size=D):
    return g.op("permute_dims", g.op("reshape", x, [1, x.struct_info.shape[1], H, size]), axes=axes)


def attend(g, q, k, v, before=1.0, after=1.0, mask=None, axis=-1, back=True):
    """The operators of an attention on [B, H, S, D], [B, H, D, S] and [B, H, S, D]."""
    if before != 1:
        q, k = g.op("multiply", q, number(before)), g.op("multiply", k, number(before))
    scores = g.op("matmul", q, k)
    if after != 1:
        scores = g.op("divide", scores, number(after))
    if mask is not None:
        scores = g.op("add", scores, mask)
    out = g.op("matmul", g.op("nn.softmax", scores, axis=axis), v)
    if not back:
        return out
    return g.op("reshape", g.op("permute_dims", out, axes=(0, 2, 1, 3)), [1, S, W])


def projected(g, x, seed, bias=True):
    y = g.op("matmul", x, const(W, W, seed=seed))
    return g.op("add", y, const(W, seed=seed + 1)) if bias else y


def bert(g, x, bias=True, **options):
    q, k, v = (projected(g, x, seed, bias) for seed in (1, 3, 5))
    return attend(g, heads(g, q, (0, 2, 1, 3)), heads(g, k, (0, 2, 3, 1)), heads(g, v, (0, 2, 1, 3)), **options)


def gpt2(g, x, mask):
    flat = g.op("add", g.op("matmul", g.op("reshape", x, [S, W]), const(W, 3 * W)), const(3 * W))
    parts = g.op("split", g.op("reshape", flat, [1, S, 3 * W]), sections=(W, W, W), axis=2)
    q, k, v = (g.bind(TupleGetItem(parts, n)) for n in range(3))
    return attend(g, heads(g, q, (0, 2, 1, 3)), heads(g, k, (0, 2, 3, 1)), heads(g, v, (0, 2, 1, 3)), after=2.0,
                  mask=mask)


def fused(mod):
    return fuse_attention(remove_identities(mod), 4)


FUSED = [fused]


def attentions(mod):
    return [b.value for b in mod["main"].bindings if getattr(b.value, "op", None) == "nn.attention"]


@pytest.mark.parametrize("options, scale", [({}, 1.0), ({"after": 8.0}, 0.125), ({"before": 0.5}, 0.25)])
@pytest.mark.parametrize("bias", [True, False])
def test_three_projections_become_one_product(options, scale, bias):
    x = param("x", 1, S, W)
    g = Graph(x)
    mod = g.module(bert(g, x, bias, **options))
    new = check(mod, data(1, S, W), passes=FUSED)
    assert ops(new)[:3] == ["matmul", "add", "nn.attention"] and set(ops(new)[3:]) == {"reshape"}
    call, = attentions(new)
    assert call.attrs["scale"] == scale and call.attrs["offsets"] == (0, W, 2 * W)
    assert (call.attrs["heads"], call.attrs["head_size"], call.attrs["lanes"]) == (H, D, 4)


def test_parts_of_a_product_are_read_where_they_are():
    x, mask = param("x", 1, S, W), param("mask", 1, 1, S, S)
    g = Graph(x, mask)
    new = check(g.module(gpt2(g, x, mask)), data(1, S, W), data(1, 1, S, S, seed=1), passes=FUSED)
    assert "split" not in ops(new) and "permute_dims" not in ops(new)
    call, = attentions(new)
    assert call.attrs["offsets"] == (0, W, 2 * W) and call.attrs["scale"] == 0.5 and len(call.args) == 4


@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("value, found", [(-np.inf, True), (np.finfo(np.float32).min, True), (-1e4, False)])
@pytest.mark.parametrize("constant", [False, True])
def test_masks_that_choose(hides, value, found, constant):
    """Causal masks as where(mask, scores, -inf), which two layers share. A number next to which scores count is
    none."""
    x = param("x", 1, S, W)
    causal = np.tril(np.ones((1, 1, S, S), bool)) ^ hides
    given = param("mask", 1, 1, S, S, dtype="bool")
    g = Graph(x, given)
    mask, y = Constant(causal, "causal") if constant else given, x
    for seed in (0, 10):
        q, k, v = (projected(g, y, seed + n) for n in (1, 3, 5))
        scores = g.op("multiply", g.op("matmul", heads(g, q, (0, 2, 1, 3)), heads(g, k, (0, 2, 3, 1))), number(0.5))
        sides = [scores, number(value)]
        masked = g.op("where", mask, *(sides[::-1] if hides else sides))
        out = g.op("matmul", g.op("nn.softmax", masked, axis=-1), heads(g, v, (0, 2, 1, 3)))
        y = g.op("reshape", g.op("permute_dims", out, axes=(0, 2, 1, 3)), [1, S, W])
    new = check(g.module(y), data(1, S, W), causal, passes=FUSED)
    assert len(attentions(new)) == (2 if found else 0)
    assert ops(new).count("where") == (0 if found and constant else 1 if found else 2)


def test_operands_of_other_lengths():
    q, k, v = param("q", 1, S, W), param("k", 1, 5, W), param("v", 1, 5, W)
    g = Graph(q, k, v)
    mod = g.module(attend(g, heads(g, q, (0, 2, 1, 3)), heads(g, k, (0, 2, 3, 1)), heads(g, v, (0, 2, 1, 3))))
    new = check(mod, data(1, S, W), data(1, 5, W, seed=1), data(1, 5, W, seed=2), passes=FUSED)
    assert ops(new)[0] == "nn.attention"


def test_masks_that_repeat_the_scores_are_left_alone():
    """A mask of several batches next to one batch of scores."""
    x, mask = param("x", 1, S, W), param("mask", 3, 1, S, S)
    g = Graph(x, mask)
    q, k, v = (heads(g, projected(g, x, seed), axes) for seed, axes in ((1, (0, 2, 1, 3)), (3, (0, 2, 3, 1)),
                                                                        (5, (0, 2, 1, 3))))
    scores = g.op("add", g.op("matmul", q, k), mask)
    out = g.op("matmul", g.op("nn.softmax", scores, axis=-1), v)
    mod = g.module(g.op("permute_dims", out, axes=(0, 2, 1, 3)))
    assert not attentions(check(mod, data(1, S, W), data(3, 1, S, S), passes=FUSED))


def test_a_projection_that_is_used_otherwise_stays():
    x = param("x", 1, S, W)
    g = Graph(x)
    q, k, v = (projected(g, x, seed) for seed in (1, 3, 5))
    keys = heads(g, k, (0, 2, 3, 1))
    mod = g.module(attend(g, heads(g, q, (0, 2, 1, 3)), keys, heads(g, v, (0, 2, 1, 3))), keys)
    new = check(mod, data(1, S, W), passes=FUSED)
    assert ops(new).count("matmul") == 3 and len(attentions(new)) == 1


def _axis(g, x):
    return bert(g, x, axis=2)


def _constant_keys(g, x):
    q, v = (projected(g, x, seed) for seed in (1, 5))
    return attend(g, heads(g, q, (0, 2, 1, 3)), const(1, H, D, S), heads(g, v, (0, 2, 1, 3)))


def test_heads_that_stay_apart():
    """The result [B, H, S, D] is written so."""
    x = param("x", 1, S, W)
    g = Graph(x)
    new = check(g.module(bert(g, x, back=False)), data(1, S, W), passes=FUSED)
    call, = attentions(new)
    assert call.attrs["by_head"] and "permute_dims" not in ops(new)


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("back", [False, True])
def test_heads_of_keys_for_several_of_queries(expanded, back):
    """Keys and values [B, G, T, D], as caches are, are read as they are, not repeated."""
    q, k, v = param("q", 1, S, W), param("k", 1, 1, 5, D), param("v", 1, 1, 5, D)
    g = Graph(q, k, v)

    def repeated(x):
        if not expanded:
            return g.op("repeat", x, repeats=H, axis=1)
        wide = g.op("broadcast_to", g.op("reshape", x, [1, 1, 1, 5, D]), [1, 1, H, 5, D])
        return g.op("reshape", wide, [1, H, 5, D])

    scores = g.op("matmul", heads(g, q, (0, 2, 1, 3)), g.op("permute_dims", repeated(k), axes=(0, 1, 3, 2)))
    out = g.op("matmul", g.op("nn.softmax", scores, axis=-1), repeated(v))
    new = check(g.module(g.op("permute_dims", out, axes=(0, 2, 1, 3)) if back else out), data(1, S, W),
                data(1, 1, 5, D, seed=1), data(1, 1, 5, D, seed=2), passes=FUSED)
    call, = attentions(new)
    assert call.attrs["kv_heads"] == 1 and call.attrs["by_head"] is not back
    assert [a.name for a in call.args[1:3]] == ["k", "v"]
    assert not {"repeat", "broadcast_to", "permute_dims"} & set(ops(new))


def test_queries_without_keys_give_zeros():
    """A choice between 0 and the softmax, of rows, is one of the result; a choice inside a sum is a mask."""
    x, mask, none = param("x", 1, S, W), param("mask", S, S), param("none", S, 1, dtype="bool")
    seen = param("seen", 1, 1, S, S, dtype="bool")
    g = Graph(x, mask, none, seen)
    q, k, v = (heads(g, projected(g, x, seed), axes) for seed, axes in ((1, (0, 2, 1, 3)), (3, (0, 2, 3, 1)),
                                                                        (5, (0, 2, 1, 3))))
    scores = g.op("add", g.op("where", seen, g.op("matmul", q, k), number(-1e38)), mask)
    weights = g.op("where", none, number(0.0), g.op("nn.softmax", scores, axis=-1))
    new = check(g.module(g.op("matmul", weights, v)), data(1, S, W), data(S, S, seed=1), np.arange(S)[:, None] == 2,
                np.tril(np.ones((1, 1, S, S), bool)), passes=FUSED)
    assert len(attentions(new)) == 1 and "nn.softmax" not in ops(new)


@pytest.mark.parametrize("build, lanes", [(_axis, 4), (_constant_keys, 4), (bert, 8), (bert, 1)])
def test_what_is_left_alone(build, lanes):
    """Softmax over queries, keys that are no projection, heads of less than a vector, no
    lanes."""
    x = param("x", 1, S, W)
    g = Graph(x)
    mod = remove_identities(g.module(build(g, x)))
    assert not attentions(fuse_attention(mod, lanes))


@pytest.mark.parametrize("several", [False, True])
def test_unknown_lengths(several):
    """The length of the sequence or of the batch is unknown; queries and keys come from one value, or from two."""
    b, n, t = (Var(name, "int64") for name in "bnt")
    x, y = param("x", b, n, W), param("y", b, t, W)
    g = Graph(x, y)
    values = [(x, n), (y, t), (y, t)] if several else [(x, n)] * 3
    q, k, v = (projected(g, value, seed) for (value, _), seed in zip(values, (1, 3, 5)))
    q, k, v = (g.op("permute_dims", g.op("reshape", p, [b, length, H, D]), axes=a)
               for p, (_, length), a in zip((q, k, v), values, ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))))
    out = g.op("matmul", g.op("nn.softmax", g.op("matmul", q, k), axis=-1), v)
    mod = g.module(g.op("permute_dims", out, axes=(0, 2, 1, 3)))
    new = check(mod, data(2, 7, W), data(2, 5, W, seed=1), passes=FUSED)
    assert len(attentions(new)) == 1 and ops(new).count("matmul") == (3 if several else 1)


# ---------------------------------------------------------------- numbers of 16 bits

THREADED = [lambda mod: fuse_attention(remove_identities(mod), 4, 8)]


def half(g, x, dtype="float16"):
    return g.op("astype", x, dtype=dtype)


@pytest.mark.parametrize("dtype, near", [("float16", 2e-3), ("bfloat16", 2e-2)])
@pytest.mark.parametrize("wide", [True, False], ids=["softmax of float32", "softmax of 16 bits"])
def test_casts_around_softmax(dtype, near, wide):
    """What mixed precision leaves: products of 16 bits, and between them casts to float32 and back. Processors keep
    the parts."""
    x, mask = param("x", 1, S, W), param("mask", 1, 1, S, S)
    g = Graph(x, mask)
    q, k, v = (half(g, projected(g, x, seed), dtype) for seed in (1, 3, 5))
    scores = g.op("matmul", heads(g, q, (0, 2, 1, 3)), heads(g, k, (0, 2, 3, 1)))
    scores = g.op("divide", half(g, scores, "float32"), number(2.0))
    scores = g.op("add", scores, mask) if wide else g.op("add", half(g, scores, dtype), half(g, mask, dtype))
    out = g.op("matmul", half(g, g.op("nn.softmax", scores, axis=-1), dtype), heads(g, v, (0, 2, 1, 3)))
    mod = g.module(half(g, g.op("reshape", g.op("permute_dims", out, axes=(0, 2, 1, 3)), [1, S, W]), "float32"))
    new = check(mod, data(1, S, W), data(1, 1, S, S, seed=1), passes=THREADED, compare=partial(close, tolerance=near))
    call, = attentions(new)
    assert str(call.struct_info.dtype) == dtype and call.attrs["scale"] == 0.5
    assert str(call.args[3].struct_info.dtype) == "float32"
    assert not attentions(fused(mod))


def test_masks_of_16_bits_hide_as_wide_ones_do():
    """-1e38 becomes -65504 in float16, next to which scores of float32 would count."""
    masks = []
    for chosen in (False, True):
        q, k, v = (param(n, 1, H, S, D, dtype="float16") for n in "qkv")
        g = Graph(q, k, v)
        seen = np.tril(np.ones((1, 1, S, S), bool))
        low = np.float16(-65504)
        scores = g.op("matmul", q, g.op("permute_dims", k, axes=(0, 1, 3, 2)))
        if chosen:
            scores = g.op("where", Constant(seen, "seen"), scores, Constant(np.array(low), "low"))
        else:
            scores = g.op("add", scores, Constant(np.where(seen, np.float16(0), low), "mask"))
        mod = g.module(g.op("matmul", g.op("nn.softmax", scores, axis=-1), v))
        arrays = [data(1, H, S, D, seed=n).astype(np.float16) for n in range(3)]
        call, = attentions(check(mod, *arrays, passes=THREADED, compare=partial(close, tolerance=2e-3)))
        masks.append(call.args[3].data)
    for mask in masks:
        assert mask.dtype == np.float32
        np.testing.assert_array_equal(mask, np.where(seen, 0, np.float32(-1e30)))
