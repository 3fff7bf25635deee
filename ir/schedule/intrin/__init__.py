"""Intrinsics of hardware for tensorize, by TVM's names."""
from . import cuda, wgmma  # noqa: F401
