"""InjectPTXAsyncCopy: copies from global to shared memory in an asynchronous scope become cp.async."""
from __future__ import annotations

from ...expr import Broadcast, Call, FloatImm, IntImm, Ramp, const, is_const_int
from ...tir.intrin import address_of
from ...tir.stmt import BufferLoad, BufferStore, Evaluate
from ..walk import StmtMutator
from .barriers import ASYNC_SCOPE

CP_ASYNC = "tir.ptx_cp_async"
SIZES = (4, 8, 16)  # bytes that one copy may move


def inject_ptx_async_copy(func):
    """Requires flat buffers and no vectorized loops. Ensures that no attribute says `async_scope`: in one, stores to
    shared memory of 4, 8 or 16 bytes that neighbours in global memory hold, or zeros where a condition fails, are
    tir.ptx_cp_async(to, from, bytes[, condition]); other stores stay, and are done when they are run."""
    return func.replace(body=_Inject().visit(func.body))


class _Inject(StmtMutator):
    def __init__(self):
        self.inside = False

    def visit_AttrStmt(self, stmt):
        if stmt.attr_key != ASYNC_SCOPE:
            return stmt.replace(body=self.visit(stmt.body))
        around, self.inside = self.inside, True
        body, self.inside = self.visit(stmt.body), around
        return body

    def visit_BufferStore(self, store):
        return (self.inside and copied(store)) or store


def copied(store):
    """The asynchronous copy that a store is; None where it is none."""
    value, condition = store.value, None
    if isinstance(value, Call) and value.op == "tir.if_then_else" and _is_zero(value.args[2]):
        condition, value = value.args[:2]
    if not (isinstance(value, BufferLoad) and store.buffer.scope.startswith("shared") and value.buffer.scope == "global"
            and value.buffer.dtype == store.buffer.dtype and not store.buffer.strides):
        return None
    start, source = _start(store.indices), _start(value.indices)
    size = store.buffer.dtype.bytes * value.dtype.lanes
    if start is None or source is None or size not in SIZES:
        return None
    args = [address_of(BufferLoad(store.buffer, (start,))), address_of(BufferLoad(value.buffer, (source,))), const(size)]
    return Evaluate(Call("void", CP_ASYNC, (*args, *(() if condition is None else (condition,)))))


def _start(indices):
    """The first of neighbouring elements; None where they are none."""
    index = indices[-1]
    if not isinstance(index, Ramp):
        return index
    return index.base if is_const_int(index.stride, 1) and index.count is None else None


def _is_zero(value):
    value = value.value if isinstance(value, Broadcast) else value
    return isinstance(value, (IntImm, FloatImm)) and value.value == 0


__all__ = ["CP_ASYNC", "copied", "inject_ptx_async_copy"]
