"""The numpy references against onnxruntime, one ONNX node at a time."""
import numpy as np
import pytest
from onnx import TensorProto, helper
from ops_nn_check import array, arrays, evaluate

onnxruntime = pytest.importorskip("onnxruntime")


def run_onnx(op, inputs, opset=17, **attrs):
    """The first output of one ONNX node."""
    names = [f"i{k}" for k in range(len(inputs))]
    node = helper.make_node(op, names, ["out"], **attrs)
    graph = helper.make_graph([node], "g", [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(names, inputs)], [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names, inputs)))[0]


def same(op, name, inputs, onnx_attrs, opset=17, **attrs):
    np.testing.assert_allclose(evaluate(name, inputs, **attrs), run_onnx(op, inputs, opset, **onnx_attrs), rtol=2e-5,
                               atol=2e-5)


@pytest.mark.parametrize("x, w, geometry", [
    ((2, 3, 9, 8), (4, 3, 3, 2), dict(strides=(2, 1), padding=(1, 0, 2, 1))),
    ((1, 4, 9, 8), (6, 2, 3, 3), dict(dilation=(2, 1), groups=2)),
    ((1, 4, 6, 6), (4, 1, 3, 3), dict(groups=4, padding=(1, 1, 1, 1))),
    ((2, 3, 9), (4, 3, 3), dict(strides=(2,), padding=(1, 2))),
    ((1, 2, 5, 4, 6), (3, 2, 3, 1, 2), dict(strides=(2, 1, 2), padding=(1, 0, 1, 0, 1, 1))),
])
def test_conv(x, w, geometry):
    rename = {"padding": "pads", "dilation": "dilations", "groups": "group"}
    same("Conv", f"nn.conv{len(x) - 2}d", arrays(x, w), {rename.get(k, k): v for k, v in geometry.items()}, **geometry)


@pytest.mark.parametrize("x, w, geometry", [
    ((2, 3, 4, 5), (3, 2, 3, 3), dict(strides=(2, 3), padding=(1, 0, 1, 2), output_padding=(1, 0))),
    ((1, 4, 4, 5), (4, 3, 2, 3), dict(groups=2, dilation=(2, 1))),
])
def test_conv_transpose(x, w, geometry):
    rename = {"padding": "pads", "dilation": "dilations", "groups": "group"}
    same("ConvTranspose", "nn.conv2d_transpose", arrays(x, w), {rename.get(k, k): v for k, v in geometry.items()},
         **geometry)


@pytest.mark.parametrize("a, b", [((3, 4), (4, 5)), ((4,), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((2, 3, 4), (4,))])
def test_matmul(a, b):
    same("MatMul", "matmul", arrays(a, b), {})


@pytest.mark.parametrize("size, kernel, strides, pads, ceil_mode", [
    ((9, 8), (3, 2), (2, 2), (1, 0, 1, 1), 0), ((6, 6), (3, 3), (2, 2), (0, 0, 0, 0), 1),
    ((7, 8), (3, 3), (2, 2), (1, 1, 1, 1), 1)])
def test_pools(size, kernel, strides, pads, ceil_mode):
    x = [array((2, 3, *size))]
    common = dict(kernel_shape=kernel, strides=strides, pads=pads, ceil_mode=ceil_mode)
    ours = dict(pool_size=kernel, strides=strides, padding=pads, ceil_mode=bool(ceil_mode))
    same("MaxPool", "nn.max_pool2d", x, common, **ours)
    for include in (0, 1):
        same("AveragePool", "nn.avg_pool2d", x, dict(common, count_include_pad=include), opset=19, **ours,
             count_include_pad=bool(include))


def test_dilated_pools():
    x, ours = [array((1, 2, 9, 8))], dict(pool_size=(3, 2), dilation=(2, 3), padding=(1, 1, 1, 1))
    theirs = dict(kernel_shape=(3, 2), dilations=(2, 3), pads=(1, 1, 1, 1))
    same("MaxPool", "nn.max_pool2d", x, theirs, **ours)
    same("AveragePool", "nn.avg_pool2d", x, theirs, opset=19, **ours)


def test_ceil_mode_drops_a_window_that_starts_in_the_end_padding():
    """onnxruntime's shape here depends on its version, so the expected size is ONNX's formula by hand."""
    result = evaluate("nn.max_pool2d", [array((1, 1, 4, 4))], pool_size=(2, 2), strides=(3, 3), padding=(1, 1, 1, 1),
                      ceil_mode=True)
    assert result.shape == (1, 1, 2, 2)


def test_normalizations():
    x, gamma, beta, mean = arrays((2, 3, 4, 5), 3, 3, 3)
    var = np.abs(array(3, 9)) + 0.1
    same("BatchNormalization", "nn.batch_norm", [x, gamma, beta, mean, var], dict(epsilon=1e-3), epsilon=1e-3)
    same("InstanceNormalization", "nn.instance_norm", [x, gamma, beta], dict(epsilon=1e-3), epsilon=1e-3)
    same("LayerNormalization", "nn.layer_norm", arrays((2, 3, 4, 5), (4, 5), (4, 5)), dict(axis=2), axes=(2, 3))
    same("Softmax", "nn.softmax", [x], dict(axis=1), axis=1)
    same("LogSoftmax", "nn.log_softmax", [x], dict(axis=-1))


@pytest.mark.parametrize("size", [3, 5])
def test_lrn(size):
    same("LRN", "nn.lrn", [array((2, 7, 3, 3))], dict(size=size, alpha=0.3, beta=0.6, bias=1.5), size=size, alpha=0.3,
         beta=0.6, bias=1.5)
