"""The values of expressions of a syntax tree."""
from __future__ import annotations

import ast

from ...ir.script.errors import ScriptError, Source
from ...ir.script.evaluator import Evaluator


class _Values(Evaluator):
    """Values of Python's are indexed as Python indexes them."""

    def eval_Subscript(self, node):
        base = self.eval(node.value)
        if isinstance(base, (list, tuple, str, dict)):
            return base[self.eval(node.slice)]
        return super().eval_Subscript(node)

    def eval_Slice(self, node):
        return slice(*(None if e is None else self.eval(e) for e in (node.lower, node.upper, node.step)))


class ExprEvaluator:
    """The values of expressions, of Python's values and of expressions of the IRs."""

    @staticmethod
    def eval(parser, value_table, node):
        """The value of `node`; value_table: {name: value}. parser: one of a script's own, which reports errors, or None.
        """
        source = Source(ast.unparse(node))
        try:
            return _Values(source, dict(value_table), True).eval(source.parse()[0].value)
        except ScriptError as error:
            if parser is None:
                raise
            return parser.report_error(node, error)


__all__ = ["ExprEvaluator"]
