"""Simplify and remove what does nothing, with loop ranges known."""
from __future__ import annotations

from contextlib import nullcontext

from ..arith import Analyzer
from ..arith.canonical import INDEX_TYPES, reads_state
from ..arith.simplify import BOOL
from ..expr import (EQ, GE, GT, LE, LT, NE, Call, FloatImm, IntImm, IterVar, Mul, Not, Or, PrimExpr, Range, Var, cast,
                    const, free_vars, is_const_int, substitute)
from ..node import Mutator, collect, structural_equal
from ..tir.buffer import Buffer
from ..tir.hints import FULL_LANES, TILE
from ..tir.renew import renew_defs
from ..tir.stmt import BufferLoad, BufferStore, Evaluate, IfThenElse, LetStmt, SeqStmt, Stmt, seq
from .booleans import Booleans
from .data_flow import NOTHING, KnownValues
from .elements import is_fixed, is_opaque

THREAD_EXTENTS = ("thread_extent", "virtual_thread")  # attributes about an IterVar whose values they limit


def simplify(func, convert_boolean_to_and_of_ors=False, apply_constraints_to_boolean_branches=False,
             propagate_knowns_to_prove_conditional=False, propagate_knowns_to_simplify_expressions=False,
             keep_no_ops=False):
    """Ensures expressions simplified under the loop ranges and conditions around them, no provably false or true
    branches, no empty loops; loops of one iteration are replaced by their body, but where that is what is left of a
    vector; what runs only in the first iteration of a loop stands before it. What the settings do to conditions of
    several parts, Booleans says. Those about knowns use what KnownValues finds of buffers: to decide conditions of
    branches, or in all expressions. keep_no_ops: what does nothing stays where it did nothing before, as scripts expect of
    TVM's pass, immediates are cast, and expressions are written as canonical_simplify does."""
    knowns = propagate_knowns_to_prove_conditional, propagate_knowns_to_simplify_expressions
    known = KnownValues(func) if any(knowns) else None
    settings = convert_boolean_to_and_of_ors, apply_constraints_to_boolean_branches
    run = _Simplify(settings, known, knowns, keep_no_ops)
    sizes = [e for b in func.buffer_map.values() for e in b.shape if not isinstance(e, (Var, IntImm))]
    with run.analyzer.constraint_scope(*(e >= 0 for e in sizes if len(free_vars(e)) == 1)):
        return func.replace(body=run.visit(func.body))


