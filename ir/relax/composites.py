"""Functions of relax.op and topi that are made of several operators of the table.

`ops(name, ...)` makes one call: of graph operators or of te tensors.
"""
from __future__ import annotations

import re

from ..op import InferError
from ..expr import PrimExpr
from .classic import dtype_of, plain, shape_of
from .ops.common import may_be_any


def operands(names):
    """Marks the parameters of a function that are operands, the first alone where nothing is said."""
    def mark(function):
        function.operands = names
        return function
    return mark


def axis_in(name, axis, rank):
    """An axis from 0, of one that may count from the end. InferError for one outside."""
    if not -rank <= axis < rank:
        raise InferError(f"{name}: axis {axis} is outside a tensor of {rank} dimensions")
    return axis % rank


def along(ops, vector, axis, rank):
    """A tensor of one dimension, so that it broadcasts along `axis` of tensors of `rank` dimensions."""
    return vector if axis == rank - 1 else ops("expand_dims", vector, tuple(range(1, rank - axis)))


@operands("x fill_value")
def full_like(ops, x, fill_value, dtype=None):
    return ops("full", shape_of(x), fill_value, dtype_of(x) if dtype in (None, "", "void") else dtype)


def _constant(value):
    @operands("shape")
    def of_shape(ops, shape, dtype="float32"):
        if dtype in ("", "void"):
            raise TypeError("a tensor of nothing but its shape needs a dtype")
        return ops("full", shape, value, dtype)

    def like(ops, x, dtype=None):
        return full_like(ops, x, value, dtype)
    return of_shape, like


def flatten(ops, x):
    """All dimensions as one."""
    return ops("reshape", x, (-1,))


def stack(ops, tensors, axis=0):
    tensors = list(getattr(tensors, "fields", tensors))
    axis = axis_in("stack", axis, len(shape_of(tensors[0])) + 1)
    return ops("concat", [ops("expand_dims", t, axis) for t in tensors], axis)


@operands("data weight bias")
def linear(ops, data, weight, bias=None, out_dtype=None):
    """data @ weight.T + bias; weight: (out features, in features)."""
    result = ops("matmul", data, ops("permute_dims", weight), out_dtype=out_dtype or None)
    return result if bias is None else ops("add", result, bias)


@operands("data alpha")
def prelu(ops, data, alpha, axis=1):
    """alpha: one slope per channel, or one for all."""
    rank = len(shape_of(data))
    if len(shape_of(alpha)) == 1:
        alpha = along(ops, alpha, axis_in("nn.prelu", axis, rank), rank)
    return ops("add", ops("maximum", data, 0.0), ops("multiply", alpha, ops("minimum", data, 0.0)))


@operands("data gamma beta")
def group_norm(ops, data, gamma, beta, num_groups, channel_axis=1, axes=None, epsilon=1e-5, center=True, scale=True):
    """Normalizes each group of channels (axis 1) over its channels and all further axes (Wu and He 2018)."""
    shape = tuple(shape_of(data))
    channel_axis = channel_axis + len(shape) if channel_axis < 0 else channel_axis
    rest = tuple(k for k in range(1, len(shape)) if k != channel_axis)
    axes = rest if axes is None else tuple(sorted(k + len(shape) if k < 0 else k for k in axes))
    if channel_axis != 1 and 0 < channel_axis < len(shape) and axes == rest:  # channels elsewhere
        order = (0, channel_axis, *rest)
        result = group_norm(ops, ops("permute_dims", data, order), gamma, beta, num_groups, 1, None, epsilon, center,
                            scale)
        return ops("permute_dims", result, tuple(map(order.index, range(len(shape)))))
    channels = plain(shape[1]) if len(shape) > 1 else None
    if channel_axis != 1 or axes != rest:
        raise InferError("nn.group_norm: all axes but the batch and the channels are normalized over")
    if isinstance(channels, PrimExpr) and may_be_any(channels):
        return data
    if not isinstance(channels, int) or num_groups < 1 or channels % num_groups:
        raise InferError(f"nn.group_norm: num_groups={num_groups} must divide the {channels} channels (axis 1)")
    ones, zeros = (ops("full", (num_groups,), v, dtype_of(data)) for v in (1.0, 0.0))
    groups = ops("reshape", data, (shape[0], num_groups, -1))
    normal = ops("reshape", ops("nn.instance_norm", groups, ones, zeros, epsilon=epsilon), shape)
    gamma, beta = (along(ops, v, 1, len(shape)) for v in (gamma, beta))
    return ops("add", ops("multiply", normal, gamma) if scale else normal, beta) if center else (
        ops("multiply", normal, gamma) if scale else normal)


def layout_transform(ops, data, src_layout, dst_layout):
    """Between layouts such as NCHW, NHWC and NCHW8c: an upper-case letter is an axis, "8c" the inner 8 of axis C."""
    source, target = ([(int(n or 0), letter) for n, letter in re.findall(r"(\d*)([A-Za-z])", layout)]
                      for layout in (src_layout, dst_layout))
    blocks = {letter.upper(): n for n, letter in source + target if n}
    shape, atoms, order = list(shape_of(data)), [], []
    if len(source) != len(shape) or {x.upper() for _, x in source} != {x.upper() for _, x in target}:
        raise InferError(f"layout_transform: {src_layout} and {dst_layout} must name the {len(shape)} axes of the "
                         "tensor")
    inner = {letter.upper() for n, letter in source if n}
    split = []  # every axis as its outer and, where there are blocks, inner part
    for (n, letter), extent in zip(source, shape):
        if n or letter in inner or letter not in blocks:
            split.append(extent)
            atoms.append(letter)
            continue
        if isinstance(plain(extent), int) and plain(extent) % blocks[letter]:
            raise InferError(f"layout_transform: axis {letter} of extent {plain(extent)} does not divide into blocks "
                             f"of {blocks[letter]}; pad it first")
        split += [extent // blocks[letter], blocks[letter]]
        atoms += [letter, letter.lower()]
    final, kept = [], {letter for _, letter in target}
    for n, letter in target:
        order.append(atoms.index(letter))
        final.append(split[order[-1]])
        if not n and letter.lower() in atoms and letter.lower() not in kept:
            order.append(atoms.index(letter.lower()))
            final[-1] = final[-1] * split[order[-1]]
    return ops("reshape", ops("permute_dims", ops("reshape", data, tuple(split)), tuple(order)), tuple(final))


@operands("x1 x2 x3")
def ewise_fma(ops, x1, x2, x3):
    """x1 * x2 + x3"""
    return ops("add", ops("multiply", x1, x2), x3)


zeros, zeros_like = _constant(0)
ones, ones_like = _constant(1)
SHARED = {
    "full_like": full_like, "zeros": zeros, "zeros_like": zeros_like, "ones": ones, "ones_like": ones_like,
    "flatten": flatten, "stack": stack, "nn.prelu": prelu, "nn.group_norm": group_norm,
    "nn.gelu_tanh": lambda ops, data: ops("nn.gelu", data, approximate="tanh"),
    "nn.relu6": lambda ops, data: ops("clip", data, 0.0, 6.0),
    "ewise_fma": ewise_fma,
}
