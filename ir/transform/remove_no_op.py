"""RemoveNoOp: what computes nothing that anyone sees goes."""
from __future__ import annotations

from ..arith import Analyzer
from ..arith.canonical import INDEX_TYPES
from ..expr import Call, IntImm, Not, Range, Var, const, free_vars, is_const_int
from ..node import Mutator, Visitor, collect, structural_equal
from ..tir.effects import has_effect
from ..tir.hints import STAGES
from ..tir.stmt import BufferLoad, BufferStore, Evaluate, IfThenElse, SeqStmt, seq
from .data_flow import DeadElements, KnownValues
from .elements import is_fixed, is_opaque
from .place_buffers import Aliases
from .walk import StmtMutator

NO_OP = Evaluate(const(0))


def is_no_op(stmt):
    """Whether a statement does nothing."""
    if isinstance(stmt, SeqStmt):
        return all(map(is_no_op, stmt.seq))
    return isinstance(stmt, Evaluate) and not has_effect(stmt.value)


def remove_no_op(func, use_dataflow_analysis=False):
    """Requires no views. Ensures that temporaries are stored to only where something else than temporaries needs
    it, no element is stored to itself, and there are no loops, branches, blocks, lets and allocations around
    nothing, nor lets of variables that nothing uses. use_dataflow_analysis: nor stores of values that are provably
    there (KnownValues), nor, among those left, stores that are overwritten before they are read (DeadElements)."""
    for flow in (KnownValues, DeadElements) if use_dataflow_analysis else ():
        func = func.replace(body=_RemoveStores(flow(func).needless).visit(func.body))
    scan = _Scan()
    scan.visit(func.body)
    return func.replace(body=_Remove(scan.dead(), scan.alias).visit(func.body))


class _RemoveStores(StmtMutator):
    """Removes stores {id: whether nobody would miss it}; what their values do besides stays."""

    def __init__(self, needless):
        self.needless = needless

    def visit_BufferStore(self, store):
        if not self.needless.get(id(store)) or is_opaque(store.indices):
            return store
        if not is_opaque(store.value):
            return NO_OP
        return Evaluate(store.value) if isinstance(store.value, Call) else store


class _Scan(Visitor):
    """Allocated buffers, and which buffers the values stored to each of them are made of."""

    def __init__(self):
        self.allocated = set()
        self.sources = {}   # id(buffer) -> ids of buffers that the values stored in it are made of
        self.wanted = set()  # ids of buffers that something other than a store to a temporary reads
        self.alias = Aliases()

    def visit_Var(self, v):
        """A data pointer that a call gets: what it does there, nobody knows."""
        if v in self.alias.pointers:
            self.wanted.add(self.alias.pointers[v])

    def visit_Block(self, block):
        self.allocated.update(map(id, block.alloc_buffers))
        self.alias.add(block)
        self.visit((block.init, block.body))

    def visit_DeclBuffer(self, decl):
        self.allocated.add(id(decl.buffer))
        self.alias.pointers[decl.buffer.data] = id(decl.buffer)
        self.visit(decl.body)

    def visit_BufferStore(self, store):
        key = self.alias[store.buffer]
        if key in self.allocated and not has_effect((store.value, store.indices)):
            loads = collect((store.value, store.indices), BufferLoad)
            self.sources.setdefault(key, set()).update(self.alias[e.buffer] for e in loads)
        else:
            self.visit((store.value, store.indices))
            self.wanted.add(key)

    def visit_BufferLoad(self, load):
        self.visit(load.indices)
        self.wanted.add(self.alias[load.buffer])

    def dead(self):
        """Ids of the allocated buffers that nothing outside of such ones needs."""
        found, front = set(), list(self.wanted)
        while front:
            key = front.pop()
            if key not in found:
                found.add(key)
                front.extend(self.sources.get(key, ()))
        return self.allocated - found


