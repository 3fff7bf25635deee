"""Constants that were quantized stay integers: what multiplies by them is scaled after, or reads them as they are."""
from __future__ import annotations

from math import gcd

import numpy as np

from .. import op as op_table
from ..dtype import DataType
from ..expr import is_const_int
from ..relax.block_builder import call_op
from ..relax.expr import Constant, ShapeExpr
from ..relax.ops.contraction import FMA
from ..relax.ops.qnn import BYTES, PLAIN, SUMS, WIDE_SUMS, WORDS, sums_dtype
from ..tir.stored import LEAST_BYTES
from .graph import GraphRewriter, is_operator, on_main
from .identities import axes_of

OF_INTEGERS = {plain: name for name, plain in PLAIN.items()}
CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
LEAST_BLOCK = 8  # terms that share a scale, for a kernel that scales sums of blocks
FEW_BITS = 8  # integers of fewer have a kernel of their own; of others a byte holds what one zero point leaves


@on_main
def keep_quantized(func, target=None):
    """Ensures that products of data and constants that were both quantized, and of two matrices of such data, are those
    of the integers (qnn.matmul, qnn.conv2d, qnn.conv3d), scaled after, where a Target `target` multiplies bytes.
    Ensures that products, convolutions and rows taken of (w - zero point) * scale, of constant integers w, are those of
    w - zero point, and are scaled after; or, where terms of a sum have different scales, or w has few bits, are
    matmul_quantized. What else reads such weights reads floats."""
    return _KeepQuantized(target).run(func)


