"""Operator fusion: a group of operators becomes one function, later one kernel (by post-dominators, as in TVM)."""
from __future__ import annotations

from .. import op as op_table
from ..module import GlobalVar
from ..names import Names, unique_name
from ..relax.expr import DataflowVar, RelaxCall, RelaxVar, TensorStructInfo, VarBinding, dataflow_function
from ..relax.ops.common import same_shape
from ..relax.ops.qnn import BYTES, WORDS
from ..relax.ops.view import factors, same_count
from .graph import Substitute, is_immediate, is_operator, leaves, uses
from .one_kernel import is_worth_one_kernel, is_worth_prologue
from .product_operands import reads_through

MAPS = ("elementwise", "broadcast")
COPIES = MAPS + ("injective",)
HEADS = ("anchor", "reduction")
MEMBERS = COPIES + HEADS + ("padding",)
# Each output element of these comes from one of several inputs: inlined they would be a chain of conditions.
NEVER = ("concat", "split")
# Nor this, but before a depthwise convolution of what a 1x1 convolution makes, by bands of rows.
PADDING = "nn.pad"
LOOKUP = "lookup"  # a map of its first operand
MAX_GROUP = 32
MAX_INLINED = 64  # operations per element after inlining, which repeats what is used twice


def fuse_ops(mod, target=None):
    """Requires a dataflow "main". Ensures groups of two operators or more are calls (operator "call", attrs["gv"]) of
    functions with attrs "primitive" and "origin": one anchor or reduction with the elementwise operators of its shape
    that follow it or join them, or elementwise and copying operators alone. For a Target `target`, a 1x1 convolution
    and the depthwise one that alone reads its result, padded or not, are one group where that is faster, and so are a
    1x1 convolution, an average pool or a product and the operators that compute what it reads.

    A group grows from an operator to its immediate post-dominator, so no intermediate value leaves the group, and the
    call stands where the group's last operator stood.
    """
    func = mod["main"]
    groups = _Grouping(func.bindings, uses(func), target).groups()
    return _Outliner(mod, func, groups).run()


