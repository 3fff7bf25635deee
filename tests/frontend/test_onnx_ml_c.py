"""The C of classic models: strict, right for numbers of all kinds, and inside of its memory."""
import shutil
import subprocess

import numpy as np
import pytest
from c_build import COMPILERS, STRICT
from guards import run_guarded
from onnx import TensorProto, helper
from onnx_ml_models import COMPARISONS, DOMAIN, assert_same, found_by, ml_model, numbered_trees, random_trees

import ingot

rng = np.random.default_rng(11)
INT_AND_FLOAT = [TensorProto.INT64, TensorProto.FLOAT]


def rows(dtype="float32"):
    """Numbers that are none, and others that no node compares with."""
    x = np.round(rng.normal(size=(24, 4)) * 2, 1)
    if dtype.startswith("float"):
        x.reshape(-1)[::7] = np.resize([np.nan, np.inf, -np.inf, 1e30, -1e-40], x.reshape(-1)[::7].shape)
    with np.errstate(over="ignore"):
        return x.astype(dtype)


def trees(part, **options):
    return random_trees(rng, part, trees=4, depth=4, missing=True, **options)


def machine(classes, **more):
    total, pairs = 2 * classes, classes * (classes - 1) // 2

    def floats(n):
        return [float(v) for v in np.float32(rng.normal(size=n))]

    return {"kernel_type": "RBF", "kernel_params": [0.2, 0.0, 3.0], "vectors_per_class": [2] * classes,
            "coefficients": floats((classes - 1) * total), "support_vectors": floats(total * 4), "rho": floats(pairs),
            "classlabels_ints": list(range(classes)), "prob_a": [-1.0] * pairs, "prob_b": floats(pairs), **more}


MODELS = {
    "one comparison": lambda: ml_model("TreeEnsembleRegressor", [rows()], n_targets=1, **trees("target")),
    "all comparisons": lambda: ml_model("TreeEnsembleRegressor", [rows()], n_targets=1, symbolic=True,
                                        **trees("target", modes=COMPARISONS)),
    "many weights": lambda: ml_model("TreeEnsembleClassifier", [rows()], 2, kinds=INT_AND_FLOAT,
                                     classlabels_int64s=[3, 1, 2], post_transform="SOFTMAX",
                                     **trees("class", targets=(0, 1, 2), per_leaf=2)),
    "doubles": lambda: ml_model("TreeEnsemble", [rows("float64")], version=5, kinds=[TensorProto.DOUBLE],
                                **numbered_trees(rng, TensorProto.DOUBLE, (0, 3, 5, 6), members=[1.0, 2.5, -0.5])),
    "halves": lambda: ml_model("TreeEnsemble", [rows("float16")], version=5, kinds=[TensorProto.FLOAT16],
                               **numbered_trees(rng, TensorProto.FLOAT16, (1,))),
    "integers": lambda: ml_model("TreeEnsembleRegressor", [rows("int64")], n_targets=2, aggregate_function="MIN",
                                 **trees("target", targets=(0, 1))),
    "support vectors": lambda: ml_model("SVMClassifier", [rows()], 2, kinds=INT_AND_FLOAT, symbolic=True,
                                        **machine(3)),
    "lookup": lambda: ml_model("LabelEncoder", [rows()], version=4, keys_floats=[2.0, float("nan"), -1.5, 0.5],
                               values_floats=[1.0, 2.0, 3.0, 4.0]),
    "one hot": lambda: ml_model("OneHotEncoder", [rows()], cats_int64s=[0, 2, -1]),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_c_is_strict_and_right(name, tmp_path):
    proto = MODELS[name]()
    x = rows({v: k for k, v in (("float32", 1), ("float64", 11), ("float16", 10), ("int64", 7))}[
        proto.graph.input[0].type.tensor_type.elem_type])
    expected = found_by(proto, [x])
    with ingot.compile(proto, threads="none", name="classic") as library:
        found = library(x)
        assert_same(found if isinstance(found, tuple) else (found,), expected)
        folder = library.export(tmp_path / "c")
    for compiler in filter(shutil.which, COMPILERS):
        for source in (folder / "classic.c", *folder.glob("classic_kernels*.c")):
            done = subprocess.run([compiler, *STRICT, "-march=native", f"-I{folder}", "-c", source, "-o",
                                   tmp_path / "one.o"], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["all comparisons", "many weights", "support vectors", "lookup"])
def test_nothing_outside_is_touched(name, tmp_path):
    with ingot.compile(MODELS[name](), threads="none", weights="file", name="classic") as library:
        run_guarded(library, {"x0": rows()}, tmp_path)


def test_a_pipeline():
    """As a trained model is exported: columns, scaling, trees, and scores as maps."""
    x = rows()
    x[~np.isfinite(x)] = 0

    def node(op, inputs, outputs, **attrs):
        return helper.make_node(op, inputs, outputs, domain="" if op == "Cast" else DOMAIN, **attrs)

    nodes = [node("Imputer", ["x"], ["whole"], imputed_value_floats=[0.5], replaced_value_float=0.0),
             node("Scaler", ["whole"], ["scaled"], scale=[2.0], offset=[0.25]),
             node("TreeEnsembleClassifier", ["scaled"], ["label", "scores"], classlabels_int64s=[0, 1, 2],
                  **trees("class", targets=(0, 1, 2), per_leaf=3)),
             node("Cast", ["label"], ["output_label"], to=TensorProto.INT64),
             node("ZipMap", ["scores"], ["output_probability"], classlabels_int64s=[0, 1, 2])]
    maps = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])], [
        helper.make_tensor_value_info("output_label", TensorProto.INT64, ["n"]),
        helper.make_value_info("output_probability", helper.make_sequence_type_proto(maps))])
    proto = helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 3)])
    with ingot.compile(proto, threads="none", name="classic") as library:
        label, scores = library(x)
    assert label.shape == (24,) and scores.shape == (24, 3) and (label == scores.argmax(axis=1)).all()
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x": x})
    assert_same([label, scores], [expected[0], np.float32([[row[k] for k in range(3)] for row in expected[1]])])
