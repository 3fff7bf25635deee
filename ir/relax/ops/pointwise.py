"""nn.conv2d_pointwise: convolutions of 1x1 as products by an `arithmetic` with operands of its own, whose rows are the
points of a blocked image, and columns those of the kernel as a matrix [input channels, output channels].

Data is blocked, [N, IB, H, W, 16] ("NCHW16c"), and so are results; out_channels is the true number. By FMAs
such a convolution is a nn.conv2d.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...op import REQUIRED, register
from ..arithmetic import ARITHMETICS, LANES, Rows
from ..expr import TensorStructInfo
from .common import fail, need_blocks, need_rank, te_shape
from .contraction import POINTWISE, arithmetic_of, check_operands, contract, product, result_name
from .layout import blocks_of
from .winograd import whole_blocks


def kernel_matrix(w):
    """[input channels, output channels] of a packed kernel [OB, IB, 1, 1, i, o] of nn.conv2d."""
    w = whole_blocks(w)
    return w[:, :, 0, 0].transpose(1, 2, 0, 3).reshape(w.shape[1] * w.shape[4], -1)


def _infer(call):
    row, x = arithmetic_of(call), need_rank(call, 0, 5)
    channels, strides = call.attrs["out_channels"], call.attrs["strides"]
    need_blocks(call, x, LANES)
    if channels < 1:
        fail(call, f"out_channels={channels} must be at least 1")
    if len(strides) != 2 or min(strides) < 1:
        fail(call, f"strides {tuple(strides)} must be 2 integers of at least 1, for rows and columns")
    blocks = blocks_of(channels, LANES)
    check_operands(call, row, x, x.shape[1].value * LANES, blocks * LANES)
    sizes = (-(-d.value // s) for d, s in zip(x.shape[2:4], strides))
    return TensorStructInfo((x.shape[0], blocks, *sizes, LANES), row.result)


def _lower(args, attrs, out):
    x, *operands = args
    batch, _, height, width, _ = shape = te_shape(out)
    down, right = attrs["strides"]

    def element(at, k):
        (n, y, x_), (block, lane) = at, k
        return x[n, block, y * down, x_ * right, lane]

    rows = Rows((batch,), height, (width,), (int(x.shape[1]), LANES), element)
    result = contract(ARITHMETICS[attrs["arithmetic"]], rows, operands,
                      lambda operand, block, lane: operand[block * LANES + lane])
    return te.compute(shape, lambda n, ob, y, x, o: result((n, y, x), (ob, o)),
                      name=result_name("conv2d", attrs["arithmetic"]))


def _evaluate(args, attrs):
    """The product of points [N, H, W, channels]; those of a line that share a scale are NaN where one is not finite."""
    x, *operands = args
    row, (down, right) = ARITHMETICS[attrs["arithmetic"]], attrs["strides"]
    x = x[:, :, ::down, ::right].transpose(0, 2, 3, 1, 4)
    x = x.reshape(*x.shape[:3], -1)
    if row.scaling and row.scaling.by_line:
        x = np.where(np.isfinite(x).all(axis=(2, 3), keepdims=True), x, np.float32("nan"))
    rows = product(row, x, operands, blocks_of(attrs["out_channels"], LANES) * LANES)
    return np.ascontiguousarray(rows.reshape(*rows.shape[:3], -1, LANES).transpose(0, 3, 1, 2, 4))


register(POINTWISE, _infer, _lower, _evaluate, "anchor", (2, 4), arithmetic=REQUIRED, out_channels=REQUIRED,
         strides=(1, 1))
