"""Decision trees of ai.onnx.ml against onnxruntime: all comparisons, transforms and sums, missing values, classes."""
from itertools import product

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_ml_models import (COMPARISONS, assert_same, check, expected_by, found_by, ml_model, numbered_trees,
                            random_trees, rows)

from ingot.frontend.onnx import OnnxImportError, from_onnx

INT_AND_FLOAT = [TensorProto.INT64, TensorProto.FLOAT]
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")


def each(*values):
    return list(product(*values))


def seeded(*parts):
    return np.random.default_rng([len(str(p)) * 31 + sum(map(ord, str(p))) for p in parts])


@pytest.mark.parametrize("modes", [*((m,) for m in COMPARISONS), COMPARISONS])
@pytest.mark.parametrize("missing", [False, True])
def test_comparisons_and_missing_values(modes, missing):
    rng = seeded(modes, missing)
    x = rows(rng, missing=True)
    check("TreeEnsembleRegressor", [x], n_targets=1, **random_trees(rng, "target", modes=modes, missing=missing))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("modes", [("BRANCH_LEQ",), ("BRANCH_LT", "BRANCH_EQ")])
def test_dtypes(dtype, modes):
    """onnxruntime's regressor takes floats alone, its classifier all."""
    rng = seeded(dtype, modes)
    x = (rows(rng) * 2).astype(dtype)
    check("TreeEnsembleClassifier", [x], 2, kinds=INT_AND_FLOAT, classlabels_int64s=[1, 2, 3],
          **random_trees(rng, "class", modes=modes, targets=(0, 1, 2), per_leaf=3))
    if dtype.startswith("float"):
        check("TreeEnsembleRegressor", [x], n_targets=1, **random_trees(rng, "target", modes=modes))


def test_weights_and_thresholds_of_doubles():
    rng = seeded("doubles")
    attrs = random_trees(rng, "target", weights="doubles", values="doubles")
    check("TreeEnsembleRegressor", [rows(rng, dtype="float64")], n_targets=1, **attrs)


@pytest.mark.parametrize("aggregate, transform, per_leaf", each(
    ("SUM", "AVERAGE", "MIN", "MAX"), ("NONE", "SOFTMAX"), (1, 2, 3)))
def test_sums_of_several_targets(aggregate, transform, per_leaf):
    """onnxruntime forgets the base value of a target without weight, so there are none where that is."""
    rng = seeded(aggregate, transform, per_leaf)
    attrs = random_trees(rng, "target", trees=2, targets=(0, 1, 2), per_leaf=per_leaf)
    if per_leaf == 3:
        attrs["base_values"] = [0.5, -0.25, 0.125]
    check("TreeEnsembleRegressor", [rows(rng)], n_targets=3, aggregate_function=aggregate, post_transform=transform,
          symbolic=True, **attrs)


def test_base_values_of_targets_without_weight():
    rng = seeded("base")
    attrs = random_trees(rng, "target", trees=1, targets=(0, 1), per_leaf=1)
    x = rows(rng)
    found, = found_by(ml_model("TreeEnsembleRegressor", [x], n_targets=3, base_values=[0.5, 4.0, 8.0], **attrs), [x])
    assert (found[:, 2] == 8).all() and ((found[:, 0] == 0.5) != (found[:, 1] == 4)).all()


@pytest.mark.parametrize("aggregate, transform", each(("SUM", "MIN"), TRANSFORMS))
def test_one_target(aggregate, transform):
    rng = seeded(aggregate, transform)
    attrs = random_trees(rng, "target", trees=1, low=0.1)
    check("TreeEnsembleRegressor", [rows(rng)], n_targets=1, aggregate_function=aggregate, post_transform=transform,
          base_values=[-0.0625], **attrs)


@pytest.mark.parametrize("per_leaf, base, transform", each((1, 2, 3), (False, True), TRANSFORMS[:4]))
def test_many_classes(per_leaf, base, transform):
    """Leaves that have weights of some classes only; also negative ones, which a class without weight is not."""
    rng = seeded(per_leaf, base, transform)
    attrs = random_trees(rng, "class", targets=(0, 1, 2), per_leaf=per_leaf, trees=2)
    if base:
        attrs["base_values"] = [0.5, -0.25, 0.125]
    check("TreeEnsembleClassifier", [rows(rng)], 2, kinds=INT_AND_FLOAT, classlabels_int64s=[7, -3, 5],
          post_transform=transform, **attrs)


@pytest.mark.parametrize("targets, low, transform, base", each(
    ((0,), (1,), (0, 1)), (0.0, -1.0), TRANSFORMS[:4], (0, 1, 2)))
def test_two_classes(targets, low, transform, base):
    rng = seeded(targets, low, transform, base)
    for per_leaf in range(1, len(targets) + 1):
        attrs = random_trees(rng, "class", targets=targets, per_leaf=per_leaf, trees=2, low=low)
        if base:
            attrs["base_values"] = [0.25, -0.125][:base]
        x, kinds = rows(rng), INT_AND_FLOAT
        proto = ml_model("TreeEnsembleClassifier", [x], 2, kinds=kinds, classlabels_int64s=[4, 9],
                         post_transform=transform, **attrs)
        if base == 1 and targets == (0, 1) and per_leaf == 1:
            with pytest.raises(OnnxImportError, match="do not agree"):
                from_onnx(proto)
            continue
        check("TreeEnsembleClassifier", [x], 2, kinds=kinds, classlabels_int64s=[4, 9], post_transform=transform,
              **attrs)


def test_one_class():
    rng = seeded("one")
    check("TreeEnsembleClassifier", [rows(rng)], 2, kinds=INT_AND_FLOAT, classlabels_int64s=[1],
          **random_trees(rng, "class"))


