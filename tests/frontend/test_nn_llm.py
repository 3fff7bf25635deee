"""relax.frontend.nn.llm: a decoder with a paged cache, exported, built and run step by step, is what numpy computes."""
from functools import lru_cache

import numpy as np
import pytest
from dense_attention import after, attention, rotated
from value_target import small_target

import ingot as tvm
from ingot import relax
from ingot.relax.frontend import nn
from ingot.relax.frontend.nn import spec
from ingot.relax.frontend.nn.llm import kv_cache, position_embedding
from ingot.relax.frontend.nn.llm.kv_cache import FlashInferPagedKVCache, PagedKVCache, RopeMode, TIRPagedKVCache
from ingot.runtime import ShapeTuple

WIDTH, HEADS, KV, D, LAYERS, SCALE = 16, 4, 2, 8, 2, 8 ** -0.5
CONFIG = ("max_batch_size", "max_total_seq_len", "prefill_chunk_size", "page_size", "support_sliding_window")


class Layer(nn.Module):
    def __init__(self, number):
        self.number = number
        self.qkv, self.out = nn.Linear(WIDTH, (HEADS + 2 * KV) * D, bias=False), nn.Linear(HEADS * D, WIDTH, bias=False)

    def forward(self, x, cache):
        batch, seq, _ = x.shape
        qkv = self.qkv(x).reshape(batch, seq, HEADS + 2 * KV, D)
        out = cache.attention_with_fused_qkv(self.number, qkv, HEADS, SCALE)
        return x + self.out(out.reshape(batch, seq, HEADS * D))


class Decoder(nn.Module):
    def __init__(self):
        self.layers = nn.ModuleList([Layer(n) for n in range(LAYERS)])

    def prefill(self, x, cache):
        for layer in self.layers:
            x = layer(x, cache)
        return x, cache

    def decode(self, x, cache):
        return self.prefill(x, cache)

    def positions(self, total, cache):
        return cache.get_query_positions(total)

    def in_parts(self, q, k, v, cache):
        own = cache.self_attention(1, q, k, v, SCALE)
        return cache.merge_attn_output_inplace(*own, *cache.cross_attention(1, q, D, SCALE))

    def create(self, max_batch_size, max_total_seq_len, prefill_chunk_size, page_size, support_sliding_window):
        return cache_of(**dict(zip(CONFIG, (max_batch_size, max_total_seq_len, prefill_chunk_size, page_size,
                                            support_sliding_window))))


def cache_of(kind="mha", rope=RopeMode.NORMAL, v_size=D, target="llvm", rotary=D, **config):
    return TIRPagedKVCache(
        kind, *(config[name] for name in CONFIG), relax.ShapeExpr([0, LAYERS]), LAYERS, HEADS, KV, D, v_size, 0, 0, rope, 1,
        10000, {}, relax.PrimValue(0), rotary, False, "float32", tvm.target.Target(target))


@lru_cache(maxsize=1)
def decoder():
    """(the machine, weights) of a Decoder."""
    cache, own = spec.Object(object_type=PagedKVCache), {"param_mode": "packed", "effect_mode": "none"}
    rows = [spec.Tensor((1, "s", n, D), "float32") for n in (HEADS, KV, KV)]
    mod, params = Decoder().export_tvm({
        "prefill": {"x": spec.Tensor((1, "s", WIDTH), "float32"), "cache": cache, "$": own},
        "decode": {"x": spec.Tensor(("b", 1, WIDTH), "float32"), "cache": cache, "$": own},
        "positions": {"total": int, "cache": cache, "$": {**own, "param_mode": "none"}},
        "in_parts": {**dict(zip("qkv", rows)), "cache": cache, "$": {**own, "param_mode": "none"}},
        "create": {**dict.fromkeys(CONFIG, int), "$": {**own, "param_mode": "none"}}})
    rng = np.random.default_rng(0)
    return relax.VirtualMachine(relax.build(mod, small_target()), tvm.cpu()), [
        (rng.standard_normal(p.shape) * 0.3).astype("float32") for _, p in params]


class Text:
    """What a Decoder computes for one text, in numpy: keys and values of all layers, rotated as the cache has them."""

    def __init__(self, weights, k=(), v=()):
        self.weights, self.k, self.v = weights, list(k) or [np.zeros((0, KV, D))] * LAYERS, list(v) or [
            np.zeros((0, KV, D))] * LAYERS

    def fork(self, rows):
        return Text(self.weights, [k[:rows] for k in self.k], [v[:rows] for v in self.v])

    def step(self, x):
        """Of embeddings [tokens, WIDTH], what comes out."""
        for n in range(LAYERS):
            first, total = len(self.k[n]), len(self.k[n]) + len(x)
            qkv = (x @ self.weights[2 * n].T).reshape(len(x), -1, D)
            turned = rotated(qkv[:, :HEADS + KV], np.arange(first, total))
            self.k[n] = np.concatenate([self.k[n], turned[:, HEADS:]])
            self.v[n] = np.concatenate([self.v[n], qkv[:, HEADS + KV:]])
            out, _ = attention(turned[:, :HEADS], self.k[n], self.v[n], after(len(x), total), SCALE)
            x = x + out.reshape(len(x), -1) @ self.weights[2 * n + 1].T
        return x


