"""Convolutions and stacked attention for the external generator "cudnn"."""
from __future__ import annotations

from functools import partial

from .....ir.transform.fuse_by_pattern import fuse_ops_by_pattern
from ..pattern_registry import get_patterns_with_prefix, register_patterns
from ..patterns import make_conv2d_pattern, make_stacked_attention_pattern
from ..utils import has_leaking_intermediate_variables
from .workspace import with_workspace

_LAYOUTS = {("NHWC", "OHWI"), ("NCHW", "OIHW")}
_STACKED = {"BS3NH": (3, 2), "SBN3H": (4, 3)}  # layout -> (dimensions, axis along which it is split)


def _check_conv2d(context):
    found = context.annotated_expr
    dtypes = {str(found[name].struct_info.dtype) for name in ("input", "weight")}
    attrs = found["root"].attrs
    return not has_leaking_intermediate_variables(context) and dtypes in ({"float16"}, {"float32"}) and (
        attrs["data_layout"], attrs["kernel_layout"]) in _LAYOUTS


def _check_stacked_attention(context, layout):
    ndim, axis = _STACKED[layout]
    found = context.annotated_expr
    return not has_leaking_intermediate_variables(context) and found["stacked_qkv"].struct_info.ndim == ndim and (
        "split" not in found or int(found["split"].attrs["axis"]) % ndim == axis)


register_patterns([
    *((f"cudnn.conv2d.nhwc_ohwi{end}", *make_conv2d_pattern(**settings), _check_conv2d) for end, settings in (
        ("", {}), ("_bias", {"with_bias": True}),
        ("_bias_relu", {"with_bias": True, "activation": "relax.nn.relu"}))),
    *((f"cudnn.attention.{layout}", *make_stacked_attention_pattern("split", layout=layout),
       partial(_check_stacked_attention, layout=layout)) for layout in _STACKED),
])


def partition_for_cudnn(mod):
    """A module in which what cuDNN has are functions for the generator "cudnn"; attention takes a workspace."""
    return with_workspace(fuse_ops_by_pattern(mod, get_patterns_with_prefix("cudnn."), False, annotate_codegen=True),
                          "cudnn")


__all__ = ["partition_for_cudnn"]
