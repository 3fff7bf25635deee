"""Buffers: a typed, shaped region of memory, named by its object."""
from __future__ import annotations

from ..dtype import DataType
from ..expr import PrimExpr, Range, Var, as_expr, const
from ..node import Node, node


@node
class Buffer(Node):
    """A multi-dimensional array in memory. Identity is the buffer: two Buffers of one name are two buffers.

    shape: extents, row-major unless `strides` are given (in elements). scope: "global" (caller or arena),
    "local" (registers or stack), "shared" (GPU). elem_offset: elements from `data` to element 0.
    """

    name: str
    dtype: DataType
    shape: tuple
    strides: tuple = ()
    elem_offset: PrimExpr = None
    scope: str = "global"
    data_alignment: int = 64
    offset_factor: int = 1
    data: Var = None
    _is_binder_leaf = True

    def __post_init__(self):
        object.__setattr__(self, "dtype", DataType(self.dtype))

    def __getitem__(self, indices):
        """A BufferLoad, or a BufferRegion when any index is a slice or a Range."""
        from .stmt import BufferLoad, BufferRegion
        if not isinstance(indices, tuple):
            indices = (indices,)
        if len(indices) != len(self.shape):
            raise IndexError(f"buffer {self.name} has {len(self.shape)} dimensions, indexed with {len(indices)}")
        if not any(isinstance(i, (slice, Range)) for i in indices):
            return BufferLoad(self, tuple(as_expr(i) for i in indices))
        region = []
        for i, extent in zip(indices, self.shape):
            if isinstance(i, slice):
                start = as_expr(0 if i.start is None else i.start)
                stop = as_expr(extent if i.stop is None else i.stop)
                i = Range.from_min_extent(start, stop - start)
            elif not isinstance(i, Range):
                i = Range.from_min_extent(i, 1)
            region.append(i)
        return BufferRegion(self, tuple(region))


def decl_buffer(shape, dtype="float32", name="buffer", scope="global", strides=(), elem_offset=None,
                data_alignment=64, offset_factor=1, data=None):
    """Make a Buffer; `shape` and `strides` take Python ints or expressions."""
    shape = (shape,) if isinstance(shape, (int, PrimExpr)) else shape
    return Buffer(name, DataType(dtype), tuple(as_expr(s) for s in shape), tuple(as_expr(s) for s in strides),
                  as_expr(const(0) if elem_offset is None else elem_offset), scope, data_alignment, offset_factor,
                  Var(name, "handle") if data is None else data)
