"""From a path, bytes or ModelProto to a checked graph: opset, dtypes, weights (also external ones), node order."""
from __future__ import annotations

import math
import os

import numpy as np
from google.protobuf.message import DecodeError, Message
from onnx import ModelProto, TensorProto, defs, numpy_helper

from ...ir.relax.budget import excess
from .captures import used_names
from .errors import OnnxImportError
from .msft_schemas import MICROSOFT
from .weights import INSIDE, Source, contents, without_weights

LEAST_OPSET, MOST_OPSET = 1, defs.onnx_opset_version()
READ_OPSET = 28  # what the converters are written for; a version of an operator that is newer is refused
DOMAINS = ("", "ai.onnx")
KNOWN_DOMAINS = (*DOMAINS, "ai.onnx.ml", MICROSOFT)
READ_OPSETS = {"ai.onnx.ml": 5}  # as READ_OPSET, of domains that count their versions by themselves

# The element types the graph IR has. Strings are not tensors here.
DTYPES = {
    TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64", TensorProto.FLOAT16: "float16",
    TensorProto.INT8: "int8", TensorProto.INT16: "int16", TensorProto.INT32: "int32", TensorProto.INT64: "int64",
    TensorProto.UINT8: "uint8", TensorProto.UINT16: "uint16", TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64", TensorProto.BOOL: "bool", TensorProto.BFLOAT16: "bfloat16",
    **{getattr(TensorProto, name): dtype for name, dtype in (
        ("FLOAT8E4M3FN", "float8_e4m3fn"), ("FLOAT8E5M2", "float8_e5m2"), ("FLOAT8E4M3FNUZ", "float8_e4m3fnuz"),
        ("FLOAT8E5M2FNUZ", "float8_e5m2fnuz"), ("FLOAT8E8M0", "float8_e8m0fnu"), ("FLOAT4E2M1", "float4_e2m1fn"),
        ("INT4", "int4"), ("UINT4", "uint4"), ("INT2", "int2"), ("UINT2", "uint2")) if hasattr(TensorProto, name)},
}

# Bits of elements that lie several to a byte in files.
BITS = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}


def dtype_of(elem_type, what):
    """The dtype of an ONNX element type; `what` is the tensor's name in the error."""
    if elem_type not in DTYPES:
        known = {v: k for k, v in TensorProto.DataType.items()}
        raise OnnxImportError(f"{what} has dtype {known.get(elem_type, elem_type)}, which is not supported; "
                              f"supported are {', '.join(DTYPES.values())}")
    return DTYPES[elem_type]


def load_model(model):
    """(ModelProto, Source of its weights, file name or None) of a path, bytes or ModelProto. Of a path and of bytes the
    message has references to large weights."""
    if isinstance(model, ModelProto):
        return model, Source(), None
    if isinstance(model, (bytes, bytearray, memoryview)):
        data = bytes(model)
        return parse(data, "the given bytes"), Source(data=data), None
    if not isinstance(model, (str, os.PathLike)):
        raise OnnxImportError(f"from_onnx takes a path, bytes or an onnx.ModelProto, not a {type(model).__name__}")
    path = os.fspath(model)
    try:
        data = contents(path)
    except OSError as error:
        raise OnnxImportError(f"cannot read the model {path}: {error.strerror or error}") from error
    return parse(data, path), Source(os.path.dirname(os.path.abspath(path)), data), os.path.basename(path)


def parse(data, source):
    """The ModelProto in `data`, without its large weights. Any bytes may parse as some protobuf message, so the parts
    are looked at too."""
    model = ModelProto()
    try:
        model.ParseFromString(without_weights(data) or bytes(data))
    except DecodeError as error:
        raise OnnxImportError(f"{source} is not an ONNX model, or is truncated ({len(data)} bytes): {error}") from error
    if not model.HasField("graph") or not (model.ir_version and model.graph.output):
        raise OnnxImportError(f"{source} is not an ONNX model, or is truncated: it holds no graph with outputs")
    return model


def check_text(message):
    """Every name in the model is text. Protobuf's runtimes give strings that are no UTF-8 as bytes, or raise."""
    todo = [message]
    while todo:
        for field, value in _fields(todo.pop()):
            values = (value,) if isinstance(value, (str, bytes, Message)) else value
            if field.type == field.TYPE_MESSAGE:
                todo.extend(values)
            elif field.type == field.TYPE_STRING and any(isinstance(v, bytes) for v in values):
                bad = next(v for v in values if isinstance(v, bytes))
                raise OnnxImportError(f"the model holds a {field.name} {bad[:80]!r}, which is no UTF-8 text; rename it "
                                      "before saving the model")


