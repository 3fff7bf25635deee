"""Lanes: which accesses of neighbouring iterations of a loop are to neighbours in memory, so that they may be one."""
from __future__ import annotations

from math import copysign, gcd, prod

from ..arith import Analyzer
from ..expr import (And, Call, Cast, FloatImm, IntImm, Or, Ramp, Range, Select, Var, as_expr, cast, const, free_vars,
                    substitute)
from ..node import Node, collect
from .buffer import row_major_strides
from .stmt import BufferLoad
from .stored import ATTRIBUTE as STORED

BYTES = (16, 8)  # of one access to the memory of a device
ALIGN = 16       # bytes that the address of a buffer is a multiple of, where nothing says otherwise
SCOPES = ("global", "shared", "shared.dyn", "local")  # whose elements have addresses, in registers too
ALIGNMENTS = "alignments"  # attribute of a function, {position among its buffers: bytes}


def weak_alignments(func):
    """{pointer: bytes that it is a multiple of} of the parameters of a function that lie at no multiple of ALIGN; 1 of
    what is stored in another form than it is computed in, where neighbours are none."""
    weak = {func.buffers[n].data: size for n, size in (func.attrs.get(ALIGNMENTS) or {}).items()}
    return weak | {func.buffers[n].data: 1 for n, form in enumerate(func.attrs.get(STORED) or ()) if form}


class Lanes:
    """The iterations start, start + 1, ... of a loop over v, so many. an: an Analyzer that knows what is around; weak:
    as weak_alignments finds it."""

    def __init__(self, an, v, start, lanes, weak=None):
        self.an, self.v, self.start, self.lanes, self.weak = an, v, start, lanes, weak or {}
        self.lane = Var(v.name, v.dtype)
        an.bind(self.lane, Range(const(0, v.dtype), const(lanes, v.dtype)), allow_override=True)

    def in_lane(self, e):
        """What an expression is in a lane."""
        return substitute(e, {self.v: self.start + self.lane})

    def at_start(self, e):
        """What it is in the first one."""
        return self.an.simplify(substitute(e, {self.v: self.start}))

    def varies(self, e):
        """Whether an expression, or some of several, differs between lanes."""
        return any(v is self.v for v in free_vars(e))

    def ramp(self, access):
        """The Ramp that the flat index of a load or store is; None where neighbours do not lie in a row, or the first
        not on a multiple of all of them."""
        buffer = access.buffer
        size = self.lanes * buffer.dtype.bytes
        if buffer.scope not in SCOPES or size not in BYTES or buffer.dtype.is_bool or buffer.dtype.bits % 8:
            return None
        if self.weak.get(buffer.data, ALIGN) % size or any(isinstance(i, Ramp) for i in access.indices):
            return None
        index = flat_index(access)
        base, each = self.at_start(index), self.an.simplify(self.in_lane(index))
        if not self.an.can_prove_equal(each, base + self.lane) or any(
                v is self.lane for v in free_vars(collect(each, BufferLoad))):
            return None
        return Ramp(base, const(1, base.dtype), self.lanes) if self._is_multiple(base) else None

    def moves(self, value):
        """Whether a value is a load of neighbours, or one where a condition holds for all lanes, and zero elsewhere."""
        if is_choice(value) and self.is_one(value.args[0]):
            value = value.args[1]
        value = value.value if isinstance(value, Cast) else value
        return isinstance(value, BufferLoad) and self.ramp(value) is not None

    def is_one(self, condition):
        """Whether a condition holds for all lanes or for none."""
        if isinstance(condition, And):
            return self.is_one(condition.a) and self.is_one(condition.b)
        if isinstance(condition, Call) and condition.op == "tir.likely":
            return self.is_one(condition.args[0])
        if not self.varies(condition):
            return True
        kind = type(condition).__name__
        if kind not in ("LT", "GE", "GT", "LE") or not condition.a.dtype.is_int or condition.dtype.lanes > 1:
            return False
        low, high = (condition.a, condition.b) if kind in ("LT", "GE") else (condition.b, condition.a)
        gap = self.an.simplify(self.at_start(low) - self.at_start(high))
        # x + lane < y for multiples x and y of the lanes: a lane is no more than what lies between them
        return self.an.can_prove_equal(self.in_lane(low) - self.in_lane(high), gap + self.lane) and (
            self._is_multiple(gap))

    def _is_multiple(self, e):
        known = self.an.modular_set(e)
        return gcd(known.coeff, known.base) % self.lanes == 0


