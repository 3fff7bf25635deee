"""Support vector machines of ai.onnx.ml. Where the standard leaves the scores open, they are onnxruntime's."""
from __future__ import annotations

from itertools import combinations

import numpy as np

from ..shapes import dims_of
from .converter import converts
from .ml_scores import (TRANSFORMS, above, best_label, class_labels, matrix, named, numbers, pair, scaled, single,
                        transformed)

DOMAIN = "ai.onnx.ml"


def _kernel(node, rows, vectors):
    """The kernel of each row and support vector, [n, vectors]."""
    kind = node.choice("kernel_type", "LINEAR", "POLY", "RBF", "SIGMOID")
    params = [float(p) for p in node.attr("kernel_params", ())]
    if kind != "LINEAR" and len(params) != 3:
        raise node.error(f"attribute kernel_params has {len(params)} numbers, and must have 3: gamma, coef0 and degree")
    if kind == "RBF":
        distance = node.call("ml.squared_distance", rows, node.const(vectors, "float32"))
        return node.call("exp", node.call("multiply", distance, node.const(-params[0], "float32")))
    product = node.call("matmul", rows, node.const(vectors.T, "float32"))
    if kind == "LINEAR":
        return product
    product = scaled(node, product, params[0], params[1])
    if kind == "SIGMOID":
        return node.call("tanh", product)
    if params[2] in (1, 2, 3):
        square = node.call("multiply", product, product) if params[2] > 1 else product
        return node.call("multiply", square, product) if params[2] == 3 else square
    return node.call("power", product, node.const(params[2], "float32"))


def _vectors(node, rows, count):
    """The support vectors, [count, features]."""
    vectors, features = numbers(node, "support_vectors"), dims_of(rows)[1]
    if vectors.size != count * features:
        raise node.error(f"attribute support_vectors has {vectors.size} numbers, and must have {count} times "
                         f"{features}, the features of X")
    return vectors.reshape(count, features)


def _rho(node, count):
    rho = numbers(node, "rho")
    if rho.size < count:
        raise node.error(f"attribute rho has {rho.size} numbers, and must have {count}")
    return node.const(rho[:count], "float32")


def _linear(node, rows, count):
    """Scores [n, count] of a machine without support vectors."""
    coefficients, features = numbers(node, "coefficients"), dims_of(rows)[1]
    if coefficients.size != count * features:
        raise node.error(f"attribute coefficients has {coefficients.size} numbers, and must have {count} times "
                         f"{features}, the features of X")
    scores = node.call("matmul", rows, node.const(coefficients.reshape(count, features).T, "float32"))
    return node.call("add", scores, _rho(node, 1))


@converts("SVMRegressor", 1, domain=DOMAIN)
def svm_regressor(node):
    if node.attr("post_transform", "NONE") != "NONE":
        raise node.error("attribute post_transform must be NONE: runtimes do not agree on others here")
    rows, count = matrix(node, node.input(0)), node.attr("n_supports", 0)
    if count > 0:
        coefficients = numbers(node, "coefficients")
        if coefficients.size != count:
            raise node.error(f"attribute coefficients has {coefficients.size} numbers, and must have {count}")
        kernel = _kernel(node, rows, _vectors(node, rows, count))
        scores = node.call("matmul", kernel, node.const(coefficients.reshape(count, 1), "float32"))
        scores = node.call("add", scores, _rho(node, 1))
    else:
        scores = _linear(node, rows, 1)
    if not node.attr("one_class", 0):
        return scores
    return node.call("where", above(node, scores, 0), node.const(1, "float32"), node.const(-1, "float32"))


@converts("SVMClassifier", 1, domain=DOMAIN)
def svm_classifier(node):
    rows, kind, labels = matrix(node, node.input(0)), node.choice("post_transform", *TRANSFORMS), class_labels(node)
    if not len(labels):
        raise node.error("it has no labels of classes")
    if sum(node.attr("vectors_per_class", ())) > 0:
        return _by_pairs(node, rows, kind, labels)
    scores = _linear(node, rows, len(labels))
    label, finish = _linear_label(node, scores, labels), transformed if len(labels) > 1 else single
    return named(node, label, finish(node, scores, kind))


