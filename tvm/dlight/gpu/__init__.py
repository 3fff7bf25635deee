"""tvm.dlight.gpu: rules for GPUs by TVM's names: some of this package, the others those of ir/schedule/rules/gpu."""
from __future__ import annotations

from ..rules import Named
from .base import GPUScheduleRule
from .fallback import Fallback
from .general_reduction import GeneralReduction
from .reduction import Reduction
from .rms_norm import RMSNorm
from .transpose import Transpose

# TVM's name -> the rules that do the same
_ROWS = {"Matmul": ("tensor_core_product", "gpu_product"), "GEMV": ("rows",)}


class LowBatchGEMV(GPUScheduleRule, Named):
    """Products of few rows, by the rule that fits. bucket: accepted; the rule sees itself how many rows there are."""

    names = ("gpu_product", "rows")

    def __init__(self, bucket=4):
        self.bucket = bucket


def _named(name, rules):
    return type(name, (GPUScheduleRule, Named), {"names": rules, "__doc__": f"The rule of {' or '.join(rules)}."})


globals().update((name, _named(name, rules)) for name, rules in _ROWS.items())

__all__ = ["Fallback", "GPUScheduleRule", "GeneralReduction", "LowBatchGEMV", "RMSNorm", "Reduction", "Transpose", *_ROWS]
