"""The keys and values of many texts at once in pages: which rows lie where is page_table.py's, what is computed is done
by functions that the cache is created with (frontend/nn/llm makes them), and here is what they are called with.

A step: begin_forward(sequences, how many tokens each adds), then for each layer attention, then end_forward.
"""
from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from .ndarray import NDArray, empty
from .page_table import PageTable

MHA, MLA = range(2)
ROPE_NONE, ROPE_NORMAL, ROPE_INLINE = range(3)
_FUNCTIONS = ("ragged", "prefill", "decode", "prefill_window", "decode_window", "tree_pages", "tree")


def _array(values, dtype="int32"):
    return NDArray(np.array(values, dtype))


def _starts(counts):
    return [0, *accumulate(counts)]


# ---------------------------------------------------------------- a step

@dataclass
class _Step:
    """What the functions get in a step: arrays about the sequences in it, before and after the new rows."""

    tokens: int
    indptr: NDArray  # where the tokens of each sequence begin
    offsets: NDArray  # the position of the first new row of each
    zeros: NDArray
    positions: NDArray  # of the tokens in their sequences
    places: NDArray  # where tokens are written
    before: tuple  # of pages: where each sequence's begin, which, and length_info
    after: tuple
    single: bool  # whether each sequence adds one token
    tree: tuple | None  # where each tree begins, and its order, where one is no chain


def _depths(parents):
    """How many ancestors each node has. ValueError for a parent that does not come before its node."""
    depths = []
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            raise ValueError(f"Invalid token tree: the parent of node {node} is {parent}, and must be one before it, or -1")
        depths.append(0 if parent == -1 else depths[parent] + 1)
    return depths


def _order(parents):
    """(when a walk depth first comes to it, when it has left what is below it) of each node."""
    sizes = [1] * len(parents)
    for node in range(len(parents) - 1, -1, -1):
        if parents[node] != -1:
            sizes[parents[node]] += sizes[node]
    first, order = {-1: 0}, []  # parent -> when its next child is come to
    for node, parent in enumerate(parents):
        order.append((first[parent], first[parent] + sizes[node]))
        first[parent] += sizes[node]
        first[node] = order[node][0] + 1
    return order


def _is_chain(parents):
    return all(parent == node - 1 for node, parent in enumerate(parents))


# ---------------------------------------------------------------- the cache

