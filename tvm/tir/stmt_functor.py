"""Visiting and rewriting statements and expressions by functions, under TVM's names."""
from __future__ import annotations

from ...ir.expr import as_expr
from ...ir.node import Mutator, Node, children, post_order
from ...ir.tir.renew import renew_defs  # noqa: F401
from ...ir.tir.specialize import substitute_everywhere
from ...ir.tir.stmt import SeqStmt


def post_order_visit(root, visit):
    """Call visit(node) on every node below and including `root`, children first."""
    post_order(root, visit)


def pre_order_visit(root, visit):
    """Call visit(node) on `root` and then below it, except below nodes of which it returns False."""
    if not isinstance(root, Node) or visit(root) is False:
        return
    for child in children(root):
        pre_order_visit(child, visit)


def ir_transform(stmt, preorder=None, postorder=None, only_enable=None):
    """Rewrite `stmt`: preorder(node) may return what replaces a node without looking below it, postorder(node) what
    replaces a node whose children are rewritten; None leaves it. only_enable: the classes that they are called on, by
    name, such as ["tir.For"]; all when None."""
    enabled = None if only_enable is None else {name.rpartition(".")[2] for name in only_enable}
    return _Transform(preorder, postorder, enabled).visit(stmt)


def stmt_list(stmt):
    """The statements of a sequence, or the one that `stmt` is."""
    return list(stmt.seq) if isinstance(stmt, SeqStmt) else [stmt]


def substitute(node, vmap):
    """`node` with variables replaced, in the shapes of its buffers, too. vmap: {Var: expression or number}."""
    return substitute_everywhere(node, {v: as_expr(value, v.dtype) for v, value in vmap.items()})


class _Transform(Mutator):
    def __init__(self, preorder, postorder, enabled):
        self.preorder, self.postorder, self.enabled = preorder, postorder, enabled

    def visit(self, value):
        if not isinstance(value, Node):
            return super().visit(value)
        chosen = self.enabled is None or type(value).__name__ in self.enabled
        replaced = self.preorder(value) if chosen and self.preorder else None
        if replaced is not None:
            return replaced
        value = super().visit(value)
        replaced = self.postorder(value) if chosen and self.postorder else None
        return value if replaced is None else replaced


__all__ = ["ir_transform", "post_order_visit", "pre_order_visit", "renew_defs", "stmt_list",
           "substitute"]
