"""Convolutions, pools, normalizations, softmax and recurrent layers against onnxruntime."""
import numpy as np
import pytest

from ingot.frontend.onnx import from_onnx
from ingot.ir.relax.evaluate import evaluate
from onnx_models import check_node, one_node

pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(11)


def floats(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


IMAGE = floats(2, 4, 9, 7)

CONVOLUTIONS = [
    ((4, 9, 7), (6, 4, 3, 3), {}),
    ((4, 9, 7), (6, 4, 3, 3), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ((4, 9, 7), (6, 2, 3, 2), {"group": 2, "dilations": [2, 1]}),
    ((4, 9, 7), (4, 1, 3, 3), {"group": 4, "kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ((4, 9, 7), (6, 4, 3, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((4, 9, 7), (6, 4, 2, 4), {"auto_pad": "SAME_LOWER", "strides": [2, 3]}),
    ((4, 9, 7), (6, 4, 2, 4), {"auto_pad": "VALID", "strides": [2, 3]}),
    ((4, 9), (6, 4, 3), {"pads": [1, 2], "strides": [2]}),
    ((4, 9), (6, 2, 4), {"group": 2, "auto_pad": "SAME_UPPER"}),
    ((4, 5, 6, 7), (3, 4, 2, 3, 2), {"pads": [0, 1, 0, 1, 0, 1], "strides": [1, 2, 2]}),
]


@pytest.mark.parametrize("x, w, attrs", CONVOLUTIONS)
@pytest.mark.parametrize("bias, symbolic, opset", [(True, False, 11), (False, True, 22)])
def test_conv(x, w, attrs, bias, symbolic, opset):
    arrays = [floats(2, *x), floats(*w)] + ([floats(w[0])] if bias else [])
    check_node("Conv", arrays, opset, constants=(1, 2), symbolic=symbolic, atol=1e-5, **attrs)


def test_conv_with_weights_from_outside():
    check_node("Conv", [IMAGE, floats(6, 4, 3, 3), floats(6)], 13, atol=1e-5)


@pytest.mark.parametrize("x, w, attrs", [
    ((4, 5, 6), (4, 3, 3, 3), {}),
    ((4, 5, 6), (4, 3, 3, 3), {"strides": [2, 2], "pads": [1, 1, 0, 1], "output_padding": [1, 0]}),
    ((4, 5, 6), (4, 2, 2, 3), {"group": 2, "dilations": [2, 1], "strides": [1, 2]}),
    ((4, 5, 6), (4, 3, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((4, 5, 6), (4, 3, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ((4, 5, 6), (4, 3, 3, 3), {"strides": [3, 2], "output_shape": [15, 12]}),
    ((4, 5), (4, 3, 3), {"strides": [2], "pads": [1, 0]}),
])
def test_conv_transpose(x, w, attrs):
    bias = floats(w[1] * attrs.get("group", 1))
    check_node("ConvTranspose", [floats(2, *x), floats(*w), bias], 11, constants=(1, 2), atol=1e-5, **attrs)


POOLS = [
    ((4, 9, 7), {"kernel_shape": [3, 3]}),
    ((4, 9, 7), {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    ((4, 9, 7), {"kernel_shape": [2, 2], "strides": [3, 2], "ceil_mode": 1}),
    ((4, 9, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 1, 1, 1], "ceil_mode": 1}),
    ((4, 9, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((4, 9, 7), {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ((4, 9, 7), {"kernel_shape": [9, 7]}),
    ((4, 9, 7), {"kernel_shape": [9, 7], "pads": [0, 0, 1, 1]}),
    ((4, 9, 7), {"kernel_shape": [1280, 1280], "strides": [1280, 1280], "ceil_mode": 1}),
    ((4, 9), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    ((4, 5, 6, 4), {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2]}),
]


@pytest.mark.parametrize("x, attrs", POOLS)
@pytest.mark.parametrize("opset, symbolic", [(10, False), (19, True)])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_pool(op, x, attrs, opset, symbolic):
    check_node(op, [floats(2, *x)], opset, symbolic=symbolic, **attrs)


@pytest.mark.parametrize("x, attrs", POOLS)
def test_average_pool_counts_padding(x, attrs):
    check_node("AveragePool", [floats(2, *x)], 13, count_include_pad=1, **attrs)


@pytest.mark.parametrize("op, opset", [("MaxPool", 12), ("AveragePool", 19)])
def test_dilated_pool(op, opset):
    check_node(op, [IMAGE], opset, kernel_shape=[2, 3], dilations=[3, 2], pads=[1, 1, 1, 1])


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 5, 4), (2, 3, 2, 3, 4)])
def test_global_pool(op, shape):
    check_node(op, [floats(*shape)], 13, symbolic=True)


@pytest.mark.parametrize("opset", [9, 14, 15])
def test_batch_norm(opset):
    statistics = [floats(4), floats(4), floats(4), np.abs(floats(4)) + 0.1]
    check_node("BatchNormalization", [IMAGE, *statistics], opset, constants=(1, 2, 3, 4), epsilon=1e-3)


def test_instance_norm():
    check_node("InstanceNormalization", [IMAGE, floats(4), floats(4)], 9, constants=(1, 2), epsilon=1e-3, atol=1e-5)


@pytest.mark.parametrize("opset, count", [(18, 2), (21, 4)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_group_norm(opset, count, symbolic):
    """The reference is written out: runtimes differ over the first version."""
    scale, bias = floats(count), floats(count)
    proto = one_node("GroupNormalization", [IMAGE, scale, bias], opset, (1, 2), symbolic=symbolic, num_groups=2,
                     epsilon=1e-3)
    groups = IMAGE.reshape(2, 2, -1)
    normal = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-3)
    scale, bias = (np.repeat(v, 4 // count).reshape(1, 4, 1, 1) for v in (scale, bias))
    expected = normal.reshape(IMAGE.shape) * scale + bias
    np.testing.assert_allclose(evaluate(from_onnx(proto), [IMAGE]), expected, atol=1e-5)


@pytest.mark.parametrize("axis, scale, bias", [(-1, (7,), True), (2, (9, 7), True), (-1, (7,), False),
                                               (1, (4, 9, 7), True)])
def test_layer_norm(axis, scale, bias):
    arrays = [IMAGE, floats(*scale)] + ([floats(*scale)] if bias else [])
    check_node("LayerNormalization", arrays, 17, constants=(1, 2), axis=axis, epsilon=1e-4, atol=1e-5)


@pytest.mark.parametrize("attrs", [{"size": 3}, {"size": 5, "alpha": 0.1, "beta": 0.5, "bias": 2.0}])
def test_lrn(attrs):
    check_node("LRN", [IMAGE], 13, **attrs)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("opset, attrs", [(9, {}), (9, {"axis": 2}), (11, {"axis": -1}), (11, {"axis": 0}), (13, {}),
                                          (13, {"axis": 1})])
def test_softmax(op, opset, attrs):
    check_node(op, [IMAGE], opset, symbolic=True, **attrs)


def test_softmax_of_a_plane_of_ones_needs_no_reshape():
    check_node("Softmax", [floats(2, 10, 1, 1)], 9)


@pytest.mark.parametrize("opset, arrays, outputs, attrs", [
    (9, 1, 1, {"ratio": 0.3}), (13, 2, 1, {}), (13, 3, 2, {})])
def test_dropout(opset, arrays, outputs, attrs):
    inputs = [IMAGE, np.float32(0.4).reshape(()), np.array(False)][:arrays]
    check_node("Dropout", inputs, opset, constants=(1, 2), outputs=outputs, **attrs)


GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("bias, state, outputs", [(True, True, "all"), (False, False, "last")])
def test_recurrent(op, direction, bias, state, outputs):
    time, batch, size, hidden, gates = 5, 2, 3, 4, GATES[op]
    d = 2 if direction == "bidirectional" else 1
    arrays = [floats(time, batch, size), floats(d, gates * hidden, size), floats(d, gates * hidden, hidden),
              floats(d, 2 * gates * hidden) if bias else None, None, floats(d, batch, hidden) if state else None]
    if op == "LSTM":
        arrays.append(floats(d, batch, hidden) if state else None)
    while arrays[-1] is None:
        arrays.pop()
    names = ["y0", "y1", "y2"][:3 if op == "LSTM" else 2]
    names = names if outputs == "all" else ["", *names[1:]]
    check_node(op, arrays, 14, constants=(1, 2, 3), outputs=names, direction=direction, hidden_size=hidden, atol=1e-5)


def test_gru_before_reset():
    arrays = [floats(5, 2, 3), floats(1, 12, 3), floats(1, 12, 4), floats(1, 24)]
    check_node("GRU", arrays, 7 + 2, constants=(1, 2, 3), outputs=2, hidden_size=4, linear_before_reset=1, atol=1e-5)


@pytest.mark.parametrize("op, outputs", [("GRU", 2), ("LSTM", 3), ("RNN", 2)])
def test_batch_first(op, outputs):
    """layout 1, which onnxruntime lacks: the same numbers with the axes exchanged."""
    arrays = [floats(5, 2, 3), floats(2, GATES[op] * 4, 3), floats(2, GATES[op] * 4, 4), None, None, floats(2, 2, 4)]
    attrs = {"hidden_size": 4, "direction": "bidirectional"}
    expected = evaluate(from_onnx(one_node(op, arrays, 14, (1, 2), outputs, **attrs)), [arrays[0], arrays[5]])
    arrays[0], arrays[5] = arrays[0].swapaxes(0, 1), arrays[5].swapaxes(0, 1)
    found = evaluate(from_onnx(one_node(op, arrays, 14, (1, 2), outputs, layout=1, **attrs)), [arrays[0], arrays[5]])
    np.testing.assert_allclose(found[0], expected[0].transpose(2, 0, 1, 3), atol=1e-6)
    for a, b in zip(found[1:], expected[1:]):
        np.testing.assert_allclose(a, b.swapaxes(0, 1), atol=1e-6)


def test_sequence_lengths_that_take_everything():
    arrays = [floats(5, 2, 3), floats(1, 12, 3), floats(1, 12, 4), None, np.array([5, 5], np.int32)]
    check_node("GRU", arrays, 14, constants=(1, 2, 4), outputs=2, hidden_size=4, atol=1e-5)


def test_activations():
    arrays = [floats(5, 2, 3), floats(2, 12, 3), floats(2, 12, 4)]
    check_node("GRU", arrays, 14, constants=(1, 2), outputs=2, hidden_size=4, direction="bidirectional", atol=1e-5,
               activations=["Sigmoid", "Relu", "tanh", "Tanh"])
