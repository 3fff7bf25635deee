"""StateAlignments: what is known of the addresses of the tensors that kernels are called with."""
from __future__ import annotations

from math import gcd

from ..arith import Analyzer
from ..relax.control import graph_functions
from ..relax.expr import RelaxCall
from ..relax.memory import Memory
from ..tir.function import PrimFunc
from ..tir.lanes import ALIGN, ALIGNMENTS


def state_alignments(mod):
    """Requires kernels that graph functions call (LegalizeOps). Ensures the attribute ALIGNMENTS of those that may be
    called with tensors at addresses that are no multiples of 16 bytes, {position among its buffers: bytes that they
    are multiples of}: parts of other tensors, and what bodies of loops and branches are given. Whole tensors lie at
    multiples of 16 bytes."""
    found = {}
    for name, func in graph_functions(mod).items():
        memory, an = Memory(func), Analyzer()
        for b in func.bindings:
            if not isinstance(b.value, RelaxCall) or b.value.op != "call_tir":
                continue
            places = [memory.place(a) for a in b.value.args] + memory.results(b)
            sizes = [p.dtype.bytes for p in mod[b.value.attrs["gv"]].buffers]
            known = found.setdefault(b.value.attrs["gv"].name, {})
            for n, (place, size) in enumerate(zip(places, sizes)):
                least = _bytes(an, place, size) if name == "main" else min(size, ALIGN)
                known[n] = min(least, known.get(n, ALIGN))
    weak = {name: {n: size for n, size in known.items() if size < ALIGN} for name, known in found.items()}
    return mod.with_functions({name: f.with_attr({ALIGNMENTS: weak[name]}) if weak.get(name) and isinstance(f, PrimFunc)
                               else f for name, f in mod.functions.items()})


def _bytes(an, place, size):
    """The greatest power of two, at most ALIGN, that the address of a tensor at a place is a multiple of."""
    offset = an.modular_set(place.offset)
    return gcd(gcd(offset.coeff, offset.base) * size, ALIGN)


__all__ = ["state_alignments"]
