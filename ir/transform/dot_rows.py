"""DotRows: the products of two rows of bytes, and their sum, are one call."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import Add, Call, Cast, Mul, const, is_const_int, substitute
from ..node import structural_equal
from ..tir.hints import DOT_ROW
from ..tir.intrinsics import DOTS
from ..tir.stmt import BufferLoad, BufferStore
from .walk import rewrite_annotated

ROW = 16  # bytes
_NAMES = {dtypes: name for name, dtypes in DOTS.items()}


def dot_rows(func):
    """Requires flat buffers. Ensures no annotation pragma_dot_row: in a loop with it

        for t in 16: c[i] = c[i] + int32(a[j + t]) * int32(b[k + t])
    becomes
        c[i] = dot_row_s8s8(a[j], b[k], c[i])

    where a and b are of bytes; the two stand for those of a row. Other loops stay as they are."""
    return func.replace(body=rewrite_annotated(func.body, DOT_ROW, lambda loop, _: _of_rows(loop) or loop))


def _of_rows(loop):
    store = loop.body
    if not is_const_int(loop.extent, ROW) or not isinstance(store, BufferStore) or not isinstance(store.value, Add):
        return None
    total, product = store.value.a, store.value.b
    if not isinstance(product, Mul) or not isinstance(total, BufferLoad) or not total.buffer.same_as(store.buffer) or (
            not structural_equal(total.indices, store.indices)):
        return None
    rows = [_row(factor, loop.loop_var) for factor in (product.a, product.b)]
    name = None if None in rows else _NAMES.get(tuple(str(row.dtype) for row in rows))
    if name is None:
        return None
    return store.replace(value=Call(store.value.dtype, f"tir.{name.replace('dot', 'dot_row')}", (*rows, total)))


def _row(factor, t):
    """The first byte of a row that a factor takes one after the other; None for another factor."""
    load = factor.value if isinstance(factor, Cast) else None
    if not isinstance(load, BufferLoad) or Analyzer().step(load.indices[0], t) != 1:
        return None
    return load.replace(indices=(Analyzer().simplify(substitute(load.indices[0], {t: const(0, t.dtype)})),))
