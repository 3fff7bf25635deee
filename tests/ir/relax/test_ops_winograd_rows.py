"""nn.conv2d_winograd_rows: transformed weights, and results against the plain convolution."""
import numpy as np
import pytest
from ops_nn_check import array, call_of, check, evaluate
from test_ops_winograd import CONTRACT, adversarial

from ingot.ir.expr import Var
from ingot.ir.op import InferError
from ingot.ir.relax.ops.conv_layouts import pack_weights
from ingot.ir.relax.ops.winograd import tiles_of
from ingot.ir.relax.ops.winograd_rows import input_size, transform_rows

LANES = 4


@pytest.mark.parametrize("tile, size, weights, strides", [
    (4, (25, 5), (6, 1, 10, 4), (2, 2)), (4, (7, 6), (5, 3, 3, 3), (1, 1)), (2, (5, 4), (9, 2, 5, 3), (1, 2)),
    (2, (4, 3), (4, 2, 7, 2), (3, 1)), (6, (1, 1), (3, 1, 3, 1), (1, 1))])
@pytest.mark.parametrize("more", [(0, 0), (3, 2)])
def test_results_are_those_of_the_convolution(tile, size, weights, strides, more):
    """Also of images with rows and columns that no result needs."""
    needed = input_size(tile, weights[2:], strides, size)
    x, w = array((2, weights[1], *(n + m for n, m in zip(needed, more)))), array(weights, 1)
    u = transform_rows(pack_weights(w, LANES), tile, strides[0])
    assert u.dtype == np.float32
    attrs = dict(tile=tile, kernel=weights[2:], strides=strides, size=size, out_channels=weights[0])
    _, result = check("nn.conv2d_winograd_rows", [x, u], 2e-3, **attrs)
    expected = evaluate("nn.conv2d", [x, w], strides=strides)[:, :, :size[0], :size[1]]
    found = result.transpose(0, 1, 4, 2, 3).reshape(2, -1, *size)
    np.testing.assert_allclose(found[:, :weights[0]], expected, rtol=1e-4, atol=2e-4)
    assert not found[:, weights[0]:].any()


@pytest.mark.parametrize("kind", ["normal", "mean", "signs", "outliers"])
@pytest.mark.parametrize("tile, taps", [(tile, taps) for taps in range(2, 8) for tile in tiles_of(taps)])
def test_accuracy_contract(tile, taps, kind):
    """On data as it comes, and on data made to be hard."""
    x, w = adversarial(kind, 3, 40, np.random.default_rng(tile), taps)
    size = ((41 - taps) // tile * tile, 41 - taps)
    u = transform_rows(pack_weights(w, 16), tile, 1)
    mine = evaluate("nn.conv2d_winograd_rows", [x, u], tile=tile, kernel=w.shape[2:], strides=(1, 1), size=size,
                    out_channels=16)
    exact = evaluate("nn.conv2d", [x.astype(np.float64), w.astype(np.float64)])[:, :, :size[0]]
    found = mine.transpose(0, 1, 4, 2, 3).reshape(exact.shape)
    assert np.abs(found - exact).max() <= CONTRACT * np.abs(exact).max()


X, U = (1, 1, 64, 12), (2, 8, 1, 2, 4, 4)


@pytest.mark.parametrize("shapes, attrs, message", [
    ((X, U), {"tile": 5}, "tile=5 must be one of 2, 3, 4 for 10 rows of the kernel and a stride of 2"),
    ((X, U), {"kernel": (30, 4)}, "tile=4 must be one of none for 30 rows"),
    ((X, U), {"kernel": (10,)}, r"kernel \(10,\) must be 2 integers of at least 1, for rows and columns"),
    ((X, U), {"strides": (2, 0)}, r"strides \(2, 0\) must be 2 integers"),
    ((X, U), {"size": (25, 0)}, r"size \(25, 0\) must be 2 integers"),
    ((X, U), {"out_channels": 0}, "out_channels=0 must be at least 1"),
    ((X, U), {"out_channels": 12}, r"weight .*must be .*\(3, 8, 1, 2, 4, 4\) for tile=4, out_channels=12"),
    (((1, 2, 64, 12), U), {}, r"must be .*\(2, 8, 2, 2, 4, 4\)"),
    (((1, 1, 59, 12), U), {}, "must have at least 64 rows and 12 columns.*: pad it, or keep nn.conv2d"),
    (((1, 1, 64, Var("w", "int64")), U), {}, "must have at least 64 rows and 12 columns"),
    ((X, (2, 8, 1, 2, 4, Var("o", "int64"))), {}, "must have a static block of output channels"),
])
def test_what_does_not_fit_is_refused(shapes, attrs, message):
    given = dict(tile=4, kernel=(10, 4), strides=(2, 2), size=(25, 5), out_channels=6)
    with pytest.raises(InferError, match=message):
        call_of("nn.conv2d_winograd_rows", shapes, {**given, **attrs})
