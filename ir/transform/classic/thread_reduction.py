"""LowerCrossThreadReduction as scripts know it: what threads reduce together becomes a call of tvm_thread_allreduce,
which LowerThreadAllreduce makes of shuffles and shared memory."""
from __future__ import annotations

from dataclasses import dataclass

from ...arith.pattern import conjuncts
from ...expr import EQ, Call, Range, Var, const, free_vars, is_const_int, logical_and, substitute
from ...node import Mutator
from ...schedule.combiner import combiner_of
from ...te.tensor import CommReducer
from ...tir.buffer import decl_buffer
from ...tir.device_ops import ALLREDUCE
from ...tir.stmt import (AttrStmt, Block, BlockRealize, BufferLoad, BufferRegion, BufferStore, Evaluate, For, seq,
                         statements)
from ..gpu.thread_reduction import ThreadReductionError, driven
from ..gpu.threads import is_bound
from ..walk import StmtMutator

ELEMENT = (const(0),)


def lower_cross_thread_reduction(func):
    """Requires blocks, with their inits. Ensures that no block with an init is reduced by loops that are bound to
    threads. Such a block becomes three: what a thread reduces on its own, where it does, in a register; the call that
    joins registers; and a store of the result, by the first thread, or by all to buffers of scope "local". What stands
    outside of these threads and reads such a buffer runs on the first of them.

    Raises ThreadReductionError where terms may not be regrouped, where a loop below one that reduces does not, and for
    loops that are bound to blocks.
    """
    tops = _tops(func)
    return func.replace(body=_Lower(tops).visit(func.body)) if tops else func


def _tops(func):
    """{id of a loop: the Reduction of which it is the outermost one}."""
    found = {}

    def scan(stmt, loops):
        if isinstance(stmt, BlockRealize):
            made = _reduction(func, stmt, loops)
            if made is not None and id(made.loops[0]) in found:
                made.refuse(f"so is {found[id(made.loops[0])].block.name_hint}, by the same loop; give each its own")
            if made is not None:
                found[id(made.loops[0])] = made
            loops = ()
        for inner in statements(stmt):
            scan(inner, (*loops, stmt) if isinstance(stmt, For) else loops)
    scan(func.body, ())
    return found


def _reduction(func, realize, loops):
    """The Reduction of a block below loops; None where no bound loop reduces it."""
    reduced = driven(realize, "reduce") if realize.block.init is not None else ()
    own = tuple(x for x in loops if x.loop_var in reduced)
    bound = tuple(x for x in own if is_bound(x))
    if not bound:
        return None
    combiner, why = combiner_of(realize.block)
    made = Reduction(func.title, realize, own, bound, combiner)
    below = loops[loops.index(own[0]):]
    other = next((x for x in below if x.loop_var not in reduced), None)
    if combiner is None:
        made.refuse(f"threads cannot join it: {why}")
    if not all(is_bound(x, "threadIdx") for x in bound):
        made.refuse(f"loop {bound[0].loop_var.name} is bound to {bound[0].thread_binding}; bind it to threadIdx")
    if other is not None:
        made.refuse(f"loop {other.loop_var.name} below its reduction does not reduce; reorder it outside")
    if reduced & driven(realize, "spatial"):
        made.refuse("its loops run spatial and reduce iterators at once; split them")
    return made


