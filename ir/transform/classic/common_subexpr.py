"""CommonSubexprElimTIR as scripts know it: what a statement computes more than once is the value of a let around it."""
from __future__ import annotations

from itertools import count

from ...arith import Analyzer
from ...expr import (
    And, BinaryExpr, Broadcast, Call, Cast, CompareExpr, Div, FloorDiv, FloorMod, IntImm, IterVar, Let, Mod, Not, Or,
    PrimExpr, Ramp, Select, Var)
from ...node import Mutator, Node, collect
from ...tir.stmt import BufferLoad, For, IfThenElse, LetStmt, Stmt
from ..walk import StmtMutator

_COMPUTES = (BinaryExpr, CompareExpr, Cast, Not, Select)
_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


def common_subexpr_elim(func, enable_cse_tir=True, identify_equiv_terms=False):
    """Ensures that no statement computes twice, in any run of it, what has no calls, loads, vectors or divisions by
    variables: it is a variable cse_var_N, the larger ones first. Both branches of an IfThenElse are one run, and so
    are iterations of a loop; what only one branch needs stays there.

    identify_equiv_terms: also of what is written differently, and simplifies to one expression.
    """
    return func.replace(body=_Name(identify_equiv_terms).visit(func.body)) if enable_cse_tir else func


class _Name(StmtMutator):
    def __init__(self, by_value):
        self.keys, self.numbers = _Keys(by_value), count(1)

    def visit(self, stmt):
        if not isinstance(stmt, Stmt):
            return super().visit(stmt)
        while True:
            found = self._repeated(stmt)
            if found is None:
                return super().visit(stmt)
            key, value = found
            var = Var(f"cse_var_{next(self.numbers)}", value.dtype)
            stmt = LetStmt(var, value, _Replace(self.keys, key, var).visit(stmt))

    def _repeated(self, stmt):
        """(key, value) of the largest expression that a statement repeats and that may stand before it."""
        defined = {n.loop_var for n in collect(stmt, For)} | {n.var for n in collect(stmt, (LetStmt, Let, IterVar))}
        found = [(key, e) for key, (e, times) in self.keys.table(stmt).items()
                 if times > 1 and defined.isdisjoint(collect(e, Var))]
        key, e = max(found, key=lambda entry: len(collect(entry[1], PrimExpr)), default=(None, None))
        return None if key is None else (key, self.keys.value(e))


class _Keys:
    """Keys that equal expressions share, and what statements compute."""

    def __init__(self, by_value):
        self.analyzer = Analyzer() if by_value else None
        self.known = {}  # id(expression) -> (expression, its key)

    def value(self, e):
        return self.analyzer.simplify(e) if self.analyzer else e

    def key(self, e):
        if id(e) not in self.known:
            self.known[id(e)] = e, _written(self.value(e))
        return self.known[id(e)][1]

    def table(self, node):
        """{key: (expression, how often it is computed)} in any run of a statement, or of an expression."""
        if isinstance(node, IfThenElse):
            branches = self.table(node.then_case), self.table(node.else_case) if node.else_case is not None else {}
            both = branches[0].keys() & branches[1].keys()
            return _sum(self.table(node.condition), *({k: b[k] for k in b if k in both} for b in branches))
        if isinstance(node, For) and not (isinstance(node.extent, IntImm) and node.extent.value > 0):
            return _sum(self.table(node.min), self.table(node.extent))
        if isinstance(node, (And, Or)):
            parts = [node.a]
        elif isinstance(node, Select) or isinstance(node, Call) and node.op == "tir.if_then_else":
            parts = [node.condition if isinstance(node, Select) else node.args[0]]
        else:
            parts = [v for name in node._fields for v in _inside(getattr(node, name))]
        own = {self.key(node): (node, 1)} if _may_move(node) else {}
        return _sum(own, *map(self.table, parts))


def _inside(value):
    """Statements and expressions in a field of a node; the layouts of buffers are not computed."""
    if isinstance(value, (tuple, list)):
        return [x for v in value for x in _inside(v)]
    return [value] if isinstance(value, (Stmt, PrimExpr)) or hasattr(value, "body") else []


def _sum(*tables):
    out = {}
    for table in tables:
        for key, (e, times) in table.items():
            out[key] = e, times + (out[key][1] if key in out else 0)
    return out


def _may_move(e):
    """Whether an expression is worth a variable, and may be computed where its statement may not need it."""
    if not isinstance(e, _COMPUTES) or collect(e, (Call, BufferLoad, Ramp, Broadcast, Let)):
        return False
    return all(isinstance(d.b, IntImm) and d.b.value for d in collect(e, _DIVISIONS))


def _written(e):
    """What an expression is made of; a variable is itself."""
    if isinstance(e, Var) or not isinstance(e, Node):
        return id(e) if isinstance(e, Var) else e.hex() if isinstance(e, float) else e  # -0.0 is another than 0.0
    fields = (getattr(e, name) for name in e._fields)
    return (type(e), *(tuple(map(_written, f)) if isinstance(f, (tuple, list)) else _written(f) for f in fields))


class _Replace(Mutator):
    def __init__(self, keys, key, var):
        self.keys, self.key, self.var = keys, key, var

    def visit(self, value):
        if isinstance(value, _COMPUTES) and _may_move(value) and self.keys.key(value) == self.key:
            return self.var
        return super().visit(value)
