"""VectorizeLoop as scripts know it: every vectorized loop becomes vectors of as many lanes as it has iterations, which
may be a multiple of T.vscale(). What has no vector form is a serial loop around that statement alone."""
from __future__ import annotations

from ...arith import Analyzer
from ...dtype import ScalableLanes
from ...expr import (
    LT, Add, BinaryExpr, Broadcast, Call, Cast, CompareExpr, IntImm, Let, Mul, Not, Ramp, Select, Sub, Var, const,
    free_vars, is_const_int, scalable_lanes, substitute)
from ...node import Mutator, collect, structural_equal
from ...target import Target
from ...tir.intrin import get_active_lane_mask
from ...tir.intrinsics import SCALAR_INTRINSICS
from ...tir.stmt import BufferLoad, Evaluate, seq
from ..walk import StmtMutator, with_value

BY_LANE = frozenset(["tir.likely", *(f"tir.{name}" for name in SCALAR_INTRINSICS)])  # calls of vectors, lane by lane


def vectorize_loop(func, enable_vectorize=True, predicate=None):
    """Requires flat buffers. Ensures no vectorized loops: where enable_vectorize is false they are serial, else vectors
    of as many lanes as iterations; a statement with a condition or a call that differs between lanes is in a serial
    loop of its own. No iteration uses what another one wrote. predicate: stores and loads of contiguous vectors under
    a condition "index < limit" are of the lanes where it holds (T.get_active_lane_mask); None: of vectors of
    T.vscale() lanes, whose targets have masks.

    Raises ValueError for an extent that is neither a number nor, on an aarch64 target, a multiple of T.vscale(), and
    for while loops and vectors of unknown length within.
    """
    target = func.attrs.get("target")
    return func.replace(body=_Loops(target and Target.get(target), enable_vectorize, predicate).visit(func.body))


class _Loops(StmtMutator):
    """Vectorizes inner loops first."""

    def __init__(self, target, enabled, predicate):
        self.target, self.enabled, self.predicate = target, enabled, predicate

    def visit_AttrStmt(self, attr):
        before = self.target
        if attr.attr_key == "target":
            self.target = Target.get(getattr(attr.target, "value", attr.target))
        attr, self.target = attr.replace(body=self.visit(attr.body)), before
        return attr

    def visit_For(self, loop):
        loop = loop.replace(body=self.visit(loop.body))
        if loop.kind != "vectorized":
            return loop
        if not self.enabled:
            return loop.replace(kind="serial")
        lanes = self._lanes(loop.extent)
        if is_const_int(loop.extent, 0):
            return Evaluate(const(0))
        if lanes == 1:
            return with_value(loop.body, loop.loop_var, loop.min)
        return _Vectors(loop, lanes, self.predicate).statement(loop.body)

    def _lanes(self, extent):
        target = self.target or Target.current()
        lanes = extent.value if isinstance(extent, IntImm) else scalable_lanes(extent)
        knows = target is not None and "asimd" in target.isa  # what SVE is an extension of
        if lanes is None or isinstance(lanes, ScalableLanes) and not knows:
            raise ValueError(f"Failed to vectorize loop with extent {extent} for target {target or '(nullptr)'}: it is "
                             "no number, and vectors of T.vscale() lanes need a target of aarch64")
        return lanes


class _Scalar(Exception):
    """What is visited has no vector form."""


