"""From blocks to plain loops, in steps that are programs themselves: init, iteration variables, matched buffers, and
then predicates and allocations become statements."""
from __future__ import annotations

from ..expr import Call, IntImm, Var, as_expr, const, free_vars, is_const_int, logical_and
from ..node import Mutator, collect
from ..tir.stmt import AttrStmt, DeclBuffer, IfThenElse, seq
from .match_buffers import MatchedBuffers
from .walk import StmtMutator, blocks


def lower_init_block(func):
    """Requires blocks. Ensures no inits: they become statements under `reduce iters are at their start`."""
    return func.replace(body=_LowerInit().visit(func.body))


class _LowerInit(StmtMutator):
    def visit_Block(self, block):
        block = super().visit_Block(block)
        if block.init is None:
            return block
        first = const(True)
        for iv in block.iter_vars:
            if iv.iter_type == "reduce":
                first = logical_and(first, iv.var == iv.dom.min)
        init = block.init if isinstance(first, IntImm) else IfThenElse(first, block.init)
        return block.replace(init=None, body=seq(init, block.body))


def convert_blocks_to_opaque(func):
    """Requires no inits. Ensures opaque blocks, without iteration variables: their bodies, signatures and predicates
    are in terms of loop variables. Raises ValueError for a block with an init, and for a predicate that names the
    block's own iterators, which have no value where it is asked."""
    return func.replace(body=_ToOpaque().visit(func.body))


class _ToOpaque(Mutator):
    def __init__(self):
        self.binding = {}  # block iterator -> its value in terms of loop variables

    def visit_Var(self, v):
        return self.binding.get(v, v)

    def visit_BlockRealize(self, realize):
        block = realize.block
        if block.init is not None:
            raise ValueError(f"block {block.name_hint} has an init; run LowerInitBlock first")
        own = {iv.var for iv in block.iter_vars}
        named = [v.name for v in free_vars(realize.predicate) if v in own] if own else ()
        if named:
            raise ValueError(f"block {block.name_hint}: its predicate {realize.predicate} names its iterator {named[0]}; "
                             "say it by what that is bound to")
        self.binding.update((iv.var, self.visit(value)) for iv, value in zip(block.iter_vars, realize.iter_values))
        return realize.replace(iter_values=(), predicate=self.visit(realize.predicate),
                               block=self.generic_visit(block.replace(iter_vars=())))


def lower_match_buffer(func, proved=False):
    """Requires opaque blocks. Ensures no matched buffers: each becomes the region that it stands for, and variables as
    its strides take the strides found there.

    Raises ValueError where the address of a matched buffer is taken whose memory is laid out otherwise than declared;
    with `proved`, also where a match declares what its place cannot be proved to have, such as an offset.
    """
    if not any(block.match_buffers for block in blocks(func.body)):
        return func
    given = frozenset(collect((func.params, list(func.buffer_map.values())), Var)) if proved else None
    return func.replace(body=_LowerMatch(given).visit(func.body))


class _LowerMatch(Mutator):
    def __init__(self, given):
        self.binding = {}
        self.matched = MatchedBuffers(self.visit, self.binding, given)

    def visit_Var(self, v):
        return self.binding.get(v, v)

    def visit_Call(self, call):
        if call.op == "tir.address_of":
            self.matched.require_layout(call.args[0].buffer)
        return self.generic_visit(call)

    def visit_Block(self, block):
        for match in block.match_buffers:
            self.matched.add(match)
        return self.generic_visit(block.replace(match_buffers=()))

    def _access(self, node):
        return self.matched.moved(self.generic_visit(node))

    visit_BufferLoad = visit_BufferStore = visit_BufferRegion = _access


def lower_opaque_block(func):
    """Requires opaque blocks and no matched buffers. Ensures no blocks, and guards: predicates are `if likely(...)`,
    allocations DeclBuffers, and annotations "pragma_..." AttrStmts around the body."""
    return func.replace(body=LowerOpaque().visit(func.body))


class LowerOpaque(StmtMutator):
    """Makes statements of opaque blocks."""

    def visit_BlockRealize(self, realize):
        block = realize.block
        if block.iter_vars or block.match_buffers:
            raise ValueError(f"block {block.name_hint} has iteration variables or matched buffers; run "
                             "ConvertBlocksToOpaque and LowerMatchBuffer first")
        body = self.visit(block.body)
        for key, value in sorted(block.annotations.items(), reverse=True):
            if key.startswith("pragma_"):
                body = AttrStmt(const(0), key, as_expr(value), body)
        for b in reversed(block.alloc_buffers):
            body = DeclBuffer(self.allocated(b), body)
        return body if is_const_int(realize.predicate, 1) else self.guarded(realize.predicate, body)

    def allocated(self, buffer):
        """The memory of an allocation."""
        return buffer

    def guarded(self, predicate, body):
        """The branch of what runs under a block's predicate."""
        return IfThenElse(Call("bool", "tir.likely", (predicate,)), body)

    def visit_SeqStmt(self, s):
        return seq(*(self.visit(x) for x in s.seq))