_TENSOR_TEXTS = tuple(TensorProto.DESCRIPTOR.fields_by_name[name] for name in (
    "name", "doc_string", "external_data", "metadata_props") if name in TensorProto.DESCRIPTOR.fields_by_name)


def _fields(message):
    """The fields that a message has: (descriptor, value). Of a tensor those that hold text: to read the others is to
    copy the weights."""
    if not isinstance(message, TensorProto):
        return message.ListFields()
    return [(field, getattr(message, field.name)) for field in _TENSOR_TEXTS]


def opset_of(model):
    """The model's version of the default operator set, checked to be a supported one."""
    imported = [o for part in (model, *model.functions) for o in part.opset_import]
    versions = [o.version for o in imported if o.domain in DOMAINS]
    if not versions and imported and all(o.domain in KNOWN_DOMAINS for o in imported):
        if any(n.domain in DOMAINS for n in model.graph.node):
            raise OnnxImportError("the model has operators of the default domain, ai.onnx, and imports no opset of it: "
                                  "add one to opset_import")
        return min(READ_OPSET, MOST_OPSET)
    if not versions and imported:
        domains = ", ".join(sorted({repr(o.domain) for o in imported}))
        raise OnnxImportError(f"the model imports operators of {domains} alone; only those of the default "
                              "domain, ai.onnx, are supported")
    if not versions:
        raise OnnxImportError("the model names no opset (opset_import is missing); the file may be truncated")
    return check_opset(versions[0], "the model")


def other_opsets(proto):
    """{domain: version} that a model or function imports of the domains that count their versions by themselves."""
    return {o.domain: o.version for o in proto.opset_import if o.domain in READ_OPSETS}


def check_opset(version, what):
    """`version`, which must be a supported one. `what` has it, in the error."""
    if not LEAST_OPSET <= version <= MOST_OPSET:
        raise OnnxImportError(f"{what} is of opset {version}, and opset {version} is not supported: the installed "
                              f"onnx knows {LEAST_OPSET} to {MOST_OPSET}; install a newer onnx, or convert the model "
                              "with onnx.version_converter.convert_version(model, 17)")
    return version


def array_of(tensor, source, what):
    """The numpy array of a TensorProto; `what` names it in errors, `source` is the Source of the model's weights."""
    dtype = dtype_of(tensor.data_type, what)
    if min(tensor.dims, default=0) < 0:
        raise OnnxImportError(f"{what} is damaged: shape {list(tensor.dims)} has a negative dimension")
    problem = excess(tensor.dims)
    if problem:
        raise OnnxImportError(f"{what} of shape {list(tensor.dims)} {problem}")
    if tensor.data_location == TensorProto.EXTERNAL:
        return _external_array(tensor, source, what, dtype)
    return _array(tensor, what)


def _array(tensor, what):
    """The array of a TensorProto that holds its data."""
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError) as error:
        raise OnnxImportError(f"{what} is damaged: its data does not fill shape {list(tensor.dims)} of "
                              f"{dtype_of(tensor.data_type, what)} ({error})") from error


def _external_array(tensor, source, what, dtype):
    """A tensor whose data is stored beside the model, or stayed in its file: entries location, offset and length of
    `external_data`. A view of these bytes, whose elements may lie at any address."""
    entries = {e.key: e.value for e in tensor.external_data}
    shape, bits = tuple(tensor.dims), BITS.get(dtype, 8 * np.dtype(dtype).itemsize)
    size = -(-math.prod(shape) * bits // 8)
    offset, length = (_count(entries, key, usual, what) for key, usual in (("offset", 0), ("length", size)))
    if source is not None and source.data is not None and entries.get("location") == INSIDE:
        data = memoryview(source.data)[offset:offset + length]
    else:
        data = _external_bytes(entries, source, what, f"{list(shape)} of {dtype}", offset, size)
    if len(data) != size:
        raise OnnxImportError(f"{what} is damaged: its data of {len(data)} bytes does not fill shape {list(shape)} of "
                              f"{dtype}, which takes {size}")
    if bits < 8:  # several elements in a byte
        return _array(TensorProto(data_type=tensor.data_type, dims=shape, raw_data=bytes(data)), what)
    return np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).astype(dtype, copy=False).reshape(shape)


