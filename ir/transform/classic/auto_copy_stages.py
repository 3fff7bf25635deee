"""Copies of LowerAutoCopy by way of registers: all loads are under way before the first store waits for one."""
from __future__ import annotations

from itertools import product

from ...expr import Add, FloorDiv, FloorMod, IntImm, Mul, Sub, Var, const, substitute
from ...tir.buffer import decl_buffer
from ...tir.stmt import BufferLoad, BufferStore, IfThenElse, seq
from ..gpu.threads import is_bound
from .auto_copy_nests import around

MOST_POINTS = 1 << 14  # iterations whose places in registers are looked at
_OPERATORS = {Add: int.__add__, Sub: int.__sub__, Mul: int.__mul__, FloorDiv: int.__floordiv__,
              FloorMod: int.__mod__}


def through_registers(nest, copy):
    """Threads are outermost; each loads all of its elements to registers, and then stores them."""
    loops, body = nest
    guard = body.condition if isinstance(body, IfThenElse) else None
    store = body.then_case if guard is not None else body
    bound = [loop for loop in loops if is_bound(loop)]
    own = [loop for loop in loops if not is_bound(loop)]
    shape, indices = _places(store.value, own)
    registers = decl_buffer(shape, copy.target.dtype, f"{copy.target.name}_local", "local")
    copy.buffers.append(registers)
    renamed = {loop.loop_var: Var(f"{loop.loop_var.name}_cache", loop.loop_var.dtype) for loop in own}
    load = BufferStore(registers, store.value, tuple(indices))
    kept = store.replace(value=BufferLoad(registers, tuple(indices)))
    if guard is not None:
        load, kept = IfThenElse(guard, load), IfThenElse(guard, kept)
    cached = [loop.replace(loop_var=renamed[loop.loop_var]) for loop in own]
    return around(bound, seq(around(cached, substitute(load, renamed)), around(own, kept)))


def _places(value, loops):
    """(shape, indices) of registers for what loops load: in the shape of what is loaded, where each dimension of that
    counts through digits of the loops; else a dimension for each loop."""
    extents = {loop.loop_var: loop.extent.value for loop in loops}
    plain = list(extents.values()), list(extents)
    if not isinstance(value, BufferLoad):
        return plain
    shape, indices = [], []
    for index in value.indices:
        digits = _digits(index, extents)
        if digits is None:
            return plain
        size, place = 1, const(0, index.dtype)
        for extent, step, digit in digits:
            if extent > 1:
                one = digit // step
                size, place = size * extent, one if size == 1 else place * extent + one
        shape.append(size)
        indices.append(place)
    return (shape, indices) if _are_apart(shape, indices, extents) else plain


def _digits(e, extents):
    """[(how many values, how far apart, the expression)] of the loops that an index moves with, by themselves; None
    where it is no sum of digits."""
    if isinstance(e, Var):
        return [(extents[e], 1, e)] if e in extents else []
    if isinstance(e, IntImm):
        return []
    if isinstance(e, (Add, Sub)):
        left, right = _digits(e.a, extents), _digits(e.b, extents)
        return None if left is None or right is None or isinstance(e, Sub) and right else left + right
    if type(e) not in (Mul, FloorDiv, FloorMod) or not isinstance(e.b, IntImm) or e.b.value <= 0:
        return None
    inner = _digits(e.a, extents)
    cut = None if inner is None else [_CUTS[type(e)](extent, step, e.b.value) for extent, step, _ in inner]
    if cut is None or None in cut:
        return None
    return [(extent, step, type(e)(part, e.b)) for (extent, step), (_, _, part) in zip(cut, inner)]


def _divided(extent, step, by):
    if step % by == 0:
        return extent, step // by
    if extent * step <= by:
        return 1, 1
    return (extent * step // by, 1) if by % step == 0 and extent * step % by == 0 else None


def _rest(extent, step, by):
    if step % by == 0:
        return 1, 1
    return (min(extent, by // step), step) if by % step == 0 else None


_CUTS = {Mul: lambda extent, step, by: (extent, step * by), FloorDiv: _divided, FloorMod: _rest}


def _are_apart(shape, indices, extents):
    """Whether no two iterations have one place, and all have one within the shape."""
    count = 1
    for extent in extents.values():
        count *= extent
    if count > MOST_POINTS:
        return False
    met = set()
    for values in product(*map(range, extents.values())):
        given = dict(zip(extents, values))
        place = tuple(value_of(index, given) for index in indices)
        if place in met or not all(0 <= p < size for p, size in zip(place, shape)):
            return False
        met.add(place)
    return True


def value_of(e, given):
    """The number that an index is where variables have some values."""
    if isinstance(e, IntImm):
        return e.value
    return given[e] if isinstance(e, Var) else _OPERATORS[type(e)](value_of(e.a, given), value_of(e.b, given))


__all__ = ["through_registers", "value_of"]
