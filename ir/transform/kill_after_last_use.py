"""KillAfterLastUse: what a run needs no more is let go."""
from __future__ import annotations

from ..names import Names, unique_name
from ..node import Mutator, collect
from ..relax.expr import (Constant, DataflowBlock, DataflowVar, FuncStructInfo, PrimStructInfo, RelaxVar,
                          ShapeStructInfo, TensorStructInfo, VarBinding)
from ..relax.op import call as operator
from .canonicalize_bindings import canonicalize_bindings

_VARS = (RelaxVar, DataflowVar)
_STORAGES = ("memory.alloc_storage", "vm.alloc_storage")
_KILLS = ("memory.kill_tensor", "memory.kill_storage", "vm.kill_object")
_NO_OBJECTS = (FuncStructInfo, ShapeStructInfo, PrimStructInfo)


def kill_after_last_use(func):
    """A graph function, its bindings in canonical form, in which R.memory.kill_tensor, R.memory.kill_storage or
    R.vm.kill_object follows the last use of each value that the function binds, does not return, and does not kill."""
    func = canonicalize_bindings(func)
    return _Kills(func).visit(func)


class _Kills(Mutator):
    def __init__(self, func):
        self.names = Names(v.name for v in collect(func, _VARS))

    def visit_Constant(self, constant):
        return constant

    def visit_SeqExpr(self, seq):
        dying = _dying(seq)
        blocks = []
        for block in seq.blocks:
            bindings, kind = [], DataflowVar if isinstance(block, DataflowBlock) else RelaxVar
            for b in block.bindings:
                bindings += [self.visit(b), *(self._kill(kill, var, kind) for kill, var in dying.get(id(b), ()))]
            blocks.append(block.replace(bindings=tuple(bindings)))
        return seq.replace(blocks=tuple(blocks))

    def _kill(self, kill, var, kind):
        value = operator(kill, var)
        return VarBinding(kind(unique_name("_", self.names, ""), value.struct_info), value)


def _dying(seq):
    """{id of a binding: [(how, variable)]}: the values of a sequence that it is the last to use."""
    bindings = [b for block in seq.blocks for b in block.bindings]
    last, kept = {}, {id(v) for v in collect(seq.body, _VARS)}
    for b in bindings:
        if getattr(b.value, "op", None) in _KILLS:
            kept.update(map(id, b.value.args))
        last.update({id(v): b for v in collect(b.value, _VARS)})
    dying = {}
    for b in bindings:
        kill = _kill_of(b)
        if kill is not None and id(b.var) in last and id(b.var) not in kept:
            dying.setdefault(id(last[id(b.var)]), []).append((kill, b.var))
    return {user: sorted(killed, key=lambda k: _KILLS.index(k[0])) for user, killed in dying.items()}


def _kill_of(b):
    """How the value of a binding is let go; None where no memory is its own."""
    if getattr(b.value, "op", None) in _STORAGES:
        return "memory.kill_storage"
    if isinstance(b.value, Constant) or isinstance(b.var.struct_info, _NO_OBJECTS):
        return None
    return "memory.kill_tensor" if isinstance(b.var.struct_info, TensorStructInfo) else "vm.kill_object"


__all__ = ["kill_after_last_use"]
