"""Operator fusion: a group of operators becomes one function, later one kernel (as TVM's FuseOps, by post-dominators)."""
from __future__ import annotations

from .. import op as op_table
from ..module import GlobalVar
from ..node import structural_equal
from ..relax.expr import (Constant, RelaxCall, RelaxVar, TensorStructInfo, VarBinding, dataflow_function)
from .graph import uses, variables

MAPS = ("elementwise", "broadcast")
COPIES = MAPS + ("injective",)
HEADS = ("anchor", "reduction")
# Each output element of these comes from one of several inputs: inlined they would be a chain of conditions.
NEVER = ("concat", "nn.pad", "split")
MAX_GROUP = 32


def fuse_ops(mod):
    """Requires a dataflow "main". Ensures its costly operators (anchors, reductions) and the elementwise operators that
    only they feed are calls of functions marked "primitive", one per group; so are chains of elementwise operators.

    A group grows from an operator to its immediate post-dominator when every operator on the way maps elements of the
    same shape, so no intermediate value leaves the group.
    """
    func = mod["main"]
    groups = _Grouping(func).groups()
    return _Outliner(mod, func, groups).run()


class _Grouping:
    def __init__(self, func):
        self.bindings = func.bindings
        self.index = {id(b.var): n for n, b in enumerate(self.bindings)}
        used = uses(func)
        self.consumers = [[None if u is None else self.index[id(u.var)] for u in used.get(id(b.var), [])]
                          for b in self.bindings]
        self.kinds = [_kind(b.value) for b in self.bindings]
        self.leader = list(range(len(self.bindings)))
        self.head = list(self.kinds)  # of a group, by its leader: the kind that limits what may join
        self.size = [1] * len(self.bindings)

    def groups(self):
        """{last binding's index: [indices of the group's bindings in order]} of groups of one or more operators."""
        post = self._post_dominators()
        for n, kind in enumerate(self.kinds):
            if kind in COPIES + HEADS and post[n] is not None:
                self._try_fuse(n, post[n])
        members = {}
        for n, kind in enumerate(self.kinds):
            members.setdefault(self._find(n), []).append(n)
        return {max(m): m for m in members.values()}

    def _find(self, n):
        while self.leader[n] != n:
            n = self.leader[n]
        return n

    def _post_dominators(self):
        """Immediate post-dominators (None: the function's end), from last to first by intersecting chains."""
        post, depth = [None] * len(self.bindings), [0] * len(self.bindings)
        for n in reversed(range(len(self.bindings))):
            common, first = None, True
            for c in self.consumers[n]:
                common = c if first else self._meet(common, c, post, depth)
                first = False
            post[n] = common
            depth[n] = 0 if common is None else depth[common] + 1
        return post

    @staticmethod
    def _meet(a, b, post, depth):
        while a is not b and a != b:
            if a is None or b is None:
                return None
            if depth[a] >= depth[b]:
                a, b = post[a], b
            else:
                b = post[b]
        return a

    def _try_fuse(self, start, end):
        between = self._between(start, end)
        leader, last = self._find(start), self._find(end)
        if between is None or leader == last:
            return
        joining = [*between, end]
        allowed = MAPS if self.head[leader] in HEADS else COPIES
        if any(self.kinds[n] not in allowed for n in joining) or self.head[last] in HEADS:
            return
        if self.head[leader] in HEADS and not all(self._same_shape(start, n) for n in joining):
            return
        parts = {self._find(n) for n in joining} - {leader}
        if self.size[leader] + sum(self.size[p] for p in parts) > MAX_GROUP:
            return
        if any(self.head[p] in HEADS for p in parts):
            return
        for part in parts:
            self.leader[part] = leader
            self.size[leader] += self.size[part]

    def _between(self, start, end):
        """The operators on paths from start to end, both excluded; None when there are too many."""
        found, todo = set(), [c for c in self.consumers[start] if c != end]
        while todo:
            n = todo.pop()
            if n is None or len(found) > MAX_GROUP:
                return None
            if n not in found:
                found.add(n)
                todo.extend(c for c in self.consumers[n] if c != end)
        return sorted(found)

    def _same_shape(self, a, b):
        a, b = self.bindings[a].var.struct_info, self.bindings[b].var.struct_info
        return isinstance(a, TensorStructInfo) and isinstance(b, TensorStructInfo) and structural_equal(a.shape, b.shape)


def _kind(value):
    if not isinstance(value, RelaxCall) or value.op in ("call_tir", "call") or value.op in NEVER:
        return "opaque"
    return op_table.get(value.op).kind


class _Outliner:
    """Replaces each group by a call of a new function."""

    def __init__(self, mod, func, groups):
        self.mod, self.func, self.groups = mod, func, groups
        self.bindings = func.bindings
        self.functions, self.names = {}, set(mod.functions)

    def run(self):
        grouped = {n for members in self.groups.values() for n in members}
        out = []
        for n, b in enumerate(self.bindings):
            if n in self.groups and self._worth(self.groups[n]):
                out.append(VarBinding(b.var, self._outline(self.groups[n])))
            elif n not in grouped or not self._inside(n):
                out.append(b)
        main = dataflow_function(self.func.params, out, self.func.outputs, self.func.attrs)
        return self.mod.with_functions({"main": main, **{k: v for k, v in self.mod.functions.items() if k != "main"},
                                        **self.functions})

    def _worth(self, members):
        return len(members) > 1

    def _inside(self, n):
        """n is in an outlined group, but is not its last."""
        return any(n in members and self._worth(members) for members in self.groups.values())

    def _outline(self, members):
        chosen = [self.bindings[n] for n in members]
        inner = {id(b.var) for b in chosen}
        inputs = {}
        for b in chosen:
            for v in self._inputs(b.value):
                if id(v) not in inner:
                    inputs.setdefault(id(v), v)
        params, env = [], {}
        for key, v in inputs.items():
            hint = v.name or "const"
            params.append(RelaxVar(_unique(hint, {p.name for p in params}), v.struct_info))
            env[key] = params[-1]
        from .graph import _Replace

        class Rename(_Replace):
            def visit_Constant(self, c):
                return self.env.get(id(c), c)

        bindings = [VarBinding(b.var, Rename(env).visit(b.value)) for b in chosen]
        name = _unique("fused_" + "_".join(b.value.op.split(".")[-1] for b in chosen)[:80], self.names)
        self.names.add(name)
        origin = tuple(b.var.origin for b in chosen if b.var.origin is not None)
        self.functions[name] = dataflow_function(params, bindings, [chosen[-1].var],
                                                 {"primitive": True, "origin": origin})
        return RelaxCall("call", tuple(inputs.values()), {"gv": GlobalVar(name)}, chosen[-1].var.struct_info)

    @staticmethod
    def _inputs(value):
        """Variables and weights (constants of more than one element) become parameters; scalars stay inside."""
        found = {id(v): v for v in variables(value)}
        for a in value.args:
            if isinstance(a, Constant) and a.data.size > 1:
                found.setdefault(id(a), a)
        return list(found.values())


def _unique(hint, taken):
    name, n = hint, 0
    while name in taken:
        n += 1
        name = f"{hint}_{n}"
    return name
