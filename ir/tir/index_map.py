"""IndexMap: how a buffer's indices become those of another layout."""
from __future__ import annotations

import inspect
from math import lcm

import numpy as np

from ..arith import Analyzer, detect_bijection, eval_range, inverse_affine_iter_map
from ..expr import (EQ, GE, LT, BinaryExpr, CompareExpr, FloorMod, IntImm, Or, Range, Var, as_expr, binary, const,
                    free_vars, is_const_int, logical_and, logical_or, substitute)
from ..node import Mutator, Node, collect, node, node_field
from .values import values_of


@node
class IndexMap(Node):
    """final_indices: expressions over the Vars initial_indices, such as (i, j) -> (i // 4, j, i % 4)."""

    initial_indices: tuple = node_field(define=True)
    final_indices: tuple = ()
    _is_closed = True
    AXIS_SEPARATOR = "axis_separator"  # among the results of a function: the next index is of another physical axis

    @staticmethod
    def from_func(mapping_function, ndim=None, *, index_dtype="int32"):
        """The map of a Python function from indices to a list or tuple of indices (or one index).

        ndim: the number of indices, needed where the function takes any, as lambda *i: i[::-1] does; arguments behind
        such are the last indices. Raises TypeError when the number is not known or the result is something else, an
        AXIS_SEPARATOR too.
        """
        index_map, separators = IndexMap.from_func_with_separators(mapping_function, ndim, index_dtype=index_dtype)
        if separators:
            raise TypeError("an index map has no AXIS_SEPARATOR; only transform_layout of a buffer takes them")
        return index_map

    @staticmethod
    def from_func_with_separators(mapping_function, ndim=None, *, index_dtype="int32"):
        """(the map of a function, the positions among its results before which AXIS_SEPARATOR stands)."""
        names, last, rest = [], [], None
        for p in inspect.signature(mapping_function).parameters.values():
            if p.kind is p.VAR_POSITIONAL:
                rest = p.name
            elif p.kind is p.VAR_KEYWORD:
                raise TypeError(f"an index map takes indices, which **{p.name} are not")
            else:
                (last if p.kind is p.KEYWORD_ONLY else names).append(p.name)
        if rest is not None:
            more = -1 if ndim is None else ndim - len(names) - len(last)
            if more < 0:
                raise TypeError(f"an index map of any number of indices (*{rest}) needs ndim, at least "
                                f"{len(names) + len(last)}, not {ndim}")
            names += [f"{rest}_{n}" for n in range(more)]
        variables = [Var(name, index_dtype) for name in (*names, *last)]
        result = mapping_function(*variables[:len(names)], **dict(zip(last, variables[len(names):])))
        result = result if isinstance(result, (list, tuple)) else (result,)
        final, separators = [], []
        for e in result:
            if isinstance(e, str) and e == IndexMap.AXIS_SEPARATOR:
                separators.append(len(final))
            elif isinstance(e, str):
                raise TypeError(f"an index map gives indices, not {e!r}")
            else:
                final.append(as_expr(e, index_dtype))
        return IndexMap(tuple(variables), tuple(final)), separators

    def map_indices(self, indices):
        """The new indices of an element; dtypes follow the given indices."""
        return _Rebuild(dict(zip(self.initial_indices, map(as_expr, indices)))).visit(self.final_indices)

    def ranges(self, shape):
        """([variables], {variable: Range}) of all indices of a shape (extents or Ranges), in its dtypes.

        Raises ValueError when the shape has another rank than the map.
        """
        if len(shape) != len(self.initial_indices):
            raise ValueError(f"{self} takes {len(self.initial_indices)} indices; the shape has {len(shape)} dimensions")
        ranges = [r if isinstance(r, Range) else Range.from_min_extent(0, r) for r in shape]
        variables = [Var(v.name, r.extent.dtype) for v, r in zip(self.initial_indices, ranges)]
        return variables, dict(zip(variables, ranges))

    def map_ranges(self, ranges, whole=False):
        """The Range of each new index while the old ones run over `ranges`; ValueError where one is not known. whole:
        with the places that a remainder leaves empty, as i % 4 of three elements."""
        variables, ranges = self.ranges(ranges)
        ranges = self._lengthened(ranges) if whole else ranges
        found = [eval_range(e, ranges) for e in self.map_indices(variables)]
        for position, ends in enumerate(found):
            if ends is None:
                raise ValueError(f"no bounds are known of index {position} of {self}")
        an = Analyzer()
        return tuple(Range(low, an.simplify(high - low + 1)) for low, high in found)

    def _lengthened(self, ranges):
        """`ranges`, {variable: Range}, where an index of which remainders by a larger number are taken has so many
        values: all of them have a place."""
        most = {v.name: [] for v in ranges}
        for e in collect(self.final_indices, FloorMod):
            if isinstance(e.a, Var) and is_const_int(e.b):
                most.get(e.a.name, []).append(e.b.value)
        return {v: Range(r.min, const(lcm(*most[v.name]), v.dtype)) if is_const_int(r.extent) and is_const_int(
            r.min, 0) and max(most[v.name], default=0) > r.extent.value else r for v, r in ranges.items()}

    def map_shape(self, shape):
        """The new extents of a buffer; ValueError when an index may be negative or has no bounds."""
        ranges = self.map_ranges(shape, whole=True)
        if not all(Analyzer().can_prove(r.min >= 0) for r in ranges):
            raise ValueError(f"{self} gives indices that may be negative")
        return tuple(Analyzer().simplify(r.min + r.extent) for r in ranges)

    def map_ndarray(self, arr_src):
        """An array (an NDArray, or of numpy) in the new layout; places that the map leaves empty are 0."""
        source = arr_src.numpy() if hasattr(arr_src, "numpy") else np.asarray(arr_src)
        variables, _ = self.ranges(source.shape)
        at = dict(zip(variables, np.indices(source.shape)))
        out = np.zeros([int(extent) for extent in self.map_shape(source.shape)], source.dtype)
        out[tuple(np.broadcast_to(values_of(e, at), source.shape) for e in self.map_indices(variables))] = source
        return type(arr_src)(out) if hasattr(arr_src, "numpy") else out

    def inverse(self, shape):
        """The map from new indices back to those of a buffer of `shape` (extents or Ranges).

        Raises ValueError when the map is not proved one to one onto a box; see non_surjective_inverse.
        """
        return self._inverse(shape, False)[0]

    def non_surjective_inverse(self, shape):
        """(inverse, predicate) of a map that may leave new places empty: the predicate, over the inverse's indices,
        holds at those. Raises ValueError when the map is not proved one to one."""
        return self._inverse(shape, True)

    def _inverse(self, shape, pad):
        variables, ranges = self.ranges(shape)
        whole = self._lengthened(ranges) if pad else ranges
        found = detect_bijection(self.map_indices(variables), whole, pad)
        if found.errors:
            raise ValueError(f"{self} has no inverse over {', '.join(map(str, shape))}: {found.errors[0]}")
        outputs, an = [Var(f"axis{i}", e.dtype) for i, e in enumerate(found.indices)], Analyzer()
        for v, e in zip(outputs, found.indices):
            low = 0 if pad and an.can_prove(e.base >= 0) else e.base  # a buffer begins at 0, whatever is there
            an.bind(v, Range(as_expr(low, v.dtype), e.base + (e.args[0].extent if e.args else 1) - low))
        back = inverse_affine_iter_map(found.indices, outputs)
        back = {v: an.simplify(back.get(v, r.min)) for v, r in ranges.items()}
        inverse = IndexMap(tuple(outputs), tuple(back.values()))
        outside = found.padding_predicate
        for v, e in zip(outputs, found.indices):
            outside = outside if is_const_int(e.base, 0) else logical_or(outside, v < e.base)
        for v, r in ranges.items():
            outside = logical_or(outside, v >= r.extent) if whole[v] is not r else outside
        empty = const(False)
        for part in _alternatives(an.simplify(substitute(outside, back))):
            empty = logical_or(empty, _by_first_digit(part, outputs, an))
        return inverse, empty

    def is_equivalent_to(self, other):
        """Whether both maps provably give the same new indices for all old ones."""
        if len(self.initial_indices) != len(other.initial_indices) or (
                len(self.final_indices) != len(other.final_indices)):
            return False
        an, same = Analyzer(), other.map_indices(self.initial_indices)
        return all(an.can_prove_equal(a, b) for a, b in zip(self.final_indices, same))

    def __str__(self):
        names = ", ".join(v.name for v in self.initial_indices)
        return f"lambda {names}: ({', '.join(map(str, self.final_indices))}{',' if self.final_indices else ''})"


