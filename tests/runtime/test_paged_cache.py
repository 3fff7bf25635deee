"""vm.builtin.paged_attention_kv_cache_create and what goes with it, with the kernels of frontend/nn/llm, against numpy."""
from functools import lru_cache

import numpy as np
import pytest
from dense_attention import after, attention, rotated
from value_target import small_target

import ingot as tvm
from ingot.relax.frontend.nn.llm import kv_cache
from ingot.relax.frontend.nn.llm.kv_cache import AttnKind, RopeMode
from ingot.runtime import ShapeTuple

HEADS, KV, D, PAGE, LAYERS, SCALE = 4, 2, 8, 4, 2, 0.3


def builtin(name):
    return tvm.get_global_func(f"vm.builtin.{name}")


@lru_cache(maxsize=2)
def kernels(dtype):
    """The functions that caches of a dtype are created with, by name; one library."""
    make = {
        "append": kv_cache._kv_cache_transpose_append(KV, D, dtype, PAGE),
        "ragged": kv_cache._attention_prefill_ragged_cpu(KV, HEADS, D, D, dtype, {}),
        "prefill": kv_cache._attention_prefill_cpu(KV, HEADS, D, dtype, False, {}, PAGE),
        "decode": kv_cache._attention_decode_cpu(KV, HEADS, D, dtype, False, {}, None),  # any size of pages
        "prefill_window": kv_cache._attention_prefill_cpu(KV, HEADS, D, dtype, True, {}, PAGE),
        "decode_window": kv_cache._attention_decode_cpu(KV, HEADS, D, dtype, True, {}, PAGE),
        "tree_pages": kv_cache.tree_attn_with_paged_kv_cache_cpu(KV, HEADS, D, dtype, {}, PAGE),
        "tree": kv_cache.tree_attn_cpu(KV, HEADS, D, dtype, {}), "merge": kv_cache._merge_state_inplace_cpu(dtype),
        "split": kv_cache.llama_rope_with_position_map(1e4, 1.0, D, HEADS, KV, dtype, {}),
        "copy_page": kv_cache._copy_single_page_cpu(KV, PAGE, D, dtype),
        "read": kv_cache._kv_cache_debug_get_kv(LAYERS, KV, D, dtype),
        "compact": kv_cache._compact_kv_copy_cpu(KV, D, dtype, PAGE)}
    built = tvm.build(tvm.IRModule({n: f.with_attr("global_symbol", n) for n, f in make.items()}), target=small_target())
    return {name: built[name] for name in make}


def create(dtype="float32", rope=RopeMode.NORMAL, windows=False, rows=200, kinds=(0, 0), ext_factors=None, **other):
    f = {**kernels(dtype), **other}
    tir = {name: ["tir", f[name]] if f[name] else [] for name in f}
    return builtin("paged_attention_kv_cache_create")(
        ShapeTuple([8, rows, 64, PAGE, int(windows)]), ShapeTuple([0, LAYERS]), HEADS, KV, D, D, ShapeTuple(kinds), False,
        rope, 1.0, 1e4, ext_factors, tvm.nd.empty((), dtype), f["append"], None, tir["ragged"], tir["prefill"], tir["decode"],
        tir["prefill_window"], tir["decode_window"], tir["tree_pages"], tir["tree"], [], [f["merge"]], f["split"],
        f["copy_page"], f["read"], f["compact"])