class PagedCache:
    """See `create`. functions: {name of _FUNCTIONS: what computes it, or None}; others: split, append, merge, copy_page,
    read, compact."""

    def __init__(self, config, layers, heads, kv_heads, size, rope, init, ext_factors, functions, others):
        self.batch, total, self.chunk, self.page_size, self.windows = map(int, config)
        self.first_layer, end = layers
        self.heads, self.kv_heads, self.size, self.rope = heads, kv_heads, size, rope
        self.dtype, self.ext_factors, self.functions, self.others = init.dtype, ext_factors, functions, others
        count = -(-total // self.page_size) + 1 + (2 * self.batch if self.windows else 0)
        self.pages = [NDArray(np.zeros((count, 2, kv_heads, self.page_size, size), init.dtype))
                      for _ in range(self.first_layer, end)]
        self.table = PageTable(count, self.page_size, self._copy_rows)
        self.step = None

    def _copy_rows(self, page, to, rows):
        if rows:
            for pages in self.pages:
                self.others["copy_page"](pages, page, to, rows)

    # ------------------------------------------------------------ sequences

    def clear(self):
        """Forget all sequences."""
        self.table.clear()
        self.step = None

    def add_sequence(self, seq_id):
        self.table.add(seq_id)

    def remove_sequence(self, seq_id):
        self.table.remove(seq_id)

    def fork_sequence(self, parent_id, child_id, position=-1):
        """See PageTable.fork."""
        self.table.fork(parent_id, child_id, position)

    def popn(self, seq_id, count):
        """Forget the last rows of a sequence."""
        self.table.committed(seq_id)
        self.table.pop(seq_id, count)

    def enable_sliding_window(self, seq_id, window, sinks=0):
        """See PageTable.slide_by. ValueError for a cache that was created without."""
        if not self.windows:
            raise ValueError("The KV cache does not support sliding windows: create it with support_sliding_window=1")
        self.table.slide_by(seq_id, window, sinks)

    def is_empty(self):
        """Whether there are no sequences and no pages in use."""
        return not self.table.sequences and len(self.table.free) == self.table.total

    def available_pages(self):
        return len(self.table.free)

    def total_length(self):
        """The rows of all sequences."""
        return sum(s.length for s in self.table.sequences.values())

    # ------------------------------------------------------------ a step

    def begin_forward(self, seq_ids, lengths, parents=None):
        """Make room for `lengths` more rows of sequences. parents: of the tokens, in their sequence, where these are
        trees (-1: what comes before the tree). Raises ValueError, RuntimeError for a full cache; nothing has happened
        then."""
        seq_ids, lengths = list(seq_ids), list(lengths)
        self._check_batch(seq_ids, lengths, parents)
        saved = self.table.saved()
        try:
            self.step = self._begun([self.table[i] for i in seq_ids], seq_ids, lengths, parents)
        except Exception:
            self.table.restore(saved)
            raise

    def _check_batch(self, seq_ids, lengths, parents):
        if len(seq_ids) != len(lengths) or len(set(seq_ids)) != len(seq_ids) or min(lengths, default=0) < 1:
            raise ValueError(f"begin_forward takes different sequences, and for each how many tokens it adds, not "
                             f"{seq_ids} and {lengths}")
        if len(seq_ids) > self.batch or sum(lengths) > self.chunk:
            raise ValueError(f"{len(seq_ids)} sequences with {sum(lengths)} tokens: the cache was created for steps of "
                             f"{self.batch} sequences (max_batch_size) and {self.chunk} tokens (prefill_chunk_size)")
        if parents is not None and (self.windows or self.rope == ROPE_INLINE):
            raise ValueError("token trees do not go with " + (
                "sliding windows" if self.windows else "inline RoPE") + ": create the cache without")
        if parents is not None and len(parents) != sum(lengths):
            raise ValueError(f"{sum(lengths)} tokens have {len(parents)} parents in the token tree")

    def _begun(self, sequences, seq_ids, lengths, parents):
        for sequence in sequences:
            self.table.own(sequence)
        offsets = [s.length - len(s.tree) for s in sequences]
        positions = self._planted(sequences, seq_ids, lengths, offsets, parents)
        before = self._page_arrays(sequences)
        places = [p for s, n in zip(sequences, lengths) for p in self.table.append(s, n)]
        tree = None
        if parents is not None and not all(_is_chain(s.tree) for s in sequences):
            nodes = [node for s in sequences for node in _order(s.tree)]
            tree = (_array(_starts(len(s.tree) for s in sequences)), _array(nodes))
        return _Step(sum(lengths), _array(_starts(lengths)), _array(offsets), _array([0] * len(lengths)),
                     _array(positions), _array(places), before, self._page_arrays(sequences),
                     all(n == 1 for n in lengths), tree)

    def _planted(self, sequences, seq_ids, lengths, offsets, parents):
        """Positions of the tokens; nodes are added to the trees."""
        if parents is None:
            for seq_id in seq_ids:
                self.table.committed(seq_id)
            return [offset + k for offset, n in zip(offsets, lengths) for k in range(n)]
        positions, given = [], iter(parents)
        for sequence, length, offset in zip(sequences, lengths, offsets):
            sequence.tree += [int(next(given)) for _ in range(length)]
            positions += [offset + depth for depth in _depths(sequence.tree)[-length:]]
        return positions

    def _page_arrays(self, sequences):
        pages = [s.pages[:-(-s.used() // self.page_size)] for s in sequences]
        last = [(s.used() - 1) % self.page_size + 1 if s.length else 0 for s in sequences]
        info = [last, [s.start for s in sequences], [s.sinks for s in sequences]] if self.windows else last
        values = [p for own in pages for p in own] or [0]  # a tensor has at least one element
        return (_array(_starts(map(len, pages))), _array(values), _array(info))

    def end_forward(self):
        """The end of a step."""

    def query_positions(self):
        """Where the tokens of the step are in their sequences: int32 [tokens]."""
        return self._current().positions

    def _current(self):
        if self.step is None:
            raise ValueError("no step has begun: call vm.builtin.kv_state_begin_forward first")
        return self.step

    # ------------------------------------------------------------ attention

    def attention(self, layer, scale, qkv, output):
        """Rotate queries and keys [tokens, heads + 2 kv heads, size], add keys and values to a layer, and write
        attention over all that a token sees to output [tokens, heads, size]. Rows beyond the step's tokens are let be."""
        step, pages = self._current(), self._layer(layer)
        heads = self.heads + 2 * self.kv_heads
        self._fits("qkv", qkv, heads, exact=False)
        self._fits("the output", output, self.heads, exact=False)
        qkv, output = (NDArray(np.asarray(a)[:step.tokens]) for a in (qkv, output))
        q, k, v = (empty((step.tokens, n, self.size), self.dtype) for n in (self.heads, self.kv_heads, self.kv_heads))
        self.others["split"](qkv, step.positions, q, k, v,
                             int(self.rope == ROPE_NORMAL) if self.ext_factors is None else self.ext_factors)
        lse = empty((step.tokens, self.heads), "float32")
        if not self.windows:
            self.others["append"](pages, k, v, step.places)
            self._over_pages(pages, step.after, q, output, lse, scale, causal=1)
            return
        self.self_attention(layer, scale, q, k, v, output, lse)
        other, other_lse = empty(output.shape, self.dtype), empty(lse.shape, "float32")
        self.cross_attention(layer, scale, q, other, other_lse)
        self.others["merge"](output, lse, other, other_lse)
        self.others["append"](pages, k, v, step.places)

    def self_attention(self, layer, scale, q, k, v, output, lse):
        """Attention of the tokens of the step over themselves; lse [tokens, heads], see frontend/nn/llm/attention.py."""
        step = self._current()
        self._layer(layer)
        for name, array, heads in (("q", q, self.heads), ("k", k, self.kv_heads), ("v", v, self.kv_heads),
                                   ("the output", output, self.heads)):
            self._fits(name, array, heads)
        if step.tree is None:
            self._function("ragged")(q, step.indptr, k, v, step.indptr, step.positions, step.offsets, output, lse, 1,
                                     *self._rotation(), scale)
        else:
            self._function("tree")(q, step.indptr, k, v, step.indptr, step.positions, *step.tree, output, lse,
                                   *self._rotation(), scale)

    def cross_attention(self, layer, scale, q, output, lse):
        """Attention of the tokens of the step over the rows of earlier steps."""
        pages = self._layer(layer)
        self._fits("q", q, self.heads)
        self._fits("the output", output, self.heads)
        self._over_pages(pages, self._current().before, q, output, lse, scale, causal=0)

    def _over_pages(self, pages, table, q, output, lse, scale, causal):
        step, (indptr, values, info) = self.step, table
        kind = "_window" if self.windows else ""
        if causal and step.tree is not None:
            self._function("tree_pages")(q, step.indptr, pages, indptr, values, info, step.zeros, step.positions, output,
                                         lse, *self._rotation(), scale, *step.tree)
        elif step.single:
            self._function("decode" + kind)(q, pages, indptr, values, info, step.zeros, step.positions, output, lse,
                                            *self._rotation(), scale)
        else:
            self._function("prefill" + kind)(q, step.indptr, pages, indptr, values, info, step.zeros, step.positions,
                                             output, lse, causal, *self._rotation(), scale)

    def merge(self, output, lse, other, other_lse):
        """Put attentions over two parts of the keys together, in the first one."""
        self.others["merge"](output, lse, other, other_lse)
        return output, lse

    def _rotation(self):
        return int(self.rope == ROPE_INLINE), self.rope_scale, self.rope_theta

    def _function(self, name):
        if self.functions[name] is None:
            raise ValueError(f"the KV cache was created without the function for {name} attention")
        return self.functions[name]

    def _layer(self, layer):
        if not 0 <= layer - self.first_layer < len(self.pages):
            raise ValueError(f"layer {layer} is not in the KV cache, which has {len(self.pages)} from {self.first_layer} on")
        return self.pages[layer - self.first_layer]

    def _fits(self, name, array, heads, exact=True):
        tokens, rest = self._current().tokens, (heads, self.size)
        fit = array.ndim == 3 and array.shape[1:] == rest and (
            array.shape[0] == tokens if exact else array.shape[0] >= tokens)
        if not fit or array.dtype != self.dtype:
            raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, and must be {self.dtype}{[tokens, *rest]}, for "
                             f"{tokens} tokens in this step")

    # ------------------------------------------------------------ trees, looking inside

    def commit(self, seq_ids, leaves):
        """Keep of each tree the path from the root to a leaf (-1: nothing), and forget the other rows of the last step.

        Of a tree that grew over several steps, as in TVM, the path's numbers count rows of the last step, and rows that
        earlier steps added stay. ValueError for a leaf that is not there, or whose path leaves the last step's rows.
        """
        seq_ids, leaves = list(seq_ids), list(leaves)
        if len(seq_ids) != len(leaves):
            raise ValueError(f"{len(seq_ids)} sequences and {len(leaves)} leaves: each tree has one accepted leaf, or -1")
        paths = [self._path(i, leaf) for i, leaf in zip(seq_ids, leaves)]
        moves = []
        for seq_id, path in zip(seq_ids, paths):
            sequence = self.table[seq_id]
            begin = sequence.length - sequence.appended
            pairs = [(node, k) for k, node in enumerate(path) if node != k]
            moves.append([self.table.positions(sequence, [begin + p[side] for p in pairs]) for side in (0, 1)])
        if any(m[0] for m in moves):
            indptr = _array(_starts(len(m[0]) for m in moves))
            pairs = _array([[p for m in moves for p in m[side]] for side in (0, 1)])
            for pages in self.pages:
                self.others["compact"](pages, indptr, pairs, len(moves))
        for seq_id, path in zip(seq_ids, paths):
            sequence = self.table[seq_id]
            if sequence.tree:
                self.table.pop(seq_id, sequence.appended - len(path))
            sequence.tree = []

    def _path(self, seq_id, leaf):
        """The nodes from the root to a leaf."""
        sequence, path = self.table[seq_id], []
        if not -1 <= leaf < len(sequence.tree):
            raise ValueError(f"node {leaf} is not in the token tree of sequence {seq_id}, which has {len(sequence.tree)} "
                             "nodes that are not committed")
        if leaf >= sequence.appended:
            raise ValueError(f"node {leaf} of sequence {seq_id} is not among the {sequence.appended} of its last step")
        while leaf != -1:
            path.append(leaf)
            leaf = sequence.tree[leaf]
        return path[::-1]

    def read(self, seq_id, start, end, keys, values):
        """Copy rows start .. end of a sequence to keys and values [layers, end - start, kv heads, size]."""
        length = self.table[seq_id].length
        if not 0 <= start < end <= length:
            raise ValueError(f"rows {start} to {end} are not in sequence {seq_id}, which has {length}")
        shape = (len(self.pages), end - start, self.kv_heads, self.size)
        if any(tuple(a.shape) != shape or a.dtype != self.dtype for a in (keys, values)):
            raise ValueError(f"keys and values are read into {self.dtype}{list(shape)}, not {list(keys.shape)} and "
                             f"{list(values.shape)}")
        places = _array(self.table.positions(self.table[seq_id], range(start, end)))
        for layer, pages in enumerate(self.pages):
            self.others["read"](pages, places, keys, values, layer)


# ---------------------------------------------------------------- vm.builtin

def _one(given, name):
    """The function of ["tir", function], None for []."""
    if not given:
        return None
    kind, function, *_ = given
    if kind != "tir":
        raise NotImplementedError(f"{name}: a paged KV cache runs PrimFuncs, ['tir', function]; {kind} is not there")
    return function


def create(config, layers, heads, kv_heads, size, v_size, kinds, transfer, rope, rope_scale, rope_theta, ext_factors,
           init, append, append_mla, ragged, prefill, decode, prefill_window, decode_window, tree_pages, tree,
           mla_prefill, merge, split, copy_page, read, compact, *_):
    """vm.builtin.paged_attention_kv_cache_create.

    config: (most sequences in a step, rows in all, most tokens in a step, rows of a page, whether windows may slide);
    layers: (the first, the end); kinds: 0 (MHA) for each; rope: 0 no rotation, 1 queries and keys are rotated by `split`
    before they are added, 2 by the attention functions; init: an NDArray of the dtype; the functions are those that
    frontend/nn/llm makes. Raises NotImplementedError for MLA, several stages, transfers between machines, devices
    other than the CPU.
    """
    config = tuple(config)
    if len(config) != 5 or min(config[:4]) < 1:
        raise ValueError("a paged KV cache takes (max_batch_size, max_total_seq_len, prefill_chunk_size, page_size, "
                         f"support_sliding_window), not {config}")
    if len(layers) != 2:
        raise NotImplementedError(f"layers {tuple(layers)}: a paged KV cache has the layers of one pipeline stage, (0, n)")
    if any(kind != MHA for kind in kinds) or v_size != size:
        raise NotImplementedError("a paged KV cache has multi-head attention (AttnKind.MHA) whose keys and values have "
                                  "equal head sizes; MLA is not there")
    if transfer:
        raise NotImplementedError("a paged KV cache of one process transfers nothing: enable_kv_transfer must be False")
    if not str(init.device).startswith("cpu"):
        raise NotImplementedError(f"a paged KV cache lies in memory of the CPU, not on {init.device}")
    ext_factors = ext_factors if isinstance(ext_factors, NDArray) else None
    if ext_factors is not None and rope != ROPE_NORMAL:
        raise ValueError("RoPE extension factors need RopeMode.NORMAL")
    given = dict(zip(_FUNCTIONS, (ragged, prefill, decode, prefill_window, decode_window, tree_pages, tree)))
    if not merge:
        raise ValueError("a paged KV cache needs the function that merges attentions, as [function]")
    cache = PagedCache(config, tuple(layers), heads, kv_heads, size, rope, init, ext_factors,
                       {name: _one(f, name) for name, f in given.items()},
                       {"append": append, "split": split, "merge": merge[0], "copy_page": copy_page, "read": read,
                        "compact": compact})
    cache.rope_scale, cache.rope_theta = float(rope_scale), float(rope_theta)
    return cache


def _no_mla(*_):
    raise NotImplementedError("multi-head latent attention (MLA) is not there: use AttnKind.MHA")


def _no_transfer(*_):
    raise NotImplementedError("a KV cache of one process neither sends nor receives rows")


_CACHE = "attention_kv_cache_"
FUNCTIONS = {
    "paged_attention_kv_cache_create": create,
    _CACHE + "enable_sliding_window_for_seq": PagedCache.enable_sliding_window,
    _CACHE + "commit_accepted_token_tree_nodes": PagedCache.commit,
    _CACHE + "empty": PagedCache.is_empty, _CACHE + "get_num_available_pages": PagedCache.available_pages,
    _CACHE + "get_total_sequence_length": PagedCache.total_length,
    _CACHE + "get_query_positions": PagedCache.query_positions, _CACHE + "debug_get_kv": PagedCache.read,
    _CACHE + "attention_with_fused_qkv": PagedCache.attention, _CACHE + "self_attention": PagedCache.self_attention,
    _CACHE + "cross_attention": PagedCache.cross_attention,
    _CACHE + "merge_attn_output_inplace": PagedCache.merge,
    **dict.fromkeys((_CACHE + "append_mla_kv", _CACHE + "debug_get_kv_mla"), _no_mla),
    **dict.fromkeys(("kv_cache_disagg_prepare_recv", "kv_cache_disagg_mark_send"), _no_transfer),
}

__all__ = ["FUNCTIONS", "PagedCache", "create"]
