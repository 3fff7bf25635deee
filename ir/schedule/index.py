"""Index: where the loops and blocks of a function are, from one walk over its statements; and rewriting by place."""
from __future__ import annotations

from ..names import unique_name
from ..node import Mutator, collect
from ..tir.stmt import (AssertStmt, AttrStmt, Block, BlockRealize, DeclBuffer, For, IfThenElse, LetStmt, SeqStmt, While,
                        seq)

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


def with_names(func):
    """The function with a name for each block that has none, where several have none: handles go by names."""
    found = collect(func.body, Block)
    if sum(not block.name_hint for block in found) < 2:
        return func
    return func.replace(body=_WithNames({block.name_hint for block in found}).visit(func.body))


class _WithNames(Mutator):
    def __init__(self, taken):
        self.taken = taken

    def visit_Block(self, block):
        name = block.name_hint or unique_name("block", self.taken)
        self.taken.add(name)
        return self.generic_visit(block).replace(name_hint=name)


class Index:
    """Lookup tables of one PrimFunc. Statements and buffers hash by identity.

    loops: {loop Var: For}; blocks: {name: BlockRealize}, in execution order; order: {BlockRealize: position};
    names: those of all blocks, those inside inits too.
    """

    def __init__(self, func):
        self.func = func
        self.loops, self.blocks, self.order, self.names = {}, {}, {}, set()
        self._parent = {}
        self._owners = {}    # allocated buffer -> the BlockRealize that allocates it
        self._sources = {}   # matched buffer -> the buffer that it is a part of
        self._accesses = {}  # scope -> ({buffer: readers}, {buffer: writers})
        self._walk(func.body, None)

    def _walk(self, stmt, parent):
        self._parent[stmt] = parent
        if type(stmt) is For:
            self.loops[stmt.loop_var] = stmt
        elif type(stmt) is BlockRealize:
            self.order[stmt] = len(self.blocks)
            self.blocks[stmt.block.name_hint] = stmt
            self.names.add(stmt.block.name_hint)
            if stmt.block.init is not None:
                self.names.update(b.name_hint for b in collect(stmt.block.init, Block))
            for buffer in stmt.block.alloc_buffers:
                self._owners[buffer] = stmt
            for match in stmt.block.match_buffers:
                self._sources[match.buffer] = match.source.buffer
        for child in statements_below(stmt):
            self._walk(child, stmt)

    # ------------------------------------------------------------ asking

    def parent(self, stmt):
        """The statement directly above; None for the function's body."""
        return self._parent[stmt]

    def ancestors(self, stmt):
        """The statements above, innermost first, up to and including the enclosing block's realize."""
        above = self._parent[stmt]
        while above is not None:
            yield above
            if type(above) is BlockRealize:
                return
            above = self._parent[above]

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
        return self._owners.get(buffer)

    def children(self, scope):
        """The blocks directly inside a scope, in execution order."""
        return blocks_below(scope.block.body)

    def readers(self, buffer, scope):
        """The blocks of a scope whose signature reads the buffer, in execution order."""
        return self._access(scope)[0].get(buffer, ())

    def writers(self, buffer, scope):
        """The blocks of a scope whose signature writes the buffer, in execution order."""
        return self._access(scope)[1].get(buffer, ())

    def aliases(self, scope):
        """Two buffers that blocks of a scope touch and that are parts of one, the first one written; None: no such."""
        readers, writers = self._access(scope)
        known = {}
        for buffer in (*writers, *readers):
            whole = buffer
            while whole in self._sources:
                whole = self._sources[whole]
            first = known.setdefault(whole, buffer)
            if first is not buffer and first in writers:
                return first, buffer
        return None

    def _access(self, scope):
        if scope not in self._accesses:
            tables = {}, {}
            for realize in self.children(scope):
                for regions, table in zip((realize.block.reads, realize.block.writes), tables):
                    for buffer in dict.fromkeys(r.buffer for r in regions):
                        table.setdefault(buffer, []).append(realize)
            self._accesses[scope] = tables
        return self._accesses[scope]

    # ------------------------------------------------------------ rewriting

    def rewrite(self, changes, allocs=None):
        """The function with statements replaced: `changes` maps a statement to its replacement, None to drop it.

        Loops and sequences that become empty go too. `allocs` maps a BlockRealize to its new alloc_buffers.
        Statements off the changed paths are shared with the old function.
        """
        allocs = allocs or {}
        dirty = set(allocs)
        for stmt in (*changes, *allocs):
            above = self._parent[stmt]
            while above is not None and above not in dirty:
                dirty.add(above)
                above = self._parent[above]
        return self.func.replace(body=_Rewriter(changes, dirty, allocs).visit(self.func.body))


class _Rewriter:
    def __init__(self, changes, dirty, allocs):
        self.changes, self.dirty, self.allocs = changes, dirty, allocs

    def visit(self, stmt):
        if stmt in self.changes:
            return self.changes[stmt]
        if stmt not in self.dirty:
            return stmt
        if type(stmt) is SeqStmt:
            kept = [s for s in map(self.visit, stmt.seq) if s is not None]
            return seq(*kept) if kept else None
        if type(stmt) is BlockRealize:
            return self._block(stmt)
        new = {f: self.visit(getattr(stmt, f)) for f in _BODIES[type(stmt)] if getattr(stmt, f) is not None}
        if type(stmt) is IfThenElse:
            return stmt.replace(**{**new, "then_case": new["then_case"] or seq()})
        return None if new["body"] is None else stmt.replace(**new)

    def _block(self, realize):
        block = realize.block
        body = self.visit(block.body)
        return realize.replace(block=block.replace(body=seq() if body is None else body,
                                                   alloc_buffers=self.allocs.get(realize, block.alloc_buffers)))


def sequence(stmt):
    """The statements of a body as a list."""
    return list(stmt.seq) if isinstance(stmt, SeqStmt) else [stmt]
