"""Convolutions, normalizations, softmax."""
from __future__ import annotations

import math

from ...ir.expr import PrimExpr
from ..shapes import MOST_DIM, dims_of, product
from .converter import converts


# ---------------------------------------------------------------- windows, shared with pooling

def window(node, kernel, spatial):
    """(strides, pads, dilations) of a convolution or pool over `spatial` dims (ints or expressions), all checked.

    pads: beginnings then ends, from `pads` or resolved from `auto_pad`.
    """
    rank = len(spatial)
    if len(kernel) != rank:
        raise node.error(f"kernel_shape {tuple(kernel)} does not match an input with {rank} spatial dimensions")
    strides = per_axis(node, "strides", rank)
    dilations = per_axis(node, "dilations", rank)
    mode = node.choice("auto_pad", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    given = node.attr("pads")
    if mode == "NOTSET":
        pads = per_axis(node, "pads", 2 * rank, 0, 0)
        return strides, tuple(pads), dilations
    if given and any(given):
        raise node.error(f"attributes pads {given} and auto_pad {mode!r} contradict each other")
    if mode == "VALID":
        return strides, (0,) * (2 * rank), dilations
    totals = [_same_padding(node, *axis) for axis in zip(spatial, kernel, strides, dilations)]
    less = [t // 2 for t in totals]
    more = [t - h for t, h in zip(totals, less)]
    return strides, tuple(less + more if mode == "SAME_UPPER" else more + less), dilations


def per_axis(node, name, count, usual=1, least=1):
    """An attribute of `count` integers from `least` to MOST_DIM, all `usual` where it is absent."""
    values = tuple(node.attr(name) or (usual,) * count)
    if len(values) != count or min(values) < least or max(values) > MOST_DIM:
        raise node.error(f"attribute {name} {values} must be {count} integers of at least {least}"
                         + (f" and at most {MOST_DIM}" if max(values) > MOST_DIM else ""))
    return values


def _same_padding(node, size, kernel, stride, dilation):
    """Padding in all for ceil(size / stride) outputs."""
    reach = (kernel - 1) * dilation + 1
    if stride == 1:
        return reach - 1
    if isinstance(size, PrimExpr):
        raise node.error(f"auto_pad with stride {stride} over the symbolic dimension {size} needs its size; pin it "
                         "with dims or export explicit pads")
    total = (math.ceil(size / stride) - 1) * stride + reach - size
    if total < -1:  # the specification's formula then begins inside, other runtimes at the first element
        raise node.error(f"auto_pad with stride {stride} over {size} elements pads by {total}, since the window of "
                         f"{reach} is smaller than the stride: export explicit pads")
    return max(total, 0)


# ---------------------------------------------------------------- convolutions

def kernel_of(node, weight):
    """The kernel size, from the weight; kernel_shape must agree."""
    kernel = dims_of(weight)[2:]
    declared = node.attr("kernel_shape")
    if not all(isinstance(k, int) for k in kernel):
        raise node.error("the weight must have static kernel dimensions")
    if declared is not None and list(declared) != kernel:
        raise node.error(f"attribute kernel_shape {declared} contradicts the weight's {tuple(kernel)}")
    return tuple(kernel)


def spatial_rank(node, most, operands=None):
    """The number of spatial dimensions of input and weight."""
    x, w = operands or (node.input(0), node.input(1))
    rank = x.struct_info.ndim - 2
    if not 1 <= rank <= most or w.struct_info.ndim != rank + 2:
        raise node.error(f"{node.proto.op_type} over {rank} spatial dimensions with a weight of {w.struct_info.ndim} "
                         f"dimensions is not supported; input and weight have 1 to {most} spatial dimensions both")
    return rank


def add_bias(node, result, bias, rank):
    if bias is None:
        return result
    if bias.struct_info.ndim != 1:
        raise node.error("the bias must have 1 dimension")
    return node.call("add", result, node.reshape(bias, [1, dims_of(bias)[0]] + [1] * rank))


def lift(node, x):
    """A tensor with one spatial axis as one with two, the first of extent 1."""
    return node.call("expand_dims", x, axis=2)


@converts("Conv")
def conv(node):
    x, w = node.input(0), node.input(1)
    return add_bias(node, convolved(node, x, w), node.input(2), x.struct_info.ndim - 2)


def convolved(node, x, w, zeros=(), dtype=None):
    """The convolution of x by w; of quantized ones, with their zero points, in a dtype. One spatial dimension runs as
    two, of which the first has extent 1: it shares the schedules of nn.conv2d."""
    rank = spatial_rank(node, 3, (x, w))
    strides, pads, dilations = window(node, kernel_of(node, w), dims_of(x)[2:])
    group = node.attr("group", 1)
    if rank == 1:
        x, w = lift(node, x), lift(node, w)
        strides, dilations, pads = (1, *strides), (1, *dilations), (0, pads[0], 0, pads[1])
        zeros = [lift(node, z) if z.struct_info.ndim == 3 else z for z in zeros]
    result = node.call(f"{'qnn' if zeros else 'nn'}.conv{max(rank, 2)}d", x, w, *zeros, strides=strides, padding=pads,
                       dilation=dilations, groups=group, **({"out_dtype": dtype} if dtype else {}))
    return node.call("squeeze", result, axis=(2,)) if rank == 1 else result


# ---------------------------------------------------------------- normalizations

@converts("BatchNormalization", 1, 6)
def batch_norm_v1(node):
    if not node.attr("is_test", 0):
        raise node.error("attribute is_test is 0: training mode is not supported; export the model for inference")
    return batch_norm_v7(node)


@converts("BatchNormalization", 7)
def batch_norm_v7(node):
    if node.attr("spatial", 1) != 1:
        raise node.error("attribute spatial 0 is not supported: statistics are of channels")
    return batch_norm(node)


@converts("BatchNormalization", 9)
def batch_norm(node):
    if any(node.outputs[1:]):
        raise node.error("training mode is not supported before opset 14; export the model for inference")
    x, *statistics = node.inputs
    return node.call("nn.batch_norm", x, *statistics, axis=1, epsilon=float(node.attr("epsilon")))


@converts("InstanceNormalization")
def instance_norm(node):
    return node.call("nn.instance_norm", *node.inputs, epsilon=float(node.attr("epsilon")))


@converts("GroupNormalization", 18)
def group_norm_v18(node):
    """Scale and bias are per group: an instance normalization of the groups."""
    return _group_norm(node, node.input(1), node.input(2))


@converts("GroupNormalization", 21)
def group_norm_v21(node):
    """Scale and bias are per channel, and applied to the normalized groups."""
    groups, dtype = node.attr("num_groups"), node.input(0).struct_info.dtype
    result = _group_norm(node, node.filled([groups], 1, dtype), node.filled([groups], 0, dtype))
    rank = node.input(0).struct_info.ndim
    scale, bias = (node.reshape(v, [1, dims_of(v)[0]] + [1] * (rank - 2)) for v in node.inputs[1:])
    return node.call("add", node.call("multiply", result, scale), bias)


def _group_norm(node, scale, bias):
    dims, groups = dims_of(node.input(0)), node.attr("num_groups")
    if len(dims) < 3 or not isinstance(dims[1], int) or groups < 1 or dims[1] % groups:
        raise node.error(f"attribute num_groups {groups} must divide the channels (dimension 1) of an image")
    planes = node.reshape(node.input(0), [dims[0], groups, product([dims[1] // groups, *dims[2:]])])
    return node.reshape(node.call("nn.instance_norm", planes, scale, bias, epsilon=float(node.attr("epsilon"))), dims)


@converts("LRN")
def lrn(node):
    return node.call("nn.lrn", node.input(0), size=node.attr("size"), alpha=float(node.attr("alpha")),
                     beta=float(node.attr("beta")), bias=float(node.attr("bias")))


# ---------------------------------------------------------------- softmax

def _softmax_v1(op):
    def convert(node):
        """Before opset 13 the tensor is a matrix, [axes before `axis`, the others], and each row is normalized."""
        x = node.input(0)
        dims = dims_of(x)
        axis = node.axis(node.attr("axis", 1), len(dims)) if dims else 0
        wide = [i for i in range(axis, len(dims)) if dims[i] != 1 or not isinstance(dims[i], int)]
        if len(wide) <= 1:
            return node.call(op, x, axis=wide[0] if wide else len(dims) - 1)
        rows = node.call("reshape", x, [product(dims[:axis]), product(dims[axis:])])
        return node.call("reshape", node.call(op, rows, axis=1), dims)
    return convert


def _softmax_v13(op):
    def convert(node):
        rank = node.input(0).struct_info.ndim
        return node.call(op, node.input(0), axis=node.axis(node.attr("axis", -1), rank))
    return convert


for _name, _op in (("Softmax", "nn.softmax"), ("LogSoftmax", "nn.log_softmax")):
    converts(_name, 1)(_softmax_v1(_op))
    converts(_name, 13)(_softmax_v13(_op))


@converts("Dropout", 1, 6)
def dropout_v1(node):
    if not node.attr("is_test", 0):
        raise node.error("attribute is_test is 0: training mode is not supported before opset 12")
    return dropout(node)


@converts("Dropout", 7)
def dropout(node):
    """Nothing at inference, which is all there is before opset 12; the optional mask is all true."""
    x = node.input(0)
    return (x, node.filled(dims_of(x), True, "bool")) if node.wants(1) else x
