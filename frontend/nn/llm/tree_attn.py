"""Attention where the new tokens of each sequence are a tree: each sees what came before, itself and its ancestors."""
from __future__ import annotations

from ....ir.script import functions  # noqa: F401  T.prim_func is there with it
from ....ir.script.tir_names import T
from .attention import (_along_tree, _attend, _heads, _kernel, _Pages, _Rope, _size_of_pages, _values_beside,
                        of_target)


def tree_attn_cpu(h_kv, h_q, d, dtype, rope_scaling):
    """The PrimFunc of queries over keys and values beside them, which are the nodes of a tree in each sequence.

    mask [nodes, 2]: for each node when a walk of its tree depth first comes to it, and when it has left what is below
    it; mn_indptr [batch + 1]: where each tree begins in there. What else: see attention.py.
    """
    group = _heads(h_kv, h_q)

    @T.prim_func
    def batch_tree_attn(
            var_q: T.handle, var_q_indptr: T.handle, var_k: T.handle, var_v: T.handle, var_kv_indptr: T.handle,
            var_q_rope_position: T.handle, var_mn_indptr: T.handle, var_mask: T.handle, var_output: T.handle,
            var_lse: T.handle, rotary_mode: T.int32, rope_scale: T.float32, rope_theta: T.float32,
            sm_scale: T.float32):
        T.func_attr({"tir.noalias": T.bool(True)})
        starts = T.int32()
        tokens = T.int32()
        kv_tokens = T.int32()
        nodes = T.int32()
        q = T.match_buffer(var_q, (tokens, h_q, d), dtype)
        q_indptr = T.match_buffer(var_q_indptr, (starts,), "int32")
        k = T.match_buffer(var_k, (kv_tokens, h_kv, d), dtype)
        v = T.match_buffer(var_v, (kv_tokens, h_kv, d), dtype)
        kv_indptr = T.match_buffer(var_kv_indptr, (starts,), "int32")
        q_positions = T.match_buffer(var_q_rope_position, (tokens,), "int32")
        mn_indptr = T.match_buffer(var_mn_indptr, (starts,), "int32")
        mask = T.match_buffer(var_mask, (nodes, 2), "int32")
        output = T.match_buffer(var_output, (tokens, h_q, d), dtype)
        lse = T.match_buffer(var_lse, (tokens, h_q), "float32")
        for b, h in T.grid(starts - 1, h_kv):
            with T.block("attention"):
                vb, vh = T.axis.remap("SS", [b, h])
                begin: T.int32 = kv_indptr[vb]
                rope = _Rope(rotary_mode, rope_theta, rope_scale, rope_scaling)
                rows: T.int32 = q_indptr[vb + 1] - q_indptr[vb]
                cols: T.int32 = kv_indptr[vb + 1] - begin
                size: T.int32 = mn_indptr[vb + 1] - mn_indptr[vb]
                _attend(q_indptr[vb], rows, cols, vh, group, d, d, sm_scale, rope.rows(q, q_positions),
                        rope.rows(k, q_positions, begin, vh), _values_beside(v, begin, vh),
                        _along_tree(mask, mn_indptr[vb], size, rows, cols), output, lse)

    return _kernel(batch_tree_attn, "batch_tree_attn_cpu")


def tree_attn_with_paged_kv_cache_cpu(h_kv, h_q, d, dtype, rope_scaling, page_size=16):
    """The PrimFunc of queries over keys and values in pages, the last of which are the nodes of a tree in each sequence.

    tree_order [nodes, 2], tree_order_indptr [batch + 1]: mask and mn_indptr of tree_attn_cpu. A tree has nodes of
    earlier steps, too, so that there may be more of them than queries. Keys of rotary_mode 1 are taken to be a chain.
    """
    group, page = _heads(h_kv, h_q), _size_of_pages(page_size)

    @T.prim_func
    def tree_attn_paged_kv_cpu(
            var_q: T.handle, var_q_indptr: T.handle, var_pages: T.handle, var_page_indptr: T.handle,
            var_page_values: T.handle, var_length_info: T.handle, var_k_rope_pos_offset: T.handle,
            var_q_rope_position: T.handle, var_output: T.handle, var_lse: T.handle, rotary_mode: T.int32,
            rope_scale: T.float32, rope_theta: T.float32, sm_scale: T.float32, tree_order_indptr_handle: T.handle,
            tree_order_handle: T.handle):
        T.func_attr({"tir.noalias": T.bool(True)})
        batch = T.int32()
        tokens = T.int32()
        used = T.int32()
        num_pages = T.int32()
        nodes = T.int32()
        q = T.match_buffer(var_q, (tokens, h_q, d), dtype)
        q_indptr = T.match_buffer(var_q_indptr, (batch + 1,), "int32")
        pages = T.match_buffer(var_pages, (num_pages, 2, h_kv, page, d), dtype)
        page_indptr = T.match_buffer(var_page_indptr, (batch + 1,), "int32")
        page_values = T.match_buffer(var_page_values, (used,), "int32")
        length_info = T.match_buffer(var_length_info, (batch,), "int32")
        k_offsets = T.match_buffer(var_k_rope_pos_offset, (batch,), "int32")
        q_positions = T.match_buffer(var_q_rope_position, (tokens,), "int32")
        tree_indptr = T.match_buffer(tree_order_indptr_handle, (batch + 1,), "int32")
        tree_order = T.match_buffer(tree_order_handle, (nodes, 2), "int32")
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
                size: T.int32 = tree_indptr[vb + 1] - tree_indptr[vb]
                _attend(q_indptr[vb], rows, cols, vh, group, d, d, sm_scale, rope.rows(q, q_positions),
                        cached.keys(rope, k_offsets[vb]), cached.elements(),
                        _along_tree(tree_order, tree_indptr[vb], size, rows, cols), output, lse)

    return _kernel(tree_attn_paged_kv_cpu, "tree_attn_paged_kv_cpu")


tree_attn = of_target(tree_attn_cpu, 5, "tree_attn")
tree_attn_with_paged_kv_cache = of_target(tree_attn_with_paged_kv_cache_cpu, 5, "tree_attn_with_paged_kv_cache")

__all__ = ["tree_attn", "tree_attn_cpu", "tree_attn_with_paged_kv_cache", "tree_attn_with_paged_kv_cache_cpu"]
