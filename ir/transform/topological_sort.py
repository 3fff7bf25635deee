"""TopologicalSort: the bindings of dataflow blocks in the order of a search through what uses what."""
from __future__ import annotations

from collections import deque

from ..node import Mutator, children
from ..relax.expr import Binding, DataflowVar, Function, RelaxVar

ORDERS, DIRECTIONS = ("depth-first", "breadth-first"), ("from-inputs", "from-outputs")
_IN, _OUT = "inputs", "outputs"  # nodes of the search besides variables, which are their ids


def topological_sort(func, order="depth-first", direction="from-inputs"):
    """A graph function whose dataflow blocks have their bindings in the order in which a search meets them, each after
    what it uses: from the parameters on, or from the results back. Where the search has a choice, the order of
    parameters, arguments and bindings decides. ValueError where order or direction is none of ORDERS, DIRECTIONS."""
    for what, value, known in (("traversal order", order, ORDERS), ("starting location", direction, DIRECTIONS)):
        if value not in known:
            raise ValueError(f'Invalid value for {what}: "{value}". Allowed values are "{known[0]}" or "{known[1]}"')
    return _Sort(order, direction).visit(func)


class _Edges:
    """What is used by what in a function: users, {node: [nodes]}, and the other way round, requirements."""

    def __init__(self, func):
        self.users, self.requirements, self.bound = {}, {}, []
        self._collect(func, _OUT)
        alone = [v for v in self.bound if v not in self.requirements]
        unused = [v for v in self.bound if v not in self.users]
        for v in alone:
            self._edge(_IN, v)
        for v in reversed(unused):
            self.requirements.setdefault(_OUT, []).insert(0, v)
            self.users[v] = [_OUT]

    def _edge(self, used, user):
        self.users.setdefault(used, []).append(user)
        self.requirements.setdefault(user, []).append(used)

    def _collect(self, node, user):
        if isinstance(node, (RelaxVar, DataflowVar)):
            self._edge(id(node), user)
        elif isinstance(node, Binding):
            self._collect(node.value, id(node.var))
            self.bound.append(id(node.var))
        else:
            if isinstance(node, Function):
                for p in node.params:
                    self._edge(_IN, id(p))
                node = node.body
            for child in children(node):
                self._collect(child, user)


class _Sort(Mutator):
    def __init__(self, order, direction):
        self.depth, self.back, self.edges = order == "depth-first", direction == "from-outputs", None

    def visit_Constant(self, constant):
        return constant

    def visit_Function(self, func):
        outer, self.edges = self.edges, _Edges(func)
        func = func.replace(body=self.visit(func.body))
        self.edges = outer
        return func

    def visit_DataflowBlock(self, block):
        found = {id(b.var): b for b in block.bindings}
        met = [found[node] for node in self._search() if node in found]
        if self.back:
            met.reverse()
        return block.replace(bindings=tuple(self.visit(b) for b in met))

    def _search(self):
        """The variables of the function in the order in which they are met, each when all before it are."""
        edges, seen, order = self.edges, set(), []
        ahead, behind = edges.users, edges.requirements
        if self.back:
            ahead, behind = behind, ahead
        todo = deque([_OUT if self.back else _IN])
        turned = self.depth and not self.back  # a stack meets the last one first
        while todo:
            node = todo.pop() if self.depth else todo.popleft()
            if node not in seen:
                seen.add(node)
                order.append(node)
            following = ahead.get(node, ())
            for other in reversed(following) if turned else following:
                if other not in seen and all(p in seen for p in behind[other]):
                    todo.append(other)
        return order


__all__ = ["topological_sort"]
