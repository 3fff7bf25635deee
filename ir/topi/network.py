"""topi.nn: functions whose classic arguments are not those of one operator.

`ops` are the operators under relax.op's names, on te tensors."""
from __future__ import annotations

from .. import te
from ..expr import as_expr, cast, is_const_int
from ..op import InferError
from ..relax.classic import plain
from ..relax.composites import along
from ..relax.composites_nn import NN
from ..relax.ops.common import simplify
from ..te import Tensor
from .apply import View, converted, transposed
from .shared import TensorOps


# ---------------------------------------------------------------- products

def matmul(ops, tensor_a, tensor_b, transp_a=False, transp_b=False):
    return ops("matmul", transposed(tensor_a) if transp_a else tensor_a, transposed(tensor_b) if transp_b else tensor_b)


def graph_matmul(ops, a, b, out_dtype=None, name="matmul"):
    """The product as graphs have it: batches broadcast, and a vector is a row before, a column behind."""
    checked = ops("matmul", converted(a, out_dtype), converted(b, out_dtype))
    k, shape = te.reduce_axis((0, a.shape[-1]), "k"), checked.shape
    batch = len(shape) - (a.ndim > 1) - (b.ndim > 1)

    def leading(x, i):
        own = x.shape[:-2]
        return [0 if is_const_int(d, 1) and not is_const_int(shape[batch - len(own) + n], 1) else i[
            batch - len(own) + n] for n, d in enumerate(own)]

    def term(*i):
        row, column = ([i[batch]] if a.ndim > 1 else []), ([i[-1]] if b.ndim > 1 else [])
        pair = a[(*leading(a, i), *row, k.var)], b[(*leading(b, i), k.var, *column)]
        x, y = (cast(v, out_dtype) for v in pair) if out_dtype else pair
        return te.sum(x * y, axis=k)
    return te.compute(shape, term, name=name)


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

def spread(value, count, what):
    """A number for each of `count` axes."""
    values = (value,) * count if isinstance(plain(value), int) else tuple(plain(value))
    if len(values) != count:
        raise InferError(f"{what} has {len(values)} numbers for {count} axes")
    return values


def pads_of(padding, kernel):
    """(before, after) of each axis. padding: "SAME", "VALID", one number, one an axis, or all befores, then all afters;
    kernel: extents of the window with its gaps."""
    count = len(kernel)
    if padding in ("SAME", "VALID"):
        whole = [k - 1 if padding == "SAME" else 0 for k in kernel]
        return [simplify(as_expr((w + 1) // 2)) for w in whole], [simplify(as_expr(w // 2)) for w in whole]
    if isinstance(padding, str):
        raise InferError(f"padding {padding!r} is neither SAME nor VALID")
    if not isinstance(plain(padding), int) and len(padding) == 2 * count:
        return list(padding[:count]), list(padding[count:])
    return [list(spread(padding, count, "padding"))] * 2


def _pads(padding, kernel, dilation, strides):
    """Padding as the operators take it; "SAME" surrounds by what the window overhangs, "VALID" by nothing."""
    if padding not in ("SAME", "VALID"):
        return padding
    dilation = spread(dilation, len(kernel), "dilation")
    before, after = pads_of(padding, [(int(k) - 1) * d + 1 for k, d in zip(kernel, dilation)])
    return (*plain(before), *plain(after))


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


def attention(ops, query, key, value, bias=None, scale=None, causal_mask=None, window_size=None):
    """softmax(q k^T * scale + bias) v of heads; see relax.op.nn.attention."""
    return NN["nn.attention"](TensorOps(ops), query, key, value, bias, scale, causal_mask, window_size)


# ---------------------------------------------------------------- shapes

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


def resize2d(ops, data, roi, size, layout="NCHW", method="linear", coordinate_transformation_mode="half_pixel",
             rounding_method="", bicubic_alpha=-0.5, bicubic_exclude=0, extrapolation_value=0.0, out_dtype=None,
             output_shape=None):
    """roi must be None or zeros: nothing is cropped. rounding_method "": of align_corners "round", else "floor"."""
    if roi is not None and any(plain(roi)):
        raise InferError("roi is not supported: crop with strided_slice first")
    rounding = rounding_method or ("round" if coordinate_transformation_mode == "align_corners" else "floor")
    return ops("image.resize2d", converted(data, out_dtype), size, layout=layout, method=method,
               rounding_method=rounding, coordinate_transformation_mode=coordinate_transformation_mode,
               cubic_alpha=bicubic_alpha)


COMPOSITES = {
    "matmul": matmul, "graph_matmul": graph_matmul, "image.resize2d": resize2d,
    **{f"nn.{f.__name__}": f for f in (
        dense, batch_matmul, conv1d, conv1d_ncw, conv2d, conv2d_nchw, group_conv2d_nchw, depthwise_conv2d_nchw,
        conv3d_ncdhw, batch_norm, scale_shift_nchw, bias_add, lrn,
        mirror_pad, flatten, upsampling, attention)},
    "nn.matmul": matmul,
}
