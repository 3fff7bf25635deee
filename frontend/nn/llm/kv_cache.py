"""The cache of keys and values of many texts in pages, as modules use it: methods take a PagedKVCache, a function makes
one (TIRPagedKVCache), and a script runs the steps by vm.builtin.kv_state_* (runtime/paged_cache.py)."""
from __future__ import annotations

import enum

from ....ir.expr import const
from ....ir.relax import op as relax_op
from ....ir.relax.expr import PrimValue, RelaxString, RelaxTuple, ShapeExpr, TupleGetItem, call_dps_packed
from ....ir.relax.struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo
from ..tensor import Object, Tensor, builder
from .attention import (CPU_KINDS, _attention_decode, _attention_decode_cpu, _attention_prefill,  # noqa: F401
                        _attention_prefill_cpu, _attention_prefill_ragged, _attention_prefill_ragged_cpu)
from .page_kernels import (_compact_kv_copy, _compact_kv_copy_cpu, _copy_single_page, _copy_single_page_cpu,  # noqa: F401
                           _kv_cache_debug_get_kv, _kv_cache_transpose_append, _merge_state_inplace,
                           _merge_state_inplace_cpu)
from .position_embedding import llama_rope_with_position_map
from .tree_attn import tree_attn, tree_attn_cpu  # noqa: F401
from .tree_attn import tree_attn_with_paged_kv_cache, tree_attn_with_paged_kv_cache_cpu  # noqa: F401

_CACHE = "vm.builtin.attention_kv_cache_"  # runtime/paged_cache.py


class AttnKind(enum.IntEnum):
    """MHA: attention of heads, groups of which may share keys and values; MLA: multi-head latent attention."""

    MHA = 0
    MLA = 1


class RopeMode(enum.IntEnum):
    """Where positions are rotated in: nowhere (NONE), before keys are added to the cache (NORMAL), in attention
    (INLINE)."""

    NONE = 0
    NORMAL = 1
    INLINE = 2


class PagedKVCache(Object):
    """The keys and values of all layers and sequences, an object of the virtual machine.

    Tensors are [batch, seq, heads, head size], of all tokens of a step in order: a prefill has batch 1 and the tokens of
    all sequences one after the other, a decode one token of each.
    """

    extern_mods = []

    def attention_with_fused_qkv(self, layer_id, qkv, num_qo_heads, sm_scale):
        """Rotate queries and keys in qkv, whose heads are those of q, k and v, add keys and values to the cache, and give
        the attention of each token over all before it, [batch, seq, query heads, head size]. sm_scale: of scores."""
        batch, seq, heads, size = qkv._expr.struct_info.shape
        flat = qkv.reshape(batch * seq, heads, size)
        out = self._call("attention_with_fused_qkv", layer_id, sm_scale, [flat],
                         TensorStructInfo((batch * seq, num_qo_heads, size), qkv.dtype))
        return Tensor(_expr=out).reshape(batch, seq, num_qo_heads, size)

    def self_attention(self, layer_id, q, k, v, sm_scale):
        """(attention, lse [batch, seq, heads]) of the tokens of the step over themselves: each over those before it."""
        return self._attention("self_attention", layer_id, sm_scale, [q, k, v], v._expr.struct_info.shape[-1])

    def cross_attention(self, layer_id, q, v_head_dim, sm_scale):
        """(attention, lse [batch, seq, heads]) of the tokens of the step over what earlier steps have added."""
        return self._attention("cross_attention", layer_id, sm_scale, [q], v_head_dim)

    def _attention(self, name, layer_id, sm_scale, tensors, v_size):
        batch, seq, heads, _ = tensors[0]._expr.struct_info.shape
        flat = [t.reshape(batch * seq, *t.shape[2:]) for t in tensors]
        infos = (TensorStructInfo((batch * seq, heads, v_size), tensors[0].dtype),
                 TensorStructInfo((batch * seq, heads), "float32"))
        return self._both(self._call(name, layer_id, sm_scale, flat, TupleStructInfo(infos)), batch, seq)

    def _both(self, pair, batch, seq):
        out, lse = (Tensor(_expr=builder().emit(TupleGetItem(pair, n))) for n in (0, 1))
        return out.reshape(batch, seq, *out.shape[1:]), lse.reshape(batch, seq, lse.shape[1])

    def _call(self, name, layer_id, sm_scale, tensors, info):
        return builder().emit(call_dps_packed(_CACHE + name, [
            self._expr, PrimValue(layer_id), PrimValue(const(float(sm_scale), "float64")), *(t._expr for t in tensors)], info))

    def append_mla_kv(self, layer_id, kv):
        """Of MLA, which is not there: NotImplementedError."""
        raise NotImplementedError("append_mla_kv adds keys and values of multi-head latent attention (MLA), which is not "
                                  "there: use attention_with_fused_qkv, or self_attention and cross_attention")

    def merge_attn_output_inplace(self, o_self_attn, lse_self_attn, o_cross_attn, lse_cross_attn):
        """(attention, lse) over the keys of both; the memory of the first two may be theirs."""
        batch, seq = o_self_attn._expr.struct_info.shape[:2]
        flat = [t.reshape(batch * seq, *t.shape[2:])._expr
                for t in (o_self_attn, lse_self_attn, o_cross_attn, lse_cross_attn)]
        pair = builder().emit(relax_op.call_pure_packed(
            _CACHE + "merge_attn_output_inplace", self._expr, *flat,
            sinfo_args=TupleStructInfo(tuple(e.struct_info for e in flat[:2]))))
        return self._both(pair, batch, seq)

    def get_query_positions(self, total_length):
        """Where the tokens of the step are in their sequences: int32 [total_length]."""
        return Tensor(_expr=builder().emit(relax_op.call_pure_packed(
            _CACHE + "get_query_positions", self._expr, sinfo_args=TensorStructInfo((total_length,), "int32"))))


