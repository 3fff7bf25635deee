"""The variables and buffers that nothing in a program defines: printed scripts declare them in front."""
from __future__ import annotations

from ..expr import Var
from ..node import Node
from ..tir.stmt import MatchBufferRegion


def undefined(root, known):
    """The variables and buffers below `root` that nothing defines, pointers and sizes before buffers that have them.

    known: of one, whether it is defined outside. A buffer of an allocation brings its pointer, not its sizes, as one
    that nothing defines does; one that is matched brings all of its layout. Views of pointers are not among them.
    """
    found, seen = [], set()

    def walk(value, defining):
        if isinstance(value, (tuple, list)):
            for v in value:
                walk(v, defining)
        elif isinstance(value, dict):
            for v in value.values():
                walk(v, defining)
        elif isinstance(value, Node):
            if not value._is_binder_leaf:
                binding = "layout" if isinstance(value, MatchBufferRegion) else "pointer"
                for f in value._fields:
                    walk(getattr(value, f), binding if f in value._define else "")
            elif id(value) not in seen:
                seen.add(id(value))
                leaf(value, defining)

    def leaf(value, defining):
        new = not defining and not known(value)
        if not isinstance(value, Var):
            data = value.data
            new = new and (data is None or not (id(data) in seen or known(data)))
            walk(data, defining or "pointer")
            walk([getattr(value, f) for f in value._fields if f not in value._ignore and f != "data"],
                 "layout" if defining == "layout" else "")
        if new:
            found.append(value)

    walk(root, "")
    return found


__all__ = ["undefined"]
