"""The kind of a block by its signature: complete, reduction, or neither."""
from __future__ import annotations

from ..arith import Analyzer
from ..arith.linear import DIV, scaled, shifted, single_atom
from ..arith.pattern import conjuncts
from ..expr import GE, GT, LE, LT, Var, is_const_int, substitute
from ..node import Node, collect, structural_equal
from ..tir.region import access_regions
from ..tir.stmt import Block, BufferLoad
from .digits import Digits


def name_of(realize):
    return realize.block.name_hint


def binding_of(realize):
    """{iteration variable: the value it is bound to}."""
    return {iv.var: value for iv, value in zip(realize.block.iter_vars, realize.iter_values)}


def uses(e, variables):
    """Whether an expression mentions any Var of a set."""
    if isinstance(e, Var):
        return e in variables
    if isinstance(e, Node):
        return any(uses(getattr(e, f), variables) for f in e._fields)
    return isinstance(e, tuple) and any(uses(x, variables) for x in e)


def buffers_of(regions):
    """The buffers of a signature's regions, each once, in order."""
    return list(dict.fromkeys(r.buffer for r in regions))


# ---------------------------------------------------------------- kinds of blocks

SPATIAL = ("spatial",)
IN_ORDER = ("spatial", "opaque")  # the spatial iterators of blocks that stay where they are, so that their order stays


def why_not_complete(index, scope, realize, spatial=SPATIAL, made=()):
    """None for a complete block: data-parallel, the only writer of its buffers, not reading them. Else the reason.
    spatial: the types of iterators that count as such. made: buffers of which it reads only what it wrote itself."""
    block = realize.block
    if block.init is not None:
        return "it has an init statement"
    for iv in block.iter_vars:
        if iv.iter_type not in spatial:
            return f"its iterator {iv.var.name} is of type {iv.iter_type}, not spatial"
    own = [b for b in buffers_of(block.reads) if b in buffers_of(block.writes)] + [
        load.buffer for load in _own_loads(block)]
    own = [b for b in own if b not in made]
    if own:
        return f"it reads {own[0].name}, which it also writes"
    return _why_not_alone(index, scope, realize, spatial)


def why_not_reduction(index, scope, realize, spatial=SPATIAL):
    """None for a reduction block: with init, spatial and reduce iterators, the reduce ones not choosing where it
    writes, the only writer of its buffers, reading them only where it writes. Else the reason."""
    block = realize.block
    if block.init is None:
        return "it has no init statement"
    for iv in block.iter_vars:
        if iv.iter_type not in (*spatial, "reduce"):
            return f"its iterator {iv.var.name} is of type {iv.iter_type}"
    reduce_vars = {iv.var for iv in block.iter_vars if iv.iter_type == "reduce"}
    for region in block.writes:
        if uses(region.region, reduce_vars):
            return f"a reduce iterator chooses where it writes {region.buffer.name}"
    other = _read_elsewhere(block)
    if other is not None:
        return f"it reads other elements of {other.name} than it writes"
    return _why_not_alone(index, scope, realize, spatial)


def why_not_pure(index, scope, realize, spatial=SPATIAL, made=()):
    """None when what a block writes depends on its inputs alone, however often it runs: complete or a reduction."""
    if realize.block.init is None:
        return why_not_complete(index, scope, realize, spatial, made)
    return why_not_reduction(index, scope, realize, spatial)


def late_start(analyzer, realize, loops):
    """The name of a reduce iterator that is not proved to be least in the first turn of loops, where a block starts
    its sums; None when there is none."""
    start = {loop.loop_var: loop.min for loop in loops}
    for iv, value in zip(realize.block.iter_vars, realize.iter_values):
        if iv.iter_type == "reduce":
            first = substitute(value, start)
            if not (analyzer.can_prove_less_equal(first, value) and analyzer.can_prove_less_equal(iv.dom.min, first)):
                return iv.var.name
    return None


def _read_elsewhere(block):
    """A buffer that the block writes and reads at other places; None when there is none."""
    written = {r.buffer: r.region for r in block.writes}
    if collect(block.body, Block):  # what its inner blocks read counts by their signatures
        reads, _ = access_regions(block.body)
        places = [(r.buffer, r.region) for r in reads if r.buffer in written]
        return next((b for b, region in places if not structural_equal(region, written[b])), None)
    for load in _own_loads(block):
        if not structural_equal(load.indices, tuple(x.min for x in written[load.buffer])):
            return load.buffer
    return None


