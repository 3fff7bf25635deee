"""Decision trees as the tables of ml.tree_ensemble, from the attributes of the operators that have trees.

The six comparisons, and membership, become the three of the tables. "Greater" is "less or equal" with the children
exchanged, and so on; where NaN goes is kept beside. A test for membership is a chain of tests for equality.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir.relax.expr import Constant
from ...ir.relax.ops.tree_branches import fits
from ...ir.relax.ops.trees import EQ, LEQ, LT, MIXED, NAN_FIRST

# mode -> (comparison, whether the children are exchanged)
MODES = {"BRANCH_LEQ": (LEQ, False), "BRANCH_LT": (LT, False), "BRANCH_GTE": (LT, True), "BRANCH_GT": (LEQ, True),
         "BRANCH_EQ": (EQ, False), "BRANCH_NEQ": (EQ, True), "BRANCH_MEMBER": (EQ, False)}


@dataclass(frozen=True)
class Branch:
    """A node as the model has it. yes, no: the next nodes, or -1 - leaf; members: of a test for membership."""

    mode: str
    feature: int
    split: float
    yes: int
    no: int
    nan_yes: bool
    members: tuple = ()


@dataclass(frozen=True)
class Forest:
    """Trees in tables. leaves: by leaf its weights, {target: weight}. tree_leaves: by tree the leaves that it has."""

    roots: list
    features: list
    splits: list
    kinds: list
    children: list
    leaves: list
    tree_leaves: list


def forest(node, roots, branches, leaves, features):
    """The Forest of trees. roots: their first nodes; branches, leaves: all nodes, in the order that numbers in Branch
    count. Numbers are checked: features of X, nodes, and that a node has one way to it.
    """
    number, order, tree_leaves = {}, [], []
    for root in roots:
        found, todo = set(), [root]
        while todo:
            at = todo.pop()
            if not -len(leaves) <= at < len(branches):
                raise node.error(f"a tree names a node {at if at >= 0 else -1 - at} that it does not have")
            if at < 0:
                found.add(-1 - at)
                continue
            if at in number:
                raise node.error("two ways lead to one node of a tree, or a way leads back")
            number[at] = len(order)
            order.append(branches[at])
            todo += [branches[at].no, branches[at].yes]
        tree_leaves.append(found)
    tables = Forest([number.get(r, r) for r in roots], [], [], [], [], leaves, tree_leaves)
    later = []
    for place, b in enumerate(order):
        if not 0 <= b.feature < features:
            raise node.error(f"a tree looks at feature {b.feature}, and X has {features}")
        yes, no = number.get(b.yes, b.yes), number.get(b.no, b.no)
        tests = b.members or (b.split,) if b.mode == "BRANCH_MEMBER" else (b.split,)
        if b.mode == "BRANCH_MEMBER" and not b.members:
            tests = (np.nan,)
        _append(tables, b, tests[0], yes, no)
        if len(tests) > 1:
            later.append((place, b, tests[1:], yes, no))
    for place, b, tests, yes, no in later:
        tables.children[place][1] = len(tables.features)
        for k, test in enumerate(tests, 1):
            _append(tables, b, test, yes, no if k == len(tests) else len(tables.features) + 1)
    if not tables.features:  # trees of a leaf alone
        _append(tables, Branch("BRANCH_LEQ", 0, 0.0, 0, 0, False), 0.0, -1, -1)
    return tables


def _append(tables, branch, split, yes, no):
    kind, exchanged = MODES[branch.mode]
    # NaN is not equal to a number, also where its way is not said
    nan_first = (not branch.nan_yes and branch.mode != "BRANCH_NEQ") if exchanged else branch.nan_yes
    tables.features.append(branch.feature)
    tables.splits.append(split)
    tables.kinds.append(kind + NAN_FIRST * bool(nan_first))
    tables.children.append([no, yes] if exchanged else [yes, no])


def scores(node, x, trees, count, aggregate="sum", wide=False):
    """(scores [n, count]; for each target whether a leaf has a weight for it, or None where the row decides that; that
    as a tensor, or None where no row decides).

    x: rows of float32 or float64. wide: whether weights are float64 although rows are not.
    """
    dtype = "float64" if wide or x.struct_info.dtype == "float64" else "float32"
    splits = _as_wide(np.array(trees.splits, np.float64), np.array(trees.kinds) % NAN_FIRST, x.struct_info.dtype)
    tables, attrs = {}, {"count": count, "aggregate": aggregate}
    comparisons = {k % NAN_FIRST for k in trees.kinds}
    attrs["comparison"] = comparisons.pop() if len(comparisons) == 1 else MIXED
    if len(set(trees.kinds)) == 1:
        attrs["comparison"] = trees.kinds[0]
    else:
        tables["flags"] = np.array(trees.kinds, np.uint8)
    if all(sorted(leaf) == list(range(count)) for leaf in trees.leaves):
        weights = np.array([[leaf[k] for k in range(count)] for leaf in trees.leaves])
    else:
        weights = np.array([w for leaf in trees.leaves for w in leaf.values()])
        tables["targets"] = small([k for leaf in trees.leaves for k in leaf])
        if any(len(leaf) != 1 for leaf in trees.leaves):
            tables["places"] = small(np.cumsum([0, *map(len, trees.leaves)]))
            if not weights.size:
                weights, tables["targets"] = np.zeros(1), small([0])
    tables = {"roots": small(trees.roots), "features": small(trees.features), "splits": splits,
              "children": small(trees.children), "weights": weights.astype(dtype), **tables}
    known = [_known(trees, k) for k in range(count)]
    attrs["marks"] = None in known
    op, attrs["tables"] = "ml.tree_ensemble", tuple(tables)[5:]
    if fits(trees.roots, splits, trees.children):
        op, attrs = "ml.tree_branches", {
            "count": count, "aggregate": aggregate, "marks": attrs["marks"], "roots": tuple(trees.roots),
            "features": tuple(trees.features), "splits": tuple(splits.tolist()), "kinds": tuple(trees.kinds),
            "children": tuple(c for pair in trees.children for c in pair),
            "tables": tuple(t for t in attrs["tables"] if t != "flags")}
        tables = {name: a for name, a in tables.items() if name in ("weights", "targets", "places")}
    title = node.proto.name or node.proto.op_type
    found = node.call(op, x, *(Constant(a, f"{title}_{name}") for name, a in tables.items()), **attrs)
    return (found[0], known, found[1]) if attrs["marks"] else (found, known, None)


def small(values):
    """Integers as int16 where they fit, else int32."""
    values = np.asarray(values, np.int64)
    return values.astype(np.int16 if values.size and np.abs(values).max() < 1 << 15 else np.int32)


def _known(trees, target):
    """Whether each row gets a weight of a target: True, False, or None where the row decides it."""
    held = [target in leaf for leaf in trees.leaves]
    if any(all(held[k] for k in leaves) for leaves in trees.tree_leaves):
        return True
    return None if any(held) else False


def _as_wide(splits, kinds, dtype):
    """Splits in the dtype of the rows, so that comparisons with numbers of that dtype stay what they are."""
    near = splits.astype(dtype)
    with np.errstate(over="ignore"):
        below = np.where(near > splits, np.nextafter(near, near.dtype.type(-np.inf)), near)
        above = np.where(near < splits, np.nextafter(near, near.dtype.type(np.inf)), near)
    same = np.where(near == splits, near, near.dtype.type(np.nan))
    return np.select([kinds == LEQ, kinds == LT], [below, above], same).astype(dtype)
