"""Language models as modules: paged caches of keys and values (kv_cache), rotary position embeddings
(position_embedding), attention along trees of tokens (tree_attn). What the caches do when they run:
runtime/paged_cache.py."""
from . import kv_cache, position_embedding  # noqa: F401
from .kv_cache import PagedKVCache  # noqa: F401
from .position_embedding import llama_rope  # noqa: F401
from .tree_attn import tree_attn  # noqa: F401
