"""LowerAutoCopy: blocks that copy, annotated with `auto_copy`, become copies that the threads of a block do together.

RULES says what is done with a copy, by the kinds of memory that it is from and to.
"""
from __future__ import annotations

from ...expr import Call, IntImm, Var, free_vars
from ...node import collect
from ...tir.stmt import Block, BufferLoad, BufferStore, For
from ..gpu.threads import AXES, WARP, is_bound
from ..walk import StmtMutator
from .auto_copy_fragments import TENSOR, WMMA, from_fragments, load_fragments, through_shared
from .auto_copy_nests import Copy, around, by_target, coalesced, is_plain, nest_of
from .auto_copy_padding import Padding
from .auto_copy_stages import through_registers

AUTO_COPY, LOCAL_STAGE, WARPS = "auto_copy", "local_stage", "warp_execution"


def _to_shared(nest, copy):
    if not copy.is_alike(nest):
        return None
    nest = coalesced(nest, copy)
    return through_registers(nest, copy) if copy.block.annotations.get(LOCAL_STAGE) else around(*nest)


def _to_global(nest, copy):
    return around(*coalesced(by_target(nest, copy), copy)) if copy.is_alike(nest) else None


# A rule makes a statement of a nest, or None where it is not for that one.
RULES = {
    ("global", "shared"): _to_shared,
    ("shared", "global"): _to_global,
    ("shared", "wmma.matrix_a"): load_fragments,
    ("shared", "wmma.matrix_b"): load_fragments,
    (WMMA.scope, "shared"): from_fragments,
    (WMMA.scope, "global"): lambda nest, copy: through_shared(nest, copy, WMMA),
    (TENSOR.scope, "global"): lambda nest, copy: through_shared(nest, copy, TENSOR),
}
ACCUMULATORS = (WMMA.scope, TENSOR.scope)


def lower_auto_copy(func):
    """Ensures that each block with an annotation `auto_copy` whose copy a rule knows is done by the threads together:
    `vector_bytes` at once, through registers first with `local_stage`, and tile by tile from and to the fragments of
    matrices. Copies of which threads do different parts, or of global memory that more than the copy uses, stay.
    `warp_execution` says that a block is for all 32 threads of a warp, along threadIdx.x. Shared memory that copies use
    gets the strides for which the threads of a warp use different banks."""
    if not any(block.annotations.get(AUTO_COPY) for block in collect(func.body, Block)):
        return func
    padding = Padding(func)
    body = _Lower(func, padding).visit(func.body)
    return func.replace(body=padding.apply(body))


def _thread_extents(func):
    """{axis: extent} of the threads of a function; None where loops that are bound to one differ, or say no number."""
    extents = {}
    if any(block.annotations.get(WARPS) for block in collect(func.body, Block)):
        extents[AXES[0]] = {WARP}
    for loop in collect(func.body, For):
        if is_bound(loop, "threadIdx"):
            extents.setdefault(loop.thread_binding, set()).add(
                loop.extent.value if isinstance(loop.extent, IntImm) else None)
    one = {axis: found.pop() for axis, found in extents.items() if len(found) == 1}
    return one if len(one) == len(extents) and None not in one.values() else None


class _Lower(StmtMutator):
    def __init__(self, func, padding):
        self.func, self.padding = func, padding
        self.threads = _thread_extents(func)
        self.given = collect((func.params, list(func.buffer_map.values())), Var)
        self.outer, self.parted = (), 0  # parted: conditions around, which threads may decide otherwise

    def _is_same(self, *expressions):
        """Whether expressions have one value in all threads of a block."""
        given = {*(loop.loop_var for loop in self.outer if not is_bound(loop, "threadIdx")), *self.given}
        return given.issuperset(free_vars(expressions)) and not collect(expressions, (BufferLoad, Call))

    def visit_For(self, loop):
        parted = not self._is_same(loop.min, loop.extent)
        self.outer += (loop,)
        self.parted += parted
        loop = loop.replace(body=self.visit(loop.body))
        self.parted -= parted
        self.outer = self.outer[:-1]
        return loop

    def visit_While(self, loop):
        return self._under(None, loop)

    def visit_IfThenElse(self, branch):
        return self._under(branch.condition, branch)

    def visit_BlockRealize(self, realize):
        return self._under(realize.predicate, realize)

    def _under(self, condition, stmt):
        parted = condition is None or not self._is_same(condition)
        self.parted += parted
        stmt = getattr(super(), f"visit_{type(stmt).__name__}")(stmt)
        self.parted -= parted
        return stmt

    def visit_Block(self, block):
        if not block.annotations.get(AUTO_COPY) or self.threads is None or self.parted:
            return super().visit_Block(block)
        found = self.found(block)
        if found is None:
            return block
        copy, rule = found
        body = rule(nest_of(block.body), copy)
        if body is None:
            return block
        self.padding.note(body, copy)
        return block.replace(body=body, alloc_buffers=(*block.alloc_buffers, *copy.buffers))

    def found(self, block):
        """(Copy, rule) of a block; None of one that is no copy, or of a kind without a rule."""
        loops, store = nest = nest_of(block.body)
        if not is_plain(nest) or block.init is not None or block.match_buffers:
            return None
        loads = [load.buffer for load in collect(store.value, BufferLoad)]
        sources = [b for b in loads if b.scope in ACCUMULATORS] or loads[:1]
        if not sources or len(set(sources)) > 1 or store.buffer in loads or len(sources) < len(loads) and (
                sources[0].scope not in ACCUMULATORS):
            return None
        source, target = sources[0], store.buffer
        rule = RULES.get((_kind(source), _kind(target)))
        if rule is None or target.scope == "global" and self._uses(target) > 1:
            return None
        return Copy(self.func, block, source, target, self.outer, self.threads), rule

    def _uses(self, buffer):
        """How many accesses, matched buffers and calls use the memory of a buffer."""
        accesses = [n.buffer.data for n in collect(self.func.body, (BufferLoad, BufferStore))]
        pointers = [v for call in collect(self.func.body, Call) for v in call.args if isinstance(v, Var)]
        matched = [m.source.buffer.data for block in collect(self.func.body, Block) for m in block.match_buffers]
        return sum(v is buffer.data for v in (*accesses, *pointers, *matched))


def _kind(buffer):
    return "shared" if buffer.scope in ("shared", "shared.dyn") else buffer.scope


__all__ = ["lower_auto_copy"]
