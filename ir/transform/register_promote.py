"""RegisterPromote: load once a vector that several FMAs read."""
from __future__ import annotations

from ..node import Mutator
from ..tir.hints import HOLD
from ..tir.intrin import vector_intrinsic
from ..tir.stmt import BufferLoad
from .walk import rewrite_annotated


def register_promote(func):
    """Requires flat buffers and vectors. Ensures no annotation pragma_hold: in a loop with it

        for i in unroll(4): v[i] = B[i * S : i * S + 16]
    becomes
        for i in unroll(4): v[i] = held(B[i * S : i * S + 16])

    so that compilers do not make an operand in memory of each use of v[i]: loads are what such kernels wait for.
    """
    return func.replace(body=rewrite_annotated(
        func.body, HOLD, lambda loop, _: loop.replace(body=_Stores().visit(loop.body))))


class _Stores(Mutator):
    def visit_BufferStore(self, store):
        vector = isinstance(store.value, BufferLoad) and store.value.dtype.lanes > 1
        return store.replace(value=vector_intrinsic("held", store.value)) if vector else store
