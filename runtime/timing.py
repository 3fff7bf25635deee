"""Timing: seconds of repeated runs, and what is said of them."""
from __future__ import annotations

import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds of repeated runs."""

    times: tuple[float, ...]

    @property
    def median(self):
        return statistics.median(self.times)

    @property
    def mean(self):
        return statistics.fmean(self.times)

    @property
    def min(self):
        return min(self.times)

    @property
    def max(self):
        return max(self.times)

    @property
    def std(self):
        return statistics.pstdev(self.times)

    def __str__(self):
        return f"median {self.median * 1e3:.3f} ms, min {self.min * 1e3:.3f} ms, {len(self.times)} runs"
