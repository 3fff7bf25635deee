"""split, fuse and add_unit_loop: the same iterations in the same order, counted by other loops."""
from __future__ import annotations

from math import prod

from ...arith import Analyzer
from ...expr import (FloorDiv, FloorMod, PrimExpr, Range, Var, cast, const, free_vars, is_const_int, logical_and,
                     substitute)
from ...node import Mutator, collect
from ...target import Target
from ...tir.stmt import BlockRealize, For, SeqStmt, for_
from ..blocks import is_true, uses
from ..context import know_dimensions
from ..registry import BOOL, EXTENTS, LOOP, LOOPS, PLACE, Result, primitive


@primitive(LOOPS, loop=LOOP, factors=EXTENTS, preserve_unit_iters=BOOL, disable_predication=BOOL)
def split(ctx, loop, factors, preserve_unit_iters=True, disable_predication=False):
    """Replace a loop by nested loops whose extents are `factors`; one factor may be None and is inferred.

        for i in range(n): S(i)
    becomes, with factors [None, 16],
        for i_0, i_1 in grid(ceildiv(n, 16), 16): S(i_0 * 16 + i_1) where i_0 * 16 + i_1 < n

    The condition is left out when it always holds. preserve_unit_iters=False drops loops of one iteration from bindings
    (the loops stay). disable_predication=True: refuse where a condition would be needed; on a target of aarch64 T.vscale()
    counts as one of 1, 2, 4, 8 and 16 there. Factors may be expressions of the function's dimensions and parameters, and
    of T.vscale(). Requires factors that are positive, whose product
    reaches the extent, and a loop without annotations.
    """
    _require_plain(ctx, loop, "'loop'")
    analyzer = ctx.analyzer_at(loop)
    extents = _extents(ctx, analyzer, loop, factors)
    name, dtype = loop.loop_var.name, loop.loop_var.dtype
    variables = [Var(f"{name}_{i}", dtype) for i in range(len(extents))]
    nested, step = variables[0], extents[0]
    for var, extent in zip(variables[1:], extents[1:]):
        nested, step = nested * extent + var, step * extent
    for var, extent in zip(variables, extents):
        if not (preserve_unit_iters and is_const_int(extent, 1)):  # a bound unit loop simplifies to 0
            analyzer.bind(var, Range(const(0, dtype), extent), allow_override=True)
    index = analyzer.simplify(nested) if all(map(is_const_int, extents[1:])) else nested
    condition = None if analyzer.can_prove_less_equal(step, loop.extent) else nested < analyzer.simplify(loop.extent)
    if condition is not None and disable_predication and _by_vscale(step, loop.extent):
        condition = None
    if condition is not None and disable_predication:
        ctx.refuse("'disable_predication'", f"{_listed(factors)} are not proved to divide the extent {loop.extent} of "
                   f"loop {name}, so a condition is needed", "choose factors that divide it", [loop])
    body = _Rebind({loop.loop_var: _shifted(loop, index)}, analyzer, condition, ctx, loop).stmt(loop.body)
    for var, extent in reversed(list(zip(variables, extents))):
        body = For(var, const(0, dtype), extent, "serial", body)
    return Result(ctx.index.rewrite({loop: body}), tuple(variables))


