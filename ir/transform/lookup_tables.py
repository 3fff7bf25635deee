"""Functions of quantized numbers become tables of 256: an activation between DequantizeLinear and QuantizeLinear,
say."""
from __future__ import annotations

import numpy as np

from .. import op as op_table
from ..node import structural_equal
from ..relax.block_builder import call_op
from ..relax.expr import Constant
from ..relax.ops.qnn import BYTES
from .graph import GraphRewriter, is_operator, on_main

LOOKUP = "lookup"
MAPS = ("elementwise", "broadcast")
SIZE = 256


@on_main
def lookup_tables(func):
    """Requires folded constants. Ensures that what elementwise operators make of the 8-bit integers of one tensor, of
    numbers, and of nothing else, in 8-bit integers again, is lookup in a table: computed now, by the operators'
    reference. Where it is what it is made of, nothing is looked up: a pair of QuantizeLinear and DequantizeLinear goes.
    """
    return _LookupTables().run(func)


class _LookupTables(GraphRewriter):
    def call(self, binding, call):
        if call.op != "astype" or str(call.struct_info.dtype) not in BYTES:
            return call
        source = self._source(call, call.struct_info, {})
        if source is None:
            return call
        first = least(source.struct_info.dtype)
        numbers = np.arange(first, first + SIZE).astype(source.struct_info.dtype.numpy)
        with np.errstate(all="ignore"):
            table = self._value(call, {id(source): numbers})
        return self._lookup(source, np.asarray(table))

    def _lookup(self, source, table):
        """table[source]; of what was looked up itself, in one table of both."""
        if table.dtype == source.struct_info.dtype.numpy and np.array_equal(
                table, np.arange(SIZE) + least(source.struct_info.dtype)):
            return source
        inner = self.producer(source, LOOKUP)
        if inner is not None and isinstance(inner.args[1], Constant):
            source, places = inner.args[0], inner.args[1].data.astype(int) - least(source.struct_info.dtype)
            return self._lookup(source, table[places])
        return call_op(LOOKUP, source, Constant(table, f"{self.current.name}_table"))

    def _source(self, value, info, seen):
        """The tensor of bytes, of the shape of `info`, that a value is a function of, element by element; None where it
        is one of others. seen: {id of a variable: its source}."""
        made = value if is_operator(value) else self.definition.get(id(value))
        if not is_operator(made) or made.op == LOOKUP or op_table.get(made.op).kind not in MAPS:
            return value if _is_source(value, info) else None
        if id(made) not in seen:
            seen[id(made)] = self._source_of(value, made, info, seen)
        return seen[id(made)]

    def _source_of(self, value, made, info, seen):
        found = {}
        for arg in made.args:
            if isinstance(arg, Constant) and arg.data.size == 1:
                continue
            source = None if isinstance(arg, Constant) else self._source(arg, info, seen)
            if source is None:  # bytes that are made of more than bytes are a source themselves
                return value if value is not made and _is_source(value, info) else None
            found[id(source)] = source
        return next(iter(found.values())) if len(found) == 1 else None

    def _value(self, value, known):
        """What the reference makes of all numbers of the source. known: {id: array}."""
        if isinstance(value, Constant):
            return value.data.reshape(())
        if id(value) not in known:
            made = value if is_operator(value) else self.definition[id(value)]
            known[id(value)] = op_table.get(made.op).evaluate([self._value(a, known) for a in made.args], made.attrs)
        return known[id(value)]


def least(dtype):
    """The number that the first element of a table is of."""
    return -128 if dtype == "int8" else 0


def _is_source(value, info):
    found = getattr(value, "struct_info", None)
    return (not isinstance(value, Constant) and getattr(found, "dtype", None) is not None
            and str(found.dtype) in BYTES and structural_equal(found.shape, info.shape))
