"""RegisterTranspose: read a square of elements along its rows and transpose it in registers."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import Broadcast, IntImm, Ramp, Var, const, is_const_int, substitute
from ..node import Mutator, collect, structural_equal
from ..tir.buffer import decl_buffer
from ..tir.hints import TRANSPOSE
from ..tir.intrin import vector_intrinsic
from ..tir.stmt import BufferLoad, BufferStore, DeclBuffer, For, seq
from .lane_indexed_fma import is_conditional
from .walk import rewrite_annotated


def register_transpose(func):
    """Requires flat buffers and vectors. Ensures no annotation pragma_transpose. A loop with it:

        for u in unroll(4): c[u * T : u * T + 4] = f(B[u], B[u + S], B[u + 2 * S], B[u + 3 * S])
    becomes
        for r in unroll(4): v[r] = B[r * S : r * S + 4]
        for r in unroll(2): w[r] = evens(v[r], v[r + 2], 2), w[r + 2] = odds(v[r], v[r + 2], 2)
        for r in unroll(2): v[r * 2] = evens(w[r * 2], w[r * 2 + 1], 1), v[r * 2 + 1] = odds(w[r * 2], w[r * 2 + 1], 1)
        for u in unroll(4): c[u * T : u * T + 4] = f(v[u])

    where vectors have as many lanes as the loop has turns. Of a part of a vector fewer rows are read, and others are
    zero. Loads that are no such squares stay, and all loads where some are made under a condition only.
    """
    return func.replace(body=rewrite_annotated(func.body, TRANSPOSE, lambda loop, _: _in_registers(loop)))


def _in_registers(loop):
    if is_conditional(loop.body):
        return loop
    written, squares = {id(s.buffer) for s in collect(loop, BufferStore)}, []
    for load in collect(loop.body, BufferLoad):
        if id(load.buffer) not in written and _is_square(load, loop) and not any(
                structural_equal(load, known) for known in squares):
            squares.append(load)
    stmt, buffers = loop, []
    for load in squares:
        fills, (result, other) = _turned(load, loop)
        stmt = seq(*fills, _Replace(load, BufferLoad(result, (loop.loop_var,))).visit(stmt))
        buffers += [result, other]
    for buffer in buffers:
        stmt = DeclBuffer(buffer, stmt)
    return stmt


def _is_square(load, loop):
    """Whether the iterations of a loop take, from the places that a vector is read from, each the next elements."""
    index = load.indices[0]
    if not (isinstance(index, Ramp) and load.buffer.dtype == "float32"
            and (index.count is None or isinstance(index.count, IntImm))
            and is_const_int(loop.extent, index.lanes) and is_const_int(loop.min, 0)):
        return False
    return (Analyzer().step(index.base, loop.loop_var) == 1 and not is_const_int(index.stride, 1)
            and not collect(index, BufferLoad))


def _turned(load, loop):
    """(statements that read a square along its rows and turn it, (buffer of vectors that holds it, another one))."""
    ramp, dtype = load.indices[0], loop.loop_var.dtype
    lanes, start = ramp.lanes, substitute(ramp.base, {loop.loop_var: const(0, dtype)})
    one, other = (decl_buffer((const(lanes, dtype),), load.buffer.dtype.with_lanes(lanes), f"{load.buffer.name}_{name}",
                              "local") for name in ("rows", "turned"))
    count = lanes if ramp.count is None else ramp.count.value
    fills = [_rows(one, 0, count, lambda row: BufferLoad(load.buffer, (
        Ramp(Analyzer().simplify(start + row * ramp.stride), const(1, ramp.base.dtype), lanes),)), dtype)]
    if count < lanes:
        zero = Broadcast(const(0.0, load.buffer.dtype), lanes)
        fills.append(_rows(one, count, lanes - count, lambda row: zero, dtype))
    width = lanes // 2
    while width:
        fills.append(_exchange(one, other, width, lanes, dtype))
        one, other, width = other, one, width // 2
    return fills, (one, other)


def _rows(buffer, first, count, value, dtype):
    """Store the values of so many rows."""
    var = _index("row", count, dtype)
    row = Analyzer().simplify(var + const(first, dtype))
    return _unrolled(var, count, BufferStore(buffer, value(row), (row,)))


def _exchange(source, target, width, lanes, dtype):
    """Rows r and r + width exchange blocks of so many lanes."""
    counts = lanes // (2 * width), width
    outer, inner = (_index(name, n, dtype) for name, n in zip(("block", "row"), counts))
    low = Analyzer().simplify(outer * const(2 * width, dtype) + inner)
    high = low + const(width, dtype)
    a, b = (BufferLoad(source, (r,)) for r in (low, high))
    body = seq(*(BufferStore(target, vector_intrinsic(name, a, b, const(width, "int32")), (r,))
                 for name, r in (("evens", low), ("odds", high))))
    return _unrolled(outer, counts[0], _unrolled(inner, counts[1], body))


def _index(name, extent, dtype):
    """The variable of a loop of so many iterations, or what it is in its only one."""
    return Var(name, dtype) if extent > 1 else const(0, dtype)


def _unrolled(var, extent, body):
    return body if extent == 1 else For(var, const(0, var.dtype), const(extent, var.dtype), "unrolled", body)


class _Replace(Mutator):
    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit_BufferLoad(self, e):
        return self.new if structural_equal(e, self.old) else self.generic_visit(e)
