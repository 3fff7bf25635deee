"""Networks of float32 computed in float16 and bfloat16: which values are cast, and how near results stay."""
import numpy as np
import pytest
from emulated import run_folder
from folders import check_kernels, folder_of, nvcc
from networks import conv_net, feeds_of, residual_net, transformer, unet
from onnx import TensorProto, helper

import ingot
from ingot.ir.relax.expr import RelaxCall
from ingot.ir.transform.pass_table import RELAX

NEAR = {"float16": 5e-3, "bfloat16": 5e-2}  # of a tensor's greatest value


def _calls(mod):
    return [(b.value.op, str(b.var.struct_info.dtype)) for b in mod["main"].bindings if isinstance(b.value, RelaxCall)]


def _model(*nodes, shape=(4, 8)):
    made = [helper.make_node(op, inputs, [out]) for op, inputs, out in nodes]
    graph = helper.make_graph(made, "net", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (
        ("x", shape), ("w", (8, 8)))], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _cast(model, dtype="float16"):
    return RELAX["ToMixedPrecision"](dtype)(ingot.from_onnx(model))


@pytest.mark.parametrize("dtype", NEAR)
def test_products_and_what_follows_them_are_cast(dtype):
    mod = _cast(_model(("MatMul", ["x", "w"], "h"), ("Relu", ["h"], "r"), ("Softmax", ["r"], "y")), dtype)
    ops = [call for call in _calls(mod) if call[0] != "astype"]
    assert ops == [("matmul", dtype), ("nn.relu", dtype), ("nn.softmax", dtype)]
    assert _calls(mod)[-1] == ("astype", "float32")  # the output stays as it is
    assert all(str(p.struct_info.dtype) == "float32" for p in mod["main"].params)


def test_what_may_leave_the_range_stays_wide():
    """exp of 12 is more than float16 holds."""
    mod = _cast(_model(("MatMul", ["x", "w"], "h"), ("Exp", ["h"], "y")))
    assert [call for call in _calls(mod) if call[0] in ("matmul", "exp")] == [("matmul", "float16"), ("exp", "float32")]


def test_a_network_without_products_stays_as_it_is():
    mod = _cast(_model(("Relu", ["x"], "h"), ("Exp", ["h"], "y")))
    assert {dtype for _, dtype in _calls(mod)} == {"float32"}


@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize("network", [conv_net, residual_net, unet, transformer])
def test_results_stay_near(network, dtype):
    model = network()
    feeds = list(feeds_of(model).values())
    with ingot.compile(model) as wide, ingot.compile(model, dtype=dtype) as narrow:
        expected, found = (_listed(library(*feeds)) for library in (wide, narrow))
    for e, f in zip(expected, found):
        assert f.dtype == e.dtype == np.float32
        assert np.abs(f - e).max() <= NEAR[dtype] * np.abs(e).max()
        assert network is not residual_net or not np.array_equal(e, f)


def _listed(outputs):
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


@pytest.mark.parametrize("dtype", NEAR)
def test_a_folder_for_gpus_computes_in_half(tmp_path, dtype):
    nvcc()
    made = folder_of(residual_net(), tmp_path, dtype=dtype)
    done = run_folder(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    if dtype == "float16":
        check_kernels(tmp_path, made.kernels, ("sm_80",))