@pytest.mark.parametrize("modes", [(0,), (1,), (2,), (3,), (4,), (5,), (0, 1, 2, 3, 4, 5), (0, 6), (6,)])
@pytest.mark.parametrize("missing", [False, True])
def test_tree_ensemble(modes, missing):
    """Members are whole, since onnxruntime knows no others."""
    rng = seeded(modes, missing)
    attrs = numbered_trees(rng, TensorProto.FLOAT, modes, members=[1, 2, 3, 4], missing=missing)
    x = np.round(rng.normal(size=(50, 3)) * 4).astype(np.float32) / 2
    x[rng.random(x.shape) < 0.1] = np.nan
    check("TreeEnsemble", [x], version=5, **attrs)


@pytest.mark.parametrize("modes", [(6,), (0, 1, 2, 3, 4, 5, 6)])
def test_tree_ensemble_against_the_reference(modes):
    """Members that are no integers."""
    from onnx.reference import ReferenceEvaluator
    rng = seeded(modes, "reference")
    proto = ml_model("TreeEnsemble", [rows(rng, features=3)], version=5,
                     **numbered_trees(rng, TensorProto.FLOAT, modes, members=[0.5, 1.0, -0.5, 2.0, -1.5]))
    x = np.round(rng.normal(size=(50, 3)) * 2).astype(np.float32) / 2
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = len(x)
    assert_same(found_by(proto, [x]), ReferenceEvaluator(proto).run(None, {"x0": x}))


@pytest.mark.parametrize("aggregate, transform", each(range(4), (0, 1, 2, 3)))
def test_tree_ensemble_sums_doubles(aggregate, transform):
    """The standard numbers SOFTMAX 1 and LOGISTIC 2, and onnxruntime the other way round."""
    rng = seeded(aggregate, transform)
    attrs = {**numbered_trees(rng, TensorProto.DOUBLE, (0, 3)), "aggregate_function": aggregate}
    x = rows(rng, features=3, dtype="float64")
    ours, theirs = (ml_model("TreeEnsemble", [x], version=5, kinds=[TensorProto.DOUBLE], post_transform=t, **attrs)
                    for t in (transform, {1: 2, 2: 1}.get(transform, transform)))
    assert_same(found_by(ours, [x]), expected_by(theirs, [x]))


def test_a_threshold_between_two_floats():
    """A double that no float32 is: rows next to it go where they went."""
    split = 0.1  # less than float32(0.1)
    near = np.float32(0.1)
    x = np.array([[np.nextafter(near, np.float32(0))], [near]], np.float32)
    attrs = {"tree_roots": [0], "n_targets": 1, "nodes_featureids": [0], "nodes_truenodeids": [0],
             "nodes_trueleafs": [1], "nodes_falsenodeids": [1], "nodes_falseleafs": [1], "leaf_targetids": [0, 0],
             "nodes_splits": helper.make_tensor("s", TensorProto.DOUBLE, [1], [split]),
             "leaf_weights": helper.make_tensor("w", TensorProto.DOUBLE, [2], [1.0, 2.0])}
    for mode, expected in ((0, [1, 2]), (1, [1, 2]), (2, [2, 1]), (3, [2, 1]), (4, [2, 2]), (5, [1, 1])):
        attrs["nodes_modes"] = helper.make_tensor("m", TensorProto.UINT8, [1], [mode])
        found, = found_by(ml_model("TreeEnsemble", [x], version=5, **attrs), [x])
        assert found.reshape(-1).tolist() == expected, mode


def broken(**changes):
    attrs = {"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
             "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0],
             "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0],
             "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0], "n_targets": 1}
    return {**attrs, **changes}


@pytest.mark.parametrize("changes, message", [
    ({"nodes_featureids": [4, 0, 0]}, "looks at feature 4, and X has 4"),
    ({"nodes_truenodeids": [0, 0, 0]}, "two ways lead to one node"),
    ({"nodes_truenodeids": [3, 0, 0]}, "names node 3, which it does not have"),
    ({"nodes_nodeids": [0, 1, 1]}, "same number"),
    ({"target_ids": [0, 1]}, "weight for number 1"),
    ({"nodes_modes": ["BRANCH_ABOVE", "LEAF", "LEAF"]}, "holds 'BRANCH_ABOVE'"),
    ({"nodes_values": [0.5]}, "lists of one length"),
    ({"base_values": [1.0, 2.0]}, "base_values has 2 numbers"),
    ({"n_targets": 1 << 40}, "must have 1 to"), ({"n_targets": 0}, "must have 1 to"),
])
def test_broken_trees_are_refused(changes, message):
    x = np.zeros((2, 4), np.float32)
    with pytest.raises(OnnxImportError, match=message):
        from_onnx(ml_model("TreeEnsembleRegressor", [x], **broken(**changes)))


def test_labels_that_are_text_are_refused_where_they_are_used():
    rng = seeded("text")
    attrs = random_trees(rng, "class", targets=(0, 1, 2))
    x = rows(rng)
    proto = ml_model("TreeEnsembleClassifier", [x], 2, kinds=[TensorProto.STRING, TensorProto.FLOAT],
                     classlabels_strings=["a", "b", "c"], **attrs)
    with pytest.raises(OnnxImportError, match="output 'y0' is text .*drop the output"):
        from_onnx(proto)
    del proto.graph.output[0]
    proto.graph.node[0].output[0] = ""
    numbers = ml_model("TreeEnsembleClassifier", [x], 2, kinds=INT_AND_FLOAT, classlabels_int64s=[0, 1, 2], **attrs)
    assert np.array_equal(found_by(proto, [x])[0], found_by(numbers, [x])[1])
