"""T.Shuffle: lanes of vectors."""
from __future__ import annotations

from ..expr import PrimExpr, as_expr, is_const_int
from ..node import node


@node
class Shuffle(PrimExpr):
    """The lanes `indices` of the lanes of all `vectors`, one after another. A single index gives a number, not a vector.
    Raises TypeError for vectors of several element types, ValueError for an index that no lane has."""

    vectors: tuple
    indices: tuple

    def __post_init__(self):
        for name in ("vectors", "indices"):
            object.__setattr__(self, name, tuple(map(as_expr, getattr(self, name))))
        if not self.vectors or not self.indices:
            raise ValueError("a Shuffle takes at least one vector and one index")
        elements = {v.dtype.element for v in self.vectors}
        if len(elements) > 1:
            raise TypeError(f"the vectors of a Shuffle have one element type, not {', '.join(sorted(map(str, elements)))}")
        count = sum(v.dtype.lanes for v in self.vectors)
        for i in self.indices:
            if not is_const_int(i) or not 0 <= i.value < count:
                raise ValueError(f"a Shuffle takes the lanes 0 to {count - 1} of its vectors, not {i}")

    @property
    def dtype(self):
        return self.vectors[0].dtype.with_lanes(len(self.indices))

    @classmethod
    def concat(cls, vectors):
        """All lanes of several vectors."""
        vectors = tuple(map(as_expr, vectors))
        return cls(vectors, range(sum(v.dtype.lanes for v in vectors)))

    @classmethod
    def extract_element(cls, vector, index):
        """One lane of a vector."""
        return cls((vector,), (index,))


__all__ = ["Shuffle"]
