"""What a call, an expression or a PrimFunc does besides giving a value."""
from __future__ import annotations

from ..expr import Call
from ..module import GlobalVar
from ..node import collect
from ..upper import provides
from .device_ops import DEVICE_OPS, SHUFFLES
from .stmt import Block, BufferStore, DeclBuffer

RETURN = "tir.ret"
# Calls that do more than give a value.
EFFECTS = frozenset([RETURN, "tir.call_extern", "tir.call_packed", "tir.tvm_call_packed", "tir.prefetch", "tir.assume",
                     *(f"tir.{name}" for name in (*DEVICE_OPS, *SHUFFLES))])
ATOMICS = "tir.atomic_"  # what the others begin with


@provides("acts")
def acts(call):
    """Whether a Call itself does more than give a value."""
    return call.op in EFFECTS or isinstance(call.op, GlobalVar) or call.op.startswith(ATOMICS)


def effects_of(e):
    """The calls below a node that do more than give a value."""
    return [call for call in collect(e, Call) if acts(call)]


@provides("has_effect")
def has_effect(e):
    """Whether evaluating an expression does more than give a value."""
    return bool(effects_of(e))


def why_impure(func):
    """None for a PrimFunc that only gives a value: it stores to its own buffers alone and calls nothing with an effect.
    Else the reason."""
    own = {b.data for decl in collect(func.body, (DeclBuffer, Block))
           for b in ((decl.buffer,) if isinstance(decl, DeclBuffer) else decl.alloc_buffers)}
    for store in collect(func.body, BufferStore):
        if store.buffer.data not in own:
            return f"it stores to {store.buffer.name}, which is not its own"
    calls = [call for call in effects_of(func.body) if call.op != RETURN]
    return f"it calls {calls[0]}, which has effects" if calls else None
