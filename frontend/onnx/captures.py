"""The graphs that nodes hold, and the names that these use of the graph around them."""
from __future__ import annotations

from onnx import AttributeProto


def subgraphs(node):
    """The GraphProtos that a NodeProto holds."""
    for a in node.attribute:
        if a.type == AttributeProto.GRAPH:
            yield a.g
        elif a.type == AttributeProto.GRAPHS:
            yield from a.graphs


def outer_names(graph):
    """The names that a graph uses and does not make, in order."""
    made = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    found = {}
    for node in graph.node:
        found |= {n: None for n in used_names(node) if n not in made}
        made.update(node.output)
    found |= {o.name: None for o in graph.output if o.name not in made}
    return list(found)


def used_names(node):
    """The names that a node reads, those of its graphs too."""
    return [*filter(None, node.input), *(n for g in subgraphs(node) for n in outer_names(g))]
