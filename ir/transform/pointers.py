"""ResolvePointers: what C functions get of buffers are the addresses of elements."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import Call, Var, is_const_int
from ..node import Mutator, collect
from ..tir.intrin import address_of
from ..tir.stmt import Block, BufferLoad, DeclBuffer

_CALLS = ("tir.call_extern", "tir.call_pure_extern")


def resolve_pointers(func):
    """f(A.data)  ->  f(address_of(A[0])), where A is a buffer of the function.

    Requires shaped buffers. tvm_access_ptr(dtype, A.data, offset, extent, mask) becomes the address of the element at
    that offset. The data of a matched buffer is that of the buffer which it is a region of: where it begins is its
    elem_offset, which offsets count too."""
    calls = [call for call in collect(func.body, Call) if call.op in _CALLS or call.op == "tir.tvm_access_ptr"]
    if not collect([call.args for call in calls], Var):
        return func
    sources = {m.buffer.data: m.source.buffer.data for block in collect(func.body, Block) for m in block.match_buffers}
    return func.replace(body=_ResolvePointers(_owners(func), sources).visit(func.body))


def _owners(func):
    """{data pointer: the Buffer that it was made for}."""
    found = {}
    for b in (*func.buffers, *(b for n in collect(func.body, (Block, DeclBuffer)) for b in _defined(n))):
        found.setdefault(b.data, b)
    return found


def _defined(n):
    if isinstance(n, DeclBuffer):
        return (n.buffer,)
    return (*n.alloc_buffers, *(m.buffer for m in n.match_buffers))


class _ResolvePointers(Mutator):
    def __init__(self, owners, sources):
        self.owners, self.sources = owners, sources

    def visit_Call(self, call):
        call = self.generic_visit(call)
        if call.op == "tir.tvm_access_ptr" and call.args[1] in self.owners:
            kind, data, offset = call.args[:3]
            buffer = self.owners[data]
            offset = buffer.in_elements(offset, kind.dtype)
            if data in self.sources and not is_const_int(buffer.elem_offset, 0):
                offset = Analyzer().simplify(offset - buffer.elem_offset)
            return address_of(BufferLoad(buffer, buffer.indices_at(offset)))
        if call.op not in _CALLS:
            return call
        return call.replace(args=tuple(self._beginning(a) if isinstance(a, Var) and a in self.owners else a
                                       for a in call.args))

    def _beginning(self, data):
        while data in self.sources:
            data = self.sources[data]
        return self.owners[data].access_ptr()


__all__ = ["resolve_pointers"]
