"""Convolutions, products, attention and norms for the external generator "cutlass"."""
from __future__ import annotations

from itertools import zip_longest

from .....ir.relax.expr import DataflowVar, ExternFunc, RelaxCall, RelaxVar
from .....ir.relax.patterns.forms import is_op, wildcard
from .....ir.relax.patterns.pattern import GlobalVarPattern, TuplePattern
from .....ir.transform.fuse_by_pattern import fuse_ops_by_pattern
from ..pattern_registry import get_patterns_with_prefix, register_patterns
from ..patterns import (make_attention_pattern, make_fused_bias_activation_pattern, make_layer_norm_pattern,
                        make_matmul_pattern, make_residual_block_pattern, make_rms_norm_pattern,
                        make_stacked_attention_pattern)
from ..utils import (dims_of, has_leaking_intermediate_variables, is_product_of_rows, known, product, same,
                     swaps_rows_and_columns)
from .workspace import with_workspace

_ACTIVATIONS = {f"_{name}": f"relax.nn.{name}" for name in ("relu", "gelu", "silu")}
_DTYPES = ({"float16"}, {"float32"}, {"int8"}, {"uint8"}, {"int8", "uint8"})


# ---------------------------------------------------------------- checks

def _depends(var, on, usages):
    """Whether a variable's value uses another, itself or through others."""
    seen, waiting = set(), [on]
    while waiting:
        user = waiting.pop()
        if user is var:
            return True
        if user not in seen:
            seen.add(user)
            waiting += usages.get(user, ())
    return False


def _residual_fits(context):
    """Whether the value `residual` of a match, where it has one, is of the result's shape or one number for each of its
    channels, and does not depend on the result."""
    found, root = context.annotated_expr, context.annotated_expr["root"]
    if "residual" not in found:
        return True
    residual = found["residual"]
    if not isinstance(residual, (RelaxVar, DataflowVar)):
        residual = context.value_to_bound_var.get(residual)
    if residual is None or _depends(residual, context.value_to_bound_var[root], context.var_usages):
        return False
    return _is_like(dims_of(residual), dims_of(root))


def _is_like(dims, out):
    """Whether dimensions are those of a result, or of a vector of its channels."""
    return bool(dims) and bool(out) and (
        len(dims) == len(out) and all(map(same, dims, out)) or _is_vector(dims, out[-1]))


def _is_vector(dims, size):
    return same(dims[-1], size) and all(known(d) and int(d) == 1 for d in dims[:-1])


def _dtypes(context, *names):
    return {str(context.annotated_expr[name].struct_info.dtype) for name in names}


def _check_conv2d(context):
    found = context.annotated_expr
    attrs, data, weight = found["root"].attrs, dims_of(found["lhs"]), dims_of(found["rhs"])
    if has_leaking_intermediate_variables(context) or not data or not weight or not all(map(known, data)):
        return False
    depthwise = int(data[-1]) == int(attrs["groups"]) and same(weight[0], data[-1])
    return (attrs["data_layout"], attrs["kernel_layout"]) == ("NHWC", "OHWI") and _dtypes(
        context, "lhs", "rhs") in _DTYPES and not depthwise and _residual_fits(context)


def is_shape_valid_for_cutlass_matmul(lhs_shape, rhs_shape):
    """Whether one stride between batches fits both sides: batches are alike, or one side has only one; and the depth is
    a number."""
    if not known(lhs_shape[-1]):
        return False
    if any(known(n) and int(n) == 1 for n in map(product, (lhs_shape[:-2], rhs_shape[:-2]))):
        return True
    return all(same(a, b) for a, b in zip_longest(lhs_shape[-3::-1], rhs_shape[-3::-1], fillvalue=1))


def _check_matmul(context):
    found = context.annotated_expr
    lhs, rhs = dims_of(found["lhs"]), dims_of(found["rhs"])
    if has_leaking_intermediate_variables(context) or not lhs or not rhs or min(len(lhs), len(rhs)) < 2:
        return False
    if not is_product_of_rows(found["root"]) or "transposed" in found and not swaps_rows_and_columns(
            found["transposed"], len(rhs)):
        return False
    return _dtypes(context, "lhs", "rhs") in _DTYPES and is_shape_valid_for_cutlass_matmul(
        lhs, rhs) and _residual_fits(context)


def _check_decode_matmul(context):
    """Whether a product's weights are made by a function called decode of bytes and scales of their columns."""
    found = context.annotated_expr
    root, packed, out = found["root"], found["w_encoded"], dims_of(found["root"])
    if has_leaking_intermediate_variables(context) or not out or not _residual_fits(context):
        return False
    foreign = packed.args[0] if isinstance(packed, RelaxCall) and packed.args else None
    prepared = not isinstance(foreign, ExternFunc) or foreign.global_symbol == "cutlass.ft_preprocess_weight"
    scales = dims_of(found["scales"])
    return prepared and str(root.struct_info.dtype) != "float32" and "decode" in found["w_decoded"].attrs[
        "gv"].name and _dtypes(context, "lhs", "scales") == {"float16"} and _dtypes(context, "w_encoded") == {
        "int8"} and bool(scales) and len(scales) <= 2 and same(scales[-1], out[-1]) and (
        "bias" not in found or _is_like(dims_of(found["bias"]), out))


