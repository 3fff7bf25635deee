"""substitute: variables replaced in a node, tuple or dict."""
from __future__ import annotations

from .node import PureMutator


class _Substitute(PureMutator):
    def __init__(self, mapping):
        super().__init__()
        self.mapping = mapping

    def visit_Var(self, v):
        return self.mapping.get(v, v)


def substitute(root, mapping):
    """`root` with each Var of `mapping` (Var -> PrimExpr) replaced. Dtypes must agree."""
    return _Substitute(mapping).visit(root) if mapping else root


__all__ = ["substitute"]
