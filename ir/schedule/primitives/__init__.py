"""The primitives, one file per family."""
from . import annotate, cache, compute_at, inline, kinds, loops, query, reduction, reorder, rfactor  # noqa: F401
