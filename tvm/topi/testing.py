"""tvm.topi.testing: what operators compute, in numpy, for tests of one's own. Those are the references of the operator
table, which every kernel here is held to. Convolutions take padding as an int, a pair, or (top, left, bottom, right)."""
from __future__ import annotations

import numpy as np

from ...ir.relax import op as _op
from ...ir.relax.evaluate import evaluate
from ...ir.relax.expr import BindingBlock, Function, RelaxVar, SeqExpr, TensorStructInfo, VarBinding


def _computed(operator, *arrays, **attrs):
    """What an operator of the table, relax.op's, gives for arrays."""
    arrays = [np.asarray(a) for a in arrays]
    params = [RelaxVar(f"x{n}", TensorStructInfo(a.shape, str(a.dtype))) for n, a in enumerate(arrays)]
    call = operator(*params, **attrs)
    result = RelaxVar("result", call.struct_info)
    body = SeqExpr((BindingBlock((VarBinding(result, call),)),), result)
    return evaluate(Function(tuple(params), body, call.struct_info, {}), arrays)


# ---------------------------------------------------------------- products

def batch_matmul(x, y, out_dtype=None, trans_x=False, trans_y=True):
    """(batch, M, K) by (batch, N, K); trans_x, trans_y: which of the two is transposed."""
    x, y = (np.swapaxes(a, -1, -2) if turned else a for a, turned in ((x, trans_x), (y, trans_y)))
    return _computed(_op.matmul, *(a.astype(out_dtype or a.dtype) for a in (x, y)))


def dense(x, y, bias, use_bias=False, use_relu=False, out_dtype=None):
    """(M, K) by (N, K), transposed, plus a bias of N, then Relu, where these are asked for."""
    result = batch_matmul(x, y, out_dtype)
    result = result + bias.astype(result.dtype) if use_bias else result
    return np.maximum(result, 0) if use_relu else result


def conv2d_nchw_python(a_np, w_np, stride, padding, groups=1):
    """(N, C, H, W) by (O, C / groups, KH, KW)."""
    return _computed(_op.nn.conv2d, a_np, w_np, strides=stride, padding=padding, groups=groups)


def conv2d_nhwc_python(a_np, w_np, stride, padding, groups=1):
    """(N, H, W, C) by (KH, KW, C / groups, O)."""
    a, w = np.transpose(a_np, (0, 3, 1, 2)), np.transpose(w_np, (3, 2, 0, 1))
    return np.transpose(conv2d_nchw_python(a, w, stride, padding, groups), (0, 2, 3, 1))


# ---------------------------------------------------------------- rows

def softmax_python(a_np, axis=1):
    return _computed(_op.nn.softmax, a_np, axis=axis)


def log_softmax_python(a_np, axis=1):
    return _computed(_op.nn.log_softmax, a_np, axis=axis)


def _axes(axis):
    return [int(a) for a in axis] if isinstance(axis, (list, tuple)) else [int(axis)]


def layer_norm_python(data, gamma, beta, axis, epsilon=1e-5):
    """gamma and beta have the shape of the axes; None: beta is 0."""
    beta = np.zeros_like(gamma) if beta is None else beta
    return _computed(_op.nn.layer_norm, data, gamma, beta, axes=_axes(axis), epsilon=epsilon)


def rms_norm_python(data, weight, axis, epsilon=1e-5):
    """weight has the shape of the axes."""
    return _computed(_op.nn.rms_norm, data, weight, axes=_axes(axis), epsilon=epsilon)


def group_norm_python(data, gamma, beta, num_groups, channel_axis, axes, epsilon=1e-5):
    """gamma and beta have an element a channel."""
    return _computed(_op.nn.group_norm, data, gamma, beta, num_groups=num_groups, channel_axis=channel_axis,
                     axes=_axes(axes), epsilon=epsilon)


# ---------------------------------------------------------------- elements

def _slices(data, begin, end, strides, slice_mode, axes):
    axes = range(len(begin)) if axes is None else axes
    strides = [1] * len(begin) if slice_mode == "size" or strides is None else list(strides)
    strides += [1] * (len(begin) - len(strides))
    slices = [slice(None)] * data.ndim
    for axis, first, last, step in zip(axes, begin, end, strides):
        if slice_mode == "size":
            last = None if last < 0 else first + last
        slices[axis] = slice(first, last, step)
    return tuple(slices)


def strided_slice_python(data, begin, end, strides, slice_mode="end", axes=None):
    """As data[begin:end:strides]; slice_mode "size": `end` is how many elements, -1 all that are left. Lists are as long
    as axes, or one for each of the first dimensions."""
    return data[_slices(data, begin, end, strides, slice_mode, axes)]


def strided_set_python(data, v, begin, end, strides):
    """A copy of data in which the slice holds v."""
    result = data.copy()
    result[_slices(data, begin, end, strides, "end", None)] = v
    return result


def gather_python(data, axis, indices):
    """data's elements at `indices` along an axis, where the indices lie."""
    return np.take_along_axis(np.asarray(data), np.asarray(indices), axis)


def gather_nd_python(a_np, indices_np):
    """indices: (M, ...), whose first dimension has the places along the first M dimensions of a."""
    return np.asarray(a_np)[tuple(np.asarray(indices_np))]


def one_hot(indices, on_value, off_value, depth, axis, dtype):
    """A new axis of `depth`, whose element is on_value at the index."""
    axis = indices.ndim if axis == -1 else axis
    places = np.arange(depth).reshape([-1 if n == axis else 1 for n in range(indices.ndim + 1)])
    return np.where(np.expand_dims(indices, axis) == places, on_value, off_value).astype(dtype)
