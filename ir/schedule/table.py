"""The table of primitives: registry.py fills it; traces, which its rows make, read it."""
from __future__ import annotations

PRIMITIVES = {}  # name: Primitive (registry.py)

__all__ = ["PRIMITIVES"]
