"""loop_partition and merge: a loop in parts, and loops that stand side by side as one."""
from __future__ import annotations

from ...expr import IntImm, Var, const, is_const_int, substitute
from ...node import collect, structural_equal
from ...tir.region import access_regions
from ...tir.renew import renew_defs
from ...tir.stmt import Block, BlockRealize, BufferLoad, BufferStore, For, SeqStmt, seq
from ..blocks import buffers_of, name_of, uses
from ..dependence import require_inputs_ready
from ..index import blocks_below
from ..legality import require_kinds
from ..registry import BOOL, FACTORS, LOOP, LOOPS, Result, primitive


@primitive(LOOPS, loop=LOOP, factors=FACTORS, preserve_unit_iters=BOOL)
def loop_partition(ctx, loop, factors, preserve_unit_iters=True):
    """Run the iterations of a loop as several loops, one after another; returns these.

        for i in range(n): with block("B"): S(i)
    becomes, with factors [2, 4],
        with block("B_i_common"):
            with block("B_i0_partition"):
                for i0 in range(2): with block("B_i0"): S(i0)
            with block("B_i1_partition"):
                for i1 in range(2, 6): with block("B_i1"): S(i1)
            with block("B_i2_partition"):
                for i2 in range(6, n): with block("B_i2"): S(i2)

    factors: the iterations of each part; one may be None and is inferred, and what is left is one part more. Blocks
    are named by their part; what one loop did, several blocks do, each in a scope of its own. Requires a serial loop
    of constant range without annotations, and no reduction with an init over it.
    """
    ends = _ends(ctx, loop, factors)
    below = blocks_below(loop)
    if not below:
        ctx.refuse("'loop'", f"loop {loop.loop_var.name} holds no block", "", [loop])
    for block in below:
        reducing = [value for iv, value in zip(block.block.iter_vars, block.iter_values) if iv.iter_type == "reduce"]
        if block.block.init is not None and uses(tuple(reducing), {loop.loop_var}):
            ctx.refuse("'loop'", f"block {name_of(block)} reduces over loop {loop.loop_var.name}, and would begin anew "
                       "in each part", "decompose_reduction first", [loop, block])
    prefix, name, low, taken = name_of(below[0]), loop.loop_var.name, loop.min.value, []
    parts, variables = [], []
    for n, end in enumerate(ends):
        var = Var(f"{name}{n}", loop.loop_var.dtype)
        suffix = f"_{name}{n}"
        body = _renamed(ctx, renew_defs(loop.body, {loop.loop_var: var}), suffix, taken)
        part = loop.replace(loop_var=var, min=const(low, var.dtype), extent=const(end - low, var.dtype), body=body)
        parts.append(_opaque(ctx, f"{prefix}{suffix}_partition", part, taken))
        variables.append(var)
        low = end
    whole = _opaque(ctx, f"{prefix}_{name}_common", seq(*parts), taken)
    return Result(ctx.index.rewrite({loop: whole}), tuple(variables))


def _ends(ctx, loop, factors):
    """Where each part of a loop ends."""
    name = loop.loop_var.name
    if loop.thread_binding is not None or loop.annotations or loop.kind != "serial":
        ctx.refuse("'loop'", f"loop {name} is {loop.kind} or has annotations", "partition first, then annotate", [loop])
    if not isinstance(loop.min, IntImm) or not isinstance(loop.extent, IntImm):
        ctx.refuse("'loop'", f"the range of loop {name} is no constant", "", [loop])
    if not factors or sum(f is None for f in factors) > 1 or any(f is not None and f <= 0 for f in factors):
        ctx.refuse("'factors'", f"{list(factors)} must be positive numbers, at most one of them None", "", [loop])
    low, extent = loop.min.value, loop.extent.value
    known = sum(f or 0 for f in factors)
    if known > extent or None in factors and known == extent:
        ctx.refuse("'factors'", f"{list(factors)} add up to {known}, but loop {name} runs {extent} times", "", [loop])
    sizes = [extent - known if f is None else f for f in factors]
    if sum(sizes) < extent:
        sizes.append(extent - sum(sizes))
    return [low + sum(sizes[:n + 1]) for n in range(len(sizes))]


def _renamed(ctx, stmt, suffix, taken):
    """A statement whose blocks have names of their own, ending in `suffix`; `taken` gains them."""
    changes = {}
    for block in collect(stmt, Block):
        taken.append(ctx.new_block_name(block.name_hint + suffix, taken))
        changes[block] = taken[-1]
    return _rename(stmt, changes)


def _rename(stmt, names):
    if isinstance(stmt, BlockRealize):
        inner = stmt.block
        init = None if inner.init is None else _rename(inner.init, names)
        return stmt.replace(block=inner.replace(name_hint=names[inner], body=_rename(inner.body, names), init=init))
    if isinstance(stmt, SeqStmt):
        return stmt.replace(seq=tuple(_rename(s, names) for s in stmt.seq))
    changes = {field: _rename(value, names) for field in ("body", "then_case", "else_case")
               if (value := getattr(stmt, field, None)) is not None}
    return stmt.replace(**changes) if changes else stmt


