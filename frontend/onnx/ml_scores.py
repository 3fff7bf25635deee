"""Scores of classic models: rows of numbers in, what is done to scores at the end, and labels of classes."""
from __future__ import annotations

import math

import numpy as np

from ..shapes import dims_of
from .ml_words import Words

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def matrix(node, x, dtype="float32"):
    """`x` as rows [n, features] of a dtype: a list is one row."""
    dims = dims_of(x)
    if len(dims) not in (1, 2):
        raise node.error("X must be a matrix, one row for each of the things that are judged")
    if not isinstance(dims[-1], int):
        raise node.error(f"the number of features, {dims[-1]}, must be static; pin it with dims")
    return node.astype(node.reshape(x, [1, dims[0]]) if len(dims) == 1 else x, dtype)


def numbers(node, name, dtype="float32"):
    """An attribute of numbers as an array; an empty one where it is absent."""
    return np.array(node.attr(name, ()), dtype)


def column(node, x, k):
    """Column k of a matrix, [n, 1]."""
    return node.call("strided_slice", x, axes=(1,), begin=(k,), end=(k + 1,), strides=(1,))


def scaled(node, x, scale, shift):
    """x * scale + shift."""
    dtype = x.struct_info.dtype
    return node.call("add", node.call("multiply", x, node.const(scale, dtype)), node.const(shift, dtype))


def negative(node, x):
    return node.call("negative", x)


# ---------------------------------------------------------------- transforms

def transformed(node, scores, kind):
    """Scores [n, k] of several classes or targets after a transform."""
    if kind == "LOGISTIC":
        return node.call("sigmoid", scores)
    if kind == "SOFTMAX":
        return node.call("nn.softmax", scores, axis=-1)
    if kind == "SOFTMAX_ZERO":
        return _softmax_zero(node, scores)
    return probit(node, scores) if kind == "PROBIT" else scores


def _softmax_zero(node, x):
    """A softmax of the scores that are not 0; those that are stay so."""
    tiny = node.const(1e-7, x.struct_info.dtype)
    zero = node.call("less_equal", node.call("abs", x), tiny)
    most = node.call("max", x, axis=(1,), keepdims=True)
    power = node.call("exp", node.call("subtract", x, most))
    rest = node.call("multiply", x, node.call("exp", negative(node, most)))
    nothing = node.const(0, x.struct_info.dtype)
    total = node.call("sum", node.call("where", zero, nothing, power), axis=(1,), keepdims=True)
    return node.call("divide", node.call("where", zero, rest, power), total)


def probit(node, x):
    """The quantile of the normal distribution, by the approximation of the inverse error function that
    onnxruntime uses (Winitzki's, with a = 0.147)."""
    x = scaled(node, x, 2, -1)
    dtype = x.struct_info.dtype
    log = node.call("log", node.call("multiply", scaled(node, x, -1, 1), scaled(node, x, 1, 1)))
    half = scaled(node, log, 0.5, 2 / (math.pi * 0.147))
    inner = node.call("subtract", node.call("multiply", half, half),
                      node.call("multiply", log, node.const(1 / 0.147, dtype)))
    size = node.call("sqrt", node.call("subtract", node.call("sqrt", inner), half))
    size = node.call("multiply", size, node.const(math.sqrt(2), dtype))
    return node.call("where", node.call("less", x, node.const(0, dtype)), negative(node, size), size)


def single(node, scores, kind):
    """One score [n, 1] after a transform: of these onnxruntime knows PROBIT alone, and so do we."""
    return probit(node, scores) if kind == "PROBIT" else scores


def pair(node, score, kind, opposite):
    """Two scores [n, 2] of a score [n, 1] of the second class. The first one's is the negative score; or, opposite: 1
    less it. Of transforms LOGISTIC alone has an effect, on the score and its negative."""
    if kind == "PROBIT":
        raise node.error("attribute post_transform is 'PROBIT', which with one score for two classes has no meaning "
                         "that runtimes agree on")
    first = scaled(node, score, -1, 1) if opposite else negative(node, score)
    if kind == "LOGISTIC":
        first, score = node.call("sigmoid", negative(node, score)), node.call("sigmoid", score)
    return node.call("concat", first, score, axis=1)


# ---------------------------------------------------------------- labels

def class_labels(node, name="classlabels_ints"):
    """The labels of the classes, int64: where they are text their numbers, which `named` makes words of."""
    words = node.attr("classlabels_strings", ())
    if len(words) == 1:
        raise node.error("its labels are text, of one class alone, which runtimes do not agree on")
    return np.arange(len(words)) if words else numbers(node, name, "int64")


def named(node, label, scores):
    """(labels, scores) of a classifier, with the labels as text where they are."""
    words = node.attr("classlabels_strings", ())
    return (Words(node.bind(label), words) if words else label), scores


def labelled(node, places, labels):
    """The labels at places [n], int64."""
    return node.call("take", node.const(labels, "int64"), places, axis=0)


def best_label(node, scores, labels):
    """The label of the first of the greatest scores, [n]."""
    return labelled(node, node.call("argmax", scores, axis=1), labels)


def chosen(node, condition, labels):
    """labels[1] where a condition [n, 1] holds, else labels[0]; [n]."""
    first, second = (node.const(v, "int64") for v in labels)
    label = node.call("where", condition, second, first)
    return node.reshape(label, dims_of(label)[:1])


def above(node, x, limit):
    return node.call("greater", x, node.const(limit, x.struct_info.dtype))
