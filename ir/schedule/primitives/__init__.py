"""The primitives, one file per family."""
from . import (  # noqa: F401
    annotate, at, axis_separators, block_layout, blockize, cache, cache_index, compute_at, inline, kinds, layout, loops,
    opaque, pad_einsum, padding, partition, query, reduction, reindex, reindex_cache, reorder, retype, rfactor, rolling,
    sample, storage, tensorize, tile_contraction)