def moves_together(block, var, lanes, weak=None):
    """Whether a block copies so many neighbours at once in iterations of one of its iterators, whose extent is a
    multiple of them: a load, be it where a condition holds. weak: as weak_alignments finds it."""
    an = Analyzer()
    for iv in block.iter_vars:
        an.bind(iv.var, iv.dom)
    extent = next(iv.dom.extent for iv in block.iter_vars if iv.var is var)
    if not isinstance(extent, IntImm) or extent.value % lanes or lanes < 2:
        return False
    several = Var(f"{var.name}_0", var.dtype)
    an.bind(several, Range(const(0, var.dtype), const(extent.value // lanes, var.dtype)))
    return Lanes(an, var, several * lanes, lanes, weak).moves(block.body.value)


def lanes_of(store, loops, an=None, weak=None):
    """How many neighbours a store moves at once, at most, in iterations of nested loops as one, (variable, extent)
    each, outermost first: all that it reads and that differs between these lies in a row, as does what it writes,
    unless they add up to one element. 1 where it does not, or their number is no multiple. an, weak: as in Lanes."""
    if not loops or not all(isinstance(extent, IntImm) for _, extent in loops):
        return 1
    count = prod(extent.value for _, extent in loops)
    for lanes in (16, 8, 4, 2):
        if count and count % lanes == 0 and _moves(store, loops, count, lanes, an.copy() if an else Analyzer(), weak):
            return lanes
    return 1


def _moves(store, loops, count, lanes, an, weak):
    dtype = loops[-1][0].dtype
    several, v, digits = Var("several", dtype), Var("v", dtype), {}
    an.bind(several, Range(const(0, dtype), const(count // lanes, dtype)))
    rest = v
    for var, extent in reversed(loops):
        digits[var] = cast(rest % extent, var.dtype)
        rest = rest // extent
    digits[loops[0][0]] = cast(v // const(count // loops[0][1].value, dtype), loops[0][0].dtype)
    store = substitute(store, digits)
    found = Lanes(an, v, several * lanes, lanes, weak)
    writes = found.varies(store.indices)
    if writes and found.ramp(store) is None:
        return False
    reads = 0
    for _, load, conditions in loads_of(store.value):
        if not found.varies((load.indices, conditions)) or load.buffer is store.buffer:
            continue
        if not all(map(found.is_one, conditions)) or found.varies(load.indices) and found.ramp(load) is None:
            return False
        reads += 1
    return writes or reads > 0


def flat_index(access):
    """The index of an access, counted in elements from where its buffer begins."""
    buffer = access.buffer
    if len(access.indices) == 1 and not buffer.strides:
        return access.indices[0]
    index = as_expr(0) if buffer.elem_offset is None else buffer.elem_offset
    for i, stride in zip(access.indices, buffer.strides or row_major_strides(buffer.shape)):
        index = index + (cast(i, "int64") if stride.dtype == "int64" else i) * stride
    return index


def loads_of(value, conditions=()):
    """(load, or choice between one and zero, the load, the conditions under which it is done) of a value, but those of
    indices, and those that are done where a condition fails."""
    if isinstance(value, BufferLoad):
        yield value, value, conditions
    elif is_choice(value) and isinstance(value.args[1], BufferLoad):
        yield value, value.args[1], (*conditions, value.args[0])
    elif isinstance(value, Select) or isinstance(value, Call) and value.op == "tir.if_then_else":
        condition, yes, _ = (value.condition, value.true_value, None) if isinstance(value, Select) else value.args
        yield from loads_of(condition, conditions)
        yield from loads_of(yes, (*conditions, condition))
    elif isinstance(value, (And, Or)):  # what is behind is asked where the first part leaves that open
        yield from loads_of(value.a, conditions)
        yield from loads_of(value.b, (*conditions, value.a)) if isinstance(value, And) else ()
    elif isinstance(value, Node):
        for field in value._fields:
            inner = getattr(value, field)
            for part in inner if isinstance(inner, tuple) else (inner,):
                yield from loads_of(part, conditions)


def is_choice(value):
    """Whether a value is one thing where a condition holds, and zero elsewhere."""
    return isinstance(value, Call) and value.op == "tir.if_then_else" and (
        isinstance(value.args[2], (FloatImm, IntImm)) and value.args[2].value == 0
        and copysign(1, value.args[2].value) > 0)


__all__ = ["ALIGN", "ALIGNMENTS", "BYTES", "Lanes", "flat_index", "is_choice", "lanes_of", "loads_of",
           "moves_together", "weak_alignments"]
