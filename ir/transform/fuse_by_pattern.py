"""FuseOpsByPattern: what matches a pattern becomes a function of its own, which says by its attributes whose it is."""
from __future__ import annotations

from dataclasses import dataclass, field

from ..names import Names, unique_name
from ..node import collect
from ..relax.expr import Constant, DataflowVar, Function, MatchCast, RelaxCall, RelaxVar
from ..relax.patterns import pattern as dp
from .outline_groups import (Group, codegen_function, generator_of, may_be_partitioned, outline_groups,
                             without_uncalled, wrapped)
from .segments import closed, with_own_dims
from .symbols import Calls

_INSIDE = (dp.CallPattern, dp.TupleGetItemPattern, dp.TuplePattern)  # patterns of what is computed in a group


@dataclass
class FusionPattern:
    """A pattern whose matches become functions with the attribute Composite `name`, "generator.what".

    annotation_patterns: {name: pattern} of the parts that `check` asks for; check(PatternCheckContext): whether a match
    is taken; attrs_getter({name: value}): more attributes of the function.
    """

    name: str
    pattern: dp.DFPattern
    annotation_patterns: dict = field(default_factory=dict)
    check: object = None
    attrs_getter: object = None

    def __post_init__(self):
        if not isinstance(self.name, str) or not isinstance(self.pattern, dp.DFPattern):
            raise TypeError(f"a pattern is (name, pattern[, annotation patterns[, check]]), not a "
                            f"({type(self.name).__name__}, {type(self.pattern).__name__})")
        self.annotation_patterns = dict(self.annotation_patterns or {})


@dataclass
class PatternCheckContext:
    """A match. matched_expr: the value that the pattern fits; annotated_expr: {name: value} of annotation_patterns;
    matched_bindings: {variable: value} of all that the group would compute; var_usages: {variable: variables whose
    values use it}; value_to_bound_var: {value: its variable}."""

    matched_expr: object
    annotated_expr: dict
    matched_bindings: dict
    var_usages: dict
    value_to_bound_var: dict


def fuse_ops_by_pattern(mod, patterns, bind_constants=True, annotate_codegen=False, entry_functions=None):
    """A module in which values that match `patterns` are computed by functions with the attributes Composite, the
    pattern's name, and Primitive. Earlier patterns go first; of one, matches nearer to the results.

    patterns: FusionPatterns, or tuples of their fields. bind_constants: constants of a match stay inside; else they are
    arguments. annotate_codegen: around each function is one with the attributes Codegen, what the pattern's name has
    before the first dot, and global_symbol, by which RunCodegen finds it. entry_functions: names of those to look at;
    None: all graph functions. Values outside of dataflow blocks are left.
    Raises TypeError for what is no pattern, ValueError where a match would need its own result.
    """
    rows = [p if isinstance(p, FusionPattern) else FusionPattern(*p) if isinstance(p, (tuple, list))
            else FusionPattern(getattr(p, "name", None), p) for p in patterns]
    for name in entry_functions or ():
        mod[name]  # raises when there is none
    for row in rows:
        names = [n for n in may_be_partitioned(mod) if not entry_functions or n in entry_functions]
        mod = outline_groups(mod, lambda bindings: _matches(row, bindings), bind_constants, names, with_own_dims)
    return _annotated(mod) if annotate_codegen else mod


def _matches(row, bindings):
    """The Groups of a pattern in the bindings of a dataflow block."""
    at = {id(b.value): n for n, b in enumerate(bindings) if not isinstance(b, MatchCast)}
    known = dp.Match({b.var: b.value for b in bindings
                      if id(b.value) in at and not isinstance(b.value, (RelaxVar, DataflowVar, Constant))})
    context, groups, taken = _Context(bindings), [], set()
    for n in reversed(range(len(bindings))):
        value = bindings[n].value
        if id(value) not in at or not isinstance(value, RelaxCall) or n in taken:
            continue
        for found in known.solutions(row.pattern, value, {}):
            found = dp.public(found)
            members = {n, *(at[id(v)] for p, v in found.items() if isinstance(p, _INSIDE) and id(v) in at)}
            if members & taken:
                continue
            annotated = {name: found[p] for name, p in row.annotation_patterns.items() if p in found}
            if row.check is not None and not row.check(context.of(value, annotated, members)):
                continue
            more = dict(row.attrs_getter(annotated)) if row.attrs_getter is not None else {}
            groups.append(Group(tuple(sorted(members)), {"Composite": row.name, "Primitive": 1, **more}))
            taken |= members
            break
    return groups


class _Context:
    """What checks are told of a block, made when the first one asks."""

    def __init__(self, bindings):
        self.bindings, self.usages = bindings, None

    def of(self, value, annotated, members):
        if self.usages is None:
            self.usages = {}
            for b in self.bindings:
                for v in collect(b.value, (RelaxVar, DataflowVar)):
                    self.usages.setdefault(v, []).append(b.var)
        chosen = [self.bindings[n] for n in sorted(members)]
        return PatternCheckContext(value, annotated, {b.var: b.value for b in chosen}, self.usages,
                                   {b.value: b.var for b in self.bindings})


def _annotated(mod):
    """The module with a function for a generator in the place of each composite function that others call."""
    names, made, to = Names(mod.functions), {}, {}
    for name, func in mod.functions.items():
        composite = func.attrs.get("Composite") if isinstance(func, Function) else None
        if composite:
            to[name] = unique_name(f"{name}_{generator_of(composite)}", names, "")
            made[to[name]] = closed(codegen_function(mod, wrapped(mod, name, composite), to[name]))
    renamed = {n: Calls(to).visit(f) if isinstance(f, Function) and n not in to else f
               for n, f in mod.functions.items()}
    return without_uncalled(mod.with_functions({**renamed, **made}), "Composite")


__all__ = ["FusionPattern", "PatternCheckContext", "fuse_ops_by_pattern"]
