"""rfactor: a reduction in two steps, so that a loop of it can run in parallel."""
from __future__ import annotations

from ...arith.pattern import conjuncts
from ...expr import IterVar, Range, Var, const, logical_and, substitute
from ...tir.buffer import decl_buffer
from ...tir.region import access_regions
from ...tir.stmt import Block, BlockRealize, BufferLoad, BufferStore, For, LetStmt, seq
from ..blocks import name_of, uses, why_not_reduction
from ..combiner import combiner_of, why_not_plain
from ..context import is_unit
from ..dependence import require_stage_pipeline
from ..independence import require_distinct, require_init_first
from ..legality import require_rectangular, require_still_legal
from ..nest import require_scope
from ..registry import INT, LOOP, BLOCK, Result, primitive
from ..index import blocks_below
from .storage import unaligned


@primitive(BLOCK, loop=LOOP, factor_axis=INT)
def rfactor(ctx, loop, factor_axis=0):
    """Reduce into one partial result per iteration of a reduction loop, then reduce those; returns the first block.

        for i, k: B[i] = B[i] + A[i, k], with init B[i] = 0
    becomes, with rfactor(k) after k was split into ko, ki and for ki,
        for i, ko, ki: B_rf[ki, i] = B_rf[ki, i] + A[i, ko * 4 + ki], with init B_rf[ki, i] = 0; with rfactor(k) of
        the whole reduction just B_rf[k, i] = A[i, k]
        for i, ki: B[i] = B[i] + B_rf[ki, i], with init B[i] = 0

    factor_axis: the dimension of B_rf that the loop's iterations number; negative counts from the end, -1 the last.

    Several results at once, such as argmax has, make a B_rf each; they are kept in variables before they are stored, and
    are of one shape. Requires a scope whose blocks read only what was written, sums and products that start from the
    neutral element, or choices by comparison (min, max, argmax), a loop that runs only reduce iterators of the one
    block under it, and a term in every iteration. The order of terms changes, so rounding may differ, and of terms that
    tie another may win.
    """
    block = _block_under(ctx, loop)
    scope = ctx.scope(block, "'loop'")
    require_scope(ctx, scope, loop)
    require_stage_pipeline(ctx, scope, "'loop'")
    why = why_not_reduction(ctx.index, scope, block)
    if why:
        ctx.refuse("'loop'", f"block {name_of(block)} is no reduction block: {why}", "", [block])
    combiner, why = combiner_of(block.block)
    why = why or why_not_plain(block.block)
    if why:
        ctx.refuse("'loop'", f"the terms of block {name_of(block)} cannot be regrouped: {why}", "", [block])
    chain = _chain(ctx, block, loop)
    require_distinct(ctx, chain[0], block, "'loop'")
    require_init_first(ctx, chain[0], block, "'loop'")
    axis = _axis(ctx, factor_axis, combiner.buffers[0])
    factored = _Factored(ctx, block, combiner, chain, loop, axis)
    changes = {chain[0]: seq(factored.partial_nest(), factored.final_nest())}
    func = ctx.index.rewrite(changes, {scope: scope.block.alloc_buffers + factored.buffers})
    after = ctx.with_func(func)
    for name in (factored.partial_name, name_of(block)):
        require_still_legal(after, after.index.blocks[name], "'loop'")
    return Result(func, (factored.partial_name,))


# ---------------------------------------------------------------- checks

def _block_under(ctx, loop):
    below = blocks_below(loop)
    if len(below) != 1:
        ctx.refuse("'loop'", f"loop {loop.loop_var.name} holds {len(below)} blocks", "one reduction block is needed",
                   [loop, *below])
    return below[0]


