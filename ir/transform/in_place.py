"""Tensors made of others without a copy: kernels write their results where they belong, and parts are read there."""
from __future__ import annotations

import math

from .. import op as op_table
from ..expr import IntImm
from ..relax.block_builder import call_op
from ..relax.control import CONTROL
from ..relax.expr import RelaxCall, RelaxTuple, ShapeExpr, TupleGetItem
from ..relax.memory import ALIASES, VIEWS, Memory, viewed
from ..relax.ops.common import is_one, same_dim
from ..tir.buffer import row_major_strides
from .graph import GraphRewriter, uses


def in_place(mod):
    """Requires groups (FuseOps). Ensures that a concat whose inputs lie one behind the other in memory is
    a memory.join of what kernels of this function write, each into its part; what cannot be written there is copied.
    Splits and slices that leave memory in order are memory.parts of their source. So are those of rows of a vector or
    more that maps alone read, and maps alone write a concat of such rows where they belong. A tensor that is padded is
    written inside its border (memory.inlay), which a kernel of its own fills; its other readers skip the border.

    A tensor lies in one place: what a graph output is, or another memory.join holds, is copied. A concat of all that
    an earlier one holds and more has the earlier one as its part, so that a chain of them shares one buffer.
    """
    return mod.with_function("main", _InPlace(mod).run(mod["main"]))


class InPlaceRewriter(GraphRewriter):
    """What passes ask that give values their places. taken: owners whose place is settled: what callers see, and what
    is a part of something."""

    def begin(self, func):
        memory = Memory(func)
        self.uses = uses(func)
        self.taken = {memory.place(out).owner for out in func.outputs} | set(memory.homes)

    def _may_lie_apart(self, value, strides, seen=None):
        """Whether a tensor may have these strides: one kernel writes it, and what reads it, or its views, can do so.
        seen: the view of it that is known to."""
        if not self._may_be_read_apart(value, strides, seen):
            return False
        producer = self.producer(value)
        if producer is not None and producer.op in VIEWS:
            x, = producer.args[:1]
            own = viewed(strides, value.struct_info.shape, x.struct_info.shape)
            return own is not None and self._may_lie_apart(x, own, value)
        return producer is not None and producer.op not in ALIASES and (
            producer.op == "call" or producer.op in op_table.OPS)

    def _may_be_read_apart(self, value, strides, seen=None):
        for b in self.uses.get(id(value), [None]):
            reader = getattr(b, "value", None)
            if not isinstance(reader, RelaxCall) or reader.op in ("call_tir", "concat", "split", "strided_slice",
                                                                  "memory.join", "memory.inlay", "memory.part",
                                                                  *CONTROL):
                return False
            if reader.op in VIEWS and b.var is not seen:
                own = viewed(strides, value.struct_info.shape, b.var.struct_info.shape)
                if own is None or not self._may_be_read_apart(b.var, own):
                    return False
        return True

    def _owner(self, value):
        """The memory that a value is, or is a view of; None for parameters, constants and parts."""
        item = self.definition.get(id(value))
        while isinstance(item, RelaxCall) and item.op in VIEWS:
            value, item = item.args[0], self.definition.get(id(item.args[0]))
        if isinstance(item, TupleGetItem):
            return (id(item.tuple_value), item.index)
        return (id(value), 0) if isinstance(item, RelaxCall) and item.op != "memory.part" else None


