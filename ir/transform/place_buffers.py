"""Where temporaries live: each buffer is declared in the innermost loop that holds all its uses, and no larger than
what is used there."""
from __future__ import annotations

from dataclasses import dataclass

from ..arith import Analyzer
from ..arith.int_set import limits_of
from ..arith.linear import DoesNotFit, render, shifted
from ..arith.relax import relax
from ..expr import Call, IntImm, Range, as_expr, const
from ..node import Mutator, Visitor, collect
from ..tir.buffer import decl_buffer
from ..tir.stmt import BufferLoad, DeclBuffer, Evaluate, seq


def place_buffers(body, buffers, carried):
    """`body` with each of `buffers` declared where it belongs and its indices rebased; buffers that nothing needs are
    gone, with the stores to them.

    carried: {id(buffer): ids of loop variables whose turns hand the buffer's contents on}. A buffer stays outside such
    loops, outside loops whose turn reads it first, and outside vectorized loops, whose lanes would share it.
    """
    scan = _Scan(buffers)
    scan.visit(body)
    needed = scan.needed()
    at_home, top = {}, []
    for b in buffers:
        if id(b) in needed and scan.uses.get(id(b)):
            home = scan.home(b, carried.get(id(b), ()))
            new, corner = _compact(b, home, scan)
            place = at_home.setdefault(id(home[-1].loop_var), []) if home else top
            place.append((b, new, corner))
    dead = {id(b) for b in buffers if id(b) not in needed}
    return _Place(at_home, dead).declare(top, body)


@dataclass(frozen=True)
class _Use:
    """One access: the loops around it, outermost first, and its indices."""

    loops: tuple
    indices: tuple


class _Scan(Visitor):
    """Every access to the given buffers; which loops read a buffer before they write it; what each store needs."""

    def __init__(self, buffers):
        self.uses = {id(b): [] for b in buffers}
        self.loops = ()
        self.written_first = {}  # (id(buffer), id(loop variable)) -> whether the loop's first access is a store
        self.sources = {}        # id(buffer) -> ids of buffers that the values stored in it are made of
        self.wanted = set()      # ids of buffers that something other than a store to a temporary reads
        self.whole = set()       # ids of buffers whose address is taken
        self.analyzer = Analyzer()

    def visit_Call(self, call):
        if call.op == "tir.address_of":
            self.whole.add(id(call.args[0].buffer))
        self.generic_visit(call)

    def visit_For(self, loop):
        self.visit((loop.min, loop.extent))
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
        self.loops += (loop,)
        self.visit(loop.body)
        self.loops = self.loops[:-1]

    def visit_BufferStore(self, store):
        loads = collect((store.value, store.indices), (BufferLoad, Call))
        if id(store.buffer) in self.uses and not any(_impure(e) for e in loads):
            loads = [e for e in loads if isinstance(e, BufferLoad)]
            self.sources.setdefault(id(store.buffer), set()).update(id(e.buffer) for e in loads)
            for e in loads:
                self._record(e.buffer, e.indices, False)
        else:
            self.wanted.add(id(store.buffer))
            self.visit((store.value, store.indices))
        self._record(store.buffer, store.indices, True)

    def visit_BufferLoad(self, load):
        self.visit(load.indices)
        self.wanted.add(id(load.buffer))
        self._record(load.buffer, load.indices, False)

    def visit_Buffer(self, _):
        pass

    def _record(self, buffer, indices, writes):
        uses = self.uses.get(id(buffer))
        if uses is not None:
            uses.append(_Use(self.loops, indices))
            for loop in self.loops:
                self.written_first.setdefault((id(buffer), id(loop.loop_var)), writes)

    def needed(self):
        """Ids of the buffers whose contents reach something other than temporaries."""
        found, front = set(), list(self.wanted)
        while front:
            key = front.pop()
            if key not in found:
                found.add(key)
                front.extend(self.sources.get(key, ()))
        return found

    def home(self, buffer, carried):
        """The loops, outermost first, inside which the buffer may be declared."""
        uses = self.uses[id(buffer)]
        shared = uses[0].loops
        for use in uses[1:]:
            count = 0
            while count < min(len(shared), len(use.loops)) and shared[count] is use.loops[count]:
                count += 1
            shared = shared[:count]
        for n, loop in enumerate(shared):
            key = id(loop.loop_var)
            if key in carried or loop.kind == "vectorized" or not self.written_first[id(buffer), key]:
                return shared[:n]
        return shared


