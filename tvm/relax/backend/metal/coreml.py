"""Operators for the external generator "coreml"."""
from __future__ import annotations

from .....ir.relax.patterns.forms import is_op, wildcard
from .....ir.transform.fuse_by_pattern import fuse_ops_by_pattern
from .....ir.transform.merge_composites import merge_composite_functions
from ..pattern_registry import get_patterns_with_prefix, register_patterns
from ..patterns import make_fused_bias_activation_pattern

_UNARY = ("nn.softmax", "nn.relu", "expand_dims", "nn.avg_pool2d")
_BINARY = ("add", "multiply", "nn.conv2d", "matmul")


def _unary(name):
    x = wildcard()
    root = is_op(f"relax.{name}")(x)
    return f"coreml.{name}", root, {"lhs": x, "root": root}


def _clip():
    parts = {f"arg{n}": wildcard() for n in range(3)}
    root = is_op("relax.clip")(*parts.values())
    return "coreml.clip", root, {**parts, "root": root}


register_patterns([
    *map(_unary, _UNARY), _clip(),
    *((f"coreml.{name}", *make_fused_bias_activation_pattern(f"relax.{name}")) for name in _BINARY),
])


def partition_for_coreml(mod):
    """A module in which operators that Core ML has, neighbours together, are functions for the generator "coreml"."""
    return merge_composite_functions(fuse_ops_by_pattern(mod, get_patterns_with_prefix("coreml."), True))


__all__ = ["partition_for_coreml"]
