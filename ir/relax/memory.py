"""Where the values of a function lie: whose memory a value is, at which offset, with which strides.

Every computed value, parameter and constant has memory of its own, but for two exceptions: views lie where their source
does, and what a placing operator (memory.join, memory.inlay, memory.update) is made of lies inside the operator's
result. That of memory.update lies where its first argument does, an input.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from ..arith import Analyzer
from ..expr import PrimExpr, const, is_const_int
from ..tir.buffer import row_major_strides
from .expr import RelaxCall, RelaxTuple, TupleGetItem, TupleStructInfo
from .ops.common import as_dim, is_one, same_dim
from .ops.view import matching_groups, same_count

VIEWS = ("reshape", "expand_dims", "squeeze")
PLACING = ("memory.join", "memory.inlay", "memory.update")
# calls that no kernel computes
ALIASES = (*VIEWS, *PLACING, "memory.part")


class PlaceError(ValueError):
    """Values that cannot lie where the operators of a function say."""


@dataclass(frozen=True)
class Place:
    """owner: what identifies memory, (id of the variable or constant, position in a tuple); offset: elements from its
    first; strides: in elements, () when the value's elements lie one after the other."""

    owner: tuple
    offset: PrimExpr = const(0, "int64")
    strides: tuple = ()


class Memory:
    """The places of a function's values. Raises PlaceError where one would have to lie in two."""

    def __init__(self, func):
        self.definition = {id(b.var): b.value for b in func.bindings}
        self.homes = {}  # owner -> the Place that a placing operator gives it
        self.values = {}  # owner -> (the variable or constant, struct info), of those that were asked for
        for b in reversed(func.bindings):  # what a result is part of comes after it
            if isinstance(b.value, RelaxCall) and b.value.op in PLACING:
                outer = self.place(b.var)
                for x, begin in placed(b.value):
                    self._settle(x, region(outer, b.var.struct_info.shape, begin, x.struct_info.shape), b.value.op)

    def place(self, value):
        """The Place of a variable, constant, call or item of a tuple."""
        item = self.definition.get(id(value), value)
        if isinstance(item, TupleGetItem):
            return self._own(item.tuple_value, item.struct_info, item.index)
        if not isinstance(item, RelaxCall):
            return self._own(item, item.struct_info) if item is value else self.place(item)
        if item.op in VIEWS:
            source, x = self.place(item.args[0]), item.args[0]
            strides = viewed(source.strides, x.struct_info.shape, item.struct_info.shape)
            if strides is None:
                raise PlaceError(f"{item.op} shows {x.name} under another shape, but its rows lie apart in a larger "
                                 "tensor: use copy first")
            return replace(source, strides=strides)
        if item.op == "memory.part":
            x, = item.args
            begin = tuple(as_dim(item.attrs["begin"] if k == item.attrs["axis"] % x.struct_info.ndim else 0)
                          for k in range(x.struct_info.ndim))
            return region(self.place(x), x.struct_info.shape, begin, item.struct_info.shape)
        if item.op == "memory.update":
            return self.place(item.args[0])
        return self._own(value, item.struct_info)

    def results(self, binding):
        """The places of a computed binding's results, one or those of a tuple."""
        info = binding.var.struct_info
        infos = getattr(info, "fields", (info,))
        return [self._own(binding.var, i, n) for n, i in enumerate(infos)]

    def whole(self, value):
        """The owner of memory that a value fills from end to end; None where it is a part of something else's. That of
        a tuple is its first result's."""
        if isinstance(value.struct_info, TupleStructInfo):
            return (id(value), 0)
        place = self.place(value)
        _, info = self.values[place.owner]
        fills = is_const_int(place.offset, 0) and same_count(value.struct_info.shape, info.shape) is True
        return place.owner if fills and not place.strides else None

    def is_computed(self, owner):
        """Whether a kernel writes this memory: it is neither a parameter's nor a constant's."""
        return owner[0] in self.definition

    def _own(self, value, info, index=0):
        owner = (id(value), index)
        self.values[owner] = value, info
        return self.homes.get(owner) or Place(owner)

    def _settle(self, value, place, op):
        """Let a value, and what it is a view of, lie at a place."""
        item = self.definition.get(id(value))
        name = getattr(value, "name", "") or "a constant"
        if isinstance(item, RelaxCall) and item.op in VIEWS:
            strides = viewed(place.strides, value.struct_info.shape, item.args[0].struct_info.shape)
            if strides is None:
                raise PlaceError(f"{op}: {name} is a view, whose rows cannot lie apart: use copy first")
            return self._settle(item.args[0], replace(place, strides=strides), op)
        owner = (id(item.tuple_value), item.index) if isinstance(item, TupleGetItem) else (id(value), 0)
        if item is None or isinstance(item, RelaxTuple) or getattr(item, "op", "") == "memory.part":
            what = "a part of another tensor" if item is not None else "not computed by the function"
            raise PlaceError(f"{op}: {name} is {what}, so it cannot lie in the result: use concat, or copy it first")
        if owner in self.homes:
            raise PlaceError(f"{op}: {name} would lie in two places: use concat, or copy it first")
        self.homes[owner] = place
        return None