def _impure(e):
    return isinstance(e, Call) and e.op == "tir.call_extern"


# ---------------------------------------------------------------- compaction

def _compact(buffer, home, scan):
    """(buffer shrunk to the box that its uses touch while the loops inside `home` run, the box's corner)."""
    if id(buffer) in scan.whole:
        return buffer, [const(0, extent.dtype) for extent in buffer.shape]
    scope, shape, corner = buffer.scope, [], []
    for dim, extent in enumerate(buffer.shape):
        low, size = _interval(buffer, dim, len(home), scan) or (const(0, extent.dtype), extent)
        shape.append(size)
        corner.append(low)
    if all(isinstance(s, IntImm) and s.value == 1 for s in shape):
        scope = "local"  # one element: a plain variable
    return decl_buffer(shape, buffer.dtype, buffer.name, scope, data_alignment=buffer.data_alignment), corner


def _interval(buffer, dim, depth, scan):
    """(least index, size) of one dimension over all uses; None where it is not known to be smaller than the buffer."""
    an, extent, seen = scan.analyzer, buffer.shape[dim], set()
    low = high = None
    for use in scan.uses[id(buffer)]:
        form = None if buffer.strides else _form(an, use.indices[dim])
        if form is None:
            return None
        inner = use.loops[depth:]
        if (form.key, inner) in seen:
            continue
        seen.add((form.key, inner))
        limits = limits_of(an, {loop.loop_var: Range(loop.min, loop.extent) for loop in inner})
        first, last = relax(an, form, False, limits), relax(an, form, True, limits)
        if first is None or last is None:
            return None
        low = first if low is None else _lesser(an, low, first)
        high = last if high is None else _lesser(an, last, high, take_second=True)
        if low is None or high is None:
            return None
    return _sized(an, low, high, extent)


def _form(an, index):
    """The normal form of an index; None when it depends on data."""
    return None if collect(index, BufferLoad) else an.canonical.linear(index)


def _lesser(an, a, b, take_second=False):
    """The lesser of two forms (the greater with take_second), None when their order is not known."""
    if a.key == b.key or an.nonnegative(an.canonical.add(b, a, -1)):
        return b if take_second else a
    if an.nonnegative(an.canonical.add(a, b, -1)):
        return a if take_second else b
    return None


def _sized(an, low, high, extent):
    try:
        span = shifted(an.canonical.add(high, low, -1), 1)
        bound = an.const_int_bound(render(span, extent.dtype)).max_value
        if bound is None or (isinstance(extent, IntImm) and bound > extent.value):
            return None
        return render(low, extent.dtype), const(bound, extent.dtype)
    except DoesNotFit:
        return None


# ---------------------------------------------------------------- rewriting

class _Place(Mutator):
    """Declares buffers at their homes, rebases their indices and drops stores to dead ones."""

    def __init__(self, at_home, dead):
        self.at_home, self.dead = at_home, dead
        self.replacement = {}  # id(old buffer) -> (new buffer, corner)

    def visit_For(self, loop):
        return loop.replace(body=self.declare(self.at_home.get(id(loop.loop_var), ()), loop.body))

    def declare(self, placed, body):
        """`body` rewritten, with the buffers of `placed` [(old, new, corner)] declared around it."""
        self.replacement.update((id(old), (new, corner)) for old, new, corner in placed)
        body = self.visit(body)
        for _, new, _ in reversed(placed):
            body = DeclBuffer(new, body)
        return body

    def visit_SeqStmt(self, s):
        return seq(*(self.visit(x) for x in s.seq))

    def visit_BufferLoad(self, load):
        return self._rebased(self.generic_visit(load))

    def visit_BufferStore(self, store):
        if id(store.buffer) in self.dead:
            return Evaluate(const(0))
        return self._rebased(self.generic_visit(store))

    def _rebased(self, access):
        found = self.replacement.get(id(access.buffer))
        if found is None:
            return access
        new, corner = found
        return access.replace(buffer=new, indices=tuple(i - as_expr(o) for i, o in zip(access.indices, corner)))
