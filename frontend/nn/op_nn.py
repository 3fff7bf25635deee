"""Operators of modules that are more than one call: convolutions with a bias, norms, attention, sampling."""
from __future__ import annotations

import math

import numpy as np

from ...ir.expr import FloatImm, IntImm
from ...ir.relax import op as relax_op
from ...ir.relax.expr import ShapeExpr, const
from .tensor import Tensor, builder, get_default_dtype, wrap_nested

_call = relax_op.call


def _conv(operator, x, weight, bias, layout, name, **attrs):
    """A convolution, and a bias [C] added along the channels of `layout`."""
    out = _call(f"nn.{operator}", x._expr, weight._expr, **attrs)
    if bias is not None:
        shape = [-1 if axis == "C" else 1 for axis in layout]
        out = _call("add", out, _call("reshape", bias._expr, shape))
    return wrap_nested(out, name)


def conv1d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, name="conv1d"):
    """x [N, C, W], weight [O, C / groups, K], bias [O]."""
    return _conv("conv1d", x, weight, bias, "NCW", name, strides=stride, padding=padding, dilation=dilation,
                 groups=groups)


def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_layout="NCHW", name="conv2d"):
    """x [N, C, H, W] (or as data_layout says), weight [O, C / groups, KH, KW], bias [O]."""
    return _conv("conv2d", x, weight, bias, data_layout, name, strides=stride, padding=padding, dilation=dilation,
                 groups=groups, data_layout=data_layout)


def conv3d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_layout="NCDHW", name="conv3d"):
    """x [N, C, D, H, W] (or as data_layout says), weight [O, C / groups, KD, KH, KW], bias [O]."""
    return _conv("conv3d", x, weight, bias, data_layout, name, strides=stride, padding=padding, dilation=dilation,
                 groups=groups, data_layout=data_layout)


def conv1d_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, dilation=1, groups=1,
                     name="conv1d_transpose"):
    """x [N, C, W], weight [C, O / groups, K], bias [O]."""
    stride, padding, output_padding, dilation = ((n,) if isinstance(n, int) else n
                                                 for n in (stride, padding, output_padding, dilation))
    return _conv("conv1d_transpose", x, weight, bias, "NCW", name, strides=stride,
                 padding=padding * 2 if len(padding) == 1 else padding, output_padding=output_padding,
                 dilation=dilation, groups=groups, out_layout="NCW")


def permute_dims(x, axes=None, name=None):
    """The transpose. Without a name that of a linear layer's weight is matmul's."""
    if name is None:
        known = getattr(x._expr, "name", "")
        name = known.replace("linear", "matmul") if "linear" in known else "permute_dims"
    return wrap_nested(_call("permute_dims", x._expr, axes), name)


def astype(x, dtype, name="astype"):
    """x itself where it has the dtype."""
    return x if x.dtype == dtype else wrap_nested(_call("astype", x._expr, dtype), name)


def gelu(x, approximate=None, name="gelu"):
    """approximate: "tanh", or the exact function."""
    return wrap_nested(_call("nn.gelu_tanh" if approximate == "tanh" else "nn.gelu", x._expr), name)


def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5, name="layer_norm"):
    """Over the last dimensions, which are normalized_shape, a number or several."""
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    gamma = const(np.ones(shape), x.dtype) if weight is None else weight._expr
    beta = const(np.zeros(shape), x.dtype) if bias is None else bias._expr
    axes = list(range(-len(shape), 0))
    return wrap_nested(_call("nn.layer_norm", x._expr, gamma, beta, axes=axes, epsilon=eps), name)


def group_norm(x, num_groups, weight, bias, eps=1e-5, channel_axis=1, axes=None, name="group_norm"):
    """axes: those that are normalized beside the channels; by default from the third on."""
    channels = x.shape[channel_axis]
    gamma = const(np.ones(channels), x.dtype) if weight is None else weight._expr
    beta = const(np.zeros(channels), x.dtype) if bias is None else bias._expr
    return wrap_nested(_call("nn.group_norm", x._expr, gamma, beta, num_groups, channel_axis=channel_axis,
                             axes=list(range(2, x.ndim)) if axes is None else axes, epsilon=eps), name)


def full(shape, fill_value, dtype="float32", name="full"):
    """fill_value: a number, or a Tensor of shape ()."""
    value = fill_value.value if isinstance(fill_value, (FloatImm, IntImm)) else fill_value
    value = value._expr if isinstance(value, Tensor) else const(value, dtype)
    return wrap_nested(_call("full", shape, value, dtype), name)


