"""From blocks to plain loops: init, iteration variables, predicates and allocations become statements."""
from __future__ import annotations

from ..expr import Call, IntImm, const, free_vars, is_const_int, logical_and
from ..node import Mutator
from ..tir.stmt import IfThenElse, seq
from .match_buffers import MatchedBuffers
from .place_buffers import place_buffers


def lower_init_block(func):
    """Requires blocks. Ensures no block has an init: it becomes a statement under `reduce iters are at their start`."""
    return func.replace(body=_LowerInit().visit(func.body))


class _LowerInit(Mutator):
    def visit_Block(self, block):
        block = self.generic_visit(block)
        if block.init is None:
            return block
        first = const(True)
        for iv in block.iter_vars:
            if iv.iter_type == "reduce":
                first = logical_and(first, iv.var == iv.dom.min)
        init = block.init if isinstance(first, IntImm) else IfThenElse(first, block.init)
        return block.replace(init=None, body=seq(init, block.body))


def lower_blocks(func):
    """Requires no inits. Ensures no blocks: bodies in terms of loop variables, predicates as `if likely(...)`; each
    buffer is declared (DeclBuffer) in the innermost loop that holds all its uses and shrunk to the region used there;
    what is never read is not computed.

    A matched buffer becomes the region that it stands for; variables as its strides take the strides found there.
    Raises ValueError where the address of a matched buffer is taken whose memory is laid out otherwise than declared.
    """
    lowering = _LowerBlocks()
    body = lowering.visit(func.body)
    return func.replace(body=place_buffers(body, lowering.allocated, lowering.carried))


class _LowerBlocks(Mutator):
    """allocated: the blocks' buffers. carried: {id(buffer): ids of the loop variables that carry its value from one
    turn to the next}, those bound to a non-spatial iterator of a block that writes it or stands around such a block."""

    def __init__(self):
        self.allocated, self.carried = [], {}
        self.binding = {}        # block iterator -> its value in terms of loop variables
        self.carrying = frozenset()
        self.matched = MatchedBuffers(self.visit, self.binding)

    def visit_Var(self, v):
        return self.binding.get(v, v)

    def visit_Call(self, call):
        if call.op == "tir.address_of":
            self.matched.require_layout(call.args[0].buffer)
        return self.generic_visit(call)

    def visit_BlockRealize(self, realize):
        block = realize.block
        self.allocated.extend(block.alloc_buffers)
        values, predicate = self.visit(realize.iter_values), self.visit(realize.predicate)
        self.binding.update((iv.var, value) for iv, value in zip(block.iter_vars, values))
        outside = self.carrying
        for iv, value in zip(block.iter_vars, values):
            if iv.iter_type != "spatial":
                self.carrying = self.carrying.union(map(id, free_vars(value)))
        for match in block.match_buffers:
            self.matched.add(match)
        body = self.visit(block.body)
        self.carrying = outside
        if is_const_int(predicate, 1):
            return body
        return IfThenElse(Call("bool", "tir.likely", (predicate,)), body)

    def visit_BufferStore(self, store):
        store = self.matched.moved(self.generic_visit(store))
        self.carried.setdefault(id(store.buffer), set()).update(self.carrying)
        return store

    def visit_BufferLoad(self, load):
        return self.matched.moved(self.generic_visit(load))

    def visit_For(self, loop):
        minimum, extent = self.visit(loop.min), self.visit(loop.extent)
        return loop.replace(min=minimum, extent=extent, body=self.visit(loop.body))

    def visit_SeqStmt(self, s):
        return seq(*(self.visit(x) for x in s.seq))
