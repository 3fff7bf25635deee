"""compute_inline and reverse_compute_inline: blocks that disappear into their neighbours."""
from __future__ import annotations

from math import prod

from ...arith import Analyzer, IterMapLevel, detect_iter_map, inverse_affine_iter_map
from ...expr import (EQ, Add, FloorDiv, FloorMod, IntImm, Mul, Var, binary, cast, const, is_const_int, logical_and,
                     substitute)
from ...node import PureMutator, structural_equal
from ...tir.effects import effects_of
from ...tir.stmt import BufferStore
from ..blocks import binding_of, buffers_of, name_of, only_clips, why_not_complete
from ..legality import (require_all_provided, require_kinds, require_same_order, require_stable_inputs,
                        require_still_legal, require_whole_domain)
from ..nest import neighbours, removable
from ..registry import BLOCK, Result, primitive
from ..signature import domain_analyzer, is_leaf, loads_of, with_reads_of
from .storage import unaligned


@primitive(None, block=BLOCK)
def compute_inline(ctx, block):
    """Put a block's expression where its result is read, and drop the block and its buffer.

        A[i, j] = f(i, j);  B[i, j] = g(A[i, j + 1])
    becomes
        B[i, j] = g(f(i, j + 1))

    A block whose result nobody reads just goes. Requires a complete block with one store to distinct iterators, into a
    buffer that is no output, and no call with an effect: it would be called as often as the result is read.
    """
    scope = ctx.scope(block, "'block'")
    store = _single_store(ctx, scope, block, "'block'")
    buffer, name = store.buffer, name_of(block)
    if ctx.index.owner(buffer) is not scope:
        ctx.refuse("'block'", f"block {name} is an output block: it writes {buffer.name}, which must stay",
                   "inline its producers into it instead, or use reverse_compute_inline", [block])
    _require_distinct_iterators(ctx, block, store)
    consumers = neighbours(ctx.index, scope, block)[1]
    _require_inputs_stay(ctx, scope, block)
    require_stable_inputs(ctx, block, "'block'")
    changes = {removable(ctx.index, block): None}
    for consumer in consumers:
        if not is_leaf(consumer.block, buffer):
            ctx.refuse("'block'", f"block {name_of(consumer)}, which reads {buffer.name}, holds other blocks, matched "
                       "buffers or pointers", "inline before they are made", [consumer])
        changes[consumer] = _inlined(consumer, block.block, store)
    func = ctx.index.rewrite(changes, _without(ctx.index, buffer))
    left = [s for s in ctx.index.loops_above(block) if not all(ctx.index.is_below(c, s) for c in consumers)]
    require_kinds(ctx.with_func(func), left, "'block'")
    return Result(func)


@primitive(None, block=BLOCK)
def reverse_compute_inline(ctx, block):
    """Put a block into its only producer, which then writes what the block wrote.

        A[i, j] = f(i, j);  B[j, i] = g(A[i, j])
    becomes
        B[j, i] = g(f(i, j))

    Requires complete blocks, one producer whose result nobody else reads, and an index that tells which element of
    the producer each instance reads: iterators alone, v // c with v % c, or v * c + w with w in [0, c), and what an
    affine map can invert.
    """
    scope = ctx.scope(block, "'block'")
    store = _single_store(ctx, scope, block, "'block'")
    producer = _only_producer(ctx, scope, block)
    made = _single_store(ctx, scope, producer, "'block'")
    buffer = made.buffer
    if ctx.index.owner(buffer) is not scope:
        ctx.refuse("'block'", f"{buffer.name}, which block {name_of(producer)} writes, is an output", "", [producer])
    others = [r for r in ctx.index.readers(buffer, scope) if r is not block]
    if others:
        ctx.refuse("'block'", f"block {name_of(others[0])} also reads {buffer.name}", "inline it first",
                   [block, others[0]])
    loads = loads_of(store.value, buffer)
    alike = all(structural_equal(x.indices, loads[0].indices) for x in loads)
    if not loads or not alike or not is_leaf(block.block, buffer):
        ctx.refuse("'block'", f"block {name_of(block)} reads several elements of {buffer.name} or has a pointer to it",
                   "each instance must read one", [block])
    domains = {iv.var: iv.dom for iv in producer.block.iter_vars}
    require_whole_domain(ctx, block, "'block'")
    for region in block.block.reads:
        if region.buffer is buffer:
            require_all_provided(ctx, block, region, producer, "'block'")
    if not only_clips(ctx.analyzer_at(block), block):
        ctx.refuse("'block'", f"block {name_of(block)} runs only where {block.predicate}",
                   "only conditions that keep iterators in their domains can be dropped", [block])
    values, condition = _inverse(ctx, block, loads[0].indices, made, domains)
    merged = _merged(producer, block, made, store, values, condition)
    changes = {removable(ctx.index, block): None, producer: merged}
    func = ctx.index.rewrite(changes, _without(ctx.index, buffer))
    after = ctx.with_func(func)
    joined = after.index.blocks[name_of(producer)]
    require_same_order(ctx, block, after, joined, "'block'")
    require_still_legal(after, joined, "'block'")
    return Result(func)


