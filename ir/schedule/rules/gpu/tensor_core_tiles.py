"""Tiles of products on tensor cores, as data, and what they cost."""
from __future__ import annotations

from dataclasses import dataclass

LATENCY = 900.0     # cycles from the start of a copy of global memory to shared memory until others may read it
FRAGMENT = 16       # rows and columns of a fragment
PRODUCTS = 1024.0   # multiply-adds that the tensor cores of an SM do in a cycle by products of warps (mma.sync)
SHARED_BYTES = 128  # of shared memory that an SM reads or writes in a cycle
FETCHED = 40.0      # bytes that an SM gets of the second-level cache in a cycle
HIDING_WARPS = 8    # of an SM that keep its tensor cores busy
LAUNCH = 3000.0     # cycles of a kernel's launch and end
BYTES = 10.0        # of global memory that an SM writes and reads in a cycle
GATHERING = 4       # warps that only copy, where they gather an operand
WAYS = {0: "", 1: " by TMA", GATHERING: " by TMA and cp.async"}  # of copies; warps beside: the end of a tile's name
PAD = 8             # elements between rows of shared memory, so that eight neighbouring ones lie in different banks


@dataclass(frozen=True)
class MmaTile:
    """A block of warps_down x warps_across warps makes rows x columns sums, `depth` terms at a time, of which `stages`
    are in shared memory at once, `lag` of them while the hardware is not done with them. registers: of a thread,
    about. group: warps that read operands together. products: multiply-adds in a cycle. beside: warps that copy, and do
    nothing else: one by tensor maps (TMA), GATHERING by these and, of one operand, by cp.async; 0 where all copy."""

    rows: int
    columns: int
    depth: int
    warps_down: int
    warps_across: int
    stages: int
    registers: int
    lag: int = 0
    group: int = 1
    products: float = PRODUCTS
    beside: int = 0

    @property
    def name(self):
        return f"{self.rows}x{self.columns}x{self.depth}{WAYS[self.beside]}"

    @property
    def warps(self):
        return self.warps_down * self.warps_across

    @property
    def threads(self):
        return 32 * (self.warps + self.beside)

    @property
    def fragments_down(self):
        return self.rows // self.warps_down // FRAGMENT

    @property
    def warp_columns(self):
        return self.columns // self.warps_across

    @property
    def shared_bytes(self):
        """Of operands, padded the one way or the other, or of the sums that warps hand to their lanes."""
        pad = PAD if self.group == 1 else 0  # warpgroups have rows swizzled
        left, right = (max(n * (self.depth + pad), self.depth * (n + pad)) for n in (self.rows, self.columns))
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

# Of warpgroups, which have 64 rows each. In DeepGEMM and CUTLASS two of them share columns, and more are no faster.
# Each with a warp beside that copies, where tensor maps can say what, or with copies by all threads; those of one
# warpgroup with another one beside, where tensor maps can say it of one operand. A stage of a ring is free a turn
# earlier, and its copies cost those that multiply no instruction.
WARPGROUP_TILES = tuple(
    MmaTile(rows, columns, 64, rows // FRAGMENT, 1, stages, registers, int(not beside), 4, 2 * PRODUCTS, beside)
    for beside in (1, GATHERING, 0) for rows, columns, stages, registers in (
        (128, 256, 4, 176), (128, 128, 3, 96), (128, 64, 4, 64), (64, 256, 4, 176), (64, 128, 4, 96), (64, 64, 4, 64),
        (64, 32, 4, 64)) if beside != GATHERING or rows == FRAGMENT * GATHERING)


def cost_of(tile, kernel, parts, limits):
    """Cycles of a product by a tile, its sums in so many parts."""
    depth = -(-kernel.depth // parts // tile.depth) * tile.depth
    # Blocks that an SM has at once share its tensor cores and its memory, and wait for their copies at the same time.
    blocks = -(-kernel.rows // tile.rows) * -(-kernel.columns // tile.columns) * kernel.batch * parts
    fitting = min(limits.registers // (tile.registers * tile.threads), 2048 // tile.threads,
                  limits.shared_dyn_bytes // (tile.shared_bytes + 1024))
    most = -(-blocks // limits.sms)  # blocks of the SM that has most
    on_each = max(1, min(fitting, most))
    products = tile.rows * tile.columns / tile.products
    read = tile.group * FRAGMENT * tile.fragments_down + tile.warp_columns
    fragments = tile.warps // tile.group * 2 * read  # bytes read for a term
    moved = (fragments + 2 * (tile.rows + tile.columns)) / SHARED_BYTES
    hidden = min(1.0, on_each * tile.warps / HIDING_WARPS)
    fetched = 2 * (tile.rows + tile.columns) / FETCHED
    work = most * depth * max(products / hidden, moved, fetched)
    turns, ahead = depth / tile.depth, tile.stages - 1 - tile.lag
    waits = most / on_each * max(turns / ahead, 1) * LATENCY
    written = kernel.rows * kernel.columns * kernel.batch * 4 * (1 if parts == 1 else 2 * parts + 1)
    return max(work, waits) + LATENCY + written / (BYTES * limits.sms) + LAUNCH * (1 if parts == 1 else 2)
