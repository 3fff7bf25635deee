"""Products of matrices of 16 bits that only a run knows, as pairs of int16 (QnnCanonicalize).

int32 holds no sum of products of two numbers of 16 bits. It holds those of one and a part of the other: columns of 16
bits are cut in two,

    w = 256 h + l, -128 <= h, l <= 128        sum x w = 256 sum x h + sum x l

and long sums in pieces of up to 511 terms. Bytes that meet numbers of 16 bits are one part as they are. The
pieces' sums are added up in int64.
"""
from __future__ import annotations

import numpy as np

from ..expr import is_const_int
from ..relax.block_builder import call_op
from ..relax.expr import Constant
from ..relax.ops.qnn import BYTES, MORE, SUMS, WORDS
from .identities import axes_of

HALF = 128  # the most that a part of 16 bits is
MOST_SUM = 2 ** 31 - 1
MOST_PIECES = 16  # of a sum; longer ones stay whole


def short_pieces(x, w):
    """[(begin, end)] of the pieces in which int32 holds the sums of a product of matrices of some struct infos, of
    which one at least is of 16 bits; None for others, for sizes that only a run knows, and for too long sums."""
    kinds = [str(info.dtype) for info in (x, w)]
    if not set(kinds) & set(WORDS) or not set(kinds) <= {*BYTES, *WORDS} or min(x.ndim, w.ndim) < 2 or not all(
            map(is_const_int, (x.shape[-1], *w.shape[-2:]))) or not w.shape[-2].value:
        return None
    left, right = (_most(kind) for kind in kinds)
    pieces = _pieces(w.shape[-2].value, MOST_SUM // (left * (HALF if _in_parts(x, w) else right)))
    return pieces if len(pieces) <= MOST_PIECES else None


def of_short_matrices(rewriter, call):
    """The qnn.matmul of matrices that have short_pieces as products of int16 with sums of int32; None for others, and
    where an int32 of all is asked for that zero points may be taken off."""
    x, w, *zeros = call.args
    infos = [v.struct_info for v in (x, w)]
    pieces, sums = short_pieces(*infos), call.attrs["out_dtype"]
    if pieces is None:
        return None
    terms = infos[1].shape[-2].value
    x, x_zero = _signed(rewriter, x, zeros[0])
    moved = rewriter.producer(w, "permute_dims")
    w, w_zero = _signed(rewriter, moved.args[0] if moved else w, zeros[1])
    axes = axes_of(moved) if moved else tuple(range(infos[1].ndim))
    plain = all(isinstance(zero, Constant) and not zero.data.any() for zero in (x_zero, w_zero))
    if sums == SUMS:  # which holds the sums, it is said
        return call_op("matmul", x, _moved(rewriter, w, axes), out_dtype=SUMS) if plain else None
    total = None
    for begin, end in pieces:
        row = _slice(rewriter, x, x.struct_info.ndim - 1, begin, end, terms)
        column = _slice(rewriter, w, axes[-2], begin, end, terms)
        for factor, part in _parts(rewriter, column) if _in_parts(*infos) else [(1, column)]:
            one = call_op("matmul", row, _moved(rewriter, part, axes), out_dtype=SUMS)
            total = rewriter.added(total, one, factor, sums)
    if plain:
        return total
    return _less_zeros(rewriter, total, (x, x_zero), (_moved(rewriter, w, axes), w_zero), terms, sums)


def _in_parts(x, w):
    """Whether columns are cut in two: both are of 16 bits."""
    return {str(x.dtype), str(w.dtype)} <= set(WORDS)


def _most(kind):
    """The greatest magnitude of a dtype's numbers, as those of int16 stand for them."""
    return -int(np.iinfo("int16").min) if kind in WORDS else max(map(abs, map(int, (
        np.iinfo(kind).min, np.iinfo(kind).max))))


def _pieces(terms, most):
    """[(begin, end)] of as few pieces of a sum as may be, of up to `most` terms and of whole words but for the last."""
    count = -(-terms // (most // 2 * 2))
    size = -(-terms // count)
    size += size % 2
    return [(begin, min(begin + size, terms)) for begin in range(0, terms, size)]


def _signed(rewriter, x, zero):
    """(x as int16, its zero point as int32), of which the differences are the same."""
    dtype = str(x.struct_info.dtype)
    zero = rewriter.wide(zero)
    if dtype == "int16":
        return x, zero
    if dtype == "uint16":
        more = Constant(np.array(MORE[dtype], np.int32))
        x, zero = rewriter.sum(rewriter.wide(x), more), rewriter.sum(zero, more)
    return _cast(rewriter, x, "int16"), zero


def _cast(rewriter, x, dtype):
    if isinstance(x, Constant):
        return Constant(x.data.astype(dtype), x.name)
    return rewriter.emit(call_op("astype", x, dtype=dtype), x.name)


def _slice(rewriter, x, axis, begin, end, terms):
    if end - begin == terms:
        return x
    return rewriter.emit(call_op("strided_slice", x, axes=(axis,), begin=(begin,), end=(end,), strides=(1,)), x.name)


def _moved(rewriter, x, axes):
    return x if axes == tuple(range(len(axes))) else rewriter.emit(call_op("permute_dims", x, axes=axes), x.name)


def _parts(rewriter, w):
    """[(factor, part of int16)] whose sum int16 are, both parts of magnitudes up to HALF."""
    wide = rewriter.sum(rewriter.wide(w), Constant(np.array(HALF, np.int32)))
    high = rewriter.emit(call_op("right_shift", wide, Constant(np.array(8, np.int32))))
    low = rewriter.emit(call_op("bitwise_and", wide, Constant(np.array(255, np.int32))))
    low = rewriter.sum(low, Constant(np.array(-HALF, np.int32)))
    return [(256, _cast(rewriter, high, "int16")), (1, _cast(rewriter, low, "int16"))]


def _less_zeros(rewriter, total, rows, columns, terms, sums):
    """The sum of (x - a) (w - b), of that of x w: less a (sum w - K b), less b sum x."""
    (x, x_zero), (w, w_zero) = rows, columns
    less = rewriter.less(rewriter.total(w, -2), w_zero, Constant(np.array(terms, np.int32)))
    x_zero, w_zero, less, more = (_cast(rewriter, v, sums) for v in (x_zero, w_zero, less, rewriter.total(x, -1)))
    return rewriter.less(rewriter.less(total, x_zero, less), w_zero, more)


__all__ = ["of_short_matrices"]
