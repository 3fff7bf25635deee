"""ManifestSharedMemoryLocalStage: copies to shared memory go through registers, so that all loads are under way before
the first store."""
from __future__ import annotations

from ...expr import Var, const, substitute
from ...node import collect
from ...tir.buffer import decl_buffer
from ...tir.region import access_regions
from ...tir.stmt import Block, BufferLoad, BufferStore, For, SeqStmt
from ..walk import StmtMutator, blocks, without

MARK = "tir.manifest_shared_memory_local_stage"


def manifest_shared_memory_local_stage(func):
    """Requires opaque blocks. Ensures that no block says `tir.manifest_shared_memory_local_stage`: what one stores lies
    in a local buffer, an element for each iteration of the loops up to the block that allocates the shared buffer, and
    the same loops before these fill it.

    Raises ValueError for a marked block that is not a single store to a shared buffer which it does not read, whose
    loops are not serial or vectorized, or have other statements in them."""
    if not any(MARK in b.annotations for b in blocks(func.body)):
        return func
    stages = _Stages(func)
    body = stages.visit(func.body)
    if stages.left:
        stages.fail(stages.left[0].block, "no block around its loops allocates the shared buffer")
    return func.replace(body=body)


class _Stages(StmtMutator):
    def __init__(self, func):
        self.func, self.left = func, []  # the copies whose loops are not complete

    def fail(self, block, what):
        raise ValueError(f"ManifestSharedMemoryLocalStage: {self.func.title}: block {block.name_hint}: {what}")

    def visit_BlockRealize(self, realize):
        block = realize.block
        if MARK in block.annotations:
            copy = _Copy(realize, self.fail)
            self.left.append(copy)
            return copy.stored
        if not any(MARK in b.annotations for b in blocks(block.body)):
            return realize
        return realize.replace(block=self.allocating(block))

    def allocating(self, block):
        """A block with copies in it: those to what it allocates are filled before its statements that store them."""
        out, own = [], []
        for stmt in block.body.seq if isinstance(block.body, SeqStmt) else (block.body,):
            around, self.left = self.left, []
            done = self.visit(stmt)
            for copy in self.left:
                if not any(copy.buffer is b for b in block.alloc_buffers):
                    self.fail(copy.block, f"block {block.name_hint} is around it and does not allocate "
                                          f"{copy.buffer.name}")
                done, filled, local = copy.staged(stmt)
                out.append(filled)
                own.append(local)
            self.left = around
            out.append(done)
        return block.replace(body=out[0] if len(out) == 1 else SeqStmt(tuple(out)),
                             alloc_buffers=(*block.alloc_buffers, *own))


class _Copy:
    """A marked block. stored: what stands in its place, until its loops are known."""

    def __init__(self, realize, fail):
        self.block, self.fail, self.realize = realize.block, fail, realize
        store = self.block.body
        if self.block.iter_vars or not isinstance(store, BufferStore) or not store.buffer.scope.startswith("shared"):
            fail(self.block, "a marked block is a single store to a shared buffer, without iteration variables")
        if any(load.buffer is store.buffer for load in collect((store.value, store.indices), BufferLoad)):
            fail(self.block, f"it reads {store.buffer.name}, too")
        self.buffer, self.store, self.stored = store.buffer, store, realize

    def staged(self, stmt):
        """(the loops that store, those that fill a local buffer before, that buffer) of the loops around the block."""
        loops = []
        while isinstance(stmt, For):
            if stmt.kind not in ("serial", "vectorized"):
                self.fail(self.block, f"loop {stmt.loop_var.name} is {stmt.kind}; those up to the allocation are serial "
                                      "or vectorized")
            loops.append(stmt)
            stmt = stmt.body
        if stmt is not self.realize:
            self.fail(self.block, "the loops around it have other statements in them")
        shape = [loop.extent for loop in loops] or (1,)
        local = decl_buffer(shape, self.buffer.dtype, f"{self.buffer.name}_local", "local")
        place = tuple(loop.loop_var - loop.min for loop in loops) or (const(0),)
        filled = self._block(BufferStore(local, self.store.value, place), kept=False)
        stored = self._block(self.store.replace(value=BufferLoad(local, place)), kept=True)
        return self._around(loops, stored), self._around(loops, filled, fresh=True), local

    def _block(self, body, kept):
        reads, writes = access_regions(body)
        if not kept:
            return self.realize.replace(block=Block((), reads, writes, "", (), (), {}, None, body))
        return self.realize.replace(block=without(self.block, MARK).replace(reads=reads, writes=writes, body=body))

    def _around(self, loops, body, fresh=False):
        for loop in reversed(loops):
            var = Var(loop.loop_var.name, loop.loop_var.dtype) if fresh else loop.loop_var
            body = loop.replace(loop_var=var, body=substitute(body, {loop.loop_var: var}) if fresh else body)
        return body


__all__ = ["manifest_shared_memory_local_stage"]
