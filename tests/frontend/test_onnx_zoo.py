"""Whole networks: the zoo's and the light ones that the onnx package ships."""
import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import ingot
from ingot.frontend.onnx import from_onnx
from ingot.ir.relax.evaluate import evaluate
from onnx_models import assert_same, run_both

FOLDER = Path(ingot.__file__).resolve().parent.parent / "shared" / "zoo"
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
NAMES = sorted(p.stem for p in FOLDER.glob("*.onnx"))
SMALL = [n for n in NAMES if n.startswith(("tiny_", "kws_")) or n == "squeezenet"]
TAKES_ANY_BATCH = [n for n in NAMES if n.startswith("tiny_")]


def zoo():
    spec = importlib.util.spec_from_file_location("zoo", FOLDER / "zoo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_import(name):
    """Every network is imported, with its shapes static; no shape arithmetic is left."""
    func = from_onnx(zoo().load(name))["main"]
    assert all(o.struct_info.static_shape for o in func.outputs)
    for binding in func.bindings:
        fields = getattr(binding.var.struct_info, "fields", None) or (binding.var.struct_info,)
        assert all(f.static_shape is not None and 0 not in f.static_shape for f in fields)
        assert binding.var.origin.name and binding.var.origin.op


@pytest.mark.skipif("mobilenet_v2" not in NAMES, reason="no zoo beside the checkout")
def test_pads_made_by_shape_arithmetic_fold():
    ops = {b.value.op for b in from_onnx(zoo().load("mobilenet_v2"))["main"].bindings}
    assert ops == {"nn.pad", "nn.conv2d", "add", "clip", "mean", "reshape", "permute_dims", "matmul"}


@pytest.mark.parametrize("name", SMALL)
def test_evaluate(name):
    pytest.importorskip("onnxruntime")
    models = zoo()
    proto = models.load(name)
    assert_same(*run_both(proto, models.inputs(proto)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", TAKES_ANY_BATCH)
def test_symbolic_batch(name):
    pytest.importorskip("onnxruntime")
    models = zoo()
    proto = models.load(name)
    feeds = {k: np.concatenate([v, v[..., ::-1], 2 * v]) for k, v in models.inputs(proto).items()}
    for info in proto.graph.input:
        if info.name in feeds:
            info.type.tensor_type.shape.dim[0].dim_param = "batch"
    module = from_onnx(proto)
    assert [d.name for d in module.attrs["dims"]] == ["batch"]
    assert_same(*run_both(proto, feeds), rtol=1e-4, atol=1e-5)
    assert from_onnx(proto, {"batch": 3})["main"].outputs[0].struct_info.static_shape[0] == 3


@pytest.mark.parametrize("name", sorted(p.stem for p in LIGHT.glob("*.onnx")))
def test_light(name):
    """Their weights are made by ConstantOfShape nodes, and become Constants; one input is left."""
    module = from_onnx(LIGHT / f"{name}.onnx")
    func = module["main"]
    assert module.attrs["name"] == name and len(func.params) == 1
    proto = onnx.load(LIGHT / f"{name}.onnx")
    operators = len([n for n in proto.graph.node if n.op_type not in ("ConstantOfShape", "Dropout", "Unsqueeze")])
    assert len(func.bindings) <= 2 * operators
    if name == "light_squeezenet":
        expected = onnx.TensorProto.FromString((LIGHT / f"{name}_output_0.pb").read_bytes())
        shape = func.params[0].struct_info.static_shape
        image = (np.arange(np.prod(shape)) / np.prod(shape)).reshape(shape).astype(np.float32)
        np.testing.assert_allclose(evaluate(func, [image]), numpy_helper.to_array(expected), rtol=1e-3, atol=1e-7)
