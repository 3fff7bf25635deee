"""Operators of ai.onnx.ml but for trees against onnxruntime: linear models, support vectors, encodings, columns."""
from itertools import combinations, product

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_ml_models import DOMAIN, assert_same, check, expected_by, found_by, ml_model

from ingot.frontend.onnx import OnnxImportError, from_onnx

INT_AND_FLOAT = [TensorProto.INT64, TensorProto.FLOAT]
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
DTYPES = ("float32", "float64", "int32", "int64")
rng = np.random.default_rng(5)


def each(*values):
    return list(product(*values))


def data(n=17, features=4, dtype="float32"):
    return (np.round(rng.normal(size=(n, features)), 2) * (1 if dtype.startswith("float") else 3)).astype(dtype)


def floats(*shape, scale=1.0):
    return [float(v) for v in np.float32(rng.normal(size=shape).reshape(-1) * scale)]


# ---------------------------------------------------------------- linear models

@pytest.mark.parametrize("targets, transform", each((1, 3), TRANSFORMS))
def test_linear_regressor(targets, transform):
    small = 0.02 if transform == "PROBIT" else 1
    check("LinearRegressor", [data()], coefficients=floats(targets, 4, scale=small), targets=targets,
          intercepts=[0.5] * targets, post_transform=transform, symbolic=True)


@pytest.mark.parametrize("classes, transform", each((2, 3), TRANSFORMS))
def test_linear_classifier(classes, transform):
    """With labels for each score; for the classes of one score see below."""
    small = 0.02 if transform == "PROBIT" else 1
    check("LinearClassifier", [data()], 2, kinds=INT_AND_FLOAT, coefficients=floats(classes, 4, scale=small),
          intercepts=[0.5] * classes, classlabels_ints=[5, 3, 9][:classes], post_transform=transform)


@pytest.mark.parametrize("transform", TRANSFORMS[:4])
def test_linear_classifier_of_one_score_for_two_classes(transform):
    check("LinearClassifier", [data()], 2, kinds=INT_AND_FLOAT, coefficients=floats(1, 4), intercepts=[0.25],
          classlabels_ints=[5, 3], post_transform=transform)


def test_linear_classifier_of_one_class():
    """onnxruntime refuses it; by its rules for one score the label is 0 or 1."""
    x = np.float32([[1], [-1]])
    label, score = found_by(ml_model("LinearClassifier", [x], 2, kinds=INT_AND_FLOAT, coefficients=[2.0],
                                     intercepts=[0.5], classlabels_ints=[7]), [x])
    assert label.tolist() == [1, 0] and score.tolist() == [[2.5], [-1.5]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_classifier_of_dtypes(dtype):
    check("LinearClassifier", [data(dtype=dtype)], 2, kinds=INT_AND_FLOAT, coefficients=floats(3, 4),
          intercepts=floats(3), classlabels_ints=[0, 1, 2], post_transform="SOFTMAX")


# ---------------------------------------------------------------- support vectors

KERNELS = [("LINEAR", [0.0, 0.0, 0.0]), ("POLY", [0.25, 0.5, 2.0]), ("POLY", [0.25, 0.5, 3.0]),
           ("RBF", [0.3, 0.0, 3.0]), ("SIGMOID", [0.2, 0.1, 3.0])]


@pytest.mark.parametrize("kernel, params", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_svm_regressor(kernel, params, one_class):
    check("SVMRegressor", [data()], kernel_type=kernel, kernel_params=params, n_supports=5, rho=[0.1],
          coefficients=floats(5), support_vectors=floats(5, 4), one_class=one_class)


def test_svm_regressor_without_vectors():
    check("SVMRegressor", [data()], kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0], n_supports=0, rho=[0.1],
          coefficients=floats(4))


@pytest.mark.parametrize("kernel, params", KERNELS)
@pytest.mark.parametrize("classes, proba", each((2, 3, 4), (False, True)))
def test_svm_classifier(kernel, params, classes, proba):
    _svm_classifier(classes, proba, "NONE", kernel, params)


@pytest.mark.parametrize("classes, proba, transform", each((2, 3), (False, True), TRANSFORMS[1:4]))
def test_svm_classifier_transforms(classes, proba, transform):
    _svm_classifier(classes, proba, transform, "RBF", [0.3, 0.0, 3.0])


def _svm_classifier(classes, proba, transform, kernel, params):
    per_class = [2, 3, 1, 2][:classes]
    pairs, total = len(list(combinations(range(classes), 2))), sum(per_class)
    attrs = {"prob_a": [-abs(v) for v in floats(pairs)], "prob_b": floats(pairs)} if proba else {}
    check("SVMClassifier", [data()], 2, kinds=INT_AND_FLOAT, kernel_type=kernel, kernel_params=params,
          vectors_per_class=per_class, coefficients=floats(classes - 1, total), support_vectors=floats(total, 4),
          rho=floats(pairs), classlabels_ints=[4, 2, 8, 6][:classes], post_transform=transform, **attrs)


@pytest.mark.parametrize("classes, positive, transform", each((1, 2, 3), (False, True), ("NONE", "LOGISTIC")))
def test_svm_classifier_without_vectors(classes, positive, transform):
    coefficients = floats(classes, 4, scale=0.3)
    check("SVMClassifier", [data()], 2, kinds=INT_AND_FLOAT, kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0],
          coefficients=[abs(c) for c in coefficients] if positive else coefficients, rho=[-0.25],
          classlabels_ints=[4, 2, 8][:classes], post_transform=transform)