class FlashInferPagedKVCache(PagedKVCache):
    """Of FlashInfer's kernels for CUDA, which are not there: NotImplementedError."""

    def __init__(self, *_, **__):
        raise NotImplementedError("FlashInfer's kernels are not there: TIRPagedKVCache has kernels for CPUs")


class TIRPagedKVCache(PagedKVCache):
    """A new cache, whose kernels are PrimFuncs of the module that is being built.

    max_batch_size: the most sequences in a step; max_total_seq_len: rows of all sequences; prefill_chunk_size: the most
    tokens in a step; page_size: rows of a page; support_sliding_window: 0 or 1; all numbers or variables of int64.
    layer_partition: a ShapeExpr (0, layers). rope_*: see position_embedding; rope_ext_factors: None, or a tensor
    [head size / 2] where rope_scaling is of the kind "longrope". mla_original_*: nothing. Raises NotImplementedError for
    attn_kind "mla", for other targets than the CPU's, and for enable_disaggregation.
    """

    def __init__(self, attn_kind, max_batch_size, max_total_seq_len, prefill_chunk_size, page_size,
                 support_sliding_window, layer_partition, num_hidden_layers, num_attention_heads, num_key_value_heads,
                 qk_head_dim, v_head_dim, mla_original_qk_head_dim, mla_original_v_head_dim, rope_mode, rope_scale,
                 rope_theta, rope_scaling, rope_ext_factors, rotary_dim, enable_disaggregation, dtype, target,
                 name="paged_kv_cache"):
        if attn_kind != "mha":
            raise NotImplementedError(f"attn_kind {attn_kind!r}: paged KV caches are of multi-head attention, 'mha'")
        if str(getattr(target, "kind", target)) not in CPU_KINDS:
            raise NotImplementedError(f"paged KV caches have kernels for CPUs, not for target {target}")
        if enable_disaggregation:
            raise NotImplementedError("enable_disaggregation: a paged KV cache of one process transfers nothing")
        if v_head_dim != qk_head_dim:
            raise NotImplementedError(f"keys of {qk_head_dim} and values of {v_head_dim} columns: in pages both have as "
                                      "many")
        if rope_mode == RopeMode.INLINE and rotary_dim != qk_head_dim:
            raise ValueError(f"RopeMode.INLINE rotates whole heads of {qk_head_dim} columns, not {rotary_dim}: use "
                             "RopeMode.NORMAL")
        kv, heads, size = num_key_value_heads, num_attention_heads, qk_head_dim
        page = page_size if isinstance(page_size, int) else None
        add, scaling = builder().add_func, rope_scaling or {}

        def kernel(func, name):
            return RelaxTuple((RelaxString("tir"), add(func, name)))

        args = [
            ShapeExpr((max_batch_size, max_total_seq_len, prefill_chunk_size, page_size, support_sliding_window)),
            layer_partition, *map(PrimValue, (heads, kv, size, v_head_dim)),
            ShapeExpr((int(AttnKind.MHA),) * num_hidden_layers), PrimValue(False), PrimValue(int(rope_mode)),
            *(PrimValue(const(float(x), "float64")) for x in (rope_scale, rope_theta)),
            PrimValue(0) if rope_ext_factors is None else rope_ext_factors, relax_op.zeros((), dtype),
            add(_kv_cache_transpose_append(kv, size, dtype, page), "kv_cache_transpose_append"), PrimValue(0),
            kernel(_attention_prefill_ragged_cpu(kv, heads, size, v_head_dim, dtype, scaling),
                   "tir_attention_prefill_ragged_cpu"),
            *(kernel(make(kv, heads, size, dtype, window, scaling, page), f"tir_attention_{kind}_cpu{after}")
              for window, after in ((False, ""), (True, "_sliding_window"))
              for make, kind in ((_attention_prefill_cpu, "prefill"), (_attention_decode_cpu, "decode"))),
            kernel(tree_attn_with_paged_kv_cache_cpu(kv, heads, size, dtype, scaling, page),
                   "tir_attention_prefill_with_tree_mask_with_paged_kv_cache_cpu"),
            kernel(tree_attn_cpu(kv, heads, size, dtype, scaling), "tir_attention_prefill_with_tree_mask_cpu"),
            RelaxTuple(()), RelaxTuple((add(_merge_state_inplace_cpu(dtype), "tir_attention_merge_state_cpu"),)),
            add(llama_rope_with_position_map(rope_theta, rope_scale, size, heads, kv, dtype, scaling, rotary_dim),
                "tir_split_rotary"),
            add(_copy_single_page_cpu(kv, page, size, dtype), "kv_cache_copy_single_page_cpu"),
            add(_kv_cache_debug_get_kv(num_hidden_layers, kv, size, dtype), "kv_cache_debug_get_kv"),
            add(_compact_kv_copy_cpu(kv, size, dtype, page), "kv_cache_compact_kv_copy_cpu"),
        ]
        super().__init__(_expr=relax_op.call_pure_packed("vm.builtin.paged_attention_kv_cache_create", *args,
                                                         sinfo_args=ObjectStructInfo()), _name=name)


__all__ = ["AttnKind", "FlashInferPagedKVCache", "PagedKVCache", "RopeMode", "TIRPagedKVCache"]
