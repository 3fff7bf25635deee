"""FlattenBuffer: every access becomes one-dimensional, row-major (or by the buffer's strides).

The memories of C and of GPUs are flat, so that axis_separators say nothing there and go; scripts that ask for the pass
alone (classic/flat.py) get a dimension for each physical axis.
"""
from __future__ import annotations

from itertools import islice
from math import prod

from ..arith import Analyzer
from ..expr import IntImm, Ramp, Range, as_expr, cast, const, is_const_int
from ..node import Mutator
from ..tir.buffer import decl_buffer, row_major_strides
from ..tir.function import PrimFunc


def flatten_buffer(func: PrimFunc):
    """Requires no blocks. Ensures flat buffers: each, parameters included, has one dimension, no strides and no
    offset, and no index overflows: those into buffers of 2^31 elements or more are int64."""
    flatten = Flatten()
    buffer_map = {p: flatten.layout(b)[0] for p, b in func.buffer_map.items()}
    return func.replace(buffer_map=buffer_map, body=flatten.visit(func.body))


class Flatten(Mutator):
    """Accesses and allocations in one dimension each; layout(buffer) is its flat one, its strides along each dimension,
    and [(offset, number of dimensions)] of each physical axis, of which there is one."""

    def __init__(self):
        self.known = {}  # id(buffer) -> what layout gives
        self.analyzer = Analyzer()

    def layout(self, buffer):
        found = self.known.get(id(buffer))
        if found is None:
            found = self.known[id(buffer)] = self._flattened(buffer)
        return found

    def _flattened(self, buffer):
        offset = const(0) if buffer.elem_offset is None else buffer.elem_offset
        if len(buffer.shape) == 1 and not (buffer.strides or buffer.axis_separators) and is_const_int(offset, 0):
            return buffer, (const(1),), [(offset, 1)]
        shape, strides = buffer.shape, buffer.strides
        known = [s.value for s in shape if isinstance(s, IntImm)]
        if prod(known) >= 1 << 31:
            shape, strides = (tuple(cast(s, "int64") for s in dims) for dims in (shape, strides))
        strides = strides or row_major_strides(shape)
        size = offset + 1
        for extent, stride in zip(shape, strides):
            size = size + (extent - 1) * stride
        flat = decl_buffer((self.analyzer.simplify(size),), buffer.dtype, buffer.name, buffer.scope,
                           data_alignment=buffer.data_alignment, data=buffer.data)
        return flat, strides, [(offset, len(strides))]

    def visit_For(self, loop):
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        return self.generic_visit(loop)

    def visit_DeclBuffer(self, decl):
        return decl.replace(buffer=self.layout(decl.buffer)[0], body=self.visit(decl.body))

    def _access(self, node):
        node = self.generic_visit(node)
        flat, strides, axes = self.layout(node.buffer)
        vector = node.indices[-1] if node.indices and isinstance(node.indices[-1], Ramp) else None
        places, flats = iter(zip(node.indices, strides)), []
        for index, dims in axes:
            for i, stride in islice(places, dims):
                i = i.base if i is vector else i
                index = index + (cast(i, "int64") if stride.dtype == "int64" else i) * stride
            flats.append(self.analyzer.simplify(as_expr(index)))
        if vector is not None:
            step = self.analyzer.simplify(cast(vector.stride, flats[-1].dtype) * cast(strides[-1], flats[-1].dtype))
            flats[-1] = Ramp(flats[-1], step, vector.lanes, vector.count)
        return node.replace(buffer=flat, indices=tuple(flats))

    visit_BufferLoad = visit_BufferStore = _access
