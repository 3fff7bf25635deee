"""InjectDoubleBuffer as scripts know it: what fills a flat buffer in a loop, under an attribute double_buffer_scope,
runs once before the loop and then an iteration ahead, into the other half of memory of twice the size."""
from __future__ import annotations

from ...arith import Analyzer
from ...expr import Var, const, is_const_int, substitute
from ...node import Mutator, collect
from ...tir.stmt import AttrStmt, DeclBuffer, For, IfThenElse, seq, statements
from ..gpu.software_pipeline import inject_double_buffer as annotate_pipelines
from ..walk import StmtMutator
from .ssa import with_own_variables

SCOPE, WRITE = "double_buffer_scope", "double_buffer_write"


def inject_double_buffer(func, split_loop=1):
    """Requires that what fills such memory reads nothing that the loop writes besides. Ensures no attribute
    double_buffer_scope: the loop around it reads one half of the memory while it fills the
    other one for its next iteration, `split_loop` (1, or even) iterations a turn; 0: one, under a condition that there
    is a next one. Blocks that say double_buffer_scope are annotated for a software pipeline instead.

    Raises ValueError for memory that is not flat, is written outside of that scope or read outside of that loop, for a
    loop that does not begin at 0, and for a split that is odd."""
    func = annotate_pipelines(func)
    memories = {_pointer(a) for a in collect(func.body, AttrStmt) if a.attr_key == SCOPE}
    if not memories:
        return func
    if split_loop != 1 and split_loop % 2:
        raise ValueError(f"InjectDoubleBuffer: split_loop is 1 or even, not {split_loop}")
    return with_own_variables(func.replace(body=_Inject(memories, split_loop).visit(func.body)))


def _pointer(attr):
    """The data pointer of what an attribute is about, a buffer or that pointer."""
    return getattr(attr.target, "data", attr.target)


def _filled_in(loop):
    """The data pointers of which a loop, and no loop in it, is around the scope."""
    stack, found = [loop.body], []
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, AttrStmt) and stmt.attr_key == SCOPE:
            found.append(_pointer(stmt))
        stack += () if isinstance(stmt, For) else statements(stmt)
    return found


class _Inject(Mutator):
    def __init__(self, memories, split):
        self.memories, self.split = memories, split
        self.loops = []    # around the statement at hand
        self.sizes = {}    # data pointer -> elements of a half
        self.loop_of = {}  # data pointer -> the loop that fills it
        self.before = {}   # id of a loop -> what runs before it
        self.outside = {}  # id of a loop -> buffers to be allocated around it
        self.buffers = {}  # id of a buffer -> (itself, the one of twice its size)
        self.half = {}     # data pointer -> the half that is written, in its scope

    def visit_DeclBuffer(self, decl):
        b = decl.buffer
        if b.data not in self.memories:
            return self.generic_visit(decl)
        if len(b.shape) != 1:
            raise ValueError(f"InjectDoubleBuffer: buffer {b.name} has {len(b.shape)} dimensions; run FlattenBuffer")
        self.sizes[b.data] = b.shape[0]
        body, loop = self.visit(decl.body), self.loop_of.get(b.data)
        if not any(loop is x for x in self.loops):  # it is outside already
            return DeclBuffer(self._doubled(b), body)
        self.outside.setdefault(id(loop), []).append(self._doubled(b))
        return body

    def _doubled(self, buffer):
        if id(buffer) not in self.buffers:
            size = buffer.shape[0] + self.sizes[buffer.data]
            self.buffers[id(buffer)] = buffer, buffer.replace(shape=(size,))
        return self.buffers[id(buffer)][1]

    def visit_For(self, loop):
        self.loop_of.update((data, loop) for data in _filled_in(loop))
        self.loops.append(loop)
        made = self.generic_visit(loop)
        self.loops.pop()
        if id(loop) in self.before:
            if not is_const_int(loop.min, 0):
                raise ValueError(f"InjectDoubleBuffer: loop {loop.loop_var.name} begins at {loop.min}; it must begin "
                                 "at 0")
            made = seq(*self.before[id(loop)], *self._split(made))
            if not Analyzer().can_prove(loop.extent > 0):  # nothing is filled for a loop that does not run
                made = IfThenElse(loop.extent > 0, made)
        for buffer in reversed(self.outside.get(id(loop), ())):
            made = DeclBuffer(buffer, made)
        return made

    def _split(self, loop):
        """All iterations but the last, some in a turn, then those that are left."""
        v, count = loop.loop_var, self.split
        if count == 0:
            return [loop]
        outer, numbers = Var(f"{v.name}_outer", v.dtype), [const(n, v.dtype) for n in range(count + 1)]
        turns = (loop.extent - const(1, v.dtype)) // numbers[-1]
        main = [substitute(loop.body, {v: outer * numbers[-1] + n}) for n in numbers[:-1]]
        left, body = [turns * numbers[-1] + n for n in numbers[:-1]], _WithoutAttribute().visit(loop.body)
        return [loop.replace(loop_var=outer, extent=turns, body=seq(*main)),
                *(IfThenElse(at < loop.extent, substitute(body, {v: at})) for at in left)]

    def visit_AttrStmt(self, attr):
        if attr.attr_key != SCOPE:
            return self.generic_visit(attr)
        data = _pointer(attr)
        loop = self.loop_of.get(data)
        if loop is None:
            raise ValueError(f"InjectDoubleBuffer: no loop is around the {SCOPE} of buffer {attr.target.name}")
        v, one = loop.loop_var, const(1, loop.loop_var.dtype)
        half = self.half[data] = Var("half", v.dtype)
        body = self.visit(attr.body)
        del self.half[data]
        self.before.setdefault(id(loop), []).append(substitute(body, {half: const(0, v.dtype), v: const(0, v.dtype)}))
        ahead = substitute(body, {half: (v + one) % const(2, v.dtype), v: v + one})
        target = data if attr.target is data else self._doubled(attr.target)
        return IfThenElse(v + one < loop.extent, AttrStmt(target, WRITE, const(1), ahead))

    def _moved(self, access, half):
        return access.replace(buffer=self._doubled(access.buffer),
                              indices=(half * self.sizes[access.buffer.data] + access.indices[0],))

    def visit_BufferStore(self, store):
        store, data = self.generic_visit(store), store.buffer.data
        if data in self.memories and data not in self.half:
            raise ValueError(f"InjectDoubleBuffer: buffer {store.buffer.name} is written outside of its {SCOPE}")
        return self._moved(store, self.half[data]) if data in self.memories else store

    def visit_BufferLoad(self, load):
        load, data = self.generic_visit(load), load.buffer.data
        if data not in self.memories:
            return load
        loop = self.loop_of.get(data)
        if not any(loop is x for x in self.loops):
            raise ValueError(f"InjectDoubleBuffer: buffer {load.buffer.name} is read outside of the loop that fills it")
        return self._moved(load, loop.loop_var % const(2, loop.loop_var.dtype))


class _WithoutAttribute(StmtMutator):
    def visit_AttrStmt(self, attr):
        return self.visit(attr.body) if attr.attr_key == WRITE else super().visit_AttrStmt(attr)
