"""rolling_buffer: keep what neighbouring iterations of a loop share, instead of computing it again."""
from __future__ import annotations

from dataclasses import dataclass

from ...expr import LE, FloorDiv, IntImm, IterVar, PrimExpr, Range, const, is_const_int, logical_and, logical_or
from ...node import Mutator
from ...tir.stmt import For
from ..blocks import IN_ORDER, name_of, require_pure, uses
from ..context import analyzer_of
from ..dependence import common_loops, incomplete_input
from ..regions import written_box
from ..registry import BLOCK, BUFFER, Result, primitive
from ..signature import choose, is_leaf


@primitive(None, block=BLOCK, write_buffer_index=BUFFER)
def rolling_buffer(ctx, block, write_buffer_index):
    """Fold the buffer that a block writes into a circular one, and compute each element once.

        for i in range(8):
            for r in range(3): B[i + r] = f(i + r)
            C[i] = B[i] + B[i + 1] + B[i + 2]
    becomes
        for i in range(8):
            for r in range(3): B[(i + r) % 3] = f(i + r) where i < 1 or 2 <= r
            C[i] = B[i % 3] + B[(i + 1) % 3] + B[(i + 2) % 3]

    The dimension of the outermost loop whose neighbouring iterations overlap is folded to what one iteration writes;
    elements that an earlier iteration left, along this or another such dimension, are not computed again. The iterators
    that the outermost loop runs, of the block and of its readers, become T.axis.opaque: from now on the iterations must
    keep their order.

    Requires a complete or reduction block that alone writes the buffer, a buffer that the function allocates, readers
    in the same serial loops that read what the iteration has written, and in a dimension a window of constant size that
    moves by less than its size each iteration.
    """
    scope = ctx.scope(block, "'block'")
    require_pure(ctx, scope, block, "'block'", IN_ORDER)  # it may read what is rolled already
    buffer = choose(ctx, block, write_buffer_index, "writes", "'write_buffer_index'")
    if ctx.index.owner(buffer) is not scope:
        ctx.refuse("'write_buffer_index'", f"buffer {buffer.name} is no intermediate buffer of the block's scope",
                   "only buffers that the function allocates around the block can be folded", [block])
    loops, readers = _shared_loops(ctx, scope, block, buffer)
    windows = _windows(ctx, block, buffer, loops)
    folded = windows[0]
    new = buffer.replace(shape=tuple(folded.size if d == folded.dim else e for d, e in enumerate(buffer.shape)))
    fold = _Fold(buffer, new, folded).visit
    changes = {b: _in_order(b.replace(block=fold(b.block)), folded.loop) for b in (*readers, block)}
    changes[block] = _once(changes[block], windows)
    allocs = tuple(new if b is buffer else b for b in scope.block.alloc_buffers)
    return Result(ctx.index.rewrite(changes, {scope: allocs}))


def _shared_loops(ctx, scope, block, buffer):
    """(the loops around the block and all readers of the buffer, the readers)."""
    readers, name = [r for r in ctx.index.readers(buffer, scope) if r is not block], name_of(block)
    if not readers:
        ctx.refuse("'write_buffer_index'", f"nothing reads {buffer.name}", "roll what a consumer reads", [block])
    loops = ctx.index.loops_above(block)
    for reader in readers:
        loops = [s for s in loops if s in common_loops(ctx.index, block, reader)]
        if not loops:
            ctx.refuse("'block'", f"block {name} shares no loop with block {name_of(reader)}, which reads "
                       f"{buffer.name}", "compute_at it under a loop of its consumers first", [block, reader])
    for reader in readers:
        if len(common_loops(ctx.index, block, reader)) > len(loops):
            ctx.refuse("'block'", f"the readers of {buffer.name} stand in different loops around block {name}",
                       "move them into the same loops first", [block, *readers])
        why = incomplete_input(ctx.index, scope, reader, buffer, IN_ORDER)
        if why:
            ctx.refuse("'block'", why[0], "compute_at the block under a loop of its consumers first", [block, reader])
        if not is_leaf(reader.block, buffer):
            ctx.refuse("'block'", f"block {name_of(reader)} holds other blocks, matched buffers or pointers",
                       "roll first, then make it of others", [reader])
    if not is_leaf(block.block, buffer):
        ctx.refuse("'block'", f"block {name} holds other blocks, matched buffers or pointers",
                   "roll first, then make it of others", [block])
    return loops, readers


@dataclass(frozen=True)
class _Window:
    """A dimension of which each iteration of `loop` writes `size` elements, `overlap` of them like the iteration
    before.

    iv: the block's iterator that numbers them; place: which of the iteration's elements an instance writes, from 0.
    """

    dim: int
    iv: IterVar
    place: PrimExpr
    size: IntImm
    overlap: int
    loop: For


