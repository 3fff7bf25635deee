"""topi.image, and blocks of images, against numpy."""
import numpy as np
import pytest
from topi_check import A, B, C, check, floats, tensors

from ingot.ir import topi
from ingot.ir.op import InferError

X, V = floats(2, 8, 4, 6), floats(2, 3, 3, 4, 5, seed=1)
F32 = np.float32


def along(x, axis, size):
    """Linear interpolation along an axis, half_pixel."""
    n = x.shape[axis]
    p = np.clip((np.arange(size) + 0.5) * n / size - 0.5, 0, n - 1)
    first = np.floor(p).astype(int)
    part = (p - first).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    return np.take(x, first, axis) * (1 - part) + np.take(x, np.minimum(first + 1, n - 1), axis) * part


def test_sizes_of_rows_and_volumes():
    check("image.resize1d", [X[:, :, 0]], [A, None, (9,)], along(X[:, :, 0].astype(float), 2, 9).astype(F32),
          symbolic=False)
    expected = along(along(along(V.astype(float), 2, 5), 3, 3), 4, 7).astype(F32)
    check("image.resize3d", [V], [A, [0.0] * 6, (5, 3, 7)], expected, symbolic=False)
    check("nn.upsampling3d", [V], [A, 2, 2, 2, "NCDHW", "nearest_neighbor", "asymmetric"],
          V.repeat(2, 2).repeat(2, 3).repeat(2, 4), symbolic=False)


def test_the_nearest_elements_by_default():
    """Without a rounding_method that of align_corners, else the one before; "round" of asymmetric repeats whole elements."""
    for mode, at in (("half_pixel", [0, 0, 0, 1, 1, 2, 2, 3]), ("align_corners", [0, 0, 1, 1, 2, 2, 3, 3]),
                     ("asymmetric", [0, 0, 1, 1, 2, 2, 3, 3])):
        check("image.resize2d", [X], [A, None, (8, 6), "NCHW", "nearest_neighbor", mode], X[:, :, at], symbolic=False)
    for n, at in ((12, np.arange(4).repeat(3)), (6, [0, 1, 1, 2, 3, 3]), (2, [0, 2])):
        check("image.resize2d", [X], [A, None, (n, 6), "NCHW", "nearest_neighbor", "asymmetric", "round"], X[:, :, at],
              symbolic=False)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_crops(layout):
    boxes = np.array([[0, 0, 1, 1], [0.25, 0.5, -0.5, 1], [0.5, 0.2, 0.5, 0.8]], F32)
    which = np.array([1, 0, 1], np.int32)
    expected = np.full((3, 8, 3, 4), 9, F32)
    for b, n in enumerate(which):
        y1, x1, y2, x2 = boxes[b]
        for i, j in np.ndindex(3, 4):
            y, x = (y1 + (y2 - y1) * i / 2) * 3, (x1 + (x2 - x1) * j / 3) * 5
            if not (0 <= y <= 3 and 0 <= x <= 5):
                continue
            (r, s), (u, v) = (int(np.floor(y)), int(np.floor(x))), (y % 1, x % 1)
            r2, s2 = min(r + 1, 3), min(s + 1, 5)
            top = X[n, :, r, s] * (1 - v) + X[n, :, r, s2] * v
            expected[b, :, i, j] = top * (1 - u) + (X[n, :, r2, s] * (1 - v) + X[n, :, r2, s2] * v) * u
    x = X if layout == "NCHW" else np.ascontiguousarray(X.transpose(0, 2, 3, 1))
    check("image.crop_and_resize", [x, boxes, which], [A, B, C, (3, 4), layout, "bilinear", 9.0],
          expected if layout == "NCHW" else np.ascontiguousarray(expected.transpose(0, 2, 3, 1)), 1e-4, symbolic=False)


def test_grids_read_what_they_name():
    """The grid of the identity gives the image back."""
    identity = np.tile(np.array([[1, 0, 0], [0, 1, 0]], F32), (2, 1, 1))
    ys, xs = np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 6), indexing="ij")
    grid = np.tile(np.stack([xs, ys]).astype(F32), (2, 1, 1, 1))
    check("image.affine_grid", [identity], [A, (4, 6)], grid, 1e-5, symbolic=False)
    check("image.grid_sample", [X, grid], [A, B], X, 1e-4, symbolic=False)


def blocks(x, b):
    """(N, C, H, W) -> (N, b, b, C, H / b, W / b)"""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_channels_and_blocks(layout):
    def laid(x):
        return x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))

    deep = np.ascontiguousarray(blocks(X, 2).reshape(2, 32, 2, 3))
    check("nn.space_to_depth", [laid(X)], [A, 2, layout], laid(deep), symbolic=False)
    check("nn.depth_to_space", [laid(deep)], [A, 2, layout], laid(X), symbolic=False)
    columns = np.ascontiguousarray(blocks(X, 2).transpose(0, 3, 1, 2, 4, 5).reshape(2, 32, 2, 3))
    check("nn.depth_to_space", [laid(columns)], [A, 2, layout, "CDR"], laid(X), symbolic=False)


def test_batches_and_blocks():
    x = np.ascontiguousarray(X.transpose(0, 2, 3, 1))  # (N, H, W, C)
    padded = np.pad(x, [(0, 0), (1, 1), (0, 0), (0, 0)], constant_values=3)
    many = padded.reshape(2, 3, 2, 2, 3, 8).transpose(2, 4, 0, 1, 3, 5).reshape(12, 3, 2, 8)
    check("nn.space_to_batch_nd", [x], [A, (2, 3), (1, 0), (1, 0), 3.0], many, symbolic=False)
    check("nn.batch_to_space_nd", [np.ascontiguousarray(many)], [A, (2, 3), (1, 0), (1, 0)], x, symbolic=False)
    with pytest.raises(InferError, match="dimension 4 does not divide into blocks of 3"):
        topi.nn.space_to_batch_nd(tensors([x])[0], (3,), (0,), (0,))


def test_the_rest_of_nn():
    check("nn.fifo_buffer", [X[:, :3], X], [A, B, 1], np.concatenate([X[:, 3:], X[:, :3]], 1), symbolic=False)
    scale, shift = floats(8, seed=3), floats(8, seed=4)
    x = np.ascontiguousarray(X.transpose(0, 2, 3, 1))
    check("nn.scale_shift_nhwc", [x, scale, shift], [A, B, C], x * scale + shift, symbolic=False)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_losses(reduction):
    p, w = floats(4, 3, 2), floats(3, seed=1, low=0.5)
    t = np.array([[0, 2], [1, -1], [2, 2], [-1, 0]], np.int32)
    weights = np.where(t == -1, 0, w[t])
    losses = -np.take_along_axis(p, np.maximum(t, 0)[:, None], 1)[:, 0] * weights
    expected = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / weights.sum()}[reduction]
    check("nn.nll_loss", [p, t, w], [A, B, C, reduction, -1], np.asarray(expected, F32), 1e-4, symbolic=False)
