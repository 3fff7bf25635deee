"""Rewriting by patterns: rules are applied until none changes anything, and what they leave behind is tidied up."""
from __future__ import annotations

from ..expr import free_vars
from ..module import GlobalVar, IRModule
from ..names import Names, unique_name
from ..node import Mutator, collect, structural_equal
from ..op import OPS
from ..relax.block_builder import call_op
from ..relax.expr import (BindingBlock, Constant, DataflowBlock, DataflowVar, ExternFunc, Function, If, MatchCast,
                          PrimStructInfo, PrimValue, RelaxCall, RelaxTuple, RelaxVar, SeqExpr, TupleGetItem, VarBinding)
from ..relax.patterns import pattern as dp
from ..relax.patterns.forms import is_gv, wildcard
from ..relax.patterns.graph import PatternContext
from ..upper import provides
from .call_rules import inferred
from .canonicalize_bindings import canonicalize_bindings
from .context import Pass, PassInfo
from .dead_code import is_impure, remove_all_unused
from .eliminate_common import eliminate_common_subexpr
from .inline_functions import flattened, instance

_LIMIT = 1000  # rounds, after which a rule that always finds something is refused


class PatternMatchingRewriter(Pass):
    """A rule: rewriter(function or module) applies it until it changes nothing more; a | b: either rule.

    rewrites(bindings): {variable: its new value} for bindings that may be reordered.
    """

    info = PassInfo("PatternMatchingRewriter", 0)
    subroutines = {}  # functions that new values call, which the module gets

    @staticmethod
    def from_pattern(pattern, func):
        """The rule of rewrite_call."""
        return ExprPatternRewriter(pattern, func)

    @staticmethod
    def from_module(mod):
        """The rule that puts the function `replacement` of a module in the place of its function `pattern`.

        Both have the same parameters, whose struct info says what matches: symbolic dimensions stand for any, and a
        tuple as result for values wherever they are computed. Other functions of the module must be private; a module
        that is rewritten gets them. KeyError, TypeError or ValueError where the two do not fit.
        """
        return _rule_of(mod)

    def __or__(self, other):
        return OrRewriter(self, other)

    def __call__(self, obj):
        if isinstance(obj, IRModule):
            return super().__call__(obj)
        if self.subroutines:
            raise ValueError("this rule brings functions of its own: apply it to a module, not to a function")
        return self._function(obj)

    def run(self, mod, context):
        new = {n: self._function(f) if isinstance(f, Function) else f for n, f in mod.functions.items()}
        if all(new[n] is f for n, f in mod.functions.items()):
            return mod
        used, waiting = {}, list(new.values())
        while waiting:
            for gv in collect(waiting.pop(), GlobalVar):
                if gv.name in self.subroutines and gv.name not in used:
                    used[gv.name] = self.subroutines[gv.name]
                    waiting.append(used[gv.name])
        return mod.with_functions({**new, **used})

    def _function(self, func):
        return _Apply(self, func).visit(func)


class ExprPatternRewriter(PatternMatchingRewriter):
    """func(value, {pattern: value}) of each value that matches; a solution for which it gives the value itself, or
    None, is passed over for the next."""

    def __init__(self, pattern, func):
        self.pattern, self.func = pattern, func

    def rewrites(self, bindings):
        changed, known = {}, dp.Match()
        for b in bindings:
            new = self._value(b.value, known)
            if new is None:
                known.var2val[b.var] = b.value
            else:
                changed[b.var] = new
        return changed

    def _value(self, value, known):
        for found in known.solutions(self.pattern, value, {}):
            root = found[self.pattern]
            new = self.func(root, dp.public(found))
            if new is not None and new is not root:
                return new
        return None


class OrRewriter(PatternMatchingRewriter):
    """The second rule has what the first one leaves."""

    def __init__(self, lhs, rhs):
        self.lhs, self.rhs = lhs, rhs
        self.subroutines = {**lhs.subroutines, **rhs.subroutines}

    def rewrites(self, bindings):
        changed = self.lhs.rewrites(bindings)
        return {**changed, **self.rhs.rewrites([b for b in bindings if b.var not in changed])}


