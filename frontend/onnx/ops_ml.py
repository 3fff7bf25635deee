"""What prepares numbers for classic models, of ai.onnx.ml: scaling, encodings of categories, choices of columns."""
from __future__ import annotations

import math

import numpy as np
from onnx import numpy_helper

from ..shapes import dims_of, product
from .converter import converts
from .errors import OnnxImportError
from .load import dtype_of
from .ml_scores import numbers

DOMAIN = "ai.onnx.ml"


def _as_float(node, x):
    """`x` in the float dtype that it is computed in."""
    return x if x.struct_info.dtype == "float64" else node.astype(x, "float32")


def _per_feature(node, name, values, x, dtype=None):
    """One number, or one for each feature, as a constant."""
    dims = dims_of(x)
    if values.size != 1 and (not dims or values.size != dims[-1]):
        raise node.error(f"attribute {name} has {values.size} numbers, and must have 1, or one for each feature")
    return node.const(values if values.size > 1 else values.reshape(()), dtype or str(x.struct_info.dtype))


# ---------------------------------------------------------------- numbers

@converts("Scaler", 1, domain=DOMAIN)
def scaler(node):
    x = _as_float(node, node.input(0))
    for name, op in (("offset", "subtract"), ("scale", "multiply")):
        values = numbers(node, name)
        if values.size:
            x = node.call(op, x, _per_feature(node, name, values, x))
    return node.astype(x, "float32")


@converts("Normalizer", 1, domain=DOMAIN)
def normalizer(node):
    """Rows divided by their maximum, sum or length; rows where that is 0 stay. The maximum has its sign, as
    onnxruntime takes it."""
    x, kind = node.astype(node.input(0), "float32"), node.choice("norm", "MAX", "L1", "L2")
    if len(dims_of(x)) not in (1, 2):
        raise node.error("X must be a matrix")
    zero = node.const(0, "float32")

    def whole(op, values):
        return node.call(op, values, axis=(-1,), keepdims=True)

    size = x
    if kind == "MAX":
        total = whole("max", x)
    elif kind == "L1":
        total = whole("sum", node.call("abs", x))
    else:
        size = node.call("multiply", x, x)
        total = whole("sum", size)
    result = node.call("divide", size, total)
    if kind == "L2":
        result = node.call("sqrt", result)
        result = node.call("where", node.call("less", x, zero), node.call("negative", result), result)
    return node.call("where", node.call("equal", total, zero), x, result)


@converts("Imputer", 1, domain=DOMAIN)
def imputer(node):
    """Of the two lists of values that which is given."""
    x = node.input(0)
    name, replaced = "imputed_value_floats", node.attr("replaced_value_float", 0.0)
    if node.attr(name) is None:
        name, replaced = "imputed_value_int64s", node.attr("replaced_value_int64", 0)
    values = np.array(node.attr(name, ()))
    if not values.size:
        raise node.error("it has no values to put in: imputed_value_floats or imputed_value_int64s")
    dtype = x.struct_info.dtype
    if not dtype.is_float and (values != np.trunc(values)).any():
        raise node.error(f"attribute {name} holds fractions, and X is {dtype}")
    if isinstance(replaced, float) and math.isnan(replaced):
        if not dtype.is_float:
            return x
        missing = node.call("isnan", x)
    elif not dtype.is_float and replaced != int(replaced):
        return x
    else:
        missing = node.call("equal", x, node.const(replaced, dtype))
    return node.call("where", missing, _per_feature(node, name, values, x), x)


@converts("Binarizer", 1, domain=DOMAIN)
def binarizer(node):
    x, limit = node.input(0), node.attr("threshold", 0.0)
    dtype = x.struct_info.dtype
    if not dtype.is_float:  # above 2.5 is above 2
        info = np.iinfo(str(dtype))
        if not info.min <= limit <= info.max:
            return node.filled(dims_of(x), int(limit < info.min), dtype)
        limit = math.floor(limit)
    return node.astype(node.call("greater", x, node.const(limit, dtype)), str(dtype))


# ---------------------------------------------------------------- columns

@converts("ArrayFeatureExtractor", 1, domain=DOMAIN)
def array_feature_extractor(node):
    """The elements at places, of any shape, along the last axis; of a list the result is a matrix of one row."""
    x, places = node.input(0), node.input(1)
    dims = dims_of(x)
    if not dims:
        raise node.error("X must have an axis")
    if len(dims) == 1:
        x = node.reshape(x, [1, dims[0]])
    places = node.reshape(places, [product(dims_of(places))])
    return node.call("take", x, places, axis=len(dims_of(x)) - 1)