# ---------------------------------------------------------------- checks

def _single_store(ctx, scope, block, argument):
    why = why_not_complete(ctx.index, scope, block)
    if why:
        ctx.refuse(argument, f"block {name_of(block)} is not complete: {why}",
                   "only blocks whose elements are computed independently can be inlined", [block])
    store = block.block.body
    if not isinstance(store, BufferStore) or block.block.alloc_buffers or block.block.match_buffers:
        ctx.refuse(argument, f"the body of block {name_of(block)} is not one store", "", [block])
    calls = effects_of(store)
    if calls:
        ctx.refuse(argument, f"block {name_of(block)} calls {calls[0]}, which may do more than give a value",
                   "let a function that only gives a value be called by T.call_pure_extern", [block])
    return store


def _require_distinct_iterators(ctx, block, store):
    own = {iv.var for iv in block.block.iter_vars}
    indices = [i for i, size in zip(store.indices, store.buffer.shape)
               if not (is_const_int(i, 0) and is_const_int(size, 1))]
    if set(indices) != own or len(indices) != len(own):
        ctx.refuse("'block'", f"block {name_of(block)} does not store at one distinct iterator per dimension: "
                   f"{store.buffer.name}[{', '.join(map(str, store.indices))}]", "", [block])


def _require_inputs_stay(ctx, scope, block):
    """Refuse when an input of the block changes after the block, where a consumer would read it instead."""
    first = ctx.index.order[block]
    for buffer in buffers_of(block.block.reads):
        for writer in ctx.index.writers(buffer, scope):
            if ctx.index.order[writer] > first:
                ctx.refuse("'block'", f"block {name_of(writer)} writes {buffer.name} after block "
                           f"{name_of(block)} reads it", "", [block, writer])


def _only_producer(ctx, scope, block):
    producers = neighbours(ctx.index, scope, block)[0]
    if len(producers) != 1:
        names = ", ".join(name_of(p) for p in producers) or "none"
        ctx.refuse("'block'", f"block {name_of(block)} has {len(producers)} producers ({names})",
                   "it can be put into exactly one", [block, *producers])
    return producers[0]


# ---------------------------------------------------------------- rewriting

def _without(index, buffer):
    """The allocations after a buffer has gone."""
    owner = index.owner(buffer)
    return {owner: tuple(b for b in owner.block.alloc_buffers if b is not buffer)}


def _inlined(consumer, producer, store):
    """The consumer's realize with each load of the producer's buffer replaced by the producer's expression."""
    analyzer = domain_analyzer(consumer.block)

    class Inline(PureMutator):
        def visit_BufferLoad(self, load):
            load = self.generic_visit(load)
            if load.buffer is not store.buffer:
                return load
            places = {i: at for i, at in zip(store.indices, load.indices) if isinstance(i, Var)}
            return _simplified(analyzer, substitute(store.value, places), load)

    inline = Inline().visit
    block = consumer.block.replace(init=inline(consumer.block.init), body=inline(consumer.block.body))
    return consumer.replace(predicate=inline(consumer.predicate),
                            block=with_reads_of(block, [r.buffer for r in producer.reads], store.buffer))


def _simplified(analyzer, value, load):
    """`value` with its indices simplified, when the load was not at plain variables."""
    if all(isinstance(i, Var) for i in load.indices):
        return value

    class Simplify(PureMutator):
        def visit_BufferLoad(self, inner):
            return inner.replace(indices=tuple(analyzer.simplify(i) for i in inner.indices))

    return Simplify().visit(value)


