"""The loops and blocks that descriptions and implementations of intrinsics are made of."""
from __future__ import annotations

from ...expr import IterVar, Range, Var, const
from ...tir.function import prim_func
from ...tir.region import full_region
from ...tir.stmt import Block, BlockRealize, Evaluate, Stmt, for_

_KINDS = {"S": "spatial", "R": "reduce"}


def nest(extents, kinds, name, body):
    """Loops around a block, one iterator a loop; body(iterators) -> (reads, writes, statement), of elements."""
    loops = [Var(letter, "int32") for letter, _ in zip("ijk", kinds)]
    iters = [Var(f"v{letter}", "int32") for letter, _ in zip("ijk", kinds)]
    reads, writes, stmt = body(*iters)
    ivs = tuple(IterVar(Range(const(0), const(e)), v, _KINDS[k]) for v, k, e in zip(iters, kinds, extents))
    block = Block(ivs, tuple(reads), tuple(writes), name, (), (), {}, None, stmt)
    nested = BlockRealize(tuple(loops), const(True), block)
    for v, extent in reversed(list(zip(loops, extents))):
        nested = for_(v, extent, nested)
    return nested


def point(load):
    """The region of one element."""
    return load.buffer[tuple(Range.from_min_extent(i, const(1)) for i in load.indices)]


def implementation(params, reads, writes, body):
    """The function of a statement, or of a call, in a root block that says what it reads and writes."""
    body = body if isinstance(body, Stmt) else Evaluate(body)
    block = Block((), tuple(map(full_region, reads)), tuple(map(full_region, writes)), "root", (), (), {}, None, body)
    return prim_func(params, Evaluate(const(0))).replace(body=BlockRealize((), const(True), block))


described = implementation  # of descriptions, whose root block says the same
