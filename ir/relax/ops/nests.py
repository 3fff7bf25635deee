"""Nests of loops around blocks, for kernels written as TensorIR: what tensor expressions cannot say."""
from __future__ import annotations

from ... import tir
from ...expr import IntImm, IterVar, Range, Var, as_expr, const
from ...tir.region import access_regions


def store(buffer, value, indices):
    """buffer[indices] = value, with Python ints allowed among the indices."""
    return tir.BufferStore(buffer, value, tuple(as_expr(i) for i in indices))


def nest(name, axes, make, init=None, reduces=False):
    """Loops over axes {label: extent}, outermost first, around one block `name` whose body is make(*block variables).

    With `init`, which makes the statement before the first iteration, the last axis is reduced; with `reduces` it is
    into what is there.
    """
    kinds = ["spatial"] * (len(axes) - 1) + ["reduce" if init or reduces else "spatial"]
    iters = [axis(label, as_expr(extent), kind) for (label, extent), kind in zip(axes.items(), kinds)]
    variables = [iv.var for iv in iters]
    body, first = make(*variables), init(*variables[:-1]) if init else None
    reads, writes = access_regions(tir.seq(first, body) if init else body)
    if init:
        reads = tuple(r for r in reads if r.buffer is not writes[0].buffer)
    return _realize(tir.Block(tuple(iters), reads, writes, name, (), (), {}, first, body))


def nest_of_nests(name, iters, body, allocs):
    """Loops over the iteration variables `iters` around one block `name` of several nests with buffers `allocs`."""
    reads, writes = access_regions(body)
    allocated = {id(b) for b in allocs}
    reads, writes = (tuple(r for r in regions if id(r.buffer) not in allocated) for regions in (reads, writes))
    return _realize(tir.Block(tuple(iters), reads, writes, name, tuple(allocs), (), {}, None, body))


def axis(label, extent, kind):
    """An iteration variable v_label from 0 to `extent`, an expression."""
    return IterVar(Range(const(0, extent.dtype), extent), Var("v_" + label, extent.dtype), kind)


def _realize(block):
    """A block in its loops."""
    loops = tuple(Var(iv.var.name.removeprefix("v_"), iv.var.dtype) for iv in block.iter_vars)
    stmt = tir.BlockRealize(loops, const(True), block)
    for loop, iv in reversed(list(zip(loops, block.iter_vars))):
        stmt = tir.for_(loop, iv.dom.extent, stmt)
    return stmt


def size_of(dim):
    """A dimension: a number, or what stands for it."""
    return dim.value if isinstance(dim, IntImm) else dim