def _inverse(ctx, block, indices, made, domains):
    """({iterator of the block: expression of the producer's iterators}, condition) for the element that it reads.

    indices: that element, inside the buffer; made: the producer's store; domains: {iterator of the producer: Range}.
    The condition keeps what some instance of the block reads. It is not needed where there are as many instances as
    elements, since each of these reads one of its own.
    """
    own = {iv.var: iv.dom for iv in block.block.iter_vars}
    element = [Var(f"e{n}", index.dtype) for n, index in enumerate(indices)]
    values = solve(own, indices, element)
    if values.keys() < own.keys():
        values = {**_inverse_map(own, indices, element), **values}
    analyzer, there = domain_analyzer(block.block), dict(zip(element, indices))
    for var, dom in own.items():
        if var not in values and is_const_int(dom.extent, 1):
            values[var] = dom.min
        if var not in values or not analyzer.can_prove_equal(substitute(values[var], there), var):
            ctx.refuse("'block'", f"the element that block {name_of(block)} reads does not tell its iterator "
                       f"{var.name}", "its index must be invertible", [block])
    analyzer, named = Analyzer(), Analyzer()
    for var, dom in domains.items():
        analyzer.bind(var, dom)
        if not is_const_int(dom.extent, 1):
            named.bind(var, dom)
    here = dict(zip(element, made.indices))
    values = {var: named.canonical_simplify(named.simplify(substitute(values[var], here))) for var in own}
    instances, elements = (prod(cast(e, "int64") for e in extents)
                           for extents in ((dom.extent for dom in own.values()), made.buffer.shape))
    if analyzer.can_prove_equal(instances, elements):
        return values, const(True)
    condition = const(True)
    for var, dom in own.items():
        for part in (values[var] >= dom.min, values[var] < dom.min + dom.extent):
            if not analyzer.can_prove(part):
                condition = logical_and(condition, analyzer.simplify(part))
    for index, target in zip(indices, made.indices):
        back = substitute(index, values)
        if not analyzer.can_prove_equal(back, target):
            condition = logical_and(condition, analyzer.simplify(binary(EQ, back, target)))
    return values, condition


def _inverse_map(domains, indices, targets):
    """{iterator: expression} of the inverse of the affine map that the indices are; empty when they are none."""
    found = detect_iter_map(indices, domains, True, IterMapLevel.NoCheck, simplify_trivial_iterators=False).indices
    return inverse_affine_iter_map(found, targets) if found else {}


def solve(domains, indices, targets):
    """{iterator: expression} by pattern: v + c; v // c with v % c; sums v * c + w. What is missing is not known."""
    values, parts = {}, {}
    for index, target in zip(indices, targets):
        if isinstance(index, (FloorDiv, FloorMod)) and isinstance(index.a, Var) and isinstance(index.b, IntImm):
            parts.setdefault((index.a, index.b.value), {})[type(index)] = target
            continue
        terms, offset = _linear(index)
        if terms is None or not terms:
            continue
        terms.sort(key=lambda t: -t[1])
        rest = target - offset
        for i, (var, step) in enumerate(terms):
            value = rest // step
            values.setdefault(var, value if i == 0 else value % (terms[i - 1][1] // step))
    for (var, c), found in parts.items():
        if len(found) == 2:
            values.setdefault(var, found[FloorDiv] * c + found[FloorMod])
    return values


def _linear(index):
    """([(Var, positive coefficient)], constant) of a sum of scaled variables; (None, 0) for anything else."""
    if isinstance(index, IntImm):
        return [], index.value
    if isinstance(index, Var):
        return [(index, 1)], 0
    if isinstance(index, Mul) and isinstance(index.a, Var) and isinstance(index.b, IntImm) and index.b.value > 0:
        return [(index.a, index.b.value)], 0
    if isinstance(index, Add):
        (left, c), (right, d) = _linear(index.a), _linear(index.b)
        if left is not None and right is not None:
            return left + right, c + d
    return None, 0


def _merged(producer, block, made, store, values, condition):
    """The producer's realize, writing what the block wrote."""
    class Join(PureMutator):
        def visit_Var(self, v):
            return values.get(v, v)

        def visit_BufferLoad(self, load):
            return made.value if load.buffer is made.buffer else self.generic_visit(load)

    join = Join().visit
    body = BufferStore(store.buffer, join(store.value), join(store.indices))
    inner = producer.block
    known = buffers_of(inner.reads)
    more = tuple(join(r) for r in block.block.reads if r.buffer is not made.buffer and r.buffer not in known)
    new = inner.replace(reads=inner.reads + more, writes=join(block.block.writes), body=body,
                        annotations=unaligned(inner.annotations))
    again = [b for b in buffers_of(block.block.reads) if b in known]
    new = with_reads_of(new, again, made.buffer) if again else new
    if is_const_int(condition, 1):
        return producer.replace(block=new)
    both = logical_and(producer.predicate, substitute(condition, binding_of(producer)))
    return producer.replace(predicate=Analyzer().rewrite_simplify(both), block=new)
