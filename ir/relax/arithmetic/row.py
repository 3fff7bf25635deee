"""A row of the table of arithmetics, the description of a computation that it reads, and the error bounds that rows
share.

u = 2^-24 is the unit roundoff of float32. Bounds leave out what is below the least normal number of float32.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

FLOAT32, STRICT, RELAXED = ACCURACIES = ("float32", "strict", "relaxed")
U = 2.0 ** -24
TERMS = 256  # of a block of a long sum: errors of float32 sums of 4096 terms are then about those of 272
CHAIN = 384  # terms that are added up in one go at most; more make blocks (transform/split_sums.py)
SUMS = f"(min(K, {CHAIN}) + K / {TERMS} + 2) u |x| |w|"
LANES = 16  # columns of a vector, and channels of a block of an image


@dataclass(frozen=True)
class Operand:
    """An operand that stands for the columns w [K, N], or a part of it. suffix: of a constant's name."""

    name: str
    rank: int
    dtype: str = "float32"
    suffix: str | None = None

    def __post_init__(self):
        if self.suffix is None:
            object.__setattr__(self, "suffix", f"_{self.name}")


@dataclass(frozen=True)
class Rows:
    """Where a computation has the rows x [M, K] of a product.

    outer, lines, points: extents of the indices `at` of a row. Lines of points are what an image has; a matrix has
    lines that are rows, and no points. terms: extents of the indices of a term: (K,), or (blocks, 16) of channels.
    element(at, k): the term k, a tuple of indices, of a row.
    """

    outer: tuple
    lines: object
    points: tuple
    terms: tuple
    element: Callable

    @property
    def extents(self):
        return *self.outer, self.lines, *self.points

    @property
    def depth(self):
        return prod(self.terms)

    def term(self, at, k):
        """The k-th term of a row."""
        return self.element(at, (k,) if len(self.terms) == 1 else (k // LANES, k % LANES))


@dataclass(frozen=True)
class Scales:
    """Scales of rows, or of lines of them: scale(at) and inverse(at), what numbers are multiplied with, of a row."""

    scale: Callable
    inverse: Callable


@dataclass(frozen=True)
class Scaling:
    """How an arithmetic scales rows: stages largest(shape, element(*i), reduce axes) and scale(largest), and the
    expression inverse(scale, bound) for numbers up to `bound` times those that the scale is of. by_line: the points of
    a line share a scale, so that one that is not finite makes NaN of them all; else of its row alone."""

    largest: Callable
    scale: Callable
    inverse: Callable
    by_line: bool


@dataclass(frozen=True)
class Arithmetic:
    """How products are made of machine operations: a row of ARITHMETICS.

    bound: the text of |y - y*| <= ...
    limit: the same as a function of float64 arrays, x [M, K] and w [K, N] -> [M, N] of products, tiles of inputs
      [T, C, rows, columns] and w [O, C, KH, KW] -> [T, O] of Winograd's.
    keeps: the accuracies that admit it. needs(target): whether a machine has what it takes. pace: the cost that says
      how many times as fast as FMAs a network may be by it, in the work that threads share.

    Rows with operands of their own also have

    operands: of Operand, packed columns first, then numbers of columns. rows, result: dtypes of x and of products.
    shapes(depth, columns, given): the shapes of the operands; `given`, those there are, may leave a choice.
    most: terms that may be summed, None for any number. block: terms that rows of a matrix are filled up to blocks of.
    packs(w): whether columns w [K, N] may be packed. pack(w, **layout) -> the operands. unpack(operands, depth) -> what
      they stand for, [K, N] of float64.
    scaling: the Scaling of rows; None where they have no scale.
    prepare(rows, operands, scales) -> the stages of what rows become, as the next two know them. scales: of a
      computation that has them (Scales); None: rows have their own.
    accumulate(made, rows, operands, place, planes) -> the stage of sums. place(outer, panel): which of the panels of
      the operands that is, as `planes` of the outer indices have columns of their own; a tuple of indices where
      operands are a batch.
    finish(made, rows, operands, sums, at, column, own) -> the result for a row and a column (block of 16, lane), of
      which own(operand) is the number.
    """

    name: str
    bound: str
    limit: Callable
    keeps: frozenset
    needs: Callable = lambda target: True
    pace: str | None = None
    operands: tuple = ()
    rows: str = "float32"
    result: str = "float32"
    shapes: Callable | None = None
    most: int | None = None
    block: int = 1
    packs: Callable = lambda w: bool(np.isfinite(w).all())
    pack: Callable | None = None
    unpack: Callable | None = None
    scaling: Scaling | None = None
    prepare: Callable | None = None
    accumulate: Callable | None = None
    finish: Callable | None = None

    def __str__(self):
        return f"{self.name}: |y - y*| <= {self.bound}"

    def admitted(self, target, accuracy):
        """Whether a machine has it, and an accuracy admits it."""
        return accuracy in self.keeps and self.needs(target)


EVERY, ONLY_RELAXED = frozenset(ACCURACIES), frozenset({RELAXED})


# ---------------------------------------------------------------- bounds

def growth_of_sums(terms):
    """The constant c of |y - y*| <= c u |x| |w| for blocked sums of K terms: the roundings that a term goes through,
    and that of its product where that is one of its own."""
    return min(terms, CHAIN) + terms / TERMS + 2


def of_elements(x, w):
    """The bound SUMS."""
    return growth_of_sums(len(w)) * U * (np.abs(x) @ np.abs(w))


def of_largest(factor):
    """The bound factor u K max|x| max|w|, of a row and a column."""
    def limit(x, w):
        return factor * U * len(w) * np.outer(np.abs(x).max(axis=1, initial=0), np.abs(w).max(axis=0, initial=0))
    return limit


def of_half_elements(x, w):
    """The bound SUMS of sums in float16, of which 2^-11 is the unit roundoff."""
    return growth_of_sums(len(w)) * 2.0 ** -11 * (np.abs(x) @ np.abs(w))


# Of float16, sums among it, that do not leave its range, 65504, and are no less than its least normal number.
FP16 = Arithmetic("fp16", SUMS.replace(" u ", " 2^-11 ") + ", in float16", of_half_elements, frozenset(),
                  needs=lambda target: target.halves is not None)
FMA = Arithmetic("fma", f"{SUMS}, for K terms", of_elements, EVERY)
