"""tvm.tir.block_scope: which blocks depend on which, and BlockDependenceInfo, which knows blocks alone."""
from ...ir.schedule import BlockScope, Dependency, DepKind, ScheduleState, StmtSRef  # noqa: F401


class BlockDependenceInfo:
    """The dependences between the blocks of a module, or of a PrimFunc. Raises TypeError for anything else."""

    def __init__(self, mod):
        self._state = ScheduleState(mod, read_only=True)
        self.mod = self._state.mod

    def get_sref(self, block):
        """The StmtSRef of a block."""
        return self._state.get_sref(block)

    def get_block_scope(self, block_sref):
        """The BlockScope of the block that a StmtSRef stands for, or of the block around a loop's."""
        while block_sref.parent is not None and not hasattr(block_sref.stmt, "iter_vars"):
            block_sref = block_sref.parent
        return self._state.get_block_scope(block_sref)


__all__ = ["BlockDependenceInfo", "BlockScope", "DepKind", "Dependency", "StmtSRef"]
