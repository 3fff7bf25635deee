"""Runs that only enqueue: those for OpenCL never wait for what a tensor holds, so no tensor decides what they do."""
from __future__ import annotations

from ..ir.relax.control import all_bindings, loop_parts
from ..ir.relax.expr import PrimValue


def check_enqueued(mod, target):
    """Raise ValueError, which names the node, for a module whose run would read a tensor before it goes on."""
    for b in all_bindings(mod):
        decides = _DECIDES.get(getattr(b.value, "op", None), lambda call: "")(b.value)
        if decides:
            origin = b.var.origin
            node = f"{origin.name} ({origin.op})" if origin and origin.op else b.var.name
            raise ValueError(f"node {node}: a tensor decides {decides} while the network runs, and a run for {target} "
                             f"only enqueues kernels: make that part constant, or compile it for a CPU")


def _of_loop(call):
    parts = loop_parts(call, call.args)
    return "how often the loop turns" if parts.limit is not None or parts.cond is not None else ""


# operator -> what a tensor decides in a call of it, "" where none does
_DECIDES = {
    "call_if": lambda call: "" if isinstance(call.args[0], PrimValue) else "which branch is taken",
    "call_loop": _of_loop,
    "tensor_to_shape": lambda call: f"the size{'s' if len(call.attrs['dims']) > 1 else ''} "
                                    f"{', '.join(d.name for d in call.attrs['dims'])}",
}
