"""Buffers: a typed, shaped region of memory, named by its object."""
from __future__ import annotations

from ..dtype import DataType, ScalableLanes
from ..expr import IntImm, Max, Min, PrimExpr, Ramp, Range, Var, as_expr, const, is_const_int
from ..node import Mutator, Node, node, structural_equal
from ..upper import upper


@node
class Buffer(Node):
    """A multi-dimensional array in memory. Identity is the buffer: two Buffers of one name are two buffers.

    shape: extents, row-major unless `strides` are given (in elements). scope: "global" (caller or arena),
    "local" (registers or stack), "shared" (GPU). elem_offset: elements from `data` to element 0. axis_separators: the
    dimensions before which another axis of physical memory begins; where memory is flat they say nothing.
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
    axis_separators: tuple = ()
    READ = 1
    WRITE = 2
    _is_binder_leaf = True
    _holds_statements = False

    def __post_init__(self):
        object.__setattr__(self, "dtype", DataType(self.dtype))
        ends = (0, *self.axis_separators, len(self.shape))
        if any(a > b for a, b in zip(ends, ends[1:])):
            raise ValueError(f"buffer {self.name}: axis_separators {list(self.axis_separators)} must not decrease, and "
                             f"be from 0 to {len(self.shape)}, its number of dimensions")
        if self.strides and len(self.strides) != len(self.shape):
            raise ValueError(f"buffer {self.name} has {len(self.strides)} strides for {len(self.shape)} dimensions: give "
                             "one for each, or none")

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
                extent = stop - start
                i = Range.from_min_extent(start, extent if is_const_int(extent) else upper("simplify")(extent))
            elif not isinstance(i, Range):
                i = Range.from_min_extent(i, 1)
            region.append(i)
        return upper("BufferRegion")(self, tuple(region))

    def access_ptr(self, access_mask="r", ptr_type="handle", content_lanes=1, offset=0, extent=None):
        """The address of the first element, or of the one `offset` elements after it in memory. extent: how many
        elements are accessed there, which changes nothing of the address. ValueError for an offset in a buffer with
        strides."""
        return upper("address_of")(self[self.indices_at(as_expr(offset))])

    @property
    def is_row_major(self):
        """Whether the elements lie one behind the other, in the order of their indices."""
        return not self.strides or structural_equal(self.strides, row_major_strides(self.shape))

    def indices_at(self, offset):
        """Where the element `offset` after the first lies, in row-major order."""
        if is_const_int(offset, 0) or not self.shape:
            return tuple(const(0, e.dtype) for e in self.shape)
        if not self.is_row_major:
            raise ValueError(f"buffer {self.name} has strides: which element is {offset} after its first is not known; "
                             "use T.address_of(A[i, j])")
        return unflatten_index(offset, self.shape)

    def in_elements(self, offset, dtype):
        """An offset that counts numbers of `dtype`, in elements. ValueError where it may be within an element."""
        dtype = DataType(dtype)
        bits, own = dtype.bits * dtype.lanes, self.dtype.bits * self.dtype.lanes
        if bits == own or is_const_int(offset, 0):
            return offset
        if bits % own == 0:
            return offset * (bits // own)
        if isinstance(offset, IntImm) and offset.value * bits % own == 0:
            return const(offset.value * bits // own, offset.dtype)
        raise ValueError(f"buffer {self.name} has elements of {self.dtype}, between which {offset} of {dtype} may end: "
                         f"count in {self.dtype}")

    def physical_axes(self):
        """[(extents, strides)] of the dimensions that make up each axis of physical memory: one axis, or as many as
        axis_separators divide. Raises ValueError for several with an offset, which says nothing of which axis it is."""
        if self.axis_separators and not is_const_int(self.elem_offset, 0):
            raise ValueError(f"buffer {self.name} has axis_separators and an elem_offset, which is of one axis")
        ends = (0, *self.axis_separators, len(self.shape))
        groups = [slice(a, b) for a, b in zip(ends, ends[1:])]
        return [(self.shape[g], self.strides[g] or row_major_strides(self.shape[g])) for g in groups]

    def offset_of(self, indices):
        """[the number of elements between `data` and the element at `indices`], simplified; of each physical axis where
        axis_separators make several."""
        indices, offsets = iter(self._place(indices, 1)), []
        for _, strides in self.physical_axes():
            total = const(0) if self.axis_separators else self.elem_offset
            for stride in strides:
                total = next(indices) * stride + total
            offsets.append(upper("simplify")(total))
        return offsets

    def get_flattened_buffer(self):
        """The buffer of one dimension for each physical axis over the same memory; itself where it is that already."""
        axes = self.physical_axes()
        if len(self.shape) == len(axes) and all(len(extents) == 1 for extents, _ in axes):
            return self
        shape = []
        for extents, strides in axes:
            if self.strides:  # all elements from the first to the last
                extents = (sum([(extent - 1) * stride for extent, stride in zip(extents, strides)], const(1)),)
            size = const(1)
            for extent in extents:
                size = size * extent
            shape.append(upper("simplify")(size))
        return self.replace(shape=tuple(shape), strides=(), axis_separators=tuple(range(1, len(axes))))

    def vload(self, begin, dtype=None, predicate=None):
        """A load of as many elements as `dtype` has lanes, of which those that `predicate`, a T.get_active_lane_mask,
        leaves out are 0."""
        return upper("BufferLoad")(self, self._place(begin, DataType(dtype or self.dtype).lanes, predicate))

    def vstore(self, begin, value, predicate=None):
        """A store of the lanes of `value`, or of those that `predicate`, a T.get_active_lane_mask, has."""
        value = as_expr(value, self.dtype)
        return upper("BufferStore")(self, value, self._place(begin, value.dtype.lanes, predicate))

    def _place(self, indices, lanes, predicate=None):
        """Indices of `lanes` elements that start at `indices`, or are there already."""
        indices = tuple(as_expr(i) for i in (indices if isinstance(indices, (list, tuple)) else (indices,)))
        if len(indices) != len(self.shape):
            raise ValueError(f"buffer {self.name} has {len(self.shape)} dimensions, indexed with {len(indices)}")
        last = indices[-1]
        if lanes != 1 and last.dtype.lanes == 1:
            last = Ramp(last, const(1, last.dtype), lanes)
        return (*indices[:-1], last if predicate is None else _active(last, predicate))


def masked(indices, mask, dtype, action):
    """Indices of an access of `dtype` that count the lanes a mask has. action: "load" or "store"."""
    element, lanes, wanted = mask.dtype.element, mask.dtype.lanes, dtype.lanes
    if isinstance(lanes, ScalableLanes) != isinstance(wanted, ScalableLanes):
        what = "load indices" if action == "load" else "value dtype"
        raise TypeError(f"Predicate mask dtype and {what} must both be scalable. The mask is of {mask.dtype}, the {action} of {dtype}")
    if lanes != wanted:
        lanes, wanted = (getattr(n, "factor", n) for n in (lanes, wanted))
        what = "vector" if action == "load" else "value"
        raise TypeError(f"Got a predicate mask with {lanes} lanes, but trying to {action} a {what} with {wanted} lanes. "
                        "The number of lanes must match.")
    if not (element.is_bool or element.bits == 1):
        raise TypeError(f"Predicate mask elements must be boolean values, but got {element}.")
    return (*indices[:-1], _active(indices[-1], mask))


def _active(index, mask):
    """The lanes of a vector index that a mask has: the first ones."""
    base, limit = mask.args if getattr(mask, "op", None) == "tir.get_active_lane_mask" else (None, None)
    if not (isinstance(index, Ramp) and is_const_int(index.stride, 1) and structural_equal(index.base, base)):
        raise ValueError(f"the predicate of an access to a vector at {index} is T.get_active_lane_mask of where it "
                         f"begins, not {mask}")
    lanes = index.lanes
    if isinstance(lanes, ScalableLanes):
        lanes = upper("vscale")() * lanes.factor
    return index.replace(count=Max(Min(limit - base, lanes), const(0, base.dtype)))


def decl_buffer(shape, dtype="float32", name="buffer", scope="global", strides=(), elem_offset=None,
                data_alignment=64, offset_factor=0, data=None, axis_separators=()):
    """Make a Buffer; `shape` and `strides` take Python ints or expressions.

    An offset_factor without elem_offset makes the offset a variable, a multiple of the factor, as in TVM.
    axis_separators: ints, as in Buffer.
    """
    shape = (shape,) if isinstance(shape, (int, PrimExpr)) else shape
    if elem_offset is None:
        elem_offset = Var(f"{name}_elem_offset") if offset_factor else 0
    if is_const_int(as_expr(elem_offset), 0):  # of whatever dtype: there is none
        elem_offset = const(0)
    return Buffer(name, DataType(dtype), tuple(as_expr(s) for s in shape), tuple(as_expr(s) for s in strides or ()),
                  as_expr(elem_offset), scope or "global", data_alignment if data_alignment > 0 else 64,
                  offset_factor or 1, Var(name, "handle") if data is None else data,
                  tuple(int(getattr(s, "value", s)) for s in axis_separators or ()))


def row_major_strides(shape):
    """Elements between neighbours along each dimension of a compact row-major buffer."""
    strides, step = [], const(1)
    for extent in reversed(shape):
        strides.append(step)
        step = step * extent
    return tuple(reversed(strides))


def unflatten_index(flat, shape):
    """The indices in an array of `shape` of row-major offset `flat`."""
    out, rest = [], flat
    for extent in reversed(shape[1:]):
        out.append(rest % extent)
        rest = rest // extent
    return tuple(reversed(out + [rest])) if shape else ()


class _Substitute(Mutator):
    def __init__(self, mapping):
        self.mapping = mapping

    def visit_Buffer(self, buffer):
        return self.mapping.get(buffer, buffer)


def substitute_buffers(root, mapping):
    """`root` with each Buffer of `mapping` (Buffer -> Buffer) replaced."""
    return _Substitute(mapping).visit(root) if mapping else root
