"""T.serial and the like, and Python's range: what a `for` of a script runs over."""
from __future__ import annotations

from ..expr import is_const_int
from . import specs as S


def loop(kind):
    """The function of one kind of loop: loop(extent) or loop(start, stop), with annotations."""
    def make(start, stop=None, step=1, *, annotations=None):
        if not (is_const_int(step, 1) or (isinstance(step, int) and step == 1)):
            raise ValueError("a loop has a step of 1; multiply the variable instead")
        if isinstance(start, str) or isinstance(stop, str):
            raise TypeError("a loop runs over numbers, not over strings")
        first, last = (None, start) if stop is None else (start, stop)
        return S.Loops((S.Head(kind, first, last, None, dict(annotations or {})),))
    return make


__all__ = ["loop"]
