"""tvm.relax.frontend: onnx with TVM's arguments."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import ingot as tvm
from ingot import relax
from ingot.relax.frontend import detach_params
from ingot.relax.frontend.onnx import from_onnx

W = np.arange(12, dtype="float32").reshape(4, 3)


def model(shape=("?", "?")):
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["1.x", "w"], ["y"])], "product",
        [helper.make_tensor_value_info("1.x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(W, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


def test_weights_are_inputs_that_detach():
    mod = from_onnx(model(), shape_dict={"1.x": (2, 4)}, opset=14, keep_params_in_input=True)
    func = mod["main"]
    assert [p.name for p in func.params] == ["input_1_x", "w"] and func.attrs["num_input"] == 1
    mod, params = detach_params(mod)
    x = np.ones((2, 4), "float32")
    found = relax.VirtualMachine(relax.build(mod), tvm.cpu())["main"](x, *params["main"])
    np.testing.assert_allclose(found.numpy(), x @ W)


def test_names_shapes_and_dtypes():
    assert [p.name for p in from_onnx(model((2, 4)), sanitize_input_names=False)["main"].params] == ["1.x"]
    copy = model((2, 4))
    mod = from_onnx(copy, shape_dict={"1.x": ("n", 4)})
    assert str(mod["main"].params[0].struct_info.shape[0]) == "n"
    assert copy.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2  # the caller's stays
    with pytest.raises(ValueError, match="no input x; it has 1.x"):
        from_onnx(copy, shape_dict={"x": (1, 4)})
    with pytest.raises(ValueError):
        detach_params(tvm.IRModule({"main": mod["main"].with_attr("params", [1])}))
