"""FuseOps of scripts: calls of PrimFuncs that are one kernel become a function, by the attributes "op_pattern"."""
from __future__ import annotations

from ...relax.expr import DataflowVar, Function, MatchCast, RelaxCall, RelaxTuple, TupleGetItem
from ...tir.function import PrimFunc
from ..annotate_op_pattern import OpPatternKind as Kind
from ..dead_code import remove_all_unused
from ..graph import leaves
from ..outline_groups import Group, may_be_partitioned, outline_groups
from ..segments import with_own_dims
from .partition import GraphNode, partition

_CALLS = ("call_tir", "call_tir_inplace")


def fuse_ops(mod, fuse_opt_level=-1):
    """A module in which calls of PrimFuncs that AnnotateTIROpPattern has marked are grouped, in each dataflow block:
    each group is a private function with the attribute Primitive, fused_add_exp, whose constants are arguments, for
    FuseTIR. Other calls stay between groups, and so do items of tuples that a group does not make; what nothing uses
    goes. fuse_opt_level: 0 groups nothing."""
    if fuse_opt_level == 0:
        return mod
    mod = mod.with_functions({n: remove_all_unused(f) if isinstance(f, Function) else f
                              for n, f in mod.functions.items()})
    return outline_groups(mod, lambda bindings: _groups(mod, bindings), False, may_be_partitioned(mod),
                          with_own_dims)


def _groups(mod, bindings):
    """The Groups of two bindings or more of a dataflow block."""
    nodes = [GraphNode(n, _pattern(mod, b)) for n, b in enumerate(bindings)]
    at = {id(b.var): node for node, b in zip(nodes, bindings)}
    for node, b in zip(nodes, bindings):
        node.extern = not isinstance(b.var, DataflowVar)
        kind = Kind.INJECTIVE if isinstance(b.value, (RelaxTuple, TupleGetItem)) else node.pattern
        for v in leaves(b.value):
            if id(v) in at:
                at[id(v)].outputs.append((node, kind))
    members = {}
    for n, group in enumerate(partition(nodes)):
        members.setdefault(id(group.root()), []).append(n)
    groups = [_computed(bindings, m) for m in members.values()]
    return [Group(tuple(m), {"Primitive": 1}) for m in groups if len(m) > 1]


def _computed(bindings, members):
    """A group's positions less those of items of tuples that are made outside of it."""
    inside, kept = set(), []
    for n in members:
        value = bindings[n].value
        if isinstance(value, TupleGetItem) and not any(id(v) in inside for v in leaves(value)):
            continue
        inside.add(id(bindings[n].var))
        kept.append(n)
    return kept


def _pattern(mod, binding):
    """How the elements that a binding makes lie to those that it reads."""
    value = binding.value
    if isinstance(binding, MatchCast):
        return Kind.OPAQUE
    if isinstance(value, RelaxTuple):
        return Kind.TUPLE
    if isinstance(value, TupleGetItem):
        return Kind.INJECTIVE
    func = mod.functions.get(value.attrs["gv"].name) if isinstance(value, RelaxCall) and value.op in _CALLS else None
    known = func.attrs.get("op_pattern") if isinstance(func, PrimFunc) else None
    return Kind.OPAQUE if known is None else Kind(int(known))


__all__ = ["fuse_ops"]