class _KeepQuantized(GraphRewriter):
    def __init__(self, target):
        self.target = target

    def call(self, binding, call):
        if call.op == "matmul":
            return self._of_integers(call) or self._product(call) or call
        if call.op in CONVOLUTIONS:
            return self._of_integers(call) or self._convolution(call) or call
        return self._rows(call) or call if call.op == "take" else call

    # ------------------------------------------------------------ what is quantized

    def _quantized(self, value):
        """(integers, zero point or None, scale), arrays of which the last two broadcast with the first, that a value is
        made of; None where it is another one, or few numbers."""
        made = self.producer(value, "multiply")
        if made is None or value.struct_info.dtype != "float32":
            return None
        inner, scale = made.args
        whole = self.producer(inner, "subtract")
        cast = self.producer(whole.args[0] if whole else inner, "astype")
        w = cast and cast.args[0]
        if not isinstance(w, Constant) or not w.struct_info.dtype.is_int or w.struct_info.dtype.bits > 8 or (
                4 * w.data.size < LEAST_BYTES or w.struct_info.static_shape != value.struct_info.static_shape):
            return None
        scale, zero = self._array(scale), self._array(whole.args[1]) if whole else None
        if scale is None or whole and zero is None or not np.isfinite(scale).all():
            return None
        return w, zero, scale

    def _array(self, value):
        """What a value that depends on constants alone is; None for others."""
        if isinstance(value, Constant):
            return value.data
        if isinstance(value, ShapeExpr):
            return tuple(d.value for d in value.values) if all(map(is_const_int, value.values)) else None
        made = self.definition.get(id(value))
        if not is_operator(made):
            return None
        arrays = []
        # No further than to the first that depends on more: what is behind may be the whole network
        for a in made.args:
            if (array := self._array(a)) is None:
                return None
            arrays.append(array)
        return op_table.get(made.op).evaluate(arrays, made.attrs)

    # ------------------------------------------------------------ products of integers

    def _of_integers(self, call):
        """The product of quantized data and constants, both with a scale of all, the constants with one for each column
        or output channel, too; and that of quantized matrices."""
        op, (data, weight) = OF_INTEGERS.get(call.op), call.args[:2]
        if self.target is None or op is None or len(call.args) > 2 or not _is_plain(call):
            return None
        parts = self._quantized(weight)
        if parts is None and op == "qnn.matmul":
            return self._of_matrices(self._moved(data), self._moved(weight))
        data = self._dequantized(data, (*BYTES, *WORDS))
        if data is None or parts is None or weight.struct_info.ndim != (
                2 if op == "qnn.matmul" else 4 + (op[-2] == "3")):
            return None
        (x, x_zero, x_scale), (w, zero, scale) = data, parts
        rest = (weight.struct_info.ndim - 1,) if op == "qnn.matmul" else (0,)
        if str(w.struct_info.dtype) not in BYTES or not self.target.multiplies_bytes:
            return None
        zero = np.zeros((), w.data.dtype) if zero is None else zero
        if not all(_varies_along(v, rest, w.data.ndim) for v in (zero, scale)):
            return None
        zero, scale = (v.reshape(()) if v.size == 1 else v for v in (zero, scale))
        attrs = {k: v for k, v in call.attrs.items() if k in ("strides", "padding", "dilation", "groups")}
        sums = sums_dtype(str(x.struct_info.dtype), int(x_zero), w.data.astype(np.int64) - zero.astype(np.int64), rest)
        total = self.emit(call_op(op, x, w, Constant(x_zero), Constant(zero.astype(w.data.dtype)), **attrs,
                                  out_dtype=sums))
        scale = (scale * x_scale).astype(np.float32)
        if scale.size > 1:
            scale = scale.reshape(-1) if op == "qnn.matmul" else scale.reshape(1, -1, *[1] * (w.data.ndim - 2))
        total = self.emit(call_op("astype", total, dtype="float32"))
        return call_op("multiply", total, Constant(scale, w.name + "_scale"))

    def _of_matrices(self, data, other):
        """The product of data that were quantized, both with a scale of all."""
        if data is None or other is None or not self.target.multiplies_bytes:
            return None
        (x, x_zero, x_scale), (w, w_zero, w_scale) = data, other
        bytes_ = all(str(v.struct_info.dtype) in BYTES for v in (x, w))
        if not bytes_ and not self._multiplies_words(x_zero, w_zero):
            return None
        total = self.emit(call_op("qnn.matmul", x, w, Constant(x_zero), Constant(w_zero),
                                  out_dtype=SUMS if bytes_ else WIDE_SUMS))
        scale = Constant((x_scale * w_scale).astype(np.float32), w.name + "_scale")
        return call_op("multiply", self.emit(call_op("astype", total, dtype="float32")), scale)

    def _multiplies_words(self, *zeros):
        """Whether matrices, of which one at least is of 16 bits, are multiplied as integers: as they are, without zero
        points, where nothing else computes floats than their own functions. Vectors take two to three times as many
        instructions for exact sums as for floats, of which onnxruntime makes the same."""
        return bool(self.target.integers and not self.target.has_tiles and not np.any(zeros))

    def _moved(self, value):
        """What _dequantized says of a value, or of integers in another order of axes, in which they are put here."""
        moved = self.producer(value, "permute_dims")
        made = self._dequantized(moved.args[0] if moved else value, (*BYTES, *WORDS))
        if not made or not moved:
            return made
        return self.emit(call_op("permute_dims", made[0], axes=moved.attrs["axes"]), made[0].name), *made[1:]

    def _dequantized(self, value, kinds=BYTES):
        """(integers of one of some dtypes, zero point, scale), of which the last two are one number each, that a value
        is made of; None for another one."""
        made = self.producer(value, "multiply")
        scale = made and self._array(made.args[1])
        if scale is None or scale.size != 1 or value.struct_info.dtype != "float32":
            return None
        whole = self.producer(made.args[0], "subtract")
        cast = self.producer(whole.args[0] if whole else made.args[0], "astype")
        zero = self._array(whole.args[1]) if whole else np.zeros((), np.float32)
        if cast is None or zero is None or zero.size != 1 or str(cast.args[0].struct_info.dtype) not in kinds:
            return None
        return cast.args[0], zero.reshape(()).astype(cast.args[0].struct_info.dtype.numpy), scale.reshape(())

    # ------------------------------------------------------------ products

    def _product(self, call):
        x, weight = call.args[:2]
        if call.attrs["arithmetic"] != FMA or call.attrs["b_layout"] != "KN" or x.struct_info.dtype != "float32" or (
                weight.struct_info.ndim != 2 or x.struct_info.ndim < 2):
            return None
        turned = self.producer(weight, "permute_dims")
        if turned and axes_of(turned) != (1, 0):
            return None
        parts = self._quantized(turned.args[0] if turned else weight)
        if parts is None:
            return None
        w, zero, scale = parts
        shape, turn = w.data.shape, np.transpose if turned else np.asarray
        scale = turn(np.broadcast_to(scale, shape))
        zero = turn(np.broadcast_to(np.float32(0) if zero is None else zero, shape))
        size = _block(scale, zero)
        if size is None and w.struct_info.dtype.bits >= FEW_BITS and (zero == zero[:1, :1]).all():
            whole = Constant(turn(w.data).astype(np.float32) - zero, w.name)
            return call_op("multiply", self.emit(call_op("matmul", x, whole)), Constant(scale[:1].copy(), w.name))
        size = size or len(scale)
        return self._of_blocks(x, w, turn(w.data), zero, scale, size) if size >= LEAST_BLOCK else None

    def _of_blocks(self, x, w, data, zero, scale, size):
        """The product that reads columns in blocks of `size` terms, up to whole words of which they are filled."""
        size = -(-size // LEAST_BLOCK) * LEAST_BLOCK if size == len(data) else size
        bits, rest = w.struct_info.dtype.bits, -len(data) % size
        middle = 1 << bits - 1 if w.struct_info.dtype.code == "uint" else 0
        signed = np.pad(data.astype(np.int16) - middle, ((0, rest), (0, 0)))
        zero = zero[::size].astype(np.float32) - middle
        scales = Constant(np.ascontiguousarray(scale[::size].T), w.name + "_scale")
        zeros = [Constant(np.ascontiguousarray(zero.T), w.name + "_zero_point")] if zero.any() else []
        columns = Constant(np.ascontiguousarray(signed.T).astype(DataType(f"int{bits}").numpy), w.name)
        if rest:
            pads = (*(0, 0) * (x.struct_info.ndim - 1), 0, rest)
            x = self.emit(call_op("nn.pad", x, pad_width=pads, pad_value=0.0))
        return call_op("matmul_quantized", x, columns, scales, *zeros)

    # ------------------------------------------------------------ convolutions, rows

    def _convolution(self, call):
        """The weights of each output channel have one scale."""
        parts = self._quantized(call.args[1]) if call.attrs["kernel_layout"][:2] == "OI" else None
        if parts is None or len(call.args) > 2 or call.args[0].struct_info.dtype != "float32":
            return None
        w, _, scale = parts
        if scale.size not in (1, scale.shape[0] if scale.ndim == w.data.ndim else 1):
            return None
        done = self.emit(call.replace(args=(call.args[0], _whole(parts))))
        shape = (1, -1, *[1] * (w.data.ndim - 2)) if scale.size > 1 else ()
        return call_op("multiply", done, Constant(scale.reshape(shape).astype(np.float32), w.name + "_scale"))

    def _rows(self, call):
        """Rows are taken of the integers, and of scales that differ from row to row."""
        table, places = call.args
        parts = self._quantized(table) if call.attrs["axis"] == 0 else None
        if parts is None:
            return None
        w, zero, scale = parts
        few = w.struct_info.dtype.bits < FEW_BITS or zero is not None and (zero != zero.flat[0]).any()
        rows = self.emit(call.replace(args=(w if few else _whole(parts), places)))
        if few:
            rows = self.emit(call_op("astype", rows, dtype="float32"))
            if zero is not None:
                rows = self.emit(call_op("subtract", rows, self._taken(zero, w, places, "_zero_point")))
        return call_op("multiply", rows, self._taken(scale, w, places, "_scale"))

    def _taken(self, values, w, places, suffix):
        """What broadcasts with the rows of w that are taken: of numbers that broadcast with w, one for each block."""
        values, name = values.reshape((1,) * (w.data.ndim - values.ndim) + values.shape), w.name + suffix
        if values.shape[0] == 1:
            return Constant(values.reshape((1,) * places.struct_info.ndim + values.shape[1:]), name)
        size = _block(values.T) if values.ndim == 2 else 1
        if size is None or values.shape[1] % size:
            size = 1 if size else values.shape[1]
        found = self.emit(call_op("take", Constant(np.ascontiguousarray(values[:, ::size]), name), places, axis=0))
        wide = 1 < size < values.shape[1]
        return self.emit(call_op("repeat", found, repeats=size, axis=found.struct_info.ndim - 1)) if wide else found


def _is_plain(call):
    """Whether a product is of plain layouts, by FMAs."""
    if call.op == "matmul":
        return call.attrs["arithmetic"] == FMA and call.attrs["b_layout"] == "KN" and not call.attrs["out_dtype"]
    return call.attrs["kernel_layout"] in ("OIHW", "OIDHW") and not call.attrs["out_dtype"]


def _varies_along(values, axes, ndim):
    """Whether values that broadcast with a tensor of so many dimensions differ along these axes alone."""
    shape = (1,) * (ndim - values.ndim) + values.shape
    return all(n == 1 or k in axes for k, n in enumerate(shape))


def _whole(parts):
    """The integers without their zero point, as floats."""
    w, zero, _ = parts
    whole = w.data.astype(np.float32)
    return Constant(whole if zero is None else whole - zero.astype(np.float32), w.name)


def _block(*arrays):
    """How many rows of [K, N] follow one another that are equal in all arrays; None where all are."""
    at = [np.flatnonzero((a[1:] != a[:-1]).any(axis=1)) + 1 for a in arrays]
    return gcd(*map(int, np.concatenate(at))) or None