class Texts:
    """A cache beside the keys and values of its sequences, [layers, rows, kv heads, columns], as they were given."""

    def __init__(self, dtype="float32", rope=RopeMode.NORMAL, **given):
        self.cache, self.dtype, self.rope = create(dtype, rope, **given), dtype, rope
        self.k, self.v, self.windows = {}, {}, {}
        self.rng, self.close = np.random.default_rng(0), 1e-5 if dtype == "float32" else 4e-3

    def call(self, name, *args):
        return builtin(name)(self.cache, *args)

    def add(self, *names):
        for name in names:
            self.call("kv_state_add_sequence", name)
            self.k[name], self.v[name] = (np.zeros((LAYERS, 0, KV, D), self.dtype) for _ in range(2))

    def fork(self, parent, child, position):
        self.call("kv_state_fork_sequence", parent, child, position)
        until = slice(None if position == -1 else position)
        self.k[child], self.v[child] = self.k[parent][:, until], self.v[parent][:, until]

    def pop(self, name, count):
        self.call("kv_state_popn", name, count)
        self.k[name], self.v[name] = (a[name][:, :a[name].shape[1] - count] for a in (self.k, self.v))

    def turned(self, x, positions, mode):
        return rotated(x.astype("float32"), positions) if self.rope in mode else x.astype("float32")

    def step(self, lengths, parents=None):
        """A step of {sequence: tokens}; parents: {sequence: all nodes of its tree}."""
        names, trees = list(lengths), parents or {}
        flat = [p for n in names for p in trees[n][-lengths[n]:]] if parents else None
        self.call("kv_state_begin_forward", ShapeTuple(names), ShapeTuple(lengths.values()),
                  *([] if flat is None else [ShapeTuple(flat)]))
        new = {n: self.rng.standard_normal((LAYERS, lengths[n], HEADS + 2 * KV, D)).astype(self.dtype) for n in names}
        positions, expected = {}, {n: [] for n in names}
        for n in names:
            depths = []
            for parent in trees.get(n, ()):
                depths.append(0 if parent == -1 else depths[parent] + 1)
            old = self.k[n].shape[1] - max(len(depths) - lengths[n], 0)
            positions[n] = [*range(old), *(old + d for d in depths)] if depths else range(old + lengths[n])
            self.k[n], self.v[n] = (np.concatenate([a[n], x], 1) for a, x in (
                (self.k, new[n][:, :, HEADS:HEADS + KV]), (self.v, new[n][:, :, HEADS + KV:])))
        assert self.call("attention_kv_cache_get_query_positions").numpy().tolist() == [
            p for n in names for p in list(positions[n])[-lengths[n]:]]
        if self.rope == RopeMode.NORMAL:  # keys are kept as they are rotated
            for n in names:
                self.k[n][:, -lengths[n]:] = [rotated(k.astype("float32"), positions[n][-lengths[n]:])
                                              for k in self.k[n][:, -lengths[n]:]]
        for layer in range(LAYERS):
            out = tvm.nd.empty((sum(lengths.values()), HEADS, D), self.dtype)
            qkv = np.concatenate([new[n][layer] for n in names])
            self.call("attention_kv_cache_attention_with_fused_qkv", layer, SCALE, tvm.nd.array(qkv), out)
            expected = [self.dense(n, layer, new[n][layer, :, :HEADS], positions[n], trees.get(n)) for n in names]
            assert np.abs(out.numpy() - np.concatenate(expected)).max() < self.close
        self.call("kv_state_end_forward")
        for n in set(names) & set(self.windows):
            window, sinks = self.windows[n]
            if (slid := self.k[n].shape[1] - window) > 0:
                for a in (self.k, self.v):
                    a[n] = np.concatenate([a[n][:, :sinks], a[n][:, sinks + slid:]], 1)
        self.check(*names)

    def dense(self, name, layer, q, positions, tree):
        rows, cols = len(q), self.k[name].shape[1]
        sees = after(rows, cols)
        if tree:
            nodes = np.zeros((len(tree), len(tree)), bool)
            for node, parent in enumerate(tree):
                nodes[node] = nodes[parent] if parent != -1 else False
                nodes[node, node] = True
            sees[:, cols - len(tree):] = nodes[-rows:]
        both = (RopeMode.NORMAL, RopeMode.INLINE)
        return attention(self.turned(q, positions[-rows:], both),
                         self.turned(self.k[name][layer], range(cols), (RopeMode.INLINE,)),
                         self.v[name][layer].astype("float32"), sees, SCALE)[0]

    def check(self, *names):
        for n in names:
            rows = self.k[n].shape[1]
            k, v = (tvm.nd.empty((LAYERS, rows, KV, D), self.dtype) for _ in range(2))
            if rows:
                self.call("attention_kv_cache_debug_get_kv", n, 0, rows, k, v)
                assert np.abs(k.numpy() - self.k[n]).max() < self.close and np.array_equal(v.numpy(), self.v[n])

    def remove(self, *names):
        for n in names:
            self.call("kv_state_remove_sequence", n)
            del self.k[n], self.v[n]


@pytest.mark.parametrize("dtype, rope, windows", [
    ("float32", RopeMode.NORMAL, False), ("float16", RopeMode.INLINE, False), ("float32", RopeMode.INLINE, True),
    ("float32", RopeMode.NONE, False)])
