"""Tiles of products on GPUs, as data, and what they cost."""
from __future__ import annotations

from dataclasses import dataclass

LATENCY = 700.0     # cycles from a load of global memory to its use, with what surrounds it
HIDING_WARPS = 8    # warps of an SM that hide the latency of FMAs and of shared memory
ISSUED = 4          # instructions of a warp, such as 32 FMAs, that an SM begins in a cycle
COPY = 4            # instructions for an element that is copied to shared memory
SHARED_BYTES = 128  # of shared memory that an SM reads in a cycle
LAUNCH = 3000.0     # cycles of a kernel's launch and end
BYTES = 10.0        # of global memory that an SM writes and reads in a cycle


@dataclass(frozen=True)
class SimtTile:
    """A block of threads makes rows x columns sums, `depth` terms at a time; each thread thread_rows x thread_columns
    of them. registers: of a thread, about."""

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int
    registers: int

    @property
    def name(self):
        return f"{self.rows}x{self.columns}x{self.depth}"

    @property
    def threads(self):
        return self.rows // self.thread_rows * (self.columns // self.thread_columns)

    def shared_bytes(self, size):
        return self.depth * (self.rows + self.columns + 2 * 32) * size

    def factors(self):
        """How a tile divides: {side: (pieces of a thread, threads, elements of a piece)}. A thread's rows are pieces
        of four that lie apart, so that neighbours read neighbouring ones."""
        sides = {"rows": (self.rows, self.thread_rows), "columns": (self.columns, self.thread_columns)}
        return {side: [own // min(own, 4), size // own, min(own, 4)] for side, (size, own) in sides.items()}


# Sizes that open libraries publish for float32 (CUTLASS' SIMT tiles), and smaller ones for few rows or columns.
TILES = (
    SimtTile(128, 128, 8, 8, 8, 128),
    SimtTile(128, 64, 8, 8, 4, 96),
    SimtTile(64, 128, 8, 4, 8, 96),
    SimtTile(64, 64, 16, 4, 4, 64),
    SimtTile(32, 128, 16, 4, 4, 64),
    SimtTile(32, 64, 16, 4, 4, 64),
    SimtTile(64, 32, 16, 4, 4, 64),
    SimtTile(32, 32, 16, 4, 2, 48),
    SimtTile(16, 64, 16, 2, 4, 48),
)


def cost_of(tile, kernel, parts, limits):
    """Cycles of a product by a tile, its sums in so many parts: occupancy times efficiency."""
    depth = kernel.depth / parts
    blocks = -(-kernel.rows // tile.rows) * -(-kernel.columns // tile.columns) * kernel.batch * parts
    fitting = min(limits.registers // (tile.registers * tile.threads), 2048 // tile.threads,
                  limits.shared_bytes // tile.shared_bytes(kernel.size))
    most = -(-blocks // limits.sms)  # blocks of the SM that has most
    on_each = max(1, min(fitting, most))
    warps, copied = tile.threads / 32, (tile.rows + tile.columns) / tile.threads
    loads = (tile.thread_rows + tile.thread_columns) / 4
    issued = warps * (tile.thread_rows * tile.thread_columns + loads + COPY * copied) / ISSUED
    reads = warps * (64 * tile.thread_rows / 4 + 128 * tile.thread_columns / 4) / SHARED_BYTES
    hidden = min(1.0, on_each * warps / HIDING_WARPS)
    work = most * depth * max(issued, reads) / hidden
    waits = most / on_each * depth / tile.depth * LATENCY / on_each if on_each * warps < 2 * HIDING_WARPS else 0
    written = kernel.rows * kernel.columns * kernel.batch * 4 * (1 if parts == 1 else 2 * parts + 1)
    return work + waits + written / (BYTES * limits.sms) + LAUNCH * (1 if parts == 1 else 2)
