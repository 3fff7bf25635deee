"""What hosts prepare for devices: their contexts, and memories that have addresses of their own."""
from __future__ import annotations

from ...expr import IterVar, Let, PrimExpr, Var, free_vars
from ...node import Mutator, Node, collect, node, structural_equal
from ...target import Target
from ...tir.runtime_ops import PACKED_FUNCTIONS
from ...tir.stmt import DeclBuffer, For, LetStmt

CONTEXT = "tir.tvm_thread_context"
# The memories that targets have; a scope with another word after the first one, such as "global.vtcm", is a memory that
# the packed function tvm.info.mem.SCOPE describes.
_RANKS = ("global", "shared", "local", "warp")
_TAGS = ("", "dyn")
MEMORY_INFO = "tvm.info.mem."


def defined_in(stmt):
    """The variables that a statement defines."""
    return {n.loop_var for n in collect(stmt, For)} | {n.var for n in collect(stmt, (IterVar, Let, LetStmt))} | {
        n.buffer.data for n in collect(stmt, DeclBuffer)}


def is_host(func):
    """Whether a function says that it runs on a CPU, by tir.is_host_func or its target."""
    target = func.attrs.get("target")
    return bool(func.attrs.get("tir.is_host_func")) or target is not None and Target.get(target).launch is None


def combine_context_call(func):
    """Ensures, in functions of hosts, that each context that tvm_thread_context names is computed once: a variable
    around the body, or around the parallel loop or the threads that use it. What depends on variables in there stays
    where it is."""
    return func.replace(body=_Contexts().around(func.body)) if is_host(func) else func


class _Contexts(Mutator):
    found = inner = None  # [(context, its variable)] of the scope at hand; the variables that are defined in it

    def around(self, stmt, visit=None):
        """The statement, with the contexts that it needs around it as variables."""
        outer = self.found, self.inner
        self.found, self.inner = [], defined_in(stmt)
        body = (visit or self.visit)(stmt)
        for context, var in reversed(self.found):
            body = LetStmt(var, context, body)
        self.found, self.inner = outer
        return body

    def visit_Call(self, call):
        if call.op != CONTEXT:
            return self.generic_visit(call)
        context = call.args[0]
        if not self.inner.isdisjoint(free_vars(context)):
            return context
        var = next((var for known, var in self.found if structural_equal(known, context)), None)
        if var is None:
            var = Var("ctx_cache_", context.dtype)
            self.found.append((context, var))
        return var

    def visit_For(self, loop):
        return self.around(loop, self.generic_visit) if loop.kind == "parallel" else self.generic_visit(loop)

    def visit_AttrStmt(self, attr):
        if attr.attr_key in ("thread_extent", "coproc_uop_scope"):
            return self.around(attr, self.generic_visit)
        return self.generic_visit(attr)


@node
class MemoryInfo(Node):
    """A memory that is not the target's own: unit_bits of an element of it, bits of an access that is vectorized and of
    the whole, and the address at which it begins, None where a host cannot reach it."""

    unit_bits: int
    max_simd_bits: int = 0
    max_num_bits: int = 0
    head_address: PrimExpr = None


def lower_device_storage_access_info(func):
    """Ensures no allocations in memories that packed functions tvm.info.mem.SCOPE describe: each is a variable that is
    the head address, where hosts have one, or nothing.

    Raises ValueError for a scope that no function describes, and for an address in a memory that has none."""
    return func.replace(body=_Memories().visit(func.body))


class _Memories(Mutator):
    def __init__(self):
        self.infos = {}  # data pointer -> MemoryInfo

    def visit_DeclBuffer(self, decl):
        scope = decl.buffer.scope
        rank, _, tag = scope.partition(".")
        if rank not in _RANKS or tag in _TAGS:
            return self.generic_visit(decl)
        describe = PACKED_FUNCTIONS.get(MEMORY_INFO + scope)
        if describe is None:
            raise ValueError(f"buffer {decl.buffer.name}: no memory has the scope {scope!r}; register a packed "
                             f"function {MEMORY_INFO}{scope} that returns its MemoryInfo")
        info = self.infos[decl.buffer.data] = describe()
        body = self.visit(decl.body)
        return body if info.head_address is None else LetStmt(decl.buffer.data, info.head_address, body)

    def visit_Call(self, call):
        call = self.generic_visit(call)
        info = self.infos.get(call.args[1]) if call.op == "tir.tvm_access_ptr" else None
        if info is not None and info.head_address is None:
            raise ValueError(f"memory of {call.args[1]} has no address")
        return call


__all__ = ["MemoryInfo", "combine_context_call", "defined_in", "is_host", "lower_device_storage_access_info"]