def _external_bytes(entries, source, what, form, offset, size):
    """The bytes of a tensor in the file that its entries name. form: its shape and dtype, in errors."""
    location, folder = entries.get("location", ""), source and source.folder
    if not location:
        raise OnnxImportError(f"{what} is stored outside the model, but no file is named for it")
    if folder is None:
        raise OnnxImportError(f"{what} is stored in the file {location!r}, and a model given as bytes or ModelProto "
                              "has no folder; give the path of the .onnx file, or load it with its external data")
    path = os.path.join(folder, location)
    inside = "\0" not in location and not os.path.isabs(location) and os.path.realpath(path).startswith(
        os.path.realpath(folder) + os.sep)
    if not inside:
        raise OnnxImportError(f"{what} is stored in {location!r}, which is outside the model's folder {folder}")
    try:
        data, held, regular = source.read(path, offset, size)
    except (OSError, ValueError) as error:
        raise OnnxImportError(f"{what} is stored in the external weight file {path}, which cannot be read: "
                              f"{getattr(error, 'strerror', None) or error}; put the file beside the model") from error
    if not regular:
        raise OnnxImportError(f"{what} is stored in {path}, which is no regular file")
    if len(data) != size or int(entries.get("length", size)) != size:
        raise OnnxImportError(f"{what} needs {size} bytes for shape {form}, but the external weight file {path} holds "
                              f"{held} there (declared {entries.get('length', 'nothing')}); the file is truncated or "
                              "of another model")
    return data


def _count(entries, key, usual, what):
    """An entry of `external_data` that is a number of bytes; `usual` when it is absent."""
    text = entries.get(key, str(usual))
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise OnnxImportError(f"{what} is stored outside the model with {key} {text[:40]!r}, which must be a number of "
                              "bytes")
    return int(text)


def check_order(graph, nodes, outer=()):
    """Every tensor is defined once and before its use, or is one of `outer`. Raises OnnxImportError naming node and
    tensor."""
    given = [t.name for t in graph.initializer] + [t.values.name for t in graph.sparse_initializer]
    if graph.sparse_initializer:
        raise OnnxImportError(f"sparse initializers ({given[-1]!r} ...) are not supported; export dense weights")
    _no_repeats(given, "initializer")
    _no_repeats([i.name for i in graph.input], "graph input")
    made = {name: f"graph input or initializer {name!r}" for name in [*given, *(i.name for i in graph.input)]}
    later = {name: node for node in nodes for name in node.proto.output}
    for node in nodes:
        for name in used_names(node.proto):
            if name not in made and name not in outer:
                if name in later:
                    raise OnnxImportError(f"{node.title} uses {name!r} before {later[name].title} makes it; "
                                          "the graph is not sorted topologically: sort the nodes before saving")
                raise OnnxImportError(f"{node.title} uses the tensor {name!r}, which nothing in the graph makes")
        for name in filter(None, node.proto.output):
            if name in made:
                raise OnnxImportError(f"{node.title} makes the tensor {name!r}, which {made[name]} makes already; "
                                      "names of tensors must be unique")
            made[name] = node.title
    for out in graph.output:
        if out.name not in made and out.name not in outer:
            raise OnnxImportError(f"graph output {out.name!r} is made by no node; the graph is incomplete")


def _no_repeats(names, what):
    seen = set()
    for name in names:
        if name in seen:
            raise OnnxImportError(f"{what} {name!r} occurs twice; names of tensors must be unique")
        seen.add(name)


def reachable(graph, nodes):
    """The nodes that some graph output depends on, in order. The rest computes nothing that is asked for."""
    return needed(nodes, (o.name for o in graph.output))


def needed(nodes, outputs):
    """The nodes that tensors depend on, by their names, in order."""
    wanted, kept = set(filter(None, outputs)), []
    for node in reversed(nodes):
        if wanted.intersection(node.proto.output):
            wanted.update(used_names(node.proto))
            kept.append(node)
    return kept[::-1]


def declared_shapes(graph):
    """{tensor: the dimensions that a graph declares}."""
    return {v.name: v.type.tensor_type.shape.dim for v in (*graph.output, *graph.value_info)
            if v.type.tensor_type.HasField("shape")}