class _Grouping:
    """Operators are numbered as their bindings are. members: {number of a group: its operators in order}."""

    def __init__(self, bindings, used, target):
        self.target = target
        self.values = [b.value for b in bindings]
        self.infos = [b.var.struct_info for b in bindings]
        self.number = {id(b.var): n for n, b in enumerate(bindings)}
        self.consumers = [[None if u is None else self.number[id(u.var)] for u in used.get(id(b.var), ())]
                          for b in bindings]
        self.kinds = [kind_of(v) for v in self.values]
        self.group = list(range(len(bindings)))
        self.members = {n: [n] for n in self.group}

    def groups(self):
        """Lists of two operators or more, each in order."""
        post = self._post_dominators()
        for start, end in enumerate(post):
            if end is not None and self.kinds[end] == "padding":
                end = post[end]
            if end is not None and self.kinds[start] in MEMBERS:
                self._try_fuse(start, end)
        for end, kind in enumerate(self.kinds):
            if kind == "reduction" and self.target is not None:
                self._move_tail(end, self._inputs(end)[0])
            elif kind in MAPS and self.target is not None and self.target.freestanding:  # where bytes of RAM count
                for data in self._inputs(end):
                    self._move_tail(end, data)
        return [m for m in self.members.values() if len(m) > 1]

    def _move_tail(self, end, data):
        """Let an operator read the bytes that the group of its input `data` makes, where what makes wider numbers of
        them at the end of that group is worth being computed in the operator's kernel."""
        if data is None or self.group[data] == self.group[end] or self.consumers[data] != [end]:
            return
        given, tail = self.members[self.group[data]], [data]
        while not _widens(self.values[tail[-1]]):
            before = [n for n in self._inputs(tail[-1]) if n in given]
            if len(before) != 1 or len(self.consumers[before[0]]) != 1:
                return
            tail += before
        rest, joined = [n for n in given if n not in tail], sorted([*tail, *self.members[self.group[end]]])
        if self._fits(joined):
            for m in (data, end):
                del self.members[self.group[m]]
            for own in filter(None, (rest, joined)):
                self.members[own[-1]] = own
                for m in own:
                    self.group[m] = own[-1]

    def _post_dominators(self):
        """Immediate post-dominators (None: the function's end), from last to first by intersecting chains."""
        count = len(self.values)
        post, depth = [None] * count, [0] * count
        for n in reversed(range(count)):
            first, *rest = self.consumers[n] or [None]
            for c in rest:
                first = _meet(first, c, post, depth)
            post[n] = first
            depth[n] = 0 if first is None else depth[first] + 1
        return post

    def _try_fuse(self, start, end):
        between = self._between(start, end)
        if between is None or between and not (self._is_padding(between) or self._uniform(start, [*between, end])):
            return
        joined = {self.group[n] for n in (start, *between, end)}
        members = sorted(m for g in joined for m in self.members[g])
        if len(joined) > 1 and self._fits(members):
            target = min(joined)
            for g in joined - {target}:
                del self.members[g]
            self.members[target] = members
            for m in members:
                self.group[m] = target

    def _between(self, start, end):
        """The operators on paths from start to end, both excluded; None when there are too many."""
        found, todo = set(), [start]
        while todo:
            for c in self.consumers[todo.pop()]:
                if c != end and c not in found:
                    found.add(c)
                    todo.append(c)
            if len(found) > MAX_GROUP:
                return None
        return sorted(found)

    def _fits(self, members):
        """Whether these operators, whose values meet in the last one, make one good kernel."""
        heads = [m for m in members if self.kinds[m] in HEADS]
        padding = [m for m in members if self.kinds[m] == "padding"]
        if len(members) > MAX_GROUP or any(self.kinds[m] not in MEMBERS for m in members):
            return False
        if (padding or len(heads) > 1) and not self._is_pair(heads, padding, members):
            return False
        if heads:
            before = self._reaching(self._inputs(heads[0]), members)
            maps = [m for m in members if m not in (*heads, *padding, *before)]
            shaped = (all(any(self._uniform(h, [m]) for h in heads) for m in maps)
                      and (not before or before == padding
                           or len(heads) == 1 and self._computes_operands(heads[0], before)))
        else:
            shaped = all(_no_fewer(self.infos[m], self.infos[members[-1]]) for m in members)
        return shaped and self._inlined(members) <= MAX_INLINED

    def _reaching(self, values, members):
        """The members that values need, in order: those that compute them, and what these need."""
        found, todo = set(), set(values) & set(members)
        while todo:
            found |= todo
            todo = {n for m in todo for n in self._inputs(m)} & set(members) - found
        return sorted(found)

    def _computes_operands(self, head, before):
        """Whether an anchor is a product that reads its operands through these operators, or a convolution whose data
        they make."""
        data = self._inputs(head)[0]
        if data in before and self._uniform(data, before) and self.target is not None and is_worth_prologue(
                self.target, self.values[head], [self.values[m] for m in before]):
            return True
        chains = [self._reaching([self.number.get(id(a))], before) for a in self.values[head].args]
        return self.target is not None and sum(map(len, chains)) == len(before) and reads_through(
            self.target, self.values[head], [[self.values[m] for m in chain] for chain in chains])

    def _is_pair(self, heads, padding, members):
        """Whether heads are a 1x1 convolution and a depthwise one of its result, padded or not, that are faster as one.
        """
        return (len(heads) == 2 and len(padding) < 2 and self.target is not None
                and set(padding or members) & set(self._inputs(heads[1]))
                and is_worth_one_kernel(self.target, *(self.values[m] for m in (heads[0], *padding, heads[1]))))

    def _is_padding(self, between):
        return [self.kinds[n] for n in between] == ["padding"]

    def _uniform(self, first, others):
        """Whether `others` map elements one by one, in the shape of `first`."""
        shape = getattr(self.infos[first], "shape", None)
        return shape is not None and all(
            self.kinds[n] in MAPS and same_shape(shape, self.infos[n].shape) for n in others)

    def _inlined(self, members):
        """Operations per output element when every operator but the head is computed where it is used."""
        size = {}
        for m in members:
            size[m] = 1 if self.kinds[m] in HEADS else 1 + sum(size.get(n, 0) for n in self._inputs(m))
        return size[members[-1]]

    def _inputs(self, n):
        """The operators whose values operator n reads, as often as it does; None for other values."""
        return [self.number.get(id(v)) for v in leaves(self.values[n])]


