"""ScheduleState: what a schedule knows of its program, to look at: where statements are, and what blocks promise."""
from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from operator import is_

from ..arith import is_affine_binding
from ..module import IRModule
from ..tir.function import PrimFunc
from ..tir.signatures import completed
from ..tir.stmt import Block, BlockRealize, For, SeqStmt
from ..tir.verifier import verify
from .blocks import buffers_of, why_not_complete, why_not_reduction
from .context import analyzer_of, ranges_of
from .dependence import region_cover
from .index import Index, statements_below


class StmtSRef:
    """A block (as its Block) or loop of a ScheduleState, followed as the program changes.

    stmt: None once it is gone; parent: the block or loop that it lies in, None of a function's root block; seq_index:
    its position in the sequence that it is directly in, -1 in none.
    """

    __slots__ = ("stmt", "parent", "seq_index")

    def __init__(self, stmt=None, parent=None, seq_index=-1):
        self.stmt, self.parent, self.seq_index = stmt, parent, seq_index

    @staticmethod
    def inline_mark():
        """What stands for no loop, but tells compute_at to inline."""
        return _MARKS["inline"]

    @staticmethod
    def root_mark():
        """What stands for no loop, but tells compute_at to do nothing."""
        return _MARKS["root"]

    def same_as(self, other):
        """Whether both are one object."""
        return self is other

    def __repr__(self):
        if self.stmt is None:
            return "StmtSRef(None)"
        name = self.stmt.name_hint if type(self.stmt) is Block else self.stmt.loop_var.name
        return f"StmtSRef({type(self.stmt).__name__} {name})"


_MARKS = {"inline": StmtSRef(), "root": StmtSRef()}


class DepKind(IntEnum):
    """Why a block must stay behind another one: it reads or writes what that wrote, or writes what that read."""

    RAW = 0
    WAW = 1
    WAR = 2
    OPAQUE = 3


@dataclass(frozen=True)
class Dependency:
    """That block `dst` must stay behind block `src`, both StmtSRefs, for the reason `kind`."""

    src: StmtSRef
    dst: StmtSRef
    kind: DepKind


@dataclass(frozen=True)
class BlockScope:
    """The Dependencies between the blocks directly inside one."""

    dependencies: tuple

    def get_deps_by_src(self, block):
        """Those of blocks that must stay behind the block of a StmtSRef."""
        return [d for d in self.dependencies if d.src is block]

    def get_deps_by_dst(self, block):
        """Those of blocks that the block of a StmtSRef must stay behind."""
        return [d for d in self.dependencies if d.dst is block]


@dataclass(frozen=True)
class BlockInfo:
    """Proven properties of a block; False also means "not known".

    affine_binding: its loops run each instance of a box of them once; region_cover: whatever it reads of the buffers
    of its scope was written before, in the same iteration of the loops shared with the writer; stage_pipeline: of a
    block that holds others, that these all have region cover and no buffer is written after it was read; is_complete,
    is_reduction: its kind, where the root block is neither.
    """

    affine_binding: bool
    region_cover: bool
    stage_pipeline: bool
    is_complete: bool
    is_reduction: bool


@dataclass(frozen=True)
class CachedFlags:
    """What TVM calls the three first properties of BlockInfo."""

    affine_binding: bool
    region_cover: bool
    stage_pipeline: bool


class ScheduleDebugMask(IntFlag):
    """The bits of debug_mask, each of which asks for verification after every step."""

    VERIFY_SREF_TREE = 1
    VERIFY_CACHED_FLAGS = 2


def parse_module(mod):
    """An IRModule of an IRModule or a PrimFunc, which is called main there. Signatures of blocks that leave something
    out are completed, with a warning, since all that is proved rests on them."""
    if isinstance(mod, PrimFunc):
        mod = IRModule({"main": mod})
    if not isinstance(mod, IRModule):
        raise TypeError(f"Schedule takes an IRModule or a PrimFunc, not a {type(mod).__name__}")
    functions = {name: completed(f) if isinstance(f, PrimFunc) else f for name, f in mod.functions.items()}
    return mod if all(map(is_, functions.values(), mod.functions.values())) else mod.with_functions(functions)


def parse_mask(debug_mask):
    """The bits of "all", "none" or a number."""
    mask = {"none": 0, "all": 3}.get(debug_mask, debug_mask)
    if not isinstance(mask, int) or isinstance(mask, bool) or not 0 <= mask <= 3:
        raise ValueError(f"debug_mask is {debug_mask!r}; known: all, none, or bits from 0 to 3")
    return int(mask)