@converts("FeatureVectorizer", 1, domain=DOMAIN)
def feature_vectorizer(node):
    """The inputs' columns beside one another, each as many as inputdimensions says: cut, or zeros after them."""
    sizes, parts = node.attr("inputdimensions", ()), []
    if len(sizes) != len(node.inputs):
        raise node.error(f"attribute inputdimensions has {len(sizes)} numbers for {len(node.inputs)} inputs")
    for x, size in zip(node.inputs, sizes):
        dims = dims_of(x)
        if len(dims) not in (1, 2) or not isinstance(dims[-1], int):
            raise node.error("inputs must be matrices whose number of columns is static")
        x = node.astype(node.reshape(x, [1, dims[0]]) if len(dims) == 1 else x, "float32")
        held = min(dims[-1], size)
        part = node.call("strided_slice", x, axes=(1,), begin=(0,), end=(held,), strides=(1,))
        if held < size:
            part = node.call("concat", part, node.filled([dims_of(x)[0], size - held], 0, "float32"), axis=1)
        parts.append(part)
    return parts[0] if len(parts) == 1 else node.call("concat", *parts, axis=1)


@converts("ZipMap", 1, domain=DOMAIN)
def zip_map(node):
    """The scores as they are: a matrix, a column for each class, where the operator makes a list of maps of it."""
    return node.input(0)


# ---------------------------------------------------------------- categories

@converts("OneHotEncoder", 1, domain=DOMAIN)
def one_hot_encoder(node):
    """1 at the place of the category, of which numbers lose their fraction. Numbers that are no category have none,
    also where `zeros` is 0, with which onnxruntime ends a run."""
    if node.attr("cats_strings"):
        raise node.error("its categories are text, which is not supported; encode numbers")
    x, categories = node.input(0), numbers(node, "cats_int64s", "int64")
    if not categories.size:
        raise node.error("it has no categories: cats_int64s is empty")
    dtype = x.struct_info.dtype
    last = {int(c): k for k, c in enumerate(categories)}  # of equal ones the last counts
    if dtype.is_float:
        whole = node.call("floor", node.call("abs", x))
        x = node.call("where", node.call("less", x, node.const(0, dtype)), node.call("negative", whole), whole)
    x = node.reshape(x, [*dims_of(x), 1])
    kept = [last[int(c)] == k for k, c in enumerate(categories)]
    with np.errstate(over="ignore"):
        held = categories.astype(str(dtype))
    kept = np.array(kept) & (held.astype("int64") == categories)
    hot = node.call("equal", x, node.const(held, dtype))
    if not kept.all():
        hot = node.call("logical_and", hot, node.const(kept, "bool"))
    return node.astype(hot, "float32")


_LISTS = {"strings": None, "int64s": "int64", "floats": "float32"}


def _encoding(node, part):
    """The keys or values of a LabelEncoder."""
    given = [name for name in (*_LISTS, "tensor") if node.attr(f"{part}_{name}") is not None]
    if len(given) != 1:
        raise node.error(f"it must have one list of {part}, and has {', '.join(given) or 'none'}")
    value = node.attr(f"{part}_{given[0]}")
    if given[0] == "strings" or given[0] == "tensor" and value.data_type == 8:
        raise node.error(f"its {part} are text, which is not supported; encode numbers")
    if given[0] != "tensor":
        return np.array(value, _LISTS[given[0]])
    try:
        dtype_of(value.data_type, f"attribute {part}_tensor")
    except OnnxImportError as error:
        raise node.error(str(error)) from error
    return numpy_helper.to_array(value).reshape(-1)


@converts("LabelEncoder", 2, domain=DOMAIN)
def label_encoder(node):
    """The value beside the key that an element is. Of equal keys the first counts, as in onnxruntime, where also NaN
    is a key from version 4 on."""
    x, keys, values = node.input(0), _encoding(node, "keys"), _encoding(node, "values")
    if keys.size != values.size or not keys.size:
        raise node.error(f"it has {keys.size} keys and {values.size} values")
    if str(keys.dtype) != str(x.struct_info.dtype):
        raise node.error(f"its keys are {keys.dtype}, and X is {x.struct_info.dtype}")
    other = _other_value(node, values.dtype)
    nan = np.isnan(keys) if keys.dtype.kind == "f" else np.zeros(keys.shape, bool)
    order, where = np.unique(keys[~nan], return_index=True)
    result = node.filled(dims_of(x), other[0], values.dtype)
    if order.size:
        tables = order, values[~nan][where], other
        result = node.call("ml.lookup", x, *(node.const(t, t.dtype) for t in tables))
    if nan.any() and node.opset >= 4:
        result = node.call("where", node.call("isnan", x), node.const(values[nan][0], values.dtype), result)
    return result


def _other_value(node, dtype):
    """What elements that are no key become, [1]."""
    tensor = node.attr("default_tensor")
    if tensor is not None:
        value = numpy_helper.to_array(tensor).reshape(-1)
        if value.size != 1:
            raise node.error(f"attribute default_tensor has {value.size} numbers, and must have 1")
        return value.astype(dtype)
    names = {"int64": ("default_int64", -1), "float32": ("default_float", -0.0)}
    return np.array([node.attr(*names[str(dtype)]) if str(dtype) in names else (-0.0 if dtype.kind == "f" else -1)],
                    dtype)


def _text(node):
    raise node.error("it maps text to numbers or numbers to text, and text is not supported: encode numbers, or take "
                     "the operator out of the model")


for _name in ("CategoryMapper", "DictVectorizer", "CastMap"):
    converts(_name, 1, domain=DOMAIN)(_text)
converts("LabelEncoder", 1, domain=DOMAIN)(_text)
