"""Walking over statements alone, without the expressions in them: most passes that look for a kind of statement."""
from __future__ import annotations

from ..arith.canonical import reads_state
from ..expr import IntImm, cast, substitute
from ..node import Mutator
from ..tir.stmt import Block, LetStmt, seq, statements


def blocks(stmt):
    """The Blocks in a statement, inner ones first."""
    for child in statements(stmt):
        yield from blocks(child)
    if isinstance(stmt, Block):
        yield stmt


def all_statements(stmt):
    """A statement and those in it, outer ones first."""
    yield stmt
    for inner in statements(stmt):
        yield from all_statements(inner)


def turns(stmt, otherwise=1):
    """About how often the innermost statements of a program run, where loops of symbolic extents turn `otherwise`
    times."""
    extent = getattr(stmt, "extent", None)
    times = extent.value if isinstance(extent, IntImm) else otherwise if extent is not None else 1
    return times * max(sum(turns(s, otherwise) for s in statements(stmt)), 1)


def without(node, *keys):
    """A loop or block without annotations of some keys."""
    return node.replace(annotations={k: v for k, v in node.annotations.items() if k not in keys})


def with_value(stmt, var, value):
    """A statement in which a variable has a value: that stands in its place, but where a store may change what it
    loads."""
    value = cast(value, var.dtype)
    return LetStmt(var, value, stmt) if reads_state(value) else substitute(stmt, {var: value})


class StmtMutator(Mutator):
    """A Mutator that leaves expressions and the signatures of blocks as they are."""

    def _body(self, stmt):
        return stmt.replace(body=self.visit(stmt.body))

    visit_For = visit_While = visit_LetStmt = visit_AssertStmt = visit_AttrStmt = visit_DeclBuffer = _body

    def visit_SeqStmt(self, s):
        """Where a statement becomes several, they are of this sequence."""
        new = [self.visit(x) for x in s.seq]
        return s if all(a is b for a, b in zip(new, s.seq)) else seq(*new)

    def visit_BlockRealize(self, realize):
        return realize.replace(block=self.visit(realize.block))

    def visit_Block(self, block):
        return block.replace(init=self.visit(block.init), body=self.visit(block.body))

    def visit_IfThenElse(self, branch):
        return branch.replace(then_case=self.visit(branch.then_case), else_case=self.visit(branch.else_case))

    def _leaf(self, stmt):
        return stmt

    visit_BufferStore = visit_Evaluate = _leaf


def rewrite_annotated(stmt, key, rewrite):
    """Each loop with an annotation `key`, inner ones first, is what rewrite(the loop without it, its value) gives."""
    return _Annotated(key, rewrite).visit(stmt)


class _Annotated(StmtMutator):
    def __init__(self, key, rewrite):
        self.key, self.rewrite = key, rewrite

    def visit_For(self, loop):
        loop = loop.replace(body=self.visit(loop.body))
        if self.key not in loop.annotations:
            return loop
        return self.rewrite(without(loop, self.key), loop.annotations[self.key])