def test_texts_are_prefilled_decoded_forked_and_shortened(dtype, rope, windows):
    texts = Texts(dtype, rope, windows=windows)
    texts.add(0, 1, 2)
    texts.step({0: 6, 2: 1, 1: 8})
    texts.step({1: 1, 0: 1})
    texts.fork(0, 3, 5)  # in the middle of a page, at its end, at the end of what is there
    texts.fork(1, 4, 8)
    texts.fork(1, 5, -1)
    texts.step({3: 1, 4: 1, 5: 1, 1: 1, 0: 1})
    texts.fork(5, 6, 0)
    texts.pop(1, 7)
    texts.pop(3, 6)
    texts.step({1: 9, 6: 2, 3: 1, 5: 1})
    texts.check(*texts.k)
    assert texts.call("attention_kv_cache_get_total_sequence_length") == sum(k.shape[1] for k in texts.k.values())
    texts.remove(0, 1, 5, 3)
    texts.step({4: 3, 2: 1})
    texts.check(*texts.k)
    texts.remove(2, 4, 6)
    assert texts.call("attention_kv_cache_empty")


@pytest.mark.parametrize("rope", [RopeMode.NONE, RopeMode.INLINE])
def test_windows_slide_and_keep_their_sinks(rope):
    texts = Texts("float32", rope, windows=True)
    texts.add(0, 1, 2, 3)
    texts.windows = {0: (10, 3), 1: (9, 0), 2: (6, 5)}
    for name, (window, sinks) in texts.windows.items():
        texts.call("attention_kv_cache_enable_sliding_window_for_seq", name, window, sinks)
    for lengths in ({0: 4, 1: 1}, {0: 20, 1: 8, 2: 7, 3: 2}, *[{0: 1, 1: 1, 2: 1, 3: 1}] * 9, {0: 3, 2: 2, 1: 5}):
        texts.step(lengths)
    texts.fork(0, 4, 2)
    texts.step({4: 5, 0: 1})
    texts.remove(*range(5))
    assert texts.call("attention_kv_cache_empty")


@pytest.mark.parametrize("rope", [RopeMode.NONE, RopeMode.NORMAL])
def test_tokens_may_be_trees_one_path_of_which_is_kept(rope):
    texts = Texts("float32", rope)
    texts.add(0, 1, 2)
    texts.step({0: 5, 1: 3, 2: 4})
    trees = {0: [-1, 0, 0, 1, 1, 2, 2], 1: [-1, 0, 1], 2: [-1, 0, -1, 2]}
    texts.step({n: len(t) for n, t in trees.items()}, trees)
    with pytest.raises(ValueError, match="the token tree of sequence 1 has not been committed"):
        texts.step({1: 1})
    grown = {2: [*trees[2], 3, 3]}
    texts.step({2: 2}, grown)
    with pytest.raises(ValueError, match="node 2 of sequence 2 is not among the 2 of its last step"):
        texts.call("attention_kv_cache_commit_accepted_token_tree_nodes", ShapeTuple([2]), ShapeTuple([2]))
    texts.call("attention_kv_cache_commit_accepted_token_tree_nodes", ShapeTuple([0, 1]), ShapeTuple([6, -1]))
    for a in (texts.k, texts.v):
        a[0], a[1] = np.concatenate([a[0][:, :6], a[0][:, [7, 11]]], 1), a[1][:, :3]
    texts.check(0, 1)
    texts.step({0: 1, 1: 2})


def test_attention_goes_in_parts_which_are_merged():
    texts = Texts("float32", RopeMode.NONE)
    texts.add(0, 1)
    texts.step({0: 5})
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((6, n, D)).astype("float32") for n in (HEADS, KV, KV))
    texts.call("kv_state_begin_forward", ShapeTuple([0, 1]), ShapeTuple([2, 4]))
    (own, own_lse), (old, old_lse) = ([tvm.nd.empty((6, HEADS, D), "float32"), tvm.nd.empty((6, HEADS), "float32")]
                                      for _ in range(2))
    texts.call("attention_kv_cache_self_attention", 1, SCALE, *map(tvm.nd.array, (q, k, v)), own, own_lse)
    texts.call("attention_kv_cache_cross_attention", 1, SCALE, tvm.nd.array(q), old, old_lse)
    first = attention(q[:2], texts.k[0][1], texts.v[0][1], True, SCALE)
    assert np.abs(old.numpy()[:2] - first[0]).max() < 1e-5 and np.abs(old_lse.numpy()[:2] - first[1]).max() < 1e-5
    assert not old.numpy()[2:].any()  # a sequence without rows
    texts.call("attention_kv_cache_merge_attn_output_inplace", own, own_lse, old, old_lse)
    for rows, keys, values in ((slice(0, 2), *(np.concatenate([a[0][1], x[:2]]) for a, x in ((texts.k, k), (texts.v, v)))),
                               (slice(2, 6), k[2:], v[2:])):
        found, lse = attention(q[rows], keys, values, after(len(q[rows]), len(keys)), SCALE)
        assert np.abs(own.numpy()[rows] - found).max() < 1e-5 and np.abs(own_lse.numpy()[rows] - lse).max() < 1e-5


