"""Threads by attributes and by loops: LowerOpaqueBlock and UnifyThreadBinding as scripts know them."""
from __future__ import annotations

from ...arith import Analyzer
from ...expr import IterVar, Range, StringImm, Var, as_expr, cast, const, is_const_int, substitute
from ...node import structural_equal
from ...tir.stmt import AttrStmt, For, IfThenElse
from ..gpu.bindings import unify_thread_binding
from ..lower_blocks import LowerOpaque
from ..walk import StmtMutator, with_value, without

PRAGMA = "pragma_"


def lower_opaque_block(func):
    """Requires opaque blocks and no matched buffers. Ensures no blocks: predicates are branches, allocations
    DeclBuffers without strides, annotations "pragma_..." attributes. Loops bound to threads are attributes
    thread_extent or virtual_thread, and there are no loops of one iteration, but those with annotations."""
    return func.replace(body=_LowerOpaque().visit(func.body))


class _LowerOpaque(LowerOpaque):
    def allocated(self, buffer):
        """Memory without strides: room between rows is of the next dimension. Where there is no room, the buffer
        itself, so that what is declared is what is accessed."""
        inner = tuple(Analyzer().simplify(a // b) for a, b in zip(buffer.strides, buffer.strides[1:]))
        if not buffer.strides or structural_equal(inner, buffer.shape[1:]):
            return buffer
        return buffer.replace(shape=(buffer.shape[0], *inner), strides=())

    def guarded(self, predicate, body):
        return IfThenElse(predicate, body)

    def visit_For(self, loop):
        pragmas = sorted(key for key in loop.annotations if key.startswith(PRAGMA))
        values = [loop.annotations[key] for key in pragmas]
        kept = without(loop, *pragmas)
        body = self.visit(loop.body)
        if loop.kind == "thread_binding":
            axis = IterVar(Range(loop.min, loop.extent), loop.loop_var, "thread", loop.thread_binding)
            key = "virtual_thread" if loop.thread_binding.startswith(("vthread", "cthread")) else "thread_extent"
            made = AttrStmt(axis, key, loop.extent, body)
        elif is_const_int(loop.extent, 1) and not loop.annotations:
            return with_value(body, loop.loop_var, loop.min)
        else:
            made = kept.replace(body=body)
        for key, value in reversed(list(zip(pragmas, values))):
            made = AttrStmt(loop.loop_var, key, StringImm(value) if isinstance(value, str) else as_expr(value), made)
        return made


def unify_threads(func):
    """Ensures that one loop is bound to each axis of threads in a kernel, around all that runs on them: loops and
    attributes that say it further in are gone. Raises ValueError for two of one axis with different extents. Each
    loop bound to "vthread" stays an axis of its own."""
    return func.replace(body=_Unify().visit(unify_thread_binding(func).body))


class _Unify(StmtMutator):
    def __init__(self):
        self.axes = None  # thread axis -> the loop of the kernel that is bound to it, without a body
        self.analyzer = Analyzer()

    def visit_For(self, loop):
        tag = loop.thread_binding
        if loop.kind != "thread_binding" or tag == "vthread":
            return loop.replace(body=self.visit(loop.body))
        is_kernel, before = self.axes is None, self.axes
        self.axes = {} if is_kernel else before
        var = self._axis(loop)
        body = self.visit(substitute(loop.body, {loop.loop_var: cast(var, loop.loop_var.dtype)}))
        if loop.annotations:
            body = For(Var("var", "int32"), const(0), const(1), "serial", body, None, loop.annotations)
        if is_kernel:
            for axis in reversed(list(self.axes.values())):
                body = axis.replace(body=body)
            self.axes = None
        return body

    def _axis(self, loop):
        """The variable of the loop's axis, which begins at 0."""
        tag = loop.thread_binding
        known = self.axes.get(tag)
        if known is None:
            var = Var(tag.replace(".", "_"), loop.loop_var.dtype)
            known = self.axes[tag] = loop.replace(loop_var=var, annotations={}, body=None)
        elif not self.analyzer.can_prove_equal(cast(known.extent, loop.extent.dtype), loop.extent):
            raise ValueError(f"all loops of a kernel that are bound to {tag} have one extent: {known.extent} is not "
                             f"{loop.extent}")
        return known.loop_var


__all__ = ["lower_opaque_block", "unify_threads"]
