"""ScheduleState: what a schedule knows of its program, to look at: where statements are, and what blocks promise."""
from __future__ import annotations

from dataclasses import dataclass

from ..arith import is_affine_binding
from ..tir.function import PrimFunc
from ..tir.stmt import Block, BlockRealize, Stmt
from .blocks import buffers_of, why_not_complete, why_not_reduction
from .context import analyzer_of, ranges_of
from .dependence import incomplete_input


@dataclass(frozen=True, repr=False)
class StmtSRef:
    """A block (as its Block) or loop, and the one that it lies in; None for a function's root block."""

    stmt: Stmt
    parent: "StmtSRef" = None

    def __repr__(self):
        name = self.stmt.name_hint if type(self.stmt) is Block else self.stmt.loop_var.name
        return f"StmtSRef({type(self.stmt).__name__} {name})"


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


class ScheduleState:
    """A view of a module: mod, debug_mask, and lookups by statement. It does not follow later primitives."""

    def __init__(self, mod, index_of, debug_mask=0):
        self.mod, self.debug_mask = mod, debug_mask
        self._indices = [index_of(name) for name, f in mod.functions.items() if isinstance(f, PrimFunc)]

    def get_sref(self, stmt):
        """The StmtSRef of a Block, BlockRealize or For of the module. Raises ValueError for any other."""
        return self._sref(*self._find(stmt))

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

    def _find(self, stmt):
        for index in self._indices:
            for found in (*index.loops.values(), *index.blocks.values()):
                if found is stmt or getattr(found, "block", None) is stmt:
                    return index, found
        raise ValueError(f"the {type(stmt).__name__} is no block or loop of the module; it may be of an older state")

    def _sref(self, index, stmt):
        above = index.parent(stmt)
        while above is not None and above not in index.order and above not in index.loops.values():
            above = index.parent(above)
        own = stmt.block if type(stmt) is BlockRealize else stmt
        return StmtSRef(own, None if above is None else self._sref(index, above))

    @staticmethod
    def _covered(index, scope, realize):
        return not any(incomplete_input(index, scope, realize, b) for b in buffers_of(realize.block.reads))


def _affine(index, realize):
    loops = index.loops_above(realize)
    return is_affine_binding(realize.iter_values, ranges_of(loops), realize.predicate, analyzer_of([]),
                             bijective=False)


def _written_first(index, scope, inside):
    """Whether no block of a scope writes what an earlier one has read."""
    return not any(index.order[writer] > index.order[reader]
                   for reader in inside for buffer in buffers_of(reader.block.reads)
                   for writer in index.writers(buffer, scope) if writer is not reader)
