"""Decision trees of ai.onnx.ml: TreeEnsemble, and the two operators that it follows.

The standard leaves the scores and labels of two classes open; they are onnxruntime's here.
"""
from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from ..shapes import dims_of
from .converter import converts
from .ml_forest import MODES, Branch, forest, scores
from .ml_scores import (TRANSFORMS, above, best_label, chosen, class_labels, column, matrix, named, negative, numbers,
                        pair, single, transformed)

DOMAIN = "ai.onnx.ml"
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
MOST_TARGETS = 1 << 20


def _rows(node):
    x = node.input(0)
    return matrix(node, x, "float64" if x.struct_info.dtype == "float64" else "float32")


def _given(node, name):
    """A list of numbers that is an attribute of floats or a tensor; None where it is neither."""
    tensor = node.attr(name + "_as_tensor")
    if tensor is not None:
        return numpy_helper.to_array(tensor).reshape(-1)
    return None if node.attr(name) is None else numbers(node, name)


# ---------------------------------------------------------------- trees by numbers of nodes

def _listed_trees(node, features, part):
    """(Forest, whether its weights are float64) of nodes that name their tree and number. part: "class" or "target",
    how the attributes of the leaves' weights begin."""
    lists = {n: node.attr(f"nodes_{n}", ()) for n in (
        "treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids")}
    lists["values"] = _given(node, "nodes_values")
    size = len(lists["treeids"])
    if not size or any(v is None or len(v) != size for v in lists.values()):
        raise node.error("the attributes nodes_* must be lists of one length, an element for each node")
    missing = node.attr("nodes_missing_value_tracks_true") or [0] * size
    if len(missing) != size:
        raise node.error(f"attribute nodes_missing_value_tracks_true has {len(missing)} elements, and must have {size}")
    keys = list(zip(lists["treeids"], lists["nodeids"]))
    inner, leaf = {}, {}
    for key, mode in zip(keys, lists["modes"]):
        if mode != "LEAF" and mode not in MODES or mode == "BRANCH_MEMBER":
            raise node.error(f"attribute nodes_modes holds {mode!r}")
        table = leaf if mode == "LEAF" else inner
        table[key] = len(table)
    if len(inner) + len(leaf) != size:
        raise node.error("two nodes of one tree have the same number")

    def place(tree, number):
        key = (tree, number)
        if key not in inner and key not in leaf:
            raise node.error(f"tree {tree} names node {number}, which it does not have")
        return inner[key] if key in inner else -1 - leaf[key]

    branches = [Branch(mode, feature, split, place(tree, yes), place(tree, no), missed == 1)
                for tree, feature, split, mode, yes, no, missed in zip(
                    lists["treeids"], lists["featureids"], lists["values"], lists["modes"], lists["truenodeids"],
                    lists["falsenodeids"], missing) if mode != "LEAF"]
    roots = {}
    for tree, number in keys:
        roots.setdefault(tree, place(tree, number))
    leaves, wide = _leaf_weights(node, part, leaf)
    return forest(node, list(roots.values()), branches, leaves, features), wide


def _leaf_weights(node, part, leaf):
    """([{target: weight}] by leaf, whether the weights are float64). leaf: {(tree, node): number of the leaf}."""
    weights = _given(node, f"{part}_weights")
    targets, trees, nodes = (node.attr(f"{part}_{n}", ()) for n in ("ids", "treeids", "nodeids"))
    if weights is None or not len(weights) == len(targets) == len(trees) == len(nodes):
        raise node.error(f"the attributes {part}_* must be lists of one length, an element for each weight")
    leaves = [{} for _ in leaf]
    for tree, number, target, weight in zip(trees, nodes, targets, weights):
        if (tree, number) in leaf:
            held = leaves[leaf[tree, number]]
            held[target] = held.get(target, 0) + weight
    return leaves, weights.dtype == np.float64


def _check_targets(node, trees, count):
    if not 1 <= count <= MOST_TARGETS:
        raise node.error(f"it has {count} targets, and must have 1 to {MOST_TARGETS}")
    wrong = {k for leaf in trees.leaves for k in leaf if not 0 <= k < count}
    if wrong:
        raise node.error(f"a leaf has a weight for number {min(wrong)}, and there are {count} classes or targets")


# ---------------------------------------------------------------- regression

