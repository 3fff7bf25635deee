"""Index: where the loops and blocks of a function are, from one walk over its statements; and rewriting by place."""
from __future__ import annotations

from ..tir.stmt import (AssertStmt, AttrStmt, BlockRealize, DeclBuffer, For, IfThenElse, LetStmt, SeqStmt, Stmt,
                        While, seq)

# Which fields of a statement hold statements that execute once each time it does, or more.
_BODIES = {For: ("body",), IfThenElse: ("then_case", "else_case"), LetStmt: ("body",), AttrStmt: ("body",),
           AssertStmt: ("body",), DeclBuffer: ("body",), While: ("body",)}


def statements_below(stmt):
    """The statements directly below one, in execution order; a block's body counts, its init does not."""
    kind = type(stmt)
    if kind is SeqStmt:
        return stmt.seq
    if kind is BlockRealize:
        return (stmt.block.body,)
    return [s for s in (getattr(stmt, f) for f in _BODIES.get(kind, ())) if s is not None]


def blocks_below(stmt):
    """The outermost BlockRealizes under a statement (itself included), in execution order."""
    if isinstance(stmt, BlockRealize):
        return [stmt]
    return [b for s in statements_below(stmt) for b in blocks_below(s)]


def loops_below(stmt):
    """The loops under a statement (itself included) and outside its blocks, outermost first."""
    if isinstance(stmt, BlockRealize):
        return []
    own = [stmt] if isinstance(stmt, For) else []
    return own + [loop for s in statements_below(stmt) for loop in loops_below(s)]


class Index:
    """Lookup tables of one PrimFunc. Statements are looked up by identity.

    loops: {loop Var: For}; blocks: {name: BlockRealize}, in execution order; order: {id of a realize: position}.
    """

    def __init__(self, func):
        self.func = func
        self.loops, self.blocks, self.order = {}, {}, {}
        self._parent = {}
        self._owners = {}  # id of an allocated buffer -> the BlockRealize that allocates it
        self._accesses = None
        self._walk(func.body, None)

    def _walk(self, stmt, parent):
        self._parent[id(stmt)] = parent
        if type(stmt) is For:
            self.loops[stmt.loop_var] = stmt
        elif type(stmt) is BlockRealize:
            self.order[id(stmt)] = len(self.blocks)
            self.blocks[stmt.block.name_hint] = stmt
            for buffer in stmt.block.alloc_buffers:
                self._owners[id(buffer)] = stmt
        for child in statements_below(stmt):
            self._walk(child, stmt)

    # ------------------------------------------------------------ asking

    def parent(self, stmt):
        """The statement directly above; None for the function's body."""
        return self._parent[id(stmt)]

    def ancestors(self, stmt):
        """The statements above, innermost first, up to and including the enclosing block's realize."""
        above = self._parent[id(stmt)]
        while above is not None:
            yield above
            if type(above) is BlockRealize:
                return
            above = self._parent[id(above)]

    def scope(self, stmt):
        """The BlockRealize around a statement; None for the root."""
        for above in self.ancestors(stmt):
            if type(above) is BlockRealize:
                return above
        return None

    def loops_above(self, stmt):
        """The loops around a statement within its scope, outermost first."""
        return [s for s in self.ancestors(stmt) if type(s) is For][::-1]

    def is_below(self, stmt, above):
        """Whether `stmt` is `above` or lies under it, within one scope."""
        return stmt is above or any(s is above for s in self.ancestors(stmt))

    def owner(self, buffer):
        """The BlockRealize that allocates a buffer; None for a parameter's."""
        return self._owners.get(id(buffer))

    def children(self, scope):
        """The blocks directly inside a scope, in execution order."""
        return blocks_below(scope.block.body)

    def readers(self, buffer, scope):
        """The blocks of a scope whose signature reads the buffer, in execution order."""
        return self._access(scope)[0].get(id(buffer), ())

    def writers(self, buffer, scope):
        """The blocks of a scope whose signature writes the buffer, in execution order."""
        return self._access(scope)[1].get(id(buffer), ())

    def _access(self, scope):
        if self._accesses is None:
            self._accesses = {}
        if id(scope) not in self._accesses:
            tables = {}, {}
            for realize in self.children(scope):
                for regions, table in zip((realize.block.reads, realize.block.writes), tables):
                    for buffer in {id(r.buffer): r.buffer for r in regions}.values():
                        table.setdefault(id(buffer), []).append(realize)
            self._accesses[id(scope)] = tables
        return self._accesses[id(scope)]

    # ------------------------------------------------------------ rewriting

    def rewrite(self, changes, allocate=(), release=(), scope=None):
        """The function with statements replaced: `changes` maps id(statement) to its replacement, None to drop it.

        Loops and sequences that become empty go too. `allocate` are buffers new in `scope` (default: the root
        block), `release` buffers that go wherever they are allocated. Statements off the changed paths are shared.
        """
        add = {id(scope or self.func.body): tuple(allocate)} if allocate else {}
        drop = {id(b) for b in release}
        touched = [self.owner(b) for b in release] + ([scope or self.func.body] if allocate else [])
        dirty = {id(s) for s in touched}
        for key in [*changes, *(id(s) for s in touched)]:
            above = self._parent[key]
            while above is not None and id(above) not in dirty:
                dirty.add(id(above))
                above = self._parent[id(above)]
            while above is not None:  # the rest of the path may be dirty only through `touched`
                dirty.add(id(above))
                above = self._parent[id(above)]
        return self.func.replace(body=_Rewriter(changes, dirty, add, drop).visit(self.func.body))


class _Rewriter:
    def __init__(self, changes, dirty, add, drop):
        self.changes, self.dirty, self.add, self.drop = changes, dirty, add, drop

    def visit(self, stmt):
        if id(stmt) in self.changes:
            return self.changes[id(stmt)]
        if id(stmt) not in self.dirty:
            return stmt
        if type(stmt) is SeqStmt:
            kept = [s for s in map(self.visit, stmt.seq) if s is not None]
            return seq(*kept) if kept else None
        if type(stmt) is BlockRealize:
            return self._block(stmt)
        new = {f: self.visit(getattr(stmt, f)) for f in _BODIES[type(stmt)] if getattr(stmt, f) is not None}
        if isinstance(stmt, IfThenElse):
            new["then_case"] = new["then_case"] or seq()
            return stmt.replace(**new)
        return None if new["body"] is None else stmt.replace(**new)

    def _block(self, realize):
        block = realize.block
        allocs = tuple(b for b in block.alloc_buffers if id(b) not in self.drop) + self.add.get(id(realize), ())
        body = self.visit(block.body)
        return realize.replace(block=block.replace(body=seq() if body is None else body, alloc_buffers=allocs))


def sequence(stmt):
    """The statements of a body as a list."""
    return list(stmt.seq) if isinstance(stmt, SeqStmt) else [stmt]


__all__ = ["Index", "Stmt", "blocks_below", "loops_below", "sequence", "statements_below"]