# ---------------------------------------------------------------- numbers

@pytest.mark.parametrize("dtype, each_feature", each(DTYPES, (False, True)))
def test_scaler(dtype, each_feature):
    n = 4 if each_feature else 1
    check("Scaler", [data(dtype=dtype)], scale=floats(n), offset=floats(n), symbolic=True)


@pytest.mark.parametrize("norm, dtype", each(("MAX", "L1", "L2"), DTYPES))
def test_normalizer(norm, dtype):
    x = data(dtype=dtype)
    x[3] = 0
    check("Normalizer", [x], norm=norm)


@pytest.mark.parametrize("values, replaced", each(([1.5], [1.0, 2.0, 3.0, 4.0]), (float("nan"), 0.0)))
def test_imputer(values, replaced):
    x = data()
    x[rng.random(x.shape) < 0.3] = replaced
    check("Imputer", [x], imputed_value_floats=values, replaced_value_float=replaced)


def test_imputer_of_integers():
    x = data(dtype="int64")
    check("Imputer", [x], kinds=[TensorProto.INT64], imputed_value_int64s=[1, 2, 3, 4], replaced_value_int64=0)


def test_binarizer():
    x = np.array([[-1, 0.5, 0.50001, np.inf]], np.float32)
    check("Binarizer", [x], threshold=0.5)
    found, = found_by(ml_model("Binarizer", [x * np.nan]), [x * np.nan])  # at which onnxruntime ends the run
    assert not found.any()
    x = np.arange(-3, 4)
    found, = found_by(ml_model("Binarizer", [x], threshold=-1.5), [x])
    assert found.tolist() == [0, 0, 1, 1, 1, 1, 1] and found.dtype == np.int64


# ---------------------------------------------------------------- columns

@pytest.mark.parametrize("x, places", [
    (data(), [[2, 0, 3]]), (data(), [1]), (np.float32([5, 6, 7]), [[2], [0], [2]]), (np.float32([5, 6, 7]), [2, 0]),
    (data(dtype="int64"), [[3]]), (data(12).reshape(2, 6, 4), [3, 1])])
def test_array_feature_extractor(x, places):
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    check("ArrayFeatureExtractor", [x, np.array(places, np.int64)], kinds=[kind])