def state(name, *args):
    return tvm.get_global_func(f"vm.builtin.kv_state_{name}")(*args)


def test_a_decoder_goes_step_by_step():
    vm, weights = decoder()
    cache = vm["create"](*(ShapeTuple([n]) for n in (4, 64, 32, 4, 0)))
    rng, given, texts = np.random.default_rng(1), tuple(map(tvm.nd.array, weights)), {}

    def run(name, lengths):
        """A step of {text: tokens} by method `name`, and what numpy says."""
        x = {t: rng.standard_normal((n, WIDTH)).astype("float32") for t, n in lengths.items()}
        state("begin_forward", cache, ShapeTuple(lengths), ShapeTuple(lengths.values()))
        rows = np.concatenate(list(x.values()))
        out, back = vm[name](tvm.nd.array(rows[None] if name == "prefill" else rows[:, None]), cache, given)
        where = vm["positions"](ShapeTuple([len(rows)]), cache).numpy().tolist()
        assert where == [len(texts[t].k[0]) + k for t, n in lengths.items() for k in range(n)] and back is cache
        state("end_forward", cache)
        expected = np.concatenate([texts[t].step(x[t]) for t in lengths])
        assert np.abs(out.numpy().reshape(expected.shape) - expected).max() < 1e-5

    for t in (0, 1):
        state("add_sequence", cache, t)
        texts[t] = Text(weights)
    run("prefill", {0: 5, 1: 3})
    run("decode", {0: 1, 1: 1})
    state("fork_sequence", cache, 0, 2, 3)  # in the middle of a page
    texts[2] = texts[0].fork(3)
    run("decode", {1: 1, 2: 1, 0: 1})
    state("popn", cache, 0, 4)
    texts[0] = texts[0].fork(3)
    run("prefill", {2: 4, 0: 2})
    state("remove_sequence", cache, 1)
    run("decode", {0: 1, 2: 1})
    parts = vm.executable  # what lies between the calls of the cache is compiled, not interpreted
    assert {"prefill_segment", "decode_segment"} <= set(parts.segments) and not parts.refused


def test_attention_of_a_method_may_go_in_parts():
    vm, weights = decoder()
    cache = vm["create"](*(ShapeTuple([n]) for n in (2, 32, 16, 4, 0)))
    state("add_sequence", cache, 3)
    state("begin_forward", cache, ShapeTuple([3]), ShapeTuple([4]))
    rng = np.random.default_rng(2)
    text = Text(weights)
    x = rng.standard_normal((4, WIDTH)).astype("float32")
    vm["prefill"](tvm.nd.array(x[None]), cache, tuple(map(tvm.nd.array, weights)))
    text.step(x)
    state("begin_forward", cache, ShapeTuple([3]), ShapeTuple([3]))
    q, k, v = (rng.standard_normal((3, n, D)).astype("float32") for n in (HEADS, KV, KV))
    found = vm["in_parts"](*(tvm.nd.array(a[None]) for a in (q, k, v)), cache)
    expected = attention(q, *(np.concatenate([old[1], new]) for old, new in ((text.k, k), (text.v, v))), after(3, 7), SCALE)
    for out, wanted in zip(found, expected):
        assert np.abs(out.numpy()[0] - wanted).max() < 1e-5


# ---------------------------------------------------------------- rotary positions

def _llama3(f):
    smooth = np.clip((64 * f / (2 * np.pi) - 1) / (4 - 1), 0, 1)
    return (1 - smooth) * f / 8 + smooth * f


