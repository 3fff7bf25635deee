"""InstrumentProfileIntrinsics: calls before and after loops, by which a processor's own tools tell where time goes."""
from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from ...expr import Call, const
from ...tir.function import PrimFunc
from ...tir.stmt import AttrStmt, DeclBuffer, Evaluate, For, IfThenElse, LetStmt, SeqStmt, seq, statements
from ..walk import StmtMutator

LWP_SETTINGS = {"lwp_max_depth": int, "lwp_min_height": int, "instr_siblings": bool, "lwp_disable_func_prof": bool,
                "reset_start_id": bool}
_NUMBERS = count()  # of functions and loops, whatever module they are of


def instrument_profile_intrinsics(mod, lwp_max_depth=0, lwp_min_height=1, instr_siblings=True,
                                  lwp_disable_func_prof=False, reset_start_id=False):
    """Ensures calls start_profile_intrinsic and end_profile_intrinsic of a number around functions, and around loops
    that hold lwp_min_height loops one in another, or more: those with a loop beside them, or, without instr_siblings,
    those in at most lwp_max_depth loops. Loops in a parallel one have none.

    lwp_disable_func_prof: leave functions out. reset_start_id: numbers begin at 0, not where the pass before ended.
    """
    global _NUMBERS
    _NUMBERS = count() if reset_start_id else _NUMBERS

    def function(func):
        number, loops = next(_NUMBERS), _loops(func.body)
        chosen = {key: loop.number for key, loop in loops.items() if not loop.in_parallel and
                  loop.height >= lwp_min_height and (loop.has_siblings if instr_siblings else
                                                     loop.depth <= lwp_max_depth)}
        body = _Calls(chosen).visit(func.body)
        return func.replace(body=body if lwp_disable_func_prof else _between(number, body))
    return mod.with_functions({n: function(f) if isinstance(f, PrimFunc) else f for n, f in mod.functions.items()})


@dataclass
class _Loop:
    number: int
    depth: int            # loops around it
    height: int = 0       # of the loops in it, one in another
    has_siblings: bool = False
    in_parallel: bool = False


def _loops(body):
    """{id of a loop: its _Loop}."""
    found = {}

    def height(stmt, depth, in_parallel):
        if isinstance(stmt, SeqStmt):
            loops = [s for s in stmt.seq if isinstance(s, For)]
            heights = [height(s, depth, in_parallel) for s in stmt.seq]
            for loop in loops if len(loops) > 1 else ():
                found[id(loop)].has_siblings = True
            return max(heights)
        if isinstance(stmt, For):
            loop = found[id(stmt)] = _Loop(next(_NUMBERS), depth + 1, in_parallel=in_parallel)
            loop.height = height(stmt.body, depth + 1, in_parallel or stmt.kind == "parallel")
            return loop.height + 1
        if isinstance(stmt, IfThenElse):
            return max(height(s, depth, in_parallel) for s in (stmt.then_case, stmt.else_case) if s is not None)
        return height(stmt.body, depth, in_parallel) if isinstance(stmt, (LetStmt, AttrStmt, DeclBuffer)) else 0

    def outermost(stmt):
        """Loops of a body itself have no siblings, and are at depth 0."""
        if isinstance(stmt, For):
            height(stmt, -1, False)
        else:
            for inner in statements(stmt):
                outermost(inner)
    outermost(body)
    return found


class _Calls(StmtMutator):
    def __init__(self, chosen):
        self.chosen = chosen  # id of a loop -> its number

    def visit_For(self, loop):
        new = loop.replace(body=self.visit(loop.body))
        return _between(self.chosen[id(loop)], new) if id(loop) in self.chosen else new


def _between(number, stmt):
    return seq(*(s if s is stmt else Evaluate(Call("handle", f"tir.{s}_profile_intrinsic", (const(number),)))
                 for s in ("start", stmt, "end")))