class _InPlace(InPlaceRewriter):
    def __init__(self, mod):
        self.mod = mod

    def begin(self, func):
        super().begin(func)
        self.joins = {}  # variable of a memory.join -> (axis, its parts, those of parts in their stead)

    def call(self, binding, call):
        if call.op == "concat":
            return self._join(binding, call)
        if call.op == "nn.pad":
            return self._pad(call)
        if call.op == "split":
            return self._split(binding, call)
        return self._slice(binding, call) if call.op == "strided_slice" else call

    def _join(self, binding, call):
        axis = call.attrs["axis"] % call.struct_info.ndim
        if not _in_order(call.struct_info.shape, axis):
            return self._join_of_rows(call, axis)
        args = self._with_joins(call.args, axis)
        owners = [self._owner(a) for a in args]
        free = [o is not None and o not in self.taken and o not in owners[:n] for n, o in enumerate(owners)]
        if not any(free):
            return call
        args = [a if own else self.emit(call_op("copy", a), f"{getattr(a, 'name', '') or 'part'}_copy")
                for a, own in zip(args, free)]
        self.taken.update(map(self._owner, args))
        self.joins[binding.var] = axis, [part for a in args for part in self.joins.get(a, (axis, [a]))[1]]
        return call_op("memory.join", *args, axis=axis)

    def _join_of_rows(self, call, axis):
        """A concat of rows that lie apart in the result, where maps make all of them, for nothing else."""
        owners = [self._owner(a) for a in call.args]
        if len(set(owners)) < len(owners) or None in owners or self.taken & set(owners):
            return call
        for a in call.args:
            alone = all(b is not None and b.var is self.current for b in self.uses.get(id(a), [None]))
            made = self.producer(a)
            if not (alone and self._is_map(made) and _are_rows(a.struct_info.shape, axis)):
                return call
        self.taken.update(owners)
        return call_op("memory.join", *call.args, axis=axis)

    def _is_map(self, call):
        """Whether a call, of an operator or a group, copies and maps elements one by one."""
        if not isinstance(call, RelaxCall):
            return False
        group = self.mod[call.attrs["gv"]].bindings if call.op == "call" else ()
        calls = [b.value for b in group] or [call]
        return all(isinstance(c, RelaxCall) and c.op in op_table.OPS and c.op not in ("concat", "split")
                   and op_table.get(c.op).kind in ("elementwise", "broadcast") for c in calls)

    def _may_be_rows(self, value, axis):
        """Whether a part of a tensor along an axis may stay there, its rows apart: for maps alone."""
        readers = [getattr(b, "value", None) for b in self.uses.get(id(value), [None])]
        return _are_rows(value.struct_info.shape, axis) and all(map(self._is_map, readers))

    def _with_joins(self, args, axis):
        """The arguments of a concat, an earlier memory.join in the place of all its parts; the largest first."""
        args = list(args)
        for var, (own_axis, parts) in sorted(self.joins.items(), key=lambda item: -len(item[1][1])):
            begins = [n for n in range(len(args)) if list(map(id, args[n:n + len(parts)])) == list(map(id, parts))]
            if begins and own_axis == axis and (id(var), 0) not in self.taken:
                args[begins[0]:begins[0] + len(parts)] = [var]
        return args

    def _pad(self, call):
        x, attrs = call.args[0], call.attrs
        strides = row_major_strides(call.struct_info.shape)
        if attrs["pad_mode"] != "constant" or min(attrs["pad_width"]) < 0 or self._owner(x) in self.taken or (
                not self._may_lie_apart(x, strides)):
            return call
        self.taken.add(self._owner(x))
        border = call_op("memory.border", ShapeExpr(call.struct_info.shape), pad_width=attrs["pad_width"],
                         pad_value=attrs["pad_value"], dtype=str(call.struct_info.dtype))
        border = self.emit(border, f"{self.current.name}_border")
        return call_op("memory.inlay", border, x, pad_width=attrs["pad_width"])

    def _split(self, binding, call):
        x, axis = call.args[0], call.attrs["axis"] % call.args[0].struct_info.ndim
        readers = self.uses.get(id(binding.var), ())
        if not _in_order(x.struct_info.shape, axis) and not all(
                isinstance(b and b.value, TupleGetItem) and self._may_be_rows(b.var, axis) for b in readers):
            return call
        begin, parts = 0, []
        for n, extent in enumerate(call.attrs["sections"]):
            part = call_op("memory.part", x, axis=axis, begin=begin, extent=extent)
            parts.append(self.emit(part, f"{self.current.name}_{n}"))
            begin += extent
        return RelaxTuple(tuple(parts))

    def _slice(self, binding, call):
        """A slice of one axis, of elements in a row."""
        x, shape = call.args[0], call.struct_info.shape
        cut = [k for k, (a, b) in enumerate(zip(x.struct_info.shape, shape)) if not same_dim(a, b)]
        if len(cut) != 1 or any(s != 1 for s in call.attrs["strides"]) or not isinstance(shape[cut[0]], IntImm):
            return call
        begin = next(b for a, b in zip(call.attrs["axes"], call.attrs["begin"]) if a % len(shape) == cut[0])
        if not _in_order(x.struct_info.shape, cut[0]) and not self._may_be_rows(binding.var, cut[0]):
            return call
        return call_op("memory.part", x, axis=cut[0], begin=begin, extent=shape[cut[0]].value)


LEAST_ROW = 16  # elements of a row that lies apart


def _are_rows(shape, axis):
    """Whether what lies in one row of a part along an axis is as long as vectors are."""
    inner = [d.value if isinstance(d, IntImm) else 1 for d in shape[axis:]]
    return math.prod(inner) >= LEAST_ROW


def _in_order(shape, axis):
    """Whether parts of an axis lie one behind the other: nothing before it counts."""
    return all(map(is_one, shape[:axis]))
