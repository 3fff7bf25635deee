"""Which nodes of a graph become one kernel: by the patterns of their elements, and post-dominators, as in TVM."""
from __future__ import annotations

from ..annotate_op_pattern import OpPatternKind as Kind


class GraphNode:
    """A value. outputs: [(the node that reads it, how its elements lie there)]; extern: whether it is seen outside."""

    def __init__(self, index, pattern):
        self.index, self.pattern, self.outputs, self.extern = index, pattern, [], False


class Group:
    """Nodes that are one kernel: parent is the group that this one joined, count how many nodes there are."""

    def __init__(self, node):
        self.parent, self.pattern, self.count = None, node.pattern, 1
        self.anchored = node.pattern == Kind.OUT_ELEMENTWISE_FUSABLE

    def root(self):
        group = self
        while group.parent is not None:
            group = group.parent
        return group

    def join(self, other):
        child, parent = self.root(), other.root()
        if child is parent:
            return
        parent.count += child.count
        child.parent = parent
        if child.anchored:
            parent.anchored, parent.pattern = True, max(child.pattern, parent.pattern)


class _Place:
    """A node's post-dominator, the pattern of the edges to it, and how many there are up to the end."""

    def __init__(self, parent, pattern):
        self.parent, self.pattern = parent, pattern
        self.depth = 1 if parent is None else parent.depth + 1
        self.node = None


def partition(nodes, most=256):
    """The Group of each node; nodes come in order of computation. most: of how many nodes a group is at most."""
    return _Partition(nodes, most).groups


class _Partition:
    def __init__(self, nodes, most):
        self.nodes, self.most = nodes, most
        self.groups = [Group(n) for n in nodes]
        self.places = [None] * len(nodes)
        for node in reversed(nodes):
            self.places[node.index] = self._place(node)
            self.places[node.index].node = node
        for phase in range(3):
            for node in nodes:
                self._try(node, phase)

    # ------------------------------------------------------------ post-dominators

    def _place(self, node):
        if node.extern:
            return _Place(None, Kind.OPAQUE)
        if not node.outputs:
            return _Place(None, Kind.ELEMENTWISE)
        (first, pattern), *rest = node.outputs
        found = self.places[first.index]
        for reader, kind in rest:
            found, pattern = self._meet(found, self.places[reader.index], pattern)
            pattern = max(pattern, kind)
        return _Place(found, pattern)

    @staticmethod
    def _meet(a, b, pattern):
        """(what is behind both, the greatest pattern on the ways there)"""
        while a is not b:
            if a is None or b is None:
                return None, pattern
            if a.depth < b.depth:
                pattern, b = max(pattern, b.pattern), b.parent
            elif b.depth < a.depth:
                pattern, a = max(pattern, a.pattern), a.parent
            else:
                pattern, a, b = max(pattern, a.pattern, b.pattern), a.parent, b.parent
        return a, pattern

    # ------------------------------------------------------------ fusing

    def _try(self, node, phase):
        """Join a node's group with that of its post-dominator, where what lies between can."""
        group, place = self.groups[node.index], self.places[node.index]
        if group.pattern == Kind.OPAQUE or place.parent is None:
            return
        sink = place.parent.node
        target = self.groups[sink.index]
        if self._count(node, sink) > self.most:
            return
        if phase == 2:  # what a tuple inside a kernel holds
            root = target.root()
            joins = (group.pattern <= Kind.INJECTIVE and target.pattern == Kind.TUPLE and root.pattern != Kind.TUPLE
                     and root.pattern <= Kind.INJECTIVE)
            between = _injective
        elif group.root() is target.root() or target.pattern == Kind.TUPLE:
            return
        elif group.pattern == Kind.OUT_ELEMENTWISE_FUSABLE:
            joins, between = phase == 0 and place.pattern == Kind.ELEMENTWISE, _broadcast
        elif group.pattern <= Kind.BROADCAST:
            joins, between = place.pattern <= Kind.REDUCE, _to_anchor
        else:
            joins = phase == 1 and group.pattern in (Kind.INJECTIVE, Kind.TUPLE)
            between = _injective
        if joins and self._path(node, sink, between):
            self._commit(node, sink, target, set())

    def _path(self, source, sink, holds):
        """Whether holds(pattern, is the sink) for all nodes on the ways from source to sink."""
        seen, todo = set(), [n for n, _ in source.outputs]
        while todo:
            node = todo.pop()
            if node.index in seen:
                continue
            seen.add(node.index)
            if not holds(self.groups[node.index].root().pattern, node is sink):
                return False
            if node is not sink:
                todo += [n for n, _ in node.outputs]
        return True

    def _commit(self, source, sink, target, seen):
        if source is sink or source.index in seen:
            return
        seen.add(source.index)
        self.groups[source.index].join(target)
        for node, _ in source.outputs:
            self._commit(node, sink, target, seen)

    def _count(self, source, sink):
        """How many nodes there are in the groups from source to sink."""
        groups, todo, seen = {}, [source], set()
        while todo:
            node = todo.pop()
            if node.index in seen:
                continue
            seen.add(node.index)
            root = self.groups[node.index].root()
            groups[id(root)] = root.count
            if node is not sink:
                todo += [n for n, _ in node.outputs]
        return sum(groups.values())


def _injective(pattern, is_sink):
    return pattern <= Kind.INJECTIVE


def _broadcast(pattern, is_sink):
    return pattern <= Kind.BROADCAST


def _to_anchor(pattern, is_sink):
    return pattern <= (Kind.OUT_ELEMENTWISE_FUSABLE if is_sink else Kind.INJECTIVE)


__all__ = ["GraphNode", "Group", "partition"]
