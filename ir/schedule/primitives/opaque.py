"""separate_statements and lift_loops: blocks that stand for whole loop programs, taken apart."""
from __future__ import annotations

from ...expr import IterVar, Range, Var, const, free_vars, substitute
from ...node import collect
from ...tir.region import access_regions
from ...tir.stmt import (
    BlockRealize, BufferLoad, BufferStore, DeclBuffer, For, IfThenElse, LetStmt, SeqStmt, While, for_, seq, statements)
from ..blocks import name_of
from ..registry import BLOCK, BLOCKS, LOOPS, Result, primitive


@primitive(BLOCKS, block=BLOCK)
def separate_statements(ctx, block):
    """Make a block of each statement of a block that has no iterators and runs several.

        with block("a"): S; T
    becomes
        with block("a"): S
        with block("a_1"): T

    Requires a block inside the root block that allocates nothing for itself.
    """
    _require_opaque(ctx, block)
    inner = block.block
    if not isinstance(inner.body, SeqStmt):
        ctx.refuse("'block'", f"block {name_of(block)} runs one statement", "only sequences can be taken apart",
                   [block])
    names, parts = [], []
    for n, stmt in enumerate(inner.body.seq):
        names.append(inner.name_hint if n == 0 else ctx.new_block_name(inner.name_hint, names))
        reads, writes = _signature(stmt)
        parts.append(BlockRealize((), const(True), inner.replace(
            name_hint=names[-1], reads=reads, writes=writes, body=stmt)))
    return Result(ctx.index.rewrite({block: seq(*parts)}), tuple(names))


@primitive(LOOPS, block=BLOCK)
def lift_loops(ctx, block):
    """Move the loops of a block that has no iterators around it, those whose iterations do not depend on each other: as
    its spatial iterators, outermost first.

        with block("a"): for i, k in grid(n, m): y[i, k] = y[i, k - 1] + x[i, k]
    becomes
        for i in range(n): with block("a"): vi = spatial(n, i); for k in range(m): y[vi, k] = y[vi, k - 1] + x[vi, k]

    Requires a block inside the root block that is one nest of loops, where in one or more of these every buffer that
    the nest writes is accessed at the loop's own variable in one dimension, and where temporaries of one element are
    written in each iteration before they are read.
    """
    _require_opaque(ctx, block)
    body, declared = block.block.body, []
    while isinstance(body, DeclBuffer):
        declared.append(body.buffer)
        body = body.body
    chain = []
    while isinstance(body, For) and body.kind == "serial" and not body.annotations:
        chain.append(body)
        body = body.body
    lifted = [loop for loop in chain if _has_part_of_its_own(loop, chain, declared, body)]
    if not lifted:
        ctx.refuse("'block'", f"block {name_of(block)} has no loop whose iterations are known to be independent",
                   "it stays one sequence", [block])
    inside = body
    for loop in reversed([loop for loop in chain if loop not in lifted]):
        inside = loop.replace(body=inside)
    for buffer in declared:
        if not _written_first(inside, buffer, False)[0]:
            ctx.refuse("'block'", f"an iteration may read {buffer.name} before it writes it", "", [block])
    for buffer in reversed(declared):
        inside = DeclBuffer(buffer, inside)
    iters = [IterVar(Range(loop.min, loop.extent), Var("v_" + loop.loop_var.name, loop.loop_var.dtype), "spatial")
             for loop in lifted]
    inside = substitute(inside, {loop.loop_var: iv.var for loop, iv in zip(lifted, iters)})
    reads, writes = _signature(inside)
    loops = [Var(loop.loop_var.name, loop.loop_var.dtype) for loop in lifted]
    stmt = block.replace(iter_values=tuple(loops), block=block.block.replace(
        iter_vars=tuple(iters), reads=reads, writes=writes, body=inside))
    for var, loop in reversed(list(zip(loops, lifted))):
        stmt = for_(var, loop.extent, stmt)
    return Result(ctx.index.rewrite({block: stmt}), tuple(loops))


def _signature(stmt):
    """What a statement reads and writes of buffers that it does not declare itself."""
    own = {d.buffer for d in collect(stmt, DeclBuffer)}
    return (tuple(r for r in regions if r.buffer not in own) for regions in access_regions(stmt))


def _require_opaque(ctx, block):
    ctx.scope(block, "'block'")
    inner = block.block
    if inner.iter_vars or inner.init is not None or inner.match_buffers or inner.alloc_buffers:
        ctx.refuse("'block'", f"block {name_of(block)} has iterators, or buffers of its own",
                   "only blocks that stand for a whole loop program can be taken apart", [block])


def _has_part_of_its_own(loop, chain, declared, body):
    """Whether each iteration of a loop of a nest touches a part of its own of all that the nest writes."""
    variables = {other.loop_var for other in chain}
    if getattr(loop.min, "value", None) != 0 or not variables.isdisjoint(free_vars(loop.extent)):
        return False
    if any(loop.loop_var in free_vars((other.min, other.extent)) for other in chain):
        return False
    own = {d.buffer for d in collect(body, DeclBuffer)}.union(declared)
    written = {s.buffer for s in collect(body, BufferStore)} - own
    dims = {buffer: set(range(len(buffer.shape))) for buffer in written}
    for access in collect(body, (BufferLoad, BufferStore)):
        if access.buffer in written:
            dims[access.buffer] &= {n for n, i in enumerate(access.indices) if i is loop.loop_var}
    reads_extent = any(b in written for b in (load.buffer for load in collect(loop.extent, BufferLoad)))
    return bool(written) and all(dims.values()) and not reads_extent


def _written_first(stmt, buffer, written):
    """(whether a statement reads a buffer of one element only after it wrote it, whether it is written then).
    written: before the statement."""
    def reads(*values):
        return any(load.buffer is buffer for load in collect(values, BufferLoad))

    if isinstance(stmt, BufferStore):
        if reads(stmt.value, stmt.indices) and not written:
            return False, written
        one = all(getattr(n, "value", 0) == 1 for n in buffer.shape)
        return True, written or stmt.buffer is buffer and one
    if isinstance(stmt, SeqStmt):
        fine = True
        for part in stmt.seq:
            ok, written = _written_first(part, buffer, written)
            fine = fine and ok
        return fine, written
    if isinstance(stmt, IfThenElse):
        ends = [_written_first(s, buffer, written) if s is not None else (True, written)
                for s in (stmt.then_case, stmt.else_case)]
        return (written or not reads(stmt.condition)) and all(ok for ok, _ in ends), all(end for _, end in ends)
    if isinstance(stmt, (For, While, LetStmt, DeclBuffer)):
        heads = [getattr(stmt, name) for name in ("min", "extent", "condition", "value") if hasattr(stmt, name)]
        ok, after = _written_first(stmt.body, buffer, written)
        ok = ok and (written or not reads(*heads))
        return ok, after if isinstance(stmt, (LetStmt, DeclBuffer)) else written
    if not collect(stmt, (BufferLoad, BufferStore)):
        return True, written
    return written and not any(True for _ in statements(stmt)), written
