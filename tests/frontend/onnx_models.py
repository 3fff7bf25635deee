"""Small ONNX models, and their comparison with onnxruntime."""
from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ingot.frontend.onnx import from_onnx
from ingot.ir.relax.evaluate import evaluate


def value_info(name, shape, dtype="float32"):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def model(nodes, inputs, outputs, opset=17, weights=None, name="g"):
    """A ModelProto. inputs: {name: shape or (shape, dtype)}; outputs: names; weights: {name: array}."""
    infos = [value_info(k, *(v if isinstance(v, tuple) else (v,))) for k, v in inputs.items()]
    made = [o if not isinstance(o, str) else helper.make_tensor_value_info(o, 1, None) for o in outputs]
    graph = helper.make_graph(nodes, name, infos, made,
                              [numpy_helper.from_array(np.asarray(a), k) for k, a in (weights or {}).items()])
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets))


def one_node(op, arrays, opset, constants=(), outputs=1, symbolic=False, **attrs):
    """A model of one node. arrays: its inputs (None: absent); constants: the positions that are weights."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(arrays)]
    outs = outputs if isinstance(outputs, list) else [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, outs, name="the_node", **attrs)
    inputs = {n: (["batch", *a.shape[1:]] if symbolic and a.ndim else list(a.shape), a.dtype.name)
              for i, (n, a) in enumerate(zip(names, arrays)) if a is not None and i not in constants}
    weights = {n: a for i, (n, a) in enumerate(zip(names, arrays)) if a is not None and i in constants}
    return model([node], inputs, [o for o in outs if o], opset, weights)


def seven_bits(array):
    """Weights of which onnxruntime's products are exact on every processor: without VNNI, those of uint8 and int8
    saturate in 16 bits, which two products of uint8 and seven bits do not reach."""
    return array // 2 if array.dtype == np.int8 else array


def run_both(proto, feeds, dims=None):
    """(this package's outputs, onnxruntime's), both lists."""
    import onnxruntime
    module = from_onnx(proto, dims)
    found = evaluate(module, feeds)
    found = list(found) if isinstance(found, tuple) else [found]
    proto = onnx.ModelProto.FromString(proto.SerializeToString())
    for info, array in zip(proto.graph.output, found):  # onnxruntime wants the dtype declared
        info.CopyFrom(value_info(info.name, None, array.dtype))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return found, session.run(None, feeds)


def assert_same(found, expected, rtol=1e-5, atol=1e-6):
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert a.dtype == b.dtype and a.shape == b.shape, f"{a.dtype}{a.shape} against {b.dtype}{b.shape}"
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def check_node(op, arrays, opset, constants=(), outputs=1, symbolic=False, rtol=1e-5, atol=1e-6, **attrs):
    """Import a one-node model, evaluate it, and compare with onnxruntime."""
    proto = one_node(op, arrays, opset, constants, outputs, symbolic, **attrs)
    given = {i.name for i in proto.graph.input}
    feeds = {f"x{i}": a for i, a in enumerate(arrays) if f"x{i}" in given}
    assert_same(*run_both(proto, feeds), rtol, atol)
