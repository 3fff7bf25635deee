"""ml.tree_ensemble: the leaves that rows of numbers lead to in decision trees, and the sums of their weights.

All trees are in tables. `features`, `splits` and `children` have a row per node that branches: at it the row of x is
compared with the split, x[feature] <= split, and goes on to the first child where that holds, else to the second. A
child below 0 is a leaf, number -1 - child. `roots` are the first nodes, one per tree.

`weights` is [leaves, targets] where each leaf has a weight for each target. Else it is a list, and beside it lie the
tables that attribute `tables` names, in this order:
  flags:   uint8, by node: the comparison, and 4 more where NaN goes to the first child;
  targets: by weight: the target that it counts for;
  places:  by leaf: where its weights begin in the list; one more at the end. Without it each leaf has one weight.
Comparisons are numbers of COMPARISONS. Attribute `comparison` is that of all nodes, and 4 more where NaN goes to the
first child at all of them; MIXED where the flags say which.
"""
from __future__ import annotations

from functools import reduce

import numpy as np

from ... import te, tir
from ...expr import Select, cast, const
from ...op import REQUIRED, register
from ..expr import TensorStructInfo, TupleStructInfo
from .common import as_dim, fail, need_dtype, need_rank, te_shape, tensors

COMPARISONS = (lambda x, split: x <= split, lambda x, split: x < split, lambda x, split: x == split)
LEQ, LT, EQ = range(3)
NAN_FIRST, MIXED = 4, -1
TABLES = ("flags", "targets", "places")
# aggregate -> (what a score begins with, how a weight changes it)
AGGREGATES = {
    "sum": (0.0, lambda score, weight: score + weight, np.add),
    "min": (np.inf, lambda score, weight: Select(weight < score, weight, score), np.fmin),
    "max": (-np.inf, lambda score, weight: Select(weight > score, weight, score), np.fmax),
}


def _infer(call):
    x, roots, features, splits, children, *_ = tensors(call)
    need_dtype(call, splits, "float")
    for name, info in (("roots", roots), ("features", features), ("children", children)):
        _need_table(call, name, info)
    return infer_trees(call, 5)


def _need_table(call, name, info):
    need_dtype(call, info, "int")
    if info.ndim != (2 if name == "children" else 1):
        fail(call, f"table {name} has {info.ndim} dimensions")


def infer_trees(call, first):
    """scores [rows, targets]; with attribute `marks` also whether a leaf had a weight for that, bool. first: the number
    of the argument `weights`, behind which the tables are."""
    x, weights, *others = (infos := tensors(call))[0], *infos[first:]
    tables = call.attrs["tables"]
    need_rank(call, 0, 2)
    for info in (x, weights):
        need_dtype(call, info, "float")
    for name, info in zip(tables, others):
        _need_table(call, name, info)
    if len(others) != len(tables) or [t for t in TABLES if t in tables] != list(tables):
        fail(call, f"tables {tables} must be some of {', '.join(TABLES)} in this order, one per argument that follows")
    if weights.ndim != (1 if "targets" in tables else 2) or call.attrs["aggregate"] not in AGGREGATES:
        fail(call, "weights must be a list where they have targets, else [leaves, targets]; the aggregate one of "
                   f"{', '.join(AGGREGATES)}")
    shape = (x.shape[0], as_dim(call.attrs["count"]))
    scores = TensorStructInfo(shape, weights.dtype)
    return TupleStructInfo((scores, TensorStructInfo(shape, "bool"))) if call.attrs["marks"] else scores


def _goes_first(value, split, flags, attrs):
    """Whether a row goes to the first child of a node. flags: the node's, None where all have the same."""
    wide = max(value.dtype, split.dtype, key=lambda t: t.bits)
    value, split = value.astype(wide), split.astype(wide)
    kind = attrs["comparison"]
    if kind == MIXED:
        held = tir.any(*(tir.all(flags % NAN_FIRST == n, compare(value, split))
                         for n, compare in enumerate(COMPARISONS)))
    else:
        held = COMPARISONS[kind % NAN_FIRST](value, split)
    if flags is not None:
        return tir.any(held, tir.all(flags >= NAN_FIRST, tir.isnan(value)))
    return tir.any(held, tir.isnan(value)) if kind >= NAN_FIRST else held


