"""NameStrides: what lies between the neighbours along each dimension of a buffer gets a name, for readers of the C."""
from __future__ import annotations

import re
from itertools import chain

from ..arith import Analyzer
from ..expr import IntImm, Ramp, free_vars, is_const_int
from ..node import collect
from ..tir.buffer import row_major_strides
from ..tir.stmt import BufferLoad, BufferStore
from .name_loops import MADE_UP

# What splits and copies put behind the names of loops.
_PART = re.compile(r"(_\d+|_init)+$")
_WORDS = {"y": "row", "x": "column"}
# The dimensions before the last one, of an image in blocked layout and of other tensors.
_BLOCKED, _PLAIN = ("image", "plane", "row", "column"), ("image", "plane", "row")
MOST_LANES = 16  # so many elements apart are the vectors of a list, which need no name


def name_strides(func):
    """Requires no blocks and shaped buffers. Ensures attrs["strides"], {name of a buffer: ((name, elements), ...)},
    outermost first, of its dimensions whose neighbours are a constant number of elements apart, more than one. A
    dimension is called after the loop that runs over it, those of images "plane", "row" and "column". Of buffers of one
    name the largest has the names: others are its parts in registers."""
    found = {}
    for buffer, loops in _loops_over(func).items():
        strides = tuple(_strides(buffer, loops))
        if strides and strides[0][1] > found.get(buffer.name, [("", 0)])[0][1]:
            found[buffer.name] = strides
    return func.with_attr("strides", found) if found else func


def _loops_over(func):
    """{buffer: [the name of the loop that runs over a dimension, or ""]}: where it is stored to before where it is
    loaded from."""
    accesses = chain(collect(func.body, BufferStore), collect(func.body, BufferLoad))
    found = {buffer: [""] * len(buffer.shape) for buffer in func.buffers}
    for access in accesses:
        names = found.setdefault(access.buffer, [""] * len(access.buffer.shape))
        for k, index in enumerate(access.indices):
            names[k] = names[k] or _loop_over(index)
    return found


def _loop_over(index):
    index = index.base if isinstance(index, Ramp) else index
    names = (_PART.sub("", v.name) for v in free_vars(index))
    return next((name for name in names if not MADE_UP.match(name)), "")


def _strides(buffer, loops):
    """Pairs of (name, elements) of a buffer whose dimensions loops of those names run over."""
    simplify, rank = Analyzer().simplify, len(buffer.shape)
    steps = [simplify(s) for s in buffer.strides or row_major_strides(buffer.shape)]
    kept = [k for k, step in enumerate(steps) if isinstance(step, IntImm) and step.value > 1
            and not is_const_int(buffer.shape[k], 1)]
    if len(kept) == 1 and steps[kept[0]].value <= MOST_LANES:
        return ()
    names = ["row"] if len(kept) == 1 else [_WORDS.get(loops[k], loops[k]) for k in kept]
    if not all(names) or len(set(names)) < len(names):
        names = [_by_place(rank, k) for k in kept]
    names = ["plane" if after == "row" else name for name, after in zip(names, [*names[1:], ""])]
    return zip(names, (steps[k].value for k in kept)) if len(set(names)) == len(names) else ()


def _by_place(rank, k):
    """The name of dimension k of a tensor where no loop gives a better one."""
    words = _BLOCKED if rank == len(_BLOCKED) + 1 else _PLAIN
    return words[k - rank + 1] if k >= rank - 1 - len(words) else f"axis{k}"
