"""The primitives, one file per family."""
from . import (annotate, at, block_layout, blockize, cache, compute_at, inline, kinds, layout, loops,  # noqa: F401
               opaque,
               pad_einsum, padding, query, reduction, reindex, reorder, rfactor, rolling, sample, storage, tensorize,
               tile_contraction)
