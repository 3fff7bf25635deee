"""Profiles: how long each kernel of a network takes, and how near that is to what the machine can do."""
from __future__ import annotations

import statistics
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich import box
from rich.table import Table

from ..codegen.package import RUNTIME, evaluate_dim
from ..codegen.toolchain import build_shared, source_files
from .binding import Binding, NetworkError
from .roofline import Roofline, measure_roofline
NODES_WIDTH = 60  # of a kernel's nodes in a table: one that serves many layers has hundreds


@dataclass(frozen=True)
class Work:
    """The work of one kernel call: flops, and bytes of weights and of other tensors that it touches."""

    flops: int
    weights: int
    activations: int

    def __add__(self, other):
        return Work(self.flops + other.flops, self.weights + other.weights, self.activations + other.activations)


@dataclass(frozen=True)
class KernelTime:
    """One kernel in a run: its C name, the model's nodes that it computes, how many calls there are; their seconds and
    work together, and the seconds that they would take at the machine's limits."""

    kernel: str
    nodes: str
    calls: int
    seconds: float
    work: Work
    least: float

    @property
    def roofline(self):
        """The fraction of what the machine could do."""
        return self.least / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Profile:
    """Kernels by their time in a run, the longest first; seconds: of all of them; limits: the Roofline."""

    kernels: tuple[KernelTime, ...]
    seconds: float
    limits: Roofline

    def table(self, prefix="", top=None):
        """A rich table, of the `top` longest kernels and all together; `prefix` is left out of names."""
        table = Table(box=box.SIMPLE_HEAD)
        table.add_column("kernel", no_wrap=True)
        for column in ("calls", "ms", "share", "GFLOP/s", "MB", "GB/s", "roofline"):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("nodes")
        for k in self.kernels[:top]:
            table.add_row(k.kernel.removeprefix(prefix), str(k.calls), *self._numbers(k.seconds, k.work),
                          f"{k.roofline:.0%}", textwrap.shorten(k.nodes, NODES_WIDTH, placeholder=" ..."))
        least, work = sum(k.least for k in self.kernels), sum((k.work for k in self.kernels), Work(0, 0, 0))
        table.add_section()
        table.add_row("all", str(sum(k.calls for k in self.kernels)), *self._numbers(self.seconds, work),
                      f"{least / self.seconds:.0%}" if self.seconds else "", "")
        return table

    def _numbers(self, seconds, work):
        moved = work.weights + work.activations
        return (f"{seconds * 1e3:.4f}", f"{seconds / self.seconds:.1%}" if self.seconds else "",
                f"{work.flops / seconds / 1e9:.1f}" if seconds else "", f"{moved / 1e6:.3f}",
                f"{moved / seconds / 1e9:.1f}" if seconds else "")


class Profiler:
    """A network built with hooks, and runs of it on the same arrays.

        with Profiler(...) as profiler:
            profiler.profile([profiler.sample() for _ in range(20)])
    """

    def __init__(self, model, sources, path, dims, arrays, outputs, weights=None, jobs=1):
        """model, whose C lies in the folder `sources`; path: of a shared library to build there; dims: the values of
        symbolic dimensions; weights: see Binding. Raises ToolchainError."""
        self._model, self._values = model, dict(zip(model.dims, dims))
        self._arguments = dims, arrays, outputs
        hooked = Path(sources, f"{model.name}_profile.c")
        hooked.write_text("#define INGOT_PROFILE 1\n" + hooked.with_name(f"{model.name}.c").read_text())
        files = [f for f in source_files(sources) if f.stem != model.name] + [RUNTIME / "profile.c"]
        try:
            build_shared(files, path, model.target, model.threads, jobs)
        finally:
            hooked.unlink()
        self._binding = Binding(path, model, weights)
        self._seconds = np.zeros(len(model.program.calls))
        try:
            self._binding.run(*self._arguments)  # makes the instance
        except NetworkError:
            self.close()
            raise

    def sample(self):
        """Seconds of each kernel call of one run."""
        with self._binding.timed_calls(self._seconds):
            self._binding.run(*self._arguments)
        return self._seconds.tolist()

    def profile(self, samples):
        """The Profile of samples: medians of each call."""
        limits = measure_roofline(self._model.target.name, self._model.threads)
        return _collect(self._model, [statistics.median(call) for call in zip(*samples)], self._values, limits)

    def close(self):
        self._binding.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _collect(model, seconds, values, limits):
    """The Profile of the seconds of each call."""
    found = {}
    all_weights = model.program.weights_bytes
    for call, time in zip(model.program.calls, seconds):
        name = model.kernel_of[call.kernel]
        kernel, work = model.kernels[name], _work(model, call, values)
        least = limits.seconds(work.flops, work.weights, work.activations, all_weights)
        before = found.get(name, KernelTime(name, kernel.nodes, 0, 0.0, Work(0, 0, 0), 0.0))
        found[name] = KernelTime(name, kernel.nodes, before.calls + 1, before.seconds + time, before.work + work,
                                 before.least + least)
    rows = tuple(sorted(found.values(), key=lambda k: -k.seconds))
    return Profile(rows, sum(k.seconds for k in rows), limits)


def _work(model, call, values):
    """The Work of one call under {dimension: value}."""
    kernel = model.kernels[model.kernel_of[call.kernel]]
    own = {name: evaluate_dim(e, values) for name, e in zip(kernel.dims, call.dims)}
    flops, touched = kernel.work
    touched = [_number(size, own) for size in touched]
    weights = sum(size for o, size in zip(call.operands, touched) if o.kind == "weight")
    return Work(_number(flops, own), weights, sum(touched) - weights)


def _number(e, values):
    return e if isinstance(e, int) else evaluate_dim(e, values)
