"""Tiles of products on tensor cores, as data, and what they cost."""
from __future__ import annotations

from dataclasses import dataclass

LATENCY = 900.0     # cycles from the start of a copy of global memory to shared memory until others may read it
FRAGMENT = 16       # rows and columns of a fragment
PRODUCTS = 1024.0   # multiply-adds of float16 numbers that an SM's tensor cores do in a cycle
SHARED_BYTES = 128  # of shared memory that an SM reads or writes in a cycle
HIDING_WARPS = 8    # of an SM that keep its tensor cores busy
LAUNCH = 3000.0     # cycles of a kernel's launch and end
BYTES = 10.0        # of global memory that an SM writes and reads in a cycle
PAD = 8             # elements between rows of shared memory, so that eight neighbouring ones lie in different banks


@dataclass(frozen=True)
class MmaTile:
    """A block of warps_down x warps_across warps makes rows x columns sums, `depth` terms at a time, of which `stages`
    are in shared memory at once. registers: of a thread, about."""

    rows: int
    columns: int
    depth: int
    warps_down: int
    warps_across: int
    stages: int
    registers: int

    @property
    def name(self):
        return f"{self.rows}x{self.columns}x{self.depth}"

    @property
    def warps(self):
        return self.warps_down * self.warps_across

    @property
    def threads(self):
        return 32 * self.warps

    @property
    def fragments_down(self):
        return self.rows // self.warps_down // FRAGMENT

    @property
    def warp_columns(self):
        return self.columns // self.warps_across

    @property
    def shared_bytes(self):
        """Of operands, padded the one way or the other, or of the sums that warps hand to their lanes."""
        left = max(self.rows * (self.depth + PAD), self.depth * (self.rows + PAD))
        right = max(self.columns * (self.depth + PAD), self.depth * (self.columns + PAD))
        return max(2 * self.stages * (left + right), 4 * self.warps * FRAGMENT * (self.warp_columns + PAD))


# Sizes that open libraries publish for mma.sync (CUTLASS' for sm_80), and smaller ones for few rows or columns.
TILES = (
    MmaTile(128, 256, 32, 2, 4, 3, 240),
    MmaTile(256, 128, 32, 4, 2, 3, 240),
    MmaTile(128, 128, 32, 2, 2, 4, 232),
    MmaTile(128, 64, 32, 2, 2, 4, 128),
    MmaTile(64, 128, 32, 2, 2, 4, 128),
    MmaTile(64, 64, 64, 2, 2, 4, 96),
    MmaTile(64, 32, 64, 2, 2, 4, 64),
    MmaTile(32, 64, 64, 2, 2, 4, 64),
    MmaTile(32, 32, 64, 2, 2, 4, 64),
    MmaTile(16, 64, 64, 1, 4, 4, 64),
)


def cost_of(tile, kernel, parts, limits):
    """Cycles of a product by a tile, its sums in so many parts."""
    depth = -(-kernel.depth // parts // tile.depth) * tile.depth
    blocks = -(-kernel.rows // tile.rows) * -(-kernel.columns // tile.columns) * kernel.batch * parts
    fitting = min(limits.registers // (tile.registers * tile.threads), 2048 // tile.threads,
                  limits.shared_dyn_bytes // (tile.shared_bytes + 1024))
    most = -(-blocks // limits.sms)  # blocks of the SM that has most
    on_each = max(1, min(fitting, most))
    products = tile.rows * tile.columns / PRODUCTS
    fragments = tile.warps * 2 * (FRAGMENT * tile.fragments_down + tile.warp_columns)  # bytes read for a term
    moved = (fragments + 2 * (tile.rows + tile.columns)) / SHARED_BYTES
    hidden = min(1.0, on_each * tile.warps / HIDING_WARPS)
    work = most * depth * max(products / hidden, moved)
    ahead = on_each * (tile.stages - 1)  # tiles of terms that are under way on an SM
    waits = most / on_each * max(depth / tile.depth / ahead * LATENCY * on_each, LATENCY)
    written = kernel.rows * kernel.columns * kernel.batch * 4 * (1 if parts == 1 else 2 * parts + 1)
    return max(work, waits) + LATENCY + written / (BYTES * limits.sms) + LAUNCH * (1 if parts == 1 else 2)
