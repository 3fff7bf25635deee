"""Products of quantized tensors become products of integers, or of floats, whichever the target computes faster.

    sum (x - a) (w - b) = sum x (w - b) - a sum (w - b)

Constant weights have their zero point subtracted now, where what is left are bytes: products then read the bytes of x
as they are, and what its zero point adds is one number for each output channel, which joins a bias. Padding of a
convolution is the zero point. Where float32 holds every sum, a target without products of bytes adds up floats.

Of matrices that only a run knows, zero points add numbers of columns and of rows:

    sum (x - a) (w - b) = sum x w' - a (sum w - K b) - b' sum x

w' and b' are w and b, or the same with the other sign, as the target's dot products take them.

Numbers of 16 bits are multiplied as pairs of int16 where vectors do so (Target.multiplies_shorts). Where int32 may not
hold their sums, weights are cut in parts of fewer bits, whose sums it holds, for the greatest x and these weights,

    sum x w = 2^2n sum x w2 + 2^n sum x w1 + sum x w0

They are two bytes where vectors multiply these faster: x of a high one H and a low one L, both with a sign or both
without one, as dot products take them, and weights that no byte holds of v and w, likewise,

    sum x w = 256 sum H w + sum L w + c sum w      sum x (256 v + w) = 256 sum x v + sum x w

Each sum of parts is in int32, their total in the out_dtype of the product. Without vectors 16 bits are multiplied as
they are. Matrices of 16 bits that only a run knows: short_products.py.
"""
from __future__ import annotations

import math

import numpy as np

from ..expr import is_const_int
from ..relax.block_builder import call_op
from ..relax.expr import Constant, RelaxVar
from ..relax.ops.qnn import BYTES, MORE, OTHER, PLAIN, SUMS, WIDE_SUMS, WORDS
from .graph import GraphRewriter, constant_last, on_main
from .identities import axes_of
from .pack import EXACT
from .short_products import of_short_matrices

MOST_TERMS = (2 ** 31 - 1) // (2 * 255 ** 2)  # of sums that int32 holds before zero points are taken off, and after
SHORTS = ("qnn.matmul", "qnn.conv2d")  # whose weights may be pairs of 16 bits
MOST_PRODUCTS = (2 ** 31 - 1) // 255 ** 2  # of bytes whose sum int32 holds


