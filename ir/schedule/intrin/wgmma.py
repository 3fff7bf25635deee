"""Products of a warpgroup (sm_90a), as each of its warps sees them: 16 rows of the sums, all columns, 64 terms.

Both operands lie in shared memory along the terms, in rows of 128 bytes that are swizzled (SwizzleShared). The four
warps of a warpgroup, neighbours, do this together, each with its 16 rows of 64.
"""
from __future__ import annotations

from ...expr import Cast, Var, const
from ...tir.buffer import decl_buffer
from ...tir.function import prim_func
from ...tir.intrin import address_of, device_op
from ...tir.stmt import BufferStore
from ..tensor_intrin import TensorIntrin
from .nests import implementation, nest, point

ROWS, TERMS = 16, 64
_DTYPES = {"f16": "float16", "bf16": "bfloat16"}


def _product(columns, short, lag):
    """c += a b, of b the transposed. lag: whether the hardware may go on with it until the next one is waited for: in a
    loop, what it reads then stays as it is for a turn more (the hint LAG of a software pipeline)."""
    columns = int(columns)
    shapes = {"A": (ROWS, TERMS), "B": (columns, TERMS), "C": (ROWS, columns)}

    def buffers(strided):
        made = []
        for name, shape in shapes.items():
            dtype, scope = (_DTYPES[short], "shared") if name != "C" else ("float32", "wmma.accumulator")
            strides = tuple(Var(f"{name}_s{n}", "int32") for n in range(2)) if strided else ()
            made.append(decl_buffer(shape, dtype, name, scope, strides, offset_factor=ROWS))
        return made

    def product(i, j, k):
        x, y, z = a[i, k], b[j, k], c[i, j]
        value = z + Cast("float32", x) * Cast("float32", y)
        return [point(z), point(x), point(y)], [point(z)], BufferStore(c, value, (i, j))

    a, b, c = buffers(False)
    description = prim_func([a, b, c], nest((ROWS, columns, TERMS), "SSR", "", product))
    a, b, c = buffers(True)
    call = device_op("wgmma_sync", c.data, c.elem_offset, address_of(a[0, 0]), address_of(b[0, 0]), const(columns),
                     const(int(bool(lag))))
    return description, implementation([a, b, c], [c, a, b], [c], call)


TensorIntrin.family(r"wgmma_64x(\d+)x64_(f16|bf16)_f32(_lag)?", _product)

__all__ = []
