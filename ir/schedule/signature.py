"""Block signatures: choosing buffers of them, and keeping them true when a block's body changes."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import Range, is_const_int
from ..node import Mutator, Visitor, collect
from ..tir.region import access_regions
from ..tir.stmt import Block, BufferLoad, MatchBufferRegion, seq
from .blocks import buffers_of, name_of
from .errors import BufferChoiceError

MEMORIES = ("global", "shared", "local", "warp", "wmma", "texture")  # more may follow a dot


def choose(ctx, realize, which, kind, argument):
    """The buffer at a position (or of a name) in a block's "reads" or "writes"."""
    buffers = [r.buffer for r in getattr(realize.block, kind)]
    listed = ", ".join(b.name for b in buffers) or "none"
    if isinstance(which, str):
        found = [b for b in buffers if b.name == which]
        if not found:
            ctx.refuse(argument, f"block {name_of(realize)} has no buffer {which!r} among its {kind}",
                       f"it has {listed}", [realize], error=BufferChoiceError)
        return found[0]
    if not 0 <= which < len(buffers):
        ctx.refuse(argument, f"{which} is not a position among the {kind} of block {name_of(realize)}",
                   f"it has {len(buffers)}: {listed}", [realize],
                   error=BufferChoiceError)
    return buffers[which]


def choose_ref(ctx, realize, ref, argument):
    """The buffer that ("read", n), ("write", n) or a name means in a block's signature."""
    if isinstance(ref, str):
        kind = "writes" if any(r.buffer.name == ref for r in realize.block.writes) else "reads"
        return choose(ctx, realize, ref, kind, argument)
    return choose(ctx, realize, ref[1], ref[0] + "s", argument)


def require_memory(ctx, storage_scope, realize):
    """Refuse unless a storage scope is one that buffers can have, such as "shared.dyn"."""
    if storage_scope.partition(".")[0] not in MEMORIES:
        ctx.refuse("'storage_scope'", f"{storage_scope!r} is no kind of memory", f"known: {', '.join(MEMORIES)}",
                   [realize])


def domain_analyzer(block):
    """An Analyzer that knows the domains of a block's iterators."""
    analyzer = Analyzer()
    for iv in block.iter_vars:
        analyzer.bind(iv.var, iv.dom)
    return analyzer


def by_name(block):
    """Knows the domains of iterators, except that it keeps those of one value by name."""
    return domain_analyzer(block.replace(iter_vars=tuple(
        iv for iv in block.iter_vars if not is_const_int(iv.dom.extent, 1))))


def with_reads_of(block, buffers, dropped):
    """A block whose reads of `buffers` are computed anew from its body and whose read of `dropped` is gone."""
    found, _ = access_regions(seq(block.init, block.body), analyzer=by_name(block))
    written = buffers_of(block.writes)
    new = {r.buffer: r for r in found if r.buffer in buffers and r.buffer not in written}
    known = buffers_of(block.reads)
    reads = []
    for region in block.reads:
        if region.buffer is dropped:
            reads.extend(r for buffer, r in new.items() if buffer not in known)
        else:
            reads.append(new.get(region.buffer, region))
    return block.replace(reads=tuple(reads))


