"""Costs of single targets that differ from BASE. `benchmarks/calibrate.py --write NAME` rewrites this file."""
from __future__ import annotations

from .costs import DATA_SHEET, ESTIMATE, ZEN3, ZEN4, Cost

MEASURED = {
    "aarch64-linux-gnu": {
        "memory_read": Cost(4, "bytes/cycle", ESTIMATE),
    },
    "aarch64-neoverse-n1": {
        "add_latency": Cost(2, "cycles", DATA_SHEET),
        "clock": Cost(3000000000.0, "cycles/second", DATA_SHEET),
        "l1_bytes": Cost(65536, "bytes", DATA_SHEET),
        "l2_bytes": Cost(1048576, "bytes", DATA_SHEET),
    },
    "armv7-linux-gnueabihf": {
        "memory_read": Cost(4, "bytes/cycle", ESTIMATE),
    },
    "x86-64-v3": {
        "l3_bytes": Cost(2097152, "bytes", ZEN3),
        "tile.small": Cost(14, "sums", ZEN3),
    },
    "x86-64-v4": {
        "l2_bytes": Cost(1048576, "bytes", DATA_SHEET),
    },
    "x86-64-v4-zen4": {
        "adds_beside": Cost(1, "vectors/cycle", ZEN4),
        "clock": Cost(3700000000.0, "cycles/second", ZEN4),
        "l3_bytes": Cost(16777216, "bytes", ZEN4),
        "multiply_adds": Cost(1, "vectors/cycle", ZEN4),
        "stream.beside": Cost(1, "share", ZEN4),
        "stream.read": Cost(6, "bytes/cycle", ZEN4),
    },
}
