"""Systems of integer constraints: variables, their ranges and relations, and how one system stands for another."""
from __future__ import annotations

from ..expr import IntImm, PrimExpr, Range, as_expr, const, is_const_int, substitute
from ..node import Node, node
from .analyzer import Analyzer
from .int_set import int_set


@node
class IntConstraints(Node):
    """`variables` that lie in their `ranges` {Var: Range} and satisfy all `relations`.

    ranges may tell of other variables too. Raises TypeError for a variable that is no integer."""

    variables: tuple
    ranges: dict
    relations: tuple

    def __post_init__(self):
        for name, made in (("variables", tuple), ("ranges", dict), ("relations", tuple)):
            object.__setattr__(self, name, made(getattr(self, name) or ()))
        for v in self.variables:
            if not v.dtype.is_int:
                raise TypeError(f"the variables of constraints are integers, but {v.name} is {v.dtype}")


@node
class IntConstraintsTransform(Node):
    """Two systems with the same solutions: src_to_dst gives each variable of `src` in terms of those of `dst`,
    dst_to_src the other way round."""

    src: IntConstraints
    dst: IntConstraints
    src_to_dst: dict
    dst_to_src: dict


@node
class IntGroupBounds(Node):
    """What is known of a variable v: coef * v is at least each of `lower`, equals each of `equal` and is at most each
    of `upper`."""

    coef: PrimExpr
    lower: tuple
    equal: tuple
    upper: tuple

    def __post_init__(self):
        object.__setattr__(self, "coef", as_expr(self.coef))
        for name in ("lower", "equal", "upper"):
            object.__setattr__(self, name, tuple(as_expr(e) for e in getattr(self, name)))
        if not self.coef.dtype.is_int:
            raise TypeError(f"the coefficient of IntGroupBounds is an integer, not {self.coef.dtype}")

    @staticmethod
    def from_range(rng):
        """The bounds of a variable that lies in a Range."""
        return IntGroupBounds(const(1, rng.min.dtype), (), (), ()).within(rng)

    def within(self, rng):
        """These bounds and those of a Range."""
        an, last = Analyzer(), rng.min + rng.extent - 1
        if is_const_int(rng.extent, 1):
            return self.replace(equal=(an.simplify(rng.min * self.coef), *self.equal))
        return self.replace(lower=(an.simplify(rng.min * self.coef), *self.lower),
                            upper=(an.simplify(last * self.coef), *self.upper))

    def substitute(self, mapping):
        """The bounds with variables replaced."""
        return IntGroupBounds(*(substitute(getattr(self, f), mapping) for f in self._fields))

    def conditions(self, v):
        """What the bounds say of the variable `v`, as conditions."""
        left = self.coef * v if not is_const_int(self.coef, 1) else v
        return [*(left == e for e in self.equal), *(left >= e for e in self.lower), *(left <= e for e in self.upper)]

    def find_best_range(self, ranges=None):
        """The shortest Range known to hold the variable while those of `ranges` {Var: Range} run; its extent is free
        of them. None where one side is open."""
        an, ranges = Analyzer(), dict(ranges or {})
        for v, r in ranges.items():
            an.bind(v, r)
        lowers, uppers = self.equal + self.lower, self.equal + self.upper
        if len(lowers) == len(uppers) == 1 and is_const_int(self.coef, 1):
            return Range(an.simplify(lowers[0]), an.simplify(uppers[0] + 1 - lowers[0]))
        best = None
        for low in lowers:
            start = an.simplify((low + (self.coef - 1)) // self.coef)
            for high in uppers:
                reach = self._reach(an, ranges, ((high - low) // self.coef, high // self.coef - start))
                if reach is not None and (best is None or an.can_prove_less(reach, best[1])):
                    best = start, reach
        return best and Range(best[0], an.simplify(best[1] + 1))

    @staticmethod
    def _reach(an, ranges, candidates):
        """The least upper bound known of the candidates, which are upper bounds of one number; None without one."""
        found = None
        for e in candidates:
            ends = int_set(an, an.simplify(e), ranges)
            if ends.has_upper_bound() and (found is None or an.can_prove_less(ends.max_value, found)):
                found = an.simplify(ends.max_value)
        return found


def contradiction():
    """The constraints that nothing satisfies."""
    return IntConstraints((), {}, (const(False),))


def holds(e):
    """True or False where a simplified condition is constant, else None."""
    return bool(e.value) if isinstance(e, IntImm) else None


def problem_of(system, variables, ranges):
    """The IntConstraints of a solver's arguments: one, or relations with their variables and ranges."""
    if not isinstance(system, IntConstraints):
        return IntConstraints(variables, ranges, system)
    if variables is not None or ranges is not None:
        raise ValueError("IntConstraints have variables and ranges of their own")
    return system
