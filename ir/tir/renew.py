"""renew_defs: a copy of a function or statement that defines variables and buffers of its own."""
from __future__ import annotations

from ..expr import IterVar, Var
from ..node import Mutator, post_order
from .buffer import Buffer
from .function import PrimFunc
from .stmt import MatchBufferRegion

_LAYOUT = ("shape", "strides", "elem_offset")  # where a parameter's buffer, or a matched one, may define variables


def renew_defs(root, values=None):
    """`root`, a PrimFunc or a statement, with a new variable or buffer for each that it defines, so that it may stand
    beside the original. values: {variable that it does not define: what replaces it}."""
    found = {}
    post_order(root, lambda n: _note(n, found))
    return _Renew({v: v.renewed() for v in found} | (values or {})).visit(root)


def _note(n, found):
    """Add the variables that a node defines, and the data pointers of its buffers."""
    for field in n._define:
        _add(getattr(n, field), found)
    if isinstance(n, PrimFunc):
        _add(n.params, found)
    for buffer in n.buffer_map.values() if isinstance(n, PrimFunc) else (
            (n.buffer,) if isinstance(n, MatchBufferRegion) else ()):
        _add(buffer, found)
        for name in _LAYOUT:
            _add(getattr(buffer, name), found)


def _add(value, found):
    if isinstance(value, tuple):
        for v in value:
            _add(v, found)
    elif isinstance(value, IterVar):
        found.setdefault(value.var)
    elif isinstance(value, Var):
        found.setdefault(value)
    elif isinstance(value, Buffer):
        found.setdefault(value.data)


class _Renew(Mutator):
    """New variables, and a new buffer for each that is defined or mentions one."""

    def __init__(self, variables):
        self.variables, self.buffers = variables, {}

    def visit_Var(self, v):
        return self.variables.get(v, v)

    def visit_Buffer(self, buffer):
        if buffer not in self.buffers:
            self.buffers[buffer] = buffer.replace(**{
                name: self.visit(getattr(buffer, name)) for name in (*_LAYOUT, "data") if getattr(buffer, name)
                is not None})
        return self.buffers[buffer]
