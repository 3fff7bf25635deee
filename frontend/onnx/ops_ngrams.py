"""TfIdfVectorizer of numbers: how often each n-gram of a pool occurs in a row."""
from __future__ import annotations

from functools import reduce

import numpy as np

from ..shapes import dims_of
from .converter import converts

MOST_WINDOWS = 1 << 22  # places of all n-grams, which become indices in the C


@converts("TfIdfVectorizer", 9)
def tf_idf_vectorizer(node):
    """Elements of an n-gram may be apart: 1 + skip steps, of every skip up to max_skip_count."""
    x, mode = node.input(0), node.choice("mode", "TF", "IDF", "TFIDF")
    pool, starts, indexes = (np.array(node.attr(name, ()), np.int64)
                             for name in ("pool_int64s", "ngram_counts", "ngram_indexes"))
    if node.attr("pool_strings"):
        raise node.error("attribute pool_strings: strings are not supported; encode words as numbers, and give the "
                         "pool as pool_int64s")
    dims = dims_of(x)
    if len(dims) not in (1, 2) or not isinstance(dims[-1], int):
        raise node.error("takes one row or rows of static length; pin it with dims")
    grams = _grams(node, pool, starts, len(indexes))
    first, last, skips = (node.attr(name) for name in ("min_gram_length", "max_gram_length", "max_skip_count"))
    if not 1 <= first <= last or skips < 0:
        raise node.error(f"n-grams of {first} to {last} elements that skip up to {skips} are none")
    counts = [_counts(node, x, dims, rows, length, skips if length > 1 else 0) if first <= length <= last
              else node.filled([*dims[:-1], len(rows)], 0, "float32") for length, rows in grams]
    counts = [node.bind(c) for c in counts]
    found = node.call("concat", *counts, axis=len(dims) - 1) if len(counts) > 1 else counts[0]
    if mode == "IDF":
        found = node.call("minimum", found, node.const(1, "float32"))
    weights = np.array(node.attr("weights") or [1.0] * len(indexes), np.float32)
    if weights.shape != indexes.shape:
        raise node.error(f"attribute weights has {len(weights)} numbers for {len(indexes)} n-grams")
    if mode != "TF":
        found = node.call("multiply", found, node.const(weights, "float32"))
    return _placed(node, found, indexes, dims)


def _grams(node, pool, starts, count):
    """[(length, n-grams [number, length])] in the pool's order, which is that of ngram_indexes."""
    ends, found = [*starts[1:], len(pool)], []
    for length, (start, end) in enumerate(zip(starts, ends), 1):
        if not 0 <= start <= end <= len(pool) or (end - start) % length:
            raise node.error(f"attribute ngram_counts {[int(s) for s in starts]} does not fit a pool of {len(pool)}")
        if end > start:
            found.append((length, pool[start:end].reshape(-1, length)))
    if sum(len(rows) for _, rows in found) != count or not count:
        raise node.error(f"attribute ngram_indexes has {count} numbers for {sum(len(r) for _, r in found)} n-grams")
    if any(len(np.unique(rows, axis=0)) != len(rows) for _, rows in found):
        raise node.error("the pool has an n-gram twice")
    return found


def _counts(node, x, dims, rows, length, skips):
    """How often each of `rows`, n-grams, occurs: float32 [..., number]."""
    places = [np.arange(dims[-1] - (length - 1) * (skip + 1))[:, None] + np.arange(length) * (skip + 1)
              for skip in range(skips + 1) if dims[-1] > (length - 1) * (skip + 1)]
    lead = dims[:-1]
    if not places:
        return node.filled([*lead, len(rows)], 0, "float32")
    places = np.concatenate(places)
    if places.size > MOST_WINDOWS:
        raise node.error(f"{len(places)} n-grams of {length} elements in a row are more than {MOST_WINDOWS // length}")
    hits = []
    for k in range(length):
        given = node.call("take", node.bind(x), node.const(places[:, k], "int64"), axis=len(lead))
        given = node.reshape(node.bind(given), [*lead, 1, len(places)])
        wanted = node.const(rows[:, k].astype(x.struct_info.dtype.numpy)[:, None], x.struct_info.dtype)
        hits.append(node.bind(node.call("equal", given, wanted)))
    hit = reduce(lambda a, b: node.call("logical_and", a, b), hits)
    return node.call("sum", node.astype(hit, "float32"), axis=(len(lead) + 1,), keepdims=False)


def _placed(node, found, indexes, dims):
    """The counts at the places of the result that they have; n-grams that share one are added up."""
    size = int(indexes.max()) + 1
    if indexes.min() < 0 or size > MOST_WINDOWS:
        raise node.error(f"attribute ngram_indexes has {int(indexes.min())} to {size - 1}, which are no places")
    if len(set(indexes)) < len(indexes):
        spread = np.zeros((len(indexes), size), np.float32)
        spread[np.arange(len(indexes)), indexes] = 1
        rows = node.reshape(node.bind(found), [1, len(indexes)] if len(dims) == 1 else [dims[0], len(indexes)])
        return node.reshape(node.bind(node.call("matmul", rows, node.const(spread, "float32"))), [*dims[:-1], size])
    order = np.full(size, len(indexes))
    order[indexes] = np.arange(len(indexes))
    if len(indexes) < size:
        found = node.call("concat", node.bind(found), node.filled([*dims[:-1], 1], 0, "float32"), axis=len(dims) - 1)
    return node.call("take", node.bind(found), node.const(order, "int64"), axis=len(dims) - 1)