def _yarn(f):
    low, high = (D * np.log(64 / (n * 2 * np.pi)) / (2 * np.log(1e4)) for n in (4, 1))
    low, high = max(np.floor(low), 0), min(np.ceil(high), D - 1)
    slow = np.clip((np.arange(D // 2) - low) / (high - low), 0, 1)
    return f / 4 * slow + f * (1 - slow)


FACTORS = np.array([1, 2, 3, 4], "float32")
KINDS = {  # kind -> (rope_scaling, frequencies of those of the default, scale of the waves)
    "default": ({}, lambda f: f, 1), "gptj": ({"rope_type": "gptj"}, lambda f: f, 1),
    "llama3": ({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64}, _llama3, 1),
    "yarn": ({"rope_type": "yarn", "factor": 4.0, "beta_fast": 4, "beta_slow": 1, "original_max_position_embeddings": 64},
             _yarn, 1),
    "longrope": ({"rope_type": "longrope", "max_position_embeddings": 256, "original_max_position_embeddings": 64},
                 lambda f: f / FACTORS, np.sqrt(1 + np.log(4) / np.log(64)))}


@pytest.mark.parametrize("kind", KINDS)
def test_positions_are_rotated_by_each_kind_of_angles(kind):
    scaling, frequencies, scale = KINDS[kind]
    kernel = position_embedding.llama_rope_with_position_map(1e4, 0.5, D, 2, 1, "float32", scaling)
    x, where = np.random.default_rng(0).random((3, 4, D), "float32"), np.array([0, 77, 5], "int32")
    q, k, v = (tvm.nd.empty((3, n, D), "float32") for n in (2, 1, 1))
    built = tvm.build(kernel, target=small_target())
    built(*map(tvm.nd.array, (x, where)), q, k, v, tvm.nd.array(FACTORS) if kind == "longrope" else 1)
    angles = np.outer(where * 0.5, frequencies(1e4 ** (-np.arange(0, D, 2) / D)))[:, None]
    pairs = x.reshape(3, 4, -1, 2) if kind == "gptj" else np.stack([x[..., :D // 2], x[..., D // 2:]], -1)
    a, b = pairs[..., 0], pairs[..., 1]
    turned = np.stack([a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], -1) * scale
    expected = turned.reshape(x.shape) if kind == "gptj" else np.concatenate([turned[..., 0], turned[..., 1]], -1)
    assert np.abs(q.numpy() - expected[:, :2]).max() < 1e-5 and np.abs(k.numpy() - expected[:, 2:3]).max() < 1e-5
    assert np.array_equal(v.numpy(), x[:, 3:])
    if kind != "longrope":
        built(*map(tvm.nd.array, (x, where)), q, k, v, 0)
        assert np.array_equal(q.numpy(), x[:, :2])


def test_llama_rope_rotates_the_first_columns_of_the_last_positions():
    class Rotated(nn.Module):
        def forward(self, qkv, total):
            return position_embedding.llama_rope(qkv, total, 1e4, 1.0, 2, 1, {}, rotary_dim=4)

    given = {"qkv": spec.Tensor((2, "s", 4, D), "float32"), "total": int}
    mod, _ = Rotated().export_tvm({"forward": given})
    x = np.random.default_rng(0).random((2, 3, 4, D), "float32")
    q, k, v = relax.VirtualMachine(relax.build(mod, small_target()), tvm.cpu())["forward"](
        tvm.nd.array(x), ShapeTuple([9]))
    expected = x.copy()
    expected[..., :3, :4] = [rotated(row[:, :3, :4], [6, 7, 8]) for row in x]
    assert np.abs(np.concatenate([q.numpy(), k.numpy(), v.numpy()], 2) - expected).max() < 1e-5


@pytest.mark.parametrize("given, error, words", [
    ({"kind": "mla"}, NotImplementedError, "attn_kind 'mla'"), ({"target": "cuda"}, NotImplementedError, "target cuda"),
    ({"v_size": 4}, NotImplementedError, "keys of 8 and values of 4 columns"),
    ({"rope": RopeMode.INLINE, "rotary": 4}, ValueError, "use RopeMode.NORMAL")])
def test_caches_that_are_not_there_say_so(given, error, words):
    with pytest.raises(error, match=words):
        cache_of(**given, **dict.fromkeys(CONFIG, 1))


def test_kernels_of_a_target_are_the_cpus_or_not_there():
    llvm, cuda = map(tvm.target.Target, ("llvm", "cuda"))
    assert tvm.target.Target.from_device(tvm.cpu()) == tvm.target.Target.from_device("llvm") == llvm
    pairs = [(kv_cache._attention_decode(KV, HEADS, D, "float32", True, {}, llvm, 4),
              kv_cache._attention_decode_cpu(KV, HEADS, D, "float32", True, {}, 4)),
             (kv_cache._compact_kv_copy(KV, D, "float32", target=llvm, page_size=4),
              kv_cache._compact_kv_copy_cpu(KV, D, "float32", 4)),
             (kv_cache._merge_state_inplace(HEADS, D, "float32", llvm, "merge").without_attr("global_symbol"),
              kv_cache._merge_state_inplace_cpu("float32").without_attr("global_symbol"))]
    assert all(tvm.ir.structural_equal(a, b) for a, b in pairs)
    with pytest.raises(NotImplementedError, match="tree_attn has no kernel for target cuda"):
        kv_cache.tree_attn(KV, HEADS, D, "float32", {}, cuda)


def test_what_is_not_there_says_so():
    with pytest.raises(NotImplementedError, match="TIRPagedKVCache"):
        FlashInferPagedKVCache("mha")
    for scaling, words in (({"rope_type": "su"}, "Unsupported RoPE scaling type: su"),
                           ({"rope_type": "yarn"}, "needs original_max_position_embeddings, factor, beta_fast, beta_slow")):
        with pytest.raises(ValueError, match=words):
            position_embedding.switch_rope_freq_func(scaling)
