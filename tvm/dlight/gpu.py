"""tvm.dlight.gpu: the rules for GPUs (ir/schedule/rules/gpu) by TVM's names."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """Names of rules, which are tried in this order."""

    rules: tuple


# TVM's name -> the rules that do the same
_ROWS = {
    "Matmul": ("tensor_core_product", "gpu_product"), "GEMV": ("rows",), "LowBatchGEMV": ("gpu_product", "rows"),
    "Reduction": ("rows",), "GeneralReduction": ("stepwise", "rows"), "RMSNorm": ("stepwise", "rows"),
    "Transpose": ("transpose",), "Fallback": ("points", "fallback"),
}


def _maker(name, rules):
    def make():
        return Rule(rules)
    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"The rule of {' or '.join(rules)}."
    return make


globals().update((name, _maker(name, rules)) for name, rules in _ROWS.items())
__all__ = ["Rule", *_ROWS]
