"""The limits of this machine, measured: FMAs per second, and bytes per second that are read."""
from __future__ import annotations

import tempfile
import time
from contextlib import contextmanager
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
    """peak: floating-point operations per second, an FMA being 2; reads: ((bytes of a working set, bytes per
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
    with _loops(target, threads) as (library, ffi, out):
        peak = 2 * rate(lambda times: library.ingot_multiply_adds(out, times))
        memory = aligned_empty(WORKING_SETS[-1], 64)
        memory.fill(0)
        data = ffi.cast("const float *", memory.ctypes.data)
        reads = []
        for size in WORKING_SETS:
            def read(times, count=size // 4):
                library.ingot_read(data, count, out, times)
                return 4 * count * times
            reads.append((size, rate(read)))
    return Roofline(peak, tuple(reads))


@contextmanager
def multiply_adds(target="host", threads="none"):
    """A function whose every call keeps the multiply-adders of one thread, or of OpenMP's, busy for about a
    millisecond, and returns how many floating-point operations that were: what to time in turns with other work where
    the speed of a core changes. Raises ToolchainError."""
    with _loops(target, threads) as (library, _, out):
        times, _ = _sampled(lambda n: library.ingot_multiply_adds(out, n), 1)
        yield lambda: 2 * library.ingot_multiply_adds(out, times)


@contextmanager
def _loops(target, threads):
    """(library, ffi, a float to write to) of roofline.c."""
    target = Target.get(target)
    lanes = max(4, target.lanes)
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        path = build_shared([RUNTIME / "roofline.c"], Path(folder, "roofline.so"), target, threads,
                            cflags=(f"-DINGOT_LANES={lanes}",))
        ffi = cffi.FFI()
        ffi.cdef(_CDEF)
        library = openmp.load(ffi, path)
        yield library, ffi, ffi.new("float *")
        ffi.dlclose(library)


def rate(action):
    """The best rate of action(times), in its results per second, over several samples of SAMPLE_SECONDS each."""
    best, times = 0.0, 1
    for _ in range(SAMPLES):
        times, rate = _sampled(action, times)
        best = max(best, rate)
    return best


def _sampled(action, times):
    """(times, action's result per second) of the first of action(times), action(2 * times) and so on that takes
    SAMPLE_SECONDS, and not only once: a core that is lost for a moment, or threads that begin, take time too."""
    while True:
        seconds = _seconds(action, times)[0]
        if seconds >= SAMPLE_SECONDS:
            again, done = _seconds(action, times)
            if again >= SAMPLE_SECONDS / 2:
                return times, done / min(seconds, again)
        times *= 2


def _seconds(action, times):
    """(seconds that action(times) takes, what it returns)."""
    start = time.perf_counter()
    done = action(times)
    return time.perf_counter() - start, done
