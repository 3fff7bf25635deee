"""Copies of LowerAutoCopy: nests of loops around one store, and how threads share one."""
from __future__ import annotations

from dataclasses import dataclass, field

from ...arith import Analyzer
from ...arith.iter_affine_map import IterMapLevel, detect_iter_map
from ...arith.iter_map import affine_domains
from ...arith.iter_rewrite import inverse_affine_iter_map
from ...expr import LT, IntImm, Range, Var, const, free_vars, is_const_int, substitute
from ...node import collect
from ...tir.stmt import Block, BlockRealize, BufferLoad, BufferStore, For, IfThenElse
from ..gpu.threads import AXES, is_bound

VECTOR_BYTES = "vector_bytes"


@dataclass
class Copy:
    """What is known of a copy. outer: the loops around its block, outermost first; threads: {axis of threads: extent};
    buffers: those that rules allocate in the block; pads: {buffer: what its padding is a multiple of}."""

    func: object
    block: Block
    source: object
    target: object
    outer: tuple
    threads: dict
    buffers: list = field(default_factory=list)
    pads: dict = field(default_factory=dict)

    @property
    def bits(self):
        return self.source.dtype.bits

    @property
    def vector(self):
        """How many elements a thread copies at once."""
        return max(1, int(self.block.annotations.get(VECTOR_BYTES, 1)) * 8 // self.bits)

    def thread_loops(self):
        """The loops around that are bound to threads of a block."""
        return [loop for loop in self.outer if is_bound(loop, "threadIdx")]

    def is_alike(self, nest):
        """Whether each thread runs the same copy: nothing that it says depends on the thread, or on what only one
        knows."""
        same = {loop.loop_var for loop in self.outer} - {loop.loop_var for loop in self.thread_loops()}
        return self._knows(nest, same)

    def is_known(self, nest):
        """Whether all that a copy says follows from the loops around it."""
        return self._knows(nest, {loop.loop_var for loop in self.outer})

    def _knows(self, nest, variables):
        loops, store = nest
        loaded = [load.buffer for load in collect((store.value, store.indices), BufferLoad)]
        given = {*variables, *(loop.loop_var for loop in loops), *(b.data for b in loaded), *collect(
            (self.func.params, list(self.func.buffer_map.values())), Var)}
        scopes = {b.scope for b in loaded if b is not self.source}
        return given.issuperset(free_vars((store.value, store.indices))) and all(
            s == "global" or s.startswith("shared") for s in scopes)


def nest_of(stmt):
    """(the loops of a nest, outermost first, what is in them), without opaque blocks that say no more."""
    loops = []
    while isinstance(stmt, For) or _says_nothing(stmt):
        if isinstance(stmt, For):
            loops.append(stmt)
        stmt = stmt.body if isinstance(stmt, For) else stmt.block.body
    return loops, stmt


def _says_nothing(stmt):
    """Whether a statement is a block that is as its body."""
    block = stmt.block if isinstance(stmt, BlockRealize) and is_const_int(stmt.predicate, 1) else None
    return block is not None and block.init is None and not (
        block.iter_vars or block.alloc_buffers or block.match_buffers or block.annotations)


def around(loops, stmt):
    """Loops around a statement."""
    for loop in reversed(loops):
        stmt = loop.replace(body=stmt)
    return stmt


def is_plain(nest):
    """Whether a nest is of serial loops of constant extents, and around a store."""
    loops, store = nest
    return bool(loops) and isinstance(store, BufferStore) and all(
        loop.kind == "serial" and isinstance(loop.extent, IntImm) and is_const_int(loop.min, 0) for loop in loops)


# ---------------------------------------------------------------- global and shared memory

def by_target(nest, copy):
    """A[f(i, j)] = B[i, j] is A[i, j] = B[g(i, j)] where f has an inverse g: then neighbours write neighbours."""
    loops, store = nest
    region = next(r for r in copy.block.writes if r.buffer is copy.target).region
    an = Analyzer()
    places = [an.simplify(i - r.min) for i, r in zip(store.indices, region)]
    moving = [n for n, place in enumerate(places) if not is_const_int(place, 0)]
    ranges = {loop.loop_var: Range(loop.min, loop.extent) for loop in loops}
    found = detect_iter_map([places[n] for n in moving], ranges, True, IterMapLevel.Bijective)
    box = affine_domains([places[n] for n in moving], ranges)
    if found.errors or len(moving) != len(loops) or not box or not all(
            is_const_int(r.min, 0) and isinstance(r.extent, IntImm) for r in box.domains):
        return nest
    new = [Var(f"{loop.loop_var.name}_inverse", loop.loop_var.dtype) for loop in loops]
    back = inverse_affine_iter_map(found.indices, new)
    indices = [r.min for r in region]
    for v, n in zip(new, moving):
        indices[n] = region[n].min + v
    store = store.replace(value=substitute(store.value, back), indices=tuple(indices))
    return [For(v, const(0, v.dtype), const(r.extent.value, v.dtype), "serial", store)
            for v, r in zip(new, box.domains)], store


def fused(loops, stmt):
    """(variable, extent, statement) of the one loop that loops around a statement are."""
    names = [loop.loop_var.name for loop in loops]
    var, total = Var("_".join([*names, "fused"]), loops[0].loop_var.dtype), 1
    values, rest = {}, var
    for loop in reversed(loops):
        values[loop.loop_var] = rest % loop.extent
        rest = rest // loop.extent
        total *= loop.extent.value
    return var, total, substitute(stmt, values)


def coalesced(nest, copy):
    """All loops are one, of which neighbouring threads run neighbouring iterations, each several as a vector."""
    var, total, store = fused(*nest)
    axes = [axis for axis in reversed(AXES) if axis in copy.threads]
    inner = [*(copy.threads[axis] for axis in axes), copy.vector]
    size = 1
    for factor in inner:
        size *= factor
    factors = [-(-total // size), *inner]
    new = [Var(f"{var.name}_{n}", var.dtype) for n in range(len(factors))]
    an, value = Analyzer(), None
    for v, factor in zip(new, factors):
        an.bind(v, Range(const(0, v.dtype), const(factor, v.dtype)))
        value = v if value is None else value * factor + v
    guard = LT(value, const(total, value.dtype))
    body = substitute(store, {var: value})
    body = body if an.can_prove(guard) else IfThenElse(guard, body)
    kinds = ["serial", *["thread_binding"] * len(axes), "vectorized"]
    loops = [For(v, const(0, v.dtype), const(factor, v.dtype), kind, body, axis)
             for v, factor, kind, axis in zip(new, factors, kinds, [None, *axes, None])]
    return loops, body


__all__ = ["Copy", "around", "by_target", "coalesced", "is_plain", "nest_of"]
