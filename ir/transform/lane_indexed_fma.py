"""LaneIndexedFMA: load in vectors an operand whose elements a loop broadcasts one after the other."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import Broadcast, Call, Cast, IntImm, Ramp, Select, Var, cast, const, free_vars, is_const_int, substitute
from ..node import Mutator, collect, structural_equal
from ..tir.buffer import decl_buffer
from ..tir.hints import LANES
from ..tir.intrin import vector_intrinsic
from ..tir.intrinsics import NEAREST_HALVES
from ..tir.stmt import BufferLoad, BufferStore, DeclBuffer, For, IfThenElse, seq
from .pragmas import text_of
from .walk import rewrite_annotated


def lane_indexed_fma(func):
    """Requires flat buffers and vectors. Ensures no annotation pragma_lanes. A loop l with it, which names a buffer B:

        for l in unroll(4): for i in unroll(8): c[i] = c[i] + Broadcast(B[i * S + l], 4) * w[l]
    becomes
        for i in unroll(8): v[i] = B[i * S : i * S + 4]
        for l in unroll(4): for i in unroll(8): c[i] = c[i] + lane(v[i], l) * w[l]

    where a vector holds what the iterations of l take one by one. Loads whose elements do not lie in a row, or not as
    many of them as a vector has lanes, stay, and all loads where some are made under a condition only. Halves in memory
    are widened as they are loaded.
    """
    return func.replace(body=rewrite_annotated(
        func.body, LANES, lambda loop, names: _in_vectors(loop, set(map(text_of, names)))))


def _in_vectors(loop, names):
    """A loop with the vectors that it takes elements of loaded before it."""
    if is_conditional(loop.body):
        return loop
    written, found = {id(s.buffer) for s in collect(loop, BufferStore)}, []
    for b in collect(loop.body, Broadcast):
        load = _load_of(b)
        if (load is not None and load.buffer.name in names and id(load.buffer) not in written
                and not any(structural_equal(b, known) for known in found)):
            found.append(b)
    stmt, buffers, loads = loop, [], []
    for b in found:
        inner = _loops_of(b, loop)
        if inner is None:
            continue
        buffer, load, element = _vectors(b, loop, inner)
        stmt = _Replace(b, element).visit(stmt)
        buffers.append(buffer)
        loads.append(load)
    stmt = seq(*loads, stmt)
    for buffer in buffers:
        stmt = DeclBuffer(buffer, stmt)
    return stmt


def is_conditional(stmt):
    """Whether something in a statement happens under a condition only."""
    return collect(stmt, (IfThenElse, Select)) or any(c.op == "tir.if_then_else" for c in collect(stmt, Call))


def _load_of(broadcast):
    """The load that a broadcast is of, or of which it widens the half; None for another."""
    value = broadcast.value
    if isinstance(value, Cast) and value.dtype == "float32" and value.value.dtype in NEAREST_HALVES:
        value = value.value
    return value if isinstance(value, BufferLoad) else None


def _loops_of(broadcast, loop):
    """The loops inside `loop` that move the element; None where a vector does not hold what the iterations take."""
    index, = _load_of(broadcast).indices
    if Analyzer().step(index, loop.loop_var) != 1 or not is_const_int(loop.extent, broadcast.lanes) or collect(
            index, BufferLoad):
        return None
    used = free_vars(index)
    inner = [x for x in collect(loop.body, For) if any(v is x.loop_var for v in used)]
    return inner if all(x.kind == "unrolled" and isinstance(x.extent, IntImm) for x in inner) else None


def _vectors(broadcast, loop, inner):
    """(buffer of vectors, the statement that fills it, the element that an iteration of `loop` takes)."""
    load, dtype, lanes = _load_of(broadcast), broadcast.dtype, broadcast.lanes
    source, (index,) = load.buffer, load.indices
    count, at = 1, const(0, index.dtype)
    for x in inner:
        count *= x.extent.value
        at = at * const(x.extent.value, index.dtype) + (x.loop_var - x.min)
    vectors = decl_buffer((const(count, index.dtype),), dtype, f"{source.name}_lanes", "local")
    new = {x.loop_var: Var(x.loop_var.name, x.loop_var.dtype) for x in inner}
    first = substitute(index, {loop.loop_var: loop.min, **new})
    simplify = Analyzer().simplify
    row = BufferLoad(source, (Ramp(simplify(first), const(1, index.dtype), lanes),))
    fill = BufferStore(vectors, cast(row, dtype), (simplify(substitute(at, new)),))
    for x in reversed(inner):
        fill = For(new[x.loop_var], x.min, x.extent, x.kind, fill)
    return vectors, fill, vector_intrinsic("lane", BufferLoad(vectors, (simplify(at),)), loop.loop_var - loop.min)


class _Replace(Mutator):
    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit_Broadcast(self, e):
        return self.new if structural_equal(e, self.old) else self.generic_visit(e)
