"""Rotary position embeddings (RoPE): the angles by kinds of scaling, and PrimFuncs that rotate queries and keys by them.

A kind is a function of (position s, column d, rotated columns d_range, theta, dtype, what the kind has of its own). It
gives the cosine and the sine of the angle, and {variable: its value} of what both use, inner ones first.
"""
from __future__ import annotations

import math
from functools import partial

from ....ir.expr import Let, Var, const
from ....ir.script import functions  # noqa: F401  T.prim_func is there with it
from ....ir.script.tir_names import T
from ....ir.tir import intrin
from ..op_calls import tensor_ir_op
from ..tensor import Tensor


def _powers(theta, d, d_range):
    """theta ** (2 d mod d_range / d_range): what a position is divided by."""
    return intrin.power(const(theta, "float32") if isinstance(theta, (int, float)) else theta,
                        (d * 2 % d_range).astype("float32") / const(d_range, "float32"))


def _waves(angle, dtype, scale=None, before=()):
    """What a kind returns for an angle; scale: of both waves; before: variables that the angle uses."""
    freq = Var("freq", "float32")
    waves = [wave if scale is None else wave * const(scale, "float32") for wave in (intrin.cos(freq), intrin.sin(freq))]
    return *(wave.astype(dtype) for wave in waves), {freq: angle, **dict(before)}


def _as_float(s):
    return s.astype("float32") if hasattr(s, "astype") else const(s, "float32")


def rope_freq_default(s, d, d_range, theta, dtype):
    """The angle s / theta ** (2 d / d_range); columns d and d + d_range / 2 are a pair."""
    return _waves(_as_float(s) / _powers(theta, d, d_range), dtype)