def test_longrope_has_factors_of_its_own():
    factors = np.array([1, 2, 3, 4], "float32")
    scaling = {"rope_type": "longrope", "max_position_embeddings": 64, "original_max_position_embeddings": 64}
    split = tvm.build(kv_cache.llama_rope_with_position_map(1e4, 1.0, D, HEADS, KV, "float32", scaling),
                      target=small_target())
    texts = Texts(split=split, ext_factors=tvm.nd.array(factors))
    texts.call("kv_state_add_sequence", 0)
    texts.call("kv_state_begin_forward", ShapeTuple([0]), ShapeTuple([3]))
    qkv = np.random.default_rng(0).random((3, HEADS + 2 * KV, D), "float32")
    out, k, v = (tvm.nd.empty(shape, "float32") for shape in ((3, HEADS, D), *[(LAYERS, 3, KV, D)] * 2))
    texts.call("attention_kv_cache_attention_with_fused_qkv", 1, SCALE, tvm.nd.array(qkv), out)
    texts.call("attention_kv_cache_debug_get_kv", 0, 0, 3, k, v)
    angles = np.outer(range(3), 1e4 ** (-np.arange(4) / 4) / factors)[:, None]
    a, b = qkv[:, :HEADS + KV, :4], qkv[:, :HEADS + KV, 4:]
    turned = np.concatenate([a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], -1)
    assert np.abs(k.numpy()[1] - turned[:, HEADS:]).max() < 1e-5
    expected, _ = attention(turned[:, :HEADS], turned[:, HEADS:], qkv[:, HEADS + KV:], after(3, 3), SCALE)
    assert np.abs(out.numpy() - expected).max() < 1e-5
    with pytest.raises(ValueError, match="extension factors need RopeMode.NORMAL"):
        create(rope=RopeMode.NONE, ext_factors=tvm.nd.array(factors))


def test_a_step_that_cannot_be_leaves_the_cache_as_it_was():
    texts = Texts(rows=24)
    texts.add(0, 1)
    texts.step({0: 5, 1: 3})
    texts.fork(0, 2, -1)
    free = texts.call("attention_kv_cache_get_num_available_pages")
    for lengths, error, words in (
            ({0: 5, 2: 2, 1: 40}, RuntimeError, "The KV cache is full: all 7 pages of 4 rows are in use"),
            ({0: 1, 9: 1}, ValueError, "sequence 9 cannot be found"), ({0: 65}, ValueError, "prefill_chunk_size"),
            ({0: 0}, ValueError, "how many tokens it adds")):
        with pytest.raises(error, match=words):
            texts.call("kv_state_begin_forward", ShapeTuple(lengths), ShapeTuple(lengths.values()))
        assert texts.call("attention_kv_cache_get_num_available_pages") == free
        texts.check(0, 1, 2)
    texts.step({0: 1, 2: 2, 1: 3})


def test_errors_say_what_to_do():
    texts = Texts()
    texts.add(0)
    qkv, out = tvm.nd.empty((2, 8, D), "float32"), tvm.nd.empty((2, HEADS, D), "float32")
    fused = "attention_kv_cache_attention_with_fused_qkv"
    with pytest.raises(ValueError, match="no step has begun: call vm.builtin.kv_state_begin_forward"):
        texts.call(fused, 0, SCALE, qkv, out)
    texts.call("kv_state_begin_forward", ShapeTuple([0]), ShapeTuple([2]))
    for args, words in (((2, SCALE, qkv, out), "layer 2 is not in the KV cache"),
                        ((0, SCALE, out, out), r"qkv is float32\[2, 4, 8\], and must be float32\[2, 8, 8\]"),
                        ((0, SCALE, qkv, tvm.nd.empty((1, HEADS, D), "float32")), "the output is")):
        with pytest.raises(ValueError, match=words):
            texts.call(fused, *args)
    with pytest.raises(ValueError, match="create it with support_sliding_window=1"):
        texts.call("attention_kv_cache_enable_sliding_window_for_seq", 0, 4, 1)
    with pytest.raises(ValueError, match="the parent of node 1 is 1, and must be one before it, or -1"):
        texts.call("kv_state_begin_forward", ShapeTuple([0]), ShapeTuple([2]), ShapeTuple([-1, 1]))
    with pytest.raises(NotImplementedError, match="MLA"):
        create(kinds=(AttnKind.MLA, 0))
    without = Texts(prefill=None)
    without.add(0)
    with pytest.raises(ValueError, match="without the function for prefill attention"):
        without.step({0: 2})
