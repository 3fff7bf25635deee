"""Limits of RAM and flash: what a network takes of them, and how it is compiled for less where that is too much.

RAM is the arena, the stack of a run, inputs and outputs. Flash is the weights as they are stored, packed for kernels;
the code is not counted, which only a compiler measures.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from ..ir.expr import IntImm
from ..ir.relax.control import all_bindings
from ..ir.relax.expr import Constant, RelaxCall
from ..ir.transform.graph import node_name
from .lives import lives, upper_bound, upper_bounds
from .tree import Call, Copy, leaves, operands_of

WINOGRAD = "nn.conv2d_winograd"
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class LimitError(ValueError):
    """A network needs more memory than it is allowed to take."""


@dataclass(frozen=True)
class Use:
    """Bytes of a limit that a network takes, and the layer that sets them, as text."""

    bytes: int
    layer: str


def tensor_bytes(program, t):
    """Bytes of an input or output, at most; None where its size is symbolic."""
    bounds = upper_bounds(program.run)
    space = [upper_bound(d, bounds) for d in t.dims]
    return prod(d.value for d in space) * t.dtype.bytes if all(isinstance(d, IntImm) for d in space) else None


def ram_use(model):
    """The Use of RAM of a CompiledModel, None where sizes are symbolic."""
    program = model.program
    tensors = [tensor_bytes(program, t) for t in (*program.inputs, *program.outputs)]
    if model.arena_bytes is None or None in tensors:
        return None
    arena = model.arena_bytes + sum(size for _, size in model.further_memories)
    return Use(arena + model.stack + sum(tensors), _layer(model, _alive_bytes))


def flash_use(model):
    """The Use of flash of a CompiledModel: its weights."""
    return Use(model.program.weights_bytes, _layer(model, _read_bytes))


def _alive_bytes(program):
    """[bytes of the buffers that are alive at each leaf of a run]."""
    buffers, total = program.plan.buffers, [0] * len(leaves(program.run))
    for i, life in lives(program.run).items():
        for first, last in life:
            for moment in range(first, last + 1):
                total[moment] += buffers[i].bytes.value
    return total


def _read_bytes(program):
    """[bytes of weights that each leaf of a run reads]."""
    return [sum(program.weights[o.index].data.nbytes for o in operands_of(leaf) if o.kind == "weight")
            for leaf in leaves(program.run)]


def _layer(model, measure):
    """The leaf of a run that has most of a measure: nodes of the model, and bytes."""
    each = measure(model.program)
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


# ---------------------------------------------------------------- ways to less

# limit -> (its measure, what that counts, what is done without to get below it: words of graph_passes)
LIMITS = {"ram_limit": (ram_use, "arena, stack, inputs and outputs", ("padding", "packing")),
          "flash_limit": (flash_use, "weights, without the code", ("packing",))}


def within_limits(options, compile_):
    """compile_(options), a pair (Stages, CompiledModel), with options under which the network keeps ram_limit and
    flash_limit: the given ones where it does, else with fewer of the tables and copies that make it fast. Raises
    LimitError, which names the least that was reached and the layer that sets it."""
    limits = {name: limit for name in LIMITS if (limit := getattr(options, name)) is not None}
    least = {}
    while True:
        stages, model = compile_(options)
        exceeded = {name for name, limit in limits.items() if _measured(name, model, least).bytes > limit}
        if not exceeded:
            return stages, model
        options = _with_less(options, stages, model, exceeded)
        if options is None:
            raise LimitError("; ".join(_complaints(limits, least)))


def _measured(name, model, least):
    """The Use of what a limit is of; `least` keeps the least of each limit."""
    use = LIMITS[name][0](model)
    if use is None:
        raise LimitError(f"{name} needs tensors of constant size: give each symbolic dimension a value, "
                         f"--dim {(*model.dims, 'NAME')[0]}=N")
    least[name] = min(use, least.get(name, use), key=lambda u: u.bytes)
    return use


def _complaints(limits, least):
    over = [name for name, limit in limits.items() if least[name].bytes > limit]
    if not over:
        yield "ram_limit and flash_limit are kept one at a time, not both at once: raise one of them"
    for name in over:
        use, option = least[name], f"--{name.replace('_', '-')}"
        yield (f"the network takes at least {use.bytes} bytes ({LIMITS[name][1]}), more than {name}={limits[name]}; "
               f"what sets it is {use.layer}; allow as many: {option} {use.bytes}")


def _with_less(options, stages, model, exceeded):
    """The next options to try where limits are exceeded; None after the last."""
    decided = {name for name, _ in options.algorithms}
    tables = {name: size for name, size in _winograd(stages.fused).items() if name not in decided}
    if "flash_limit" in exceeded:  # the largest tables first, a quarter of them at a time
        names = sorted(tables, key=tables.get, reverse=True)[:-(-len(tables) // 4)]
    else:
        names = [name for name in _at_the_peak(stages, model) if name in tables]
    if names and options.opt_level == 2:
        return replace(options, algorithms=(*options.algorithms, *((name, "direct") for name in names)))
    words = [w for name in LIMITS if name in exceeded for w in LIMITS[name][2] if w not in options.without]
    return replace(options, without=(*options.without, words[0])) if words else None


def _winograd(mod):
    """{node of the model: bytes of its transformed weights} of the convolutions by Winograd's algorithm."""
    return {node_name(b): sum(w.data.nbytes for w in b.value.args[1:] if isinstance(w, Constant))
            for b in all_bindings(mod) if isinstance(b.value, RelaxCall) and b.value.op == WINOGRAD}


def _at_the_peak(stages, model):
    """The nodes of the model that are computed when most bytes of the arena are in use."""
    each, run = _alive_bytes(model.program), leaves(model.program.run)
    kernels = {leaf.kernel for leaf, size in zip(run, each) if size == max(each) and isinstance(leaf, Call)}
    return [o.name for k in sorted(kernels) for o in stages.lowered[k].attrs.get("origin") or ()]
