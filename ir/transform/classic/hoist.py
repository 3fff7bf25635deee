"""HoistExpression: what a loop does not change stands outside of it, conditions as branches over whole loops."""
from __future__ import annotations

import enum
from dataclasses import dataclass, field

from ...expr import IterVar, PrimExpr, Var, free_vars
from ...module import IRModule
from ...node import Mutator, Visitor, collect
from ...tir.effects import has_effect
from ...tir.stmt import BufferLoad, IfThenElse, LetStmt
from ..remove_no_op import remove_no_op
from ..simplify import simplify
from .ssa import convert_ssa


class HoistedConditionals(enum.Flag):
    """The conditions that HoistExpression moves."""

    Never = 0
    IfElseStmt = 1
    IfElseExpr = 2
    BooleanExpression = 4
    UsingBlockVar = 8
    All = IfElseStmt | IfElseExpr | BooleanExpression | UsingBlockVar


class HoistedLetBindings(enum.Flag):
    """The variables of lets that HoistExpression moves."""

    Never = 0
    RequiredByConditional = 1
    LetStmt = 2
    LetExpr = 4
    All = RequiredByConditional | LetStmt | LetExpr


_C, _L = HoistedConditionals, HoistedLetBindings


def hoist_expression(func, hoisted_conditionals=7, hoisted_let_bindings=7):
    """Ensures that conditions which a loop does not change, and on which all that it does depends, are branches around
    it, and that variables of lets which it does not change are bound outside of it; then all is simplified.

    hoisted_conditionals, hoisted_let_bindings: which, as HoistedConditionals and HoistedLetBindings or their values. No
    condition leaves a sequence of statements.
    """
    conditions, lets = _C(hoisted_conditionals), _L(hoisted_let_bindings)
    found = _Collect(bool(conditions & _C.UsingBlockVar))
    found.visit(func.body)
    body = _Hoist(found.done, conditions, lets).visit(func.body)
    once = convert_ssa(IRModule({"main": func.replace(body=body)}))["main"]
    return remove_no_op(simplify(once))


def hoist_if_then_else(func, variant=None, support_block_scope_hosting=False):
    """hoist_expression of branches alone. support_block_scope_hosting: also of those on indices of threads. The
    attribute tir.HoistIfThenElseExprWithBlock asks for choices within expressions instead."""
    if variant not in (None, "basic"):
        raise ValueError(f"HoistIfThenElse: variant is None or 'basic', not {variant!r}")
    if func.attrs.get("tir.HoistIfThenElseExprWithBlock"):
        return hoist_expression(func, _C.UsingBlockVar | _C.IfElseExpr, _L.Never)
    of_threads = _C.UsingBlockVar if support_block_scope_hosting else _C.Never
    return hoist_expression(func, _C.IfElseStmt | of_threads, _L.Never)


@dataclass(frozen=True)
class _Condition:
    value: PrimExpr
    kind: HoistedConditionals
    of_threads: bool
    needs: frozenset  # variables of lets
    has_else: bool

    def is_wanted(self, conditions, lets):
        return (bool(conditions & self.kind) and (not self.of_threads or bool(conditions & _C.UsingBlockVar))
                and (not self.needs or bool(lets & (_L.RequiredByConditional | _L.LetStmt))))


@dataclass
class _Scope:
    """A loop, or an attribute that defines the index of a thread, and what may stand outside of it."""

    var: Var
    is_attr: bool
    lets: list = field(default_factory=list)  # (variable, value, kind)
    conditions: list = field(default_factory=list)
    is_sequence: bool = False


