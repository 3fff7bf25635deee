"""relax.testing: small modules and packed functions that scripts try things out with."""
from . import lib_comparator, nn, transform, vm

__all__ = ["lib_comparator", "nn", "transform", "vm"]