def test_feature_vectorizer():
    check("FeatureVectorizer", [data(5, 3), data(5, 2)], inputdimensions=[3, 2])
    for sizes in ([2, 4], [3, 1]):
        x = [data(5, 3), data(5, 2)]
        found, = found_by(ml_model("FeatureVectorizer", x, inputdimensions=sizes), x)
        parts = [np.pad(a, ((0, 0), (0, 4)))[:, :n] for a, n in zip(x, sizes)]
        assert np.array_equal(found, np.concatenate(parts, axis=1))


def test_zip_map_is_the_tensor():
    x = data(3, 2)
    proto = ml_model("ZipMap", [x], classlabels_int64s=[4, 7])
    maps = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    proto.graph.output[0].type.CopyFrom(helper.make_sequence_type_proto(maps))
    found, = found_by(proto, [x])
    expected, = expected_by(proto, [x])
    assert np.array_equal(found, np.float32([[row[4], row[7]] for row in expected]))


# ---------------------------------------------------------------- categories

@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
def test_one_hot_encoder(dtype):
    x = np.array([[1, 3, -2], [7, 0, 3]]).astype(dtype)
    if dtype != "int64":
        x[0] += [0.75, 0.5, -0.5]
    check("OneHotEncoder", [x], cats_int64s=[3, 1, 0, -2, 3])


def test_one_hot_encoder_of_no_number():
    x = np.float32([np.nan, np.inf, 1e30, -0.5])
    found, = found_by(ml_model("OneHotEncoder", [x], cats_int64s=[0, 1]), [x])
    assert found.tolist() == [[0, 0], [0, 0], [0, 0], [1, 0]]


KEYS = {"int64s": [5, -3, 9, 5], "floats": [0.5, float("nan"), -2.0, 0.5]}
VALUES = {"int64s": [10, 20, 30, 40], "floats": [1.5, 2.5, 3.5, 4.5]}


@pytest.mark.parametrize("keys, values, version", each(KEYS, VALUES, (2, 4)))
def test_label_encoder(keys, values, version):
    x = np.array([[5, -3, 9], [0, 9, 4]]) if keys == "int64s" else np.float32([[0.5, np.nan, -2], [1, 0, np.inf]])
    kind = TensorProto.INT64 if values == "int64s" else TensorProto.FLOAT
    check("LabelEncoder", [x], version=version, kinds=[kind],
          **{f"keys_{keys}": KEYS[keys], f"values_{values}": VALUES[values]})


def test_label_encoder_of_tensors():
    x = np.array([3, 1, 2, 7], np.int64)
    for dtype in ("int64", "float64"):
        tensors = {"keys_tensor": np.array([1, 2, 3], np.int64), "values_tensor": np.array([10, 20, 30], dtype),
                   "default_tensor": np.array([-7], dtype)}
        proto = ml_model("LabelEncoder", [x], version=4, kinds=[helper.np_dtype_to_tensor_dtype(np.dtype(dtype))],
                         **{k: numpy_helper.from_array(v, k) for k, v in tensors.items()})
        found, = found_by(proto, [x])
        assert found.tolist() == [30, 10, 20, -7] and found.dtype == dtype


# ---------------------------------------------------------------- what is refused

@pytest.mark.parametrize("op, version, attrs, message", [
    ("LabelEncoder", 2, {"keys_int64s": [1], "values_strings": ["a"]}, r"output 'y0' is text \('a', '_Unused'\)"),
    ("LabelEncoder", 2, {"keys_strings": ["a"], "values_int64s": [1]}, "takes text"),
    ("LabelEncoder", 1, {"classes_strings": ["a"]}, "only tensors are outputs: drop the output"),
    ("CategoryMapper", 1, {"cats_int64s": [1], "cats_strings": ["a"]}, "is text"),
    ("OneHotEncoder", 1, {"cats_strings": ["a"]}, "takes text"),
    ("CastMap", 1, {}, "takes maps"),
])
def test_text_is_refused(op, version, attrs, message):
    with pytest.raises(OnnxImportError, match=message):
        from_onnx(ml_model(op, [np.arange(3)], version=version, **attrs))