def empty(shape, dtype="float32", name="empty"):
    """A tensor of undefined elements."""
    return wrap_nested(_call("builtin.alloc_tensor", ShapeExpr(tuple(shape)), dtype, runtime_device_index=0), name)


def where(condition, x1, x2, name="where"):
    """x1 where the condition holds (is not 0), else x2."""
    return wrap_nested(_call("where", astype(condition, "bool")._expr, x1._expr, x2._expr), name)


def scaled_dot_product_attention(query, key, value, attn_mask=None, is_causal=False, scale=None,
                                 name="scaled_dot_product_attention"):
    """query [batch, rows, heads, size], key and value [batch, columns, heads, size]. attn_mask is not supported."""
    if attn_mask is not None:
        raise NotImplementedError("scaled_dot_product_attention: attn_mask is not supported; relax.op.nn.attention "
                                  "takes a bias")
    return wrap_nested(_call("nn.attention", query._expr, key._expr, value._expr,
                             causal_mask="TopLeft" if is_causal else None, scale=scale), name)


def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=None, data_layout="NCHW", name="interpolate"):
    """Resize images to `size` or by scale_factor (a number or one for each axis). mode: "nearest", "bilinear",
    "bicubic"."""
    if recompute_scale_factor is not None or antialias is not None:
        raise NotImplementedError("interpolate: recompute_scale_factor and antialias are not supported")
    if size is None:
        axes = [d for axis, d in zip(data_layout, x.shape) if axis not in "NC"]
        factors = scale_factor if isinstance(scale_factor, (list, tuple)) else [scale_factor] * len(axes)
        size = [int(d * f) for d, f in zip(axes, factors)]
    method = "nearest_neighbor" if mode.startswith("nearest") else mode.removeprefix("bi")
    transformed = "asymmetric" if method == "nearest_neighbor" else "align_corners" if align_corners else "half_pixel"
    return wrap_nested(_call("image.resize2d", x._expr, ShapeExpr(tuple(size)), layout=data_layout, method=method,
                             coordinate_transformation_mode=transformed), name)


def get_timestep_embedding(x, embedding_dim, flip_sin_to_cos=False, downscale_freq_shift=1, scale=1, max_period=10000,
                           name="get_timestep_embedding"):
    """Sinusoidal embeddings [N, embedding_dim] of steps x [N], as diffusion models have them."""
    half, steps = embedding_dim // 2, builder().emit(_call("astype", x._expr, "float32"))
    exponent = _call("multiply", const(-math.log(max_period), "float32"), _call("arange", 0, half, 1, "float32"))
    exponent = _call("divide", exponent, const(half - downscale_freq_shift, "float32"))
    angles = _call("multiply", _call("expand_dims", steps, 1), _call("expand_dims", _call("exp", exponent), 0))
    if scale != 1:
        angles = _call("multiply", const(scale, "float32"), angles)
    angles = builder().emit(angles)
    parts = [_call("sin", angles), _call("cos", angles)]
    found = _call("concat", parts[::-1] if flip_sin_to_cos else parts, axis=-1)
    if embedding_dim % 2:
        found = _call("nn.pad", found, (0, 0, 0, 1))
    return wrap_nested(_call("astype", found, get_default_dtype()), name)


def multinomial_from_uniform(prob, uniform_sample, sample_indices=None, dtype="int64", name="multinomial_from_uniform"):
    """Draws [n, 1] from rows of prob [batch, classes], by numbers of [0, 1), uniform_sample [n, 1].

    sample_indices [n, 1]: the row of each draw; by default row k for draw k.
    """
    rows = uniform_sample.shape[0]
    if sample_indices is None:
        if prob.shape[0] != rows:
            raise ValueError("multinomial_from_uniform: Number of samples must match the number of probability "
                             f"distributions, {rows} and {prob.shape[0]}; or give sample_indices")
        sample_indices = Tensor.from_const(np.arange(rows).reshape(rows, 1))
    elif sample_indices.shape != uniform_sample.shape:
        raise ValueError("multinomial_from_uniform: The shape of sample_indices must match the shape of "
                         f"uniform_sample, {sample_indices.shape} and {uniform_sample.shape}")
    return wrap_nested(_call("multinomial_from_uniform", prob._expr, uniform_sample._expr, sample_indices._expr,
                             dtype), name)


__all__ = ["astype", "conv1d", "conv1d_transpose", "conv2d", "conv3d", "empty", "full", "gelu",
           "get_timestep_embedding", "group_norm", "interpolate", "layer_norm", "multinomial_from_uniform",
           "permute_dims", "scaled_dot_product_attention", "where"]
