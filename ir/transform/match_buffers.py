"""Matched buffers: views of a region of another buffer, written as accesses to that buffer."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import Range, Var, const, is_const_int
from ..tir.buffer import row_major_strides
from ..tir.stmt import BufferRegion


_NONE = frozenset()


class MatchedBuffers:
    """The matched buffers seen so far, each resolved to a buffer that is none.

    visit: rewrites an expression for the place where a match stands; binding: {Var: expression}, which takes the values
    of variables that a match defines. given: variables that have values of their own; where they are not None, all that
    a match declares and does not define must be proved, its offset too.
    """

    def __init__(self, visit, binding, given=None):
        self.visit, self.binding, self.given = visit, binding, given
        self.known = {}  # id(matched buffer) -> (matched buffer, buffer, corner)

    def add(self, match):
        """Enter a MatchBufferRegion."""
        source, corner = match.source.buffer, [self.visit(r.min) for r in match.source.region]
        _, target, outer = self.known.get(id(source), (None, source, None))
        if outer is not None:
            drop = len(outer) - len(corner)
            corner = [*outer[:drop], *(a + b for a, b in zip(outer[drop:], corner))]
        self.known[id(match.buffer)] = match.buffer, target, tuple(corner)
        extents = [r.extent for r in match.source.region][len(match.source.region) - len(match.buffer.shape):]
        found = [*zip(match.buffer.strides, self._strides(target, match.buffer)), *zip(match.buffer.shape, extents)]
        own = match.buffer
        if own.data is not None and target.data is not None:
            self.binding[own.data] = target.data
        if isinstance(own.elem_offset, Var) or self.given is not None:
            offset = target.elem_offset
            for low, stride in zip(corner, target.strides or row_major_strides(target.shape)):
                offset = offset + low * stride
            found.append((own.elem_offset, Analyzer().simplify(offset)))
        for declared, actual in found:
            if isinstance(declared, Var) and declared not in self.binding and declared not in (self.given or _NONE):
                self.binding[declared] = self.visit(actual)
            elif self.given is not None:
                self._require(own, declared, actual)

    def _require(self, buffer, declared, actual):
        """Raise ValueError unless what a matched buffer declares is what is found at its place."""
        if not Analyzer().can_prove_equal(self.visit(declared), self.visit(actual)):
            raise ValueError(f"matched buffer {buffer.name} declares {declared} where its place has {actual}; leave it "
                             "to a variable that the match defines")

    def moved(self, access):
        """A BufferLoad, BufferStore or BufferRegion of a matched buffer as one of the buffer behind it."""
        found = self.known.get(id(access.buffer))
        if found is None:
            return access
        _, target, corner = found
        if isinstance(access, BufferRegion):
            drop = len(corner) - len(access.region)
            moved = (Range(c + r.min, r.extent) for c, r in zip(corner[drop:], access.region))
            return BufferRegion(target, (*(Range(c, const(1, c.dtype)) for c in corner[:drop]), *moved))
        drop = len(corner) - len(access.indices)
        indices = (*corner[:drop], *(c + i for c, i in zip(corner[drop:], access.indices)))
        return access.replace(buffer=target, indices=indices)

    def require_layout(self, buffer):
        """Raise ValueError unless memory at a matched buffer's place has the strides that it declares."""
        if id(buffer) not in self.known:
            return
        _, target, _ = self.known[id(buffer)]
        declared = buffer.strides or row_major_strides(buffer.shape)
        for extent, want, have in zip(buffer.shape, declared, self._strides(target, buffer)):
            if not is_const_int(extent, 1) and not Analyzer().can_prove_equal(self.visit(want), have):
                raise ValueError(f"matched buffer {buffer.name} has stride {want}, but its place in {target.name} has "
                                 f"{have}; declare its strides as variables and pass them on")

    def _strides(self, target, buffer):
        """The strides of a buffer in the dimensions that a matched one keeps."""
        strides = target.strides or row_major_strides(target.shape)
        return strides[len(strides) - len(buffer.shape):]