def _widens(value):
    """Whether a value is integers of 8 or 16 bits, in a wider type."""
    return is_operator(value) and value.op == "astype" and str(value.args[0].struct_info.dtype) in (*BYTES, *WORDS)


def kind_of(value):
    """What an operator is to fusion, a word of MEMBERS; "opaque" for what is one kernel alone."""
    if not is_operator(value) or value.op in NEVER or not isinstance(value.struct_info, TensorStructInfo):
        return "opaque"
    if value.op == PADDING:
        return "padding"
    if value.op == LOOKUP:
        return MAPS[0]
    return op_table.get(value.op).kind


def _meet(a, b, post, depth):
    """The first operator that all paths from a and from b go through; None is the function's end."""
    while a != b:
        if a is None or b is None:
            return None
        if depth[a] < depth[b]:
            a, b = b, a
        a = post[a]
    return a


def _no_fewer(a, b):
    """Whether a tensor is known to have at least as many elements as another: computing its elements where those of the
    other are needed repeats no work."""
    (static_a, symbols_a), (static_b, symbols_b) = factors(a.shape), factors(b.shape)
    return static_a >= static_b and same_count(symbols_a, symbols_b) is True


class _Outliner:
    """Replaces each group by a call of a new function."""

    def __init__(self, mod, func, groups):
        self.mod, self.func = mod, func
        self.groups = {m[-1]: m for m in groups}
        self.grouped = {n for m in groups for n in m}
        self.functions, self.names = {}, Names(mod.functions)

    def run(self):
        bindings, old = [], self.func.bindings
        for n, b in enumerate(old):
            if n in self.groups:
                bindings.append(VarBinding(b.var, self._outline([old[m] for m in self.groups[n]])))
            elif n not in self.grouped:
                bindings.append(b)
        main = dataflow_function(self.func.params, bindings, self.func.outputs, self.func.attrs)
        return self.mod.with_functions({**self.mod.functions, "main": main, **self.functions})

    def _outline(self, bindings):
        """The call of a new function that computes `bindings`, whose last one is the result."""
        inside = {id(b.var) for b in bindings}
        inputs = {id(v): v for b in bindings for v in leaves(b.value)
                  if id(v) not in inside and not is_immediate(v, b.value.op)}
        env, taken = {}, {b.var.name for b in bindings}
        for key, v in inputs.items():
            env[key] = RelaxVar(unique_name(v.name or "const", taken), v.struct_info)
        rename, body = Substitute(env), []
        for b in bindings:
            body.append(VarBinding(DataflowVar(b.var.name, b.var.struct_info, b.var.origin), rename.visit(b.value)))
            env[id(b.var)] = body[-1].var
        name = unique_name("fused_" + "_".join(b.value.op.rpartition(".")[2] for b in bindings)[:80], self.names)
        origin = tuple(b.var.origin for b in bindings if b.var.origin is not None)
        params, result = [env[key] for key in inputs], body[-1].var
        self.functions[name] = dataflow_function(params, body, [result], {"primitive": True, "origin": origin})
        return RelaxCall("call", tuple(inputs.values()), {"gv": GlobalVar(name)}, result.struct_info)

