"""Signals: Fourier transforms, which are products with constant matrices, and the matrix of mel filters."""
from __future__ import annotations

import numpy as np

from ...ir.relax.expr import Constant
from ..shapes import dims_of, product
from .converter import converts
from .load import dtype_of
from .operands import check
from .run_places import Numbers, numbers


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
    bins, length = (node.constant(i, name).reshape(()).item() for i, name in enumerate(names[:2]))
    dtype = dtype_of(node.attr("output_datatype", 1), f"{node.title}: attribute output_datatype")
    constant = all(isinstance(x, Constant) for x in node.inputs[2:])
    rate, low, high = (node.constant(i, name).reshape(()).item() if constant
                       else numbers(node, node.input(i), "float64") for i, name in enumerate(names[2:], 2))
    if bins < 1 or length < 1:
        raise node.error(f"{bins} bins of {length} elements make no filters")
    node.check_size([length // 2 + 1, bins], 8)
    if constant:
        if rate < 1 or not 0 <= low <= high:
            raise node.error(f"{bins} bins of {low} to {high} Hz, at {rate} Hz, make no filters")
        corners = _corners(bins, length, rate, low, high, np.log10, lambda x: np.power(10, x))
        if corners.max() > length // 2:
            raise node.error(f"upper_edge_hertz {high} is beyond half the sample rate, {rate}")
        return node.const(_triangles(corners, length), dtype)
    check(node, ((rate >= 1.0) & (low >= 0.0) & (low <= high)).value)
    corners = _corners(bins, length, rate, low, high, lambda x: x.call("log") * (1 / np.log(10)),
                       lambda x: (x * np.log(10)).call("exp"))
    check(node, (corners <= float(length // 2)).all().value)
    for name, sample in zip(node.proto.input[2:], (2.0 * length, 0.0, float(length))):
        node.scope.note_sample(name, sample)
    return node.astype(_triangles(corners, length).value, dtype)


def _corners(bins, length, rate, low, high, log10, power10):
    """The bins of the spectrum where triangles begin, peak and end: whole floats, of numbers or Numbers."""
    least, most = (log10(f / 700 + 1) * 2595 for f in (low, high))
    steps = np.arange(bins + 2) * (most - least) / (bins + 2) + least
    hertz = (power10(steps / 2595) - 1) * 700
    return (hertz * (length + 1)) // rate


def _triangles(corners, length):
    """[bins of the spectrum, triangles]: from 0 to 1 and to 0 again."""
    place = np.arange(length // 2 + 1, dtype=np.float64)[:, None]
    if isinstance(corners, Numbers):
        node, many = corners.node, dims_of(corners.value)[0] - 2
        parts = (node.const(np.arange(k, k + many), "int64") for k in range(3))
        left, middle, right = (Numbers(node, node.call("take", corners.value, part, axis=0)).reshape(1, many)
                               for part in parts)
        where, place = Numbers.where, Numbers(node, node.const(place, "float64"))
        up, down = (middle - left).call("maximum", 1.0), (right - middle).call("maximum", 1.0)
    else:
        left, middle, right = (corners[None, k:len(corners) - 2 + k] for k in range(3))
        where, up, down = np.where, np.maximum(middle - left, 1), np.maximum(right - middle, 1)
    rising = where((place >= left) & (place < middle), (place - left) / up, 0.0)
    falling = where((place >= middle) & (place < right), (right - place) / down, rising)
    return where((place - middle) * (place - middle) < 0.5, 1.0, falling)
