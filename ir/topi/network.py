"""topi.nn: functions whose classic arguments are not those of one operator.

`ops` are the operators under relax.op's names, on te tensors."""
from __future__ import annotations

from ..expr import as_expr, is_const_int
from ..op import InferError
from ..relax.classic import plain
from ..relax.composites import along
from ..te import Tensor
from .apply import View, converted, transposed


# ---------------------------------------------------------------- products

def matmul(ops, tensor_a, tensor_b, transp_a=False, transp_b=False):
    return ops("matmul", transposed(tensor_a) if transp_a else tensor_a, transposed(tensor_b) if transp_b else tensor_b)


def dense(ops, data, weight, bias=None, out_dtype=None, auto_scheduler_rewritten_layout="",
          meta_schedule_original_shape=None):
    """data (batch, in) times weight (out, in), transposed, plus bias (out)."""
    if len(weight.shape) != 2:
        raise InferError(f"the weight must have 2 dimensions (out, in), it has {len(weight.shape)}")
    result = ops("matmul", converted(data, out_dtype), transposed(converted(weight, out_dtype)))
    return result if bias is None else ops("add", result, bias)


def batch_matmul(ops, tensor_a, tensor_b, oshape=None, out_dtype=None, transpose_a=False, transpose_b=True,
                 auto_scheduler_rewritten_layout="", meta_schedule_original_shape=None):
    """(batch, M, K) times (batch, N, K), the second transposed by default; a batch of 1 broadcasts."""
    if len(tensor_a.shape) != 3 or len(tensor_b.shape) != 3:
        raise InferError(f"takes tensors of 3 dimensions, got {len(tensor_a.shape)} and {len(tensor_b.shape)}")
    a, b = converted(tensor_a, out_dtype), converted(tensor_b, out_dtype)
    return ops("matmul", transposed(a) if transpose_a else a, transposed(b) if transpose_b else b)


# ---------------------------------------------------------------- convolutions

