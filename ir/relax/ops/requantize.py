"""qnn.requantize: sums of integers times a scale below 1, as 32-bit integers, without a float.

The scale is multiplier / 2^31 / 2^shift, as CMSIS-NN has it: the high half of twice the product by the multiplier is
rounded, halves up, then its quotient by 2^shift, halves away from 0. Multipliers are of 2^30 to 2^31 - 1, shifts of 0
to 31; both broadcast with the sums.
"""
from __future__ import annotations

import numpy as np

from ... import te, tir
from ...expr import Select, const
from ...op import register
from ..expr import TensorStructInfo
from .common import axis_names, broadcast_index, broadcast_shapes, fail, te_shape, tensors
from .qnn import SUMS

MOST_SHIFT = 31


def multiplier_of(scales):
    """(multiplier, shift), int32, of scales in (0, 1), float32 or float64. None where one is not, or rounds to 1."""
    scales = np.asarray(scales, np.float64)
    if not (np.isfinite(scales).all() and (scales > 0).all()):
        return None
    fraction, exponent = np.frexp(scales)
    multiplier = np.rint(fraction * 2.0 ** 31).astype(np.int64)
    over = multiplier == 1 << 31
    multiplier, shift = np.where(over, 1 << 30, multiplier), -(exponent + over)
    if (shift < 0).any():
        return None
    multiplier = np.where(shift > MOST_SHIFT, 0, multiplier)  # less than half of any sum
    return multiplier.astype(np.int32), np.minimum(shift, MOST_SHIFT).astype(np.int32)


def _infer(call):
    infos = tensors(call)
    for info, what in zip(infos, ("sums", "multiplier", "shift")):
        if info.dtype != SUMS:
            fail(call, f"{what} must be {SUMS}, not {info.dtype}")
    return TensorStructInfo(broadcast_shapes(call, *(info.shape for info in infos)), SUMS)


def _lower(args, attrs, out):
    x, multiplier, shift = args

    def element(*i):
        total, m, right = (a[broadcast_index(i, a.shape)] for a in (x, multiplier, shift))
        high = tir.shift_right(total.astype("int64") * m.astype("int64") + const(1 << 30, "int64"), const(31, "int64"))
        half = tir.shift_right(tir.shift_left(const(1, "int64"), right.astype("int64")), const(1, "int64"))
        down = Select(high < 0, tir.min(half, const(1, "int64")), const(0, "int64"))  # halves away from 0
        return tir.shift_right(high + half - down, right.astype("int64")).astype(SUMS)

    return te.compute(te_shape(out), element, name="requantize", varargs_names=axis_names(out.ndim, x))


def _evaluate(args, attrs):
    """As CMSIS-NN's arm_nn_requantize says it."""
    x, multiplier, shift = (np.asarray(a, np.int64) for a in args)
    high = (x * multiplier + (1 << 30)) >> 31
    mask = (np.int64(1) << shift) - 1
    result = high >> shift
    return (result + ((high & mask) > (mask >> 1) + (result < 0))).astype(np.int32)


register("qnn.requantize", _infer, _lower, _evaluate, "broadcast", (3, 3))
