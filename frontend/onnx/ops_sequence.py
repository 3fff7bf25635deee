"""Sequences and optional values, as lists whose length is known when compiling."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir.relax.expr import Constant
from ..shapes import dims_of
from .converter import converts
from .run_places import parts_by_run
from .run_shapes import is_known
from .subgraphs import inline


@dataclass(frozen=True)
class Sequence:
    """A sequence of values."""

    items: tuple = ()

    def __str__(self):
        return f"a sequence of {len(self.items)}"


@dataclass(frozen=True)
class Absent:
    """An optional value that is not there."""

    def __str__(self):
        return "an optional value that is absent"


def _sequence(node, index=0):
    value = node.input(index)
    if not isinstance(value, Sequence):
        raise node.error(f"input {index} is no sequence")
    return value.items


def _place(node, index, count, more=0):
    """A position in a sequence, constant, counted from the end where it is negative."""
    given = node.constant(index, "the position")
    at = int(given.reshape(-1)[0])
    if not -count <= at < count + more:
        raise node.error(f"position {at} is outside a sequence of {count}")
    return at % count if at < 0 else at


@converts("SequenceEmpty", 11)
def sequence_empty(node):
    return Sequence()


@converts("SequenceConstruct", 11)
def sequence_construct(node):
    return Sequence(tuple(map(node.bind, node.inputs)))


@converts("SequenceInsert", 11)
def sequence_insert(node):
    items = _sequence(node)
    at = len(items) if node.input(2) is None else _place(node, 2, len(items), 1)
    return Sequence((*items[:at], node.bind(node.input(1)), *items[at:]))


@converts("SequenceErase", 11)
def sequence_erase(node):
    items = _sequence(node)
    at = len(items) - 1 if node.input(1) is None else _place(node, 1, len(items))
    if not items:
        raise node.error("nothing can be erased from an empty sequence")
    return Sequence((*items[:at], *items[at + 1:]))


@converts("SequenceAt", 11)
def sequence_at(node):
    return _sequence(node)[_place(node, 1, len(_sequence(node)))]


@converts("SequenceLength", 11)
def sequence_length(node):
    return node.const(len(_sequence(node)), "int64")


@converts("SplitToSequence", 11)
def split_to_sequence(node):
    """Parts of one length (a scalar; the last may be shorter), or of the lengths that are given; only a list of these
    may be decided by a run, for the number of parts must be known."""
    x = node.input(0)
    axis = node.axis(node.attr("axis", 0), len(dims_of(x)))
    extent = dims_of(x)[axis]
    if not isinstance(extent, int):
        raise node.error(f"cannot split the symbolic dimension {extent}; pin it with dims")
    given = None if is_known(node.input(1)) else dims_of(node.input(1))
    if given and isinstance(given[0], int):
        return Sequence(tuple(map(node.bind, parts_by_run(node, [f"{node.stem}_{k}" for k in range(given[0])]))))
    split = node.constant(1, "split")
    size = 1 if split is None else int(split.reshape(-1)[0]) if split.ndim == 0 else None
    if size is not None and size < 1:
        raise node.error(f"a part cannot have {size} elements")
    sizes = [int(s) for s in split] if size is None else [min(size, extent - k) for k in range(0, extent, size)]
    if sum(sizes) != extent or min(sizes, default=0) < 0:
        raise node.error(f"parts {sizes} do not add up to {extent}")
    parts = node.call("split", x, sections=tuple(sizes), axis=axis) if len(sizes) > 1 else (x,)
    if split is None and not node.attr("keepdims", 1):
        parts = [node.reshape(p, dims_of(x)[:axis] + dims_of(x)[axis + 1:]) for p in parts]
    return Sequence(tuple(map(node.bind, parts)))


@converts("ConcatFromSequence", 11)
def concat_from_sequence(node):
    items, new = _sequence(node), bool(node.attr("new_axis", 0))
    if not items:
        raise node.error("nothing can be made of an empty sequence")
    rank = len(dims_of(items[0])) + new
    axis = node.axis(node.attr("axis"), rank)
    if new:
        items = [node.bind(node.reshape(x, [*dims_of(x)[:axis], 1, *dims_of(x)[axis:]])) for x in items]
    return node.call("concat", *items, axis=axis) if len(items) > 1 else items[0]


@converts("SequenceMap", 17)
def sequence_map(node):
    """The body, once for each element; other inputs are sequences of as many, or tensors."""
    count, graph = len(_sequence(node)), node.attrs["body"]
    for x in node.inputs:
        if isinstance(x, Sequence) and len(x.items) != count:
            raise node.error(f"its sequences have {count} and {len(x.items)} elements")
    rows = [inline(node.scope, graph, [x.items[k] if isinstance(x, Sequence) else x for x in node.inputs], node.title)
            for k in range(count)]
    columns = zip(*rows) if rows else [()] * len(graph.output)
    return tuple(Sequence(tuple(map(node.bind, column))) for column in columns)


# ---------------------------------------------------------------- optional values

@converts("Optional", 15)
def optional(node):
    return Absent() if node.input(0) is None else node.input(0)


@converts("OptionalHasElement", 15)
def optional_has_element(node):
    value = node.input(0)
    return Constant(np.array(value is not None and not isinstance(value, Absent)))


@converts("OptionalGetElement", 15)
def optional_get_element(node):
    if isinstance(node.input(0), Absent):
        raise node.error("an optional value that is absent has no element")
    return node.input(0)
