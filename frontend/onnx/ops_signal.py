"""Signals: Fourier transforms, which are products with constant matrices, and the matrix of mel filters."""
from __future__ import annotations

import numpy as np

from ...ir.relax.expr import Constant
from ..shapes import dims_of, product
from .converter import converts
from .load import dtype_of


@converts("DFT", 17)
def dft_v17(node):
    return _dft(node, node.attr("axis", 1))


@converts("DFT", 20)
def dft_v20(node):
    axis = node.ints(2, "axis")
    return _dft(node, -2 if axis is None else axis[0])


def _dft(node, axis):
    x, length = node.input(0), node.ints(1, "dft_length")
    dims = dims_of(x)
    axis = node.axis(axis, len(dims))
    if axis == len(dims) - 1 or dims[-1] not in (1, 2):
        raise node.error(f"the last dimension, {dims[-1]}, must be 1 (real) or 2 (complex), and axis {axis} another")
    size, inverse, onesided = dims[axis], bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    if not isinstance(size, int):
        raise node.error(f"axis {axis} of size {size} must be static; pin it with dims")
    if length is None:
        length = [2 * (size - 1) if inverse and onesided else size]
    if length[0] < 1 or onesided and not inverse and dims[-1] != 1:
        raise node.error(f"dft_length {length[0]} must be at least 1, and onesided signals real")
    matrix = _matrix(node, size, dims[-1], length[0], inverse, onesided)
    order = [k for k in range(len(dims)) if k not in (axis, len(dims) - 1)] + [axis, len(dims) - 1]
    moved = node.transpose(x, order)
    rest = [dims[k] for k in order[:-2]]
    result = _times(node, node.reshape(moved, [product(rest), size * dims[-1]]), matrix, rest)
    return node.transpose(result, np.argsort(order).tolist())


def _times(node, rows, matrix, rest):
    """Rows of real and imaginary parts in turns, by a matrix [parts of a row, results, parts], under the shape
    [*rest, results, parts]."""
    parts, results, kinds = matrix.shape
    dtype = rows.struct_info.dtype
    node.check_size(matrix.shape, dtype.bytes)
    flat = node.call("matmul", rows, node.const(matrix.reshape(parts, results * kinds), dtype))
    return node.reshape(flat, [*rest, results, kinds])


def _matrix(node, size, kinds, length, inverse, onesided, window=None):
    """What a transform of `length` makes of each real (and imaginary) part of `size` elements: [parts, results, 1 or
    2]."""
    node.check_size([size * kinds, length, 2], 8)
    basis = np.eye(size) if window is None else np.diag(window)
    basis = np.stack([basis, 1j * basis], 1).reshape(size * kinds, size) if kinds == 2 else basis
    if inverse and onesided:
        return np.fft.irfft(basis, length)[..., None]
    found = (np.fft.ifft if inverse else np.fft.fft)(basis, length)
    found = found[:, :length // 2 + 1] if onesided else found
    return np.stack([found.real, found.imag], -1)


@converts("STFT", 17)
def stft(node):
    """Frames of the signal, each by the window, and their transforms: one product."""
    x, window = node.input(0), node.input(2)
    dims = dims_of(x)
    dims = dims if len(dims) == 3 else [*dims, 1]
    step, length = node.ints(1, "frame_step"), node.ints(3, "frame_length")
    if len(dims) != 3 or not isinstance(dims[1], int) or dims[2] not in (1, 2):
        raise node.error("takes signals [batch, length, 1 or 2] of static length")
    length = length[0] if length else dims_of(window)[0] if window is not None else dims[1]
    if not isinstance(length, int) or not 1 <= length <= dims[1] or step[0] < 1:
        raise node.error(f"frames of {length} elements, every {step[0]}, do not fit a signal of {dims[1]}")
    if window is not None and dims_of(window) != [length]:
        raise node.error(f"the window must have the {length} elements of a frame")
    onesided = bool(node.attr("onesided", 1))
    if onesided and dims[2] != 1:
        raise node.error("attribute onesided 1 takes real signals")
    count = (dims[1] - length) // step[0] + 1
    places = np.arange(count)[:, None] * step[0] + np.arange(length)
    frames = node.call("take", node.reshape(x, dims), node.const(places, "int64"), axis=1)
    constant = window is None or isinstance(window, Constant)
    if not constant:
        frames = node.call("multiply", frames, node.reshape(window, [length, 1]))
    weights = window.data.astype(np.float64) if window is not None and constant else None
    matrix = _matrix(node, length, dims[2], length, False, onesided, weights)
    rows = node.reshape(frames, [product([dims[0], count]), length * dims[2]])
    return _times(node, rows, matrix, [dims[0], count])


@converts("MelWeightMatrix", 17)
def mel_weight_matrix(node):
    """Triangles over the bins of a spectrum, whose corners are as far apart on the mel scale."""
    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    bins, length, rate, low, high = (node.constant(i, name).reshape(()).item() for i, name in enumerate(names))
    dtype = dtype_of(node.attr("output_datatype", 1), f"{node.title}: attribute output_datatype")
    if bins < 1 or length < 1 or rate < 1 or not 0 <= low <= high:
        raise node.error(f"{bins} bins of {low} to {high} Hz, at {rate} Hz and {length} elements, make no filters")
    node.check_size([length // 2 + 1, bins], 8)
    mels = [2595 * np.log10(1 + f / 700) for f in (low, high)]
    steps = np.arange(bins + 2) * (mels[1] - mels[0]) / (bins + 2) + mels[0]
    corners = ((length + 1) * (700 * (np.power(10, steps / 2595) - 1)) // rate).astype(int)
    if corners.max() > length // 2:
        raise node.error(f"upper_edge_hertz {high} is beyond half the sample rate, {rate}")
    result = np.zeros((length // 2 + 1, bins))
    for k, (left, middle, right) in enumerate(zip(corners, corners[1:], corners[2:])):
        if left == middle:
            result[middle, k] = 1
        else:
            result[left:middle + 1, k] = np.arange(middle - left + 1) / (middle - left)
        if middle < right:
            result[middle:right, k] = np.arange(right - middle, 0, -1) / (right - middle)
    return node.const(result, dtype)
