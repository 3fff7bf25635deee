"""Operators of classic models: interpreted lowerings against the numpy references, and those against numpy."""
import numpy as np
import pytest
from ops_basic_check import N, call_of, check, floats

from ingot.ir.expr import free_vars
from ingot.ir.op import InferError
from ingot.ir.relax.ops.tree_branches import fits

# Two trees over two columns: x0 <= 0.5 ? (x1 <= -0.5 ? leaf 0 : leaf 1) : leaf 2, and leaf 3 alone.
TREES = [np.int16([0, -4]), np.int16([0, 1]), np.float32([0.5, -0.5]), np.int16([[1, -3], [-1, -2]])]
WEIGHTS = np.float32([1, 2, 4, 8])
ROWS = np.float32([[0.5, -0.5], [0.25, 0], [0.75, -9], [np.nan, 0], [0, np.nan], [np.inf, -np.inf]])


def trees(rows, weights, *tables, **attrs):
    """What both operators make of the trees: those in tables, and those in branches of the program."""
    found = check("ml.tree_ensemble", rows, *TREES, weights, *tables, attrs=attrs)
    named = dict(zip(attrs.get("tables", ()), tables))
    comparison = attrs.pop("comparison", 0)
    kinds = named.pop("flags", np.full(2, max(comparison, 0)))
    kinds = kinds // 4 * 4 + comparison % 4 if comparison >= 0 else kinds
    roots, features, splits, children = (tuple(t.reshape(-1).tolist()) for t in TREES)
    again = check("ml.tree_branches", rows, weights, *named.values(), attrs={
        **attrs, "tables": tuple(named), "roots": roots, "features": features, "splits": splits, "children": children,
        "kinds": tuple(kinds.tolist())})
    for one, other in zip(found, again):
        np.testing.assert_array_equal(one, other)
    return found


def test_which_trees_are_branches():
    deep = [[-1, k + 1] for k in range(60)]
    assert fits([0, -4], TREES[2], TREES[3].tolist()) and not fits([0], np.zeros(60), deep[:-1] + [[-1, -2]])
    assert not fits([0], np.float32([0, np.nan]), TREES[3].tolist())
    assert not fits([0] * 2000, TREES[2], TREES[3].tolist())


@pytest.mark.parametrize("aggregate, expected", [
    ("sum", [9, 10, 12, 12, 10, 12]), ("min", [1, 2, 4, 4, 2, 4]), ("max", [8] * 6)])
def test_trees(aggregate, expected):
    scores, = trees(ROWS, WEIGHTS.reshape(4, 1), count=1, aggregate=aggregate)
    assert scores.reshape(-1).tolist() == expected


def test_where_nan_goes():
    scores, = trees(ROWS, WEIGHTS.reshape(4, 1), count=1, comparison=4)
    assert scores.reshape(-1).tolist() == [9, 10, 12, 10, 9, 12]
    scores, = trees(ROWS, WEIGHTS.reshape(4, 1), np.uint8([4, 0]), count=1, tables=("flags",))
    assert scores.reshape(-1).tolist() == [9, 10, 12, 10, 10, 12]


def test_comparisons_by_node():
    scores, = trees(ROWS, WEIGHTS.reshape(4, 1), np.uint8([1, 2]), count=1, tables=("flags",), comparison=-1)
    assert scores.reshape(-1).tolist() == [12, 10, 12, 12, 10, 12]


def test_weights_of_some_targets():
    """Each leaf has a weight of one target, or of several."""
    scores, seen = trees(ROWS[:3], WEIGHTS, np.int16([0, 1, 1, 0]), count=2, tables=("targets",), marks=True)
    assert scores.tolist() == [[9, 0], [8, 2], [8, 4]] and seen.tolist() == [[True, False], [True, True], [True, True]]
    places, targets = np.int16([0, 0, 2, 3, 4]), np.int16([0, 1, 1, 0])
    scores, seen = trees(ROWS[:3], WEIGHTS, targets, places, count=2, tables=("targets", "places"), marks=True)
    assert scores.tolist() == [[8, 0], [9, 2], [8, 4]] and seen.tolist() == [[True, False], [True, True], [True, True]]


@pytest.mark.parametrize("attrs, message", [
    ({"tables": ("targets",)}, "one per argument"), ({"aggregate": "mean"}, "the aggregate one of"), ({}, "weights")])
def test_trees_that_do_not_fit_are_refused(attrs, message):
    with pytest.raises(InferError, match=message):
        call_of("ml.tree_ensemble", [ROWS, *TREES, WEIGHTS], {"count": 1, **attrs})


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_lookup(dtype):
    x = np.array([[1, 4, 7], [0, 8, 9]], dtype)
    found, = check("ml.lookup", x, np.array([1, 7, 8], dtype), np.int64([10, 20, 30]), np.int64([-1]))
    assert found.tolist() == [[10, -1, 20], [-1, 30, -1]]


def test_squared_distance():
    x, y = floats(5, 4), floats(3, 4, seed=1)
    found, = check("ml.squared_distance", x, y)
    np.testing.assert_allclose(found, ((x[:, None] - y) ** 2).sum(axis=2), rtol=1e-5)
    call = call_of("ml.squared_distance", [x, y], symbolic={(0, 0): N})
    assert N in free_vars(list(call.struct_info.shape))


def test_coupled_probabilities():
    """Two classes keep the given probabilities; three whose pairs are consistent get the consistent ones."""
    first = np.float32([0.75, 0.1])
    square = np.stack([np.zeros(2), first, 1 - first, np.zeros(2)], axis=1).reshape(2, 2, 2).astype(np.float32)
    found, = check("ml.coupled_probabilities", square)
    np.testing.assert_allclose(found, np.stack([first, 1 - first], axis=1), atol=2e-3)
    wanted = np.float32([0.5, 0.3, 0.2])
    square = wanted[:, None] / (wanted[:, None] + wanted)
    found, = check("ml.coupled_probabilities", square[None].astype(np.float32))
    np.testing.assert_allclose(found[0], wanted, atol=2e-3)


def test_branches_need_all_of_each_node():
    attrs = {"count": 1, "roots": (0,), "features": (0,), "splits": (0.5, 1.0), "kinds": (0,), "children": (-1, -2)}
    with pytest.raises(InferError, match="an element for each node, children two"):
        call_of("ml.tree_branches", [ROWS, WEIGHTS.reshape(4, 1)], attrs)
