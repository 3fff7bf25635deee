"""What rules for sums of products on GPUs share: what they match, sums in parts, results as matrices."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ....arith import Analyzer
from ....expr import Var, const, is_const_int
from ....node import collect
from ....tir.index_map import IndexMap
from ....tir.stmt import BufferLoad
from ...blocks import uses
from ...contraction_form import Axis, contraction_form, joined
from ...plan import Kernel
from ..blocks import SYMBOLIC, blocks, iter_vars
from ..registers import anchored

THREADS_OF_SUMS = 256  # a block of those that add parts up


@dataclass(frozen=True)
class Product(Kernel):
    """A product of rows and columns with sums of `depth` terms, so many of it; SYMBOLIC for sizes that are not known.
    can_part: whether sums may be made in parts."""

    rows: int
    columns: int
    depth: int
    batch: int = 1
    can_part: bool = True

    def parts(self, tile, sms, least):
        """In how many parts of equal length, of so many terms at least, sums may be made: several where whole ones
        leave SMs without a block."""
        blocks = -(-self.rows // tile.rows) * -(-self.columns // tile.columns) * self.batch
        if not self.can_part or self.depth >= SYMBOLIC or blocks >= sms:
            return (1,)
        return tuple(p for p in (1, 2, 3, 4, 6, 8, 12, 16)
                     if p == 1 or self.depth % p == 0 and self.depth // p >= least)


def matched(sch, fits):
    """(the name of a block that fits, a product, the block that reads it, the fields of Product); None where a function
    is something else, or has more."""
    found = anchored(sch, fits)
    if found is None:
        return None
    anchor, epilogue = found
    block = sch.get(sch.get_block(anchor))
    alone = {b.name_hint for b in blocks(sch)} == {anchor, sch.get(epilogue).name_hint}
    if not alone or loops_of(sch, block, epilogue) is None:
        return None
    form, _ = contraction_form(block)
    sizes = {side: count(getattr(form, side)) for side in ("rows", "columns", "depth", "batch")}
    return anchor, epilogue, {**sizes, "can_part": all(a.is_static for a in form.depth)}


def count(axes):
    """How many points axes have together, SYMBOLIC for more and for what is not known."""
    return min(prod(axis.extent.value if axis.is_static else SYMBOLIC for axis in axes), SYMBOLIC)


def loops_of(sch, block, epilogue):
    """({iterator of a product's block: the loop of the epilogue that it is}, of those that it has; all loops of the
    epilogue); None where the epilogue reads the product in other ways than element by element."""
    out = sch.get(epilogue)
    loads = [load for load in collect(out.body, BufferLoad) if load.buffer is block.body.buffer]
    every = list(sch.get_loops(epilogue))
    loops, found = dict(zip((iv.var for iv in out.iter_vars), every)), {}
    for var, index in zip(block.body.indices, loads[0].indices):
        if not isinstance(var, Var):
            continue  # a dimension of one element
        if isinstance(index, Var) and index in loops:
            found[var] = loops.pop(index)
        elif not is_const_int(index, 0):
            return None
    same = all(len(load.indices) == len(loads[0].indices) and all(a is b or is_const_int(a, 0) and is_const_int(b, 0)
               for a, b in zip(load.indices, loads[0].indices)) for load in loads)
    return (found, every) if same else None


def lies_along_terms(copy, letter):
    """Whether what a copy reads lies in a row along the terms rather than along rows or columns."""
    loads = [load for load in collect(copy.body, BufferLoad) if load.indices]
    own = {iv.var for iv in copy.iter_vars if iv.var.name.startswith(f"v_{letter}")}
    return bool(loads) and not uses(loads[0].indices[-1], own)


def as_matrices(sch, form, found, every):
    """The IndexMap from the loops of an epilogue to batches, rows and columns."""
    initial = [Var(sch.get(loop).loop_var.name, sch.get(loop).loop_var.dtype) for loop in every]
    values = {var: initial[every.index(loop)] for var, loop in found.items()}
    values |= {axis.var: const(0, axis.var.dtype) for axis in form.axes if axis.var not in values}
    dtype = max((v.dtype for v in initial), key=lambda dtype: dtype.bits)
    sides = [Analyzer().simplify(joined(axes, values, dtype)) for axes in (form.rows, form.columns)]
    groups = {axis.var: axis for axis in form.batch if axis.part}
    within = {axis.var for axis in (*form.rows, *form.columns)} - set(groups)
    batch = []
    for loop, value in zip(every, initial):
        var = next((v for v, other in found.items() if other is loop), None)
        if var in groups:
            batch.append(groups[var].of(value))
        elif var not in within:
            batch.append(value)
    return IndexMap(tuple(initial), (*batch, *sides))


def in_parts(sch, anchor, parts):
    """Cut sums into parts: the block of these, and the one that writes them, a product of a batch of `parts`."""
    block = sch.get_block(anchor)
    sch.transform_block_layout(block, _with_terms_joined(sch.get(block)))
    *_, k = sch.get_loops(block)
    part, _ = sch.split(k, [parts, None])
    product = sch.rfactor(part, 0)
    sch.set_scope(product, 0, "global")  # two kernels hand them on, wherever the sums themselves lie
    return product, sch.cache_write(product, 0, "global")


def _with_terms_joined(block):
    """The IndexMap that makes one iterator of those of a reduction."""
    initial = {iv.var: Var(iv.var.name.removeprefix("v_"), iv.var.dtype) for iv in block.iter_vars}
    terms = iter_vars(block, "reduce")
    k = joined([Axis(iv.var, iv.dom.extent) for iv in terms], initial, terms[0].var.dtype)
    spatial = [initial[iv.var] for iv in iter_vars(block, "spatial")]
    return IndexMap(tuple(initial.values()), (*spatial, Analyzer().simplify(k)))


def add_up(sch, sums, epilogue):
    """Add the parts up where the epilogue needs them, an element a thread."""
    loops = sch.get_loops(epilogue)
    fused = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    several, threads = sch.split(fused, [None, THREADS_OF_SUMS])
    sch.compute_at(sums, threads, preserve_unit_loops=True)
    sch.set_scope(sums, 0, "local")
    sch.bind(several, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")