def _opaque(ctx, name, stmt, taken):
    """A block without iterators that runs a statement."""
    taken.append(ctx.new_block_name(name, taken))
    reads, writes = access_regions(stmt)
    return BlockRealize((), const(True), Block((), tuple(reads), tuple(writes), taken[-1], (), (), {}, None, stmt))


@primitive(LOOP, loops=LOOPS)
def merge(ctx, *loops):
    """Let nests that stand side by side run in one loop; returns the loop down to which they are one.

        for i, j: S(i, j)
        for i, j: T(i, j)
    becomes, with merge(the first i, the second i),
        for i_m:
            for j: S(i_m, j)
            for j: T(i_m, j)

    loops: one of each nest, in the order of the nests. Requires nests that follow one another directly, chains of
    serial loops of the same ranges from 0 down to the given ones, and that an iteration of the merged loops reads of
    what earlier nests write only what that same iteration writes, and writes nothing that earlier nests touch.
    """
    if len(loops) < 2 or len(set(loops)) != len(loops):
        ctx.refuse("'loops'", "give two or more different loops", "", loops)
    chains = _chains(ctx, loops)
    parent = ctx.index.parent(chains[0][0])
    siblings = parent.seq if isinstance(parent, SeqStmt) else ()
    heads = [chain[0] for chain in chains]
    first = next((n for n, s in enumerate(siblings) if s is heads[0]), None)
    if first is None or [*siblings[first:first + len(heads)]] != heads:
        ctx.refuse("'loops'", "the nests of the loops do not follow one another directly", "move what lies between",
                   heads)
    _require_same_ranges(ctx, chains)
    _require_apart(ctx, chains)
    merged = [Var(f"{loop.loop_var.name}_m", loop.loop_var.dtype) for loop in chains[0]]
    bodies = [substitute(chain[-1].body, {loop.loop_var: var for loop, var in zip(chain, merged)}) for chain in chains]
    body = seq(*bodies)
    for var, loop in reversed(list(zip(merged, chains[0]))):
        body = loop.replace(loop_var=var, body=body)
    func = ctx.index.rewrite({heads[0]: body, **dict.fromkeys(heads[1:])})
    after = ctx.with_func(func)
    for chain in chains[1:]:
        for block in blocks_below(chain[-1].body):
            require_inputs_ready(after, after.index.blocks[name_of(block)], "'loops'")
    require_kinds(after, ctx.index.loops_above(heads[0]), "'loops'")
    return Result(func, (merged[-1],))


def _chains(ctx, loops):
    """From each loop up, those that hold nothing but the next one; all of one length, outermost first."""
    scope = ctx.index.scope(loops[0])
    chains = []
    for loop in loops:
        if ctx.index.scope(loop) is not scope:
            ctx.refuse("'loops'", f"loops {loops[0].loop_var.name} and {loop.loop_var.name} are in different scopes",
                       "", [loops[0], loop])
        chain = [loop]
        while isinstance(ctx.index.parent(chain[0]), For):
            chain.insert(0, ctx.index.parent(chain[0]))
        chains.append(chain)
    shared = 0
    while all(len(c) > shared for c in chains) and len({c[shared] for c in chains}) == 1:
        shared += 1
    chains = [chain[shared:] for chain in chains]
    if len({len(c) for c in chains}) != 1 or not chains[0]:
        ctx.refuse("'loops'", "the loops do not lie at the same depth, each in a chain of loops that hold nothing else",
                   "", loops)
    return chains


def _require_same_ranges(ctx, chains):
    for loop, *others in zip(*chains):
        for other in (loop, *others):
            if not is_const_int(other.min, 0) or not structural_equal(other.extent, loop.extent):
                ctx.refuse("'loops'", f"loops {loop.loop_var.name} and {other.loop_var.name} do not run over the same "
                           "range from 0", "", [loop, other])
            if other.kind != "serial" or other.annotations:
                ctx.refuse("'loops'", f"loop {other.loop_var.name} is {other.kind} or has annotations",
                           "merge first, then annotate", [other])


def _require_apart(ctx, chains):
    """Refuse when a nest writes what an earlier one touches, or does so outside of blocks."""
    touched = set()
    for chain in chains:
        blocks = blocks_below(chain[0])
        inside = {access for b in blocks for access in collect(b.block, (BufferLoad, BufferStore))}
        if not inside.issuperset(collect(chain[0], (BufferLoad, BufferStore))):
            ctx.refuse("'loops'", f"under loop {chain[0].loop_var.name} buffers are touched outside of blocks", "",
                       [chain[0]])
        for block in blocks:
            again = [b for b in buffers_of(block.block.writes) if b in touched]
            if again:
                ctx.refuse("'loops'", f"block {name_of(block)} writes {again[0].name}, which an earlier nest touches",
                           "", [block])
        touched.update(b for block in blocks for b in buffers_of(block.block.reads + block.block.writes))


__all__ = ["loop_partition", "merge"]
