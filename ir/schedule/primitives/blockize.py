"""blockize: make a nest of loops, or blocks side by side, one block."""
from __future__ import annotations

from ...arith import Analyzer, affine_domains, eval_range
from ...arith.pattern import conjuncts
from ...expr import IterVar, Range, Var, const, is_const_int, logical_and, substitute
from ...node import collect
from ...tir.region import access_regions
from ...tir.stmt import Block, BlockRealize, For, SeqStmt, seq
from ..blocks import buffers_of, name_of, only_clips, uses, why_not_reduction
from ..context import analyzer_of, is_unit, ranges_of
from ..independence import require_distinct
from ..index import blocks_below
from ..nest import body_of, children_of
from ..legality import require_rectangular, require_still_legal
from ..nest import require_scope
from ..registry import BLOCK, BOOL, TARGET, Result, primitive
from ..signature import by_name, domain_analyzer


@primitive(BLOCK, target=TARGET, preserve_unit_iters=BOOL)
def blockize(ctx, target, preserve_unit_iters=True):
    """Make the loop nest under a loop, or a list of neighbouring blocks, one block; returns it.

        for i_0, i_1 in grid(n, 16): block C at v = i_0 * 16 + i_1: C[v] = f(v)
    becomes, with blockize(i_1),
        for i_0: block C_o at v_o = i_0, which writes C[v_o * 16 : v_o * 16 + 16]:
            for i_1: block C at v_i = i_1: C[v_o * 16 + v_i] = f(v_o * 16 + v_i)

    The init of a reduction becomes a nest of its own, C_init, that is the new block's init. Neighbouring blocks become
    blockized_<names>, with one iterator for each loop around them. preserve_unit_iters=False: what one value alone
    gives an iterator is written as 0 in the bindings of the new block and in the body; around neighbouring blocks it
    leaves out iterators of one value.

    Requires that each iterator is outer * extent + inner, the inner part running from 0 over a fixed range.
    """
    if isinstance(target, tuple):
        return _group(ctx, target, preserve_unit_iters)
    return nest_to_block(ctx, target, preserve_unit_iters, "'target'")


def nest_to_block(ctx, loop, preserve_unit_iters, argument):
    """The Result of making the nest under a loop a block."""
    division = divided(ctx, loop, preserve_unit_iters, argument)
    scope = ctx.scope(division.realize, argument)
    require_scope(ctx, scope, loop, argument)
    if division.block.init is not None:
        why = why_not_reduction(ctx.index, scope, division.realize)
        if why:
            ctx.refuse(argument, f"block {name_of(division.realize)} has an init but is no reduction block: {why}", "",
                       [division.realize])
        require_distinct(ctx, loop, division.realize, argument)
    func = ctx.index.rewrite({loop: division.outer()})
    after = ctx.with_func(func)
    require_still_legal(after, after.index.blocks[division.name], argument)
    return Result(func, (division.name,))


def divided(ctx, loop, preserve_unit_iters=True, argument="'target'"):
    """The Division of the only block under a loop."""
    return Division(ctx, loop, _only_block(ctx, loop, argument), preserve_unit_iters, argument)


def _only_block(ctx, loop, argument):
    stmt = loop
    while isinstance(stmt, For):
        stmt = stmt.body
    if not isinstance(stmt, BlockRealize):
        found = ", ".join(map(name_of, blocks_below(loop))) or "no block"
        ctx.refuse(argument, f"loop {loop.loop_var.name} holds more than a nest around one block: {found}",
                   "give a list of blocks to make them one", [loop])
    return stmt


