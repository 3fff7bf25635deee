"""PrimFunc: a function over buffers, the unit that is scheduled, lowered and printed as one C function."""
from __future__ import annotations

from ..expr import Var, const
from ..module import BaseFunc
from ..node import node, node_field
from .stmt import Block, BlockRealize, Stmt


@node
class PrimFunc(BaseFunc):
    """params: handles and scalars; buffer_map: {handle: Buffer}, whose shapes may define symbolic dimensions.

    body: before lowering, the BlockRealize of a block named "root". attrs: "global_symbol", "origin" (the tuple of
    model nodes it computes), "schedule" (text of its trace), "num_outputs".
    """

    params: tuple = node_field(define=True)
    buffer_map: dict = node_field(define=True, default_factory=dict)
    body: Stmt = None
    attrs: dict = node_field(default_factory=dict)

    @property
    def buffers(self):
        """The parameters' buffers in declared order."""
        return [self.buffer_map[p] for p in self.params if p in self.buffer_map]

    @property
    def root(self):
        """The root block; TypeError once the function is lowered."""
        if not (isinstance(self.body, BlockRealize) and not self.body.block.iter_vars):
            raise TypeError("the function has no root block: it is lowered or malformed")
        return self.body.block

    def with_root_body(self, body, alloc_buffers=None):
        """The function with another body (and allocations) inside its root block."""
        root = self.root
        allocs = root.alloc_buffers if alloc_buffers is None else tuple(alloc_buffers)
        return self.replace(body=self.body.replace(block=root.replace(body=body, alloc_buffers=allocs)))

    def with_attr(self, key, value):
        return self.replace(attrs={**self.attrs, key: value})

    def script(self):
        """The function in script syntax."""
        from ..script import script
        return script(self)

    __str__ = script

    def show(self):
        """Print the function's script, coloured on a terminal."""
        from ..script.highlight import show
        show(self.script())


def prim_func(params, body, attrs=None, alloc_buffers=()):
    """A PrimFunc of Buffers (bound to fresh handles) and scalar Vars, its body wrapped in a root block."""
    handles, buffer_map = [], {}
    for p in params:
        if isinstance(p, Var):
            handles.append(p)
        else:
            handle = Var(p.name, "handle")
            handles.append(handle)
            buffer_map[handle] = p
    root = Block((), (), (), "root", tuple(alloc_buffers), (), {}, None, body)
    return PrimFunc(tuple(handles), buffer_map, BlockRealize((), const(True), root), dict(attrs or {}))
