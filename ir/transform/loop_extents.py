"""NameExtents: a loop runs as often as its extent says before it begins, whatever its body then does."""
from __future__ import annotations

from ..expr import Var
from ..node import collect
from ..tir.buffer import Buffer
from ..tir.effects import effects_of, has_effect
from ..tir.stmt import BufferLoad, BufferStore, LetStmt
from .walk import StmtMutator


def name_extents(func):
    """for i in range(n[0]): n[0] = ...  ->  i_extent = n[0]; for i in range(i_extent): n[0] = ...

    C asks for the end of a loop before each iteration. Requires no blocks. Ensures that no loop has an extent, or a
    beginning, with an effect or with loads of what its body changes: those are values of variables around the loop."""
    return func.replace(body=_NameExtents().visit(func.body))


class _NameExtents(StmtMutator):
    def visit_For(self, loop):
        loop, named = loop.replace(body=self.visit(loop.body)), []
        if loop.kind == "thread_binding":  # hosts compute how many threads there are
            return loop
        changed = _changed(loop.body) if collect((loop.min, loop.extent), BufferLoad) else set()
        for field in ("min", "extent"):
            value = getattr(loop, field)
            if has_effect(value) or any(id(load.buffer.data) in changed for load in collect(value, BufferLoad)):
                var = Var(f"{loop.loop_var.name}_{field}", value.dtype)
                named.append((var, value))
                loop = loop.replace(**{field: var})
        for var, value in reversed(named):
            loop = LetStmt(var, value, loop)
        return loop


def _changed(body):
    """The ids of the data pointers of buffers that statements store to, or hand to calls that may."""
    found = {id(store.buffer.data) for store in collect(body, BufferStore)}
    handed = [call.args for call in effects_of(body)]
    return found | {id(b.data) for b in collect(handed, Buffer)} | set(map(id, collect(handed, Var)))


__all__ = ["name_extents"]