class _Redirect(Mutator):
    """Puts a buffer in the place of another, whose first element is the old one's at `origin`; pointers to it point to
    the new one, and buffers matched with parts of it move to the new one's memory."""

    def __init__(self, old, new, stores, origin):
        self.old, self.new, self.stores, self.origin = old, {old: new}, stores, origin

    def visit_BufferLoad(self, load):
        load = self.generic_visit(load)
        return load.replace(buffer=self.new.get(load.buffer, load.buffer), indices=self.at(load.buffer, load.indices))

    def visit_BufferStore(self, store):
        store = self.generic_visit(store)
        if not self.stores:
            return store
        return store.replace(buffer=self.new.get(store.buffer, store.buffer),
                             indices=self.at(store.buffer, store.indices))

    def visit_Var(self, v):
        return self.new[self.old].data if v is self.old.data else v

    def at(self, buffer, indices):
        """Indices into what stands for a buffer."""
        if buffer is not self.old or not self.origin:
            return indices
        return tuple(Analyzer().simplify(i - low) for i, low in zip(indices, self.origin))

    def visit_Block(self, block):
        matched = tuple(map(self.match, block.match_buffers))
        changes = {f: self.visit(getattr(block, f)) for f in ("init", "body")}
        changes["reads"] = self.regions(block.reads)
        if self.stores:
            changes["writes"] = self.regions(block.writes)
        return block.replace(match_buffers=matched, **changes)

    def match(self, match):
        new = self.new.get(match.source.buffer)
        if new is None:
            return match
        self.new[match.buffer] = match.buffer.replace(scope=new.scope)
        return match.replace(buffer=self.new[match.buffer], source=match.source.replace(buffer=new))

    def regions(self, regions):
        return tuple(r.replace(buffer=self.new.get(r.buffer, r.buffer), region=self.shifted(r)) for r in regions)

    def shifted(self, region):
        """The Ranges of a region in what stands for its buffer; loads among their bounds are redirected too."""
        ranges = self.visit(region.region)
        return tuple(Range(low, r.extent) for low, r in zip(self.at(region.buffer, [r.min for r in ranges]), ranges))


def redirect(block, old, new, stores=True, origin=None):
    """A block that uses buffer `new` wherever it used `old`; only its loads when not `stores`. origin: where in the old
    one the new one begins, of a block without pointers to it (default: both are of one shape)."""
    return _Redirect(old, new, stores, origin).visit(block)


def only_indexes(block, buffer):
    """Whether loads and stores by index are all that a block does with a buffer: no matched buffer, no pointer."""
    matched = any(m.source.buffer is buffer for m in collect(block, MatchBufferRegion))
    return not matched and not _is_pointed_at(buffer, (block.init, block.body))


def require_plain_pointers(ctx, realizes, buffer, argument):
    """Refuse where blocks use pointers into a buffer with a layout of its own: a copy, which is compact and begins where
    its memory does, has its elements elsewhere."""
    if is_const_int(buffer.elem_offset, 0) and buffer.is_row_major:
        return
    for realize in realizes:
        if _is_pointed_at(buffer, (realize.block.init, realize.block.body)):
            ctx.refuse(argument, f"block {name_of(realize)} uses a pointer into {buffer.name}, which has strides or an "
                       "offset", "index the buffer, or match_buffer a part of it", [realize])


def is_leaf(block, buffer=None):
    """Whether a block touches buffers only by loads and stores of its own: no nested block, no matched buffer; and no
    pointer to `buffer`."""
    inside = block.init, block.body
    return not (block.match_buffers or collect(inside, Block) or buffer is not None and _is_pointed_at(buffer, inside))


def _is_pointed_at(buffer, stmt):
    """Whether a statement uses a buffer's data, or the address of an element."""
    class Pointers(Visitor):
        found = False

        def visit_Call(self, call):
            if call.op == "tir.address_of":
                self.found = self.found or any(load.buffer is buffer for load in collect(call, BufferLoad))
            self.generic_visit(call)

        def visit_Var(self, v):
            self.found = self.found or v is buffer.data

        def visit_Buffer(self, _):
            pass

    pointers = Pointers()
    pointers.visit(stmt)
    return pointers.found


def stays_inside(block, indices, ranges):
    """Whether point indices provably lie in the Ranges, whatever the block's iterators are."""
    analyzer = domain_analyzer(block)
    return all(analyzer.can_prove(index >= r.min) and analyzer.can_prove(index < r.min + r.extent)
               for index, r in zip(indices, ranges))


def loads_of(root, buffer):
    """The loads of one buffer under `root`."""
    return [load for load in collect(root, BufferLoad) if load.buffer is buffer]
