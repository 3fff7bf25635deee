"""Sampling of classes by probability: among the first top_k, of which the first top_p of the probability count.

Operators of the table alone, so that they compile with the network around them.
"""
from __future__ import annotations

import numpy as np

from ...ir.relax import op as relax_op
from ...ir.relax.expr import const
from .tensor import builder, wrap_nested


def _emit(name, *args, **attrs):
    return builder().emit(relax_op.call(name, *args, **attrs))


def _classes(tensor, what):
    count = tensor.shape[1]
    if not isinstance(count, int):
        raise ValueError(f"{what}: the number of classes must be known, it is {count}")
    return count


def _count(condition, most):
    """How many of each row hold, at most `most`: [rows, 1] of int64."""
    counts = _emit("sum", _emit("astype", condition, "int64"), axis=[1], keepdims=True)
    return _emit("minimum", counts, const(most, "int64"))


def _first_beyond(cumulative, top_p, top_k, classes):
    """The place of the last class that counts, [rows, 1]: before it are those whose sum is below top_p and that are
    fewer than top_k."""
    places = const(np.arange(1, classes + 1).reshape(1, -1), top_k.struct_info.dtype)
    inside = _emit("logical_and", _emit("less", cumulative, top_p), _emit("less", places, top_k))
    return _count(inside, classes - 1)


def sample_top_p_top_k_from_sorted_prob(sorted_prob, sorted_index, top_p, top_k, uniform_sample, sample_indices=None):
    """Classes [n, 1], drawn by numbers of [0, 1), uniform_sample [n, 1].

    sorted_prob, sorted_index [batch, classes]: probabilities from the largest on, and the classes they are of; top_p,
    top_k [batch, 1]; sample_indices [n, 1]: the row of each draw, by default row k for draw k.
    """
    name, draws = "sample_top_p_top_k_from_sorted_prob", uniform_sample.shape[0]
    classes = _classes(sorted_prob, name)
    if sample_indices is None and sorted_prob.shape[0] != draws:
        raise ValueError(f"{name}: Number of samples must match the number of probability distributions, {draws} and "
                         f"{sorted_prob.shape[0]}; or give sample_indices")
    if sample_indices is not None and sample_indices.shape != uniform_sample.shape:
        raise ValueError(f"{name}: The shape of sample_indices must match the shape of uniform_sample, "
                         f"{sample_indices.shape} and {uniform_sample.shape}")
    cumulative = _emit("cumsum", sorted_prob._expr, axis=1)
    last = _first_beyond(cumulative, top_p._expr, top_k._expr, classes)
    whole, index = _emit("gather_elements", cumulative, last, axis=1), sorted_index._expr
    if sample_indices is not None:
        rows = _emit("reshape", sample_indices._expr, (-1,))
        cumulative, whole, index = (_emit("take", t, rows, axis=0) for t in (cumulative, whole, index))
    below = _emit("less_equal", _emit("divide", cumulative, whole), uniform_sample._expr)
    return wrap_nested(relax_op.call("gather_elements", index, _count(below, classes - 1), axis=1), name)


def renormalize_top_p_top_k_prob(prob, sorted_prob, top_p, top_k):
    """prob [batch, classes] with 0 for the classes that do not count, divided by what remains.

    sorted_prob: the same from the largest on; top_p, top_k [batch, 1].
    """
    classes = _classes(sorted_prob, "renormalize_top_p_top_k_prob")
    cumulative = _emit("cumsum", sorted_prob._expr, axis=1)
    last = _first_beyond(cumulative, top_p._expr, top_k._expr, classes)
    least = _emit("gather_elements", sorted_prob._expr, last, axis=1)
    kept = _emit("where", _emit("greater_equal", prob._expr, least), prob._expr, const(0, prob.dtype))
    total = _emit("sum", kept, axis=[1], keepdims=True)
    return wrap_nested(relax_op.call("divide", kept, total), "renormalize_top_p_top_k_prob")


__all__ = ["renormalize_top_p_top_k_prob", "sample_top_p_top_k_from_sorted_prob"]
