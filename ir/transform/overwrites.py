"""Which inputs a kernel may overwrite by its result: those of which it reads an element for the last time where it
writes the same element of the result."""
from __future__ import annotations

from dataclasses import fields

from ..arith import Analyzer
from ..expr import IntImm, Ramp
from ..node import Node, collect, structural_equal
from ..tir.stmt import BufferLoad, BufferStore, For, IfThenElse, Stmt, While
from .walk import all_statements, statements

ASKED = "may_overwrite"  # attribute: elements of the one result of a function, where overwriting is asked for
ATTRIBUTE = "overwrites"  # attribute: the positions, among tensors, of inputs that the result may overwrite


def find_overwrites(func):
    """Requires flat buffers. Ensures attrs["overwrites"] where attrs["may_overwrite"] asks for it: inputs of the
    result's type that are read by nothing but the stores of the result, each at the index that it writes. The kernel
    writes each element once, which the number of elements shows; it reads none of the result.

    Such parameters have no qualifier by which the compiler would take them for memory of their own.
    """
    if ASKED not in func.attrs:
        return func
    buffers = func.buffers[:len(func.buffers) - func.attrs.get("num_workspace", 0)]
    *inputs, result = buffers
    if _executions(func.body, result) != func.attrs[ASKED]:
        return func
    found = tuple(n for n, b in enumerate(inputs) if b.dtype == result.dtype and _read_where_written(func, b, result))
    return func.with_attr(ATTRIBUTE, found) if found else func


def _read_where_written(func, buffer, result):
    """Whether a function reads a buffer for nothing but the stores of the result, there at the index that is written,
    and reads none of the result."""
    simplify, read = Analyzer().simplify, False
    for stmt in all_statements(func.body):
        values = [v for f in fields(stmt) for v in _as_tuple(getattr(stmt, f.name)) if not isinstance(v, Stmt)]
        stored = isinstance(stmt, BufferStore) and stmt.buffer is result
        allowed = {id(load) for load in collect(stmt.value, BufferLoad) if _alike(load.indices[0], stmt.indices[0],
                                                                                 simplify)} if stored else ()
        for load in (load for v in values if isinstance(v, Node) for load in collect(v, BufferLoad)):
            if load.buffer is result or load.buffer is buffer and id(load) not in allowed:
                return False
            read |= load.buffer is buffer
    return read


def _as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def _alike(a, b, simplify):
    """Whether two indices are the same elements in the same order."""
    if isinstance(a, Ramp) and isinstance(b, Ramp):
        return (a.lanes == b.lanes and structural_equal(a.stride, b.stride)
                and structural_equal(simplify(a.base), simplify(b.base)))
    return structural_equal(simplify(a), simplify(b))


def _executions(stmt, buffer):
    """How many elements of a buffer a statement stores, one stored twice counted twice; None where that depends."""
    if isinstance(stmt, BufferStore):
        return stmt.value.dtype.lanes if stmt.buffer is buffer else 0
    inner = [_executions(s, buffer) for s in statements(stmt)]
    if None in inner:
        return None
    total = sum(inner)
    if not total or not isinstance(stmt, (For, IfThenElse, While)):
        return total  # once
    return total * stmt.extent.value if isinstance(stmt, For) and isinstance(stmt.extent, IntImm) else None
