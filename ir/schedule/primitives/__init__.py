"""The primitives, one file per family."""
from . import (annotate, blockize, cache, compute_at, inline, kinds, layout, loops, padding,  # noqa: F401
               query, reduction, reindex, reorder, rfactor, sample, tensorize)