def _lower(args, attrs, out):
    def walk(ib, given, i, reached):
        x, roots, features, splits, children, *_ = given
        flags_of = given[6] if "flags" in attrs["tables"] else None
        node = ib.allocate("int32", (1,), "node")
        with ib.for_range(0, roots.buffer.shape[0], "tree") as tree:
            node[0] = cast(roots[tree], "int32")
            with ib.while_loop(node[0] >= 0):
                value = ib.let("value", x[i, cast(features[node[0]], "int32")])
                flags = ib.let("flags", cast(flags_of[node[0]], "int32")) if flags_of else None
                first = _goes_first(value, splits[node[0]], flags, attrs)
                node[0] = cast(children[node[0], Select(first, const(0), const(1))], "int32")
            reached(ib.let("leaf", const(-1) - node[0]))

    return scored(args, attrs, out, 5, walk)


def scored(args, attrs, out, first, walk):
    """The scores (and marks) of rows, args[0]. first: the number of the argument `weights`, behind which the tables
    lie; walk(ir builder, arguments, row, reached): makes the statements that find a leaf of each tree in turn, with
    reached(leaf) for what its weights change."""
    begin, change, _ = AGGREGATES[attrs["aggregate"]]

    def body(ins, outs):
        ib = tir.ir_builder.create()
        given = list(map(ib.buffer_ptr, ins))
        weights, tables = given[first], dict(zip(attrs["tables"], given[first + 1:]))
        scores, *seen = map(ib.buffer_ptr, outs)
        rows, count = outs[0].shape

        def add(i, target, weight):
            scores[i, target] = change(scores[i, target], weight)
            for mark in seen:
                mark[i, target] = const(True, "bool")

        def reached(leaf):
            if "targets" not in tables:
                with ib.for_range(0, count, "target") as target:
                    add(i, target, weights[leaf, target])
            elif "places" not in tables:
                add(i, cast(tables["targets"][leaf], "int32"), weights[leaf])
            else:
                begins = [cast(tables["places"][leaf + n], "int32") for n in (0, 1)]
                with ib.for_range(*begins, "w") as w:
                    add(i, cast(tables["targets"][w], "int32"), weights[w])

        with ib.for_range(0, rows, "i") as i:
            with ib.for_range(0, count, "k") as k:
                scores[i, k] = const(begin, weights.dtype)
                for mark in seen:
                    mark[i, k] = const(False, "bool")
            walk(ib, given, i, reached)
        return ib.get()

    fields = out.fields if attrs["marks"] else (out,)
    found = te.extern([te_shape(f) for f in fields], list(args), body, "trees", [f.dtype for f in fields])
    return tuple(found) if attrs["marks"] else found[0]


def _leaves(x, root, features, splits, children, flags):
    """The numbers of the leaves that rows lead to in one tree."""
    node = np.full(len(x), root, np.int64)
    while (node >= 0).any():
        at = np.flatnonzero(node >= 0)
        here = node[at]
        value, split = x[at, features[here]], splits[here]
        first = reduce(np.logical_or, ((flags[here] % NAN_FIRST == n) & compare(value, split)
                                       for n, compare in enumerate(COMPARISONS)))
        first |= (flags[here] >= NAN_FIRST) & np.isnan(value)
        node[at] = children[here, np.where(first, 0, 1)]
    return -1 - node


def _evaluate(args, attrs):
    x, roots, features, splits, children, weights, *others = map(np.asarray, args)
    tables = dict(zip(attrs["tables"], others))
    flags = tables.get("flags", np.full(len(features), attrs["comparison"]))
    if attrs["comparison"] != MIXED:
        flags = flags // NAN_FIRST * NAN_FIRST + attrs["comparison"] % NAN_FIRST
    return evaluate_trees(x, roots, features, splits, children, flags, weights, tables, attrs)


def evaluate_trees(x, roots, features, splits, children, flags, weights, tables, attrs):
    """What the operators compute, of arrays."""
    begin, _, change = AGGREGATES[attrs["aggregate"]]
    scores = np.full((len(x), attrs["count"]), begin, weights.dtype)
    seen = np.zeros(scores.shape, bool)
    for root in roots:
        for row, leaf in enumerate(_leaves(x, root, features, splits, children, flags)):
            if "targets" not in tables:
                targets, added = np.arange(attrs["count"]), weights[leaf]
            else:
                first, last = tables["places"][leaf:leaf + 2] if "places" in tables else (leaf, leaf + 1)
                targets, added = tables["targets"][first:last], weights[first:last]
            change.at(scores[row], targets, added)
            seen[row, targets] = True
    return (scores, seen) if attrs["marks"] else scores


register("ml.tree_ensemble", _infer, _lower, _evaluate, "opaque", (6, 9), count=REQUIRED, tables=(), comparison=LEQ,
         aggregate="sum", marks=False)
