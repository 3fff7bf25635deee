"""FlattenBuffer as scripts know it: parameters keep their shapes, and bools are bytes."""
from __future__ import annotations

from itertools import islice

from ...dtype import DataType
from ...expr import Cast, Range, const
from ..flatten import Flatten

BOOL, BYTE = DataType("bool"), DataType("int8")


def flatten_buffer(func):
    """Ensures that each access is to a buffer of one dimension, or of one for each physical axis that axis_separators
    divide: of parameters, and of what other buffers are views of, to a view; in memory a bool is an int8."""
    return func.replace(body=_Flatten().visit(func.body))


class _Flatten(Flatten):
    def layout(self, buffer):
        known = id(buffer) in self.known
        flat, strides, axes = super().layout(buffer)
        if not known and flat.dtype == BOOL and flat.scope == "global":
            flat = flat.replace(dtype=BYTE)
            self.known[id(buffer)] = flat, strides, axes
        return flat, strides, axes

    def _flattened(self, buffer):
        if not buffer.axis_separators:
            return super()._flattened(buffer)
        axes = buffer.physical_axes()
        return (buffer.get_flattened_buffer(), [stride for _, strides in axes for stride in strides],
                [(const(0), len(strides)) for _, strides in axes])

    def visit_BufferStore(self, store):
        new = super().visit_BufferStore(store)
        return new if new.buffer.dtype == store.buffer.dtype else new.replace(value=Cast(BYTE, new.value))

    def visit_BufferLoad(self, load):
        new = super().visit_BufferLoad(load)
        return new if new.buffer.dtype == load.buffer.dtype else Cast(BOOL, new)

    def visit_Block(self, block):
        block = self.generic_visit(block)
        return block.replace(alloc_buffers=tuple(self.layout(b)[0] for b in block.alloc_buffers))

    def visit_BufferRegion(self, region):
        """The elements from the first to the last of a region."""
        flat, strides, axes = self.layout(region.buffer)
        dims, ranges = iter(zip(region.region, strides)), []
        for first, count in axes if region.region else ():
            last = first
            for r, stride in islice(dims, count):
                first, last = first + r.min * stride, last + (r.min + r.extent - 1) * stride
            ranges.append(Range(*(self.analyzer.simplify(e) for e in (first, last - first + 1))))
        return region.replace(buffer=flat, region=tuple(ranges))
