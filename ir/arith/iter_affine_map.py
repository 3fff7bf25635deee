"""Iteration maps as TVM's users know them: marks, splits and sums of splits.

An IterMark is a counter [0, extent): a loop, or a sum of splits that is divided or bounded further. An IterSplitExpr is
(source // lower_factor) % extent * scale of a mark, an IterSumExpr a sum of splits plus a base. The Detector of
iter_map finds the structure; here it is given its public form.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from ..expr import PrimExpr, as_expr, const, logical_or
from ..node import Node, node
from .iter_map import ANY, COMPLETE, ONTO, Detector, Fragment, NotAffine
from .linear import ONE, ZERO, render
from .pattern import conjuncts


class IterMapLevel(IntEnum):
    """The level of detect_iter_map's checks: each digit of the loops is used once; none is used twice (surjective);
    none."""

    Bijective = 0
    Surjective = 1
    NoCheck = 3

    @staticmethod
    def of(level):
        """The level of a member, a number or a name in any case; ValueError for others."""
        if isinstance(level, str):
            found = {m.name.lower(): m for m in IterMapLevel}.get(level.lower())
            if found is None:
                raise ValueError(f"check_level must be one of {', '.join(m.name for m in IterMapLevel)}, not {level!r}")
            return found
        return IterMapLevel(level)


@node
class IterMark(Node):
    """A counter that runs over [0, extent); `source` says what counts: a Var or an IterSumExpr."""

    source: PrimExpr
    extent: PrimExpr

    def __post_init__(self):
        object.__setattr__(self, "extent", as_expr(self.extent, self.source.dtype))


class IterMapExpr(PrimExpr):
    """Base of IterSplitExpr and IterSumExpr."""

    __slots__ = ()

    __str__ = Node.__repr__


@node
class IterSplitExpr(IterMapExpr):
    """(source // lower_factor) % extent * scale."""

    source: IterMark
    lower_factor: PrimExpr = None
    extent: PrimExpr = None
    scale: PrimExpr = None

    def __post_init__(self):
        one = const(1, self.source.extent.dtype)
        for name, default in (("lower_factor", one), ("extent", self.source.extent), ("scale", one)):
            value = getattr(self, name)
            object.__setattr__(self, name, default if value is None else as_expr(value, one.dtype))

    @property
    def dtype(self):
        return self.source.source.dtype


@node
class IterSumExpr(IterMapExpr):
    """The sum of `args` plus `base`; args are IterSplitExprs, the largest scale first."""

    args: tuple
    base: PrimExpr

    def __post_init__(self):
        object.__setattr__(self, "args", tuple(self.args))
        object.__setattr__(self, "base", as_expr(self.base))

    @property
    def dtype(self):
        return self.args[0].dtype if self.args else self.base.dtype


@dataclass(frozen=True)
class IterMapResult:
    """The result of detect_iter_map: one IterSumExpr per index, none when `errors` says why not.

    padding_predicate holds where the inverse of the map names iterations that do not exist, in terms of the loops.
    """

    indices: list = field(default_factory=list)
    errors: list = field(default_factory=list)
    padding_predicate: PrimExpr = const(False)


def detect_iter_map(indices, input_iters, predicate=True, check_level=IterMapLevel.Surjective,
                    simplify_trivial_iterators=True):
    """Read `indices` over the loops {Var: Range} as sums of splits; see IterMapResult and IterMapLevel.

    predicate bounds the loops. But for Bijective, a loop is lengthened to a multiple of what divides it; Surjective
    then asks that its real values meet all that the indices may be. With simplify_trivial_iterators, a loop of one
    iteration is its only value.
    """
    level = IterMapLevel.of(check_level)
    check = {IterMapLevel.Bijective: COMPLETE, IterMapLevel.Surjective: ONTO, IterMapLevel.NoCheck: ANY}[level]
    for coarse in (False, True) if conjuncts(predicate) else (True,):
        found = _detect(Detector(indices, input_iters, predicate, None, check, strided=True, coarse=coarse,
                                 pad=level != IterMapLevel.Bijective, keep_unit=not simplify_trivial_iterators))
        if not found.errors:
            break
    return found


def detect_bijection(indices, input_iters, pad):
    """The IterMapResult of a map that is one to one onto a box; with `pad`, once loops are lengthened as needed."""
    return _detect(Detector(indices, input_iters, None, None, COMPLETE, pad=pad))


def _detect(detector):
    try:
        marks, values = Marks(detector), detector.run()
        found = [marks.of_value(v) for v in values]
    except NotAffine as stop:
        return IterMapResult(errors=[str(stop)])
    padding = const(False)
    for part in detector.paddings:
        padding = logical_or(padding, part)
    return IterMapResult(found, [], padding)


class Marks:
    """Public forms of what one Detector found; a source has one mark."""

    def __init__(self, detector):
        self.detector, self.known = detector, {}

    def of_value(self, value):
        """The IterSumExpr of a Value; a sum of several splits becomes a mark."""
        if len(value.pieces) <= 1:
            return self._sum(value.base, value.pieces, value.dtype)
        inner = [(f, self._over(scale, value.unit, value.dtype)) for f, scale in value.pieces]
        mark = IterMark(self._sum(ZERO, inner, value.dtype), render(value.extent, value.dtype))
        return IterSumExpr((IterSplitExpr(mark, scale=render(value.unit, value.dtype)),),
                           render(value.base, value.dtype))

    def _over(self, scale, unit, dtype):
        if unit.key == ONE.key:
            return scale
        canonical = self.detector.an.canonical
        return canonical.linear(render(scale, dtype) // render(unit, dtype))

    def _sum(self, base, pieces, dtype):
        return IterSumExpr([self.split(f, scale) for f, scale in pieces], render(base, dtype))

    def split(self, fragment, scale):
        """The IterSplitExpr of a Fragment times a scale."""
        dtype = fragment.source.dtype
        while fragment.source in self.detector.digits:
            whole = self.detector.digits[fragment.source]
            lower = self.detector.an.canonical.multiply(whole.lower, fragment.lower)
            fragment = Fragment(whole.source, lower, fragment.extent)
        return IterSplitExpr(self._mark(fragment.source), *(
            render(form, dtype) for form in (fragment.lower, fragment.extent, scale)))

    def _mark(self, v):
        found = self.known.get(v)
        if found is None:
            base, pieces = self.detector.made.get(v, (ZERO, None))
            if pieces:
                source = self._sum(base, pieces, v.dtype)
            else:
                source = self.detector.loop_of.get(v, v) - render(base, v.dtype)
            found = self.known[v] = IterMark(source, render(self.detector.extent_of[v], v.dtype))
        return found
