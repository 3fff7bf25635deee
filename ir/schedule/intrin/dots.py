"""Products of rows of a few numbers, added up: what dot product instructions of processors do, under TVM's names.

The implementation is one sum an element, which compilers make the instruction of where the target has it; so that all
of them compute on all targets.
"""
from __future__ import annotations

from dataclasses import dataclass

from ...expr import Var, cast, const
from ...tir.buffer import decl_buffer
from ...tir.function import prim_func
from ...tir.stmt import BufferStore, for_
from ..tensor_intrin import TensorIntrin
from .nests import described, implementation, nest, point


@dataclass(frozen=True)
class Dot:
    """C[i] += A[k] * B[i, k] for `rows` i and `terms` k; of one element, B has no i. scopes: of A, B and C."""

    rows: int
    terms: int
    a: str
    b: str
    c: str
    scopes: tuple = ("global", "global", "global")
    align: int = 64

    def buffers(self):
        shapes = (self.terms,), (self.rows, self.terms) if self.rows > 1 else (self.terms,), (self.rows,)
        return [decl_buffer(shape, dtype, name, scope, data_alignment=self.align, offset_factor=1)
                for name, shape, dtype, scope in zip("ABC", shapes, (self.a, self.b, self.c), self.scopes)]

    def term(self, a, b, i, k):
        """The product of two elements, in the dtype of the sum."""
        return cast(a[k], self.c) * cast(b[(i, k) if self.rows > 1 else k], self.c)

    def description(self):
        a, b, c = self.buffers()

        def update(*iters):
            i, k = iters if self.rows > 1 else (const(0), *iters)
            loads = a[k], b[(i, k) if self.rows > 1 else k]
            return list(map(point, loads)), [point(c[i])], BufferStore(c, c[i] + self.term(a, b, i, k), (i,))

        extents, kinds = ((self.rows, self.terms), "SR") if self.rows > 1 else ((self.terms,), "R")
        return described([a, b, c], [c, a, b], [c], nest(extents, kinds, "update", update))

    def implementation(self):
        a, b, c = self.buffers()
        i = Var("i", "int32") if self.rows > 1 else const(0)
        total = c[i]
        for k in range(self.terms):
            total = total + self.term(a, b, i, const(k))
        body = BufferStore(c, total, (i,))
        return implementation([a, b, c], [c, a, b], [c], for_(i, self.rows, body) if self.rows > 1 else body)


_TILE = ("shared", "shared", "local")
DOTS = {
    "dot_16x4_vnni": Dot(16, 4, "uint8", "int8", "int32"),
    "dot_16x4_avx512": Dot(16, 4, "uint8", "int8", "int32"),
    "dot_4x4_i8i8s32_neon": Dot(4, 4, "int8", "int8", "int32"),
    "dot_4x4_i8i8s32_sdot": Dot(4, 4, "int8", "int8", "int32"),
    "dot_4x4_u8u8u32_udot": Dot(4, 4, "uint8", "uint8", "uint32"),
    "dot_4x4_u8u8i32_hdot": Dot(4, 4, "uint8", "uint8", "int32"),
    "dot_32x4_u8u8i32_vrmpy": Dot(32, 4, "uint8", "uint8", "int32"),
    "dot_32x4_u8i8i32_vrmpy": Dot(32, 4, "uint8", "int8", "int32"),
    "dot_product_32x2_i16i16i32_vdmpy": Dot(32, 2, "int16", "int16", "int32"),
    "dp4a_s8s8s32": Dot(1, 4, "int8", "int8", "int32", _TILE, 4),
    "dp4a_u8s8s32": Dot(1, 4, "uint8", "int8", "int32", _TILE, 4),
    "dp4a_s8u8s32": Dot(1, 4, "int8", "uint8", "int32", _TILE, 4),
    "dp4a_u8u8u32": Dot(1, 4, "uint8", "uint8", "uint32", _TILE, 4),
    "sdot4": Dot(1, 4, "int8", "int8", "int32", _TILE, 4),
}


def _declared(name):
    return DOTS[name].description(), DOTS[name].implementation()


def desc_of(name):
    """The description of an intrinsic."""
    return TensorIntrin.get(name).desc


TensorIntrin.family(f"({'|'.join(DOTS)})", _declared)
