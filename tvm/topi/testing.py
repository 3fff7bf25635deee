"""topi.testing: what operators give, in numpy, for tests of scripts. Arguments and results are arrays."""
from __future__ import annotations

import numpy as np


# ---------------------------------------------------------------- slices

def _slices(rank, begin, end, strides, sizes=False):
    """The slices of the first axes; sizes: `end` says how many elements, below 0 all that are left."""
    found = []
    for k in range(rank):
        first, last = (v[k] if k < len(v) else None for v in (begin, end))
        if sizes and last is not None:
            last = None if last < 0 else first + last
        step = strides[k] if strides is not None and k < len(strides) and not sizes else None
        found.append(slice(first, last, step))
    return tuple(found)


def strided_slice_python(data, begin, end, strides, slice_mode="end", axes=None):
    """data[begin:end:strides], along `axes`, the first ones where they are None. slice_mode "size": `end` says how many
    elements."""
    if axes is not None:
        whole = [slice(None)] * data.ndim
        for axis, s in zip(axes, _slices(len(axes), begin, end, strides, slice_mode == "size")):
            whole[axis] = s
        return data[tuple(whole)]
    return data[_slices(data.ndim, begin, end, strides, slice_mode == "size")]


def strided_set_python(data, v, begin, end, strides):
    """A copy of data in which the slice holds v."""
    result = data.copy()
    result[_slices(data.ndim, begin, end, strides)] = v
    return result


# ---------------------------------------------------------------- places

def gather_python(data, axis, indices):
    """Of shape indices: along `axis` the element that the index says."""
    places = list(np.indices(indices.shape, sparse=True))
    places[axis] = indices
    return data[tuple(places)]


def gather_nd_python(a_np, indices_np):
    """indices [n, ...]: the elements (or slices) at n leading indices, as floats of 64 bits."""
    return a_np[tuple(indices_np.astype("int32"))].astype("float64")


def one_hot(indices, on_value, off_value, depth, axis, dtype):
    """on_value at the indices along a new axis of `depth`, off_value elsewhere."""
    at = np.expand_dims(indices, axis)
    shape = [1] * at.ndim
    shape[axis] = depth
    return np.where(at == np.arange(depth).reshape(shape), on_value, off_value).astype(dtype)


# ---------------------------------------------------------------- sums

def log_softmax_python(a_np, axis=1):
    """The logarithm of softmax_python, without overflow."""
    below = a_np - a_np.max(axis=axis, keepdims=True)
    return below - np.log(np.exp(below).sum(axis=axis, keepdims=True))


def softmax_python(a_np, axis=1):
    e = np.exp(a_np - a_np.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def layer_norm_python(data, gamma, beta, axis, epsilon=1e-5):
    """Computed in float32, in the dtype of data. beta may be None."""
    wide = data.astype("float32")
    middle = wide - wide.mean(axis, keepdims=True)
    normal = (middle / np.sqrt(wide.var(axis, keepdims=True) + epsilon)).astype(data.dtype)
    return normal * gamma if beta is None else normal * gamma + beta


def rms_norm_python(data, weight, axis, epsilon=1e-5):
    """Computed in float32, in the dtype of data."""
    wide = data.astype("float32")
    root = np.sqrt((wide * wide).mean(axis, keepdims=True) + epsilon)
    return (wide * weight.astype("float32") / root).astype(data.dtype)


def dense(x, y, bias, use_bias=False, use_relu=False, out_dtype=None):
    """x [M, K] times y [N, K] transposed."""
    dtype = out_dtype or x.dtype
    out = x.astype(dtype) @ y.astype(dtype).T
    out = out + bias if use_bias else out
    return np.maximum(out, 0) if use_relu else out


def batch_matmul(x, y, out_dtype=None, trans_x=False, trans_y=True):
    """x [batch, M, K] times y [batch, N, K], each transposed where it says so; a batch of one serves all."""
    dtype = out_dtype or x.dtype
    x, y = (v.astype(dtype).swapaxes(1, 2) if turned else v.astype(dtype) for v, turned in ((x, trans_x), (y, trans_y)))
    return x @ y


__all__ = ["batch_matmul", "dense", "gather_nd_python", "gather_python", "layer_norm_python", "log_softmax_python",
           "one_hot", "rms_norm_python", "softmax_python", "strided_set_python", "strided_slice_python"]
