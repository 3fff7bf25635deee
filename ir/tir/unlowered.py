"""Nodes that TVM has between its passes, for programs and passes of a script's own: no pipeline here makes or takes
them.

Printed they are their class and fields; C refuses them by name.
"""
from __future__ import annotations

from ..expr import PrimExpr, as_expr
from ..node import Node, node, node_field
from .buffer import Buffer
from .stmt import Stmt


def _expressions(owner, *names):
    for name in names:
        object.__setattr__(owner, name, tuple(map(as_expr, getattr(owner, name))))


@node
class BufferRealize(Stmt):
    """The memory for the box `bounds` of a buffer while body runs, where a condition holds."""

    buffer: Buffer = node_field(define=True)
    bounds: tuple = ()
    condition: PrimExpr = None
    body: Stmt = None

    def __post_init__(self):
        object.__setattr__(self, "bounds", tuple(self.bounds))
        object.__setattr__(self, "condition", as_expr(True if self.condition is None else self.condition))


@node
class ProducerRealize(Stmt):
    """The memory for the box `bounds` of a tensor while body runs, where a condition holds."""

    producer: Node
    bounds: tuple = ()
    condition: PrimExpr = None
    body: Stmt = None
    storage_scope: str = ""

    __post_init__ = BufferRealize.__post_init__


@node
class ProducerStore(Stmt):
    """tensor[indices] = value, before the tensor has a buffer."""

    producer: Node
    value: PrimExpr
    indices: tuple

    def __post_init__(self):
        _expressions(self, "indices")
        object.__setattr__(self, "value", as_expr(self.value, self.producer.dtype))


@node
class Prefetch(Stmt):
    """Asks for the box `bounds` of a buffer, which will be read soon."""

    buffer: Buffer
    bounds: tuple = ()

    def __post_init__(self):
        object.__setattr__(self, "bounds", tuple(self.bounds))


__all__ = ["BufferRealize", "Prefetch", "ProducerRealize", "ProducerStore"]