class _Remove(Mutator):
    def __init__(self, dead, alias):
        self.dead, self.alias = dead, alias
        self.staged = False  # whether the next sequence is what a software pipeline counts
        self.around = ()  # what holds around a statement: (variable, its Range or value), or a condition

    def _within(self, stmt, *known):
        self.around += known
        stmt = self.visit(stmt)
        self.around = self.around[:len(self.around) - len(known)]
        return stmt

    def _holds_here(self, ask):
        """The answer of an Analyzer that knows what holds here."""
        an = Analyzer()
        for known in self.around:
            if isinstance(known, tuple):
                an.bind(*known, allow_override=True)
        with an.constraint_scope(*(known for known in self.around if not isinstance(known, tuple))):
            return ask(an)

    def visit_BufferStore(self, store):
        return NO_OP if self.alias[store.buffer] in self.dead or self._stores_itself(store) else store

    def _stores_itself(self, store):
        """Whether a store puts back what is there."""
        load, indices = store.value, store.indices
        if not isinstance(load, BufferLoad) or load.buffer is not store.buffer or has_effect(indices):
            return False
        return structural_equal(load.indices, indices) or is_fixed((load.indices, indices)) and self._holds_here(
            lambda an: all(map(an.can_prove_equal, load.indices, indices)))

    def visit_SeqStmt(self, s):
        staged, self.staged = self.staged, False
        stmts = self.visit(s.seq)
        if staged:  # what is nothing now keeps its place
            return s if stmts is s.seq else SeqStmt(tuple(NO_OP if is_no_op(x) else x for x in stmts))
        return s if stmts is s.seq and not any(map(is_no_op, stmts)) else seq(*(x for x in stmts if not is_no_op(x)))

    def visit_For(self, loop):
        if is_const_int(loop.extent, 0) or not isinstance(loop.extent, IntImm) and is_fixed(loop.extent) and (
                self._holds_here(lambda an: an.can_prove(loop.extent <= 0))):
            return NO_OP
        self.staged = STAGES in loop.annotations
        body = self._within(loop.body, (loop.loop_var, Range(loop.min, loop.extent)))
        self.staged = False
        return NO_OP if is_no_op(body) and not has_effect((loop.min, loop.extent)) else loop.replace(body=body)

    def visit_IfThenElse(self, branch):
        then_case = self._within(branch.then_case, branch.condition)
        else_case = self._within(branch.else_case, Not(branch.condition))
        else_case = None if else_case is None or is_no_op(else_case) else else_case
        if else_case is None and is_no_op(then_case) and not has_effect(branch.condition):
            return NO_OP
        if else_case is not None and is_no_op(then_case):
            return IfThenElse(Not(branch.condition), else_case)
        return branch.replace(then_case=then_case, else_case=else_case)

    def visit_AttrStmt(self, stmt):
        """Nothing when the body is."""
        body = self.visit(stmt.body)
        return body if is_no_op(body) and not has_effect(stmt.value) else stmt.replace(body=body)

    def visit_LetStmt(self, stmt):
        """The body alone where it does not use the variable; after what the value does."""
        known = stmt.var.dtype in INDEX_TYPES and is_fixed(stmt.value)
        body = self._within(stmt.body, *([(stmt.var, stmt.value)] if known else []))
        if any(v is stmt.var for v in free_vars(body)):
            return stmt.replace(body=body)
        return seq(Evaluate(stmt.value), body) if has_effect(stmt.value) else body

    def visit_DeclBuffer(self, decl):
        body = self.visit(decl.body)
        return body if id(decl.buffer) in self.dead or is_no_op(body) else decl.replace(body=body)

    def visit_BlockRealize(self, realize):
        block = self._block(realize.block)
        empty = block.init is None and is_no_op(block.body) and block.name_hint != "root"
        return NO_OP if empty else realize.replace(block=block)

    def _block(self, block):
        init, body = self.visit(block.init), self.visit(block.body)
        if init is not None and is_no_op(init):
            init = None
        block = block.replace(init=init, body=body)
        if not any(self.alias[r.buffer] in self.dead for r in (*block.reads, *block.writes)):
            return block.replace(alloc_buffers=tuple(b for b in block.alloc_buffers if id(b) not in self.dead))
        used = {key for x in collect((init, body), (BufferLoad, BufferStore)) for key in (
            id(x.buffer), self.alias[x.buffer])}
        matches = tuple(m for m in block.match_buffers if self.alias[m.buffer] not in self.dead)
        used |= {id(m.source.buffer) for m in matches}
        pointers = {v for v in collect((init, body), Var) if v in self.alias.pointers}
        used |= {self.alias.pointers[v] for v in pointers}
        return block.replace(
            match_buffers=matches, alloc_buffers=tuple(b for b in block.alloc_buffers if id(b) not in self.dead),
            reads=tuple(r for r in block.reads if id(r.buffer) in used),
            writes=tuple(r for r in block.writes if id(r.buffer) in used))
