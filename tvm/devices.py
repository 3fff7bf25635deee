"""Older names of devices and of what makes them."""
from __future__ import annotations

from ..runtime.device import cuda as gpu, device as context, metal as mtl  # noqa: F401