def _check_stacked_attention(context):
    """Whether queries, keys and values follow one another along the last of three dimensions."""
    found, end = context.annotated_expr, 0
    if has_leaking_intermediate_variables(context) or found["stacked_qkv"].struct_info.ndim != 3:
        return False
    if "split" in found:
        return int(found["split"].attrs["axis"]) % 3 == 2
    for name in ("query", "key", "value"):
        attrs = found[f"strided_slice_{name}"].attrs
        axes, begin, stop, strides = ([int(v) for v in attrs[key] or ()] for key in ("axes", "begin", "end", "strides"))
        if [a % 3 for a in axes] != [2] or begin != [end] or len(stop) != 1 or strides not in ([], [1]):
            return False
        end = stop[0]
    return True


def _check_layer_norm(context):
    axes = context.matched_expr.attrs["axes"]
    axes = list(axes) if isinstance(axes, (list, tuple)) else [axes]
    ndim = context.matched_expr.struct_info.ndim
    return len(axes) == 1 and int(axes[0]) % ndim == ndim - 1


def _check_rms_norm(context):
    return "rms_norm" in context.annotated_expr["rms_norm"].attrs["gv"].name


# ---------------------------------------------------------------- rows

def _ends(*ends):
    """{end of a name: the settings of its pattern}."""
    return {end: {"with_bias": "_bias" in end, "activation": next(
        (a for mark, a in _ACTIVATIONS.items() if end.endswith(mark)), None)} for end in ends}


def conv2d_patterns():
    return [(f"cutlass.conv2d{end}", *make_fused_bias_activation_pattern("relax.nn.conv2d", **settings), _check_conv2d)
            for end, settings in _ends("", "_bias", "_bias_relu", "_bias_silu").items()]


def matmul_patterns():
    return [(f"cutlass.matmul{turned}{end}", *make_matmul_pattern(transposed_rhs=bool(turned), **settings),
             _check_matmul) for turned in ("", "_transposed")
            for end, settings in _ends("", "_bias", "_bias_relu", "_bias_gelu").items()]


def decode_matmul_patterns():
    return [_decode_matmul(name) for name in ("", "_bias", "_cast", "_cast_bias", "_bias_gelu", "_cast_bias_gelu")]


def _decode_matmul(end):
    x, packed, scales, bias = (wildcard() for _ in range(4))
    w = is_op("relax.call_tir")(GlobalVarPattern(), TuplePattern((packed, scales)))
    root = is_op("relax.matmul")(x, w)
    root = is_op("relax.astype")(root) if "_cast" in end else root
    parts = {"root": root, "lhs": x, "w_encoded": packed, "w_decoded": w, "scales": scales}
    out = is_op("relax.add")(root, bias) if "_bias" in end else root
    out = is_op("relax.nn.gelu")(out) if "_gelu" in end else out
    parts.update({"bias": bias} if "_bias" in end else {})
    return f"cutlass.decode_matmul{end}", out, parts, _check_decode_matmul


def residual_block_patterns():
    """What patterns with a bias give, with a further value; without a bias, that value is the bias."""
    return [(f"{name}_residual_{op}{end}", *make_residual_block_pattern((out, parts), f"relax.{op}", activation), check)
            for end, activation in (("", None), ("_relu", "relax.nn.relu"))
            for name, out, parts, check in (*conv2d_patterns(), *matmul_patterns(), *decode_matmul_patterns())
            if "bias" in name for op in ("add", "multiply")]


def attention_patterns():
    return [*((f"cutlass.attention{'_bias' if bias else ''}", *make_attention_pattern(bias)) for bias in (False, True)),
            *(("cutlass.stacked_attention", *make_stacked_attention_pattern(start, bias), _check_stacked_attention)
              for start in ("split", "strided_slice") for bias in (False, True))]


register_patterns([
    *conv2d_patterns(), *matmul_patterns(), *decode_matmul_patterns(), *residual_block_patterns(), *attention_patterns(),
    ("cutlass.layer_norm", *make_layer_norm_pattern(), _check_layer_norm),
    ("cutlass.rms_norm", *make_rms_norm_pattern(), _check_rms_norm),
])


def partition_for_cutlass(mod, annotate_codegen=True):
    """A module in which what CUTLASS has are functions for the generator "cutlass"; attention takes a workspace.
    annotate_codegen: as FuseOpsByPattern takes it."""
    return with_workspace(fuse_ops_by_pattern(mod, get_patterns_with_prefix("cutlass."), False, annotate_codegen),
                          "cutlass")


__all__ = ["is_shape_valid_for_cutlass_matmul", "partition_for_cutlass"]
