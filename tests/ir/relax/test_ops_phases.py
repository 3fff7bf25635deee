"""nn.conv2d_phases: against the plain transposed convolution, what its packed weights are, and its messages."""
import numpy as np
import pytest
from ops_nn_check import array, arrays, block_names, call_of, check, evaluate

from ingot.ir.expr import Var
from ingot.ir.op import InferError
from ingot.ir.relax.ops.layout import pack_channels
from ingot.ir.relax.ops.phases import border, pack_phases, unpack_phases

LANES = 4
# input channels and size, output channels, kernel, attributes
CASES = {
    "4x4 /2": (8, (3, 4), 4, (4, 4), dict(strides=(2, 2), padding=(1, 1, 1, 1))),
    "2x2 /2": (4, (3, 3), 8, (2, 2), dict(strides=(2, 2))),
    "3x3 /2": (6, (4, 3), 5, (3, 3), dict(strides=(2, 2), padding=(1, 1, 1, 1), output_padding=(1, 1))),
    "3x3 /2 of odd size": (6, (4, 3), 5, (3, 3), dict(strides=(2, 2), padding=(1, 0, 1, 2))),
    "uneven": (5, (3, 4), 3, (5, 2), dict(strides=(2, 3), padding=(2, 0, 1, 1), output_padding=(0, 2))),
    "a kernel below the stride": (4, (3, 2), 4, (1, 2), dict(strides=(2, 3))),
    "padding beyond the kernel": (4, (4, 5), 4, (2, 3), dict(strides=(2, 2), padding=(3, 2, 1, 3))),
    "stride 1": (4, (3, 4), 4, (3, 2), dict(padding=(1, 0, 1, 1))),
}


def operands(channels, size, outputs, kernel, strides=(1, 1), inner=LANES):
    """(plain data, plain weights, blocked data, packed weights)."""
    x, w = arrays((2, channels, *size), (channels, outputs, *kernel))
    return x, w, pack_channels(x, LANES), pack_phases(w, strides, LANES, inner)


@pytest.mark.parametrize("inner", (2, LANES))
@pytest.mark.parametrize("channels, size, outputs, kernel, attrs", CASES.values(), ids=CASES)
def test_phases(channels, size, outputs, kernel, attrs, inner):
    x, w, data, packed = operands(channels, size, outputs, kernel, attrs.get("strides", (1, 1)), inner)
    func, result = check("nn.conv2d_phases", [data, packed], data_layout="NCHW4c", out_channels=outputs, **attrs)
    zeros = border({"strides": (1, 1), "padding": (0, 0, 0, 0), "output_padding": (0, 0), **attrs}, kernel)
    assert block_names(func) == ["pad_temp"] * any(map(any, zeros)) + ["conv2d_phases", "conv2d_transpose"]
    expected = pack_channels(evaluate("nn.conv2d_transpose", [x, w], **attrs), LANES)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels, size, outputs, kernel, attrs", CASES.values(), ids=CASES)
def test_a_border_of_its_own_changes_nothing(channels, size, outputs, kernel, attrs):
    """Zeros around the input move the output by the strides, which more padding takes away; no more are needed then."""
    _, _, data, packed = operands(channels, size, outputs, kernel, attrs.get("strides", (1, 1)))
    full = {"strides": (1, 1), "padding": (0, 0, 0, 0), "output_padding": (0, 0), **attrs}
    (top, left), (bottom, right) = border(full, kernel)
    padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right), (0, 0)))
    more = tuple(p + s * b for p, s, b in zip(full["padding"], full["strides"] * 2, (top, left, bottom, right)))
    assert border({**full, "padding": more}, kernel) == ((0, 0), (0, 0))
    layout = dict(data_layout="NCHW4c", out_channels=outputs)
    np.testing.assert_array_equal(evaluate("nn.conv2d_phases", [padded, packed], **layout, **{**full, "padding": more}),
                                  evaluate("nn.conv2d_phases", [data, packed], **layout, **attrs))


def test_weights_are_sorted_by_remainder():
    w = np.arange(2 * 5, dtype="float32").reshape(2, 1, 5, 1)
    packed = pack_phases(w, (2, 1), 1, 1)
    np.testing.assert_array_equal(packed.reshape(5, 2).T, [[0, 2, 4, 1, 3], [5, 7, 9, 6, 8]])
    w = array((6, 5, 5, 3))
    restored = unpack_phases(pack_phases(w, (3, 2), 4, 2), (3, 2), 5)
    np.testing.assert_array_equal(restored, w)


def test_float16_accumulates_in_float32():
    x, w = np.ones((1, 150, 1, 1, 4), "float16"), np.ones((1, 2, 2, 150, 4, 4), "float16")
    func, result = check("nn.conv2d_phases", [x, w], 1e-3, data_layout="NCHW4c", out_channels=4, strides=(2, 2))
    assert (result == 600).all() and block_names(func)[-1] == "conv2d_transpose_cast"


X, W = (1, 2, 8, 8, 4), (2, 3, 3, 2, 4, 4)
GOOD = dict(data_layout="NCHW4c", out_channels=5)


@pytest.mark.parametrize("x, w, attrs, message", [
    (X, W, dict(data_layout="NCHW"), "data_layout 'NCHW' must be blocked, such as NCHW16c; nn.conv2d_transpose is for"),
    (X, W, dict(data_layout="NCHW8c"), r"is not blocked by 8: its dim 4 must be 8"),
    (X, W, dict(out_channels=9), r"weight \(2, 3, 3, 2, 4, 4\) does not hold out_channels=9 in blocks of 4: dim 0 must "
                                 r"be 3 and dim 5 must be 4"),
    (X, W, dict(out_channels=0), "does not hold out_channels=0"),
    (X, (2, 3, 3, 2, 4, 8), {}, "dim 5 must be 4"),
    (X, (2, 3, 3, 3, 4, 4), {}, r"weight \(2, 3, 3, 3, 4, 4\) must have blocks of input channels that divide 4 "
                                r"\(dim 4\), as many as the 2 blocks of input \(1, 2, 8, 8, 4\) hold \(dim 3\)"),
    (X, (2, 3, 3, 2, 3, 4), {}, "input channels that divide 4"),
    (X, (2, Var("k", "int64"), 3, 2, 4, 4), {}, r"must have static kernel dimensions \(dims 1 and up\)"),
    (X, W, dict(output_padding=(3, 0)), r"output_padding \(3, 0\) must be 2 integers of at least 0 and below strides"),
    (X, W, dict(padding=(5, 0, 5, 0)), r"padding \(5, 0, 5, 0\) leaves nothing of the output of an input of spatial "
                                       r"shape \(8, 8\) with kernel \(3, 3\): it would be \(0, 10\)"),
])
def test_errors(x, w, attrs, message):
    with pytest.raises(InferError, match="nn.conv2d_phases: .*" + message):
        call_of("nn.conv2d_phases", [x, w], {**GOOD, **attrs})
