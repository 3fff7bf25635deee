"""StorageRewrite: temporaries of one scope whose lives do not overlap share memory."""
from __future__ import annotations

from ..expr import IntImm
from ..node import Mutator, collect, structural_equal
from ..tir.stmt import BufferLoad, BufferStore, DeclBuffer, SeqStmt


def storage_rewrite(func):
    """Requires flat buffers and no views. Ensures that of buffers declared together (none between them), one that is
    first used in a later statement than another was last used takes its memory, where dtype, scope and alignment agree,
    and sizes are constant (the larger holds) or equal. Buffers of scope "local" stay: they are the C compiler's to
    place. So do shared ones: their space is planned where barriers are known (MergeSharedMemoryAllocations)."""
    return func.replace(body=_Share().visit(func.body))


class _Share(Mutator):
    def __init__(self):
        self.replaced = {}  # id(buffer) -> the buffer in its place

    def visit_DeclBuffer(self, decl):
        declared, inner = [], decl
        while isinstance(inner, DeclBuffer):
            declared.append(inner.buffer)
            inner = inner.body
        several = len(declared) > 1 and isinstance(inner, SeqStmt)
        buffers = self._shared(declared, inner.seq) if several else declared
        body = self.visit(inner)
        if body is inner and len(buffers) == len(declared):
            return decl
        for b in reversed(buffers):
            body = DeclBuffer(b, body)
        return body

    def _shared(self, buffers, stmts):
        """The buffers that remain; `replaced` maps the others."""
        life = {}  # id(buffer) -> [number of the first statement that uses it, of the last]
        for n, s in enumerate(stmts):
            for access in collect(s, (BufferLoad, BufferStore)):
                life.setdefault(id(access.buffer), [n, n])[1] = n
        slots = []  # [the buffers that share one]
        for b in sorted(buffers, key=lambda b: life.get(id(b), (0, 0))[0]):
            used = [s for s in slots if id(s[-1]) in life] if id(b) in life else ()
            fitting = (s for s in used if life[id(s[-1])][1] < life[id(b)][0] and _fits(s[0], b))
            slot = next(iter(fitting), None)
            slots.append([b]) if slot is None else slot.append(b)
        for slot in (s for s in slots if len(s) > 1):
            new = max(slot, key=lambda b: b.shape[0].value if isinstance(b.shape[0], IntImm) else 0)
            new = slot[0].replace(shape=new.shape)
            self.replaced.update((id(b), new) for b in slot)
        first = {id(slot[0]) for slot in slots}
        return [self.replaced.get(id(b), b) for b in buffers if id(b) in first]

    def _access(self, node):
        node = self.generic_visit(node) if self.replaced else node
        return node.replace(buffer=self.replaced.get(id(node.buffer), node.buffer))

    visit_BufferLoad = visit_BufferStore = _access


def _fits(a, b):
    """Whether two buffers may be one."""
    sizes = isinstance(a.shape[0], IntImm) and isinstance(b.shape[0], IntImm) or structural_equal(a.shape, b.shape)
    return sizes and not a.scope.startswith(("local", "shared", "warp")) and (a.dtype, a.scope, a.data_alignment) == (
        b.dtype, b.scope, b.data_alignment)
