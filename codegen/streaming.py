"""Weights that a run reads from where no pointer reaches, such as flash on a serial bus: each call's into the arena,
while the call before it computes."""
from __future__ import annotations

from dataclasses import replace

from ..ir.expr import const
from .tree import BODIES, Call, Copy, ProgramError, Wait, leaves, operands_of


def with_reads(steps, weights, allocate):
    """Steps of a run whose calls read weights from buffers of the arena. A Copy into these comes before the call with
    weights that comes before, and a Wait for all copies that were begun right before their own call: the memory plan
    finds room for the weights of two calls.

    allocate: (name, data of a weight) -> the Operand of a new buffer. Raises ProgramError where branches or loops of
    the run read weights: which come next only the run knows.
    """
    steps, ahead = list(steps), {}  # number of a step -> the copies that it needs
    for n, step in enumerate(steps):
        if type(step) in BODIES and any(_read(leaf) for leaf in leaves(step)):
            raise ProgramError("weights are streamed call by call, but a branch or loop of the network reads "
                               f"{_read(next(filter(_read, leaves(step))))[0].name}: "
                               "use weights=\"file\" (--weights file)")
        found = {o.index: o for o in _read(step)} if isinstance(step, Call) else {}
        if not found:
            continue
        places = {i: allocate(f"{o.name}_read", weights[i].data) for i, o in found.items()}
        ahead[n] = [Copy(replace(o, offset=const(0, "int64")), places[i], const(weights[i].data.nbytes, "int64"))
                    for i, o in found.items()]
        steps[n] = replace(step, operands=tuple(
            replace(places[o.index], offset=o.offset) if o.kind == "weight" else o for o in step.operands))
    order, result = sorted(ahead), []
    following = dict(zip(order, order[1:]))
    for n, step in enumerate(steps):
        if order and n == order[0]:
            result += ahead[n]
        if n in ahead:
            result += [Wait(), *ahead.get(following.get(n), ())]
        result.append(step)
    return result


def _read(leaf):
    """The weights that a leaf reads, as Operands."""
    return [o for o in operands_of(leaf) if o.kind == "weight"]
