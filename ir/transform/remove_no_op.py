"""RemoveNoOp: what computes nothing that anyone sees goes."""
from __future__ import annotations

from ..expr import Call, Not, Var, const, free_vars, is_const_int
from ..node import Mutator, Visitor, collect, structural_equal
from ..tir.device_ops import DEVICE_OPS, SHUFFLES
from ..tir.stmt import BufferLoad, BufferStore, Evaluate, IfThenElse, SeqStmt, seq
from .place_buffers import Aliases

NO_OP = Evaluate(const(0))
# Calls that do more than give a value.
EFFECTS = frozenset(["tir.call_extern", "tir.call_packed", "tir.tvm_call_packed", "tir.prefetch",
                     *(f"tir.{name}" for name in (*DEVICE_OPS, *SHUFFLES))])
ATOMICS = "tir.atomic_"  # what the others begin with


def is_no_op(stmt):
    """Whether a statement does nothing."""
    if isinstance(stmt, SeqStmt):
        return all(map(is_no_op, stmt.seq))
    return isinstance(stmt, Evaluate) and not has_effect(stmt.value)


def has_effect(e):
    """Whether evaluating an expression does more than give a value."""
    return any(call.op in EFFECTS or call.op.startswith(ATOMICS) for call in collect(e, Call))


def remove_no_op(func):
    """Requires no views. Ensures that temporaries are stored to only where something else than temporaries needs
    it, no element is stored to itself, and there are no loops, branches, blocks, lets and allocations around
    nothing, nor lets of variables that nothing uses."""
    scan = _Scan()
    scan.visit(func.body)
    return func.replace(body=_Remove(scan.dead(), scan.alias).visit(func.body))


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


def _stores_itself(store):
    """Whether a store puts back what is there."""
    value = store.value
    return isinstance(value, BufferLoad) and value.buffer is store.buffer and not has_effect(store.indices) and (
        structural_equal(value.indices, store.indices))


class _Remove(Mutator):
    def __init__(self, dead, alias):
        self.dead, self.alias = dead, alias

    def visit_BufferStore(self, store):
        return NO_OP if self.alias[store.buffer] in self.dead or _stores_itself(store) else store

    def visit_SeqStmt(self, s):
        stmts = self.visit(s.seq)
        return s if stmts is s.seq and not any(map(is_no_op, stmts)) else seq(*(x for x in stmts if not is_no_op(x)))

    def visit_For(self, loop):
        if is_const_int(loop.extent, 0):
            return NO_OP
        body = self.visit(loop.body)
        return NO_OP if is_no_op(body) else loop.replace(body=body)

    def visit_IfThenElse(self, branch):
        then_case, else_case = self.visit(branch.then_case), self.visit(branch.else_case)
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
        body = self.visit(stmt.body)
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
        used = {id(x.buffer) for x in collect((init, body), (BufferLoad, BufferStore))}
        matches = tuple(m for m in block.match_buffers if self.alias[m.buffer] not in self.dead)
        used |= {id(m.source.buffer) for m in matches}
        pointers = {v for v in collect((init, body), Var) if v in self.alias.pointers}
        used |= {self.alias.pointers[v] for v in pointers}
        return block.replace(
            match_buffers=matches, alloc_buffers=tuple(b for b in block.alloc_buffers if id(b) not in self.dead),
            reads=tuple(r for r in block.reads if id(r.buffer) in used),
            writes=tuple(r for r in block.writes if id(r.buffer) in used))
