"""Patterns that the tables of several libraries share. Each function gives (pattern, {name: part of it}), which stand in
a row of such a table: (name, *make_matmul_pattern(with_bias=True), check)."""
from __future__ import annotations

from ....ir.relax.patterns.forms import is_const, is_op, is_tuple_get_item, wildcard
from ....ir.relax.patterns.pattern import GlobalVarPattern, TuplePattern

_HEADS = {"split": ("split",), "strided_slice": tuple(f"strided_slice_{x}" for x in ("query", "key", "value"))}


def make_fused_bias_activation_pattern(op_name, with_bias=False, activation=None):
    """An operator of two tensors (lhs, rhs, root), with a bias and an activation where asked."""
    return _of_two(op_name, ("lhs", "rhs"), with_bias, activation)


def make_conv2d_pattern(with_bias=False, activation=None):
    """A convolution (input, weight, root), with a bias and an activation where asked."""
    return _of_two("relax.nn.conv2d", ("input", "weight"), with_bias, activation)


def make_matmul_pattern(with_bias=False, activation=None, transposed_rhs=False):
    """A product (lhs, rhs, root; rhs before it is transposed), with a bias and an activation where asked."""
    return _of_two("relax.matmul", ("lhs", "rhs"), with_bias, activation, transposed_rhs)


def make_residual_block_pattern(node_output, binary_op="relax.add", activation=None):
    """What another pattern, or (pattern, its parts), gives, in a binary operator with a value `residual`."""
    inner, parts = node_output if isinstance(node_output, tuple) else (node_output, {})
    residual, op = wildcard(), is_op(binary_op)
    out = op(inner, residual) | op(residual, inner)
    return is_op(activation)(out) if activation else out, {**parts, "residual": residual}


def make_attention_pattern(with_bias=False, var_len=False):
    """Attention of heads (query, key, value, and bias where asked)."""
    names = ["query", "key", "value", *(["bias"] if with_bias else [])]
    if var_len:
        names = [*names[:3], "seqstart_q", "seqstart_k", "max_seqlen_q", "max_seqlen_k"]
    parts = {name: wildcard() for name in names}
    return is_op(f"relax.nn.attention{'_var_len' if var_len else ''}")(*parts.values()), parts


def make_stacked_attention_pattern(start_op, with_bias=False, layout="BS3NH"):
    """Attention of heads that stand in one tensor, stacked_qkv, which "split" or "strided_slice" takes apart. layout:
    "BS3NH", each part is reshaped to heads, or "SBN3H", each is permuted, and so is the result. ValueError for others.
    """
    if start_op not in _HEADS or layout not in ("BS3NH", "SBN3H"):
        raise ValueError(f"start_op is one of {list(_HEADS)}, layout BS3NH or SBN3H; not {start_op!r}, {layout!r}")
    stacked, parts = wildcard(), {}
    if start_op == "split":
        parts["split"] = whole = is_op("relax.split")(stacked)
        heads = [is_tuple_get_item(whole, n) for n in range(3)]
    else:
        heads = [is_op("relax.strided_slice")(stacked, varg_default_wildcard=True) for _ in range(3)]
        parts.update(zip(_HEADS[start_op], heads))
    if layout == "BS3NH":
        shapes = {f"{x}_reshape_list": wildcard() for x in ("query", "key", "value")}
        heads = [is_op("relax.reshape")(h, s) for h, s in zip(heads, shapes.values())]
        parts.update(shapes)
    else:
        heads = [is_op("relax.permute_dims")(h) for h in heads]
        parts.update(zip(("q_transpose", "k_transpose", "v_transpose"), heads))
    bias = {"bias": wildcard()} if with_bias else {}
    out = is_op("relax.nn.attention")(*heads, *bias.values())
    if layout == "SBN3H":
        out = is_op("relax.permute_dims")(out)
    return out, {"stacked_qkv": stacked, **parts, **bias}


def make_layer_norm_pattern():
    return is_op("relax.nn.layer_norm")(wildcard(), wildcard(), wildcard()), {}


def make_rms_norm_pattern():
    """A call of a PrimFunc of a tensor and its weights (gv, inp, rms_norm)."""
    gv, inp = GlobalVarPattern(), wildcard()
    out = is_op("relax.call_tir")(gv, TuplePattern((inp, wildcard())))
    return out, {"gv": gv, "inp": inp, "rms_norm": out}


def make_matmul_dequantize_pattern(transposed_rhs=False):
    """A product that is dequantized by constants, scale and zp."""
    product, parts = make_matmul_pattern(transposed_rhs=transposed_rhs)
    scale, zp = is_const(), is_const()
    return is_op("relax.dequantize")(product, scale, zp), {**parts, "scale": scale, "zp": zp}


def make_matmul_multiply_pattern(transposed_rhs=False):
    """A product times the product of two scales of shape (1,), scaleA and scaleB, as another dtype."""
    product, parts = make_matmul_pattern(transposed_rhs=transposed_rhs)
    a, b = wildcard(), wildcard()
    scale = is_op("relax.multiply")(a.has_shape((1,)), b.has_shape((1,)))
    out = is_op("relax.astype")(is_op("relax.multiply")(product, scale))
    return out, {**parts, "scaleA": a, "scaleB": b}


def _of_two(op_name, names, with_bias, activation, transposed=False):
    a, b = wildcard(), wildcard()
    turned = {"transposed": is_op("relax.permute_dims")(b)} if transposed else {}
    root = is_op(op_name)(a, turned.get("transposed", b))
    parts, out = {**dict(zip(names, (a, b))), "root": root, **turned}, root
    if with_bias:
        parts["bias"] = wildcard()
        out = is_op("relax.add")(out, parts["bias"])
    return is_op(activation)(out) if activation else out, parts


__all__ = [name for name in globals() if name.startswith("make_")]