class TupleRewriter(PatternMatchingRewriter):
    """Several values at once, wherever they are computed: func(tuple of them, {pattern: value}) gives a tuple, whose
    items take their places. Each must be computed before any of them is used."""

    def __init__(self, patterns, func):
        self.patterns, self.func = tuple(patterns), func

    def rewrites(self, bindings):
        bindings, changed = list(bindings), {}
        known = dp.Match({b.var: b.value for b in bindings})
        for places in self._places(bindings, known):
            chosen = [bindings[n] for n in places]
            if any(b.var in changed for b in chosen) or not self._may_move(bindings, places):
                continue
            for found in known.all_of(self.patterns, [b.value for b in chosen], {}):
                new = self.func(RelaxTuple([b.var for b in chosen]), dp.public(found))
                if new is not None:
                    changed.update({b.var: _Item(new, n) for n, b in enumerate(chosen)})
                    break
        return changed

    def _places(self, bindings, known):
        """Orders of as many bindings as there are patterns, each of which fits its own."""
        fits = [[n for n, b in enumerate(bindings) if next(known.solutions(p, b.value, {}), None) is not None]
                for p in self.patterns]

        def rest(k, chosen):
            if k == len(fits):
                yield chosen
                return
            for n in fits[k]:
                if n not in chosen:
                    yield from rest(k + 1, (*chosen, n))
        return rest(0, ())

    def _may_move(self, bindings, places):
        """Whether all are known before the first use of one of them."""
        chosen, last = {bindings[n].var for n in places}, max(places)
        return not any(v in chosen for b in bindings[:last + 1] for v in collect(b.value, (RelaxVar, DataflowVar)))


class _Item:
    """Item `index` of a new value that several bindings share."""

    def __init__(self, value, index):
        self.value, self.index = value, index


class _ContextRewriter(PatternMatchingRewriter):
    def __init__(self, context, func):
        self.context, self.func = context, func

    def rewrites(self, bindings):
        changed, left = {}, list(bindings)
        while left:
            matched = self.context.match_bindings(left)
            new = matched and self.func(matched, {b.var: b.value for b in left})
            if not new:
                break
            changed.update(new)
            left = [b for b in left if b.var not in new]
        return changed


def rewrite_call(pattern, rewriter, func):
    """A function in which each value that matches `pattern` is what rewriter(value, {pattern: value}) gives; the value
    itself stays."""
    return ExprPatternRewriter(pattern, rewriter)(func)


def rewrite_bindings(ctx, rewriter, func):
    """A function in which variables that match a PatternContext together have the values that
    rewriter({pattern: variable}, {variable: value}) gives: {variable: new value}."""
    if not isinstance(ctx, PatternContext):
        raise TypeError(f"rewrite_bindings takes a PatternContext, not a {type(ctx).__name__}; rewrite_call a pattern")
    return _ContextRewriter(ctx, rewriter)(func)


# ---------------------------------------------------------------- applying a rule

class _Apply(Mutator):
    """Rewrites each sequence of a function until the rule changes nothing."""

    def __init__(self, rule, func):
        self.rule = rule
        variables = collect(func, (RelaxVar, DataflowVar))
        self.names = Names(v.name for v in variables)

    def visit_Constant(self, constant):
        return constant

    def visit_SeqExpr(self, seq):
        seq = self.generic_visit(seq)
        for _ in range(_LIMIT):
            new = self._once(seq)
            if new is None:
                return seq
            new = _tidy(new)
            if structural_equal(seq, new, map_free_vars=False):
                return seq
            seq = new
        raise ValueError(f"a rule of {self.rule.name} still changes a function after {_LIMIT} rounds: what it makes "
                         "matches again")

    def _once(self, seq):
        """The sequence after one round, None when nothing matches."""
        result = seq.body
        blocks = list(seq.blocks)
        last = None
        if not isinstance(result, (RelaxVar, DataflowVar)):  # what is returned is a value like others
            last = RelaxVar("result", result.struct_info)
            blocks = blocks or [BindingBlock(())]
            blocks[-1] = blocks[-1].replace(bindings=(*blocks[-1].bindings, VarBinding(last, result)))
        new = [self._block(block) for block in blocks]
        if all(a is b for a, b in zip(blocks, new)):
            return None
        if last is not None:
            *rest, binding = new[-1].bindings
            new[-1], result = new[-1].replace(bindings=tuple(rest)), binding.value
            if isinstance(result, (RelaxCall, SeqExpr)):  # results are variables, and what is made of them
                new.append(BindingBlock((VarBinding(last, result),)))
                result = last
        return SeqExpr(tuple(b for b in new if b.bindings), result)

    def _block(self, block):
        if isinstance(block, DataflowBlock):
            new = self._bindings(block.bindings, DataflowVar)
        else:
            new, run = [], []
            for b in (*block.bindings, None):
                if b is not None and not (isinstance(b.value, If) or is_impure(b.value)):
                    run.append(b)
                    continue
                new += [*self._bindings(run, RelaxVar), *([b] if b is not None else [])]
                run = []
        new = tuple(new)
        return block if new == block.bindings else block.replace(bindings=new)

    def _bindings(self, bindings, kind):
        """Bindings with the new values of the rule; kind: of the variables that what is inside them gets."""
        changed = self.rule.rewrites(bindings)
        if not changed:
            return list(bindings)
        flat = _Flat(bindings, changed, self.names, kind)
        return _in_order(flat.bindings())


