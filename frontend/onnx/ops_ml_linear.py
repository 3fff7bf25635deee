"""Linear models of ai.onnx.ml. Where the standard leaves the scores of two classes open, they are onnxruntime's."""
from __future__ import annotations

import numpy as np

from ..shapes import dims_of
from .converter import converts
from .ml_scores import (TRANSFORMS, above, best_label, chosen, class_labels, matrix, named, numbers, pair,
                        single, transformed)

DOMAIN = "ai.onnx.ml"


def _products(node, rows, targets):
    """Scores [n, targets]: rows times the coefficients, plus the intercepts."""
    coefficients, intercepts = numbers(node, "coefficients"), numbers(node, "intercepts")
    features = dims_of(rows)[1]
    if coefficients.size != targets * features:
        raise node.error(f"attribute coefficients has {coefficients.size} numbers, and must have {targets} times "
                         f"{features}, one for each target and feature")
    scores = node.call("matmul", rows, node.const(coefficients.reshape(targets, features).T, "float32"))
    if not intercepts.size:
        return scores
    if intercepts.size != targets:
        raise node.error(f"attribute intercepts has {intercepts.size} numbers, and must have {targets}")
    return node.call("add", scores, node.const(intercepts, "float32"))


@converts("LinearRegressor", 1, domain=DOMAIN)
def linear_regressor(node):
    kind, targets = node.choice("post_transform", *TRANSFORMS), node.attr("targets", 1)
    scores = _products(node, matrix(node, node.input(0)), targets)
    return (transformed if targets > 1 else single)(node, scores, kind)


@converts("LinearClassifier", 1, domain=DOMAIN)
def linear_classifier(node):
    """With one score for two classes the first one's is 1 less that, without a transform."""
    rows, kind = matrix(node, node.input(0)), node.choice("post_transform", *TRANSFORMS)
    labels = class_labels(node)
    targets = max(numbers(node, "coefficients").size // max(dims_of(rows)[1], 1), 1)
    scores = _products(node, rows, targets)
    if targets > 1:
        if len(labels) != targets:
            raise node.error(f"it has {len(labels)} labels for {targets} classes")
        return named(node, best_label(node, scores, labels), transformed(node, scores, kind))
    label = chosen(node, above(node, scores, 0), labels if len(labels) == 2 else np.array([0, 1]))
    return named(node, label, pair(node, scores, kind, True) if len(labels) == 2 else single(node, scores, kind))
