"""Products of quantized tensors become products of integers, or of floats, whichever the target computes faster.

    sum (x - a) (w - b) = sum x (w - b) - a sum (w - b)

Constant weights have their zero point subtracted now, where what is left are bytes: products then read the bytes of x
as they are, and what its zero point adds is one number for each output channel, which joins a bias. Padding of a
convolution is the zero point. Where float32 holds every sum, a target without products of bytes adds up floats.
"""
from __future__ import annotations

import numpy as np

from ..expr import is_const_int
from ..relax.block_builder import call_op
from ..relax.expr import Constant
from ..relax.ops.qnn import BYTES, PLAIN, SUMS
from .graph import GraphRewriter, constant_last, on_main
from .pack import EXACT


@on_main
def qnn_canonicalize(func, target):
    """Ensures no qnn.matmul, qnn.conv2d and qnn.conv3d: they are matmul, nn.conv2d and nn.conv3d of 8-bit integers with
    out_dtype int32 where the target multiplies these (Target.multiplies_bytes), of float32 where it does not and holds
    every sum, and of int32 else. Constants that are added to sums one after the other are one."""
    return _Canonicalize(target).run(func)


class _Canonicalize(GraphRewriter):
    def __init__(self, target):
        self.target = target

    def call(self, binding, call):
        if call.op in PLAIN:
            return self._product(call)
        return self._joined(constant_last(call)) or call if call.op in ("add", "subtract") else call

    def _joined(self, call):
        """x + a + b of constant a and b, in integers, as x + (a + b)."""
        if call.struct_info.dtype != SUMS or not isinstance(call.args[1], Constant):
            return None
        inner = self.producer(call.args[0])
        if inner is None or inner.op not in ("add", "subtract") or not isinstance(inner.args[1], Constant):
            return None
        total = 0
        for term in (inner, call):
            total = total + (1 if term.op == "add" else -1) * term.args[1].data.astype(np.int64)
        return call_op("add", inner.args[0], Constant(total.astype(np.int32), call.args[1].name))

    # ------------------------------------------------------------ products

    def _product(self, call):
        x, w, x_zero, w_zero = call.args
        shifted = without_zero_point(call)
        if shifted is None:
            return self._of_both(call)
        weight = as_bytes(shifted, w.name)
        if weight is not None and self.target.multiplies_bytes:
            made = self._of_bytes(call, weight, shifted)
            if made is not None:
                return made
        axes = (-2,) if call.op == "qnn.matmul" else tuple(range(1, shifted.ndim))
        most = int(np.abs(shifted).sum(axis=axes, dtype=np.int64).max(initial=0))
        dtype = "float32" if most * _reach(x, x_zero) < EXACT else SUMS
        return self._of(call, self._shifted(x, x_zero, dtype), Constant(shifted.astype(dtype), w.name), dtype)

    def _of_both(self, call):
        """Of weights that only a run knows."""
        x, w, x_zero, w_zero = call.args
        terms = x.struct_info.shape[-1]
        reach = _reach(x, x_zero) * _reach(w, w_zero)
        exact = call.op == "qnn.matmul" and is_const_int(terms) and terms.value * reach < EXACT
        dtype = "float32" if exact else SUMS
        return self._of(call, self._shifted(x, x_zero, dtype), self._shifted(w, w_zero, dtype), dtype)

    def _of(self, call, x, w, dtype):
        total = self._plain(call, x, w, call.attrs)
        return total if dtype == SUMS else call_op("astype", self.emit(total), dtype=SUMS)

    def _plain(self, call, x, w, attrs):
        return call_op(PLAIN[call.op], x, w, **attrs, **({"out_dtype": SUMS} if x.struct_info.dtype in BYTES else {}))

    def _of_bytes(self, call, weight, shifted):
        """The product of x as it is, less what its zero point adds; None where that is not known as padding."""
        x, _, zero, _ = call.args
        attrs = dict(call.attrs)
        padding = attrs.get("padding", ())
        if any(padding):
            x = self._padded(x, zero, padding)
            if x is None:
                return None
            attrs["padding"] = (0,) * len(padding)
        total = self._plain(call, x, weight, attrs)
        if isinstance(zero, Constant) and not zero.data.any():
            return total
        if call.op == "qnn.matmul":
            sums = shifted.sum(axis=-2, keepdims=shifted.ndim > 2, dtype=np.int64).astype(np.int32)
        else:
            sums = shifted.sum(axis=tuple(range(1, shifted.ndim)), dtype=np.int64).astype(np.int32)
            sums = sums.reshape(1, -1, *[1] * (shifted.ndim - 2))
        less = Constant(sums, f"{weight.name}_sums")
        if isinstance(zero, Constant):
            less = Constant(sums * zero.data.astype(np.int32), less.name)
        else:
            less = self.emit(call_op("multiply", self.emit(call_op("astype", zero, dtype=SUMS)), less))
        return call_op("subtract", self.emit(total), less)

    def _padded(self, x, zero, padding):
        """Images with their zero point around; where a run knows that, by what is 1 there and 0 inside. None for those
        whose size, too, only a run knows."""
        half, size = len(padding) // 2, x.struct_info.shape[2:]
        pairs = [p for pair in zip(padding[:half], padding[half:]) for p in pair]
        known = isinstance(zero, Constant)
        if known and zero.data.size != 1 or not known and not all(map(is_const_int, (*size, *zero.struct_info.shape))):
            return None
        value = float(zero.data.reshape(())) if known else 0.0
        made = self.emit(call_op("nn.pad", x, pad_width=(0, 0, 0, 0, *pairs), pad_value=value), f"{x.name}_pad")
        if known:
            return made
        inside = np.zeros([1, 1, *(d.value for d in size)], np.int32)
        around = Constant(np.pad(inside, ((0, 0), (0, 0), *zip(pairs[::2], pairs[1::2])), constant_values=1), "padding")
        more = self.emit(call_op("multiply", around, self.emit(call_op("astype", zero, dtype=SUMS))))
        wide = self.emit(call_op("add", self.emit(call_op("astype", made, dtype=SUMS)), more))
        return self.emit(call_op("astype", wide, dtype=str(x.struct_info.dtype)), f"{x.name}_pad")

    def _shifted(self, x, zero, dtype):
        """x - zero point in `dtype`."""
        if isinstance(x, Constant) and isinstance(zero, Constant):
            return Constant(x.data.astype(dtype) - zero.data.astype(dtype), x.name)
        x = self.emit(call_op("astype", x, dtype=dtype))
        if isinstance(zero, Constant):
            return x if not zero.data.any() else self.emit(call_op("subtract", x, Constant(zero.data.astype(dtype))))
        return self.emit(call_op("subtract", x, self.emit(call_op("astype", zero, dtype=dtype))))


def without_zero_point(call):
    """Constant weights less their zero point, in int16; None for others."""
    w, zero = call.args[1], call.args[3]
    if not isinstance(w, Constant) or not isinstance(zero, Constant) or w.data.ndim < 2:
        return None
    return w.data.astype(np.int16) - zero.data.astype(np.int16)


def as_bytes(shifted, name):
    """int16 numbers as a Constant of bytes, those with a sign first; None where no type of bytes holds them."""
    for dtype in BYTES:
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        if least <= shifted.min(initial=0) and shifted.max(initial=0) <= most:
            return Constant(shifted.astype(dtype), name)
    return None


def _reach(x, zero):
    """The largest magnitude of x - zero point."""
    least, most = map(int, x.struct_info.dtype.finite_range())
    if not isinstance(zero, Constant):
        return most - least
    return max(most - int(zero.data.min(initial=0)), int(zero.data.max(initial=0)) - least)


__all__ = ["as_bytes", "qnn_canonicalize", "without_zero_point"]