def _regression(node, trees, count, aggregate, kind, base, wide):
    """Scores [n, count], before the dtype of the output."""
    _check_targets(node, trees, count)
    rows = _rows(node)
    result, known, seen = scores(node, rows, trees, count, {"MIN": "min", "MAX": "max"}.get(aggregate, "sum"), wide)
    dtype = result.struct_info.dtype
    if aggregate in ("MIN", "MAX") and known != [True] * count:
        seen = node.const(np.array(known, bool), "bool") if seen is None else seen
        result = node.call("where", seen, result, node.const(0, dtype))
    if aggregate == "AVERAGE":
        result = node.call("divide", result, node.const(len(trees.roots), dtype))
    if base is not None and base.size:
        if base.size != count:
            raise node.error(f"attribute base_values has {base.size} numbers, and must have {count}")
        result = node.call("add", result, node.const(base, dtype))
    return (transformed if count > 1 else single)(node, result, kind)


@converts("TreeEnsembleRegressor", 1, domain=DOMAIN)
def tree_ensemble_regressor(node):
    features = dims_of(_rows(node))[1]
    trees, wide = _listed_trees(node, features, "target")
    count = node.attr("n_targets", 1)
    result = _regression(node, trees, count, node.choice("aggregate_function", "SUM", "AVERAGE", "MIN", "MAX"),
                         node.choice("post_transform", *TRANSFORMS), _given(node, "base_values"), wide)
    return node.astype(result, "float32")


@converts("TreeEnsemble", 5, domain=DOMAIN)
def tree_ensemble(node):
    x = node.input(0)
    trees = _numbered_trees(node, dims_of(_rows(node))[1])
    aggregate, kind = node.attr("aggregate_function", 1), node.attr("post_transform", 0)
    if aggregate not in range(len(AGGREGATES)) or kind not in range(len(TRANSFORMS)):
        raise node.error(f"attributes aggregate_function {aggregate} and post_transform {kind} must be numbers of "
                         f"{AGGREGATES} and {TRANSFORMS}")
    count = node.attr("n_targets", 1 + max((k for leaf in trees.leaves for k in leaf), default=0))
    result = _regression(node, trees, count, AGGREGATES[aggregate], TRANSFORMS[kind], None, False)
    return node.astype(result, str(x.struct_info.dtype))


def _numbered_trees(node, features):
    """The Forest of nodes whose children are numbers of nodes or of leaves."""
    names = tuple(MODES)  # in the order of their numbers
    modes = numpy_helper.to_array(node.attr("nodes_modes")).reshape(-1)
    splits = numpy_helper.to_array(node.attr("nodes_splits")).reshape(-1).astype(np.float64)
    weights = numpy_helper.to_array(node.attr("leaf_weights")).reshape(-1).astype(np.float64)
    size, targets = len(modes), node.attr("leaf_targetids")
    lists = [node.attr(f"nodes_{n}", ()) for n in ("featureids", "truenodeids", "trueleafs", "falsenodeids",
                                                  "falseleafs")]
    missing = node.attr("nodes_missing_value_tracks_true") or [0] * size
    if any(len(v) != size for v in (splits, missing, *lists)) or len(targets) != len(weights):
        raise node.error("the attributes nodes_*, and leaf_*, must be lists of one length, an element for each node or "
                         "leaf")
    if size and modes.max() >= len(names):
        raise node.error(f"attribute nodes_modes holds {modes.max()}, and must be below {len(names)}")
    members = _members(node, int(np.sum(modes == names.index("BRANCH_MEMBER"))))
    branches = []
    for mode, split, missed, feature, yes, yes_leaf, no, no_leaf in zip(modes, splits, missing, *lists):
        if min(yes, no) < 0:
            raise node.error("a tree names a node or leaf below 0")
        mode = names[mode]
        branches.append(Branch(mode, feature, split, -1 - yes if yes_leaf else yes, -1 - no if no_leaf else no,
                               bool(missed), next(members) if mode == "BRANCH_MEMBER" else ()))
    leaves = [{k: w} for k, w in zip(targets, weights)]
    roots = [_root(r, branches) for r in node.attr("tree_roots")]
    return forest(node, roots, branches, leaves, features)