def _chain(ctx, block, loop):
    """The loops that hold nothing but the block, outermost first; refuses when they are not what rfactor can copy."""
    loops = ctx.index.loops_above(block)
    inner = block
    while loops and loops[-1].body is inner:
        inner = loops.pop()
    chain = ctx.index.loops_above(block)[len(loops):]
    if loop not in chain:
        ctx.refuse("'loop'", f"between loop {loop.loop_var.name} and block {name_of(block)} are other statements",
                   "choose an inner loop", [loop, block])
    reducing, writing = (_values(block, kind) for kind in ("reduce", "spatial"))
    for other in loops:
        if uses(reducing, {other.loop_var}):
            ctx.refuse("'loop'", f"loop {other.loop_var.name}, which runs the reduction, holds other statements too",
                       "the whole reduction must be one nest", [other, block])
    if not (uses(reducing, {loop.loop_var}) or is_unit(loop)) or uses(writing, {loop.loop_var}):
        ctx.refuse("'loop'", f"loop {loop.loop_var.name} does not run reduce iterators of block {name_of(block)} alone",
                   "choose a loop of the reduction", [loop, block])
    require_rectangular(ctx, "'loop'", chain)
    if loop.kind not in ("serial", "unrolled"):
        ctx.refuse("'loop'", f"loop {loop.loop_var.name} is {loop.kind}", "factor it first, then run it at once",
                   [loop])
    return chain


def _values(block, kind):
    return tuple(v for iv, v in zip(block.block.iter_vars, block.iter_values) if iv.iter_type == kind)


def _axis(ctx, factor_axis, buffer):
    rank = len(buffer.shape)
    axis = factor_axis + rank + 1 if factor_axis < 0 else factor_axis
    if not 0 <= axis <= rank:
        ctx.refuse("'factor_axis'", f"{factor_axis} is not between {-rank - 1} and {rank}",
                   f"buffer {buffer.name} has {rank} dimensions, the new one {rank + 1}")
    return axis


# ---------------------------------------------------------------- the two nests