class Division:
    """A block's iterators as outer * extent + inner, for the loops outside and inside the new block."""

    def __init__(self, ctx, loop, block, preserve_unit_iters, argument):
        self.argument = argument
        self.ctx, self.loop, self.realize, self.block = ctx, loop, block, block.block
        self.name = ctx.new_block_name(name_of(block) + "_o")
        above, all_loops = ctx.index.loops_above(loop), ctx.index.loops_above(block)
        self.outside, self.inside = above, all_loops[len(above):]
        self.analyzer = analyzer_of(all_loops)
        self.by_name = analyzer_of([s for s in all_loops if not is_unit(s)]) if preserve_unit_iters else self.analyzer
        self.outer_iters, self.inner_iters = [], []  # (IterVar, value)
        self.values = {}  # iterator -> its expression over the new iterators
        self.at_loops = {}  # iterator -> the same, over the new block's iterators and the inner loops
        extents = self._extents()
        for iv, value, (rest, extent) in zip(self.block.iter_vars, block.iter_values, extents):
            self._divide(iv, value, rest, extent, preserve_unit_iters)
        self.clips = domain_analyzer(Block(tuple(iv for iv, _ in self.outer_iters)))
        for s in self.inside:
            self.clips.bind(s.loop_var, Range(s.min, s.extent), allow_override=True)

    def _extents(self):
        """(inner part, its extent) of each iterator."""
        to_min = {s.loop_var: s.min for s in self.outside}
        lowest = {s.loop_var: s.min for s in self.inside}
        require_rectangular(self.ctx, self.argument, self.inside, self.outside)
        parts = []
        for iv, value in zip(self.block.iter_vars, self.realize.iter_values):
            inner, outer = substitute(value, to_min), substitute(value, lowest)
            rest = self.analyzer.simplify(inner - substitute(inner, lowest))
            if not self.analyzer.can_prove_equal(outer + rest, value):
                self._refuse(f"iterator {iv.var.name} of block {name_of(self.realize)} is no sum of a part that runs "
                             f"outside loop {self.loop.loop_var.name} and one that runs inside", [self.loop])
            parts.append(rest)
        found = affine_domains(parts, ranges_of(self.inside), None, analyzer_of(self.outside), bijective=False)
        if not found or not all(is_const_int(r.min, 0) for r in found.domains):
            self._refuse(f"the loops from {self.loop.loop_var.name} inward are not proved to run block "
                         f"{name_of(self.realize)} over a box: {found.reason or 'it does not start at 0'}", [self.loop])
        return [(rest, r.extent) for rest, r in zip(parts, found.domains)]

    def _divide(self, iv, value, rest, extent, preserve):
        an, dtype = self.analyzer, iv.var.dtype
        outer = self.by_name.simplify(substitute(value, {s.loop_var: s.min for s in self.inside}))
        base = iv.dom.min
        if not uses(outer, {s.loop_var for s in self.outside}):
            base, number = outer, const(0, dtype)
        else:
            number = self._multiple(outer - base, extent)
            if number is None:
                self._refuse(f"the part of iterator {iv.var.name} that runs outside loop {self.loop.loop_var.name} is "
                             f"not proved to be a multiple of {extent}", [self.loop])
        high = eval_range(number, ranges_of(self.outside), an)
        if high is None:
            self._refuse(f"the range of iterator {iv.var.name} outside loop {self.loop.loop_var.name} is not known",
                         [self.loop])
        dom = Range(const(0, dtype), an.simplify(high[1] + 1))
        at = base
        outside = IterVar(dom, Var(iv.var.name + "_o", dtype), iv.iter_type)
        self.outer_iters.append((outside, number))
        if not is_const_int(dom.extent, 1) or (preserve and is_const_int(extent, 1)):
            at = outside.var * extent + base
        at_loops = at
        if not is_const_int(extent, 1):
            new = IterVar(Range(const(0, dtype), extent), Var(iv.var.name + "_i", dtype), iv.iter_type)
            self.inner_iters.append((new, rest))
            at, at_loops = at + new.var, at + rest
        self.values[iv.var], self.at_loops[iv.var] = at, at_loops

    def _multiple(self, offset, extent):
        """x for an offset x * extent, loops of one turn by their names where that is so; None for other offsets."""
        for an in (self.by_name, self.analyzer):
            number = an.simplify(offset // extent)
            if an.can_prove_equal(number * extent, offset):
                return number
        return None

    def _refuse(self, reason, at):
        self.ctx.refuse(self.argument, reason, "split the loops so that the iterators divide", [*at, self.realize])

    # ------------------------------------------------------------ conditions

    def _conditions(self):
        """(conditions on the loops outside alone, [(whether it mentions the reduction, condition inside)])."""
        inside = {s.loop_var for s in self.inside}
        reducing = tuple(value for iv, value in zip(self.block.iter_vars, self.realize.iter_values)
                         if iv.iter_type != "spatial")
        reduce_loops = {s.loop_var for s in (*self.outside, *self.inside) if uses(reducing, {s.loop_var})}
        outside, within = const(True), []
        for condition in conjuncts(self.realize.predicate):
            if uses(condition, inside):
                within.append((uses(condition, reduce_loops), self._moved_in(condition)))
            else:
                outside = logical_and(outside, condition)
        return outside, within

    def _moved_in(self, condition):
        """A condition that keeps an iterator in its domain, in terms of the new block's iterators."""
        for iv, value in zip(self.block.iter_vars, self.realize.iter_values):
            alone = self.block.replace(iter_vars=(iv,))
            if only_clips(self.analyzer, BlockRealize((value,), condition, alone)):
                now, dom = self.at_loops[iv.var], iv.dom
                return logical_and(self.clips.simplify(now >= dom.min), self.clips.simplify(now < dom.min + dom.extent))
        return self._refuse(f"block {name_of(self.realize)} runs only where {condition}, which ties the loops outside "
                            "to those inside", [self.loop])

    # ------------------------------------------------------------ the new statements

    def outer(self):
        """The new block's realize."""
        outside, within = self._conditions()
        inner = self._inner(within)
        init = self._init(within) if self.block.init is not None else None
        iters = tuple(iv for iv, _ in self.outer_iters)
        block = Block(iters, (), (), self.name, (), (), {}, init, inner)
        reads, writes = access_regions(inner, analyzer=by_name(block))
        if init is not None:
            reads = tuple(r for r in reads if r.buffer not in buffers_of(writes))
        block = block.replace(reads=reads, writes=writes)
        return BlockRealize(tuple(v for _, v in self.outer_iters), outside, block)

    def _inner(self, within):
        analyzer = domain_analyzer(Block(tuple(iv for iv, _ in (*self.outer_iters, *self.inner_iters))))
        values = {v: analyzer.simplify(e) for v, e in self.values.items()}
        block = substitute(self.block.replace(iter_vars=()), values)
        if block.init is not None:
            own = buffers_of(block.writes)
            block = block.replace(init=None, reads=block.writes + tuple(r for r in block.reads if r.buffer not in own))
        predicate = const(True)
        for _, condition in within:
            predicate = logical_and(predicate, condition)
        block = block.replace(iter_vars=tuple(iv for iv, _ in self.inner_iters))
        nest = BlockRealize(tuple(v for _, v in self.inner_iters), predicate, block)
        for s in reversed(self.inside):
            nest = s.replace(body=nest)
        return nest

    def _init(self, within):
        """The init as a nest over copies of the loops inside that run spatial iterators."""
        spatial = [(iv, v) for iv, v in self.inner_iters if iv.iter_type == "spatial"]
        kept = [s for s in self.inside if any(uses(v, {s.loop_var}) for _, v in spatial)]
        copies = {s.loop_var: Var(s.loop_var.name + "_init", s.loop_var.dtype) for s in kept}
        fresh = {iv.var: Var(iv.var.name + "_init", iv.var.dtype) for iv, _ in spatial}
        predicate = const(True)
        for of_reduction, condition in within:
            if of_reduction and uses(condition, copies.keys()):
                self._refuse(f"the condition {condition} ties a loop of the reduction to a spatial one", [self.loop])
            if not of_reduction:
                predicate = logical_and(predicate, substitute(condition, copies))
        values = {iv.var: substitute(self.values[iv.var], fresh) for iv in self.block.iter_vars
                  if iv.iter_type == "spatial"}
        iters = tuple(iv.replace(var=fresh[iv.var]) for iv, _ in spatial)
        store = substitute(self.block.init, values)
        block = Block(iters, access_regions(store)[0], substitute(self.block.writes, values), self.ctx.new_block_name(
            name_of(self.realize) + "_init"), (), (), dict(self.block.annotations), None, store)
        nest = BlockRealize(tuple(substitute(v, copies) for _, v in spatial), predicate, block)
        for s in reversed(kept):
            nest = For(copies[s.loop_var], s.min, s.extent, s.kind, nest, s.thread_binding, dict(s.annotations))
        return nest


# ---------------------------------------------------------------- neighbouring blocks

def _group(ctx, blocks, preserve_unit_iters):
    """Make blocks, with the loops that hold only them, one block under the loops that they share."""
    if not blocks:
        ctx.refuse("'target'", "the list of blocks is empty", "give at least one block")
    scope = ctx.scope(blocks[0], "'target'")
    if any(ctx.scope(b, "'target'") is not scope for b in blocks):
        ctx.refuse("'target'", "the blocks are in different blocks", "give blocks of one scope", blocks)
    loops = ctx.index.loops_above(blocks[0])
    for other in blocks[1:]:
        theirs = ctx.index.loops_above(other)
        loops = [a for a, b in zip(loops, theirs) if a is b]
    parent = loops[-1] if loops else scope
    first, last, children = _members(ctx, parent, blocks)
    inner = seq(*children[first:last + 1])
    iters, values, renamed = _loop_iterators(ctx, blocks, loops, preserve_unit_iters)
    inner = _rebound(ctx, inner, renamed, blocks)
    name = ctx.new_block_name("_".join(["blockized", *map(name_of, blocks)]))
    block = Block(tuple(iters), (), (), name, (), (), {}, None, inner)
    reads, writes = access_regions(inner, analyzer=by_name(block))
    realize = BlockRealize(tuple(values), const(True), block.replace(reads=reads, writes=writes))
    func = ctx.index.rewrite({body_of(parent): seq(*children[:first], realize, *children[last + 1:])})
    after = ctx.with_func(func)
    require_still_legal(after, after.index.blocks[name], "'target'")
    return Result(func, (name,))


def _members(ctx, parent, blocks):
    """(first, last, statements) of the parent's body that hold the blocks and nothing else."""
    children = children_of(parent)
    holding = [i for i, child in enumerate(children) if any(b in blocks for b in blocks_below(child))]
    first, last = holding[0], holding[-1]
    for child in children[first:last + 1]:
        for other in blocks_below(child):
            if other not in blocks:
                ctx.refuse("'target'", f"block {name_of(other)} stands between them", "include it or move it away",
                           [*blocks, other])
    return first, last, children


def _loop_iterators(ctx, blocks, loops, preserve_unit_iters):
    """(iterators, values, {loop Var: expression}) of a block that stands under loops."""
    require_rectangular(ctx, "'target'", loops)
    iters, values, renamed = [], [], {}
    for s in loops:
        for b in blocks:
            for inner in collect(b, BlockRealize):  # those inside a block without iterators use its loops too
                run = next((iv for iv, value in zip(inner.block.iter_vars, inner.iter_values)
                            if iv.iter_type != "spatial" and uses(value, {s.loop_var})), None)
                if run:
                    ctx.refuse("'target'", f"loop {s.loop_var.name} runs the {run.iter_type} iterator {run.var.name} "
                               f"of block {name_of(inner)}", "only loops that run spatial iterators may be around the "
                               "group", [s, b])
        if is_const_int(s.extent, 1) and not preserve_unit_iters:
            renamed[s.loop_var] = s.min
            continue
        iv = IterVar(Range(s.min, s.extent), Var("v_" + s.loop_var.name, s.loop_var.dtype), "spatial")
        iters.append(iv)
        values.append(s.loop_var)
        renamed[s.loop_var] = iv.var
    return iters, values, renamed


def _rebound(ctx, stmt, renamed, blocks):
    if isinstance(stmt, For):
        return stmt.replace(min=substitute(stmt.min, renamed), extent=substitute(stmt.extent, renamed),
                            body=_rebound(ctx, stmt.body, renamed, blocks))
    if isinstance(stmt, SeqStmt):
        return SeqStmt(tuple(_rebound(ctx, s, renamed, blocks) for s in stmt.seq))
    if isinstance(stmt, BlockRealize):
        def simplified(e):
            return Analyzer().simplify(substitute(e, renamed)) if uses(e, renamed.keys()) else e

        block = substitute(stmt.block, renamed) if uses(stmt.block, renamed.keys()) else stmt.block
        return BlockRealize(tuple(map(simplified, stmt.iter_values)), simplified(stmt.predicate), block)
    return ctx.refuse("'target'", f"between them is a {type(stmt).__name__} outside any block",
                      "only loops and blocks can be grouped", blocks)
