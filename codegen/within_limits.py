"""How a network is compiled where it needs more RAM or flash than it may take: without what makes it fast, piece by
piece, and with its largest images in bands of rows.
"""
from __future__ import annotations

from dataclasses import replace

from ..ir.relax.control import all_bindings
from ..ir.relax.expr import Constant, RelaxCall
from ..ir.transform.graph import node_name
from .limits import LimitError, alive_bytes, flash_use, ram_use
from .program import HEADER_BYTES
from .streamed import Layout
from .tree import Call, leaves

WINOGRAD = "nn.conv2d_winograd"
MOST_TRIES = 6  # of parts in bands, of which each is compiled

# limit -> (its measure, what that counts, what is done without to get below it: words of graph_passes)
LIMITS = {"ram_limit": (ram_use, "arena, stack, inputs and outputs", ("padding", "packing")),
          "flash_limit": (flash_use, "weights, without the code", ("packing",))}


def within_limits(options, compile_, unfused):
    """compile_(options), a pair (Stages, CompiledModel), with options under which the network keeps ram_limit and
    flash_limit: the given ones where it does; else with convolutions that need no tables; where RAM alone lacks, with
    its largest images in bands of rows; else without the copies that make it fast. unfused(options): the graph that
    bands are chosen in. Raises LimitError, which names the least that was reached and the layer that sets it."""
    limits = {name: limit for name in LIMITS if (limit := getattr(options, name)) is not None}
    least = {}

    def over(model):
        """The names of the limits that a model exceeds."""
        return {name for name, limit in limits.items() if _measured(name, model, least).bytes > limit}

    while True:
        stages, model = compile_(options)
        exceeded = over(model)
        if not exceeded:
            return stages, model
        less = _without_winograd(options, stages, model, exceeded)
        if less is None:
            less = _without_more(options, exceeded)
            if exceeded == {"ram_limit"} and options.opt_level:
                layout = Layout(unfused(options), stages.fused)
                streamed = _in_bands(options, layout, model, compile_, last=less is None)
                if streamed and not over(streamed[1]):
                    return streamed
        options = less
        if options is None:
            raise LimitError("; ".join(_complaints(limits, least)))


def _in_bands(options, layout, model, compile_, last):
    """compile_(options) of the least part of a network in bands of rows with which it keeps ram_limit; None where there
    is none, or, where nothing else is left to try, that of the part with which it needs least."""
    allowed = options.ram_limit - ram_use(model).bytes + _arena(model)
    more = min(_arena(model) - layout.most, HEADER_BYTES)  # than is told of the graph
    for _ in range(MOST_TRIES):
        part = layout.part(allowed - more)
        if part is None:
            break
        found = compile_(replace(options, streaming=part.streaming))
        if ram_use(found[1]).bytes <= options.ram_limit:
            return found
        more = max(_arena(found[1]) - part.bytes, more + 1)
    part = layout.least() if last else None
    return part and compile_(replace(options, streaming=part.streaming))


def _arena(model):
    return model.arena_bytes + sum(size for _, size in model.further_memories)


def _measured(name, model, least):
    """The Use of what a limit is of; `least` keeps the least of each limit."""
    use = LIMITS[name][0](model)
    if use is None:
        raise LimitError(f"{name} needs sizes with bounds: give each symbolic dimension a value or a bound, "
                         f"--dim or --bound {(*model.dims, 'NAME')[0]}=N")
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


def _without_winograd(options, stages, model, exceeded):
    """Options with fewer convolutions by Winograd's algorithm where limits are exceeded; None where none would help."""
    decided = {name for name, _ in options.algorithms}
    tables = {name: size for name, size in _winograd(stages.fused).items() if name not in decided}
    if "flash_limit" in exceeded:  # the largest tables first, a quarter of them at a time
        names = sorted(tables, key=tables.get, reverse=True)[:-(-len(tables) // 4)]
    else:
        names = [name for name in _at_the_peak(stages, model) if name in tables]
    if names and options.opt_level == 2:
        return replace(options, algorithms=(*options.algorithms, *((name, "direct") for name in names)))
    return None


def _without_more(options, exceeded):
    """Options without the next of what makes a network fast; None after the last."""
    words = [w for name in LIMITS if name in exceeded for w in LIMITS[name][2] if w not in options.without]
    return replace(options, without=(*options.without, words[0])) if words else None


def _winograd(mod):
    """{node of the model: bytes of its transformed weights} of the convolutions by Winograd's algorithm."""
    return {node_name(b): sum(w.data.nbytes for w in b.value.args[1:] if isinstance(w, Constant))
            for b in all_bindings(mod) if isinstance(b.value, RelaxCall) and b.value.op == WINOGRAD}


def _at_the_peak(stages, model):
    """The nodes of the model that are computed when most bytes of the arena are in use."""
    each, run = alive_bytes(model), leaves(model.program.run)
    kernels = {leaf.kernel for leaf, size in zip(run, each) if size == max(each) and isinstance(leaf, Call)}
    return [o.name for k in sorted(kernels) for o in stages.lowered[k].attrs.get("origin") or ()]
