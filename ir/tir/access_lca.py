"""The innermost block or loop around all accesses to a buffer: where it may be allocated."""
from __future__ import annotations

from ..expr import IterVar, Var
from ..node import Visitor, collect


def detect_buffer_access_lca(func):
    """{Buffer: Block, For or None} of all buffers that a PrimFunc touches; None stands for the function itself.

    What a reduction writes is around the loops of its reduce iterators, what depends on iterators of other kinds around
    theirs, and global memory around the loops of "blockIdx". Buffers that a block matches count for those behind them.
    """
    found = _Accesses(func)
    found.visit(func.body)
    return found.result()


class _Accesses(Visitor):
    def __init__(self, func):
        self.path = (None,)     # the statements around, outermost first
        self.places = {}        # Buffer -> path of the innermost statement around its accesses
        self.buffers = {b.data: b for b in func.buffer_map.values()}
        self.loops = {}         # loop variable -> path around its loop
        self.grids = []         # paths of the loops of blockIdx
        self.matched = set()

    def result(self):
        for buffer, path in self.places.items():
            if buffer.scope == "global":
                for grid in self.grids:
                    path = _shared(path, grid)
            self.places[buffer] = path
        return {buffer: path[-1] for buffer, path in self.places.items()}

    def note(self, buffer, path):
        self.buffers.setdefault(buffer.data, buffer)
        if buffer not in self.matched:
            self.places[buffer] = _shared(self.places[buffer], path) if buffer in self.places else path

    def within(self, statement, visit):
        self.path += (statement,)
        visit()
        self.path = self.path[:-1]

    def visit_For(self, loop):
        self.visit((loop.min, loop.extent))
        if (loop.thread_binding or "").startswith("blockIdx"):
            self.grids.append((*self.path, loop))
        self.loops[loop.loop_var] = self.path
        self.within(loop, lambda: self.visit(loop.body))
        del self.loops[loop.loop_var]

    def visit_AttrStmt(self, attr):
        if isinstance(attr.target, IterVar) and attr.target.thread_tag.startswith("blockIdx"):
            self.grids.append(self.path)
        self.generic_visit(attr)

    def visit_BlockRealize(self, realize):
        self.visit((realize.iter_values, realize.predicate))
        block = realize.block
        self.buffers.update((b.data, b) for b in block.alloc_buffers)

        def inside():
            self.follow_iterators(realize)
            for match in block.match_buffers:
                self.note(match.source.buffer, self.path)
                self.matched.add(match.buffer)
            self.visit((block.init, block.body))

        self.within(block, inside)

    def follow_iterators(self, realize):
        """Note what the block touches in dependence of iterators whose turns are not independent."""
        block, around, sums = realize.block, {}, []
        for iv, value in zip(block.iter_vars, realize.iter_values):
            paths = [self.loops[v] for v in collect(value, Var) if v in self.loops]
            if iv.iter_type == "spatial" or not paths:
                continue
            path = min(paths, key=len)
            if iv.iter_type == "reduce":
                sums.append(path)
            else:
                around[iv.var] = path
                for region in block.writes:
                    self.note(region.buffer, path)
        for regions, limits in ((block.reads, ()), (block.writes, sums)):
            for region in regions if around or limits else ():
                paths = [self.path, *limits, *(around[v] for v in collect(region.region, Var) if v in around)]
                self.note(region.buffer, min(paths, key=len))

    def visit_BufferLoad(self, load):
        self.note(load.buffer, self.path)
        self.visit(load.indices)

    def visit_BufferStore(self, store):
        self.note(store.buffer, self.path)
        self.visit((store.value, store.indices))

    def visit_Var(self, v):
        """A pointer that a call gets."""
        if v in self.buffers:
            self.note(self.buffers[v], self.path)

    def visit_Buffer(self, _):
        pass


def _shared(a, b):
    """The statements that two paths begin with."""
    n = next((n for n, (x, y) in enumerate(zip(a, b)) if x is not y), min(len(a), len(b)))
    return a[:n]


__all__ = ["detect_buffer_access_lca"]
