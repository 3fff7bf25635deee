"""UnrollLoop: unrolled loops as copies of their body, or as a mark that the C compiler reads."""
from __future__ import annotations

from dataclasses import dataclass

from ..arith import Analyzer
from ..arith.canonical import reads_state
from ..expr import IntImm, Var, const, free_vars
from ..node import collect
from ..tir.buffer import Buffer
from ..tir.hints import EXPLICIT, STEPS, UNROLL
from ..tir.renew import renew_defs
from ..tir.stmt import BufferLoad, BufferStore, LetStmt, seq
from .walk import StmtMutator, without


@dataclass
class _Count:
    """steps: statements that run; unrolled, plain: how many loops of each kind are nested inside."""

    steps: int = 0
    unrolled: int = 0
    plain: int = 0


def unroll_loop(func, auto_max_step=0, auto_max_depth=8, auto_max_extent=0, explicit_unroll=True,
                unroll_local_access=False):
    """Requires flat buffers. Ensures that "unrolled" loops, and serial ones of constant extent with no more than
    auto_max_step statements to run (or auto_max_extent turns), are copies of their body; with explicit_unroll False all
    of these are "unrolled" loops, which C marks with INGOT_UNROLL, but where auto_max_extent is 1: one turn is no loop,
    whatever is in it. unroll_local_access: serial loops whose variable is in an index of memory of scope "local" are
    copies, too, so that these may be registers.

    The annotations (or attributes) pragma_auto_unroll_max_step and pragma_unroll_explicit override both settings for
    the loops from theirs inward, and are gone. Raises ValueError for an unrolled loop without a constant extent where
    copies are asked for.
    """
    local = {b.data for b in collect(func.body, Buffer) if b.scope == "local"} if unroll_local_access else ()
    settings = (auto_max_step, auto_max_depth, auto_max_extent, bool(explicit_unroll), local)
    return func.replace(body=_Unroll(*settings).visit(func.body))


def unroll_copies(func):
    """Requires flat buffers and no vectors. Ensures that "unrolled" loops annotated pragma_unroll_explicit are copies
    of their body, before vectors are made and expressions simplified, so that choices by the loop variable are made in
    each copy."""
    return func.replace(body=_Copies().visit(func.body))


class _Copies(StmtMutator):
    def visit_For(self, loop):
        loop = loop.replace(body=self.visit(loop.body))
        explicit = loop.kind == "unrolled" and isinstance(loop.extent, IntImm) and loop.annotations.get(EXPLICIT)
        return _copies(loop) if explicit and _int(EXPLICIT, explicit) else loop


def _copies(loop):
    """The body of a loop once for each of its iterations."""
    first = Var(f"{loop.loop_var.name}_first", loop.min.dtype) if reads_state(loop.min) else loop.min
    copies = seq(*(renew_defs(loop.body, {loop.loop_var: first + const(n, loop.extent.dtype)})
                   for n in range(loop.extent.value)))
    return copies if first is loop.min else LetStmt(first, loop.min, copies)


class _Unroll(StmtMutator):
    def __init__(self, max_step, max_depth, max_extent, explicit, local):
        self.max_step, self.max_depth, self.max_extent, self.explicit = max_step, max_depth, max_extent, explicit
        self.local, self.analyzer = local, Analyzer()  # local: pointers to memory that may be registers
        self.count = _Count()

    def visit_AttrStmt(self, attr):
        if attr.attr_key not in (STEPS, EXPLICIT):
            return super().visit_AttrStmt(attr)
        return self._within({attr.attr_key: attr.value}, attr.body)

    def _within(self, pragmas, stmt):
        """`stmt` visited with the settings of pragmas."""
        before = self.max_step, self.explicit
        if STEPS in pragmas:
            self.max_step = _int(STEPS, pragmas[STEPS])
        if EXPLICIT in pragmas:
            self.explicit = bool(_int(EXPLICIT, pragmas[EXPLICIT]))
        stmt = self.visit(stmt)
        self.max_step, self.explicit = before
        return stmt

    def visit_For(self, loop):
        pragmas = {k: v for k, v in loop.annotations.items() if k in (STEPS, EXPLICIT)}
        if pragmas:
            return self._within(pragmas, without(loop, *pragmas))
        loop = loop.replace(body=self.visit(loop.body))
        if not isinstance(loop.extent, IntImm):
            loop = loop.replace(extent=self.analyzer.simplify(loop.extent))
        turns, count = loop.extent.value if isinstance(loop.extent, IntImm) else None, self.count
        if loop.kind == "serial" and turns is not None and (
                turns == self.max_extent == 1 or self.local and _indexes(loop, self.local)):
            count.steps, count.unrolled = count.steps * turns, count.unrolled + 1
            return _copies(loop)
        wanted = loop.kind == "unrolled" or self._worth(loop, turns, count)
        if wanted and turns is None and self.explicit:
            raise ValueError(f"loop {loop.loop_var.name} is unrolled, but its extent {loop.extent} is no constant; "
                             "leave it serial, or split it by a constant")
        if not wanted:
            count.plain += 1
            return loop
        count.steps *= turns or 1
        count.unrolled += 1
        if not self.explicit:
            return loop.replace(kind="unrolled")
        return _copies(loop)

    def _worth(self, loop, turns, count):
        return (loop.kind == "serial" and turns is not None and count.plain == 0 and count.unrolled <= self.max_depth
                and UNROLL not in loop.annotations and (0 < turns * count.steps <= self.max_step
                                                          or turns <= self.max_extent))

    def visit_SeqStmt(self, s):
        before, out, total = self.count, [], _Count()
        for x in s.seq:
            self.count = _Count()
            out.append(self.visit(x))
            total = _Count(total.steps + self.count.steps, max(total.unrolled, self.count.unrolled),
                           max(total.plain, self.count.plain))
        self.count = _Count(before.steps + total.steps, max(before.unrolled, total.unrolled),
                            max(before.plain, total.plain))
        return s if all(a is b for a, b in zip(out, s.seq)) else seq(*out)

    def _step(self, stmt):
        self.count.steps += 1
        return stmt

    visit_BufferStore = visit_Evaluate = _step


def _indexes(loop, pointers):
    """Whether the variable of a loop is in an index of memory that one of some pointers leads to."""
    return any(v is loop.loop_var for access in collect(loop.body, (BufferLoad, BufferStore))
               if access.buffer.data in pointers for v in free_vars(access.indices))


def _int(key, value):
    value = getattr(value, "value", value)
    if not isinstance(value, int):
        raise ValueError(f"{key} is an integer, not {value!r}")
    return value
