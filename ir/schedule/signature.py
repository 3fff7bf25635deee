"""Block signatures: choosing buffers of them, and keeping them true when a block's body changes."""
from __future__ import annotations

from ..arith import Analyzer
from ..node import Mutator, collect
from ..tir.region import access_regions
from ..tir.stmt import Block, BufferLoad, seq
from .context import name_of


def choose(ctx, realize, which, kind, argument):
    """The buffer at a position (or of a name) in a block's "reads" or "writes"."""
    buffers = [r.buffer for r in getattr(realize.block, kind)]
    listed = ", ".join(b.name for b in buffers) or "none"
    if isinstance(which, str):
        found = [b for b in buffers if b.name == which]
        if not found:
            ctx.refuse(argument, f"block {name_of(realize)} has no buffer {which!r} among its {kind}",
                       f"it has {listed}", [realize])
        return found[0]
    if not 0 <= which < len(buffers):
        ctx.refuse(argument, f"{which} is not a position among the {kind} of block {name_of(realize)}",
                   f"it has {len(buffers)}: {listed}", [realize])
    return buffers[which]


def domain_analyzer(block):
    """An Analyzer that knows the domains of a block's iterators."""
    analyzer = Analyzer()
    for iv in block.iter_vars:
        analyzer.bind(iv.var, iv.dom)
    return analyzer


def with_reads_of(block, buffers, dropped):
    """A block whose reads of `buffers` are computed anew from its body and whose read of `dropped` is gone."""
    again = {id(b) for b in buffers} | {id(dropped)}
    written = {id(r.buffer) for r in block.writes}
    found, _ = access_regions(seq(block.init, block.body), analyzer=domain_analyzer(block))
    new = {id(r.buffer): r for r in found if id(r.buffer) in again and id(r.buffer) not in written}
    new.pop(id(dropped), None)
    reads = []
    for region in block.reads:
        if region.buffer is dropped:
            reads.extend(r for k, r in new.items() if not any(r.buffer is x.buffer for x in block.reads))
        else:
            reads.append(new.get(id(region.buffer), region))
    return block.replace(reads=tuple(reads))


def redirect(block, old, new, kinds=("reads", "writes")):
    """A block that uses buffer `new` instead of `old`: loads when "reads" is among kinds, stores when "writes" is.

    A block that writes `old` also loads it (a reduction's own element) from where it writes.
    """
    stores = "writes" in kinds
    loads = "reads" in kinds or stores

    class Redirect(Mutator):
        def visit_BufferLoad(self, load):
            load = self.generic_visit(load)
            return load.replace(buffer=new) if loads and load.buffer is old else load

        def visit_BufferStore(self, store):
            store = self.generic_visit(store)
            return store.replace(buffer=new) if stores and store.buffer is old else store

        def visit_BufferRegion(self, region):
            return region

        def visit_Block(self, inner):
            inner = self.generic_visit(inner)
            swap = lambda r: r.replace(buffer=new) if r.buffer is old else r  # noqa: E731
            return inner.replace(reads=tuple(map(swap, inner.reads)) if loads else inner.reads,
                                 writes=tuple(map(swap, inner.writes)) if stores else inner.writes)

    return Redirect().visit(block)


def only_loads_and_stores(block, buffer):
    """Whether the block's body touches a buffer only by loads and stores of its own (no nested block, no match)."""
    return not block.match_buffers and not collect((block.init, block.body), Block)


def loads_of(root, buffer):
    """The loads of one buffer under `root`."""
    return [load for load in collect(root, BufferLoad) if load.buffer is buffer]