class _Vectors(Mutator):
    """Rewrites what stands in a vectorized loop, for all its iterations at once."""

    def __init__(self, loop, lanes, predicate):
        self.loop, self.analyzer = loop, Analyzer()
        self.predicate = isinstance(lanes, ScalableLanes) if predicate is None else predicate
        self.vectors = {loop.loop_var: Ramp(loop.min, const(1, loop.loop_var.dtype), lanes)}  # variable -> its values

    # ------------------------------------------------------------ statements

    def statement(self, stmt):
        """A statement of all iterations: in a serial loop where it has no vector form. Raises _Scalar where that
        misses a value of a let around, which is a vector by now."""
        try:
            return self.visit(stmt)
        except _Scalar:
            loop = self.loop
            if any(v in self.vectors and v is not loop.loop_var for v in free_vars(stmt)):
                raise
            var = Var(f"{loop.loop_var.name}_s", loop.loop_var.dtype)
            return loop.replace(loop_var=var, kind="serial", body=substitute(stmt, {loop.loop_var: var}))

    def visit_SeqStmt(self, s):
        return seq(*map(self.statement, s.seq))

    def visit_For(self, loop):
        return loop.replace(min=self.scalar(loop.min), extent=self.scalar(loop.extent), body=self.statement(loop.body))

    def visit_IfThenElse(self, branch):
        condition = self.visit(branch.condition)
        if condition.dtype.lanes != 1:
            return self._predicated(condition, branch)
        else_case = None if branch.else_case is None else self.statement(branch.else_case)
        return branch.replace(condition=condition, then_case=self.statement(branch.then_case), else_case=else_case)

    def _predicated(self, condition, branch):
        """Loads and stores of the first lanes alone, those for which the condition holds."""
        a, b = (condition.a, condition.b) if isinstance(condition, LT) else (None, None)
        if not (self.predicate and branch.else_case is None and isinstance(a, Ramp) and is_const_int(a.stride, 1)
                and isinstance(b, Broadcast)):
            raise _Scalar
        mask = get_active_lane_mask(condition.dtype, a.base, b.value)
        return _Predicated(mask).visit(self.visit(branch.then_case))

    def visit_While(self, loop):
        raise ValueError("A while loop inside a vectorized loop not supported.")

    def visit_BlockRealize(self, realize):
        raise ValueError(f"VectorizeLoop: block {realize.block.name_hint} is in a vectorized loop; lower blocks first")

    def visit_LetStmt(self, let):
        value = self.visit(let.value)
        if _is_scalar(value):
            return let.replace(value=value, body=self.statement(let.body))
        var = self.vectors[let.var] = Var(let.var.name, value.dtype)
        try:
            return let.replace(var=var, value=value, body=self.statement(let.body))
        finally:
            del self.vectors[let.var]

    def visit_AssertStmt(self, check):
        return check.replace(condition=self.scalar(check.condition), body=self.statement(check.body))

    def visit_AttrStmt(self, attr):
        return attr.replace(value=self.scalar(attr.value), body=self.statement(attr.body))

    def visit_Evaluate(self, stmt):
        return stmt.replace(value=self.scalar(stmt.value))

    def visit_DeclBuffer(self, decl):
        """Each iteration has elements of its own."""
        old, lanes = decl.buffer, self.loop.extent
        if old.strides or not old.shape or _points(decl.body, old) or not isinstance(lanes, IntImm):
            raise _Scalar
        new = old.replace(shape=(*old.shape[:-1], old.shape[-1] * lanes.value))
        index = self.loop.loop_var - self.loop.min
        body = _OwnElements(old, new, lambda i: self.analyzer.simplify(i * lanes.value + index)).visit(decl.body)
        return decl.replace(buffer=new, body=self.statement(body))

    def visit_BufferStore(self, store):
        value, indices = self.visit(store.value), self.indices(store)
        if value is store.value and indices is store.indices:
            if _reads(value, store.buffer):  # a sum over the iterations
                raise _Scalar
            return store
        if isinstance(store.buffer.dtype.lanes, ScalableLanes):
            raise ValueError("Vectorizing over scalable buffer elements is not supported in vectorizer.")
        lanes = BufferLoad(store.buffer, indices).dtype.lanes
        if lanes == store.buffer.dtype.lanes:  # of all iterations the last one's stays
            raise _Scalar
        return store.replace(value=_widened(value, lanes), indices=indices)

    # ------------------------------------------------------------ expressions

    def scalar(self, e):
        """An expression that is the same in all iterations; raises _Scalar for another one."""
        new = self.visit(e)
        if new.dtype.lanes != e.dtype.lanes:
            raise _Scalar
        return new

    def indices(self, access):
        """Indices of which the last one may be a vector."""
        if not access.indices:
            return access.indices
        *first, last = access.indices
        new = (*map(self.scalar, first), self.visit(last))
        return access.indices if all(a is b for a, b in zip(new, access.indices)) else new

    def visit_Var(self, v):
        return self.vectors.get(v, v)

    def visit_BufferLoad(self, load):
        indices = self.indices(load)
        return load if indices is load.indices else load.replace(indices=indices)

    def binary(self, e):
        a, b = self.visit(e.a), self.visit(e.b)
        if a is e.a and b is e.b:
            return e
        ramp = self._ramp(type(e), a, b)
        return type(e)(*_alike(a, b)) if ramp is None else ramp

    for _kind in (*BinaryExpr.__subclasses__(), *(c for c in CompareExpr.__subclasses__() if c is not Not)):
        locals()[f"visit_{_kind.__name__}"] = binary

    def _ramp(self, kind, a, b):
        """What an operation on a Ramp and a scalar is, as a Ramp; None where it is none."""
        if isinstance(a, Ramp) and a.count is None and _is_scalar(b):
            if kind in (Add, Sub):
                return Ramp(_folded(kind, a.base, b), a.stride, a.lanes)
            if kind is Mul and self.analyzer.can_prove(b > 0):
                return Ramp(_folded(Mul, a.base, b), _folded(Mul, a.stride, b), a.lanes)
        elif isinstance(b, Ramp) and b.count is None and _is_scalar(a):
            if kind in (Add, Sub):
                stride = b.stride if kind is Add else _folded(Sub, const(0, b.stride.dtype), b.stride)
                return Ramp(_folded(kind, a, b.base), stride, b.lanes)
            if kind is Mul and self.analyzer.can_prove(a > 0):
                return Ramp(_folded(Mul, b.base, a), _folded(Mul, b.stride, a), b.lanes)
        return None

    def visit_Not(self, e):
        a = self.visit(e.a)
        return e if a is e.a else Not(a)

    def visit_Select(self, e):
        old = e.condition, e.true_value, e.false_value
        new = tuple(map(self.visit, old))
        return e if all(a is b for a, b in zip(new, old)) else Select(*_alike(*new))

    def visit_Cast(self, e):
        value = self.visit(e.value)
        return e if value is e.value else Cast(e.dtype.with_lanes(value.dtype.lanes), value)

    def visit_Let(self, e):
        value = self.visit(e.value)
        if value.dtype.lanes == e.value.dtype.lanes:
            return e.replace(value=value, body=self.visit(e.body))
        var = self.vectors[e.var] = Var(e.var.name, value.dtype)
        body = self.visit(e.body)
        del self.vectors[e.var]
        return Let(var, value, body)

    def visit_Ramp(self, e):
        base, stride = self.visit(e.base), self.scalar(e.stride)
        if _is_scalar(base):
            return e.replace(base=base, stride=stride, count=e.count and self.scalar(e.count))
        if isinstance(base.dtype.lanes, ScalableLanes):
            raise ValueError("Creating scalable vectors from existing vectors is not supported.")
        if isinstance(e.lanes, ScalableLanes):
            raise ValueError("Vectorizing over existing scalable vectors is not supported.")
        follows = isinstance(base, Ramp) and e.count is None and self.analyzer.can_prove_equal(
            base.stride, stride * e.lanes)
        if not follows:
            raise _Scalar
        return Ramp(base.base, stride, e.lanes * base.lanes)

    def visit_Broadcast(self, e):
        return e.replace(value=self.scalar(e.value))

    def visit_Call(self, call):
        args = self.visit(call.args)
        if args is call.args:
            return call
        before, after = ([a.dtype.lanes for a in part] for part in (call.args, args))
        if before == after:
            return call.replace(args=args)
        if call.op == "tir.if_then_else" and before[0] == after[0]:
            condition, *values = args
            values = _alike(*values)
            return call.replace(dtype=values[0].dtype, args=(condition, *values))
        if call.op == "tir.reinterpret":
            return call.replace(dtype=call.dtype.with_lanes(after[0]), args=args)
        if call.op == "tir.call_llvm_pure_intrin":  # its name, how many arguments decide which one it is, and these
            values = _alike(*args[2:]) if is_const_int(args[1]) else ()
            if not values or values[0].dtype.lanes == 1:
                raise _Scalar
            return call.replace(dtype=call.dtype.with_lanes(values[0].dtype.lanes), args=(*args[:2], *values))
        if call.op not in BY_LANE:
            raise _Scalar
        args = _alike(*args)
        return call.replace(dtype=call.dtype.with_lanes(args[0].dtype.lanes), args=args)


