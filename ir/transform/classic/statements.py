"""Passes of a few lines each over statements and expressions."""
from __future__ import annotations

from ...expr import Call, Select, const
from ...node import Mutator
from ...tir.effects import has_effect
from ...tir.stmt import AttrStmt, BufferLoad
from ..walk import StmtMutator


def convert_for_loops_to_serial(func):
    """Ensures that no loop is parallel: each is serial."""
    return func.replace(body=_Serial().visit(func.body))


class _Serial(StmtMutator):
    def visit_For(self, loop):
        loop = loop.replace(body=self.visit(loop.body))
        return loop.replace(kind="serial") if loop.kind == "parallel" else loop


def decorate_device_scope(func):
    """Ensures an attribute device_scope around the whole body."""
    return func.replace(body=AttrStmt(const(0), "device_scope", const(0), func.body))


def skip_assert(func):
    """Ensures no assertions."""
    return func.replace(body=_NoAssert().visit(func.body))


class _NoAssert(StmtMutator):
    def visit_AssertStmt(self, stmt):
        return self.visit(stmt.body)


def rewrite_unsafe_select(func):
    """Ensures that a Select of which one side may not be evaluated, because it loads from a buffer, is an if_then_else,
    which evaluates the side taken alone."""
    return func.replace(body=_UnsafeSelect().visit(func.body))


class _UnsafeSelect(Mutator):
    def visit_Select(self, e):
        e = self.generic_visit(e)
        if not any(map(_is_unsafe, (e.true_value, e.false_value))):
            return e
        return Call(e.dtype, "tir.if_then_else", (e.condition, e.true_value, e.false_value))


def _is_unsafe(e):
    """Whether evaluating an expression may fail where its value is not wanted. A side of an if_then_else is evaluated
    where its condition holds, and so cannot."""
    if isinstance(e, Call) and e.op == "tir.if_then_else":
        return _is_unsafe(e.args[0])
    if isinstance(e, Select):
        return any(map(_is_unsafe, (e.condition, e.true_value, e.false_value)))
    if isinstance(e, BufferLoad):
        return True
    return has_effect(e) or any(_is_unsafe(v) for name in e._fields
                                for v in _values(getattr(e, name)))


def _values(value):
    if isinstance(value, tuple):
        return [v for v in value if hasattr(v, "_fields")]
    return [value] if hasattr(value, "dtype") and hasattr(value, "_fields") else []
