"""nn.conv2d_phases: transposed convolutions in blocked layout that multiply no zeros.

Of stride s, output row s * j + r is made of the kernel's rows k with (r + padding - k) % s == 0 alone: the results fall
into s phases, each a convolution of stride 1 with a part of the kernel; columns likewise. Phase r takes the rows of
remainder (r + padding) % s, of which there are ceil(K / s) at most, in some phases one less, or none.

Data is [N, IB, H, W, c] ("NCHW{c}c"). Weights are [OB, KH, KW, IB', i, c], the kernel's rows and columns sorted by
remainder, so that each phase finds its own in a row; i divides c. They are zero beyond the true channels.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import const, is_const_int, logical_and
from ...op import REQUIRED, get, register
from ...tir import intrin
from ..expr import TensorStructInfo
from .common import dim_text, fail, need_dtype, need_rank, need_same_dtype, same_dim, shape_text, te_shape
from .conv_layouts import pack_weights, static_kernel, unpack_weights
from .layout import blocks_of, check_layout, need_layout, pack_channels, unpack_channels
from .precision import narrow, sum_dtype
from .window import check_window_attrs, pad_stage, split_padding, transposed_sizes


# ---------------------------------------------------------------- kernels by phase

def _by_remainder(kernel, stride):
    """The indices of a kernel along an axis, sorted by remainder."""
    return sorted(range(kernel), key=lambda k: (k % stride, k))


def pack_phases(w, strides, lanes, inner):
    """Weights [I, O, KH, KW] of a transposed convolution -> [OB, KH, KW, IB', inner, lanes]."""
    rows, columns = map(_by_remainder, w.shape[2:], strides)
    w = pack_weights(w.swapaxes(0, 1)[:, :, rows][..., columns], lanes, 1, inner)
    return np.ascontiguousarray(np.moveaxis(w, 1, 3))


def unpack_phases(w, strides, channels):
    """The inverse of pack_phases; input channels are all that the blocks hold."""
    w = unpack_weights(np.moveaxis(w, 3, 1), channels, 1, w.shape[4]).swapaxes(0, 1)
    rows, columns = (np.argsort(_by_remainder(k, s)) for k, s in zip(w.shape[2:], strides))
    return w[:, :, rows][..., columns]


def border(attrs, kernel):
    """((top, left), (bottom, right)): the zeros around the input that phases read, also for rows and columns that all
    phases have where the output has only those of the first ones."""
    before, after = [], []
    low, high = split_padding(attrs["padding"])
    for k, s, p, q, extra in zip(kernel, attrs["strides"], low, high, attrs["output_padding"]):
        shifts = [divmod(r + p, s) for r in range(s)]
        before.append(max(0, *((k - 1 - rest) // s - shift for shift, rest in shifts)))
        after.append(max(0, -(-(k + extra - p - q) // s) - 1 + shifts[-1][0]))
    return tuple(before), tuple(after)


# ---------------------------------------------------------------- struct info

def _infer(call):
    lanes, channels = check_layout(call, "data_layout"), call.attrs["out_channels"]
    if lanes is None:
        fail(call, f"data_layout {call.attrs['data_layout']!r} must be blocked, such as NCHW16c; nn.conv2d_transpose "
                   "is for plain images")
    x, w = need_layout(call, 0, lanes), need_rank(call, 1, 6)
    dtype = need_same_dtype(call, (x, w))
    need_dtype(call, x, "number")
    check_window_attrs(call, 2)
    if channels < 1 or not same_dim(w.shape[0], blocks_of(channels, lanes)) or not same_dim(w.shape[5], lanes):
        fail(call, f"weight {shape_text(w)} does not hold out_channels={channels} in blocks of {lanes}: dim 0 must be "
                   f"{blocks_of(channels, lanes)} and dim 5 must be {lanes}")
    inner = w.shape[4].value if is_const_int(w.shape[4]) else 0
    if inner < 1 or lanes % inner or not same_dim(x.shape[1], (w.shape[3] * inner + (lanes - 1)) // lanes):
        fail(call, f"weight {shape_text(w)} must have blocks of input channels that divide {lanes} (dim 4), as many as "
                   f"the {dim_text(x.shape[1])} blocks of input {shape_text(x)} hold (dim 3)")
    sizes = transposed_sizes(call, x.shape[2:4], static_kernel(call, w, 2, first=1))
    return TensorStructInfo((x.shape[0], w.shape[0], *sizes, x.shape[4]), dtype)


# ---------------------------------------------------------------- lowering

def _lower(args, attrs, out):
    """`conv2d_phases` [n, oo, rows, columns, row phases, column phases, oi], and the result that they lie in."""
    data, w = args
    shape, lanes, acc = te_shape(out), int(data.shape[4]), sum_dtype(data.dtype)
    kernel, strides = tuple(map(int, w.shape[1:3])), attrs["strides"]
    zeros, inner = border(attrs, kernel), int(w.shape[4])
    data, parts = pad_stage(data, *zeros), lanes // inner
    ty, tx = (te.reduce_axis((0, -(-k // s)), name) for k, s, name in zip(kernel, strides, ("ty", "tx")))
    io, ii = te.reduce_axis((0, w.shape[3]), "io"), te.reduce_axis((0, inner), "ii")

    def element(n, oo, y, x, ry, rx, oi):
        (row, kh, has_row), (column, kw, has_column) = (
            _tap(j, r + p, t.var, k, s, before) for j, r, p, t, k, s, before in zip(
                (y, x), (ry, rx), attrs["padding"], (ty, tx), kernel, strides, zeros[0]))
        block, lane = (io.var, ii.var) if parts == 1 else (io.var // parts, io.var % parts * inner + ii.var)
        source = data[n, block, row, column, lane].astype(acc)
        return te.sum(source * w[oo, kh, kw, io.var, ii.var, oi].astype(acc), [ty, tx, io, ii],
                      where=logical_and(has_row, has_column))

    (height, width), (sy, sx) = ((n + (s - 1)) // s for n, s in zip(shape[2:4], strides)), strides
    phases = te.compute((*shape[:2], height, width, sy, sx, lanes), element, name="conv2d_phases")
    result = te.compute(shape, lambda n, oo, y, x, oi: phases[n, oo, y // sy, x // sx, y % sy, x % sx, oi],
                        name="conv2d_transpose")
    return narrow(result, out.dtype)


def _tap(j, at, t, kernel, stride, before):
    """(index of the padded input, index of the sorted kernel, whether there is such a one) of the t-th element of the
    kernel that row j of a phase takes, or column; at: the phase and the padding."""
    if stride == 1:
        return j + at + before - t, t, const(True)
    shift, rest, (least, more) = at // stride, at % stride, divmod(kernel, stride)
    begin = rest * least + (intrin.min(rest, const(more)) if more else 0)
    return j + shift + before - t, begin + t, t * stride + rest < kernel if more else const(True)


# ---------------------------------------------------------------- reference

def _evaluate(args, attrs):
    """The plain transposed convolution, in which lanes of no channel count as channels."""
    x, w = args
    plain, conv = unpack_channels(x, w.shape[3] * w.shape[4]), get("nn.conv2d_transpose")
    window = {name: attrs[name] for name in ("strides", "padding", "output_padding")}
    weight = unpack_phases(w, attrs["strides"], attrs["out_channels"])
    return pack_channels(conv.evaluate([plain, weight], {**conv.attrs, **window}), x.shape[4])


register("nn.conv2d_phases", _infer, _lower, _evaluate, "anchor", (2, 2), strides=(1, 1), padding=(0, 0, 0, 0),
         output_padding=(0, 0), out_channels=REQUIRED, data_layout=REQUIRED)
