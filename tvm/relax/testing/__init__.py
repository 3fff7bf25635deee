"""relax.testing: small modules and packed functions that scripts try things out with."""
from . import nn, transform, vm

__all__ = ["nn", "transform", "vm"]
