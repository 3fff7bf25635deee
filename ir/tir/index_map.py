"""IndexMap: how a buffer's indices become those of another layout."""
from __future__ import annotations

import inspect

from ..expr import BinaryExpr, CompareExpr, Range, Var, as_expr, binary, const
from ..node import Mutator, Node, node, node_field


@node
class IndexMap(Node):
    """final_indices: expressions over the Vars initial_indices, such as (i, j) -> (i // 4, j, i % 4)."""

    initial_indices: tuple = node_field(define=True)
    final_indices: tuple = ()

    @staticmethod
    def from_func(mapping):
        """The map of a Python function from indices to a list or tuple of indices (or one index).

        Raises TypeError when the function does not name its indices or gives something else than indices.
        """
        params = list(inspect.signature(mapping).parameters.values())
        if any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in params):
            raise TypeError("an index map must name its indices, as lambda i, j: (j, i) does")
        variables = tuple(Var(p.name) for p in params)
        result = mapping(*variables)
        result = result if isinstance(result, (list, tuple)) else (result,)
        return IndexMap(variables, tuple(as_expr(e) for e in result))

    def map_indices(self, indices):
        """The new indices of an element; dtypes follow the given indices."""
        return _Rebuild(dict(zip(self.initial_indices, map(as_expr, indices)))).visit(self.final_indices)

    def ranges(self, shape):
        """([variables], {variable: Range}) of all indices of a shape, in its dtypes."""
        extents = [as_expr(e) for e in shape]
        variables = [Var(v.name, e.dtype) for v, e in zip(self.initial_indices, extents)]
        return variables, {v: Range(const(0, e.dtype), e) for v, e in zip(variables, extents)}

    def __str__(self):
        names = ", ".join(v.name for v in self.initial_indices)
        return f"lambda {names}: ({', '.join(map(str, self.final_indices))},)"


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