class _Simplify(Mutator):
    def __init__(self, settings, known, uses, keeps):
        self.analyzer = Analyzer()
        self.booleans = Booleans(self.analyzer, *settings) if any(settings) else None
        self.known, (self.decides, self.replaces) = known, uses
        self.casts = _Casts() if keeps else None
        self.here = NOTHING  # what is known at the statement whose expressions are visited
        self.lets = {}       # variable that is a condition -> the condition
        self.arguments = set()  # variables of tiles

    def visit_For(self, loop):
        old, extent = loop.body, self.analyzer.simplify(loop.extent)
        minimum = self.analyzer.simplify(loop.min)
        if isinstance(extent, IntImm):
            if extent.value <= 0:
                return Evaluate(const(0))
            stays = FULL_LANES in loop.annotations or self.casts and loop.annotations
            if extent.value == 1 and loop.kind != "thread_binding" and not stays:
                if reads_state(minimum):  # what it loads may change in the body
                    return self.visit(LetStmt(loop.loop_var, loop.min, loop.body))
                self.analyzer.bind(loop.loop_var, Range(minimum, extent), allow_override=True)
                return self.visit(loop.body)  # what the variable is now stands in its place
        # a symbolic extent is known to be positive inside the loop only
        with nullcontext() if isinstance(extent, IntImm) else self.analyzer.constraint_scope():
            left = FULL_LANES in loop.annotations and is_const_int(extent, 1)  # its variable stays, for vectors
            turns = const(loop.annotations[FULL_LANES], extent.dtype) if left else extent
            self.analyzer.bind(loop.loop_var, Range(minimum, turns), allow_override=True)
            body = self.visit(loop.body)
            loop = loop.replace(min=minimum, extent=extent, body=body)
            goes = self._goes(body, old) and not self.analyzer.acts(extent)
            return body if goes else self._before_loop(loop)

    def _goes(self, new, old):
        """Whether a statement that has become another, of which this one may be, does nothing now."""
        return _is_noop(new) and not (self.casts and _is_noop(old))

    def _before_loop(self, loop):
        """for k: { if (k == 0 ...) init; rest }  ->  if (...) init with k = 0; for k: rest"""
        body, var, analyzer = loop.body, loop.loop_var, self.analyzer
        first = body.seq[0] if isinstance(body, SeqStmt) else body
        if not (isinstance(first, IfThenElse) and first.else_case is None and isinstance(loop.extent, IntImm)
                and loop.kind in ("serial", "unrolled") and any(v is var for v in free_vars(first.condition))):
            return loop
        with analyzer.constraint_scope(first.condition):
            if not analyzer.can_prove_equal(var, loop.min):
                return loop
        start, self.here = {var: loop.min}, NOTHING
        condition, init = (self.visit(substitute(part, start)) for part in (first.condition, first.then_case))
        if not is_const_int(condition, 1):
            init = IfThenElse(condition, init)
        rest = seq(*body.seq[1:]) if isinstance(body, SeqStmt) else Evaluate(const(0))
        return init if _is_noop(rest) else seq(init, loop.replace(body=rest))

    def visit_IfThenElse(self, branch):
        condition = self.visit(branch.condition)
        plain = condition.args[0] if isinstance(condition, Call) and condition.op == "tir.likely" else condition
        opened = substitute(plain, self.lets) if self.lets else plain
        if opened is not plain:
            decided = const(True) if self._always(opened) else self.analyzer.simplify(opened)
            plain = decided if isinstance(decided, IntImm) else plain
        if self.decides and not isinstance(plain, IntImm):
            decided = self.known.decided(plain, self.known.at(branch), self.analyzer)
            plain = plain if decided is None else decided
        if isinstance(plain, IntImm):
            taken = branch.then_case if plain.value else branch.else_case
            return Evaluate(const(0)) if taken is None else self.visit(taken)
        with self.analyzer.constraint_scope(plain, opened):
            then_case = self.visit(branch.then_case)
        else_case = None
        if branch.else_case is not None:
            with self.analyzer.constraint_scope(Not(plain), Not(opened)):
                else_case = self.visit(branch.else_case)
            else_case = None if self._goes(else_case, branch.else_case) else else_case
        if not self._goes(then_case, branch.then_case) or self.analyzer.acts(plain):
            return branch.replace(condition=condition, then_case=then_case, else_case=else_case)
        if else_case is None:
            return then_case
        return IfThenElse(self.analyzer.simplify(Not(plain)), else_case)

    def visit_SeqStmt(self, s):
        new = [self.visit(x) for x in s.seq]
        if self.casts is None:
            return seq(*new)
        flat = [y for x, old in zip(new, s.seq) if not self._goes(x, old)
                for y in (x.seq if isinstance(x, SeqStmt) else (x,))]
        return seq(*flat) if len(flat) < 2 else SeqStmt(tuple(flat))

    def visit_LetStmt(self, let):
        """A constant stands in the place of its variable; that stays where buffers mention it."""
        value = self.visit(let.value)
        if let.var in self.arguments:
            self.analyzer.bind_let(let.var, value)
            return let.replace(value=value, body=self.visit(let.body))
        if let.var in self.analyzer.given or let.var in self.lets:  # by another let or a loop: what is known is of that
            again = Var(let.var.name, let.var.dtype)
            return self.visit(LetStmt(again, let.value, renew_defs(let.body, {let.var: again})))
        if isinstance(value, IntImm) and value.dtype in INDEX_TYPES:
            self.analyzer.bind(let.var, value)
        else:
            self.analyzer.bind_let(let.var, value)
        if value.dtype == BOOL and is_fixed(value):
            self.lets[let.var] = substitute(value, self.lets)
        body = self.visit(let.body)
        if isinstance(value, IntImm) and not _mentions(body, let.var):
            return body
        return let.replace(value=value, body=body)

    def visit_AttrStmt(self, stmt):
        """Within the extent of a thread its index is below that. What a tile and its border differ in are arguments of
        one function, constants too."""
        if stmt.attr_key == TILE:
            self.arguments.update(_variables(stmt.body))
        value = self.visit(stmt.value)
        var = stmt.target.var if stmt.attr_key in THREAD_EXTENTS and isinstance(stmt.target, IterVar) else None
        outer = None if var is None else self.analyzer.given.get(var)
        if var is not None:
            self.analyzer.bind(var, Range(const(0, value.dtype), value), allow_override=True)
        stmt = stmt.replace(value=value, body=self.visit(stmt.body))
        if outer is not None:
            self.analyzer.bind(var, outer, allow_override=True)
        return stmt

    def visit_DeclBuffer(self, decl):
        body = self.visit(decl.body)
        return body if self._goes(body, decl.body) else decl.replace(body=body)

    def visit_BufferStore(self, store):
        store = store.replace(value=self.visit(store.value), indices=self.visit(store.indices))
        old = store.value
        same = isinstance(old, BufferLoad) and old.buffer is store.buffer and structural_equal(
            old.indices, store.indices)
        return Evaluate(const(0)) if same else store

    def visit(self, value):
        if not isinstance(value, PrimExpr):
            if self.replaces and isinstance(value, Stmt):
                moves = isinstance(value, BufferStore) and is_opaque((value.value, value.indices))
                self.here = NOTHING if moves else self.known.at(value)
            return super().visit(value)
        if self.replaces:
            value = self.known.resolve(value, self.here, self.analyzer)
        if type(value) is Var and value.dtype == BOOL:
            return const(True) if self.analyzer.can_prove(value) else value
        new = self.analyzer.simplify(value if self.booleans is None else self.booleans.visit(value))
        new = new if self.casts is None else self._written(value, self.casts.visit(new))
        if type(value) in _NARROWER and not isinstance(new, IntImm):
            narrowed = self._narrowed(value)
            return new if narrowed is None else narrowed
        return new

    def _written(self, old, new):
        """A simplified expression as canonical_simplify writes it, or the old one where that is shorter: then products
        of sums were opened."""
        new = self.analyzer.canonical_simplify(new)
        products = [n for n in collect(old, Mul) if IntImm not in (type(n.a), type(n.b))]
        if isinstance(new, IntImm) or old.dtype.is_bool or not products:
            return new
        other = self.analyzer.canonical_simplify(self.analyzer.rewrite_simplify(old))
        return other if len(collect(other, PrimExpr)) < len(collect(new, PrimExpr)) else new

    def _always(self, e):
        """Whether a condition holds: of a disjunction, one side where the other one does not."""
        if not isinstance(e, Or):
            return self.analyzer.can_prove(e)
        with self.analyzer.constraint_scope(Not(e.a)):
            return self._always(e.b)

    def _narrowed(self, e):
        """The strictest comparison that a comparison is where conditions around it hold; None where it stays."""
        if not (self.analyzer.facts or self.analyzer.nonzero) or e.a.dtype not in INDEX_TYPES or not is_fixed(e):
            return None
        for known, kind in _NARROWER[type(e)]:
            if self.analyzer.can_prove(known(e.a, e.b)):
                a, b = self.analyzer.simplify(e.a), self.analyzer.simplify(e.b)
                return EQ(b, a) if kind is EQ and isinstance(a, IntImm) else kind(a, b)
        return None


class _Casts(Mutator):
    """Immediates in the place of casts of immediates."""

    def visit_Cast(self, e):
        e = self.generic_visit(e)
        return cast(e.value, e.dtype) if isinstance(e.value, (FloatImm, IntImm)) else e


# comparison -> (what makes another one of it, that one)
_NARROWER = {LE: ((GE, EQ), (NE, LT)), GE: ((LE, EQ), (NE, GT)), NE: ((LE, LT), (GE, GT))}


def _variables(stmt):
    """The variables of the LetStmts that a statement begins with."""
    while isinstance(stmt, LetStmt):
        yield stmt.var
        stmt = stmt.body


def _mentions(stmt, var):
    """Whether a statement, or a buffer in it, mentions a variable."""
    return any(v is var for v in free_vars(stmt)) or any(
        v is var for b in collect(stmt, Buffer) for v in free_vars((b.data, b.shape, b.strides, b.elem_offset)))


def _is_noop(stmt):
    return isinstance(stmt, Evaluate) and is_const_int(stmt.value) or isinstance(stmt, SeqStmt) and not stmt.seq
