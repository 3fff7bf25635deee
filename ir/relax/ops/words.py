"""qnn.words: matrices of bytes, or of int16, that a run makes, as the columns of a product by words of four terms, or two.

Data is [..., K, N], or [..., N, K] where it lies `across`; the result is [..., ceil(N / panel), ceil(K / terms), panel]
of int32, as relax/arithmetic/dot_product.py has it. What fills up the last word repeats the last term, for rows that are
zero there, and what fills up the last panel repeats columns, of which no result is made: so nothing is a condition.
"""
from __future__ import annotations

from math import gcd

import numpy as np

from ... import te, tir
from ...expr import const, is_const_int
from ...op import REQUIRED, register
from ...tir import intrin
from ..arithmetic.dot_product import WORD, word, words_of
from ..expr import TensorStructInfo
from .common import as_dim, fail, shape_text, te_shape, tensor
from .qnn import BYTES, SUMS

KINDS = (*BYTES, "int16")


def _sizes(shape, attrs):
    """(K, N) of data of a shape."""
    *_, depth, columns = shape
    return (columns, depth) if attrs["across"] else (depth, columns)


def _terms(dtype):
    """How many numbers of a dtype a word has."""
    return WORD // (dtype.bits // 8)


def _infer(call):
    x, panel = tensor(call), call.attrs["panel"]
    if str(x.dtype) not in KINDS or x.ndim < 2 or not all(map(is_const_int, x.shape[-2:])):
        fail(call, f"takes matrices of {', '.join(KINDS)}, of static sizes, not {shape_text(x)} of {x.dtype}")
    depth, columns = (d.value for d in _sizes(x.shape, call.attrs))
    if panel < 1 or not depth or not columns or call.attrs["across"] and depth % _terms(x.dtype):
        fail(call, f"takes panels of at least 1 column, not {panel}, of matrices that are not empty, with whole words "
                   f"where they lie across, not {shape_text(x)}")
    sizes = (-(-columns // panel), -(-depth // _terms(x.dtype)), panel)
    return TensorStructInfo((*x.shape[:-2], *map(as_dim, sizes)), SUMS)


def _lower(args, attrs, out):
    x, = args
    depth, columns = map(int, _sizes(x.shape, attrs))
    panel, terms = attrs["panel"], _terms(x.dtype)
    bits = x.dtype.bits
    unit = gcd(columns, panel)  # columns that are whole in the last panel, or not there

    def along(batch, k, n):
        """By Horner's rule, of whose steps 32 bits hold each."""
        total = None
        for t in reversed(range(terms)):
            row = k * terms + t
            value = x[(*batch, row if depth % terms == 0 else tir.min(row, const(depth - 1, row.dtype)), n)]
            value = value.astype(f"{'u' * (total is not None)}int{bits}").astype(SUMS)
            total = value if total is None else total * (1 << bits) + value
        return total

    def element(*i):
        *batch, p, k, lane = i
        n = p * panel + lane
        if columns % panel:
            n = tir.min(p * panel + lane // unit * unit, const(columns - unit, lane.dtype)) + lane % unit
        if attrs["across"]:
            return word(lambda term: x[(*batch, n, term)], k, terms)
        return along(batch, k, n)

    return te.compute(te_shape(out), element, name="words")


def _evaluate(args, attrs):
    x, panel = np.asarray(args[0]), attrs["panel"]
    x = x.swapaxes(-1, -2) if attrs["across"] else x
    (depth, columns), terms = x.shape[-2:], WORD // x.dtype.itemsize
    unit, n = gcd(columns, panel), np.arange(-(-columns // panel) * panel)
    n = np.minimum(n // unit * unit, columns - unit) + n % unit
    x = x[..., np.minimum(np.arange(-(-depth // terms) * terms), depth - 1), :][..., n]
    return np.stack([words_of(w, panel) for w in x.reshape(-1, *x.shape[-2:])]).reshape(
        *x.shape[:-2], len(n) // panel, -1, panel)


register("qnn.words", _infer, _lower, _evaluate, "injective", (1, 1), panel=REQUIRED, across=False)
