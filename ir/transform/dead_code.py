"""DeadCodeElimination: bindings that nothing uses, then functions that nothing reaches, are left out."""
from __future__ import annotations

from ..module import GlobalVar, IRModule
from ..node import Mutator, children, collect
from ..relax.expr import EFFECTS, IMPURE, DataflowVar, ExternFunc, Function, MatchCast, RelaxCall, RelaxVar

_VARS = (RelaxVar, DataflowVar)


def is_impure(value):
    """Whether a value, or one inside it, is a call that may have side effects: of such an operator, or of a function that
    is declared so (pure=False)."""
    return isinstance(value, RelaxCall) and has_effects(value) or any(map(is_impure, children(value)))


def has_effects(call):
    """Whether a call may have side effects: of its operator, of the function that it names, or, once that is lowered,
    by its attribute EFFECTS."""
    callee = call.attrs.get("gv") if call.op == "call" else call.op
    return call.op in IMPURE or EFFECTS in call.attrs or not getattr(getattr(callee, "struct_info", None), "purity", True)


def dead_code_elimination(mod, entry_functions=()):
    """A module without what its entry functions do not need. Entries are `entry_functions` (names), every function
    with a global_symbol or of others' code and, where there is none of either, main."""
    entries = [getattr(name, "name_hint", name) for name in entry_functions or ()]
    for name in entries:
        mod[name]  # raises when there is none
    entries += [n for n, f in mod.functions.items() if n not in entries and (
        "global_symbol" in f.attrs or isinstance(f, ExternFunc))]
    mod = remove_all_unused(reachable(mod, entries or ["main"]))
    return reachable(mod, entries or ["main"])


def reachable(mod, entries):
    """The module without functions that none of `entries`, names, names, directly or not; whole where it has no entry."""
    reached, waiting = set(), [n for n in entries if n in mod]
    if not waiting:
        return mod
    while waiting:
        name = waiting.pop()
        if name in mod and name not in reached:
            reached.add(name)
            waiting += [gv.name for gv in collect(mod[name], GlobalVar)]
    return mod.with_functions({n: f for n, f in mod.functions.items() if n in reached})


def remove_all_unused(func):
    """A function, or a module's functions, without bindings that nothing uses. Calls that may have side effects and
    checks (MatchCast) stay, and with them what they use."""
    if isinstance(func, IRModule):
        return func.with_functions({n: remove_all_unused(f) if isinstance(f, Function) else f
                                    for n, f in func.functions.items()})
    return _RemoveUnused().visit(func)


class _RemoveUnused(Mutator):
    def visit_Constant(self, constant):
        return constant

    def visit_SeqExpr(self, seq):
        used, blocks = {id(v) for v in collect(seq.body, _VARS)}, []
        for block in reversed(seq.blocks):
            kept = []
            for b in reversed(block.bindings):
                if id(b.var) in used or isinstance(b, MatchCast) or (
                        is_impure(b.value) and not isinstance(b.value, Function)):
                    b = b.replace(value=self.visit(b.value))
                    used.update(map(id, collect(b.value, _VARS)))
                    kept.append(b)
            kept = tuple(reversed(kept))
            if kept:
                blocks.append(block if kept == block.bindings else block.replace(bindings=kept))
        blocks = tuple(reversed(blocks))
        return seq if blocks == seq.blocks else seq.replace(blocks=blocks)