@dataclass(eq=False)
class Reduction:
    """loops: those that reduce the block, outermost first; bound: those of them that are bound to threads."""

    title: str
    realize: BlockRealize
    loops: tuple
    bound: tuple
    combiner: object

    def refuse(self, why):
        raise ThreadReductionError(f"{self.title}: block {self.block.name_hint} is reduced by threads, but {why}")

    def __post_init__(self):
        if self.combiner is None:
            return
        position = {id(r.buffer): n for n, r in enumerate(self.block.writes)}
        c = self.combiner
        self.order = sorted(range(len(c.buffers)), key=lambda n: position.get(id(c.buffers[n]), n))
        self.buffers = self.ordered(c.buffers)
        self.values = dict(zip((iv.var for iv in self.block.iter_vars), self.realize.iter_values))
        self.joined = tuple(_register(b, "cross_thread") for b in self.buffers)
        alone = len(self.loops) > len(self.bound) or not is_const_int(self.realize.predicate, 1)
        self.own = tuple(_register(b, "in_thread") for b in self.buffers) if alone else ()

    @property
    def block(self):
        return self.realize.block

    def ordered(self, items):
        """Items of the combiner in the order of the block's writes."""
        return tuple(items[n] for n in self.order)

    # ------------------------------------------------------------ the blocks

    def start(self):
        """The block that sets the registers of a thread."""
        inits = substitute(self.ordered(self.combiner.inits), self.values)
        return self._block("in_thread_init", (), self.own, _stores(self.own, inits))

    def replaced(self):
        """What stands in the block's place: the same in registers of a thread, or the call that joins its terms."""
        reads = tuple(r for r in self.block.reads if r.buffer not in self.buffers)
        if not self.own:
            body = self._call(self.ordered(self.combiner.terms))
            return self.realize.replace(block=self.block.replace(
                name_hint=f"{self.block.name_hint}_cross_thread", init=None, body=body, reads=reads,
                writes=_elements(self.joined)))
        body = _InRegisters(dict(zip(self.buffers, self.own))).visit(self.block.body)
        return self.realize.replace(block=self.block.replace(
            name_hint=f"{self.block.name_hint}_in_thread", init=None, body=body, reads=reads,
            writes=_elements(self.own)))

    def join(self):
        """The block that joins the registers of threads; None where `replaced` does."""
        return self._block("cross_thread", self.own, self.joined, self._call(_loads(self.own))) if self.own else None

    def _call(self, values):
        c = self.combiner
        reducer = CommReducer(*map(self.ordered, (c.own, c.new, c.results, c.inits)))
        args = (const(len(values), "uint32"), *values, const(True), *_loads(self.joined),
                *(x.loop_var for x in self.bound))
        nothing = Call("handle", "tir.reinterpret", (const(0, "uint64"),))
        return AttrStmt(reducer, "reduce_scope", nothing, Evaluate(Call("handle", ALLREDUCE, args)))

    def store(self):
        """The block that stores the result."""
        spatial = [(iv, v) for iv, v in zip(self.block.iter_vars, self.realize.iter_values) if iv.iter_type != "reduce"]
        fresh = {iv.var: Var(iv.var.name, iv.var.dtype) for iv, _ in spatial}
        reduced = {x.loop_var for x in self.loops}
        predicate = const(True)
        for part in conjuncts(self.realize.predicate):
            if reduced.isdisjoint(free_vars(part)):
                predicate = logical_and(predicate, part)
        if any(b.scope != "local" for b in self.buffers):
            for x in self.bound:
                predicate = logical_and(predicate, EQ(x.loop_var, x.min))
        body = seq(*(BufferStore(b, load, substitute(self.combiner.indices, fresh))
                     for b, load in zip(self.buffers, _loads(self.joined))))
        writes = substitute(self.block.writes, fresh)
        block = Block(tuple(iv.replace(var=fresh[iv.var]) for iv, _ in spatial), _elements(self.joined), writes,
                      f"{self.block.name_hint}_write_back", (), (), {}, None, body)
        return BlockRealize(tuple(v for _, v in spatial), predicate, block)

    def _block(self, what, reads, writes, body):
        return BlockRealize((), const(True), Block((), _elements(reads), _elements(writes),
                                                   f"{self.block.name_hint}_{what}", (), (), {}, None, body))


def _register(b, what):
    return decl_buffer((const(1),), b.dtype, f"{what}_{b.name}", "local", (const(1),))


def _loads(buffers):
    return tuple(BufferLoad(b, ELEMENT) for b in buffers)


def _stores(buffers, values):
    return seq(*(BufferStore(b, v, ELEMENT) for b, v in zip(buffers, values)))


def _elements(buffers):
    return tuple(BufferRegion(b, (Range(const(0), const(1)),)) for b in buffers)


class _InRegisters(Mutator):
    def __init__(self, own):
        self.own = own

    def _access(self, n):
        n = self.generic_visit(n)
        return n.replace(buffer=self.own[n.buffer], indices=ELEMENT) if n.buffer in self.own else n

    visit_BufferLoad = visit_BufferStore = _access


class _Lower(StmtMutator):
    def __init__(self, tops):
        self.tops, self.inside = tops, ()    # reductions around
        self.allocated, self.around = [], ()  # of the block around; axes of threads
        self.results = {}                     # buffer of scope "local" that threads reduced -> their loops

    def visit_Block(self, block):
        before, self.allocated = self.allocated, []
        block = super().visit_Block(block)
        block = block.replace(alloc_buffers=(*block.alloc_buffers, *self.allocated)) if self.allocated else block
        self.allocated = before
        return block

    def visit_For(self, loop):
        around, self.around = self.around, (*self.around, loop.thread_binding)
        made = self._loop(loop)
        self.around = around
        return made

    def _loop(self, loop):
        found = self.tops.get(id(loop))
        if found is None:
            body = self.visit(loop.body)
            return body if any(loop in r.bound for r in self.inside) else loop.replace(body=body)
        before, self.inside = self.inside, (*self.inside, found)
        self.around = (*self.around, *(x.thread_binding for x in found.bound))
        body = self.visit(loop.body)
        self.inside = before
        body = seq(found.start() if found.own else None, body if loop in found.bound else loop.replace(body=body),
                   found.join(), found.store())
        for x in reversed(found.bound):
            body = x.replace(body=body)
        self.allocated += [*found.joined, *found.own]
        self.results.update((b, found.bound) for b in found.buffers if b.scope == "local")
        return body

    def visit_BlockRealize(self, realize):
        own = next((r for r in self.inside if r.realize is realize), None)
        if own is not None:
            return own.replaced()
        threads = [x.replace(loop_var=Var(f"t{x.thread_binding[-1]}", x.loop_var.dtype))
                   for x in self._missing(realize.block)]
        made = super().visit_BlockRealize(realize)
        for x in reversed(threads):
            made = made.replace(predicate=logical_and(EQ(x.loop_var, x.min), made.predicate))
        for x in reversed(threads):
            made = x.replace(body=made)
        return made

    def _missing(self, block):
        """Loops bound to threads that have what a block reads, and that are not around it."""
        if any(r.buffer.scope == "local" for r in block.writes):
            return []
        found = {x.thread_binding: x for r in block.reads for x in self.results.get(r.buffer, ())}
        return [x for tag, x in found.items() if tag not in self.around]
