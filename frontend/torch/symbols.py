"""torch's symbolic sizes as ours."""
from __future__ import annotations

from functools import reduce

from ...ir import expr as ex
from ..shapes import MOST_DIM, simplify


def _folded(cls):
    return lambda *args: reduce(lambda a, b: ex.binary(cls, a, b), args)


def _power(base, exponent):
    return reduce(lambda a, b: a * b, [base] * int(exponent))


# sympy's and torch's classes of expressions, by name
_FUNCTIONS = {
    "Add": lambda *args: reduce(lambda a, b: a + b, args), "Mul": lambda *args: reduce(lambda a, b: a * b, args),
    "Pow": _power, "PowByNatural": _power, "FloorDiv": lambda a, b: a // b, "CleanDiv": lambda a, b: a // b,
    "CeilDiv": lambda a, b: (a + b - 1) // b, "Mod": lambda a, b: a % b, "PythonMod": lambda a, b: a % b,
    "Max": _folded(ex.Max), "Min": _folded(ex.Min),
}


class Symbols:
    """The variables of a graph's symbolic sizes, by their names. upper: {name: largest size}, where it is finite."""

    def __init__(self, ranges=None):
        """ranges: an ExportedProgram's range_constraints."""
        self.vars, self.upper = {}, {}
        for symbol, values in (ranges or {}).items():
            if getattr(values.upper, "is_Integer", False) and int(values.upper) < MOST_DIM:  # not infinity
                self.upper[str(symbol)] = int(values.upper)

    def dim(self, size):
        """A size of a tensor: a number, a torch.SymInt or a sympy expression. ValueError for what has no form here."""
        if isinstance(size, (int, ex.PrimExpr)):
            return size
        return simplify(self._expr(size.node.expr if hasattr(size, "node") else size))

    def dims(self, shape):
        return tuple(map(self.dim, shape))

    def _expr(self, e):
        if getattr(e, "is_Symbol", False):
            return self.vars.setdefault(str(e), ex.Var(str(e), "int64"))
        if getattr(e, "is_Integer", False):
            return int(e)
        kind = type(e).__name__
        if kind not in _FUNCTIONS:
            raise ValueError(f"the symbolic size {e} has {kind}, which is not supported")
        return _FUNCTIONS[kind](*map(self._expr, e.args))


__all__ = ["Symbols"]
