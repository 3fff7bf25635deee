"""Loops that copy one run of memory to another."""
from __future__ import annotations

from math import prod

from ..arith import Analyzer, domain_touched
from ..arith.int_set import int_set
from ..arith.iter_affine_map import IterMapLevel, detect_iter_map
from ..expr import Range, cast
from ..node import Visitor
from .stmt import BufferLoad, BufferRegion, BufferStore, For


class NoCopy(ValueError):
    """A nest of loops that is no copy of memory; the message says why."""


def copied_regions(loop, analyzer=None):
    """(source, destination), BufferRegions, of a nest of loops that could be one memcpy: it copies each element of a run
    of memory once, to the same place of another run. NoCopy for others. analyzer: knows the loops around."""
    analyzer = (analyzer or Analyzer()).copy()
    loops, stmt = {}, loop
    while isinstance(stmt, For):
        loops[stmt.loop_var] = Range(stmt.min, stmt.extent)
        analyzer.bind(stmt.loop_var, loops[stmt.loop_var])
        stmt = stmt.body
    if not isinstance(stmt, BufferStore):
        raise NoCopy(f"Expected innermost loop to have BufferStore body, but instead found {stmt}")
    if not isinstance(stmt.value, BufferLoad):
        raise NoCopy(f"Expected BufferStore's value to be BufferLoad, but instead found {stmt.value}")
    if stmt.value.buffer is stmt.buffer:
        raise NoCopy(f"Expected two buffers, but {stmt.buffer.name} is source and destination")
    source, target = (_places(what, access, loops, analyzer)
                      for what, access in (("src", stmt.value), ("dst", stmt)))
    if not analyzer.can_prove_equal(source, target):
        raise NoCopy(f"Term 0 had different source: element {source} of the source is written to {target}")
    return tuple(BufferRegion(access.buffer, tuple(domain_touched(loop, access.buffer, True, True)))
                 for access in (stmt.value, stmt))


def _places(what, access, loops, analyzer):
    """The place in its run of memory of the element that each iteration accesses."""
    offsets = access.buffer.offset_of(access.indices)
    if len(offsets) != 1:
        raise NoCopy(f"Expected flattened dimension of src/dst to be 1, but found {len(offsets)}-d {what}")
    index = offsets[0]
    found = detect_iter_map([index], loops, True, IterMapLevel.Bijective)
    if found.errors:
        raise NoCopy(f"The {what} index {index} does not form a bijective transform of the loops: "
                     f"{'; '.join(found.errors)}")
    interval = int_set(analyzer, index, loops)
    if not (interval.has_lower_bound() and interval.has_upper_bound()):
        raise NoCopy(f"Expected known bounds for {what}, but found {interval} for expression {index}")
    turns = prod(cast(r.extent, index.dtype) for r in loops.values())
    if not analyzer.can_prove_equal(turns, interval.max_value - interval.min_value + 1):
        raise NoCopy(f"Mismatch between loop iterations ({turns}) and number of {what} indices touched ({interval})")
    return analyzer.simplify(index - interval.min_value)


def identify_memcpy(stmt):
    """What copied_regions says of each loop below a statement, outermost first: (source, destination), or a text."""
    found = _Nests()
    found.visit(stmt)
    return found.results


class _Nests(Visitor):
    def __init__(self):
        self.results, self.analyzer = [], Analyzer()

    def visit_For(self, loop):
        try:
            self.results.append(copied_regions(loop, self.analyzer))
        except NoCopy as why:
            self.results.append(str(why))
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
        self.visit(loop.body)


__all__ = ["NoCopy", "copied_regions", "identify_memcpy"]
