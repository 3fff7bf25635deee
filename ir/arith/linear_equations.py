"""Systems of linear equations over the integers, by the Smith normal form of their coefficients."""
from __future__ import annotations

from ..expr import EQ, IntImm, Range, Var, const, substitute
from .analyzer import Analyzer
from .constraints import IntConstraints, IntConstraintsTransform, contradiction, holds, problem_of
from .int_set import int_set
from .pattern import detect_linear_equation


def solve_linear_equations(equations, variables=None, ranges=None):
    """Solve equations (a list, or IntConstraints) for integer variables: an IntConstraintsTransform.

    Its `dst` has one new variable per degree of freedom, none where the solution is unique, and the relations that
    are left: the ranges of the old variables, what is no linear equation with constant coefficients, and when a
    solution exists. Where none exists, its only relation is False."""
    problem = problem_of(equations, variables, ranges)
    an = Analyzer()
    for v, r in problem.ranges.items():
        an.bind(v, r)
    rows, right, rest = _rows(problem, an)
    matrix = _Smith(rows, right, problem.variables)
    solvable = _solvable(matrix, an)
    if solvable is None:
        return IntConstraintsTransform(problem, contradiction(), {}, {})
    new, values, to_old = [], [], {}
    for j, (old, v) in enumerate(zip(matrix.new_in_old, problem.variables)):
        pivot = matrix.pivot(j)
        if pivot:
            values.append(an.simplify((matrix.right[j] if pivot > 0 else 0 - matrix.right[j]) // abs(pivot)))
            continue
        old = an.simplify(old)
        name = f"n{len(new)}" + (f"_{old.name}" if isinstance(old, Var) else "")
        new.append(Var(name, v.dtype))
        values.append(new[-1])
        to_old[new[-1]] = old
    to_new = {v: an.simplify(sum((value * k for value, k in zip(values, row)), const(0, v.dtype)))
              for v, row in zip(problem.variables, matrix.old_in_new)}
    new_ranges = _new_ranges(problem, to_old)
    relations = [*solvable, *_range_relations(problem, to_new, new_ranges), *(substitute(e, to_new) for e in rest)]
    return IntConstraintsTransform(problem, IntConstraints(new, new_ranges, relations), to_new, to_old)


def _rows(problem, an):
    """(rows of coefficients, what each row equals, relations that are no such equation)."""
    rows, right, rest = [], [], []
    for relation in problem.relations:
        parts = detect_linear_equation(an.simplify(relation.a - relation.b), problem.variables) if isinstance(
            relation, EQ) else []
        if len(parts) > 1 and all(isinstance(c, IntImm) for c in parts[:-1]):
            rows.append([c.value for c in parts[:-1]])
            right.append(an.simplify(0 - parts[-1]))
        else:
            rest.append(relation)
    return rows, right, rest


def _solvable(matrix, an):
    """The conditions on parameters under which a solution exists; None where none does."""
    out = []
    for j, value in enumerate(matrix.right):
        pivot = matrix.pivot(j)
        condition = an.simplify((value % abs(pivot) if pivot else value) == 0)
        if holds(condition) is False:
            return None
        if holds(condition) is None:
            out.append(condition)
    return out


def _new_ranges(problem, to_old):
    """Ranges of the new variables as far as those of the old ones tell, and those of parameters."""
    out = {v: r for v, r in problem.ranges.items() if v not in problem.variables}
    for v, old in to_old.items():
        ends = int_set(Analyzer(), old, problem.ranges)
        if ends.has_lower_bound() and ends.has_upper_bound():
            out[v] = Range(ends.min_value, Analyzer().simplify(ends.max_value + 1 - ends.min_value))
    return out


def _range_relations(problem, to_new, new_ranges):
    """What the ranges of the old variables ask of the new ones beyond their own ranges."""
    an = Analyzer()
    for v, r in new_ranges.items():
        an.bind(v, r)
    for v in problem.variables:
        if v in problem.ranges:
            r, e = problem.ranges[v], to_new[v]
            for condition in (r.min <= e, e < r.min + r.extent):
                condition = an.simplify(condition)
                if holds(condition) is not True:
                    yield condition


class _Smith:
    """rows * x = right, brought to diagonal form by steps on rows and columns that lose no integer solution.

    Afterwards rows[j][j] * y[j] = right[j], where x = old_in_new * y and y = new_in_old, expressions of x."""

    def __init__(self, rows, right, variables):
        self.rows, self.right, count = rows, right, len(variables)
        self.old_in_new = [[int(i == j) for j in range(count)] for i in range(count)]
        self.new_in_old = list(variables)
        at = 0
        while at < min(len(rows), count):
            if not self._find_pivot(at):
                at += 1
                continue
            for i in range(at + 1, len(rows)):
                self._clear_row(at, i)
            steps = [self._clear_column(at, j) for j in range(at + 1, count)]
            at += not any(steps)  # a new pivot may have filled its column again: clear that once more

    def pivot(self, j):
        """The diagonal element j, 0 where the matrix ends before it."""
        return self.rows[j][j] if j < len(self.rows) and j < len(self.new_in_old) else 0

    def _find_pivot(self, at):
        """Bring the least element of column `at` to the diagonal, or another column where that has none."""
        rows, found = self.rows, [i for i in range(at, len(self.rows)) if self.rows[i][at]]
        if found:
            self._swap_rows(at, min(found, key=lambda i: abs(rows[i][at])))
            return True
        for j in range(at + 1, len(self.new_in_old)):
            if rows[at][j]:
                for row in (*rows, *self.old_in_new):
                    row[at], row[j] = row[j], row[at]
                self.new_in_old[at], self.new_in_old[j] = self.new_in_old[j], self.new_in_old[at]
                return True
        return False

    def _swap_rows(self, i, j):
        for part in (self.rows, self.right):
            part[i], part[j] = part[j], part[i]

    def _clear_row(self, at, i):
        """Make rows[i][at] 0; the pivot becomes their greatest common divisor."""
        rows, right = self.rows, self.right
        if not rows[i][at]:
            return
        a, b, p, q = _step(rows[at][at], rows[i][at])
        rows[at], rows[i] = ([a * x + b * y for x, y in zip(rows[at], rows[i])],
                             [q * x - p * y for x, y in zip(rows[at], rows[i])])
        right[at], right[i] = right[at] * a + right[i] * b, right[at] * q - right[i] * p

    def _clear_column(self, at, j):
        """Make rows[at][j] 0; whether that changed the pivot's column."""
        if not self.rows[at][j]:
            return False
        a, b, p, q = _step(self.rows[at][at], self.rows[at][j])
        for row in (*self.rows, *self.old_in_new):
            row[at], row[j] = a * row[at] + b * row[j], q * row[at] - p * row[j]
        x, y = self.new_in_old[at], self.new_in_old[j]
        self.new_in_old[at], self.new_in_old[j] = x * p + y * q, x * b - y * a
        return b != 0


def _step(m, n):
    """(a, b, m / g, n / g) with g = a * m + b * n the greatest common divisor, g = m where that divides n."""
    if n % m == 0:
        return 1, 0, 1, n // m
    (g, a, b), (h, c, d) = (m, 1, 0), (n, 0, 1)
    while h:
        q = g // h
        (g, a, b), (h, c, d) = (h, c, d), (g - q * h, a - q * c, b - q * d)
    return a, b, m // g, n // g
