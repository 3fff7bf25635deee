"""LowerWarpMemory: what lanes of a warp hold of a buffer of scope "warp" becomes registers of each.

A buffer is rows of 32 lanes, each with `each` neighbouring elements: element e lies in lane e / each % 32. What another
lane holds is handed over by shuffles.
"""
from __future__ import annotations

from math import gcd

from ...arith import Analyzer
from ...expr import Call, IntImm, Ramp, Range, cast, const, free_vars
from ...node import Mutator, collect
from ...tir.buffer import decl_buffer
from ...tir.stmt import BufferLoad, BufferStore, DeclBuffer, For
from .threads import WARP, is_bound

FULL = 0xffffffff
# Operations on registers: the places of (pointer, offset) among their arguments
_POINTED = {"tir.ptx_ldmatrix": ((3, 4),), "tir.ptx_mma": ((6, 7), (8, 9), (10, 11)), "tir.mma_fill": ((1, 2),),
            "tir.mma_store": ((3, 4),)}
_WHOLE = ("tir.mma_fill", "tir.mma_store")  # whose offset is a tile's, and not that of a lane


class WarpMemoryError(ValueError):
    """A use of memory of a warp that registers and shuffles cannot do."""


def lower_warp_memory(func):
    """Requires flat buffers. Ensures that no buffer has the scope "warp": each is what a lane has of it, scope "local".
    A lane stores what is its own, and loads what others have by shuffles, in which all lanes must take part.

    Raises WarpMemoryError for sizes that lanes do not share evenly, stores to other lanes, and shuffles that only some
    lanes come to.
    """
    return func.replace(body=_Warps(func).visit(func.body))


