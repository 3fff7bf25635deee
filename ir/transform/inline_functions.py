"""InlinePrivateFunctions: calls of graph functions of the module become what these do."""
from __future__ import annotations

from ..module import GlobalVar, IRModule
from ..names import Names, unique_name
from ..node import Mutator, collect
from ..relax.expr import (BindingBlock, DataflowBlock, DataflowVar, Function, If, MatchCast, RelaxCall, RelaxVar,
                          SeqExpr, VarBinding)
from ..relax.infos import call_dims
from ..upper import provides
from .call_rules import inferred
from .canonicalize_bindings import canonicalize_bindings, used_outside, with_dims
from .dead_code import is_impure, reachable
from .graph import ReplaceVars, with_operands

KERNELS = ("primitive", "Codegen")  # attributes of functions that are kernels of their own in networks
KEPT = (*KERNELS, "Composite", "Primitive")  # these: of groups of scripts, which other passes look for


def inline_private_functions(mod):
    """A module in which graph functions without a global_symbol, other than main, are inlined where they are called,
    and left out. Those that call themselves, directly or not, kernels and what closures are made of stay."""
    private = {n for n, f in mod.functions.items()
               if n != "main" and "global_symbol" not in f.attrs and _may_be_inlined(mod, n)}
    called = {gv.name for f in mod.functions.values() for gv in collect(f, GlobalVar)}
    mod = mod.with_functions({n: inline_calls(mod, n, private) for n in mod.functions})
    return reachable(mod, [n for n in mod.functions if n not in private or n not in called])


def inline_calls(mod, name, names=None, kept=KEPT):
    """The function `name` of a module with calls of graph functions inlined: of all that may be, or of `names`. Those
    with an attribute of `kept` stay."""
    func = mod[name]
    return _Inline(mod, names, func, kept).visit(func) if isinstance(func, Function) else func


@provides("inline_functions")
def inline_given(func, function_map):
    """The function with calls of others, {GlobalVar or name: function}, inlined, also inside these. ValueError for a
    function that calls itself."""
    functions = {getattr(key, "name", key): given for key, given in function_map.items()}
    mod = IRModule(functions)
    endless = next((n for n in functions if calls_itself(mod, n)), None)
    if endless is not None:
        raise ValueError(f"inline_functions: {endless} calls itself, so that it cannot be inlined")
    return canonicalize_bindings(_Inline(mod, set(functions), func).visit(func))


def _may_be_inlined(mod, name, kept=KEPT):
    func = mod.functions.get(name)
    return isinstance(func, Function) and not any(func.attrs.get(k) for k in kept) and not calls_itself(mod, name)


def calls_itself(mod, name):
    """Whether a function calls itself, directly or by others."""
    seen, waiting = set(), [name]
    while waiting:
        for gv in collect(mod.functions.get(waiting.pop(), ()), GlobalVar):
            if gv.name == name:
                return True
            if gv.name not in seen and gv.name in mod:
                seen.add(gv.name)
                waiting.append(gv.name)
    return False


class _Inline(Mutator):
    def __init__(self, mod, names, func, kept=KEPT):
        self.mod, self.allowed, self.kept = mod, names, kept
        self.names = Names(v.name for v in collect(func, (RelaxVar, DataflowVar)))

    def visit_Constant(self, constant):
        return constant

    def visit_SeqExpr(self, seq):
        blocks = tuple(part for block in seq.blocks for part in self._parts(block))
        if len(blocks) > len(seq.blocks):
            return _opened(seq.replace(blocks=blocks))
        return seq if blocks == seq.blocks else seq.replace(blocks=blocks)

    def _parts(self, block):
        """The block with calls inlined; a dataflow block in parts, between which lies what none may hold."""
        flow, parts, bindings = isinstance(block, DataflowBlock), [], []
        for b in block.bindings:
            func = self._callee(b.value)
            if func is None:
                bindings.append(self.visit(b))
                continue
            body = self.visit(instance(func, b.value.args))
            apart = flow and any(isinstance(v, If) or is_impure(v) for v in collect(body, (If, RelaxCall)))
            result, more = flattened(body, self.names, DataflowVar if flow and not apart else RelaxVar)
            if apart:
                parts += [block.replace(bindings=tuple(bindings)), BindingBlock(tuple(more))]
                bindings = [VarBinding(b.var, result)]
            else:
                bindings += [*more, VarBinding(b.var, result)]
        bindings = tuple(bindings)
        last = block if bindings == block.bindings else block.replace(bindings=bindings)
        return [p for p in (*parts, last) if p.bindings] if parts else [last]

    def _callee(self, value):
        name = value.attrs["gv"].name if isinstance(value, RelaxCall) and value.op == "call" else None
        allowed = name is not None and (self.allowed is None or name in self.allowed)
        return self.mod[name] if allowed and _may_be_inlined(self.mod, name, self.kept) else None


def _opened(seq):
    """A sequence in which variables of dataflow blocks that others use are Vars."""
    used = used_outside(seq)
    env = {id(b.var): RelaxVar(b.var.name, b.var.struct_info, b.var.origin) for block in seq.blocks
           if isinstance(block, DataflowBlock) for b in block.bindings
           if isinstance(b.var, DataflowVar) and id(b.var) in used[id(block)]}
    return ReplaceVars(env).visit(seq) if env else seq


def instance(func, args):
    """The body of a function for these arguments, its symbolic dimensions replaced, with variables of its own."""
    params, body = with_dims((func.params, func.body), call_dims(func, [a.struct_info for a in args]))
    return _Instance(dict(zip(map(id, params), args))).visit(body)


def flattened(seq, names, kind):
    """(the result of a sequence, its bindings under names that are free; kind: DataflowVar or RelaxVar)."""
    renamed, bindings = _Instance({}, names, kind), []
    for block in renamed.visit(seq).blocks:
        bindings += block.bindings
    return renamed.visit(seq.body), bindings


class _Instance(ReplaceVars):
    """Parameters replaced by arguments, other variables by new ones, calls inferred anew where arguments changed.
    names, kind: the names that are taken and the kind of variable for those of the outermost sequence."""

    def __init__(self, env, names=None, kind=None):
        super().__init__(env)
        self.names, self.kind = names, kind

    def visit_SeqExpr(self, seq):
        kind, self.kind = self.kind, None  # of branches inside: their own
        blocks = []
        for block in seq.blocks:
            bindings = []
            for b in block.bindings:
                value = self.visit(b.value)
                info = b.var.struct_info if isinstance(b, MatchCast) else value.struct_info or b.var.struct_info
                name = b.var.name if self.names is None else unique_name(b.var.name, self.names)
                self.env[id(b.var)] = var = (kind or type(b.var))(name, info, b.var.origin)
                bindings.append(b.replace(var=var, value=value))
            blocks.append(block.replace(bindings=tuple(bindings)))
        return SeqExpr(tuple(blocks), self.visit(seq.body))

    def visit_RelaxCall(self, call):
        new = with_operands(call, self.visit)
        return inferred(new) if new is not call and isinstance(call.op, str) else new


__all__ = ["KERNELS", "flattened", "inline_calls", "inline_private_functions", "instance"]