def check_places(func):
    """Raise PlaceError unless every value of a function has one place."""
    if any(isinstance(b.value, RelaxCall) and b.value.op in (*PLACING, "memory.part") for b in func.bindings):
        memory = Memory(func)
        for b in func.bindings:
            if isinstance(b.value, RelaxCall) and b.value.op in ALIASES:
                memory.place(b.var)
            if getattr(b.value, "op", "") == "memory.inlay":
                around = getattr(memory.definition.get(id(b.value.args[0])), "op", "")
                if around not in ("memory.border", "call_tir"):  # once lowered, all are call_tir
                    raise PlaceError(f"memory.inlay: {b.value.args[0].name} is no memory.border, whose kernel leaves "
                                     "the inside alone")


def placed(call):
    """[(argument, where its first element lies in the result)] of a call of a placing operator."""
    if call.op == "memory.inlay":
        begins = tuple(map(as_dim, call.attrs["pad_width"][::2]))
        return [(call.args[0], (as_dim(0),) * len(begins)), (call.args[1], begins)]
    if call.op == "memory.update":
        axis, ndim = call.attrs["axis"] % call.struct_info.ndim, call.struct_info.ndim
        return [(call.args[1], tuple(as_dim(call.attrs["begin"] if k == axis else 0) for k in range(ndim)))]
    axis, begin, found = call.attrs["axis"] % call.struct_info.ndim, as_dim(0), []
    for x in call.args:
        found.append((x, tuple(begin if k == axis else as_dim(0) for k in range(call.struct_info.ndim))))
        begin = begin + x.struct_info.shape[axis]
    return found


def viewed(strides, shape, to):
    """The strides of a tensor of `shape` seen as one of another shape; None where no strides give its elements. Those
    of no strides, of elements in a row, are none."""
    if not strides:
        return strides
    found = [const(0, "int64")] * len(to)
    for mine, theirs in matching_groups(shape, to):
        mine = [k for k in mine if not is_one(shape[k])]
        if any(not same_dim(strides[a], strides[b] * shape[b]) for a, b in zip(mine, mine[1:])):
            return None  # they are no one row
        inner = strides[mine[-1]] if mine else const(1, "int64")
        for k, step in zip(theirs, row_major_strides([to[k] for k in theirs])):
            found[k] = inner * step
    return tuple(map(Analyzer().simplify, found))


def region(outer, outer_shape, begin, shape):
    """The Place of the part of `shape` from `begin` on of a tensor of `outer_shape` at Place `outer`."""
    strides = outer.strides or row_major_strides(outer_shape)
    offset = outer.offset
    for b, stride in zip(begin, strides):
        offset = offset + b * stride
    compact = all(is_one(extent) or same_dim(mine, own)
                  for extent, mine, own in zip(shape, strides, row_major_strides(shape)))
    return Place(outer.owner, Analyzer().simplify(offset), () if compact else tuple(map(Analyzer().simplify, strides)))


__all__ = ["ALIASES", "Memory", "PlaceError", "PLACING", "Place", "VIEWS", "check_places", "placed", "region", "viewed"]
