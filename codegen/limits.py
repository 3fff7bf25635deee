"""Limits of RAM and flash: what a network takes of them. within_limits.py compiles it for less where that is too much.

RAM is the arena, the stack of a run, inputs and outputs. Flash is the weights as they are stored, packed for kernels;
the code is not counted, which only a compiler measures.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..ir.expr import IntImm, Var, free_vars
from .lives import lives, upper_bound, upper_bounds
from .tree import Copy, ProgramError, leaves, operands_of

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class LimitError(ValueError):
    """A network needs more memory than it is allowed to take."""


@dataclass(frozen=True)
class Use:
    """Bytes of a limit that a network takes, and the layer that sets them, as text."""

    bytes: int
    layer: str


def at_most(size, bounds):
    """The int value of a size where each variable is at its bound, {variable: expression or None}; None where one has
    no constant bound, or a larger dimension might make the size less."""
    if any(v not in bounds for v in free_vars(size)):
        return None
    try:
        found = upper_bound(size, bounds)
    except ProgramError:
        return None
    return found.value if isinstance(found, IntImm) else None


def most_dims(model):
    """{symbolic dimension that the caller of a CompiledModel passes: the most that it may be},
    of those with a bound."""
    bounds = ((c.right, c.left) for c in model.dim_checks if c.relation == ">=" and isinstance(c.left, IntImm))
    return {var: most for var, most in bounds if isinstance(var, Var)}


def tensor_bytes(model, t):
    """Bytes of an input or output of a CompiledModel, at most; None where its size has no bound."""
    inside = upper_bounds(model.program.run)
    space = [at_most(upper_bound(d, inside), most_dims(model)) for d in t.dims]
    return None if None in space else prod(space) * t.dtype.bytes


def tensors_bytes(model):
    """Bytes of all inputs and outputs, at most; None where sizes have no bound."""
    sizes = [tensor_bytes(model, t) for t in (*model.program.inputs, *model.program.outputs)]
    return None if None in sizes else sum(sizes)


def ram_use(model):
    """The Use of RAM of a CompiledModel, at most; None where sizes have no bound."""
    tensors = tensors_bytes(model)
    if model.arena_bytes is None or tensors is None:
        return None
    arena = model.arena_bytes + sum(size for _, size in model.further_memories)
    return Use(arena + model.stack + tensors, _layer(model, alive_bytes))


def flash_use(model):
    """The Use of flash of a CompiledModel: its weights."""
    return Use(model.program.weights_bytes, _layer(model, _read_bytes))


def alive_bytes(model):
    """[bytes of the buffers that are alive at each leaf of a run, at most]."""
    program, known = model.program, most_dims(model)
    buffers, total = program.plan.buffers, [0] * len(leaves(program.run))
    for i, life in lives(program.run).items():
        for first, last in life:
            for moment in range(first, last + 1):
                total[moment] += at_most(buffers[i].bytes, known) or 0
    return total


def _read_bytes(model):
    """[bytes of weights that each leaf of a run reads]."""
    program = model.program
    return [sum(program.weights[o.index].data.nbytes for o in operands_of(leaf) if o.kind == "weight")
            for leaf in leaves(program.run)]


def _layer(model, measure):
    """The leaf of a run that has most of a measure: nodes of the model, and bytes."""
    each = measure(model)
    if not each or not max(each):
        return "no layer"
    leaf = leaves(model.program.run)[each.index(max(each))]
    kernel = model.kernels.get(model.kernel_of.get(getattr(leaf, "kernel", None)))
    if kernel is None and isinstance(leaf, Copy):
        return f"{leaf.dst.name} ({max(each)} bytes)"
    return f"{(kernel and (kernel.nodes or kernel.function.name)) or 'a copy'} ({max(each)} bytes)"


def bytes_of(text):
    """The bytes that "65536", "64K", "1.5M" or "2G" says: of 1024, 1024 K, 1024 M. Raises ValueError."""
    text = str(text).strip().upper().removesuffix("B").removesuffix("I")
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS and text[-1:] else (text, "")
    try:
        size = float(number) * UNITS[unit]
    except ValueError:
        size = 0
    if not 1 <= size < 1 << 62 or size != int(size):
        raise ValueError(f"expected bytes, as 65536, 64K, 1.5M or 2G, not {text!r}")
    return int(size)
