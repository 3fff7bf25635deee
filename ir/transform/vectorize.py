"""VectorizeLoop: a vectorized loop becomes vector expressions (Ramp, Broadcast), or stays a loop where it cannot."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import (Add, Broadcast, Call, Div, FloatImm, IntImm, Max, Min, Mul, Ramp, Range, Sub, Var, const,
                    free_vars, substitute)
from ..node import Mutator
from ..tir.buffer import decl_buffer
from ..tir.stmt import BufferLoad, BufferStore, SeqStmt

# Calls with a vector form in simd.h. The binary arithmetic nodes all have one.
VECTOR_CALLS = ("exp", "log", "tanh", "erf", "sigmoid", "sqrt", "abs", "floor")
VECTOR_LANES = (4, 8, 16)
_ARITHMETIC = (Add, Sub, Mul, Div, Min, Max)


class NotVectorizable(Exception):
    """Carries the reason why a loop stays scalar."""


def vectorize_loop(func):
    """Requires flat buffers. Ensures no loop is `vectorized`: float32 loops of 4, 8 or 16 iterations whose accesses
    are contiguous, strided or invariant become vectors; others become serial loops annotated "simd" with the reason.
    """
    return func.replace(body=_VectorizeLoops().visit(func.body))


class _VectorizeLoops(Mutator):
    def __init__(self):
        self.analyzer = Analyzer()

    def visit_For(self, loop):
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
        if loop.kind != "vectorized":
            return self.generic_visit(loop)
        try:
            return _vectorize(loop, self.analyzer)
        except NotVectorizable as reason:
            return loop.replace(kind="serial", body=self.visit(loop.body),
                                annotations={**loop.annotations, "simd": str(reason)})


def _vectorize(loop, analyzer):
    if not (isinstance(loop.extent, IntImm) and loop.extent.value in VECTOR_LANES):
        raise NotVectorizable(f"extent {loop.extent} is not one of {VECTOR_LANES}")
    widen = _Widen(loop.loop_var, loop.min, loop.extent.value, analyzer)
    stmts = loop.body.seq if isinstance(loop.body, SeqStmt) else (loop.body,)
    out = [widen.store(s) for s in stmts]
    return out[0] if len(out) == 1 else SeqStmt(tuple(out))


class _Widen:
    """Rewrites scalar expressions of one loop variable into vectors of `lanes`."""

    def __init__(self, var, start, lanes, analyzer):
        self.var, self.start, self.lanes, self.analyzer = var, start, lanes, analyzer

    def store(self, stmt):
        if not isinstance(stmt, BufferStore):
            raise NotVectorizable(f"the body holds a {type(stmt).__name__}")
        if stmt.buffer.dtype != "float32":
            raise NotVectorizable(f"{stmt.buffer.dtype} has no vector type yet")
        index = self.index(stmt.indices[0])
        if not isinstance(index, Ramp):
            raise NotVectorizable(f"every iteration writes the same element of {stmt.buffer.name}")
        return BufferStore(stmt.buffer, self.vector(self.value(stmt.value)), (index,))

    def vector(self, e):
        return e if e.dtype.lanes > 1 else Broadcast(e, self.lanes)

    def index(self, e):
        """A scalar index when it does not vary, else a Ramp."""
        if not any(v is self.var for v in free_vars(e)):
            return e
        here = substitute(e, {self.var: self.start})
        stride = self.analyzer.simplify(substitute(e, {self.var: self.start + 1}) - here)
        for lane in range(2, self.lanes):
            there = substitute(e, {self.var: self.start + lane})
            if not self.analyzer.can_prove_equal(there - here, stride * lane):
                raise NotVectorizable(f"index {e} is not linear in {self.var.name}")
        base = self.analyzer.simplify(here)
        if isinstance(stride, IntImm) and stride.value == 0:
            return base
        return Ramp(base, stride, self.lanes)

    def value(self, e):
        if isinstance(e, (FloatImm, IntImm)):
            return e
        if isinstance(e, BufferLoad):
            if e.buffer.dtype != "float32":
                raise NotVectorizable(f"{e.buffer.dtype} has no vector type yet")
            return e.replace(indices=(self.index(e.indices[0]),))
        if isinstance(e, Var):
            if e is self.var:
                raise NotVectorizable(f"{self.var.name} is used as a value")
            return e
        if e.dtype != "float32":
            if any(v is self.var for v in free_vars(e)):
                raise NotVectorizable(f"{e.dtype} values have no vector type yet")
            return e
        if isinstance(e, _ARITHMETIC):
            a, b = self.value(e.a), self.value(e.b)
            if a.dtype.lanes == b.dtype.lanes:
                return type(e)(a, b)
            return type(e)(self.vector(a), self.vector(b))
        if isinstance(e, Call) and e.op.removeprefix("tir.") in VECTOR_CALLS:
            arg = self.value(e.args[0])
            return Call(e.dtype.with_lanes(arg.dtype.lanes), e.op, (arg,))
        if not any(v is self.var for v in free_vars(e)):
            return e
        what = e.op if isinstance(e, Call) else type(e).__name__
        raise NotVectorizable(f"{what} has no vector form")


def rewrite_vector_types(func):
    """VectorTypeRewrite: a local buffer that is only ever accessed by whole aligned vectors becomes a buffer of vectors,
    so that the C compiler keeps it in registers. Requires vectors; ensures such buffers have a vector dtype."""
    scan = _ScanVectorAccess()
    scan.visit(func.body)
    lanes = {k: v for k, v in scan.lanes.items() if v > 1}
    return func.replace(body=_UseVectorTypes(lanes, scan.analyzer).visit(func.body))


class _ScanVectorAccess(Mutator):
    def __init__(self):
        self.lanes, self.analyzer = {}, Analyzer()

    def visit_For(self, loop):
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
        return self.generic_visit(loop)

    def visit_DeclBuffer(self, decl):
        if decl.buffer.scope == "local":
            self.lanes.setdefault(id(decl.buffer), 0)  # 0: not accessed yet
        return self.generic_visit(decl)

    def _access(self, node):
        self.generic_visit(node)
        known = self.lanes.get(id(node.buffer))
        if known is None:
            return node
        index, wanted = node.indices[0], 1
        if isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value == 1:
            aligned = self.analyzer.modular_set(index.base)
            extent = node.buffer.shape[0]
            if (aligned.coeff % index.lanes == 0 and aligned.base % index.lanes == 0
                    and isinstance(extent, IntImm) and extent.value % index.lanes == 0):
                wanted = index.lanes
        self.lanes[id(node.buffer)] = wanted if known in (0, wanted) else 1
        return node

    visit_BufferLoad = visit_BufferStore = _access


class _UseVectorTypes(Mutator):
    def __init__(self, lanes, analyzer):
        self.lanes, self.analyzer, self.new = lanes, analyzer, {}

    def visit_DeclBuffer(self, decl):
        lanes, old = self.lanes.get(id(decl.buffer)), decl.buffer
        if lanes is None:
            return self.generic_visit(decl)
        new = decl_buffer((old.shape[0].value // lanes,), old.dtype.with_lanes(lanes), old.name, old.scope,
                          data_alignment=old.data_alignment)
        self.new[id(old)] = new
        return decl.replace(buffer=new, body=self.visit(decl.body))

    def _access(self, node):
        node = self.generic_visit(node)
        new = self.new.get(id(node.buffer))
        if new is None:
            return node
        base = node.indices[0].base
        index = self.analyzer.simplify(base // const(node.indices[0].lanes, base.dtype))
        return node.replace(buffer=new, indices=(index,))

    visit_BufferLoad = visit_BufferStore = _access