class _Flat:
    """Bindings of values that are nested as rules make them: calls inside calls get variables of their own, and a value
    that a variable has already is that variable."""

    def __init__(self, bindings, changed, names, kind):
        self.old, self.changed, self.names, self.kind = bindings, changed, names, kind
        self.variable_of = {id(b.value): b.var for b in bindings if b.var not in changed}
        self.made, self.shared = [], {}

    def bindings(self):
        for b in self.old:
            if b.var not in self.changed:
                self.made.append(b)
                continue
            value = self._value(self.changed[b.var])
            self.made.append(b.replace(value=value))
        return self.made

    def _value(self, value):
        """A value as it may be bound."""
        if isinstance(value, _Item):
            key = id(value.value)
            if key not in self.shared:
                self.shared[key] = self._value(value.value)
            whole = self.shared[key]
            if isinstance(whole, RelaxTuple):
                return whole.fields[value.index]
            whole = self.shared[key] = self._named(whole)
            return TupleGetItem(whole, value.index)
        if isinstance(value, SeqExpr):
            return self._sequence(value)
        known = self.variable_of.get(id(value))
        if known is not None:
            return known
        return _inferred(self._inside(value))

    def _sequence(self, seq):
        """The result of a sequence, whose bindings are added under names of their own."""
        result, bindings = flattened(seq, self.names, self.kind)
        for b in bindings:
            self.made.append(b.replace(value=self._value(b.value)))
        return self._value(result)

    def _inside(self, value):
        if isinstance(value, RelaxCall):
            return value.replace(args=tuple(self._argument(a) for a in value.args))
        if isinstance(value, RelaxTuple):
            return value.replace(fields=tuple(self._argument(f) for f in value.fields))
        if isinstance(value, TupleGetItem):
            whole = self._argument(value.tuple_value)
            return whole.fields[value.index] if isinstance(whole, RelaxTuple) else value.replace(tuple_value=whole)
        return value

    def _argument(self, value):
        known = self.variable_of.get(id(value))
        if known is not None:
            return known
        value = self._value(value)
        return self._named(value) if isinstance(value, (RelaxCall, TupleGetItem)) else value

    def _named(self, value):
        if not isinstance(value, (RelaxCall, TupleGetItem, RelaxTuple)):
            return value
        var = self.kind(unique_name("lv", self.names, ""), value.struct_info)
        self.made.append(VarBinding(var, value))
        self.variable_of[id(value)] = var
        return var


def _in_order(bindings):
    """Bindings, each after what it uses, moved as little as that takes."""
    made = {b.var for b in bindings}
    done, ordered, waiting = set(), [], []

    def ready(b):
        return all(v in done or v not in made for v in collect(b.value, (RelaxVar, DataflowVar)))

    for b in bindings:
        waiting.append(b)
        while True:
            first = next((w for w in waiting if ready(w)), None)
            if first is None:
                break
            waiting.remove(first)
            ordered.append(first)
            done.add(first.var)
    if waiting:
        raise ValueError("what the rule makes uses itself: " + ", ".join(b.var.name for b in waiting))
    return ordered


