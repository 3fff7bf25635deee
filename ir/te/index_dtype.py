"""index_dtype_override: loops, iterators, indices and shapes of a PrimFunc in another integer dtype."""
from __future__ import annotations

from ..dtype import DataType
from ..expr import BinaryExpr, CompareExpr, IntImm, Not, Range, Var, binary, cast, const
from ..node import Mutator
from ..tir.buffer import decl_buffer


def with_index_dtype(func, dtype):
    """`func` with all index arithmetic, and its integer parameters, in `dtype` ("int32" or "int64")."""
    if dtype not in ("int32", "int64"):
        raise ValueError(f'index_dtype_override is {dtype!r}; known: "int32", "int64"')
    return _Reindex(DataType(dtype)).visit(func)


class _Reindex(Mutator):
    def __init__(self, dtype):
        self.dtype = dtype
        self.vars, self.buffers = {}, {}

    def index(self, e):
        """An index or extent in the dtype."""
        return cast(self.visit(e), self.dtype)

    def visit_PrimFunc(self, func):
        buffer_map = {p: self.visit(b) for p, b in func.buffer_map.items()}
        return func.replace(params=self.visit(func.params), buffer_map=buffer_map, body=self.visit(func.body))

    def visit_Var(self, v):
        if v not in self.vars:
            self.vars[v] = v.renewed(dtype=self.dtype) if v.dtype.is_int and v.dtype != self.dtype else v
        return self.vars[v]

    def visit_Buffer(self, b):
        if b not in self.buffers:
            self.buffers[b] = decl_buffer(
                tuple(map(self.index, b.shape)), b.dtype, b.name, b.scope, tuple(map(self.index, b.strides)),
                b.elem_offset if isinstance(b.elem_offset, IntImm) else self.index(b.elem_offset), b.data_alignment,
                b.offset_factor, b.data, b.axis_separators)
        return self.buffers[b]

    def visit_Range(self, r):
        return Range(self.index(r.min), self.index(r.extent))

    def visit_For(self, loop):
        return loop.replace(loop_var=self.visit(loop.loop_var), min=self.index(loop.min),
                            extent=self.index(loop.extent), body=self.visit(loop.body))

    def visit_BlockRealize(self, realize):
        block = self.visit(realize.block)
        return realize.replace(block=block, predicate=self.visit(realize.predicate),
                               iter_values=tuple(map(self.index, realize.iter_values)))

    def visit_LetStmt(self, let):
        self.vars[let.var] = let.var  # a value, not an index
        return let.replace(value=cast(self.visit(let.value), let.var.dtype), body=self.visit(let.body))

    def visit_BufferLoad(self, load):
        return load.replace(buffer=self.visit(load.buffer), indices=tuple(map(self.index, load.indices)))

    def visit_BufferStore(self, store):
        return store.replace(buffer=self.visit(store.buffer), indices=tuple(map(self.index, store.indices)),
                             value=cast(self.visit(store.value), store.value.dtype))

    def visit_Cast(self, e):
        return cast(self.visit(e.value), e.dtype)

    def generic_visit(self, n):
        if isinstance(n, (BinaryExpr, CompareExpr)) and not isinstance(n, Not):
            a, b = self.visit(n.a), self.visit(n.b)
            if a is n.a and b is n.b:
                return n
            if a.dtype != b.dtype and isinstance(b, IntImm):
                b = const(b.value, a.dtype)
            return binary(type(n), a, b)
        return super().generic_visit(n)
