"""nn.conv2d_gathered_pairs: groups as columns, results against nn.conv2d_gathered, and its messages."""
import numpy as np
import pytest
from ops_nn_check import array, call_of, check, evaluate

from ingot.ir.expr import Var
from ingot.ir.op import InferError
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.ops.conv_layouts import pack_weights
from ingot.ir.relax.ops.gathered_pairs import pack_groups
from ingot.ir.relax.ops.matmul_pairs import unpack_columns


def layer(groups, inputs, outputs, blocks):
    """(packed weights, places) of groups whose channels lie anywhere in so many blocks of 16."""
    w, rng = array((groups * outputs, inputs, 1, 1), 1), np.random.default_rng(0)
    spots = np.stack([rng.permutation(blocks * 16)[:inputs] for _ in range(groups)])
    return pack_weights(w, 16, groups), np.stack(divmod(spots, 16), axis=-1).astype(np.int32)


@pytest.mark.parametrize("groups, inputs, outputs", [(2, 20, 18), (3, 33, 16), (1, 4, 40)])
def test_groups_are_columns(groups, inputs, outputs):
    """Each of whole panels, and its terms of whole thirds."""
    w, places = layer(groups, inputs, outputs, 4)
    columns, scales, offsets, channels = pack_groups(w, places)
    panels, thirds = -(-outputs // 16), -(-inputs // 3)
    assert columns.shape == (groups, panels, thirds, 3, 16) and channels.shape == (groups, 3 * thirds)
    assert scales.shape == offsets.shape == (groups * panels * 16,) and channels.dtype == np.int32
    assert (channels[:, :inputs] == places[..., 0] * 16 + places[..., 1]).all()
    assert (channels[:, inputs:] == channels[:, [inputs - 1]]).all()
    for group in range(groups):
        found = unpack_columns(columns[group], scales.reshape(groups, -1)[group], inputs)
        expected = w[group * panels:(group + 1) * panels, :, 0, 0].transpose(1, 0, 2).reshape(inputs, -1)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("groups, inputs, outputs, blocks, size, strides", [
    (3, 20, 18, 5, (3, 5), (1, 1)), (2, 50, 30, 8, (5, 4), (2, 2)), (1, 7, 5, 1, (1, 3), (1, 2))])
def test_results_are_those_of_multiply_adds(groups, inputs, outputs, blocks, size, strides):
    x, (w, places) = array((2, blocks, *size, 16)), layer(groups, inputs, outputs, blocks)
    _, result = check("nn.conv2d_gathered_pairs", [x, *pack_groups(w, places)], 1e-5, strides=strides)
    exact = evaluate("nn.conv2d_gathered", [x.astype(np.float64), w.astype(np.float64), places], strides=strides,
                     data_layout="NCHW16c")
    assert np.abs(result - exact).max() <= 1e-6 * np.abs(exact).max()


def test_groups_of_very_different_size_keep_their_digits():
    """Each point's channels are divided by the largest of their own group."""
    w, places = layer(2, 48, 16, 6)
    x = array((1, 6, 2, 3, 16))
    for k in places[1]:
        x[:, k[0], ..., k[1]] *= 1e-6
    places[0] = [k for k in np.argwhere(np.ones((6, 16))) if k.tolist() not in places[1].tolist()][:48]
    _, result = check("nn.conv2d_gathered_pairs", [x, *pack_groups(w, places)], 1e-5)
    exact = evaluate("nn.conv2d_gathered", [x.astype(np.float64), w.astype(np.float64), places], data_layout="NCHW16c")
    for group in range(2):
        assert np.abs(result - exact)[:, group].max() <= 1e-6 * np.abs(exact)[:, group].max()


def test_what_is_not_finite_is_in_its_group_alone():
    w, places = layer(2, 20, 16, 4)
    places[0], places[1] = ([[k // 16, k % 16] for k in range(first, first + 20)] for first in (0, 32))
    x = array((1, 4, 2, 2, 16))
    x[0, 0, 1, 1, 3] = np.inf
    _, result = check("nn.conv2d_gathered_pairs", [x, *pack_groups(w, places)], 1e-5)
    assert np.isnan(result[0, 0, 1, 1]).all() and np.isnan(result).sum() == 16


X, C, S, P = (1, 3, 6, 5, 16), (2, 1, 11, 3, 16), (32,), (2, 33)


@pytest.mark.parametrize("shapes, attrs, message", [
    (((1, 3, 6, 5, 8), C, S, S, P), {}, r"image \(1, 3, 6, 5, 8\) must be static but for its batch, in blocks of 16"),
    (((1, 3, Var("h", "int64"), 5, 16), C, S, S, P), {}, "must be static but for its batch"),
    ((X, (2, 1, 11, 2, 16), S, S, P), {}, r"columns .* must be \(2, 1, 11, 3, 16\)"),
    ((X, C, (16,), S, P), {}, r"scales \(16,\) must be \(32,\) for columns \(2, 1, 11, 3, 16\): groups, a group's"),
    ((X, C, S, (48,), P), {}, r"offsets \(48,\) must be \(32,\)"),
    ((X, C, S, S, (2, 32)), {}, r"places \(2, 32\) must be \(2, 33\)"),
    ((X, (2, Var("p", "int64"), 11, 3, 16), S, S, P), {}, r"columns \(2, p, 11, 3, 16\) must be static"),
    ((X, C, S, S, P), {"strides": (2, 0)}, r"strides \(2, 0\) must be 2 integers of at least 1"),
])
def test_what_does_not_fit_is_refused(shapes, attrs, message):
    with pytest.raises(InferError, match="nn.conv2d_gathered_pairs: .*" + message):
        call_of("nn.conv2d_gathered_pairs", shapes, attrs, ["float32"] * 4 + ["int32"])


@pytest.mark.parametrize("operand, what, dtype", [
    (0, "image", "float32"), (1, "columns", "float32"), (2, "scales", "float32"), (3, "offsets", "float32"),
    (4, "places", "int32")])
def test_other_dtypes_are_refused(operand, what, dtype):
    dtypes = ["float64" if k == operand else d for k, d in enumerate(["float32"] * 4 + ["int32"])]
    with pytest.raises(InferError, match=f"{what} .* must be {dtype}, not float64"):
        call_of("nn.conv2d_gathered_pairs", (X, C, S, S, P), {}, dtypes)


@pytest.mark.parametrize("channel", [-1, 48])
def test_places_lie_in_the_data(channel):
    places = np.zeros(P, np.int32)
    operands = [RelaxVar(f"a{k}", TensorStructInfo(shape, "float32")) for k, shape in enumerate((X, C, S, S))]
    call_op("nn.conv2d_gathered_pairs", *operands, Constant(places, "places"))
    places[1, 7] = channel
    with pytest.raises(InferError, match=rf"places\[1, 7\] is {channel}, but input .* has channels 0 to 47"):
        call_op("nn.conv2d_gathered_pairs", *operands, Constant(places, "places"))