class _Warps(Mutator):
    def __init__(self, func):
        self.func, self.an = func, Analyzer()
        self.own, self.pointers = {}, {}  # id of a buffer, a pointer -> (buffer, the registers, elements of a lane)
        self.lane = None                  # the variable of threadIdx.x
        self.guards = 0                   # how many conditions around differ between lanes
        self.varying = set()

    def fail(self, buffer, what):
        raise WarpMemoryError(f"{self.func.title}: {buffer.name}, scope \"warp\", {what}")

    # ------------------------------------------------------------ declarations

    def visit_DeclBuffer(self, decl):
        b = decl.buffer
        if b.scope != "warp":
            return self.generic_visit(decl)
        size = b.shape[0].value if isinstance(b.shape[0], IntImm) else None
        each = self.each(b, decl.body)
        if size is None or size % (WARP * each):
            self.fail(b, f"has {b.shape[0]} elements, which are not {each} for each of {WARP} lanes, or a multiple")
        own = decl_buffer((size // WARP,), b.dtype, b.name, "local")
        self.own[id(b)] = self.pointers[b.data] = (b, own, each)
        return DeclBuffer(own, self.visit(decl.body))

    def each(self, buffer, body):
        """How many neighbouring elements of a buffer a lane has: the factor of the lane in where it stores."""
        lanes = {loop.loop_var for loop in collect(body, For) if is_bound(loop, "threadIdx.x")}
        lanes |= {self.lane} if self.lane is not None else set()
        found = set()
        for index in self._places(buffer, body):
            form = self.an.canonical.linear(index)
            for atom, factor in form.terms.items():
                if set(atom.vars) & lanes:
                    found.add(abs(factor) if len(atom.vars) == 1 and factor else 1)
        if not found:
            whole = [c for c in collect(body, Call) if c.op in _WHOLE and buffer.data in c.args]
            found = {c.args[0].value if c.op == "tir.mma_fill" else c.args[0].value * c.args[1].value // WARP
                     for c in whole}
        if not found:
            self.fail(buffer, "is stored by no lane of threadIdx.x")
        return gcd(*found)

    def _places(self, buffer, body):
        for s in collect(body, BufferStore):
            if s.buffer is buffer:
                index = s.indices[0]
                yield index.base if isinstance(index, Ramp) else index
        for call in collect(body, Call):
            for pointer, offset in _POINTED.get(call.op, ()) if call.op not in _WHOLE else ():
                if call.args[pointer] is buffer.data:
                    yield call.args[offset]

    # ------------------------------------------------------------ loops and conditions

    def visit_For(self, loop):
        around = self.lane, self.guards, set(self.varying)
        bounds = Range(loop.min, loop.extent)
        self.an.bind(loop.loop_var, bounds, allow_override=True)
        if is_bound(loop, "threadIdx.x"):
            self.lane = loop.loop_var
        if is_bound(loop, "threadIdx"):
            self.varying.add(loop.loop_var)
        elif self.differs((loop.min, loop.extent)):
            self.varying.add(loop.loop_var)
            self.guards += 1
        body = self.visit(loop.body)
        self.lane, self.guards, self.varying = around
        return loop.replace(body=body)

    def visit_LetStmt(self, stmt):
        if self.differs(stmt.value):
            self.varying.add(stmt.var)
        return self.generic_visit(stmt)

    def visit_IfThenElse(self, branch):
        condition = self.visit(branch.condition)
        self.guards += self.differs(branch.condition)
        branch = branch.replace(condition=condition, then_case=self.visit(branch.then_case),
                                else_case=self.visit(branch.else_case))
        self.guards -= self.differs(branch.condition)
        return branch

    def differs(self, e):
        return not self.varying.isdisjoint(free_vars(e))

    # ------------------------------------------------------------ accesses

    def parted(self, buffer, each, index):
        """(the lane that has the element of an index, or None for the own one; where it has it)."""
        if self.lane is None:
            self.fail(buffer, "is used outside of loops bound to threadIdx.x")
        index = self.an.simplify(index)
        own = cast(self.lane, index.dtype) % WARP
        lane = self.an.simplify(index // each % WARP)
        at = self.an.simplify(index // (each * WARP) * each + index % each)
        return (None if self.an.can_prove_equal(lane, own) else lane), at

    def visit_BufferStore(self, store):
        found = self.own.get(id(store.buffer))
        if found is None:
            return self.generic_visit(store)
        b, own, each = found
        value, (index,) = self.visit(store.value), self.visit(store.indices)
        ramp = index if isinstance(index, Ramp) else None
        lane, at = self.parted(b, each, ramp.base if ramp else index)
        if lane is not None:
            self.fail(b, f"is stored by each lane at {index}, which is another lane's ({lane})")
        return BufferStore(own, value, (ramp.replace(base=at) if ramp else at,))

    def visit_BufferLoad(self, load):
        found = self.own.get(id(load.buffer))
        if found is None:
            return self.generic_visit(load)
        b, own, each = found
        (index,) = self.visit(load.indices)
        ramp = index if isinstance(index, Ramp) else None
        lane, at = self.parted(b, each, ramp.base if ramp else index)
        here = BufferLoad(own, (ramp.replace(base=at) if ramp else at,))
        if lane is None:
            return here
        if self.guards:
            self.fail(b, f"is loaded from another lane ({lane}) where some lanes do not come")
        if self.differs(at):
            self.fail(b, f"is loaded from another lane, at a place ({at}) that differs between lanes")
        wide = here if here.dtype.bits >= 32 else cast(here, "float32" if here.dtype.is_float else "int32")
        value = Call(wide.dtype, "tir.tvm_warp_shuffle", (IntImm("uint32", FULL), wide, lane, const(WARP), const(WARP)))
        return cast(value, here.dtype)

    def visit_Call(self, call):
        places = [p for p in _POINTED.get(call.op, ()) if call.args[p[0]] in self.pointers]
        if not places:
            return self.generic_visit(call)
        args = list(self.visit(call.args))
        for pointer, offset in places:
            b, own, each = self.pointers[call.args[pointer]]
            index = args[offset]
            if call.op in _WHOLE:
                at = self.an.simplify(index // WARP)
            else:
                lane, at = self.parted(b, each, index)
                if lane is not None:
                    self.fail(b, f"is used by each lane at {index}, which is another lane's ({lane})")
            args[pointer], args[offset] = own.data, at
        return call.replace(args=tuple(args))


__all__ = ["WarpMemoryError", "lower_warp_memory"]
