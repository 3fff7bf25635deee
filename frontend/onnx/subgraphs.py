"""Graphs inside of nodes: the branches and bodies of If, Loop, Scan and SequenceMap.

`inline` imports one where its node stands. `draft` imports one as a function of its own, whose parameters are all that
it uses from outside.
"""
from __future__ import annotations

import copy
from collections import ChainMap
from dataclasses import dataclass, replace

from ...ir.expr import free_vars
from ...ir.names import unique_name
from ...ir.relax.block_builder import BlockBuilder, call_op
from ...ir.relax.control import dims_set_by
from ...ir.relax.expr import Constant, RelaxCall, RelaxExpr, RelaxVar, TupleGetItem, VarBinding, dataflow_function
from ...ir.transform.graph import Substitute, variables
from ..shapes import dim, dims_of, may_be_same, same_dims
from . import load
from .errors import OnnxImportError

MOST_DEPTH = 20  # of graphs inside of graphs


# ---------------------------------------------------------------- importing

def inline(importer, graph, given, title):
    """The values of a graph's outputs, imported where its node stands. given: values of its inputs, in order."""
    return _imported(importer, graph, given, title, importer.builder)


@dataclass(frozen=True)
class Draft:
    """A graph that becomes a function: its bindings, the values that it returns, and the variables from outside.
    counts: of the values that each of the graph's outputs was taken apart into; None where it is one as it is."""

    bindings: tuple
    outputs: tuple
    outer: tuple
    counts: tuple = ()

    @property
    def infos(self):
        return [o.struct_info for o in self.outputs]

    @property
    def dims(self):
        """The dimensions that its bindings define."""
        return {d for b in self.bindings for d in dims_set_by(b.value)}

    def function(self, params, outer, results=None):
        """The Function whose parameters are `params`, of the draft's own, and then `outer`, variables from outside.
        results: what it returns in place of all outputs."""
        names = {b.var.name for b in self.bindings} | {p.name for p in params}
        inside = {id(v): RelaxVar(unique_name(v.name, names), v.struct_info) for v in outer}
        rename = Substitute(inside)
        bindings = [VarBinding(b.var, rename.visit(b.value)) for b in self.bindings]
        outputs = [rename.visit(o) for o in (self.outputs if results is None else results)]
        dims = [d for d in free_vars([[b.var.struct_info for b in bindings], [b.value for b in bindings],
                                      [p.struct_info for p in (*params, *inside.values())]]) if d not in self.dims]
        return dataflow_function([*params, *inside.values()], bindings, outputs, {"dims": tuple(dims)})


def draft(importer, graph, given, title, params=(), wanted=(), take_apart=lambda value: None):
    """The Draft of a graph. given: values of its inputs, some of which are `params`, variables of the function.
    wanted: struct infos of the first outputs, None for any: a shape that may be that one is checked by the run.
    take_apart: function (value of an output that is no tensor) -> its tensors, or None."""
    counts = []

    def make(builder):
        values = []
        for v, o in zip(_imported(importer, graph, given, title, builder), graph.output):
            parts = take_apart(v)
            values += [_as_tensor(importer, part, builder, o.name, title) for part in ([v] if parts is None else parts)]
            counts.append(None if parts is None else len(parts))
        for k, info in enumerate(wanted):
            if info is not None and _may_be(dims_of(values[k]), [dim(d) for d in info.shape]):
                values[k] = builder.emit(call_op("reshape", values[k], list(info.shape)), name_hint="fit")
        return values

    return replace(drafted(make, params), counts=tuple(counts))


def drafted(make, params=()):
    """The Draft of the values that make(block builder) returns: variables or constants. params: variables of the
    function."""
    builder = BlockBuilder()
    for p in params:
        builder.unique_name(p.name)
    with builder.dataflow():
        values = make(builder)
    bindings = builder.emitted
    inside = {id(b.var) for b in bindings} | {id(p) for p in params}
    outer = {id(v): v for value in (*(b.value for b in bindings), *values) for v in variables(value)
             if id(v) not in inside}
    return Draft(tuple(bindings), tuple(values), tuple(outer.values()))


def _may_be(mine, theirs):
    """Whether a shape is not known to be another one, and may be."""
    return (len(mine) == len(theirs) and not same_dims(mine, theirs)
            and all(map(may_be_same, mine, theirs)))


def _as_tensor(importer, value, builder, name, title):
    """An output of a function: a variable or a constant."""
    value = importer.tensor_of(value, builder, name)
    if not isinstance(value, RelaxExpr):
        raise OnnxImportError(f"{title}: its graph gives {value} as {name!r}; only tensors leave a branch or a "
                                   "turn that a run decides")
    return builder.emit(value, name_hint="out") if isinstance(value, (RelaxCall, TupleGetItem)) else value


def _imported(importer, graph, given, title, builder):
    """The values of a graph's outputs; what its nodes make goes to a builder."""
    inner = copy.copy(importer)
    inner.values, inner.builder, inner.depth = ChainMap({}, importer.values), builder, importer.depth + 1
    inner.declared = {**importer.declared, **load.declared_shapes(graph)}
    if inner.depth > MOST_DEPTH:
        raise OnnxImportError(f"{title}: more than {MOST_DEPTH} graphs lie inside of one another")
    if len(given) != len(graph.input):
        raise OnnxImportError(f"{title}: its graph has {len(graph.input)} inputs, and must have {len(given)}")
    nodes = importer.expanded(graph)
    load.check_order(graph, nodes, importer.values)
    nodes = load.reachable(graph, nodes)
    inner.readers = {name: list(known) for name, known in importer.readers.items()}
    inner.note_readers(nodes)
    for tensor in graph.initializer:
        array = load.array_of(tensor, importer.source, f"initializer {tensor.name!r}")
        inner.values[tensor.name] = Constant(array, tensor.name)
    inner.values.update(zip((i.name for i in graph.input), given))
    for node in nodes:
        inner.import_node(node)
    return [inner.values[o.name] for o in graph.output]