class _Predicated(Mutator):
    """Restricts stores, and the loads for them, to the lanes of a mask. Raises _Scalar where other accesses, or what
    fails for a lane that was not loaded, are among them."""

    def __init__(self, mask):
        self.mask = mask

    def visit_BufferLoad(self, load):
        return load.buffer.vload(self._begin(load), predicate=self.mask)

    def visit_BufferStore(self, store):
        return store.buffer.vstore(self._begin(store), self.visit(store.value), predicate=self.mask)

    def _begin(self, access):
        index = access.indices[-1] if access.indices else None
        if not (isinstance(index, Ramp) and index.count is None and is_const_int(index.stride, 1)
                and structural_equal(index.base, self.mask.args[0])):
            raise _Scalar
        return access.indices

    def _only_here(self, node):
        raise _Scalar

    visit_For = visit_IfThenElse = visit_LetStmt = visit_AttrStmt = visit_AssertStmt = visit_DeclBuffer = _only_here
    visit_Evaluate = visit_Call = _only_here

    def _divided(self, e):
        if e.dtype.is_int:
            raise _Scalar
        return self.generic_visit(e)

    visit_Div = visit_Mod = visit_FloorDiv = visit_FloorMod = _divided


class _OwnElements(Mutator):
    """Accesses to one buffer go to another, their last index to what index(it) is."""

    def __init__(self, old, new, index):
        self.old, self.new, self.index = old, new, index

    def _access(self, node):
        node = self.generic_visit(node)
        if node.buffer is not self.old:
            return node
        return node.replace(buffer=self.new, indices=(*node.indices[:-1], self.index(node.indices[-1])))

    visit_BufferLoad = visit_BufferStore = _access


