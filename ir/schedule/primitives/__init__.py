"""The primitives, one file per family."""
from . import (annotate, block_layout, blockize, cache, compute_at, inline, kinds, layout, loops, opaque,  # noqa: F401
               pad_einsum, padding, query, reduction, reindex, reorder, rfactor, rolling, sample, storage, tensorize,
               tile_contraction)
