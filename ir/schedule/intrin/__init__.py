"""Intrinsics of hardware for tensorize, by TVM's names."""
from . import cuda  # noqa: F401