@pytest.mark.parametrize("version, words, numbers_again", [
    (2, ("LabelEncoder", {"keys_int64s": [5, -3, 9, 5], "values_strings": ["a", "b", "c", "d"], "default_string": "e"}),
     ("LabelEncoder", {"keys_strings": ["b", "a", "e", "a"], "values_floats": [1.5, 2.5, 3.5, 4.5],
                       "default_float": -2.0})),
    (2, ("LabelEncoder", {"keys_int64s": [5, 9], "values_strings": ["a", "b"]}),
     ("OneHotEncoder", {"cats_strings": ["b", "_Unused", "a", "b"]})),
    (1, ("CategoryMapper", {"cats_int64s": [5, 9], "cats_strings": ["a", "b"]}),
     ("CategoryMapper", {"cats_int64s": [7, 8], "cats_strings": ["b", "c"], "default_int64": -4})),
    (1, ("LabelEncoder", {"classes_strings": ["a", "b", "c"]}),
     ("LabelEncoder", {"classes_strings": ["c", "b"], "default_int64": -9}))])
def test_text_between_operators(version, words, numbers_again):
    """It is encoded again before it would be an output."""
    x = np.array([[5, -3, 9], [0, 1, 2]])
    nodes = [helper.make_node(op, [a], [b], domain=DOMAIN, **attrs)
             for (op, attrs), a, b in zip((words, numbers_again), ("x0", "t"), ("t", "y0"))]
    kind = TensorProto.FLOAT if "floats" in str(numbers_again) or "Hot" in numbers_again[0] else TensorProto.INT64
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x0", TensorProto.INT64, [2, 3])],
                              [helper.make_tensor_value_info("y0", kind, None)])
    proto = helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, version)])
    assert_same(found_by(proto, [x]), expected_by(proto, [x]))


@pytest.mark.parametrize("op, attrs, message", [
    ("Scaler", {"scale": [1.0, 2.0]}, "scale has 2 numbers"),
    ("LinearRegressor", {"coefficients": [1.0] * 3}, "coefficients has 3 numbers"),
    ("SVMRegressor", {"n_supports": 2, "support_vectors": [1.0] * 3, "coefficients": [1.0] * 2, "rho": [0.0]},
     "support_vectors has 3 numbers"),
    ("SVMRegressor", {"coefficients": [1.0] * 4, "rho": [0.0], "post_transform": "LOGISTIC"}, "must be NONE"),
    ("Imputer", {}, "no values to put in"),
    ("FeatureVectorizer", {"inputdimensions": [1, 2]}, "2 numbers for 1 inputs"),
    ("LinearClassifier", {"coefficients": [1.0] * 4, "intercepts": [0.0], "classlabels_ints": [0, 1],
                          "post_transform": "PROBIT"}, "no meaning"),
])
def test_attributes_that_do_not_fit_are_refused(op, attrs, message):
    outputs = 2 if op.endswith("Classifier") else 1
    with pytest.raises(OnnxImportError, match=message):
        from_onnx(ml_model(op, [data()], outputs, **attrs))


def test_an_operator_that_no_domain_has():
    with pytest.raises(OnnxImportError, match="ai.onnx.ml::Scalers"):
        from_onnx(ml_model("Scalers", [data()]))


def test_a_model_of_classic_operators_alone():
    """It imports no opset of the default domain."""
    x = data()
    proto = ml_model("Scaler", [x], scale=[2.0], offset=[1.0])
    del proto.opset_import[0]
    assert [o.domain for o in proto.opset_import] == [DOMAIN]
    assert_same(found_by(proto, [x]), [(x - 1) * 2])