class _Collect(Visitor):
    def __init__(self, over_threads):
        self.over_threads = over_threads
        self.done, self.open = {}, []  # id(statement) -> its scope; those around
        self.of_let = {}  # variable of a let around -> (variables of scopes that it depends on, of lets moved for it)

    def _scoped(self, stmt, var, is_attr):
        scope = self.done[id(stmt)] = _Scope(var, is_attr)
        self.open.append(scope)
        self.generic_visit(stmt)
        self.open.pop()

    def visit_For(self, loop):
        self._scoped(loop, loop.loop_var, False)

    def visit_AttrStmt(self, attr):
        var = attr.target.var if isinstance(attr.target, IterVar) else attr.target
        if not isinstance(var, Var):
            return self.generic_visit(attr)
        return self._scoped(attr, var, True)

    def visit_SeqStmt(self, stmts):
        if self.open:
            self.open[-1].is_sequence = True
        self.generic_visit(stmts)

    def visit_IfThenElse(self, branch):
        self._condition(branch.condition, _C.IfElseStmt, branch.else_case is not None)
        self.generic_visit(branch)

    def visit_Call(self, call):
        if call.op == "tir.if_then_else":
            self._condition(call.args[0], _C.IfElseExpr)
        self.generic_visit(call)

    def _connective(self, e):
        for side in (e.a, e.b):
            self._condition(side, _C.BooleanExpression)
        self.generic_visit(e)

    visit_And = visit_Or = _connective

    def visit_LetStmt(self, let):
        self._let(let, _L.LetStmt)

    def visit_Let(self, let):
        self._let(let, _L.LetExpr)

    def _let(self, let, kind):
        scope = self._outermost(let.value)
        moves = scope is not None and not scope.is_sequence
        if moves:
            scope.lets.append((let.var, let.value, kind))
        around, lets = {s.var for s in self.open}, {let.var} if moves else set()
        loops = set() if moves else {s.var for s in self.open[-1:]}  # what uses it stays there, too
        for v in free_vars(let.value):
            of_loops, of_lets = self.of_let.get(v, (set(), set()))
            loops |= {v} if v in around else of_loops
            lets |= of_lets
        self.of_let[let.var] = loops, lets
        self.generic_visit(let)
        del self.of_let[let.var]

    def _condition(self, value, kind, has_else=True):
        scope = self._outermost(value)
        if scope is None or scope.is_sequence:
            return
        used = set(free_vars(value))
        needs = {n for v in used if v in self.of_let for n in self.of_let[v][1]}
        of_threads = any(s.is_attr and s.var in used for s in self.open)
        scope.conditions.append(_Condition(value, kind, of_threads, frozenset(needs), has_else))

    def _outermost(self, value):
        """The outermost scope outside of which an expression may stand; None where it stays in the innermost. What
        reads memory stays where it is: a store may change it."""
        if has_effect(value) or collect(value, BufferLoad):
            return None
        used = {v for u in free_vars(value) for v in (u, *self.of_let.get(u, ((), ()))[0])}
        found = None
        for scope in reversed(self.open):
            if scope.is_sequence or scope.var in used or scope.is_attr and not self.over_threads:
                break
            found = scope
        return found


class _Hoist(Mutator):
    def __init__(self, scopes, conditions, lets):
        self.scopes, self.conditions, self.lets = scopes, conditions, lets
        self.moved = set()  # variables of lets that are bound further out
        for scope in scopes.values():
            self.moved |= {var for var, _, kind in scope.lets if lets & kind}
            if lets & _L.RequiredByConditional:
                self.moved |= {v for c in scope.conditions if c.is_wanted(conditions, lets) for v in c.needs}

    def _around(self, stmt):
        scope, stmt = self.scopes.get(id(stmt)), self.generic_visit(stmt)
        if scope is None:
            return stmt
        for c in reversed(scope.conditions):
            if c.is_wanted(self.conditions, self.lets):
                stmt = IfThenElse(c.value, stmt, stmt if c.has_else else None)
        for var, value, _ in reversed(scope.lets):
            if var in self.moved:
                stmt = LetStmt(var, value, stmt)
        return stmt

    visit_For = visit_AttrStmt = _around

    def _let(self, let):
        return self.visit(let.body) if let.var in self.moved else self.generic_visit(let)

    visit_LetStmt = visit_Let = _let


__all__ = ["HoistedConditionals", "HoistedLetBindings", "hoist_expression", "hoist_if_then_else"]
