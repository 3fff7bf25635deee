"""What happens to pages [pages, 2, kv heads, page size, head size] of keys and values beside attention, as PrimFuncs. Those
without _cpu in their names take a target behind what the others take."""
from __future__ import annotations

from ....ir.script import functions  # noqa: F401  T.prim_func is there with it
from ....ir.script.tir_names import T
from .attention import _cast, _kernel, _size_of_pages, of_target


def _kv_cache_transpose_append(num_key_value_heads, head_dim, dtype, page_size=16):
    """Write keys and values [tokens, heads, head size] to positions (page * page size + row); -1: nowhere."""
    heads, size = num_key_value_heads, _size_of_pages(page_size)

    @T.prim_func
    def tir_kv_cache_transpose_append(var_pages: T.handle, var_k_data: T.handle, var_v_data: T.handle,
                                      var_position_map: T.handle):
        T.func_attr({"tir.noalias": T.bool(True)})
        tokens = T.int32()
        num_pages = T.int32()
        pages = T.match_buffer(var_pages, (num_pages, 2, heads, size, head_dim), dtype)
        k_data = T.match_buffer(var_k_data, (tokens, heads, head_dim), dtype)
        v_data = T.match_buffer(var_v_data, (tokens, heads, head_dim), dtype)
        position_map = T.match_buffer(var_position_map, (tokens,), "int32")
        for i, h, d in T.grid(tokens, heads, head_dim):
            with T.block("append"):
                vi, vh, vd = T.axis.remap("SSS", [i, h, d])
                position: T.int32 = position_map[vi]
                if position >= 0:
                    pages[position // size, 0, vh, position % size, vd] = k_data[vi, vh, vd]
                    pages[position // size, 1, vh, position % size, vd] = v_data[vi, vh, vd]

    return _kernel(tir_kv_cache_transpose_append, "tir_kv_cache_transpose_append")


def _kv_cache_debug_get_kv(num_hidden_layers, num_key_value_heads, head_dim, dtype):
    """Read keys and values at positions of a layer's pages into layer layer_id of k_data and v_data, [layers, tokens,
    heads, head size]."""
    heads, size = num_key_value_heads, _size_of_pages(None)

    @T.prim_func
    def tir_kv_cache_debug_get_kv(var_pages: T.handle, var_position_map: T.handle, var_k_data: T.handle,
                                  var_v_data: T.handle, layer_id: T.int64):
        T.func_attr({"tir.noalias": T.bool(True)})
        tokens = T.int32()
        num_pages = T.int32()
        pages = T.match_buffer(var_pages, (num_pages, 2, heads, size, head_dim), dtype)
        position_map = T.match_buffer(var_position_map, (tokens,), "int32")
        k_data = T.match_buffer(var_k_data, (num_hidden_layers, tokens, heads, head_dim), dtype)
        v_data = T.match_buffer(var_v_data, (num_hidden_layers, tokens, heads, head_dim), dtype)
        for i, h, d in T.grid(tokens, heads, head_dim):
            with T.block("read"):
                vi, vh, vd = T.axis.remap("SSS", [i, h, d])
                position: T.int32 = position_map[vi]
                k_data[layer_id, vi, vh, vd] = pages[position // size, 0, vh, position % size, vd]
                v_data[layer_id, vi, vh, vd] = pages[position // size, 1, vh, position % size, vd]

    return _kernel(tir_kv_cache_debug_get_kv, "tir_kv_cache_debug_get_kv")


def _copy_single_page_cpu(num_heads, page_size, head_dim, dtype):
    """Copy the first copy_length rows of a page to another page."""
    size = _size_of_pages(page_size)

    @T.prim_func
    def copy_single_page_cpu(var_pages: T.handle, src_page_id: T.int64, tgt_page_id: T.int64, copy_length: T.int64):
        T.func_attr({"tir.noalias": T.bool(True)})
        num_pages = T.int32()
        pages = T.match_buffer(var_pages, (num_pages, 2, num_heads, size, head_dim), dtype)
        for which, h, row, d in T.grid(2, num_heads, copy_length, head_dim):
            with T.block("copy"):
                vw, vh, vr, vd = T.axis.remap("SSSS", [which, h, row, d])
                pages[tgt_page_id, vw, vh, vr, vd] = pages[src_page_id, vw, vh, vr, vd]

    return _kernel(copy_single_page_cpu, "copy_single_page_cpu")


def _compact_kv_copy_cpu(num_heads, head_dim, dtype, page_size=16):
    """Copy rows of pages, of each sequence one after the other: copy_src_dst_pos [2, rows], positions from and to."""
    size = _size_of_pages(page_size)

    @T.prim_func
    def compact_kv_copy_cpu(var_pages: T.handle, var_copy_length_indptr: T.handle, var_copy_src_dst_pos: T.handle,
                            batch_size: T.int32):
        T.func_attr({"tir.noalias": T.bool(True)})
        num_pages = T.int32()
        rows = T.int32()
        starts = T.int32()
        pages = T.match_buffer(var_pages, (num_pages, 2, num_heads, size, head_dim), dtype)
        indptr = T.match_buffer(var_copy_length_indptr, (starts,), "int32")
        moves = T.match_buffer(var_copy_src_dst_pos, (2, rows), "int32")
        for b, h in T.grid(batch_size, num_heads):
            with T.block("move"):
                vb, vh = T.axis.remap("SS", [b, h])
                for i in T.serial(indptr[vb + 1] - indptr[vb]):
                    source: T.int32 = moves[0, indptr[vb] + i]
                    target: T.int32 = moves[1, indptr[vb] + i]
                    for which, d in T.grid(2, head_dim):
                        pages[target // size, which, vh, target % size, d] = pages[
                            source // size, which, vh, source % size, d]

    return _kernel(compact_kv_copy_cpu, "compact_kv_copy_cpu")


def _merge_state_inplace_cpu(v_dtype):
    """Put attentions over two parts of the keys together: v [tokens, heads, head size] and s [tokens, heads], its lse,
    become those over both."""
    @T.prim_func
    def merge_state_inplace_cpu(v: T.handle, s: T.handle, v_other: T.handle, s_other: T.handle):
        T.func_attr({"tir.noalias": T.bool(True)})
        tokens = T.int32()
        heads = T.int32()
        columns = T.int32()
        values = T.match_buffer(v, (tokens, heads, columns), v_dtype)
        lse = T.match_buffer(s, (tokens, heads), "float32")
        others = T.match_buffer(v_other, (tokens, heads, columns), v_dtype)
        other_lse = T.match_buffer(s_other, (tokens, heads), "float32")
        for n, h in T.grid(tokens, heads):
            with T.block("merge"):
                vn, vh = T.axis.remap("SS", [n, h])
                most: T.float32 = T.max(lse[vn, vh], other_lse[vn, vh])
                mine: T.float32 = T.exp2(lse[vn, vh] - most)
                its: T.float32 = T.exp2(other_lse[vn, vh] - most)
                for d in T.serial(columns):
                    values[vn, vh, d] = _cast((values[vn, vh, d].astype("float32") * mine + others[
                        vn, vh, d].astype("float32") * its) / (mine + its), values)
                lse[vn, vh] = T.log2(mine + its) + most

    return _kernel(merge_state_inplace_cpu, "merge_state_inplace_cpu")


_copy_single_page = of_target(_copy_single_page_cpu, 4, "_copy_single_page")
_compact_kv_copy = of_target(_compact_kv_copy_cpu, 3, "_compact_kv_copy")
_merge_state_inplace = of_target(lambda num_heads, head_dim, v_dtype, name=None: _kernel(
    _merge_state_inplace_cpu(v_dtype), name or "merge_state_inplace_cpu"), 3, "_merge_state_inplace")