def _points(stmt, buffer):
    """Whether a call gets the address of a buffer."""
    return any(a is buffer.data or isinstance(a, BufferLoad) and a.buffer is buffer and call.op == "tir.address_of"
               for call in collect(stmt, Call) for a in call.args)


def _is_scalar(e):
    return e.dtype.lanes == 1


def _folded(kind, a, b):
    """A sum, difference or product of integers, without what does nothing in it."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return const({Add: a.value + b.value, Sub: a.value - b.value, Mul: a.value * b.value}[kind], a.dtype)
    neutral = int(kind is Mul)
    if is_const_int(b, neutral) or kind is Mul and is_const_int(a, 0):
        return a
    return b if kind is not Sub and is_const_int(a, neutral) else kind(a, b)


def _reads(e, buffer):
    return any(load.buffer is buffer for load in collect(e, BufferLoad))


def _alike(*values):
    """Values with the lanes of the widest of them."""
    lanes = max((v.dtype.lanes for v in values), key=abs)
    return tuple(_widened(v, lanes) for v in values)


def _widened(e, lanes):
    """A value as a vector of `lanes`; raises _Scalar for a vector that is no part of it."""
    if e.dtype.lanes == lanes:
        return e
    repeated = e.value if isinstance(e, Broadcast) else e
    if not _is_scalar(repeated) or isinstance(lanes, ScalableLanes) != isinstance(e.dtype.lanes, ScalableLanes) and (
            repeated is not e):
        raise _Scalar
    return Broadcast(repeated, lanes)


__all__ = ["vectorize_loop"]