class _Factored:
    """The partial results and the two blocks that make and combine them."""

    def __init__(self, ctx, block, combiner, chain, loop, axis):
        self.ctx, self.realize, self.combiner, self.chain, self.loop = ctx, block, combiner, chain, loop
        self.partial_name = ctx.new_block_name(name_of(block) + "_rf")
        self.axis = axis
        self.buffers = tuple(
            decl_buffer(self._at(loop.extent, b.shape), b.dtype, b.name + "_rf", b.scope,
                        data_alignment=b.data_alignment) for b in combiner.buffers)
        self.spatial_condition, self.term_conditions = self._conditions()

    def _conditions(self):
        """(the condition on spatial loops, those that mention a loop of the reduction)."""
        reducing = {s.loop_var for s in self.chain if uses(_values(self.realize, "reduce"), {s.loop_var})}
        common, terms = const(True), []
        for condition in conjuncts(self.realize.predicate):
            if uses(condition, reducing):
                terms.append(condition)
            else:
                common = logical_and(common, condition)
        if terms:
            self._require_a_term(reducing - {self.loop.loop_var}, common, terms)
        return common, terms

    def _require_a_term(self, other_loops, common, terms):
        """Refuse unless each iteration of the factored loop runs the instance that initialises its partial result."""
        analyzer = self.ctx.analyzer_at(self.realize)
        first = {s.loop_var: s.min for s in self.chain if s.loop_var in other_loops}
        with analyzer.constraint_scope(common):
            for condition in terms:
                if not analyzer.can_prove(substitute(condition, first)):
                    self.ctx.refuse("'loop'", f"some turns of loop {self.loop.loop_var.name} may have no term, because "
                                    f"block {name_of(self.realize)} runs only where {condition}",
                                    "choose factors so that every turn has one", [self.loop, self.realize])

    def _at(self, number, indices):
        return (*indices[:self.axis], number, *indices[self.axis:])

    def partial_nest(self):
        """The block that reduces into the partial results, under the old loops."""
        realize, loop = self.realize, self.loop
        number = IterVar(_from_zero(loop), Var("v" + loop.loop_var.name, loop.loop_var.dtype), "spatial")
        iters, values = [number], [_offset(loop, loop.loop_var)]
        made = {loop.loop_var: _back(loop, number.var)}
        known = {}
        for iv, value in zip(realize.block.iter_vars, realize.iter_values):
            if not uses(value, {loop.loop_var}):
                iters.append(iv)
                values.append(value)
                continue
            for other in self.chain:  # the iterator is taken apart: one for each loop that it runs
                if other is not loop and uses(value, {other.loop_var}) and other.loop_var not in made:
                    new = IterVar(Range(other.min, other.extent), Var("v" + other.loop_var.name, other.loop_var.dtype),
                                  "reduce")
                    iters.append(new)
                    values.append(other.loop_var)
                    made[other.loop_var] = new.var
            known[iv.var] = substitute(value, made)
        order = [r.buffer for r in realize.block.reads]
        block = self._block(self.partial_name, tuple(iters), self.buffers, self._at(number.var, self.combiner.indices),
                            substitute(self.combiner.terms, known), unaligned(realize.block.annotations), order)
        nest = BlockRealize(tuple(values), realize.predicate, block)
        for outer in reversed(self.chain):
            nest = outer.replace(body=nest)
        return nest

    def final_nest(self):
        """The block that combines the partial results, under copies of the spatial loops and the factored one."""
        realize, loop = self.realize, self.loop
        spatial = [(iv, v) for iv, v in zip(realize.block.iter_vars, realize.iter_values) if iv.iter_type == "spatial"]
        reducing = _values(realize, "reduce")
        kept = [s for s in self.chain if s is loop or not uses(reducing, {s.loop_var})]
        copies = {s.loop_var: Var(s.loop_var.name, s.loop_var.dtype) for s in kept}
        fresh = {iv.var: Var(iv.var.name, iv.var.dtype) for iv, _ in spatial}
        number = IterVar(_from_zero(loop), Var("v" + loop.loop_var.name, loop.loop_var.dtype), "reduce")
        indices = substitute(self.combiner.indices, fresh)
        terms = tuple(BufferLoad(b, self._at(number.var, indices)) for b in self.buffers)
        iters = (number, *(iv.replace(var=fresh[iv.var]) for iv, _ in spatial))
        block = self._block(name_of(realize), iters, self.combiner.buffers, indices, terms,
                            realize.block.annotations, self.buffers)
        values = (_offset(loop, copies[loop.loop_var]), *(substitute(v, copies) for _, v in spatial))
        nest = BlockRealize(values, substitute(self.spatial_condition, copies), block)
        for s in reversed(kept):
            nest = For(copies[s.loop_var], s.min, s.extent, s.kind, nest, s.thread_binding, dict(s.annotations))
        return nest

    def _block(self, name, iters, buffers, indices, terms, annotations, order):
        """A block that reduces `terms` into `buffers`, or stores them where no iterator reduces: what starts a
        reduction joins in once, in the block that ends it. It reads buffers in `order`."""
        reduces = any(iv.iter_type == "reduce" for iv in iters)
        init = seq(*(BufferStore(b, value, indices) for b, value in zip(buffers, self.combiner.inits)))
        if reduces:
            terms = self.combiner.joined([BufferLoad(b, indices) for b in buffers], terms)
        body = _stored(buffers, indices, terms)
        reads, writes = access_regions(body)
        place = {buffer: n for n, buffer in enumerate(order)}
        reads = sorted((r for r in reads if r.buffer not in buffers), key=lambda r: place.get(r.buffer, len(place)))
        return Block(iters, tuple(reads), writes, name, (), (), dict(annotations), init if reduces else None, body)


def _stored(buffers, indices, results):
    """Stores of results; several are all known before the first is stored."""
    if len(results) == 1:
        return BufferStore(buffers[0], results[0], indices)
    kept = [Var("v_" + b.name, b.dtype) for b in buffers]
    body = seq(*(BufferStore(b, v, indices) for b, v in zip(buffers, kept)))
    for v, result in reversed(list(zip(kept, results))):
        body = LetStmt(v, result, body)
    return body


def _from_zero(loop):
    return Range(const(0, loop.loop_var.dtype), loop.extent)


def _offset(loop, value):
    return value if getattr(loop.min, "value", None) == 0 else value - loop.min


def _back(loop, value):
    return value if getattr(loop.min, "value", None) == 0 else value + loop.min
