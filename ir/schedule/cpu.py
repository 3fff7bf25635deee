"""What the schedule rules know about a CPU, as data."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CpuModel:
    """lanes: float32 per vector register, 1 without SIMD. registers: vector registers. l1_bytes: data cache of a core."""

    lanes: int = 16
    registers: int = 32
    l1_bytes: int = 32 * 1024
    parallel: bool = True