def _own_loads(block):
    written = set(buffers_of(block.writes))
    return [load for load in collect(block.body, BufferLoad) if load.buffer in written]


def _why_not_alone(index, scope, realize, spatial):
    """None when each element that the block writes gets one value: no other block, no other instance changes it."""
    for buffer in buffers_of(realize.block.writes):
        for writer in index.writers(buffer, scope):
            if writer is not realize:
                return f"block {name_of(writer)} also writes {buffer.name}"
    block = realize.block
    ranges = {iv.var: iv.dom for iv in block.iter_vars
              if iv.iter_type in spatial and not is_const_int(iv.dom.extent, 1)}
    for region in block.writes:
        plain = {r.min for r in region.region if isinstance(r.min, Var) and is_const_int(r.extent, 1)}
        left = [v for v in ranges if v not in plain and uses((block.init, block.body), {v})]
        told = left and Digits(Analyzer(), ranges).recovered([(r.min, r.extent) for r in region.region])
        for v in left:
            if v not in told:
                return (f"its iterator {v.name} is not proved to choose where it writes {region.buffer.name}, so that "
                        "one instance may overwrite another one's value")
    return None


def require_pure(ctx, scope, realize, argument, spatial=SPATIAL, in_place=False, made=()):
    """Refuse unless the block is complete or a reduction, and no condition but its domain limits it; in_place: one
    that keeps its loops may have others. made: as in why_not_complete."""
    why = why_not_pure(ctx.index, scope, realize, spatial, made)
    if not realize.block.iter_vars and not why:
        inside = next((s for s in ctx.index.loops_above(realize) if uses(realize.block, {s.loop_var})), None)
        why = inside and f"it has no iterators, but uses the variable of loop {inside.loop_var.name}"
    if not why and not in_place and realize.block.init is not None:
        late = late_start(ctx.analyzer_at(realize), realize, ctx.index.loops_above(realize))
        why = late and f"it is not proved to start its sums where {late} is least"
    if why:
        ctx.refuse(argument, f"block {name_of(realize)} is neither a complete block nor a reduction block: {why}",
                   "only blocks whose result depends on their inputs alone can move", [realize])
    if not in_place and not only_clips(ctx.analyzer_at(realize), realize):
        ctx.refuse(argument, f"block {name_of(realize)} runs only where {realize.predicate}",
                   "only conditions that keep iterators in their domains can be made anew", [realize])


# ---------------------------------------------------------------- predicates

def is_true(predicate):
    return is_const_int(predicate, 1)


def only_clips(analyzer, realize):
    """Whether every condition of a block's predicate follows from its iterators being inside their domains."""
    if is_true(realize.predicate):
        return True
    implied = {form.key for iv, value in zip(realize.block.iter_vars, realize.iter_values)
               for form in _domain_facts(analyzer, iv, value)}
    return all(_gap(analyzer, c) in implied for c in conjuncts(realize.predicate))


def _domain_facts(analyzer, iv, value):
    """Linears that are >= 0 exactly when `value` is in the domain of `iv`."""
    linear, add = analyzer.canonical.linear, analyzer.canonical.add
    form, low = linear(value), linear(iv.dom.min)
    end = add(low, linear(iv.dom.extent))
    yield add(form, low, -1)
    yield shifted(add(end, form, -1), -1)
    atom = single_atom(form)
    if atom is not None and atom.kind == DIV and not atom.parts[1].terms:  # x // c < n says x < c * n
        number, c = atom.parts[0], atom.parts[1].const
        yield shifted(add(scaled(end, c), number, -1), -1)


def _gap(analyzer, condition):
    """The key of the Linear that is >= 0 exactly when a comparison holds; None for other conditions."""
    if type(condition) not in (LT, LE, GT, GE):
        return None
    a, b = (analyzer.canonical.linear(e) for e in (condition.a, condition.b))
    if type(condition) in (GT, GE):
        a, b = b, a
    gap = analyzer.canonical.add(b, a, -1)
    return (shifted(gap, -1) if type(condition) in (LT, GT) else gap).key


