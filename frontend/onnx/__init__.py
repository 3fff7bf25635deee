"""ONNX models into graph functions: `from_onnx`."""
from __future__ import annotations

import os
import warnings

import numpy as np

from ...ir.module import IRModule
from . import load
from . import (  # noqa: F401  (register)
    ops_control, ops_conv_transpose, ops_einsum, ops_integer, ops_math, ops_msft, ops_msft_attention,
    ops_msft_lstm, ops_msft_quantized, ops_nn, ops_norm, ops_pool, ops_quantize, ops_random, ops_recurrent,
    ops_reduce, ops_resize, ops_scatter, ops_selection, ops_sequence, ops_shape, ops_signal, ops_tensor,
    ops_vision)
from . import ops_ml, ops_ml_linear, ops_ml_svm, ops_ml_trees  # noqa: F401  (register)
from .choices import Choices
from .converter import CONVERTERS
from .errors import NarrowedWarning, OnnxImportError
from .functions import expander
from .graph import GraphImporter
from .names import identifier


def from_onnx(model, dims=None, name=None, bounds=None) -> IRModule:
    """The graph of an ONNX model as an IRModule with one function, "main".

    model: a path, the file's bytes, or an onnx.ModelProto (of any opset that the installed onnx knows).
    dims: {name: size} pins symbolic dimensions; the others become int64 variables, shared by name. A dimension
      without a name is called INPUT_dAXIS ("data_d0").
    bounds: {name: upper bound} of dimensions that a run decides, where nothing else says how large they are.
    name: the module's name; default the file's, else the graph's.

    The function's params are the model's inputs (identifiers; the original name is in `.origin`), its outputs the
    model's in declared order, weights are Constants. Function attributes: "input_names", "output_names" (the original
    ones); module attributes: "name", "dims" (the symbolic variables in order of appearance), "opset".
    Raises OnnxImportError (a ValueError) naming node, operator, opset and shapes.
    """
    try:
        with np.errstate(all="ignore"):  # overflow and NaN are values of constants too
            return _imported(model, dims, name, bounds)
    except UnicodeDecodeError as error:
        raise OnnxImportError(f"the model holds the name or text {bytes(error.object)[:80]!r}, which is no UTF-8; "
                              "rename it before saving the model") from error


def _imported(model, dims, name, bounds):
    proto, folder, file = load.load_model(model)
    load.check_text(proto)
    opset = load.opset_of(proto)
    stem = os.path.splitext(file)[0] if file else proto.graph.name
    expanded, choices = expander(proto, opset), Choices()
    name = identifier(name or stem or "model", "model")

    def attempt():
        importer = GraphImporter(proto.graph, expanded, opset, folder, dims, bounds, choices)
        return importer.run(name), importer.narrowed

    mod, narrowed = choices.attempt(attempt)
    for title, what in narrowed.items():
        warnings.warn(f"{title}: {what}", NarrowedWarning, stacklevel=4)
    return mod


__all__ = ["CONVERTERS", "OnnxImportError", "from_onnx"]