def _members(node, count):
    """The members of each test for membership, in order: numbers up to the next NaN."""
    tensor = node.attr("membership_values")
    values = np.zeros(0) if tensor is None else numpy_helper.to_array(tensor).reshape(-1).astype(np.float64)
    ends = np.flatnonzero(np.isnan(values))
    if len(ends) < count:
        raise node.error(f"attribute membership_values has {len(ends)} lists, and {count} nodes test membership")
    return iter([tuple(values[begin:end]) for begin, end in zip([0, *ends[:-1] + 1], ends)])


def _root(root, branches):
    """A tree whose root has one leaf on both sides is that leaf."""
    if 0 <= root < len(branches) and branches[root].yes == branches[root].no < 0:
        return branches[root].yes
    return root


# ---------------------------------------------------------------- classes

@converts("TreeEnsembleClassifier", 1, domain=DOMAIN)
def tree_ensemble_classifier(node):
    kind, labels = node.choice("post_transform", *TRANSFORMS), class_labels(node, "classlabels_int64s")
    count = len(labels)
    if not count:
        raise node.error("it has no labels of classes")
    rows = _rows(node)
    trees, wide = _listed_trees(node, dims_of(rows)[1], "class")
    _check_targets(node, trees, count)
    base = _given(node, "base_values")
    base = np.zeros(0) if base is None else base
    if base.size not in ((0, 1, 2) if count == 2 else (0, count)):
        raise node.error(f"attribute base_values has {base.size} numbers, and must have {count}")
    result, known, seen = scores(node, rows, trees, count, wide=wide)
    if count == 2:
        found = _two_classes(node, result, _Seen(node, known, seen), labels, kind, base)
    else:
        found = _classes(node, result, _Seen(node, known, seen), labels, kind, base)
    return named(node, found[0], node.astype(found[1], "float32"))


class _Seen:
    """Whether a row has a weight of each class: known, or a column of bools."""

    def __init__(self, node, known, marks):
        self.node, self.known, self.marks = node, known, marks

    def choose(self, k, yes, no):
        """`yes` in rows that have a weight of class k, else `no`."""
        if self.known[k] is not None:
            return yes if self.known[k] else no
        return self.node.call("where", column(self.node, self.marks, k), yes, no)

    def only(self, values, other):
        """Scores [n, classes] where there is a weight, else a number."""
        if all(self.known):
            return values
        marks = self.marks if self.marks is not None else self.node.const(np.array(self.known, bool), "bool")
        return self.node.call("where", marks, values, self.node.const(other, values.struct_info.dtype))


def _classes(node, values, seen, labels, kind, base):
    """One class, or three and more: the class of the greatest score among those that have a weight."""
    dtype = values.struct_info.dtype
    if base.size:
        values = node.call("add", values, node.const(base, dtype))
    if len(labels) == 1:
        return chosen(node, above(node, values, 0), np.array([0, 1])), single(node, values, kind)
    compared = values if base.size else seen.only(values, -np.inf)
    return best_label(node, compared, labels), transformed(node, values, kind)


def _two_classes(node, values, seen, labels, kind, base):
    """With the weights of one class alone that one's score is the second one's, whichever it is. A class without
    weight has score 0, whatever its base value."""
    weights, ids = _given(node, "class_weights"), set(node.attr("class_ids"))
    alone, positive = len(ids) == 1, bool((weights >= 0).all())
    dtype = values.struct_info.dtype
    first, second = column(node, values, 0), column(node, values, 1)
    if base.size == 2:
        lone = seen.choose(0, node.call("add", first, node.const(base[0], dtype)), first)
        whole = node.call("add", first, node.const(base[1], dtype))
        without_second = node.call("concat", lone, second, axis=1)
        both = node.call("concat", seen.choose(0, negative(node, whole), first), whole, axis=1)
        score = seen.choose(1, whole, lone)
        result = transformed(node, seen.choose(1, both, without_second), kind)
    else:
        if base.size:
            first = seen.choose(0, node.call("add", first, node.const(base[0], dtype)), first)
        score = seen.choose(1, second, first)
        result = transformed(node, node.call("concat", first, second, axis=1), kind)
        if seen.known[1] is not True:
            if base.size and not alone:
                raise node.error("attribute base_values has one number for two classes, of which leaves have no weight "
                                 "of the second: runtimes do not agree on the scores")
            result = seen.choose(1, result, pair(node, first, kind, alone and positive))
    limit = 0.5 if alone and positive else 0
    return chosen(node, above(node, score, limit), labels if alone else np.array([0, 1])), result
