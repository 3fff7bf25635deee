"""Cost tables of machines: every constant has a unit and names the machine that it was measured on.

Schedules and cost models read no other number about a machine. `benchmarks/calibrate.py` measures those of HARDWARE and
prints them as rows of a table; the terms of models, which no loop measures by itself, were fitted to measured kernels.
"""
from __future__ import annotations

from dataclasses import dataclass

# Where values were measured.
ZEN3 = "AMD Zen 3"
ZEN4 = "AMD Zen 4, 3.7 GHz"
XEON = "Intel Xeon with AVX-512, 2.7 GHz"
AMX = "Intel Xeon with AMX, 2.7 GHz"
DATA_SHEET = "data sheet"
ESTIMATE = "not measured"


@dataclass(frozen=True)
class Cost:
    """A number about a machine, its unit, and the machine that it was measured on."""

    value: float
    unit: str
    measured_on: str


class Table(dict):
    """A dict that does not change, so that what has one can be a key."""

    def _refuse(self, *_, **__):
        raise TypeError("a target's table does not change: derive another target from it")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse

    def __hash__(self):
        return hash(frozenset(self.items()))

    def __reduce__(self):
        return Table, (dict(self),)


# What a loop of its own measures (benchmarks/calibrate.py). Caches are what one core may count on.
HARDWARE = {
    "l1_bytes": Cost(32 << 10, "bytes", DATA_SHEET),
    "l2_bytes": Cost(512 << 10, "bytes", DATA_SHEET),
    "l3_bytes": Cost(0, "bytes", DATA_SHEET),  # where it is much faster than memory; 0: none is
    "line_bytes": Cost(64, "bytes", DATA_SHEET),
    "clock": Cost(2.7e9, "cycles/second", XEON),
    "multiply_adds": Cost(2, "vectors/cycle", XEON),
    "adds_beside": Cost(0, "vectors/cycle", XEON),  # additions by units of their own, beside FMAs; 0: none
    "fma_latency": Cost(4, "cycles", XEON),
    "add_latency": Cost(4, "cycles", XEON),
    "loads": Cost(2, "vectors/cycle", XEON),  # from L1
    "issue": Cost(4, "instructions/cycle", XEON),
    "l2_read": Cost(32, "bytes/cycle", XEON),
    "l3_read": Cost(20, "bytes/cycle", ZEN4),  # 70 GB/s at 3.2 GHz
    "far_read": Cost(8, "bytes/cycle", XEON),  # from beyond L2, by one core: 25 GB/s at 2.7 GHz
    "memory_read": Cost(8, "bytes/cycle", XEON),  # from memory in order, by one core
    "core_to_core": Cost(5.5, "bytes/cycle", XEON),  # what another core wrote: 15 GB/s at 2.7 GHz
    "fold": Cost(10, "cycles/vector", XEON),  # space_to_depth, which copies elements one by one
    "shuffle": Cost(4, "vectors/element", XEON),  # moving an element to its place takes as long
    "threads.wait": Cost(4096, "cycles", XEON),  # of two threads for one another, with what passes between their cores
    "threads.more": Cost(400, "cycles/thread", XEON),  # each further thread makes it longer
}
# Terms of models, fitted to measured kernels.
MODELS = {
    # Streams of constants from memory. beside: the share of their time that passes beside FMAs; 0: they take
    # time of their own, which prefetching hides in part.
    "stream.read": Cost(5, "bytes/cycle", XEON),  # 13.5 GB/s at 2.7 GHz; no more passes, however few products it is for
    "stream.beside": Cost(0, "share", XEON),
    "stream.hidden": Cost(7 / 8, "share", XEON),  # by prefetching what the next tiles read
    "stream.slows": Cost(0.15, "share", ZEN4),  # of their time, by which products beside them take longer
    "stream.ahead": Cost(2048, "bytes", XEON),  # prefetch distance to L1: some hundred cycles of FMAs
    "stream.far_ahead": Cost(16384, "bytes", XEON),  # prefetch distance to L2: some thousand cycles
    "stream.least_chunk": Cost(128, "columns", XEON),  # that are copied of each row at a time, from a page of its own
    "copy.rows": Cost(32, "rows", XEON),  # of a product, in whose time its columns are copied to panels
    # Register tiles of products.
    "tile.turn": Cost(0.5, "cycles", ZEN4),  # of a loop's iteration that waits for memory, which nothing hides
    "tile.load": Cost(0.1, "cycles/load", XEON),  # from L1, beside FMAs
    "tile.packed": Cost(1.5, "loads/vector", XEON),  # of the packed operand, which comes from L2
    "tile.panel_read": Cost(28, "bytes/cycle", AMX),  # of panels in L2
    "tile.border": Cost(0.05, "share", XEON),  # of the time, for each side that has tiles of its own
    "tile.panel_border": Cost(0.01, "share", XEON),
    "tile.small": Cost(0, "sums", XEON),  # up to which an iteration of the loop around takes several terms
    # Convolutions in blocked layout.
    "conv.start": Cost(30, "cycles/tile", XEON),  # clearing, the epilogue, filling the pipeline
    "conv.loop": Cost(4, "instructions/iteration", XEON),  # of the innermost loop, that do not compute
    "conv.border": Cost(1.02, "times", XEON),  # where some channels are a tile of their own: as much code again
    "windows.start": Cost(3, "cycles/tile", XEON),
    "columns.across": Cost(1.5, "loads/vector", XEON),  # of columns, as some lie in two cache lines
    # Winograd convolutions.
    "winograd.transform": Cost(1.5, "cycles/vector", XEON),  # about one store a cycle, with loads and sums beside it
    "winograd.shown": Cost(1 / 4, "share", XEON),  # of the time of weights that L2 then holds, which nothing hides
    "winograd.shown_again": Cost(3 / 4, "share", XEON),  # the same of weights that each block reads again
    "winograd.load_weights": Cost(0.4, "cycles/load", XEON),  # from L2, beside FMAs
    "winograd.load_data": Cost(0.1, "cycles/load", XEON),  # from L1
    "winograd.small_load_data": Cost(0.2, "cycles/load", ZEN3),  # in small tiles, which load more for each FMA
    "winograd.spilled": Cost(1, "cycles/vector", XEON),  # of a block, that L1 does not keep
    "winograd.kept": Cost(3, "times", XEON),  # the size of L1, of vectors that do not count as such
    "winograd.most_sums": Cost(960 << 10, "bytes", XEON),  # of products; more have left L2 when they are read again
    # Threads. Work is counted in FMAs.
    "threads.passed": Cost(8, "bytes/cycle", XEON),  # of one thread's kernel, which reads what others wrote
    "threads.least_work": Cost(1 << 15, "FMAs", XEON),  # worth a wait of 0.1 to 0.3 us
    "threads.long_work": Cost(1 << 20, "FMAs", XEON),  # worth taking others' iterations: up to 1 us each
    "threads.least_rows": Cost(4, "rows", XEON),  # that threads divide where there is nothing else to share
    "threads.few_rows": Cost(32, "rows", XEON),  # of fewer, a thread that has one more counts
}
BASE = Table({**HARDWARE, **MODELS})