def _alternatives(condition):
    return [*_alternatives(condition.a), *_alternatives(condition.b)] if isinstance(condition, Or) else [condition]


def _by_first_digit(condition, places, analyzer):
    """p * c + rest >= b, where p is at most b // c, as p == b // c and rest >= b % c; p * c + rest < b, where b is less
    than c, as p == 0 and rest < b. Any other condition as it is."""
    if type(condition) not in (GE, LT):
        return condition
    total, bound = condition.a, analyzer.simplify(
        condition.b - substitute(condition.a, {p: const(0, p.dtype) for p in places}))
    if not isinstance(bound, IntImm):
        return condition
    steps = {p: analyzer.step(total, p) for p in free_vars(total) if p in places}
    steps = {p: s for p, s in steps.items() if isinstance(s, int) and s > 1}
    rest, left = analyzer.simplify(total - condition.b + bound), bound.value
    if not steps:
        return _from(rest, left, analyzer) if type(condition) is GE else condition
    first, step = max(steps.items(), key=lambda found: found[1])
    rest = analyzer.simplify(rest - first * step)
    turn, left = divmod(bound.value, step)
    if not (analyzer.can_prove(rest >= 0) and analyzer.can_prove(rest < step)):
        return condition
    if type(condition) is GE and analyzer.can_prove(first <= turn):
        return logical_and(binary(EQ, first, const(turn, first.dtype)), _from(rest, left, analyzer))
    if type(condition) is LT and bound.value < step:
        return logical_and(binary(EQ, first, const(0, first.dtype)), rest < bound)
    return condition


def _from(rest, left, analyzer):
    """rest >= left; left == rest where it is at most that."""
    most = const(left, rest.dtype)
    return binary(EQ, most, rest) if analyzer.can_prove(rest <= most) else rest >= most


class _Rebuild(Mutator):
    """Substitutes and lets operands agree in dtype again."""

    def __init__(self, mapping):
        self.mapping = mapping

    def visit_Var(self, v):
        return self.mapping.get(v, v)

    def generic_visit(self, n):
        new = super().generic_visit(n)
        if new is not n and isinstance(n, (BinaryExpr, CompareExpr)) and len(n._fields) == 2:
            return binary(type(n), new.a, new.b)
        return new