def rope_freq_gptj(s, d, d_range, theta, dtype):
    """The same, where columns 2 k and 2 k + 1 are a pair."""
    return _waves(_as_float(s) / _powers(theta, d // 2, d_range), dtype)


def rope_freq_llama3(s, d, d_range, theta, dtype, factor, low_freq_factor, high_freq_factor,
                     original_max_position_embeddings):
    """Llama 3: slow angles are divided by `factor`, fast ones stay, between the two factors it goes over smoothly."""
    whole = Var("orig_freq", "float32")
    width = high_freq_factor - low_freq_factor
    smooth = whole * const(original_max_position_embeddings / (2 * math.pi * width), "float32") - const(
        low_freq_factor / width, "float32")
    smooth = intrin.max(const(0.0, "float32"), intrin.min(const(1.0, "float32"), smooth))
    angle = _as_float(s) * ((const(1.0, "float32") - smooth) * whole * const(1.0 / factor, "float32") + smooth * whole)
    return _waves(angle, dtype, before={whole: const(1.0, "float32") / _powers(theta, d, d_range)})


def rope_freq_longrope(s, d, d_range, theta, dtype, max_position_embeddings, original_max_position_embeddings,
                       ext_factors=None):
    """LongRoPE: each column has a factor of its own, ext_factors[d_range / 2], and both waves grow with the context."""
    longer = max_position_embeddings / original_max_position_embeddings
    scale = math.sqrt(1 + math.log(longer) / math.log(original_max_position_embeddings)) if longer > 1.0 else 1.0
    divisor = _powers(theta, d, d_range)
    if ext_factors is not None:
        divisor = ext_factors[d % (d_range // 2)] * divisor
    return _waves(_as_float(s) / divisor, dtype, scale)


def yarn_find_correction_dim(num_rotations, d, theta, max_position_embeddings):
    """Of d columns, the one whose angle turns so often within the context."""
    return d * math.log(max_position_embeddings / (num_rotations * 2 * math.pi)) / (2 * math.log(theta))


def yarn_find_correction_range(low_rot, high_rot, d, theta, max_position_embeddings):
    """Between which of d columns YaRN goes over from angles as they are to slower ones."""
    low, high = (yarn_find_correction_dim(n, d, theta, max_position_embeddings) for n in (low_rot, high_rot))
    return max(math.floor(low), 0), min(math.ceil(high), d - 1)


def rope_freq_yarn(s, d, d_range, theta, dtype, original_max_position_embeddings, scaling_factor, beta_fast, beta_slow):
    """YaRN: between two columns the angles go over from theirs to ones divided by scaling_factor."""
    low, high = yarn_find_correction_range(beta_fast, beta_slow, d_range, theta, original_max_position_embeddings)
    high = high + 0.001 if low == high else high
    whole = Var("orig_freq", "float32")
    column = (d % (d_range // 2)).astype("float32")
    slow = intrin.max(intrin.min((column - const(low, "float32")) / const(high - low, "float32"),
                                 const(1.0, "float32")), const(0.0, "float32"))
    angle = _as_float(s) * (whole / const(scaling_factor, "float32") * slow + whole * (const(1.0, "float32") - slow))
    return _waves(angle, dtype, before={whole: const(1.0, "float32") / _powers(theta, d, d_range)})


_LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
_KINDS = {  # rope_type -> (function, {its argument: the key of rope_scaling})
    "default": (rope_freq_default, {}), "gptj": (rope_freq_gptj, {}),
    "llama3": (rope_freq_llama3, {k: k for k in _LLAMA3}),
    "longrope": (rope_freq_longrope, {k: k for k in ("max_position_embeddings", "original_max_position_embeddings")}),
    "yarn": (rope_freq_yarn, {"original_max_position_embeddings": "original_max_position_embeddings",
                              "scaling_factor": "factor", "beta_fast": "beta_fast", "beta_slow": "beta_slow"}),
}


def switch_rope_freq_func(rope_scaling):
    """The function of the kind that rope_scaling["rope_type"] names, with what rope_scaling says; {} is the default.

    Raises ValueError for an unknown kind, and where the kind needs what rope_scaling lacks.
    """
    kind = rope_scaling.get("rope_type", "default")
    if kind not in _KINDS:
        raise ValueError(f"Unsupported RoPE scaling type: {kind}; there are {', '.join(_KINDS)}")
    function, keys = _KINDS[kind]
    missing = [k for k in keys.values() if k not in rope_scaling]
    if missing:
        raise ValueError(f"RoPE scaling {kind} needs {', '.join(missing)} in rope_scaling")
    return partial(function, **{arg: rope_scaling[key] for arg, key in keys.items()})


def rotated(x, place, position, rotary_dim, theta, rope_scaling, **more):
    """Element place of buffer x, rotated by its position, as float32. place: indices, the column last."""
    *rows, d = place
    cos, sin, values = switch_rope_freq_func(rope_scaling)(position, d, rotary_dim, theta, "float32", **more)
    if rope_scaling.get("rope_type") == "gptj":
        first, far = d % 2 == 0, 1
    else:
        first, far = d < rotary_dim // 2, rotary_dim // 2
    other = intrin.if_then_else(first, -x[(*rows, d + far)], x[(*rows, d - far)])
    turned = cos * x[tuple(place)].astype("float32") + sin * other.astype("float32")
    for var, value in values.items():
        turned = Let(var, value, turned)
    return turned


def _maybe_rotated(x, place, position, columns, theta, scaling, turns=None, **more):
    """Element place of x, as it is beyond the rotated columns and where `turns` does not hold."""
    inside = place[-1] < columns if turns is None else intrin.all(turns, place[-1] < columns)
    return intrin.if_then_else(inside, rotated(x, place, position, columns, theta, scaling, **more).astype(x.dtype),
                               x[tuple(place)])


def llama_rope(qkv, total_seq_len, theta, scale, num_q_heads, num_kv_heads, rope_scaling, rotary_dim=None):
    """(q, k, v) of qkv [batch, seq, q heads + 2 kv heads, head size], q and k rotated; positions end at total_seq_len.

    scale: what positions are multiplied by; rotary_dim: the first columns, that are rotated (all unless given). Raises
    ValueError for other heads than qkv has.
    """
    batch, seq, heads, size = qkv.shape
    if heads != num_q_heads + num_kv_heads * 2:
        raise ValueError(f"llama_rope: qkv has {heads} heads, not {num_q_heads} and twice {num_kv_heads}")
    dtype, columns = qkv.dtype, rotary_dim or size
    scale, keys_end = const(scale, "float32"), num_q_heads + num_kv_heads

    def value(x, b, s, h, d, offset):
        return _maybe_rotated(x, (b, s, h, d), _as_float(s + offset) * scale, columns, theta, rope_scaling)

    @T.prim_func(private=True)
    def fused_rope(var_qkv: T.handle, var_q: T.handle, var_k: T.handle, var_v: T.handle, total_seq_len: T.int64):
        T.func_attr({"op_pattern": 8, "tir.noalias": T.bool(True)})
        batch_size = T.int64()
        seq_len = T.int64()
        x = T.match_buffer(var_qkv, (batch_size, seq_len, heads, size), dtype)
        q = T.match_buffer(var_q, (batch_size, seq_len, num_q_heads, size), dtype)
        k = T.match_buffer(var_k, (batch_size, seq_len, num_kv_heads, size), dtype)
        v = T.match_buffer(var_v, (batch_size, seq_len, num_kv_heads, size), dtype)
        for i, j, m, n in T.grid(batch_size, seq_len, heads, size):
            with T.block("llama_fused_rope"):
                b, s, h, d = T.axis.remap("SSSS", [i, j, m, n])
                if h < num_q_heads:
                    q[b, s, h, d] = value(x, b, s, h, d, total_seq_len - seq_len)
                elif h < keys_end:
                    k[b, s, h - num_q_heads, d] = value(x, b, s, h, d, total_seq_len - seq_len)
                else:
                    v[b, s, h - keys_end, d] = x[b, s, h, d]

    return tensor_ir_op(fused_rope, "llama_rope", [qkv, total_seq_len], (
        Tensor.placeholder((batch, seq, num_q_heads, size), dtype),
        *(Tensor.placeholder((batch, seq, num_kv_heads, size), dtype) for _ in range(2))))


def llama_rope_with_position_map(theta, scale, head_dim, num_q_heads, num_kv_heads, dtype, rope_scaling,
                                 rotary_dim=None):
    """The PrimFunc (qkv [n, q heads + 2 kv heads, head size], positions [n], q, k, v, apply_rope) that takes qkv apart,
    q and k rotated by positions where apply_rope is not 0.

    With rope_type "longrope" the last argument is ext_factors [head size / 2] in its place, and all is rotated.
    """
    heads, columns, keys_end = num_q_heads + num_kv_heads * 2, rotary_dim or head_dim, num_q_heads + num_kv_heads
    scale = const(scale, "float32")

    def value(x, s, h, d, position, turns=None, **more):
        return _maybe_rotated(x, (s, h, d), _as_float(position) * scale, columns, theta, rope_scaling, turns, **more)

    @T.macro
    def split(x, q, k, v, positions, count, made):
        for i, m, n in T.grid(count, heads, head_dim):
            with T.block("llama_fused_rope"):
                s, h, d = T.axis.remap("SSS", [i, m, n])
                if h < num_q_heads:
                    q[s, h, d] = made(x, s, h, d, positions[s])
                elif h < keys_end:
                    k[s, h - num_q_heads, d] = made(x, s, h, d, positions[s])
                else:
                    v[s, h - keys_end, d] = x[s, h, d]

    if rope_scaling.get("rope_type") == "longrope":
        @T.prim_func
        def fused_rope_longrope_scaling(var_qkv: T.handle, var_position_map: T.handle, var_q: T.handle, var_k: T.handle,
                                        var_v: T.handle, ext_factors: T.Buffer((head_dim // 2,), "float32")):
            T.func_attr({"op_pattern": 8, "tir.noalias": T.bool(True)})
            seq_len = T.int32()
            x = T.match_buffer(var_qkv, (seq_len, heads, head_dim), dtype)
            q = T.match_buffer(var_q, (seq_len, num_q_heads, head_dim), dtype)
            k = T.match_buffer(var_k, (seq_len, num_kv_heads, head_dim), dtype)
            v = T.match_buffer(var_v, (seq_len, num_kv_heads, head_dim), dtype)
            position_map = T.match_buffer(var_position_map, (seq_len,), "int32")
            split(x, q, k, v, position_map, seq_len, partial(value, ext_factors=ext_factors))
        return fused_rope_longrope_scaling

    @T.prim_func
    def fused_rope(var_qkv: T.handle, var_position_map: T.handle, var_q: T.handle, var_k: T.handle, var_v: T.handle,
                   apply_rope: T.int32):
        T.func_attr({"op_pattern": 8, "tir.noalias": T.bool(True)})
        seq_len = T.int32()
        x = T.match_buffer(var_qkv, (seq_len, heads, head_dim), dtype)
        q = T.match_buffer(var_q, (seq_len, num_q_heads, head_dim), dtype)
        k = T.match_buffer(var_k, (seq_len, num_kv_heads, head_dim), dtype)
        v = T.match_buffer(var_v, (seq_len, num_kv_heads, head_dim), dtype)
        position_map = T.match_buffer(var_position_map, (seq_len,), "int32")
        split(x, q, k, v, position_map, seq_len, partial(value, turns=apply_rope > 0))
    return fused_rope


__all__ = ["llama_rope", "llama_rope_with_position_map", "rope_freq_default", "rope_freq_gptj", "rope_freq_llama3",
           "rope_freq_longrope", "rope_freq_yarn", "rotated", "switch_rope_freq_func", "yarn_find_correction_dim",
           "yarn_find_correction_range"]
