"""Several memories of a board: which tensors of the arena lie in which, the hottest and shortest-lived in the first."""
from __future__ import annotations

import re
from dataclasses import replace

from .limits import LimitError, bytes_of
from .memory_plan import ALIGN, HOST, Placing, lower_bound, plan_memory
from .tree import leaves, operands_of


def check_memories(memories):
    """((name, bytes), ...) of {"dtcm": 65536, "sram": "256K"}, or of the text "dtcm=64K,sram=256K".
    Raises ValueError."""
    if isinstance(memories, str):
        memories = dict(part.partition("=")[::2] for part in memories.split(",") if part.strip())
    found = []
    for name, size in dict(memories or {}).items():
        name = name.strip()
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,15}", name):
            raise ValueError(f"memory {name!r} has no name that C can use: small letters, at most 16, as in "
                             "dtcm=64K,sram=256K")
        try:
            found.append((name, bytes_of(size)))
        except ValueError as error:
            raise ValueError(f"memory {name}: {error}") from None
    if len({name for name, _ in found}) < len(found):
        raise ValueError("memory names one twice")
    return tuple(found)


def scope(memories, number):
    """The scope of the buffers in memory `number`: that of the first, which has the instance too, is the caller's
    arena."""
    return f"{HOST}.{memories[number][0]}" if number else HOST


def spread(buffers, run, memories, beside):
    """Buffers, with lives and constant sizes, each in the memory that it shall lie in. memories: ((name, bytes), ...);
    beside: bytes of the first that are no tensors'. Raises LimitError where they do not fit."""
    uses = [0] * len(buffers)
    for leaf in leaves(run):
        for o in operands_of(leaf):
            if o.kind == "arena":
                uses[o.index] += 1
    sizes = {i: -(-b.bytes.value // ALIGN) * ALIGN for i, b in enumerate(buffers)}
    lengths = [sum(last - first + 1 for first, last in b.life) for b in buffers]
    waiting = sorted(sizes, key=lambda i: (-uses[i] / lengths[i], lengths[i], -sizes[i], i))
    placed = list(buffers)
    for n, (name, size) in enumerate(memories):
        room, inside = size - (0 if n else beside), []
        if room < 0:
            raise LimitError(f"{name} has {size} bytes, and must hold the instance and the scratch of threads, "
                             f"{beside} bytes: name a larger memory first")
        for i in waiting:
            if sizes[i] <= room and _fits([*inside, i], sizes, buffers, room):
                inside.append(i)
                placed[i] = replace(buffers[i], memory=scope(memories, n))
        waiting = [i for i in waiting if i not in inside]
    if waiting:
        largest = max(waiting, key=sizes.get)
        least = lower_bound(sizes, {i: b.life for i, b in enumerate(buffers)}) + beside
        raise LimitError(f"the memories have {sum(size for _, size in memories)} bytes, and no room for "
                         f"{buffers[largest].name} of {sizes[largest]} bytes beside what is alive with it: all tensors "
                         f"in one memory need {least} bytes")
    return placed


def _fits(some, sizes, buffers, room):
    """Whether buffers find room together."""
    own = {i: sizes[i] for i in some}
    lives = {i: buffers[i].life for i in some}
    if lower_bound(own, lives) > room:
        return False
    placing = Placing(own, lives)
    return any(placing.place(order, limit)[1] <= room for order in placing.orders() for limit in (room, 0))


def planned(buffers, run, memories, beside):
    """The MemoryPlan of buffers in memories, of at most their bytes."""
    return plan_memory(spread(buffers, run, memories, beside))
