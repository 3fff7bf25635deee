"""Operators whose places data decides: interpreted lowerings against the numpy references, and those against numpy."""
import numpy as np
import pytest
from ops_basic_check import N, call_of, check, evaluate, floats, interpret, ints

from ingot.ir.op import InferError

X = floats(3, 4, 5)
BATCH = {(0, 0): N}


# ---------------------------------------------------------------- scatter and gather

@pytest.mark.parametrize("axis, reduction", [
    (0, "none"), (1, "none"), (-1, "none"), (0, "add"), (1, "mul"), (-1, "min"), (1, "max")])
def test_scatter_elements(axis, reduction):
    indices = ints(2, 3, 4, low=-3, high=3, dtype="int64")
    attrs = {"axis": axis, "reduction": reduction}
    result, = check("scatter_elements", X, indices, floats(2, 3, 4, seed=1), attrs=attrs)
    expected = X.copy()
    for at in np.ndindex(2, 3, 4):
        place = list(at)
        place[axis] = indices[at]
        new = floats(2, 3, 4, seed=1)[at]
        old = expected[tuple(place)]
        expected[tuple(place)] = {"none": new, "add": old + new, "mul": old * new, "min": min(old, new),
                                  "max": max(old, new)}[reduction]
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("depth, reduction", [(1, "none"), (2, "none"), (3, "none"), (2, "add"), (3, "max")])
def test_scatter_nd(depth, reduction):
    indices = ints(6, depth, low=-3, high=3, dtype="int64")
    check("scatter_nd", X, indices, floats(6, *X.shape[depth:], seed=2), attrs={"reduction": reduction})


def test_scatters_stay_inside():
    """An index that is out of range is held inside, in the kernel as in the reference."""
    indices = np.array([[7, -9, 2]], np.int64)
    result, = check("scatter_elements", np.zeros((4, 3), np.float32), indices, np.ones((1, 3), np.float32))
    assert result.tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]]
    check("scatter_nd", np.zeros(4, np.float32), np.array([[9], [-9]], np.int64), np.float32([1, 2]))
    check("gather_nd", floats(4, 3), np.array([[9, -9], [-1, 7]], np.int64))


@pytest.mark.parametrize("batch, depth", [(0, 1), (0, 3), (1, 1), (1, 2)])
def test_gather_nd(batch, depth):
    indices = ints(3, 2, depth, low=-2, high=3, dtype="int64")
    check("gather_nd", X, indices, attrs={"batch_dims": batch})


def test_updates_of_other_shapes_are_refused():
    with pytest.raises(InferError, match="must have one shape"):
        call_of("scatter_elements", [X, ints(2, 3, 4, dtype="int64"), floats(2, 3)], {})
    with pytest.raises(InferError, match=r"updates \(6, 4\) must be \(6, 5\)"):
        call_of("scatter_nd", [X, ints(6, 2, dtype="int64"), floats(6, 4)], {})
    with pytest.raises(InferError, match="reduction 'sum' is none of"):
        call_of("scatter_nd", [X, ints(6, 2, dtype="int64"), floats(6, 5)], {"reduction": "sum"})


# ---------------------------------------------------------------- sorting, determinants

@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k, axis", [(1, 0), (3, 1), (5, -1), (2, -1)])
def test_topk(largest, k, axis):
    for x in (X, ints(3, 4, 5, low=0, high=3), ints(3, 4, 5, low=0, high=3).astype(np.float16)):
        attrs = {"k": k, "axis": axis, "largest": largest}
        values, places = check("topk", x, attrs=attrs, symbolic=BATCH if axis else ())
        expected = np.sort(x, axis)
        expected = np.flip(expected, axis) if largest else expected
        np.testing.assert_array_equal(values, expected.take(range(k), axis))
        np.testing.assert_array_equal(np.take_along_axis(x, places, axis), values)


