"""Which regions of which buffers a statement reads and writes, in terms of variables from outside it."""
from __future__ import annotations

from ..arith import Analyzer, eval_range
from ..expr import Broadcast, IntImm, Max, Min, PrimExpr, Ramp, Range, as_expr, const, is_const_int, substitute
from ..node import Visitor, collect, structural_equal, structure_key
from ..upper import provides
from .device_ops import ALLREDUCE, allreduce_parts
from .stmt import BufferLoad, BufferRegion


def full_region(buffer):
    """All of a buffer, as a BufferRegion."""
    return BufferRegion(buffer, tuple(Range(const(0, extent.dtype), extent) for extent in buffer.shape))


class _Collect(Visitor):
    """Records every access with the ranges of the variables that the statement itself defines."""

    def __init__(self):
        self.reads, self.writes = [], []
        self.ranges, self.lets = {}, {}
        self.seen = set()  # ids of expressions

    def visit(self, value):
        """An expression that several others share, as inlining makes them, is visited once."""
        if isinstance(value, PrimExpr):
            if id(value) in self.seen:
                return
            self.seen.add(id(value))
        super().visit(value)

    def visit_For(self, loop):
        self.ranges[loop.loop_var] = Range(substitute(loop.min, self.lets), substitute(loop.extent, self.lets))
        self.generic_visit(loop)

    def visit_LetStmt(self, let):
        self.visit(let.value)
        self.lets[let.var] = substitute(let.value, self.lets)
        self.visit(let.body)

    visit_Let = visit_LetStmt

    def visit_BufferLoad(self, load):
        if load.buffer.data not in self.lets:  # else of a pointer that the statement itself defines
            self.reads.append((load.buffer, self._points(load.indices)))
        self.visit(load.indices)

    def visit_BufferStore(self, store):
        self.visit((store.value, store.indices))
        if store.buffer.data not in self.lets:
            self.writes.append((store.buffer, self._points(store.indices)))

    def visit_Call(self, call):
        if call.op != ALLREDUCE:
            return self.generic_visit(call)
        values, elements = allreduce_parts(call)
        self.visit(values)
        self.writes += [(e.buffer, self._points(e.indices)) for e in collect(elements, BufferLoad)]

    def _points(self, indices):
        return [_point(substitute(i, self.lets)) for i in indices]

    def visit_BlockRealize(self, realize):
        self.visit(realize.iter_values)
        block = realize.block
        binding = {iv.var: substitute(value, self.lets) for iv, value in zip(block.iter_vars, realize.iter_values)}
        inside = set(map(id, block.alloc_buffers))
        for source, out in ((block.reads, self.reads), (block.writes, self.writes)):
            for region in source:
                if id(region.buffer) not in inside:
                    out.append((region.buffer, [substitute(r, binding) for r in region.region]))

    def visit_Buffer(self, _):
        pass


def _point(index):
    if isinstance(index, Ramp):
        return Range(index.base, const((index.lanes - 1), index.base.dtype) * index.stride + 1)
    if isinstance(index, Broadcast):
        index = index.value
    return Range(index, const(1, index.dtype))


@provides("access_regions")
def access_regions(stmt, exclude=(), analyzer=None):
    """(reads, writes) of a statement: tuples of BufferRegion, each buffer once, in order of first access.

    Regions cover all accesses and may be larger, even than the buffer where a condition guards an access; variables
    of loops inside `stmt` are relaxed over their ranges. A block's own signature stands for its body. Buffers in
    `exclude` are left out.
    """
    found = _Collect()
    found.visit(stmt)
    analyzer = analyzer or Analyzer()
    hidden = set(map(id, exclude))
    return tuple(_merge(accesses, found.ranges, hidden, analyzer) for accesses in (found.reads, found.writes))


def _merge(accesses, ranges, hidden, analyzer):
    merged, known_regions = {}, set()
    for buffer, region in accesses:
        key = id(buffer), structure_key(region)
        if id(buffer) in hidden or key in known_regions:
            continue
        known_regions.add(key)
        relaxed = [relax(r, ranges, extent, analyzer) for r, extent in zip(region, buffer.shape)]
        known = merged.get(id(buffer))
        if known is not None:
            relaxed = [union(a, b, extent, analyzer) for a, b, extent in zip(known[1], relaxed, buffer.shape)]
        merged[id(buffer)] = (buffer, relaxed)
    return tuple(BufferRegion(b, tuple(r)) for b, r in merged.values())


def relax(region, ranges, extent, analyzer, clip=True):
    """The Range covering `region` while the variables of `ranges` run; the whole [0, extent) when that is not known, as
    where the region depends on data, and (with `clip`) where it would be larger than that."""
    if collect(region, BufferLoad):
        return _whole(extent)
    low = high = eval_range(region.min, ranges, analyzer)
    if not is_const_int(region.extent, 1):
        high = eval_range(region.min + region.extent - 1, ranges, analyzer)
    if low is None or high is None:
        return _whole(extent)
    size = const(1, low[0].dtype) if high[1] is low[0] else analyzer.simplify(high[1] - low[0] + 1)
    bound = analyzer.interval(size).max_value
    total = extent.value if isinstance(extent, IntImm) else None
    if clip and bound is not None and total is not None and bound > total:
        return _whole(extent)
    return Range(low[0], size)


@provides("union")
def union(a, b, extent, analyzer):
    """The smallest Range known to cover both."""
    if structural_equal(a, b):
        return a
    a_end, b_end = a.min + a.extent, b.min + b.extent
    low = _extreme(Min, a.min, b.min, analyzer)
    high = _extreme(Max, a_end, b_end, analyzer)
    if low is None or high is None:
        return _whole(extent)
    return Range(low, analyzer.simplify(high - low))


def _extreme(cls, a, b, analyzer):
    if analyzer.can_prove(a <= b):
        return a if cls is Min else b
    if analyzer.can_prove(b <= a):
        return b if cls is Min else a
    return None


def _whole(extent):
    extent = as_expr(extent)
    return Range(const(0, extent.dtype), extent)
