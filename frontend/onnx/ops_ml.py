"""What prepares numbers for classic models, of ai.onnx.ml: scaling, encodings of categories, choices of columns."""
from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto, numpy_helper

from ..shapes import dims_of, product
from .converter import converts
from .errors import OnnxImportError
from .load import dtype_of
from .ml_scores import numbers
from .ml_words import Words, by_word, words_of

DOMAIN = "ai.onnx.ml"


def _as_float(node, x):
    """`x` in the float dtype that it is computed in."""
    return x if x.struct_info.dtype == "float64" else node.astype(x, "float32")


def _per_feature(node, name, values, x):
    """One number, or one for each feature, as a constant."""
    dims = dims_of(x)
    if values.size != 1 and (not dims or values.size != dims[-1]):
        raise node.error(f"attribute {name} has {values.size} numbers, and must have 1, or one for each feature")
    return node.const(values if values.size > 1 else values.reshape(()), x.struct_info.dtype)


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
        return _hot_words(node, node.attr("cats_strings"))
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


def _hot_words(node, categories):
    words, last = words_of(node), {c: k for k, c in enumerate(categories)}
    table = np.zeros((len(words.words), len(categories)), np.float32)
    for row, word in zip(table, words.words):
        if word in last:
            row[last[word]] = 1
    return node.call("take", node.const(table, "float32"), words.codes, axis=0)


_LISTS = {"strings": object, "int64s": "int64", "floats": "float32"}


def _encoding(node, part):
    """The keys or values of a LabelEncoder; text as an array of objects."""
    given = [name for name in (*_LISTS, "tensor") if node.attr(f"{part}_{name}") is not None]
    if len(given) != 1:
        raise node.error(f"it must have one list of {part}, and has {', '.join(given) or 'none'}")
    value = node.attr(f"{part}_{given[0]}")
    if given[0] != "tensor":
        return np.array(value, _LISTS[given[0]])
    if value.data_type == TensorProto.STRING:
        return np.array([_decoded(node, v) for v in value.string_data], object)
    try:
        dtype_of(value.data_type, f"attribute {part}_tensor")
    except OnnxImportError as error:
        raise node.error(str(error)) from error
    return numpy_helper.to_array(value).reshape(-1)


def _decoded(node, text):
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise node.error(f"the text {text[:40]!r} is no UTF-8") from error


@converts("LabelEncoder", 2, domain=DOMAIN)
def label_encoder(node):
    """The value beside the key that an element is. Of equal keys the first counts, as in onnxruntime, where also NaN
    is a key from version 4 on."""
    keys, values = _encoding(node, "keys"), _encoding(node, "values")
    if keys.size != values.size or not keys.size:
        raise node.error(f"it has {keys.size} keys and {values.size} values")
    return _encoded(node, keys, values, _other_value(node, values.dtype))


def _encoded(node, keys, values, other):
    """The values beside the keys that elements are, else other[0]. Arrays of objects are text."""
    if values.dtype == object:  # their numbers, of which the last is that of the other word
        words = (*values, other[0])
        return Words(node.bind(_encoded(node, keys, np.arange(values.size), np.array([values.size]))), words)
    if keys.dtype == object:
        return by_word(node, words_of(node), dict(zip(keys[::-1], values[::-1])), other)
    x = node.input(0)
    if str(keys.dtype) != str(x.struct_info.dtype):
        raise node.error(f"its keys are {keys.dtype}, and X is {x.struct_info.dtype}")
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
    if dtype == object:
        return np.array([node.attr("default_string", "_Unused")], object)
    tensor = node.attr("default_tensor")
    if tensor is not None:
        value = numpy_helper.to_array(tensor).reshape(-1)
        if value.size != 1:
            raise node.error(f"attribute default_tensor has {value.size} numbers, and must have 1")
        return value.astype(dtype)
    names = {"int64": ("default_int64", -1), "float32": ("default_float", -0.0)}
    return np.array([node.attr(*names[str(dtype)]) if str(dtype) in names else (-0.0 if dtype.kind == "f" else -1)],
                    dtype)


@converts("LabelEncoder", 1, domain=DOMAIN)
def label_encoder_v1(node):
    """Numbers of classes to their names, and back."""
    words = node.attr("classes_strings", ())
    return _translated(node, np.arange(len(words)), words)


@converts("CategoryMapper", 1, domain=DOMAIN)
def category_mapper(node):
    return _translated(node, numbers(node, "cats_int64s", "int64"), node.attr("cats_strings", ()))


def _translated(node, codes, words):
    if len(codes) != len(words) or not len(words):
        raise node.error(f"it has {len(codes)} numbers and {len(words)} words")
    words = np.array(words, object)
    if isinstance(node.input(0), Words):
        return _encoded(node, words, codes, np.array([node.attr("default_int64", -1)]))
    return _encoded(node, codes, words, np.array([node.attr("default_string", "_Unused")], object))


def _map(node):
    raise node.error("it takes maps, which are not supported: take the operator out, with a tensor as the input")


for _name in ("DictVectorizer", "CastMap"):
    converts(_name, 1, domain=DOMAIN)(_map)