def test_topk_of_equals_and_nan():
    x = np.float32([[1, np.nan, 1, 3, 3, np.nan]])
    assert check("topk", x, attrs={"k": 6})[1].tolist() == [[1, 5, 3, 4, 0, 2]]
    assert check("topk", x, attrs={"k": 6, "largest": False})[1].tolist() == [[0, 2, 3, 4, 1, 5]]


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_det(size):
    x = floats(4, size, size)
    x[1] = np.roll(np.eye(size), 1, 0)  # whose pivots are elsewhere
    x[2, :, 0] = 0
    result, = check("det", x, symbolic=BATCH, tolerance=1e-4)
    np.testing.assert_allclose(result, np.linalg.det(x.astype(np.float64)), rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- windows

@pytest.mark.parametrize("attrs", [
    dict(pool_size=(2, 2), strides=(2, 2), padding=(0, 0, 0, 0), dilation=(1, 1)),
    dict(pool_size=(3, 2), strides=(1, 2), padding=(1, 1, 1, 0), dilation=(1, 1)),
    dict(pool_size=(2, 2), strides=(2, 1), padding=(1, 0, 0, 1), dilation=(2, 3), ceil_mode=True)])
def test_pool_positions(attrs):
    for x in (floats(2, 3, 7, 6), ints(2, 3, 7, 6, low=0, high=3)):
        pooled, = check("nn.max_pool2d", x, attrs=attrs)
        places, = check("nn.pool_positions", x, pooled, attrs=attrs)
        flat = x.reshape(2, 3, -1)
        taken = np.take_along_axis(flat, places.reshape(2, 3, -1), 2)
        np.testing.assert_array_equal(taken.reshape(pooled.shape), pooled)


@pytest.mark.parametrize("image, block, strides, padding, dilation", [
    ((5, 6), (2, 3), (1, 1), (0, 0, 0, 0), (1, 1)), ((6, 5), (2, 2), (2, 1), (1, 0, 1, 2), (1, 2)),
    ((9,), (3,), (2,), (1, 2), (2,)),
    ((4, 5, 3), (2, 2, 2), (1, 2, 1), (0, 1, 0, 0, 1, 0), (1, 1, 1))])
def test_col2im_is_the_adjoint_of_windows(image, block, strides, padding, dilation):
    attrs = dict(image_shape=image, block_shape=block, strides=strides, padding=padding, dilation=dilation)
    rank = len(image)
    counts = [(n + padding[k] + padding[rank + k] - (b - 1) * d - 1) // s + 1
              for k, (n, b, s, d) in enumerate(zip(image, block, strides, dilation))]
    x = floats(2, 3 * int(np.prod(block)), int(np.prod(counts)))
    result, = check("nn.col2im", x, attrs=attrs, symbolic=BATCH)
    expected = np.zeros((2, 3, *image), np.float32)
    columns = x.reshape(2, 3, *block, *counts)
    for at in np.ndindex(*block, *counts):
        place = [w * s - p + o * d for o, w, s, p, d in zip(at[:rank], at[rank:], strides, padding, dilation)]
        if all(0 <= p < n for p, n in zip(place, image)):
            expected[(..., *place)] += columns[(..., *at)]
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_resample():
    places, weights = np.int32([[0, 1, 2], [4, 9, -3]]), floats(2, 3, seed=5)
    for axis in (0, 1, 2):
        check("resample", floats(5, 5, 5), places, weights, attrs={"axis": axis})
    check("resample", floats(5, 5).astype(np.float16), places, weights, attrs={"axis": 1}, tolerance=1e-3)


# ---------------------------------------------------------------- images at positions that data holds

@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample(mode, padding):
    corners = (len(mode) + len(padding)) % 2 == 0  # for each mode and each padding both
    attrs = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    check("nn.grid_sample", floats(2, 2, 4, 5), floats(2, 3, 4, 2, low=-2.5, high=2.5), attrs=attrs, tolerance=1e-4)


def test_grids_of_any_numbers_stay_inside():
    odd = np.float32([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e10, 0, 1]).reshape(1, 2, 2, 2)
    for mode, padding in (("nearest", "zeros"), ("linear", "border"), ("cubic", "zeros"), ("nearest", "reflection"),
                          ("cubic", "reflection")):
        call = call_of("nn.grid_sample", [floats(1, 1, 3, 3), odd], {"mode": mode, "padding_mode": padding})
        interpret(call, [floats(1, 1, 3, 3), odd], [np.zeros((1, 1, 2, 2), np.float32)])


@pytest.mark.parametrize("mode, half, ratio", [
    ("avg", True, 0), ("avg", False, 2), ("max", True, 2), ("max", False, 0)])
def test_roi_align(mode, half, ratio):
    rois = np.float32([[0, 0, 5, 4], [1.3, -2, 3.1, 9], [4, 3, 4.5, 3.2], [9, 9, 12, 12]])
    check("nn.roi_align", floats(2, 2, 6, 7), rois, np.int64([0, 1, 1, 0]), tolerance=1e-4,
          attrs=dict(output_size=(2, 3), sampling_ratio=ratio, spatial_scale=0.8, mode=mode, half_pixel=half))


def test_max_roi_pool():
    rois = np.float32([[0, 0, 5, 4], [1.3, 2, 3.1, 9], [4, 3, 4, 3], [-3, -3, -2, -2]])
    check("nn.max_roi_pool", floats(2, 3, 6, 7), rois, np.int64([0, 1, 1, 5]),
          attrs=dict(output_size=(2, 3), spatial_scale=0.9))


@pytest.mark.parametrize("groups, of_offsets", [(1, 1), (2, 1), (1, 2), (2, 4)])
def test_deform_conv(groups, of_offsets):
    attrs = dict(strides=(1, 2), padding=(1, 0, 1, 1), dilation=(1, 2), groups=groups, offset_groups=of_offsets)
    x, w = floats(2, 4, 5, 7), floats(6, 4 // groups, 2, 2, seed=1)
    size = (6, 3)
    offset = floats(2, of_offsets * 8, *size, seed=2, low=-2, high=2)
    mask = floats(2, of_offsets * 4, *size, seed=3, low=0, high=1)
    check("nn.deform_conv2d", x, w, offset, mask, attrs=attrs, tolerance=1e-4)
    plain, = check("nn.deform_conv2d", x, w, 0 * offset, 0 * mask + 1, attrs=attrs, tolerance=1e-4)
    conv = {k: v for k, v in attrs.items() if k != "offset_groups"}
    np.testing.assert_allclose(plain, evaluate("nn.conv2d", [x, w], conv)[0], rtol=1e-4, atol=1e-4)
