"""Buffers over the memory of another buffer, T.Buffer(..., data=A.data), written as accesses to that other."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import Ramp, as_expr, cast, is_const_int
from ..node import Mutator, collect, structural_equal
from ..relax.ops.common import unflatten_index
from ..tir.buffer import decl_buffer, row_major_strides
from ..tir.function import PrimFunc
from ..tir.region import full_region
from ..tir.stmt import Block, DeclBuffer, LetStmt


def resolve_views(func: PrimFunc):
    """Ensures no views: no two buffers share memory, so that passes may look at each alone. The buffer over a handle
    parameter becomes that parameter's. Raises ValueError for a view of another dtype, or one whose vectors cross the
    rows of a buffer that is not flat."""
    views = func.views()
    if not views:
        return func
    owners = {id(b.data): b for b in func.buffer_map.values()}
    for n in collect(func.body, (Block, DeclBuffer)):
        for b in (n.buffer,) if isinstance(n, DeclBuffer) else (*n.alloc_buffers, *(m.buffer for m in n.match_buffers)):
            owners[id(b.data)] = b
    for let in collect(func.body, LetStmt):
        if let.constant is not None and id(let.var) in views:
            owners[id(let.var)] = _whole(let, views[id(let.var)])
    buffer_map = dict(func.buffer_map)
    for p in func.params:
        if id(p) in views and p not in buffer_map:
            buffer_map[p] = owners[id(p)] = views[id(p)][0]
    moved = {id(b): owners[key] for key, buffers in views.items() for b in buffers if key in owners}
    return func.replace(buffer_map=buffer_map, body=_Resolve(moved).visit(func.body))


def _whole(let, views):
    """A buffer of all elements of a constant: the first view that is one."""
    made = decl_buffer(let.constant.extents, let.constant.elements, let.var.name, data=let.var)
    plain = (b for b in views if b.dtype == made.dtype and not b.strides and is_const_int(b.elem_offset, 0)
             and b.scope == made.scope and structural_equal(b.shape, made.shape))
    return next(plain, made)


class _Resolve(Mutator):
    def __init__(self, owners):
        self.owners = owners  # id of a view -> the buffer whose memory it shows
        self.analyzer = Analyzer()

    def _access(self, node):
        node = self.generic_visit(node)
        owner = self.owners.get(id(node.buffer))
        if owner is None or owner is node.buffer:
            return node
        return node.replace(buffer=owner, indices=self._indices(node.buffer, owner, node.indices))

    visit_BufferLoad = visit_BufferStore = _access

    def visit_BufferRegion(self, region):
        owner = self.owners.get(id(region.buffer))
        if owner is None:
            return self.generic_visit(region)
        return full_region(owner)

    def _indices(self, view, owner, indices):
        """Where the element of a view lies in its owner."""
        if owner.dtype != view.dtype:
            raise ValueError(f"buffer {view.name} shows the memory of {owner.name}, {owner.dtype}, as {view.dtype}, "
                             "which C code cannot do: use a buffer of its own and convert")
        layouts = [(b.strides, b.elem_offset) for b in (view, owner)]
        if structural_equal(view.shape, owner.shape) and structural_equal(*layouts):
            return indices
        if owner.strides or not is_const_int(owner.elem_offset, 0):
            raise ValueError(f"buffer {view.name} shows the memory of {owner.name}, which has strides or an offset: "
                             "index it as it is")
        last = indices[-1] if indices else None
        vector = last if isinstance(last, Ramp) else None
        offset = as_expr(view.elem_offset)
        for i, stride in zip(indices, view.strides or row_major_strides(view.shape)):
            offset = offset + (i.base if i is vector else i) * stride
        offset = self.analyzer.simplify(offset)
        if vector is not None and len(owner.shape) > 1:
            raise ValueError(f"buffer {view.name} shows the memory of {owner.name}, which has {len(owner.shape)} "
                             "dimensions: vectors of it cannot be told from ones that cross its rows; load them from "
                             f"{owner.name}")
        if vector is not None:
            stride = vector.stride * (view.strides[-1] if view.strides else 1)
            return (Ramp(offset, cast(stride, offset.dtype), vector.lanes, vector.count),)
        return tuple(map(self.analyzer.simplify, unflatten_index(offset, owner.shape)))


__all__ = ["resolve_views"]