def _pads(padding, kernel, dilation, strides):
    """Padding as the operators take it; "SAME" surrounds by what the window overhangs, "VALID" by nothing."""
    if padding not in ("SAME", "VALID"):
        return padding
    count = len(kernel)
    dilation = (dilation,) * count if isinstance(dilation, int) else dilation
    whole = [(int(k) - 1) * d if padding == "SAME" else 0 for k, d in zip(kernel, dilation)]
    return tuple((w + 1) // 2 for w in whole) + tuple(w // 2 for w in whole)


def _conv(rank):
    def conv(ops, data, kernel, strides=1, padding=0, dilation=1, groups=1, out_dtype=None, **layouts):
        padding = _pads(padding, kernel.shape[2:], dilation, strides)
        layouts = {k: v for k, v in layouts.items() if v}
        return ops(f"nn.conv{rank}d", converted(data, out_dtype), converted(kernel, out_dtype), strides=strides,
                   padding=padding, dilation=dilation, groups=groups, **layouts)
    return conv


_conv1d, _conv2d, _conv3d = _conv(1), _conv(2), _conv(3)


def conv1d(ops, data, kernel, strides=1, padding="VALID", dilation=1, groups=1, data_layout="NCW", kernel_layout="",
           out_dtype=None):
    return _conv1d(ops, data, kernel, strides, padding, dilation, groups, out_dtype, data_layout=data_layout,
                   kernel_layout=kernel_layout)


def conv1d_ncw(ops, data, kernel, strides=1, padding="VALID", dilation=1, groups=1, out_dtype=None):
    return _conv1d(ops, data, kernel, strides, padding, dilation, groups, out_dtype)


def conv2d(ops, data, kernel, strides=1, padding=0, dilation=1, data_layout="NCHW", kernel_layout="", out_dtype=None,
           layout=None):
    """layout: the older name of data_layout."""
    return _conv2d(ops, data, kernel, strides, padding, dilation, 1, out_dtype, data_layout=layout or data_layout,
                   kernel_layout=kernel_layout)


def conv2d_nchw(ops, Input, Filter, stride=1, padding=0, dilation=1, out_dtype=None):  # noqa: N803
    return _conv2d(ops, Input, Filter, stride, padding, dilation, 1, out_dtype)


def group_conv2d_nchw(ops, Input, Filter, stride, padding, dilation, groups, out_dtype=None):  # noqa: N803
    return _conv2d(ops, Input, Filter, stride, padding, dilation, groups, out_dtype)


def depthwise_conv2d_nchw(ops, Input, Filter, stride=1, padding=0, dilation=1, out_dtype=None):  # noqa: N803
    """Filter: (channels, multiplier, height, width); the output has channels * multiplier channels."""
    channels, multiplier = Filter.shape[:2]
    weight = View((channels * multiplier, 1, *Filter.shape[2:]), Filter.dtype, lambda o, _, *k: Filter[
        (o, 0, *k) if is_const_int(multiplier, 1) else (o // multiplier, o % multiplier, *k)])
    if not is_const_int(as_expr(channels)):
        raise InferError("the filter's channels (dim 0) must be a number")
    return _conv2d(ops, Input, weight, stride, padding, dilation, plain(as_expr(channels)), out_dtype)


def conv3d_ncdhw(ops, Input, Filter, stride=1, padding=0, dilation=1, groups=1, out_dtype=None):  # noqa: N803
    return _conv3d(ops, Input, Filter, stride, padding, dilation, groups, out_dtype)


def conv2d_transpose_nchw(ops, Input, Filter, strides=1, padding=0, out_dtype=None, output_padding=0):  # noqa: N803
    """Filter: (in, out, height, width)."""
    return ops("nn.conv2d_transpose", converted(Input, out_dtype), converted(Filter, out_dtype), strides=strides,
               padding=_pads(padding, Filter.shape[2:], 1, strides), output_padding=output_padding)


# ---------------------------------------------------------------- pools

def _check_pool(pool_type, layout, expected):
    if pool_type not in ("max", "avg"):
        raise InferError(f"pool_type={pool_type!r} is neither 'max' nor 'avg'")
    if layout != expected:
        raise InferError(f"layout={layout!r} is not supported, it must be {expected!r}")


def _pool(rank, layout_name):
    def pool(ops, data, kernel, stride, dilation, padding, pool_type, ceil_mode=False, layout=layout_name,
             count_include_pad=True):
        """padding: the axes' beginnings, then their ends."""
        _check_pool(pool_type, layout, layout_name)
        more = {"count_include_pad": count_include_pad} if pool_type == "avg" else {}
        return ops(f"nn.{pool_type}_pool{rank}d", data, kernel, stride, padding, dilation, ceil_mode=ceil_mode, **more)
    return pool


def global_pool(ops, data, pool_type, layout="NCHW"):
    _check_pool(pool_type, layout, "NCHW")
    return ops("mean" if pool_type == "avg" else "max", data, (2, 3), True)


def adaptive_pool(ops, data, output_size, pool_type, layout="NCHW"):
    _check_pool(pool_type, layout, "NCHW")
    return ops(f"nn.adaptive_{pool_type}_pool2d", data, output_size)


# ---------------------------------------------------------------- normalizations

def batch_norm(ops, data, gamma, beta, moving_mean, moving_var, axis=None, epsilon=None, center=True, scale=True,
               training=False, momentum=None):
    """[the normalized tensor, moving_mean, moving_var], as of inference."""
    if training:
        raise InferError("training=True is not supported: statistics are those given")
    epsilon, axis = 1e-5 if epsilon is None else epsilon, 1 if axis is None else axis
    return [ops("nn.batch_norm", data, gamma if scale else ops("ones_like", gamma), beta if center else
                ops("zeros_like", beta), moving_mean, moving_var, axis, epsilon), moving_mean, moving_var]


def scale_shift_nchw(ops, Input, Scale, Shift):  # noqa: N803
    """Input * Scale + Shift, which have one value per channel."""
    rank = len(Input.shape)
    return ops("add", ops("multiply", Input, along(ops, Scale, 1, rank)), along(ops, Shift, 1, rank))


def bias_add(ops, data, bias, axis=1):
    rank = len(data.shape)
    return ops("add", data, along(ops, bias, axis % rank, rank))


def lrn(ops, data, size, axis=1, alpha=0.0001, beta=0.75, bias=2):
    if axis != 1:
        raise InferError(f"axis={axis} is not supported, it must be 1")
    return ops("nn.lrn", data, size, alpha, beta, float(bias))


# ---------------------------------------------------------------- shapes

def pad(ops, data, pad_before, pad_after=None, pad_value=0.0, name="PadInput", attrs=None):
    """pad_before, pad_after: one number per axis; pad_after defaults to pad_before."""
    return _padded(ops, data, pad_before, pad_after, name, pad_value=plain(pad_value))


def mirror_pad(ops, data, pad_before, pad_after=None, mode="SYMMETRIC", name="MirrorPadInput"):
    if mode != "REFLECT":
        raise InferError(f"mode={mode!r} is not supported, it must be 'REFLECT'")
    return _padded(ops, data, pad_before, pad_after, name, pad_mode="reflect")


def _padded(ops, data, before, after, name, **attrs):
    after = before if after is None else after
    if len(before) != len(data.shape) or len(after) != len(data.shape):
        raise InferError(f"pad_before and pad_after need one number for each of the {len(data.shape)} axes")
    result = ops("nn.pad", data, tuple(zip(plain(before), plain(after))), **attrs)
    return Tensor(result.op.replace(name=name), result.value_index)


def flatten(ops, data):
    """All dimensions but the first as one."""
    return ops("reshape", data, (data.shape[0], -1))


def upsampling(ops, data, scale_h, scale_w, layout="NCHW", method="nearest_neighbor", align_corners=False,
               output_shape=None):
    if layout != "NCHW":
        raise InferError(f"layout={layout!r} is not supported, it must be 'NCHW'")
    size = output_shape or tuple(int(round(int(n) * s)) for n, s in zip(data.shape[2:], (scale_h, scale_w)))
    method = {"bilinear": "linear"}.get(method, method)
    return resize2d(ops, data, None, size, method=method,
                    coordinate_transformation_mode="align_corners" if align_corners else "asymmetric")


_OWN_ROUNDING = {"half_pixel": "round", "align_corners": "round", "asymmetric": "floor"}


def resize2d(ops, data, roi, size, layout="NCHW", method="linear", coordinate_transformation_mode="half_pixel",
             rounding_method="", bicubic_alpha=-0.5, bicubic_exclude=0, extrapolation_value=0.0, out_dtype=None,
             output_shape=None):
    """roi must be None or zeros: nothing is cropped. rounding_method "": what the transformation is used with."""
    if roi is not None and any(plain(roi)):
        raise InferError("roi is not supported: crop with strided_slice first")
    rounding = rounding_method or _OWN_ROUNDING.get(coordinate_transformation_mode, "round")
    return ops("image.resize2d", converted(data, out_dtype), size, layout=layout, method=method,
               rounding_method=rounding, coordinate_transformation_mode=coordinate_transformation_mode,
               cubic_alpha=bicubic_alpha)


COMPOSITES = {
    "matmul": matmul, "image.resize2d": resize2d,
    **{f"nn.{f.__name__}": f for f in (
        dense, batch_matmul, conv1d, conv1d_ncw, conv2d, conv2d_nchw, group_conv2d_nchw, depthwise_conv2d_nchw,
        conv3d_ncdhw, conv2d_transpose_nchw, global_pool, adaptive_pool, batch_norm, scale_shift_nchw, bias_add, lrn,
        pad, mirror_pad, flatten, upsampling)},
    "nn.matmul": matmul,
    **{f"nn.pool{n}d": _pool(n, layout) for n, layout in ((1, "NCW"), (2, "NCHW"), (3, "NCDHW"))},
}
