"""nn.conv2d_gathered: against the plain convolution of gathered channels, and its messages."""
import numpy as np
import pytest
from ops_nn_check import array, arrays, block_names, call_of, check, evaluate

from ingot.ir.expr import Var
from ingot.ir.op import InferError
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.ops.conv_layouts import pack_weights
from ingot.ir.relax.ops.layout import pack_channels

LANES = 4
WINDOWS = {
    "plain": {}, "strided": dict(strides=(2, 1)), "dilated": dict(dilation=(1, 2)),
    "padded": dict(padding=(1, 0, 2, 1), strides=(2, 2)),
}
# groups, input and output channels of each, blocks that the data has
CASES = {"odd": (2, 3, 5, 3), "one channel": (3, 1, 2, 1), "one group": (1, 6, 4, 2), "large": (2, 9, 6, 7)}


def shuffled(groups, inputs, blocks, seed=0):
    """Places [groups, inputs, 2] of channels that lie anywhere in so many blocks."""
    spots = np.random.default_rng(seed).permutation(blocks * LANES)[:groups * inputs].astype(np.int32)
    return np.stack(divmod(spots, LANES), axis=-1).reshape(groups, inputs, 2)


def grouped(result, groups):
    """An array [N, C, H, W] in blocks, a block of its own for the beginning of each group."""
    parts = np.split(result, groups, axis=1)
    return np.concatenate([pack_channels(part, LANES) for part in parts], axis=1)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("groups, inputs, outputs, blocks", CASES.values(), ids=CASES)
def test_channels_that_lie_anywhere(groups, inputs, outputs, blocks, window):
    data, w = arrays((2, blocks, 6, 7, LANES), (groups * outputs, inputs, 3, 2))
    places = shuffled(groups, inputs, blocks)
    plain = np.stack([data[:, b, :, :, lane] for b, lane in places.reshape(-1, 2)], axis=1)
    func, result = check("nn.conv2d_gathered", [data, pack_weights(w, LANES, groups), places], data_layout="NCHW4c",
                         **window)
    assert block_names(func) == ["pad_temp"] * ("padding" in window) + ["conv2d_gathered"]
    expected = grouped(evaluate("nn.conv2d", [plain, w], groups=groups, **window), groups)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_float16_accumulates_in_float32():
    x, w = np.ones((1, 1, 1, 600, 4), "float16"), np.ones((1, 4, 1, 600, 4), "float16")
    func, result = check("nn.conv2d_gathered", [x, w, shuffled(1, 4, 1)], 1e-3, data_layout="NCHW4c")
    assert (result == 2400).all() and block_names(func) == ["conv2d_gathered", "conv2d_gathered_cast"]


X, W, PLACES = (1, 3, 8, 8, 4), (4, 5, 3, 3, 4), (2, 5, 2)


@pytest.mark.parametrize("shapes, layout, dtype, message", [
    ([X, W, PLACES], "NCHW", "int32", "data_layout 'NCHW' must be blocked, such as NCHW16c; nn.conv2d is for plain"),
    ([X, W, PLACES], "NCHW8c", "int32", r"is not blocked by 8: its dim 4 must be 8"),
    ([X, W, PLACES], "NCHW4c", "int64", r"places \(2, 5, 2\) of int64 must be int32 \[groups, 5, 2\]: block and lane"),
    ([X, W, (2, 4, 2)], "NCHW4c", "int32", r"places \(2, 4, 2\) of int32 must be int32 \[groups, 5, 2\]"),
    ([X, W, (2, 5, 1)], "NCHW4c", "int32", r"must be int32 \[groups, 5, 2\]"),
    ([X, W, (3, 5, 2)], "NCHW4c", "int32",
     r"weight \(4, 5, 3, 3, 4\) must hold whole blocks of 4 output channels \(dim 4\) for each of 3 groups \(dim 0\)"),
    ([X, (4, 5, 3, 3, 8), PLACES], "NCHW4c", "int32", "must hold whole blocks of 4 output channels"),
    ([X, W, (Var("g", "int64"), 5, 2)], "NCHW4c", "int32", r"dim 0 of \(g, 5, 2\) must be a number of at least 1"),
    ([X, (4, 5, 9, 3, 4), PLACES], "NCHW4c", "int32", r"the window \(9, 3\) with dilation \(1, 1\) does not fit"),
])
def test_errors(shapes, layout, dtype, message):
    with pytest.raises(InferError, match="nn.conv2d_gathered: .*" + message):
        call_of("nn.conv2d_gathered", shapes, dict(data_layout=layout), ["float32", "float32", dtype])


@pytest.mark.parametrize("at, place, message", [
    ((1, 2), (3, 0),
     r"places\[1, 2\] is block 3, lane 0, but input \(1, 3, 8, 8, 4\) has blocks 0 to 2 of lanes 0 to 3"),
    ((0, 4), (0, -1), r"places\[0, 4\] is block 0, lane -1"),
    ((1, 0), (-2, 1), r"places\[1, 0\] is block -2, lane 1"),
    ((0, 0), (2, 4), r"places\[0, 0\] is block 2, lane 4"),
])
def test_constant_places_must_lie_in_the_data(at, place, message):
    places = shuffled(2, 5, 3)
    x, w = (RelaxVar("x", TensorStructInfo(s, "float32")) for s in (X, W))
    call_op("nn.conv2d_gathered", x, w, Constant(places), data_layout="NCHW4c")
    places[at] = place
    with pytest.raises(InferError, match=message):
        call_op("nn.conv2d_gathered", x, w, Constant(places), data_layout="NCHW4c")


def test_the_reference_of_places_in_order_is_a_dense_convolution():
    x, w = array((1, 2, 5, 5, 4)), array((8, 8, 1, 1), 1)
    places = np.stack(np.divmod(np.arange(8, dtype=np.int32), 4), axis=-1)[None]
    result = evaluate("nn.conv2d_gathered", [x, pack_weights(w, 4), places], data_layout="NCHW4c")
    dense = evaluate("nn.conv2d", [x, pack_weights(w, 4, inner=4)], data_layout="NCHW4c", kernel_layout="OIHW4i4o",
                     out_channels=8)
    np.testing.assert_allclose(result, dense, rtol=1e-5, atol=1e-5)
