"""The register tile of a Winograd convolution along one axis, by a model of its time in cycles of one core."""
from __future__ import annotations

from dataclasses import dataclass

from . import tiles

ROOM = 1 / 2  # of the first cache, for the products of a block of columns


@dataclass(frozen=True)
class Layer:
    """tile, side: m and a of F(m, r), a = m + r - 1; terms: of each product; out_blocks: of channels; tiles: rows of
    them; width: columns of results; data: vectors of the image in the rows of a tile, of which each makes `side`."""

    tile: int
    side: int
    terms: int
    out_blocks: int
    tiles: int
    width: int
    data: int


def choose(cpu, layer):
    """The register tile, over vectors of output channels and columns, with the least estimated time."""
    fitting = (t for t in tiles.candidates(cpu)
               if t.rows == 1 and layer.out_blocks % t.vectors == 0 and t.columns <= layer.width)
    return min(fitting, key=lambda t: (_products(cpu, layer, t), t.vectors))


def cycles(cpu, layer):
    """About how long the convolution takes."""
    transforms = layer.side * layer.data + (layer.side / 2 + 2 * layer.tile) * layer.out_blocks * layer.width
    return layer.tiles * (_products(cpu, layer, choose(cpu, layer)) + transforms)


def _products(cpu, layer, tile):
    """Cycles of the products in a row of tiles."""
    start = cpu.cost("winograd_rows.start")
    each = sum(count * (layer.terms * tiles.step(cpu, tile.vectors, points) + start)
               for _, points, count in tiles.grid(1, layer.width, tile))
    return layer.side * layer.out_blocks // tile.vectors * each


def block_of(cpu, layer, tile):
    """How many columns' products the first cache holds, in whole register tiles; all where it can."""
    most = ROOM * cpu.l1_bytes / (layer.side * layer.out_blocks * cpu.lanes * 4)
    return layer.width if layer.width <= most else max(1, int(most / tile.columns)) * tile.columns