def _windows(ctx, block, buffer, loops):
    """The dimensions whose neighbouring iterations overlap, that of the outermost loop first."""
    name, analyzer = name_of(block), analyzer_of(loops)
    inner = ctx.index.loops_above(block)[len(loops):]
    region = next(r.region for r in block.block.writes if r.buffer is buffer)
    box = written_box(analyzer, block, buffer, inner)
    if box is None:
        ctx.refuse("'block'", f"what one turn of loop {loops[-1].loop_var.name} writes of {buffer.name} is not known "
                   "to be a box", "it must write a point at plain sums of its loops", [block])
    bound = {iv.var: (iv, value) for iv, value in zip(block.block.iter_vars, block.iter_values)}
    found = []
    for dim, (point, (window, _)) in enumerate(zip(region, box)):
        loop, step = _step(analyzer, window.min, loops)
        size = window.extent.value if isinstance(window.extent, IntImm) else 0
        alone = loop is not None and not any(uses(w.min, {loop.loop_var}) for d, (w, _) in enumerate(box) if d != dim)
        if alone and point.min in bound and 0 < step < size:
            _require_serial(ctx, block, loops, loop)
            iv, value = bound[point.min]
            place = ctx.analyzer_at(block).simplify(value - window.min)
            found.append(_Window(dim, iv, place, const(size, value.dtype), size - step, loop))
    if not found:
        ctx.refuse("'block'", f"no dimension of {buffer.name} has a window that overlaps with the next turn's: block "
                   f"{name} writes [{', '.join(f'{w.min} : {w.min + w.extent}' for w, _ in box)}] in each turn",
                   "its consumers must read overlapping regions, one plain step of a loop apart", [block])
    found.sort(key=lambda w: loops.index(w.loop))
    return found


def _step(analyzer, start, loops):
    """(the only one of `loops` that `start` depends on, the most that it grows in one turn); (None, 0) for others."""
    moving = [loop for loop in loops if uses(start, {loop.loop_var})]
    if len(moving) != 1 or not is_const_int(moving[0].min, 0):
        return None, 0
    divisor = 1
    if isinstance(start, FloorDiv) and isinstance(start.b, IntImm) and start.b.value > 0:
        start, divisor = start.a, start.b.value
    form = analyzer.canonical.linear(start)
    if len(form.terms) != 1 or any(atom.expr is not moving[0].loop_var for atom in form.terms):
        return None, 0
    return moving[0], -(-next(iter(form.terms.values())) // divisor)


def _require_serial(ctx, block, loops, outermost):
    """Refuse when one of the loops from the rolled one on, or one around it, does not run in order."""
    for loop in loops:
        if loop.kind not in ("serial", "unrolled"):
            ctx.refuse("'block'", f"loop {loop.loop_var.name} is {loop.kind}, but a turn would use what the turns of "
                       f"loop {outermost.loop_var.name} before it have left", "roll over serial loops only",
                       [loop, block])


# ---------------------------------------------------------------- rewriting

class _Fold(Mutator):
    """Accesses of the old buffer become accesses of the new one, the folded index modulo its size."""

    def __init__(self, old, new, window):
        self.old, self.new, self.dim, self.size = old, new, window.dim, window.size

    def _at(self, indices):
        return tuple(i % self.size if d == self.dim else i for d, i in enumerate(indices))

    def _access(self, access):
        access = self.generic_visit(access)
        if access.buffer is not self.old:
            return access
        return access.replace(buffer=self.new, indices=self._at(access.indices))

    visit_BufferLoad = visit_BufferStore = _access

    def visit_BufferRegion(self, region):
        if region.buffer is not self.old:
            return region
        ranges = list(region.region)
        part = ranges[self.dim]
        ranges[self.dim] = (Range(part.min % self.size, part.extent) if is_const_int(part.extent, 1)
                            else Range(const(0, part.min.dtype), self.size))
        return region.replace(buffer=self.new, region=tuple(ranges))


def _once(block, windows):
    """The block, where no earlier iteration has computed the same."""
    predicate = block.predicate
    for w in windows:
        fresh = logical_or(w.loop.loop_var < 1, LE(const(w.overlap, w.place.dtype), w.place))
        predicate = logical_and(predicate, fresh)
    return block.replace(predicate=predicate)


def _in_order(block, loop):
    """The block, whose iterators that a loop runs are opaque; those of a reduction, which keep their order, stay."""
    iters = tuple(iv.replace(iter_type="opaque") if iv.iter_type == "spatial" and uses(value, {loop.loop_var}) else iv
                  for iv, value in zip(block.block.iter_vars, block.iter_values))
    return block.replace(block=block.block.replace(iter_vars=iters))
