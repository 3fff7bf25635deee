"""Attention over a batch of sequences on the CPU, as PrimFuncs: keys and values beside the queries, or in pages.

All of these are one loop nest (`_attend`), which gets where keys, values and queries lie, and what a query sees. Scores
are in powers of two: `lse` is the logarithm to the base 2 of what the softmax divides by, _NOTHING where a query sees no
key, so that merge_state can put attentions over parts of the keys together.

Arguments of the PrimFuncs: q [tokens, heads, head size]; *_indptr [batch + 1], where each sequence begins; pages
[pages, 2, kv heads, page size, head size], keys and values; page_values, the pages of all sequences one after the other;
length_info, see `_Pages`; positions of queries and of each sequence's first key, for rotary_mode 1, which rotates
queries and keys here; causal, whether a query sees only keys that do not come after it.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from ....ir.expr import Var, cast, const
from ....ir.script import functions  # noqa: F401  T.prim_func is there with it
from ....ir.script.tir_names import T
from ....ir.tir import intrin
from .position_embedding import _as_float, rotated

CPU_KINDS = ("c", "llvm", "host")
_ROWS = 8  # queries that share a loaded key and value
_LOG2E = math.log2(math.e)
_NOTHING = -5e4  # lse of a query that sees no key
_LEAST = -3.4e38


@dataclass(frozen=True)
class _Rope:
    """How elements of q and k become float32: rotated by a position where rotary_mode is 1."""

    mode: object
    theta: object
    scale: object
    scaling: dict

    def turned(self, x, place, position):
        """Element `place` of x at a position."""
        angle = _as_float(position) * self.scale
        return intrin.if_then_else(self.mode == 1, rotated(x, place, angle, x.shape[-1], self.theta, self.scaling),
                                   x[tuple(place)].astype("float32"))

    def rows(self, x, positions, begin=0, head=None):
        """f(row, [head,] column) of x [tokens, heads, columns], whose row 0 is token `begin`."""
        if head is None:
            return lambda row, h, d: self.turned(x, (row, h, d), positions[row])
        return lambda row, d: self.turned(x, (begin + row, head, d), positions[begin + row])


@dataclass(frozen=True)
class _Pages:
    """Row j of kv head `head` of a sequence, whose pages are numbers begin .. end of `values`.

    info: how many rows of its last page are used, [batch]; with a window [3, batch], then where its rows go on behind the
    first ones, which stay, and how many of those there are.
    """

    pages: object
    values: object
    begin: object
    end: object
    info: object
    sequence: object
    head: object

    def count(self):
        """How many rows there are."""
        windowed = len(self.info.shape) == 2
        last = self.info[(0, self.sequence) if windowed else (self.sequence,)]
        rows = (self.end - self.begin - 1) * self.pages.shape[3] + last
        if windowed:
            rows = rows - self.info[1, self.sequence] + self.info[2, self.sequence]
        return intrin.if_then_else(self.end > self.begin, rows, const(0, "int32"))

    def place(self, which, j, d):
        """The indices of column d of the key (which 0) or value (1) of row j."""
        slot, size = j, self.pages.shape[3]
        if len(self.info.shape) == 2:
            start, stay = self.info[1, self.sequence], self.info[2, self.sequence]
            slot = intrin.if_then_else(j < stay, j, j - stay + start)
        return (self.values[self.begin + slot // size], which, self.head, slot % size, d)

    def keys(self, rope, offset):
        """f(row, column) of keys, whose row 0 is at position `offset`."""
        return lambda j, d: rope.turned(self.pages, self.place(0, j, d), offset + j)

    def elements(self):
        """f(row, column) of values."""
        return lambda j, d: self.pages[self.place(1, j, d)].astype("float32")


def _info_shape(batch, windowed):
    return (3, batch) if windowed else (batch,)


def _causally(causal, rows, cols):
    """Which keys a query sees where the last of `rows` queries sees all `cols` keys, and each one less than the next."""
    return lambda row, col: intrin.any(causal == 0, col <= cols - rows + row)


def _all(row, col):
    return const(True, "bool")


def _along_tree(tree, begin, size, rows, cols):
    """Which keys a query sees where the last `size` keys are a tree: all before, and its ancestors. tree [.., 2], from
    `begin` on: when a walk depth first comes to a node, and when it has left what is below it."""
    def sees(row, col):
        node, other = begin + row + size - rows, begin + col - cols + size
        return intrin.if_then_else(col < cols - size, const(True, "bool"), intrin.all(
            tree[node, 0] >= tree[other, 0], tree[node, 0] < tree[other, 1]))
    return sees


def _lanes(size):
    """Sums that a product of `size` columns goes on side by side."""
    return math.gcd(size, 8)


def _cast(value, buffer):
    return cast(value, buffer.dtype)


@T.macro
def _attend(first, rows, cols, head, group, size, value_size, scale, query, key, value, sees, output, lse):
    """Queries first .. first + rows of the `group` heads that share kv head `head`, over keys 0 .. cols.

    query(row, head, column), key(col, column), value(col, column): elements as float32; sees(row, col).
    """
    q_rows = T.alloc_buffer((_ROWS, size), "float32")
    sums = T.alloc_buffer((_ROWS, value_size), "float32")
    k_row = T.alloc_buffer((size,), "float32")
    v_row = T.alloc_buffer((value_size,), "float32")
    most = T.alloc_buffer((_ROWS,), "float32")
    total = T.alloc_buffer((_ROWS,), "float32")
    lanes = T.alloc_buffer((_lanes(size),), "float32")
    score = T.alloc_buffer((1,), "float32")
    shrunk = T.alloc_buffer((1,), "float32")
    for tile in T.serial((rows * group + _ROWS - 1) // _ROWS):
        for r in T.serial(T.min(_ROWS, rows * group - tile * _ROWS)):
            most[r] = T.float32(_LEAST)
            total[r] = T.float32(0)
            for d in T.serial(size):
                q_rows[r, d] = query(first + (tile * _ROWS + r) // group, head * group + (tile * _ROWS + r) % group,
                                     d) * scale * T.float32(_LOG2E)
            for d in T.serial(value_size):
                sums[r, d] = T.float32(0)
        for j in T.serial(cols):
            for d in T.serial(size):
                k_row[d] = key(j, d)
            for d in T.serial(value_size):
                v_row[d] = value(j, d)
            for r in T.serial(T.min(_ROWS, rows * group - tile * _ROWS)):
                if sees((tile * _ROWS + r) // group, j):
                    for p in T.serial(_lanes(size)):
                        lanes[p] = T.float32(0)
                    for o in T.serial(size // _lanes(size)):
                        for p in T.serial(_lanes(size)):
                            lanes[p] = lanes[p] + q_rows[r, o * _lanes(size) + p] * k_row[o * _lanes(size) + p]
                    score[0] = T.float32(0)
                    for p in T.serial(_lanes(size)):
                        score[0] = score[0] + lanes[p]
                    if score[0] > most[r]:
                        shrunk[0] = T.exp2(most[r] - score[0])
                        total[r] = total[r] * shrunk[0]
                        for d in T.serial(value_size):
                            sums[r, d] = sums[r, d] * shrunk[0]
                        most[r] = score[0]
                    score[0] = T.exp2(score[0] - most[r])
                    total[r] = total[r] + score[0]
                    for d in T.serial(value_size):
                        sums[r, d] = sums[r, d] + score[0] * v_row[d]
        for r in T.serial(T.min(_ROWS, rows * group - tile * _ROWS)):
            for d in T.serial(value_size):
                output[first + (tile * _ROWS + r) // group, head * group + (tile * _ROWS + r) % group, d] = _cast(
                    T.if_then_else(total[r] > T.float32(0), sums[r, d] / total[r], T.float32(0)), output)
            lse[first + (tile * _ROWS + r) // group, head * group + (tile * _ROWS + r) % group] = T.if_then_else(
                total[r] > T.float32(0), most[r] + T.log2(total[r]), T.float32(_NOTHING))


def _heads(h_kv, h_q):
    """How many query heads share a kv head. ValueError where they do not come out even."""
    if h_q % h_kv:
        raise ValueError(f"{h_q} query heads cannot share {h_kv} key and value heads: one must be a multiple of the other")
    return h_q // h_kv


def _size_of_pages(page_size):
    """page_size where it is a number, a dimension of its own where only the run knows."""
    return page_size if isinstance(page_size, int) else Var("page_size", "int32")


def _kernel(func, name):
    """A PrimFunc by this name, which no rule schedules."""
    return func.with_attr("global_symbol", name).with_attr("tir.is_scheduled", True)


def of_target(make, count, name):
    """A function that takes `count` arguments of make, then a target, then the others: what make makes for a CPU.

    name: its own, for NotImplementedError with any other target.
    """
    def made(*args, target=None, **others):
        args, rest = args[:count], args[count:]
        if target is None and rest:
            target, *rest = rest
        if str(getattr(target, "kind", target)) not in CPU_KINDS:
            raise NotImplementedError(f"{name} has no kernel for target {target}: those of CPUs are there, as target 'llvm'")
        return make(*args, *rest, **others)
    made.__name__ = name
    return made


def _attention_prefill_cpu(h_kv, h_q, d, dtype, sliding_window, rope_scaling, page_size=16):
    """Queries of any number of tokens a sequence, keys and values in pages. page_size: None where the run says it."""
    group, size = _heads(h_kv, h_q), _size_of_pages(page_size)

    @T.prim_func
    def batch_prefill_paged_kv_cpu(
            var_q: T.handle, var_q_indptr: T.handle, var_pages: T.handle, var_page_indptr: T.handle,
            var_page_values: T.handle, var_length_info: T.handle, var_k_rope_pos_offset: T.handle,
            var_q_rope_position: T.handle, var_output: T.handle, var_lse: T.handle, causal: T.int32,
            rotary_mode: T.int32, rope_scale: T.float32, rope_theta: T.float32, sm_scale: T.float32):
        T.func_attr({"tir.noalias": T.bool(True)})
        batch = T.int32()
        tokens = T.int32()
        used = T.int32()
        num_pages = T.int32()
        q = T.match_buffer(var_q, (tokens, h_q, d), dtype)
        q_indptr = T.match_buffer(var_q_indptr, (batch + 1,), "int32")
        pages = T.match_buffer(var_pages, (num_pages, 2, h_kv, size, d), dtype)
        page_indptr = T.match_buffer(var_page_indptr, (batch + 1,), "int32")
        page_values = T.match_buffer(var_page_values, (used,), "int32")
        length_info = T.match_buffer(var_length_info, _info_shape(batch, sliding_window), "int32")
        k_offsets = T.match_buffer(var_k_rope_pos_offset, (batch,), "int32")
        q_positions = T.match_buffer(var_q_rope_position, (tokens,), "int32")
        output = T.match_buffer(var_output, (tokens, h_q, d), dtype)
        lse = T.match_buffer(var_lse, (tokens, h_q), "float32")
        for b, h in T.grid(batch, h_kv):
            with T.block("attention"):
                vb, vh = T.axis.remap("SS", [b, h])
                begin: T.int32 = page_indptr[vb]
                rope = _Rope(rotary_mode, rope_theta, rope_scale, rope_scaling)
                cached = _Pages(pages, page_values, begin, page_indptr[vb + 1], length_info, vb, vh)
                rows: T.int32 = q_indptr[vb + 1] - q_indptr[vb]
                cols: T.int32 = cached.count()
                _attend(q_indptr[vb], rows, cols, vh, group, d, d, sm_scale, rope.rows(q, q_positions),
                        cached.keys(rope, k_offsets[vb]), cached.elements(), _causally(causal, rows, cols), output, lse)

    return _kernel(batch_prefill_paged_kv_cpu, "batch_prefill_paged_kv_cpu" + "_sliding_window" * bool(sliding_window))


def _attention_decode_cpu(num_kv_heads, num_qo_heads, head_dim, qkv_dtype, sliding_window, rope_scaling, page_size=16):
    """A query of one token a sequence, keys and values in pages. page_size: None where the run says it."""
    h_kv, h_q, d, group, size = (num_kv_heads, num_qo_heads, head_dim, _heads(num_kv_heads, num_qo_heads),
                                 _size_of_pages(page_size))

    @T.prim_func
    def batch_decode_paged_kv(
            var_q: T.handle, var_pages: T.handle, var_page_indptr: T.handle, var_page_values: T.handle,
            var_length_info: T.handle, var_k_rope_pos_offset: T.handle, var_q_rope_position: T.handle,
            var_output: T.handle, var_lse: T.handle, rotary_mode: T.int32, rope_scale: T.float32,
            rope_theta: T.float32, sm_scale: T.float32):
        T.func_attr({"tir.noalias": T.bool(True)})
        batch = T.int32()
        used = T.int32()
        num_pages = T.int32()
        q = T.match_buffer(var_q, (batch, h_q, d), qkv_dtype)
        pages = T.match_buffer(var_pages, (num_pages, 2, h_kv, size, d), qkv_dtype)
        page_indptr = T.match_buffer(var_page_indptr, (batch + 1,), "int32")
        page_values = T.match_buffer(var_page_values, (used,), "int32")
        length_info = T.match_buffer(var_length_info, _info_shape(batch, sliding_window), "int32")
        k_offsets = T.match_buffer(var_k_rope_pos_offset, (batch,), "int32")
        q_positions = T.match_buffer(var_q_rope_position, (batch,), "int32")
        output = T.match_buffer(var_output, (batch, h_q, d), qkv_dtype)
        lse = T.match_buffer(var_lse, (batch, h_q), "float32")
        for b, h in T.grid(batch, h_kv):
            with T.block("attention"):
                vb, vh = T.axis.remap("SS", [b, h])
                begin: T.int32 = page_indptr[vb]
                rope = _Rope(rotary_mode, rope_theta, rope_scale, rope_scaling)
                cached = _Pages(pages, page_values, begin, page_indptr[vb + 1], length_info, vb, vh)
                cols: T.int32 = cached.count()
                _attend(vb, 1, cols, vh, group, d, d, sm_scale, rope.rows(q, q_positions),
                        cached.keys(rope, k_offsets[vb]), cached.elements(), _all, output, lse)

    return _kernel(batch_decode_paged_kv, "batch_decode_paged_kv_cpu" + "_sliding_window" * bool(sliding_window))


def _attention_prefill_ragged_cpu(h_kv, h_q, d_qk, d_v, dtype, rope_scaling):
    """Queries over keys and values [tokens, kv heads, head size] beside them, those of a sequence one after the other."""
    group = _heads(h_kv, h_q)

    @T.prim_func
    def batch_prefill_ragged_kv(
            var_q: T.handle, var_q_indptr: T.handle, var_k: T.handle, var_v: T.handle, var_kv_indptr: T.handle,
            var_q_rope_position: T.handle, var_k_rope_pos_offset: T.handle, var_output: T.handle, var_lse: T.handle,
            causal: T.int32, rotary_mode: T.int32, rope_scale: T.float32, rope_theta: T.float32, sm_scale: T.float32):
        T.func_attr({"tir.noalias": T.bool(True)})
        batch = T.int32()
        tokens = T.int32()
        kv_tokens = T.int32()
        q = T.match_buffer(var_q, (tokens, h_q, d_qk), dtype)
        q_indptr = T.match_buffer(var_q_indptr, (batch + 1,), "int32")
        k = T.match_buffer(var_k, (kv_tokens, h_kv, d_qk), dtype)
        v = T.match_buffer(var_v, (kv_tokens, h_kv, d_v), dtype)
        kv_indptr = T.match_buffer(var_kv_indptr, (batch + 1,), "int32")
        q_positions = T.match_buffer(var_q_rope_position, (tokens,), "int32")
        k_offsets = T.match_buffer(var_k_rope_pos_offset, (batch,), "int32")
        output = T.match_buffer(var_output, (tokens, h_q, d_v), dtype)
        lse = T.match_buffer(var_lse, (tokens, h_q), "float32")
        for b, h in T.grid(batch, h_kv):
            with T.block("attention"):
                vb, vh = T.axis.remap("SS", [b, h])
                begin: T.int32 = kv_indptr[vb]
                rope = _Rope(rotary_mode, rope_theta, rope_scale, rope_scaling)
                rows: T.int32 = q_indptr[vb + 1] - q_indptr[vb]
                cols: T.int32 = kv_indptr[vb + 1] - begin
                _attend(q_indptr[vb], rows, cols, vh, group, d_qk, d_v, sm_scale, rope.rows(q, q_positions),
                        _keys_beside(rope, k, begin, vh, k_offsets[vb]), _values_beside(v, begin, vh),
                        _causally(causal, rows, cols), output, lse)

    return _kernel(batch_prefill_ragged_kv, "batch_prefill_ragged_kv")


def _keys_beside(rope, k, begin, head, offset):
    return lambda j, d: rope.turned(k, (begin + j, head, d), offset + j)


def _values_beside(v, begin, head):
    return lambda j, d: v[begin + j, head, d].astype("float32")


_attention_prefill = of_target(_attention_prefill_cpu, 6, "_attention_prefill")
_attention_decode = of_target(_attention_decode_cpu, 6, "_attention_decode")
_attention_prefill_ragged = of_target(_attention_prefill_ragged_cpu, 6, "_attention_prefill_ragged")
