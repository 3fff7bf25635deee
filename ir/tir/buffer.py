"""Buffers: a typed, shaped region of memory, named by its object."""
from __future__ import annotations

from ..dtype import DataType
from ..expr import PrimExpr, Ramp, Range, Var, as_expr, const
from ..node import Mutator, Node, node
from ..upper import upper


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
    _holds_statements = False

    def __post_init__(self):
        object.__setattr__(self, "dtype", DataType(self.dtype))

    def __getitem__(self, indices):
        """A BufferLoad, or a BufferRegion when any index is a slice or a Range."""
        if not isinstance(indices, tuple):
            indices = (indices,)
        if len(indices) != len(self.shape):
            raise IndexError(f"buffer {self.name} has {len(self.shape)} dimensions, indexed with {len(indices)}")
        if not any(isinstance(i, (slice, Range)) for i in indices):
            return upper("BufferLoad")(self, tuple(as_expr(i) for i in indices))
        region = []
        for i, extent in zip(indices, self.shape):
            if isinstance(i, slice):
                start = as_expr(0 if i.start is None else i.start)
                stop = as_expr(extent if i.stop is None else i.stop)
                i = Range.from_min_extent(start, stop - start)
            elif not isinstance(i, Range):
                i = Range.from_min_extent(i, 1)
            region.append(i)
        return upper("BufferRegion")(self, tuple(region))

    def access_ptr(self, access_mask="r", ptr_type="handle", content_lanes=1, offset=0):
        """The address of the first element, or of the one `offset` after it in a buffer of one dimension."""
        if not (isinstance(offset, int) and offset == 0) and len(self.shape) != 1:
            raise ValueError("access_ptr takes an offset in buffers of one dimension; use T.address_of(A[i, j])")
        zeros = (const(0, e.dtype) for e in self.shape[:-1])
        return upper("address_of")(self[(*zeros, as_expr(offset)) if self.shape else ()])

    def vload(self, begin, dtype=None):
        """A load of as many elements as `dtype` has lanes."""
        return upper("BufferLoad")(self, self._place(begin, DataType(dtype or self.dtype).lanes))

    def vstore(self, begin, value):
        """A store of as many elements as `value` has lanes."""
        value = as_expr(value, self.dtype)
        return upper("BufferStore")(self, value, self._place(begin, value.dtype.lanes))

    def _place(self, indices, lanes):
        """Indices of `lanes` elements that start at `indices`."""
        indices = tuple(as_expr(i) for i in (indices if isinstance(indices, (list, tuple)) else (indices,)))
        if len(indices) != len(self.shape):
            raise ValueError(f"buffer {self.name} has {len(self.shape)} dimensions, indexed with {len(indices)}")
        last = indices[-1]
        return indices if lanes == 1 else (*indices[:-1], Ramp(last, const(1, last.dtype), lanes))


def decl_buffer(shape, dtype="float32", name="buffer", scope="global", strides=(), elem_offset=None,
                data_alignment=64, offset_factor=0, data=None):
    """Make a Buffer; `shape` and `strides` take Python ints or expressions.

    An offset_factor without elem_offset makes the offset a variable, a multiple of the factor, as in TVM.
    """
    shape = (shape,) if isinstance(shape, (int, PrimExpr)) else shape
    if elem_offset is None:
        elem_offset = Var(f"{name}_elem_offset") if offset_factor else const(0)
    return Buffer(name, DataType(dtype), tuple(as_expr(s) for s in shape), tuple(as_expr(s) for s in strides or ()),
                  as_expr(elem_offset), scope or "global", data_alignment if data_alignment > 0 else 64,
                  offset_factor or 1, Var(name, "handle") if data is None else data)


def row_major_strides(shape):
    """Elements between neighbours along each dimension of a compact row-major buffer."""
    strides, step = [], const(1)
    for extent in reversed(shape):
        strides.append(step)
        step = step * extent
    return tuple(reversed(strides))


class _Substitute(Mutator):
    def __init__(self, mapping):
        self.mapping = mapping

    def visit_Buffer(self, buffer):
        return self.mapping.get(buffer, buffer)


def substitute_buffers(root, mapping):
    """`root` with each Buffer of `mapping` (Buffer -> Buffer) replaced."""
    return _Substitute(mapping).visit(root) if mapping else root
