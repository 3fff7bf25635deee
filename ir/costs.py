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
        if not hasattr(self, "_hash"):  # targets are keys of what is looked up often
            self._hash = hash(frozenset(self.items()))
        return self._hash

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
    "beyond_l2_read": Cost(8, "bytes/cycle", XEON),  # from beyond L2, by one core: 25 GB/s at 2.7 GHz
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
    "stream.l2_ahead": Cost(16384, "bytes", XEON),  # prefetch distance to L2: some thousand cycles
    "stream.least_chunk": Cost(128, "columns", XEON),  # that are copied of each row at a time, from a page of its own
    "copy.rows": Cost(32, "rows", XEON),  # of a product, in whose time its columns are copied to panels
    "copy.l2": Cost(0.3, "share", XEON),  # of L2, for columns that are copied at a time
    "copy.least_groups": Cost(8, "groups", XEON),  # of panels, that threads share
    # Register tiles of products.
    "tile.turn": Cost(0.5, "cycles", ZEN4),  # of a loop's iteration that waits for memory, which nothing hides
    "tile.load": Cost(0.1, "cycles/load", XEON),  # from L1, beside FMAs
    "tile.packed": Cost(1.5, "loads/vector", XEON),  # of the packed operand, which comes from L2
    "tile.panel_read": Cost(28, "bytes/cycle", AMX),  # of panels in L2
    "tile.border": Cost(0.05, "share", XEON),  # of the time, for each side that has tiles of its own
    "tile.panel_border": Cost(0.01, "share", XEON),
    "tile.most_terms": Cost(1024, "terms", XEON),  # of a sum that are added up in one go, where rows are many
    "tile.least_block": Cost(4, "tiles", XEON),  # of many rows, that share a panel of columns
    "tile.dot_rows": Cost(4, "rows", XEON),  # of a tile of dot products: all come from L2 for each tile of columns
    "tile.small": Cost(0, "sums", XEON),  # up to which an iteration of the loop around takes several terms
    # Convolutions in blocked layout.
    "conv.start": Cost(30, "cycles/tile", XEON),  # clearing, the epilogue, filling the pipeline
    "conv.loop": Cost(4, "instructions/iteration", XEON),  # of the innermost loop, that do not compute
    "conv.border": Cost(1.02, "times", XEON),  # where some channels are a tile of their own: as much code again
    "conv.least_channels": Cost(1, "channels", XEON),  # of those by another arithmetic
    "conv.profitable": Cost(0.9, "share", XEON),  # of the time of a direct one, below which another algorithm is taken
    "windows.start": Cost(3, "cycles/tile", XEON),
    "columns.across": Cost(1.5, "loads/vector", XEON),  # of columns, as some lie in two cache lines
    "columns.l1": Cost(0.3, "share", XEON),  # of L1, for a band of the input, beside its source and results
    "local_response.points": Cost(16, "points", XEON),  # whose squares stay in L1
    "local_response.least_points": Cost(4, "points", XEON),
    # 1x1 convolutions with a depthwise one behind, in bands of what lies between.
    "band.l2": Cost(3 / 4, "share", XEON),  # of L2, for a band and the data that it is made of
    "band.least": Cost(2, "times", XEON),  # L2's size, where one thread hides loads and stores behind FMAs
    "band.most_bytes": Cost(768 << 10, "bytes", XEON),  # on a thread's stack, twice if its last iteration is apart
    # Winograd convolutions.
    "winograd.transform": Cost(1.5, "cycles/vector", XEON),  # about one store a cycle, with loads and sums beside it
    "winograd.shown": Cost(1 / 4, "share", XEON),  # of the time of weights that L2 then holds, which nothing hides
    "winograd.shown_again": Cost(3 / 4, "share", XEON),  # the same of weights that each block reads again
    "winograd.load_weights": Cost(0.4, "cycles/load", XEON),  # from L2, beside FMAs
    "winograd.load_data": Cost(0.1, "cycles/load", XEON),  # from L1
    "winograd.small_load_data": Cost(0.2, "cycles/load", ZEN3),  # in small tiles, which load more for each FMA
    "winograd.spilled": Cost(1, "cycles/vector", XEON),  # of a block, that L1 does not keep
    "winograd.kept": Cost(3, "times", XEON),  # the size of L1, of vectors that do not count as such
    "winograd.resident": Cost(1 / 2, "share", XEON),  # of L2, for a network's weights, which it keeps transformed
    "winograd.larger_tiles": Cost(1.2, "times", XEON),  # as long as larger tiles take smaller ones may
    "winograd.next_tile": Cost(1.08, "times", XEON),  # the same of the next one, or where streams are modelled
    "winograd.most_sums": Cost(960 << 10, "bytes", XEON),  # of products; more have left L2 when they are read again
    # Split-integer products, on a unit for tiles of integers. A step is 64 terms of a tile. The first four say how
    # rows are prepared, which is the same for every target.
    "split_integer.pace": Cost(2, "times", AMX),  # a network is faster, of the work by which it gets threads
    "split_integer.block_rows": Cost(512, "rows", AMX),  # that meet a panel at a time, whose sums L2 holds beside it
    "split_integer.odd_rows": Cost(96, "rows", AMX),  # from which on one more costs little
    "split_integer.resident": Cost(1 << 20, "bytes", AMX),  # of rows' slices that L2 keeps while panels pass
    "split_integer.part": Cost(8, "steps", AMX),  # whose products take ten times as long as the sums of a part
    "split_integer.step": Cost(330, "cycles/step", AMX),  # with its loads
    "split_integer.few_step": Cost(200, "cycles/step", AMX),  # of few rows
    "split_integer.few_rows": Cost(5, "rows", AMX),  # for which columns are read as fast as they come
    "split_integer.tile": Cost(250, "cycles/tile", AMX),  # whose sums leave the unit, are joined and scaled
    "split_integer.call": Cost(300, "cycles/call", AMX),  # of the micro-kernel, which sets the unit up
    "split_integer.scale": Cost(30, "cycles/row", AMX),
    "split_integer.cut": Cost(6, "cycles/vector", AMX),  # of terms, looked at for the scale and cut into slices
    "split_integer.work": Cost(4, "times", AMX),  # the FMAs by which the work that threads share is counted
    "split_integer.passed": Cost(0.5, "cycles/byte", AMX),  # of slices or results that comes from another core
    "split_integer.least_rows": Cost(4, "rows", AMX),  # of an image; of fewer, reading the columns takes the time
    "split_integer.long_rows": Cost(96, "rows", AMX),  # of a thread, that take longer than columns from beyond L2
    "split_integer.most_sums": Cost(1 << 17, "sums", AMX),  # of all parts, which L2 holds and a thread's stack
    "split_integer.most_slices": Cost(1 << 19, "bytes", AMX),  # of a thread's own rows, on its stack
    "split_integer.panels": Cost(4, "panels", AMX),  # that meet a part of the terms, or as many as make
    "split_integer.profitable": Cost(2 / 3, "share", AMX),  # of the time of FMAs
    # Winograd's inner products, where units add beside FMAs. Three terms are a third's.
    "inner_product.most_rows": Cost(16, "rows/tile", ZEN4),  # each addition takes its element of a row from memory
    "inner_product.least_rows": Cost(6, "rows", ZEN4),  # fewer wait for their sums, or for columns
    "inner_product.least_terms": Cost(40, "terms", ZEN4),  # for what is made of rows before
    "inner_product.least_channels": Cost(32, "channels", ZEN4),  # of an image
    "inner_product.least_planes": Cost(48, "channels", ZEN4),  # of Winograd's planes
    "inner_product.start": Cost(30, "cycles/tile", ZEN4),
    "inner_product.pace": Cost(1.03, "cycles/FMA", ZEN4),
    "inner_product.least": Cost(10, "cycles/third", ZEN4),
    "inner_product.l1_thirds": Cost(56, "thirds", ZEN4),  # of a panel and of a tile's rows, that L1 holds
    "inner_product.l2_pace": Cost(1.02, "cycles/FMA", ZEN4),  # the same of more
    "inner_product.l2_least": Cost(16, "cycles/third", ZEN4),
    "inner_product.l2_row": Cost(0.3, "cycles/third", ZEN4),  # for each row less than many
    "inner_product.l2_rows": Cost(13, "rows", ZEN4),
    "inner_product.straddled": Cost(2, "cycles/third", ZEN4),  # of rows that are no whole lines, two of which are read
    "inner_product.row": Cost(4, "cycles/row", ZEN4),  # that is scaled
    "inner_product.block": Cost(7.3, "cycles/block", ZEN4),  # of a row's terms, scaled and multiplied with one another
    "inner_product.partial": Cost(2, "times", ZEN4),  # longer takes a group of rows that leave lanes empty
    "inner_product.plane_row": Cost(14, "cycles/row", ZEN4),  # of a plane
    "inner_product.plane_block": Cost(1.5, "cycles/block", ZEN4),
    "inner_product.waited": Cost(2.2, "bytes/cycle", ZEN4),  # of rows that the other core scaled, line by line
    "inner_product.both": Cost(80, "bytes/cycle", ZEN4),  # of columns that both threads read, often from memory
    "inner_product.wait": Cost(1000, "cycles", ZEN4),  # until both threads have scaled their rows
    "inner_product.shares": Cost(4, "blocks", ZEN4),  # of which threads may take over some of others
    "inner_product.few_shares": Cost(1.03, "times", ZEN4),  # what fewer cost
    "inner_product.beside": Cost(0.15, "share", ZEN4),  # of the shorter, to stream columns and multiply at once
    "inner_product.weights_beside": Cost(0.3, "share", ZEN4),  # of streams of a Winograd convolution's weights
    "inner_product.made": Cost(5, "bytes/cycle", ZEN4),  # of planes beyond L2, a vector of each of many in turn
    "inner_product.read_beside": Cost(0.2, "share", ZEN4),  # of the time in which these are read again
    "inner_product.profitable": Cost(0.92, "share", ZEN4),  # of the time of FMAs
    "inner_product.points_profitable": Cost(0.96, "share", ZEN4),  # the same of 1x1 convolutions
    # Compressed weights, of 20 bits.
    "compressed.unpack": Cost(12, "cycles/group", ZEN4),  # of eight vectors of weights
    "compressed.most_l3": Cost(8 << 20, "bytes", ZEN4),  # of weights, that L3 may still hold after a network
    "compressed.profitable": Cost(0.95, "share", ZEN4),  # of the time of whole weights
    # Threads. Work is counted in FMAs.
    "threads.passed": Cost(8, "bytes/cycle", XEON),  # of one thread's kernel, which reads what others wrote
    "threads.least_work": Cost(1 << 15, "FMAs", XEON),  # worth a wait of 0.1 to 0.3 us
    "threads.long_work": Cost(1 << 20, "FMAs", XEON),  # worth taking others' iterations: up to 1 us each
    "threads.least_rows": Cost(4, "rows", XEON),  # that threads divide where there is nothing else to share
    "threads.few_rows": Cost(32, "rows", XEON),  # of fewer, a thread that has one more counts
}
# Cores that begin one instruction a cycle, a float each, and read memory without a cache: Cortex-M4's data sheet.
SCALAR = {
    "multiply_adds": Cost(1, "vectors/cycle", DATA_SHEET),
    "loads": Cost(1, "vectors/cycle", DATA_SHEET),
    "issue": Cost(1, "instructions/cycle", DATA_SHEET),
    "fma_latency": Cost(3, "cycles", DATA_SHEET),
    "tile.load": Cost(1, "cycles/load", DATA_SHEET),
    "tile.packed": Cost(1, "loads/vector", DATA_SHEET),
    "columns.across": Cost(1, "loads/vector", DATA_SHEET),
}
# Terms of models of kernels on GPUs, from data sheets of an A100.
GPU = {
    "gpu.processors": Cost(108, "multiprocessors", DATA_SHEET),
    "gpu.threads": Cost(2048, "threads/multiprocessor", DATA_SHEET),
    "gpu.block_threads": Cost(256, "threads/block", ESTIMATE),  # of kernels that do not depend on it
    "gpu.load": Cost(8, "cycles/element", ESTIMATE),  # of a thread, where others hide what it waits for
    "gpu.bytes": Cost(10, "bytes/cycle", ESTIMATE),  # of global memory that a multiprocessor reads
    "gpu.shuffle": Cost(25, "cycles", ESTIMATE),
    "gpu.barrier": Cost(30, "cycles", ESTIMATE),
}
BASE = Table({**HARDWARE, **MODELS, **GPU})