def _linear_label(node, scores, labels):
    """Of two classes the second one is chosen also where the greater score is large enough, onnxruntime says."""
    if len(labels) != 2 or numbers(node, "prob_a").size:
        return best_label(node, scores, labels)
    best = node.call("max", scores, axis=(1,), keepdims=True)
    if (numbers(node, "coefficients") >= 0).all():
        sure = node.call("greater_equal", best, node.const(0.5, "float32"))
    else:
        sure = above(node, best, 0)
    best = node.reshape(best_label(node, scores, labels), [dims_of(scores)[0], 1])
    label = node.call("where", sure, node.const(labels[1], "int64"), best)
    return node.reshape(label, dims_of(scores)[:1])


# ---------------------------------------------------------------- pairs of classes

def _by_pairs(node, rows, kind, labels):
    """A machine for each pair of classes, which votes for one of them."""
    per_class, count = node.attr("vectors_per_class"), len(labels)
    if len(per_class) != count or min(per_class) < 0 or count < 2:
        raise node.error(f"attribute vectors_per_class {tuple(per_class)} must have a number for each of the {count} "
                         "classes, of which there must be two or more")
    kernel = _kernel(node, rows, _vectors(node, rows, sum(per_class)))
    pairs = list(combinations(range(count), 2))
    scores = node.call("add", node.call("matmul", kernel, node.const(_pair_weights(node, per_class, pairs), "float32")),
                       _rho(node, len(pairs)))
    label = best_label(node, _votes(node, scores, pairs, count), labels)
    if numbers(node, "prob_a").size:
        return named(node, label, transformed(node, _probabilities(node, scores, pairs, count), kind))
    if count == 2:
        return named(node, label, pair(node, scores, kind, kind != "NONE"))
    return named(node, label, transformed(node, scores, kind))


def _pair_weights(node, per_class, pairs):
    """The weight of each support vector in each machine, [vectors, pairs]. The coefficients are rows of a number for
    each vector: the machine of classes i < j takes row j - 1 of the vectors of i, and row i of those of j."""
    total = sum(per_class)
    coefficients = numbers(node, "coefficients")
    if coefficients.size < (len(per_class) - 1) * total:
        raise node.error(f"attribute coefficients has {coefficients.size} numbers, and must have "
                         f"{len(per_class) - 1} times {total}")
    table = coefficients[:(len(per_class) - 1) * total].reshape(-1, total)
    ends = np.cumsum(per_class)
    owned = [slice(int(end - n), int(end)) for end, n in zip(ends, per_class)]
    weights = np.zeros((total, len(pairs)), np.float32)
    for k, (i, j) in enumerate(pairs):
        weights[owned[i], k], weights[owned[j], k] = table[j - 1, owned[i]], table[i, owned[j]]
    return weights


def _votes(node, scores, pairs, count):
    """How many machines vote for each class, [n, classes]: for the first of their two where the score is above 0."""
    signs, second = np.zeros((len(pairs), count), np.float32), np.zeros(count, np.float32)
    for k, (i, j) in enumerate(pairs):
        signs[k, i], signs[k, j] = 1, -1
        second[j] += 1
    first = node.astype(above(node, scores, 0), "float32")
    return node.call("add", node.call("matmul", first, node.const(signs, "float32")), node.const(second, "float32"))


def _probabilities(node, scores, pairs, count):
    """The classes' probabilities, from those of the first class of each pair."""
    a, b = numbers(node, "prob_a"), numbers(node, "prob_b")
    if min(a.size, b.size) < len(pairs):
        raise node.error(f"attributes prob_a and prob_b have {a.size} and {b.size} numbers, and must have {len(pairs)}")
    inner = node.call("multiply", scores, node.const(a[:len(pairs)], "float32"))
    inner = node.call("add", inner, node.const(b[:len(pairs)], "float32"))
    first = scaled(node, node.call("sigmoid", inner), -1, 1)
    first = node.call("clip", first, min=1e-7, max=float(np.float32(1) - np.float32(1e-7)))
    both = node.call("concat", first, scaled(node, first, -1, 1), axis=1)
    places = np.zeros((count, count), np.int64)
    for k, (i, j) in enumerate(pairs):
        places[i, j], places[j, i] = k, len(pairs) + k
    square = node.call("take", both, node.const(places, "int64"), axis=1)
    return node.call("ml.coupled_probabilities", square)
