"""What the schedule rules know about a CPU, as data."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CpuModel:
    """lanes: float32 per vector register, 1 without SIMD. registers: vector registers. parallel: use threads.

    accumulators: how many registers the accumulators of a tile may take at most, None for as many as its operands
    leave. Fewer where multiply-adds cannot read memory: compilers then load ahead, into registers that they take from
    the tile. by_element: multiply-adds take one lane of a register for all lanes of an operand, so that operands to
    broadcast are loaded as vectors. embeds_broadcast: multiply-adds take an element of memory for all lanes of an
    operand. small_tile: sums of a register tile, up to which a turn of the loop around it takes several terms, since
    counting turns and asking for cache lines would take too many of the instructions beside the tile's. l1_bytes,
    l2_bytes: of the data caches that a core may count on; l3_bytes: of one behind them, where it is much faster than
    memory. streamed_bytes: a cycle, of what lies in memory in order and is asked for early, that come beside
    multiply-adds; 0: they take time of their own. memory_bytes: a cycle, of such memory, that one core reads. clock:
    cycles a second, of predictions. multiply_adds: vectors that are multiplied and added in a cycle; adders: as many
    more are added, by units of their own. integer_tiles: products may be made of 8-bit digits, on a unit for tiles of
    integers. accuracy: what results are promised to keep, one of relax.accuracy.ACCURACIES, which says which arithmetics
    products and convolutions may be made by.
    """

    lanes: int = 16
    registers: int = 32
    parallel: bool = True
    accumulators: int | None = None
    by_element: bool = False
    embeds_broadcast: bool = False
    small_tile: int = 0
    l1_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20
    l3_bytes: int = 0
    streamed_bytes: float = 0
    memory_bytes: float = 8
    clock: float = 2.7e9
    multiply_adds: int = 2
    adders: bool = False
    integer_tiles: bool = False
    accuracy: str = "float32"