@primitive(LOOP, loops=LOOPS, preserve_unit_iters=BOOL)
def fuse(ctx, *loops, preserve_unit_iters=True):
    """Replace directly nested loops by one that counts through them.

        for i, j in grid(n, m): S(i, j)
    becomes
        for i_j_fused in range(n * m): S(i_j_fused // m, i_j_fused % m)
    and an inner one of several is i_j_k_fused % (m * l) // l, as TVM writes it; where the loop has one turn, all are 0.

    Requires that each loop holds only the next one and that no extent depends on a fused loop.
    """
    _require_nested(ctx, loops)
    dtype = max((loop.loop_var.dtype for loop in loops), key=lambda t: t.bits)
    total = const(1, dtype)
    for loop in loops:
        total = total * cast(loop.extent, dtype)
    analyzer = ctx.analyzer_at(loops[0])
    total = analyzer.simplify(total)
    fused = Var("_".join(loop.loop_var.name for loop in loops) + "_fused", dtype)
    analyzer.bind(fused, Range(const(0, dtype), total), allow_override=True)
    mapping, below = {}, const(1, dtype)  # the turns of the loops inside
    for loop in reversed(loops):
        extent = const(1, dtype) if is_const_int(loop.extent, 0) else cast(loop.extent, dtype)  # 0: never runs
        turns = analyzer.simplify(below * extent)
        counted = (const(0, dtype) if is_const_int(total, 1) else fused if loop is loops[0] else fused % turns)
        mapping[loop.loop_var] = _shifted(loop, cast(_reduced(analyzer, counted // below), loop.loop_var.dtype))
        below = turns
    body = _Rebind(mapping, analyzer, None, ctx, loops[0]).stmt(loops[-1].body)
    new = For(fused, const(0, dtype), total, "serial", body)
    return Result(ctx.index.rewrite({loops[0]: new}), (fused,))


@primitive(LOOP, block_or_loop=PLACE)
def add_unit_loop(ctx, block_or_loop):
    """Put a loop `u` of one iteration directly around a block or loop; returns it.

    Requires a place inside the root block.
    """
    if isinstance(block_or_loop, BlockRealize):
        ctx.scope(block_or_loop, "'block_or_loop'")
    unit = for_(Var("u"), 1, block_or_loop)
    return Result(ctx.index.rewrite({block_or_loop: unit}), (unit.loop_var,))


def _reduced(analyzer, index):
    """An index simplified, such as a quotient of a remainder without the steps that do nothing; as it is written where
    that saves no division."""
    simple = analyzer.simplify(index)
    divisions = [len(collect(e, (FloorDiv, FloorMod))) for e in (simple, index)]
    return simple if divisions[0] < divisions[1] else index


def _shifted(loop, index):
    return index if getattr(loop.min, "value", None) == 0 else loop.min + index


def _require_plain(ctx, loop, argument):
    if loop.thread_binding is not None or loop.annotations:
        what = "a thread binding" if loop.thread_binding is not None else f"annotations {sorted(loop.annotations)}"
        ctx.refuse(argument, f"loop {loop.loop_var.name} has {what}, which would be lost",
                   "split or fuse first, then annotate", [loop])


def _extents(ctx, analyzer, loop, factors):
    """The new extents as expressions, the None one inferred."""
    dtype, name = loop.loop_var.dtype, loop.loop_var.name
    if not factors:
        ctx.refuse("'factors'", "is empty", "give one factor per new loop", [loop])
    if sum(f is None for f in factors) > 1:
        ctx.refuse("'factors'", f"{_listed(factors)} has more than one None", "at most one factor can be inferred", [loop])
    _require_known(ctx, loop, analyzer, factors)
    given = [f if f is None else analyzer.simplify(cast(f, dtype)) if isinstance(f, PrimExpr) else const(f, dtype)
             for f in factors]
    if not all(f is None or analyzer.can_prove(f > 0) for f in given):
        ctx.refuse("'factors'", f"{_listed(factors)} has a factor that is not positive", "", [loop])
    product = analyzer.simplify(prod((f for f in given if f is not None), start=const(1, dtype)))
    if None in factors:
        inferred = analyzer.simplify((loop.extent + (product - 1)) // product)
        return [inferred if f is None else f for f in given]
    if not _reaches(analyzer, given, product, loop.extent):
        ctx.refuse("'factors'", f"the product of {_listed(factors)} is {product}, not proved to reach the extent "
                   f"{loop.extent} of loop {name}", "use None for one of them", [loop])
    return given


def _listed(factors):
    return f"[{', '.join(map(str, factors))}]"


def _require_known(ctx, loop, analyzer, factors):
    """Refuse factors of variables that are not the function's: loops would run as often as others say. Dimensions of
    parameters, which callers are held to, are at least 1."""
    func, used = ctx.func, free_vars([f for f in factors if isinstance(f, PrimExpr)])
    known = {*func.params, *free_vars([b.shape for b in func.buffer_map.values()])}
    for v in used:
        if v not in known:
            ctx.refuse("'factors'", f"{_listed(factors)} have the variable {v.name}, which is neither a parameter nor a "
                       "dimension of one", "", [loop])
    if used:
        know_dimensions(analyzer, func)


def _reaches(analyzer, factors, product, extent):
    """Whether a product of positive factors is at least `extent`: also by one that is as many times the others, rounded
    up, as the extent needs."""
    if analyzer.can_prove_less_equal(extent, product):
        return True
    for n, f in enumerate(factors):
        rest = prod(factors[:n] + factors[n + 1:], start=const(1, f.dtype))
        if not is_const_int(product) and analyzer.can_prove_less_equal((extent + (rest - 1)) // rest, f):
            return True
    return False


_VSCALES = 1, 2, 4, 8, 16  # vectors of SVE have 128 bits times one of these


def _by_vscale(product, extent):
    """Whether a product of factors is at most an extent for each T.vscale() that processors of the target have."""
    target = Target.current()
    if target is None or "asimd" not in target.isa:
        return False
    return all(Analyzer().can_prove_less_equal(*(_Vscale(n).visit(e) for e in (product, extent))) for n in _VSCALES)


class _Vscale(Mutator):
    """Puts a number for T.vscale()."""

    def __init__(self, number):
        self.number = number

    def visit_Call(self, call):
        return const(self.number, call.dtype) if call.op == "tir.vscale" else self.generic_visit(call)


def _require_nested(ctx, loops):
    if not loops:
        ctx.refuse("'loops'", "no loop is given", "give the loops to fuse, outermost first")
    variables = {loop.loop_var for loop in loops}
    for outer, inner in zip(loops, loops[1:]):
        if outer.body is not inner:
            ctx.refuse("'loops'", f"loop {inner.loop_var.name} is not the only statement directly inside loop "
                       f"{outer.loop_var.name}", "give a chain of nested loops, outermost first", [outer, inner])
    for loop in loops:
        _require_plain(ctx, loop, "'loops'")
        if uses(loop.extent, variables) or uses(loop.min, variables):
            ctx.refuse("'loops'", f"the range of loop {loop.loop_var.name} depends on a loop it would be fused with",
                       "fuse only loops with independent ranges", [loop])


class _Rebind:
    """Rewrites what is below a replaced loop: extents, bindings and predicates;
    and blocks where they use its variable."""

    def __init__(self, mapping, analyzer, condition, ctx, loop):
        self.mapping, self.variables = mapping, set(mapping)
        self.analyzer, self.condition, self.ctx, self.loop = analyzer, condition, ctx, loop

    def expr(self, e):
        if isinstance(e, Var) and e in self.variables:
            return self.mapping[e]
        return self.analyzer.simplify(substitute(e, self.mapping)) if uses(e, self.variables) else e

    def stmt(self, s):
        if isinstance(s, For):
            low, extent = self.expr(s.min), self.expr(s.extent)
            self.analyzer.bind(s.loop_var, Range(low, extent), allow_override=True)
            return s.replace(min=low, extent=extent, body=self.stmt(s.body))
        if isinstance(s, SeqStmt):
            return s.replace(seq=tuple(map(self.stmt, s.seq)))
        if isinstance(s, BlockRealize):
            predicate = self.expr(s.predicate)
            if self.condition is not None:
                predicate = self.condition if is_true(predicate) else logical_and(predicate, self.condition)
            iters = tuple(iv.replace(dom=Range(self.expr(iv.dom.min), self.expr(iv.dom.extent)))
                          for iv in s.block.iter_vars)
            inner = s.block.replace(iter_vars=iters)
            if not iters and uses(inner, self.variables):  # one that stands for a part of the loop program
                inner = substitute(inner, self.mapping)
            return s.replace(iter_values=tuple(map(self.expr, s.iter_values)), predicate=predicate, block=inner)
        if self.condition is not None:
            self.ctx.refuse("'factors'", f"they do not divide the extent of loop {self.loop.loop_var.name}, which "
                            f"holds a {type(s).__name__} outside any block", "choose factors that divide it",
                            [self.loop])
        return substitute(s, self.mapping)
