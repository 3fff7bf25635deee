"""ml.tree_branches: ml.tree_ensemble whose trees are branches of the program, for trees of few nodes.

Attributes hold the trees, in the words of trees.py: `roots`, and by node `features`, `splits`, `children` (two for each
node) and `kinds`, the comparison and 4 more where NaN goes to the first child. Arguments are the rows, `weights` and
the tables `targets` and `places`.

A processor predicts branches of the program better than it loads the node that a comparison has chosen.
"""
from __future__ import annotations

import numpy as np

from ... import tir
from ...expr import const
from ...op import REQUIRED, register
from .common import fail
from .trees import COMPARISONS, NAN_FIRST, evaluate_trees, infer_trees, scored

MOST_NODES = 2048  # of all trees: their branches stay in a cache of instructions of 32 KB
MOST_DEPTH = 48


def fits(roots, splits, children):
    """Whether trees are small, and their splits numbers. A node that several lead to counts for each of them."""
    count, todo = 0, [(r, 0) for r in roots]
    while todo:
        node, depth = todo.pop()
        if node >= 0:
            count += 1
            todo += [(child, depth + 1) for child in children[node]]
        if count > MOST_NODES or depth > MOST_DEPTH:
            return False
    return bool(np.isfinite(splits).all())


def _infer(call):
    attrs = call.attrs
    nodes = len(attrs["features"])
    if not len(attrs["splits"]) == len(attrs["kinds"]) == nodes == len(attrs["children"]) / 2:
        fail(call, "features, splits and kinds must have an element for each node, children two")
    return infer_trees(call, 1)


def _goes_first(value, split, kind):
    held = COMPARISONS[kind % NAN_FIRST](value, split)
    return tir.any(held, tir.isnan(value)) if kind >= NAN_FIRST else held


def _lower(args, attrs, out):
    features, splits, kinds, children = (attrs[n] for n in ("features", "splits", "kinds", "children"))

    def walk(ib, given, i, reached):
        leaf = ib.allocate("int32", (1,), "leaf")

        def descend(node):
            if node < 0:
                leaf[0] = const(-1 - node)
                return
            value = given[0][i, features[node]]
            with ib.if_scope(_goes_first(value, const(splits[node], value.dtype), kinds[node])):
                descend(children[2 * node])
            with ib.else_scope():
                descend(children[2 * node + 1])

        for root in attrs["roots"]:
            descend(root)
            reached(leaf[0])

    return scored(args, attrs, out, 1, walk)


def _evaluate(args, attrs):
    x, weights, *tables = map(np.asarray, args)
    trees = [np.array(attrs["roots"]), np.array(attrs["features"]), np.array(attrs["splits"], x.dtype),
             np.array(attrs["children"]).reshape(-1, 2)]
    return evaluate_trees(x, *trees, np.array(attrs["kinds"]), weights, dict(zip(attrs["tables"], tables)), attrs)


register("ml.tree_branches", _infer, _lower, _evaluate, "opaque", (2, 4), count=REQUIRED, roots=REQUIRED,
         features=REQUIRED, splits=REQUIRED, children=REQUIRED, kinds=REQUIRED, tables=(), aggregate="sum", marks=False)
