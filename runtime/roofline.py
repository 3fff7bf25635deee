"""The limits of this machine, measured: multiply-adds per second, and bytes per second that are read."""
from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import cffi

from ..codegen.package import RUNTIME
from ..codegen.target import Target
from ..codegen.toolchain import build_shared
from . import openmp
from .binding import aligned_empty

WORKING_SETS = tuple(n << 18 for n in (1, 4, 6, 16, 64, 512))  # bytes
SAMPLE_SECONDS, SAMPLES = 0.001, 30  # short, so that some are not disturbed

_CDEF = """
int64_t ingot_multiply_adds(float *out, int64_t times);
void ingot_read(const float *data, int64_t count, float *out, int64_t times);
"""


@dataclass(frozen=True)
class Roofline:
    """peak: floating-point operations per second, a multiply-add being 2; reads: ((bytes of a working set, bytes per
    second), ...), growing. Of all threads together."""

    peak: float
    reads: tuple

    def bandwidth(self, working_set):
        """Bytes per second that are read of `working_set` bytes: those of the next larger one measured."""
        return next((rate for size, rate in self.reads if working_set <= size), self.reads[-1][1])

    def seconds(self, flops, weights, activations, all_weights):
        """The least time of a kernel of so many operations that reads `weights` bytes of a network's `all_weights`,
        which pass once per run, and touches `activations` bytes, which lie in the nearest cache that holds them."""
        memory = weights / self.bandwidth(all_weights) + activations / self.bandwidth(activations)
        return max(flops / self.peak, memory)

    def __str__(self):
        reads = ", ".join(f"{rate / 1e9:.0f} GB/s of {_size(size)}" for size, rate in self.reads)
        return f"{self.peak / 1e9:.0f} GFLOP/s, reading {reads}"


def _size(size):
    return f"{size / 2 ** 20:g} MiB"


@lru_cache(maxsize=None)
def measure_roofline(target="host", threads="none"):
    """The Roofline of this machine with the vectors of `target`, on one thread or (threads="openmp") on those that
    OpenMP uses. Each number is the best of several samples. Raises ToolchainError."""
    target = Target.get(target)
    lanes = max(4, target.vector_lanes)
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        path = build_shared([RUNTIME / "roofline.c"], Path(folder, "roofline.so"), target, threads,
                            cflags=(f"-DINGOT_LANES={lanes}",))
        ffi = cffi.FFI()
        ffi.cdef(_CDEF)
        library = openmp.load(ffi, path)
        out = ffi.new("float *")
        peak = 2 * _rate(lambda times: library.ingot_multiply_adds(out, times))
        memory = aligned_empty(WORKING_SETS[-1], 64)
        memory.fill(0)
        data = ffi.cast("const float *", memory.ctypes.data)
        reads = []
        for size in WORKING_SETS:
            def read(times, count=size // 4):
                library.ingot_read(data, count, out, times)
                return 4 * count * times
            reads.append((size, _rate(read)))
        ffi.dlclose(library)
    return Roofline(peak, tuple(reads))


def _rate(action):
    """What action(times) returns per second, at best: after as many times as take SAMPLE_SECONDS, several times."""
    best, times = 0.0, 1
    for _ in range(SAMPLES):
        seconds = 0.0
        while seconds < SAMPLE_SECONDS:
            start = time.perf_counter()
            done = action(times)
            seconds = time.perf_counter() - start
            times *= 1 if seconds >= SAMPLE_SECONDS else 2
        best = max(best, done / seconds)
    return best