def _tidy(seq):
    """A sequence in canonical form, without what is computed twice or for nothing."""
    func = Function((), seq, seq.struct_info)
    for _ in range(_LIMIT):
        new = remove_all_unused(eliminate_common_subexpr(canonicalize_bindings(func)))
        if new is func or structural_equal(func.body, new.body):
            return func.body
        func = new
    return func.body


# ---------------------------------------------------------------- rules from modules

@provides("rule_of")
def _rule_of(mod):
    pattern, replacement = (_only_function(mod, name) for name in ("pattern", "replacement"))
    infos = [(tuple(p.struct_info for p in f.params), f.ret_struct_info) for f in (pattern, replacement)]
    if infos[0][1] is None or infos[1][1] is None:  # of a function that calls another one
        infos = [(params, None) for params, _ in infos]
    if not structural_equal(*infos, map_free_vars=True):
        shown = [", ".join(map(str, params)) + f" -> {result}" for params, result in infos]
        raise ValueError("pattern and replacement must have the same signature; the pattern's is "
                         f"{shown[0]}, the replacement's {shown[1]}")
    others = {n: f for n, f in mod.functions.items() if n not in ("pattern", "replacement")}
    public = [n for n, f in others.items() if "global_symbol" in f.attrs]
    if public:
        raise ValueError("a rule has no public functions other than pattern and replacement, but "
                         f"{', '.join(public)} is public: make it private")
    holes = [wildcard() for _ in pattern.params]
    made = {p: hole.has_struct_info(p.struct_info) for p, hole in zip(pattern.params, holes)}
    for b in pattern.bindings:
        made[b.var] = _pattern_of(b.value, made)
        if isinstance(b, MatchCast):
            made[b.var] = made[b.var].has_struct_info(b.var.struct_info)
    top = _pattern_of(pattern.body.body, made)

    def replace(value, found):
        return instance(replacement, [found[hole] for hole in holes])

    rule = ExprPatternRewriter(top, replace)
    if isinstance(top, dp.TuplePattern):
        rule = OrRewriter(rule, TupleRewriter(top.fields, replace))
    rule.subroutines = others
    return rule


def _only_function(mod, name):
    if name not in mod:
        raise KeyError(f"a rule needs the graph function {name!r}; the module has {', '.join(mod.functions) or 'none'}")
    if not isinstance(mod[name], Function):
        raise TypeError(f"{name!r} of a rule is a graph function, not a {type(mod[name]).__name__}")
    return mod[name]


def _pattern_of(value, made):
    """The pattern of a value of a function, made: {variable: its pattern}."""
    if value in made:
        return made[value]
    if isinstance(value, RelaxCall):
        callee = dp.callee(value)
        op = dp.ExternFuncPattern(callee.global_symbol) if isinstance(callee, ExternFunc) else (
            is_gv(callee.name) if hasattr(callee, "name_hint") else dp.ExprPattern(callee))
        call = dp.CallPattern(op, [_pattern_of(a, made) for a in dp.arguments(value)])
        return call.has_attr(_asked(value)) if _asked(value) else call
    if isinstance(value, RelaxTuple):
        return dp.TuplePattern([_pattern_of(f, made) for f in value.fields])
    if isinstance(value, TupleGetItem):
        return dp.TupleGetItemPattern(_pattern_of(value.tuple_value, made), value.index)
    if isinstance(value, PrimValue):
        return wildcard().has_struct_info(PrimStructInfo(value.value.dtype)) if free_vars(
            value) else dp.ExprPattern(value)
    if isinstance(value, ExternFunc):
        return dp.ExternFuncPattern(value.global_symbol)
    if isinstance(value, Constant) or hasattr(value, "values") and not free_vars(value):
        return dp.ExprPattern(value)
    return wildcard()


def _asked(call):
    """The attributes of an operator's call that a pattern asks for: those without symbolic dimensions that are no
    arguments."""
    if call.op.startswith("call"):
        return {}
    listed = dp.AS_ARGUMENTS.get(call.op, ())
    return {k: v for k, v in call.attrs.items() if k not in listed and not free_vars([v])}


def _inferred(value):
    """A call with struct info, inferred where it has none."""
    if not isinstance(value, RelaxCall) or value.struct_info is not None:
        return value
    value = inferred(value)
    return call_op(value.op, *value.args, **value.attrs) if value.struct_info is None and value.op in OPS else value
