"""FlattenBuffer: every access becomes one-dimensional, row-major (or by the buffer's strides)."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import IntImm, Range, as_expr, const
from ..node import Mutator
from ..tir.buffer import decl_buffer
from ..tir.function import PrimFunc


def flatten_buffer(func: PrimFunc):
    """Requires no blocks. Ensures that every buffer, parameters included, has one dimension."""
    flatten = _Flatten()
    buffer_map = {p: flatten.flat(b) for p, b in func.buffer_map.items()}
    return func.replace(buffer_map=buffer_map, body=flatten.visit(func.body))


class _Flatten(Mutator):
    def __init__(self):
        self.known = {}
        self.analyzer = Analyzer()

    def flat(self, buffer):
        found = self.known.get(id(buffer))
        if found is None:
            found = buffer
            if len(buffer.shape) != 1 or buffer.strides:
                size = const(1, buffer.shape[0].dtype if buffer.shape else "int32")
                for extent in buffer.shape:
                    size = size * extent
                found = decl_buffer((self.analyzer.simplify(size),), buffer.dtype, buffer.name, buffer.scope,
                                    data_alignment=buffer.data_alignment, data=buffer.data)
            self.known[id(buffer)] = found
        return found

    def visit_For(self, loop):
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
        return self.generic_visit(loop)

    def visit_DeclBuffer(self, decl):
        return decl.replace(buffer=self.flat(decl.buffer), body=self.visit(decl.body))

    def _access(self, node):
        node = self.generic_visit(node)
        return node.replace(buffer=self.flat(node.buffer), indices=(self._offset(node.buffer, node.indices),))

    visit_BufferLoad = visit_BufferStore = _access

    def _offset(self, buffer, indices):
        strides = buffer.strides or row_major_strides(buffer.shape)
        offset = buffer.elem_offset if buffer.strides else const(0)
        for index, stride in zip(indices, strides):
            offset = offset + index * stride
        return self.analyzer.simplify(as_expr(offset))


def row_major_strides(shape):
    """Elements between neighbours along each dimension of a compact row-major buffer."""
    strides, step = [], const(1)
    for extent in reversed(shape):
        strides.append(step)
        step = extent if isinstance(step, IntImm) and step.value == 1 else step * extent
    return tuple(reversed(strides))
