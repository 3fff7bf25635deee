"""Models of ai.onnx.ml operators, random decision trees among them, and their comparison with onnxruntime."""
from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from ingot.frontend.onnx import from_onnx
from ingot.ir.relax.evaluate import evaluate

DOMAIN = "ai.onnx.ml"
COMPARISONS = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def ml_model(op, arrays, outputs=1, version=3, symbolic=False, kinds=None, **attrs):
    """A model of one node. kinds: element types of its outputs."""
    names = [f"x{k}" for k in range(len(arrays))]
    outs = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, names, outs, name="the_node", domain=DOMAIN, **attrs)
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype),
                                            ["n", *a.shape[1:]] if symbolic else list(a.shape))
              for n, a in zip(names, arrays)]
    made = [helper.make_tensor_value_info(o, k, None) for o, k in zip(outs, kinds or [TensorProto.FLOAT] * outputs)]
    graph = helper.make_graph([node], "g", inputs, made)
    return helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, version)])


def found_by(proto, arrays, dims=None):
    found = evaluate(from_onnx(proto, dims), {f"x{k}": a for k, a in enumerate(arrays)})
    return list(found) if isinstance(found, tuple) else [found]


def expected_by(proto, arrays):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {f"x{k}": a for k, a in enumerate(arrays)})


def assert_same(found, expected, rtol=1e-4, atol=1e-5):
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert a.dtype == b.dtype and a.shape == b.shape, f"{a.dtype}{a.shape} against {b.dtype}{b.shape}"
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def check(op, arrays, outputs=1, version=3, symbolic=False, kinds=None, rtol=1e-4, atol=1e-5, **attrs):
    proto = ml_model(op, arrays, outputs, version, symbolic, kinds, **attrs)
    assert_same(found_by(proto, arrays), expected_by(proto, arrays), rtol, atol)


# ---------------------------------------------------------------- trees

def random_trees(rng, part, trees=3, depth=3, features=4, modes=("BRANCH_LEQ",), targets=(0,), per_leaf=1,
                 missing=False, low=-1.0, weights="floats", values="floats"):
    """Attributes of trees whose nodes are listed. targets: what leaves have weights for, per_leaf of them each."""
    nodes = {n: [] for n in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
                             "missing_value_tracks_true")}
    leaves = {n: [] for n in ("treeids", "nodeids", "ids", "weights")}

    def add(tree, level, ids):
        number = next(ids)
        row = len(nodes["treeids"])
        leaf = level == depth or level and rng.random() < 0.25
        values = (tree, number, int(rng.integers(features)), "LEAF" if leaf else str(rng.choice(modes)),
                  float(np.float32(np.round(rng.normal(), 1))), 0, 0, int(missing and rng.random() < 0.5))
        for name, value in zip(nodes, values):
            nodes[name].append(value)
        if leaf:
            for target in rng.choice(targets, per_leaf, replace=False):
                for name, value in zip(leaves, (tree, number, int(target), float(np.float32(rng.uniform(low, 1))))):
                    leaves[name].append(value)
        else:
            nodes["truenodeids"][row] = add(tree, level + 1, ids)
            nodes["falsenodeids"][row] = add(tree, level + 1, ids)
        return number

    for tree in range(trees):
        add(tree, 0, iter(range(1 << depth + 2)))
    attrs = {f"nodes_{k}": v for k, v in nodes.items()} | {f"{part}_{k}": v for k, v in leaves.items()}
    if not missing:
        del attrs["nodes_missing_value_tracks_true"]
    for name, kind in ((f"{part}_weights", weights), ("nodes_values", values)):
        if kind == "doubles":
            attrs[f"{name}_as_tensor"] = helper.make_tensor(name, TensorProto.DOUBLE, [len(attrs[name])],
                                                            attrs.pop(name))
    return attrs


def rows(rng, n=40, features=4, dtype="float32", missing=False):
    """Numbers to judge, of which some are equal to what nodes compare with."""
    x = np.round(rng.normal(size=(n, features)), 1)
    if missing:
        x[rng.random(x.shape) < 0.2] = np.nan
    return x.astype(dtype)


def numbered_trees(rng, kind, modes, features=3, trees=2, depth=3, targets=2, members=(), missing=False):
    """Attributes of TreeEnsemble of version 5."""
    nodes, leaves, roots, sets = [], [], [], []

    def add(level):
        if level == depth or level and rng.random() < 0.25:
            leaves.append((int(rng.integers(targets)), round(float(rng.normal()), 2)))
            return len(leaves) - 1, 1
        row = len(nodes)
        nodes.append(None)
        mode = int(rng.choice(modes))
        yes, no = add(level + 1), add(level + 1)
        nodes[row] = (mode, int(rng.integers(features)), round(float(rng.normal()), 1), *yes, *no,
                      int(missing and rng.random() < 0.5))
        return row, 0

    for _ in range(trees):
        roots.append(add(0)[0])
    columns = list(zip(*nodes))
    for mode in columns[0]:
        if mode == 6:
            sets += [*rng.choice(members, 2, replace=False), np.nan]
    attrs = {"tree_roots": roots, "nodes_modes": helper.make_tensor("m", TensorProto.UINT8, [len(nodes)], columns[0]),
             "nodes_splits": helper.make_tensor("s", kind, [len(nodes)], columns[2]),
             "leaf_weights": helper.make_tensor("w", kind, [len(leaves)], [w for _, w in leaves]),
             "leaf_targetids": [k for k, _ in leaves], "n_targets": targets,
             "nodes_featureids": columns[1], "nodes_truenodeids": columns[3], "nodes_trueleafs": columns[4],
             "nodes_falsenodeids": columns[5], "nodes_falseleafs": columns[6]}
    if missing:
        attrs["nodes_missing_value_tracks_true"] = columns[7]
    if sets:
        attrs["membership_values"] = helper.make_tensor("v", kind, [len(sets)], sets)
    return attrs


def copied(proto):
    return onnx.ModelProto.FromString(proto.SerializeToString())