@on_main
def qnn_canonicalize(func, target):
    """Ensures no qnn.matmul, qnn.conv2d and qnn.conv3d: they are matmul, nn.conv2d and nn.conv3d of 8-bit integers with
    out_dtype int32 where the target multiplies these (Target.multiplies_bytes), and of 16-bit ones where no vectors do;
    of float32 where it does not and holds every sum, and of the out_dtype else. Constants that are added to sums one
    after the other are one."""
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
        dtype = str(call.struct_info.dtype)
        if dtype not in (SUMS, WIDE_SUMS) or not isinstance(call.args[1], Constant):
            return None
        inner = self.producer(call.args[0])
        if inner is None or inner.op not in ("add", "subtract") or not isinstance(inner.args[1], Constant):
            return None
        total = 0
        for term in (inner, call):
            total = total + (1 if term.op == "add" else -1) * term.args[1].data.astype(np.int64)
        return call_op("add", inner.args[0], Constant(total.astype(dtype), call.args[1].name))

    # ------------------------------------------------------------ products

    def _product(self, call):
        x, w, x_zero, w_zero = call.args
        shifted = without_zero_point(call)
        if shifted is None:
            return self._of_both(call)
        if self.target.multiplies_bytes and (made := self._of_integers(call, shifted)) is not None:
            return made
        axes = (-2,) if call.op == "qnn.matmul" else tuple(range(1, shifted.ndim))
        most = int(np.abs(shifted).sum(axis=axes, dtype=np.int64).max(initial=0))
        dtype = "float32" if most * _reach(x, x_zero) < EXACT else call.attrs["out_dtype"]
        return self._of(call, self._shifted(x, x_zero, dtype), Constant(shifted.astype(dtype), w.name), dtype)

    def _of_both(self, call):
        """Of weights that only a run knows."""
        x, w, x_zero, w_zero = call.args
        terms = x.struct_info.shape[-1]
        reach = _reach(x, x_zero) * _reach(w, w_zero)
        matrices = call.op == "qnn.matmul"
        exact = matrices and is_const_int(terms) and terms.value * reach < EXACT
        matrices = matrices and all(str(v.struct_info.dtype) in BYTES for v in (x, w))
        if matrices and (self._multiplies(x, w) or not exact) and (made := self._of_matrices(*call.args)) is not None:
            return made
        if self.target.multiplies_pairs and call.op == "qnn.matmul" and not exact and (
                made := of_short_matrices(self, call)) is not None:
            return made
        if self.target.multiplies_bytes and self.target.lanes == 1 and not exact and all(map(_is_zero, (x_zero, w_zero))):
            return self._plain(call, x, w, call.attrs)
        dtype = "float32" if exact else call.attrs["out_dtype"]
        return self._of(call, self._shifted(x, x_zero, dtype), self._shifted(w, w_zero, dtype), dtype)

    def _multiplies(self, x, w):
        """Whether bytes are multiplied in fewer instructions than floats. Vectors take columns of known number, as
        words, and widen bytes where no instruction multiplies them."""
        if not self.target.multiplies_bytes or self.target.lanes == 1:
            return self.target.multiplies_bytes
        left, right = (str(v.struct_info.dtype) for v in (x, w))
        return is_const_int(w.struct_info.shape[-1]) and any(self.target.dots(left, v) for v in (right, OTHER[right]))

    def _of_matrices(self, x, w, x_zero, w_zero):
        """The product of the bytes of matrices, or of batches of them; None for vectors, and where sums may not fit."""
        terms, (left, right) = x.struct_info.shape[-1], (str(v.struct_info.dtype) for v in (x, w))
        if not self.target.multiplies_bytes or min(x.struct_info.ndim, w.struct_info.ndim) < 2 or (
                not is_const_int(terms) or terms.value > MOST_TERMS):
            return None
        rows, columns = self.total(x, -1), self.total(w, -2)
        x_zero, w_zero = map(self.wide, (x_zero, w_zero))
        columns = self.less(columns, w_zero, Constant(np.array(terms.value, np.int32)))
        if self.target.lanes > 1 and self.target.dots(left, right) < self.target.dots(left, OTHER[right]):
            more = Constant(np.array(MORE[right], np.int32))
            w = self.emit(call_op("astype", self.sum(self.wide(w), more), dtype=OTHER[right]), f"{w.name}_turned")
            w_zero = self.sum(w_zero, more)
        total = self.emit(call_op("matmul", x, w, out_dtype=SUMS))
        return self.less(self.less(total, x_zero, columns), w_zero, rows)

    def total(self, x, axis):
        """The sums of bytes along an axis; of what is permuted, before it is."""
        moved = self.producer(x, "permute_dims")
        axes = axes_of(moved) if moved else range(x.struct_info.ndim)
        wide = self.wide(moved.args[0] if moved else x)
        total = self.emit(call_op("sum", wide, axis=(axes[axis],), keepdims=True), f"{x.name}_sums")
        return self.emit(call_op("permute_dims", total, axes=axes)) if moved else total

    def wide(self, x):
        return Constant(x.data.astype(SUMS), x.name) if isinstance(x, Constant) else self.emit(
            call_op("astype", x, dtype=SUMS))

    def sum(self, a, b):
        if isinstance(a, Constant) and isinstance(b, Constant):
            return Constant(a.data + b.data, a.name)
        return self.emit(call_op("add", a, b))

    def less(self, total, zero, times):
        """total - zero * times."""
        if _is_zero(zero):
            return total
        if isinstance(zero, Constant) and isinstance(times, Constant):
            return self.emit(call_op("subtract", total, Constant(zero.data * times.data, zero.name)))
        return self.emit(call_op("subtract", total, self.emit(call_op("multiply", times, zero))))

    def _of(self, call, x, w, dtype):
        """The product of x and w, which are of a dtype."""
        sums = call.attrs["out_dtype"]
        total = self._plain(call, x, w, {**call.attrs, "out_dtype": None})
        return total if dtype == sums else call_op("astype", self.emit(total), dtype=sums)

    def _plain(self, call, x, w, attrs):
        return call_op(PLAIN[call.op], x, w, **attrs)

    # ------------------------------------------------------------ products by constants

    def _of_integers(self, call, shifted):
        """The product of x as it is by constants less their zero point, less what the zero point of x adds; None where
        that is not known as padding, for constants that have no type, and where int32 may not hold sums of bytes that
        are parts of wider ones."""
        x, w, zero, _ = call.args
        words = str(x.struct_info.dtype) in WORDS
        kinds = (*BYTES, "int16") if words else BYTES  # those that are multiplied by x
        weight = as_integers(shifted, w.name, kinds)
        parts = self._parts(call, weight) if words and weight is not None else None
        by_halves = words and self.target.lanes > 1 and not parts
        terms = shifted.shape[-2] if call.op == "qnn.matmul" else math.prod(shifted.shape[1:])
        if weight is None or by_halves and call.attrs["out_dtype"] == WIDE_SUMS and terms > MOST_PRODUCTS:
            return None
        x, attrs = self._with_padding(call)
        if x is None:
            return None
        if parts:
            total, more = self._of_shorts(call, x, weight, parts, attrs)
            return self._less_zero(call, total, weight.name, zero, shifted, more)
        if by_halves:
            total, more = self._in_halves(call, x, weight, attrs)
            return self._less_zero(call, total, weight.name, zero, shifted, more)
        return self._less_zero(call, self._plain(call, x, weight, attrs), weight.name, zero, shifted)

    def _parts(self, call, weight):
        """The short_parts of weights that vectors multiply as pairs; None for others."""
        axes = (0,) if call.op == "qnn.matmul" else tuple(range(1, weight.data.ndim))
        fits = self.target.multiplies_shorts and call.op in SHORTS
        return short_parts(weight.data, axes, call.attrs["out_dtype"]) if fits else None

    def _of_shorts(self, call, x, weight, parts, attrs):
        """(The sum, of products of pairs by parts of weights; what the numbers are more than those multiplied)."""
        (sums, more), total = (attrs["out_dtype"], 0), None
        if str(x.struct_info.dtype) == "uint16":
            more = -MORE["uint16"]
            x = self.emit(call_op("astype", self.sum(self.wide(x), Constant(np.array(-more, SUMS))), dtype="int16"),
                          f"{x.name}_turned")
        for factor, part in parts:
            product = self._plain(call, x, Constant(part, weight.name), {**attrs, "out_dtype": SUMS})
            total = self.added(total, product, factor, sums)
        return total, more

    def added(self, total, one, factor, sums):
        """total + factor * one, in the dtype of the sums; total: None for 0."""
        one = self.emit(one)
        one = one if sums == SUMS else self.emit(call_op("astype", one, dtype=sums))
        one = one if factor == 1 else self.emit(call_op("multiply", one, Constant(np.asarray(factor, sums))))
        return one if total is None else self.emit(call_op("add", total, one))

    def _in_halves(self, call, x, weight, attrs):
        """(The sum, of products of bytes; what the numbers are more than those multiplied)."""
        sums, total = attrs["out_dtype"], None
        kind = max(BYTES, key=lambda kind: self.target.dots(kind, "int8"))
        high, low, more = self._halves(x, kind)
        for factor, part in weight_halves(weight):
            for place, half in ((256 * factor, high), (factor, low)):
                total = self.added(total, self._plain(call, half, part, {**attrs, "out_dtype": SUMS}), place, sums)
        return total, more

    def _halves(self, x, kind):
        """(H, L, c) of numbers x = 256 H + L + c, where H and L are bytes of a kind."""
        signed, dtype = kind == "int8", str(x.struct_info.dtype)
        wide, of_16 = self.wide(x), dtype == "int16"
        above = (MORE["int16"] if of_16 else 0) - (MORE["int16"] if signed else 0)  # to be added before the shift
        below = -MORE["int8"] if signed else 0

        def half(value, more):
            value = value if not more else self.emit(call_op("add", value, Constant(np.asarray(more, SUMS))))
            return self.emit(call_op("astype", value, dtype=kind), x.name)

        shifted = self.emit(call_op("right_shift", wide, Constant(np.asarray(8, SUMS))))
        last = self.emit(call_op("bitwise_and", wide, Constant(np.asarray(255, SUMS))))
        return half(shifted, above // 256), half(last, below), -above - below

    def _with_padding(self, call):
        """(x with its zero point around, attributes without padding); (None, None) where that is not known."""
        x, _, zero, _ = call.args
        attrs = dict(call.attrs)
        padding = attrs.get("padding", ())
        if any(padding):
            x = self._padded(x, zero, padding)
            if x is None:
                return None, None
            attrs["padding"] = (0,) * len(padding)
        return x, attrs

    def _less_zero(self, call, total, name, zero, shifted, more=0):
        """A sum, less what the zero point of x adds to it; more: what x is more than what was multiplied."""
        dtype = call.attrs["out_dtype"]
        if isinstance(zero, Constant):
            zero = Constant(zero.data.astype(np.int64) - more, zero.name)
        if isinstance(zero, Constant) and not zero.data.any():
            return total
        if call.op == "qnn.matmul":
            sums = shifted.sum(axis=-2, keepdims=shifted.ndim > 2, dtype=np.int64)
        else:
            sums = shifted.sum(axis=tuple(range(1, shifted.ndim)), dtype=np.int64)
            sums = sums.reshape(1, -1, *[1] * (shifted.ndim - 2))
        less = Constant(sums.astype(dtype), f"{name}_sums")
        if isinstance(zero, Constant):
            less = Constant((sums * zero.data).astype(dtype), less.name)
        else:
            zero = self.emit(call_op("astype", zero, dtype=dtype))
            zero = zero if not more else self.emit(call_op("subtract", zero, Constant(np.asarray(more, dtype))))
            less = self.emit(call_op("multiply", zero, less))
        return call_op("subtract", total if isinstance(total, RelaxVar) else self.emit(total), less)

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
    """Constant weights less their zero point, in int32; None for others."""
    w, zero = call.args[1], call.args[3]
    if not isinstance(w, Constant) or not isinstance(zero, Constant) or w.data.ndim < 2:
        return None
    return w.data.astype(np.int32) - zero.data.astype(np.int32)


def short_parts(weight, axes, sums):
    """[(factor, part of int16)] whose sum integers `weight` are; along some axes int32 holds the sums of each times
    numbers of int16, which it does of the whole where `sums` says so. None where there are none: of too many terms."""
    if sums == SUMS:
        return [(1, weight.astype(np.int16))]
    for bits in range(15, 1, -1):
        parts, rest, half = [], weight.astype(np.int32), 1 << bits - 1
        while rest.any() or not parts:  # from the lowest on, each nearest to zero
            low = (rest + half & 2 * half - 1) - half
            parts.append((1 << bits * len(parts), low.astype(np.int16)))
            rest = rest - low >> bits
        if all(int(np.abs(part.astype(np.int64)).sum(axis=axes).max(initial=0)) < 1 << 16 for _, part in parts):
            return parts
    return None


def weight_halves(weight):
    """[(factor, Constant of bytes)] whose sum a Constant of bytes or of int16 is."""
    if str(weight.struct_info.dtype) in BYTES:
        return [(1, weight)]
    wide = weight.data.astype(np.int32)
    low = (wide + 128 & 255) - 128
    if (wide - low).max(initial=0) > 127 * 256:
        low = wide & 255
    return [(256, as_integers((wide - low) // 256, f"{weight.name}_high")), (1, as_integers(low, f"{weight.name}_low"))]


def as_integers(shifted, name, dtypes=BYTES):
    """Integers as a Constant of the first of some dtypes that holds them; None where none does."""
    for dtype in dtypes:
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        if least <= shifted.min(initial=0) and shifted.max(initial=0) <= most:
            return Constant(shifted.astype(dtype), name)
    return None


def _is_zero(zero):
    return isinstance(zero, Constant) and not zero.data.any()


def _reach(x, zero):
    """The largest magnitude of x - zero point."""
    least, most = map(int, x.struct_info.dtype.finite_range())
    if not isinstance(zero, Constant):
        return most - least
    return max(most - int(zero.data.min(initial=0)), int(zero.data.max(initial=0)) - least)


__all__ = ["as_integers", "qnn_canonicalize", "without_zero_point"]
