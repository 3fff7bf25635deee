"""What a block's body touches, for scripts that ask: reads, writes, and what calls get a pointer of."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import Max, Min, Range, const, free_vars, is_const_int
from ..node import collect, structural_equal
from .region import _Collect, full_region, relax
from .stmt import BufferLoad, BufferRegion


def block_access(block, buffers=None):
    """(reads, writes, opaque) of a block's init and body: lists of BufferRegion, each buffer once, in order.

    buffers: {data Var: Buffer}, what may be touched; others are left out. None: all but what the block allocates.
    opaque: buffers of which a pointer, `A.data`, is used. What the block reaches through a match_buffer counts as the
    region behind it. A block with an init does not read what it writes. Regions cover all accesses, conditions or not,
    and go beyond the buffer where those do.
    """
    found = _Accesses(block, buffers)
    found.visit((block.init, block.body))
    written = [b for b, _ in found.writes]
    hidden = [] if block.init is None else written
    reads = [(b, r) for b, r in found.reads if not any(b is w for w in hidden)]
    return tuple(_covering(accesses, found.ranges, written) for accesses in (reads, found.writes, found.opaque))


def block_reads_writes(block, buffers=None):
    """(reads, writes) of a block, as block_access has them; what is opaque is read and written, all of it."""
    reads, writes, opaque = block_access(block, buffers)
    hidden = [r.buffer for r in opaque] + ([] if block.init is None else [r.buffer for r in writes])
    left = [[r for r in regions if not any(r.buffer is b for b in some)]
            for regions, some in ((reads, hidden), (writes, hidden[:len(opaque)]))]
    return tuple([*regions, *opaque] for regions in left)


class _Known(list):
    """Accesses to buffers that may be touched, said of the buffers that matched ones stand for."""

    def __init__(self, owner):
        super().__init__()
        self.owner = owner

    def append(self, access):
        buffer, region = access
        if not self.owner.known(buffer):
            return
        match = self.owner.matches.get(buffer.data)
        if match is not None:
            buffer, region = match.source.buffer, _behind(match, region)
        super().append((buffer, region))

    def __iadd__(self, accesses):
        for access in accesses:
            self.append(access)
        return self


class _Accesses(_Collect):
    def __init__(self, block, buffers):
        super().__init__()
        self.buffers = None if buffers is None else dict(buffers)
        self.own = {b.data for b in block.alloc_buffers}
        self.pointers = dict(self.buffers or {})
        self.matches = {}
        self.reads, self.writes, self.opaque = _Known(self), _Known(self), _Known(self)
        for match in block.match_buffers:
            if self.known(match.source.buffer):
                self.matches[match.buffer.data] = match
                self.pointers[match.buffer.data] = match.buffer
                if self.buffers is not None:
                    self.buffers[match.buffer.data] = match.buffer

    def known(self, buffer):
        return buffer.data in self.buffers if self.buffers is not None else buffer.data not in self.own

    def visit_Call(self, call):
        """The address of an element is a pointer to its buffer, too."""
        if call.op == "tir.address_of" and isinstance(call.args[0], BufferLoad):
            buffer = call.args[0].buffer
            self.opaque.append((buffer, list(full_region(buffer).region)))
            return self.visit(call.args[0].indices)
        return super().visit_Call(call)

    def visit_Var(self, v):
        if v in self.pointers:
            buffer = self.pointers[v]
            self.opaque.append((buffer, list(full_region(buffer).region)))


def _behind(match, region):
    """The region of the source that one of a matched buffer is."""
    source = match.source.region
    left = len(source) - len(region)
    return [*source[:left], *(Range(s.min + r.min, r.extent) for s, r in zip(source[left:], region))]


def _covering(accesses, ranges, written):
    analyzer, merged = Analyzer(), {}
    for buffer, region in accesses:
        cover = [_relaxed(r, ranges, extent, written, analyzer) for r, extent in zip(region, buffer.shape)]
        if buffer in merged:
            cover = [_both(a, b, analyzer) for a, b in zip(merged[buffer], cover)]
        merged[buffer] = cover
    return [BufferRegion(b, tuple(map(_plain, r))) for b, r in merged.items()]


def _relaxed(region, ranges, extent, written, analyzer):
    """The Range covering `region`: as it is where nothing here moves it, or changes the data that tell it."""
    fixed = not any(v in ranges for v in free_vars(region)) and not any(
        e.buffer is b for e in collect(region, BufferLoad) for b in written)
    if fixed and is_const_int(region.extent):
        return region
    r = relax(region, ranges, extent, analyzer, clip=False)
    return r if collect(r.min, BufferLoad) else Range(analyzer.simplify(r.min), r.extent)


def _both(a, b, analyzer):
    """The smallest Range that covers both."""
    if structural_equal(a, b):
        return a
    low = analyzer.simplify(Min(a.min, b.min))
    end = analyzer.simplify(Max(a.min + a.extent, b.min + b.extent))
    if not isinstance(low, Min):
        return Range(low, analyzer.simplify(end - low))
    longer, shorter = analyzer.simplify(end - low.a), analyzer.simplify(end - low.b)
    extent = analyzer.simplify(Max(longer, shorter))
    return Range(low, Max(longer, shorter) if isinstance(extent, Max) else extent)


def _plain(r):
    """A Range whose extent, where a number, is one of its beginning's dtype."""
    return Range(r.min, const(r.extent.value, r.min.dtype)) if is_const_int(r.extent) else r


__all__ = ["block_access", "block_reads_writes"]