class ScheduleState:
    """The blocks and loops of a module (or of a PrimFunc, as its "main"), each with one StmtSRef.

    That of a Schedule follows its primitives. One of a script's own may `replace` statements, which proves nothing.
    """

    def __init__(self, mod, *, debug_mask="none", enable_check=True, read_only=False):
        self.mod, self.debug_mask, self.enable_check = parse_module(mod), parse_mask(debug_mask), enable_check
        self._read_only, self._indices, self._srefs = read_only, {}, {}
        for func in self.mod.functions.values():
            if isinstance(func, PrimFunc):
                verify(func)
        self.follow(self.mod)

    def follow(self, mod, reused=None):
        """Take another module. StmtSRefs stay those of the loop with their variable, and of the block with their name.
        reused: {old Block: new} of blocks that have another one."""
        reused, self.mod = {old: new for old, new in (reused or {}).items()}, mod
        old = {}  # what tells a statement in its function -> its StmtSRef
        for name, index in self._indices.items():
            for stmt in (*index.loops.values(), *index.blocks.values()):
                sref = self._srefs[stmt]
                old[name, reused.get(sref.stmt) or _told_by(stmt)] = sref
                sref.stmt = sref.parent = None
        self._srefs = {}
        for name, func in mod.functions.items():
            if isinstance(func, PrimFunc):
                if name not in self._indices or self._indices[name].func is not func:
                    self._indices[name] = Index(func)
                self._enter(name, old, func.body, None, -1)

    def _enter(self, name, old, stmt, parent, position):
        if type(stmt) in (For, BlockRealize):
            sref = old.get((name, stmt.block if type(stmt) is BlockRealize else None)) or old.get(
                (name, _told_by(stmt))) or StmtSRef()
            sref.stmt, sref.parent = stmt.block if type(stmt) is BlockRealize else stmt, parent
            sref.seq_index = position
            self._srefs[stmt] = parent = sref
        for n, below in enumerate(statements_below(stmt)):
            self._enter(name, old, below, parent, n if type(stmt) is SeqStmt else -1)

    def get_sref(self, stmt):
        """The StmtSRef of a Block, BlockRealize or For of the module. Raises ValueError for any other."""
        return self._srefs[self._find(stmt)[1]]

    def get_block_scope(self, block_sref):
        """The BlockScope of the block of a StmtSRef: which of the blocks inside it depend on which."""
        index, realize = self._find(block_sref.stmt)
        inside, found = index.children(realize), []
        for n, later in enumerate(inside):
            sides = [buffers_of(regions) for regions in (later.block.reads, later.block.writes)]
            for kind, mine, theirs in ((DepKind.RAW, 0, "writes"), (DepKind.WAW, 1, "writes"),
                                       (DepKind.WAR, 1, "reads")):
                found += [Dependency(self._srefs[earlier], self._srefs[later], kind) for earlier in inside[:n]
                          if not set(sides[mine]).isdisjoint(buffers_of(getattr(earlier.block, theirs)))]
        return BlockScope(tuple(found))

    def get_block_info(self, block):
        """The BlockInfo of a Block, BlockRealize or StmtSRef of a block."""
        index, realize = self._find(block.stmt if isinstance(block, StmtSRef) else block)
        if type(realize) is not BlockRealize:
            raise ValueError(f"get_block_info takes a block, not a {type(realize).__name__}")
        inside = index.children(realize)
        covered = [self._covered(index, realize, b) for b in inside]
        scope = index.scope(realize)
        return BlockInfo(_affine(index, realize), scope is None or self._covered(index, scope, realize),
                         all(covered) and _written_first(index, realize, inside),
                         scope is not None and why_not_complete(index, scope, realize) is None,
                         scope is not None and why_not_reduction(index, scope, realize) is None)

    def _get_cached_flags(self, block_sref):
        """The CachedFlags of the block of a StmtSRef."""
        info = self.get_block_info(block_sref)
        return CachedFlags(info.affine_binding, info.region_cover, info.stage_pipeline)

    def replace(self, src_sref, tgt_stmt, block_sref_reuse=None):
        """Put a Block in the place of a block, a For or BlockRealize in that of a loop; what `src_sref` stood for may
        be inside it. The module changes, functions that others hold stay. block_sref_reuse: {old Block: new}, whose
        StmtSRefs go on with the new ones. Nothing is proved of the new program,
        which VerifyWellFormed would look at."""
        if self._read_only:
            raise ValueError("replace: the program of a Schedule changes by its primitives alone; make a ScheduleState "
                             "of sch.mod")
        index, old = self._find(src_sref.stmt)
        new = old.replace(block=tgt_stmt) if type(old) is BlockRealize and type(tgt_stmt) is Block else tgt_stmt
        if not isinstance(new, BlockRealize if type(old) is BlockRealize else (For, BlockRealize)):
            raise TypeError(f"replace: a {type(tgt_stmt).__name__} cannot stand for a {type(src_sref.stmt).__name__}")
        name = next(n for n, known in self._indices.items() if known is index)
        self.follow(self.mod.with_function(name, index.rewrite({old: new})), block_sref_reuse)

    def _find(self, stmt):
        for index in self._indices.values():
            for found in (*index.loops.values(), *index.blocks.values()):
                if found is stmt or getattr(found, "block", None) is stmt:
                    return index, found
        raise ValueError(f"the {type(stmt).__name__} is no block or loop of the module; it may be of an older state")

    @staticmethod
    def _covered(index, scope, realize):
        return all(region_cover(index, scope, realize, b) for b in buffers_of(realize.block.reads))


def _told_by(stmt):
    return stmt.block.name_hint if type(stmt) is BlockRealize else stmt.loop_var


def _affine(index, realize):
    loops = index.loops_above(realize)
    return is_affine_binding(realize.iter_values, ranges_of(loops), realize.predicate, analyzer_of([]),
                             bijective=False)


def _written_first(index, scope, inside):
    """Whether no block of a scope writes what an earlier one has read."""
    return not any(index.order[writer] > index.order[reader]
                   for reader in inside for buffer in buffers_of(reader.block.reads)
                   for writer in index.writers(buffer, scope) if writer is not reader)
