"""Loop names for readers: a loop that a primitive named is called after the block iteration variable it drives."""
from __future__ import annotations

import re

from ..expr import Var, free_vars
from ..node import Mutator, Visitor
from .walk import blocks

# What primitives and lowering call variables when nothing better is known: ax3, v0, i2_1_init ...
MADE_UP = re.compile(r"^(ax|i|v)\d+(_\d+)*(_init)?$")


def name_loops(func):
    """Requires blocks. Ensures that loops with made-up names carry the name of the first block iteration variable that
    depends on them (v_ic -> ic), numbered from the outermost (x_0, x_1) where several do. One with a made-up name is
    called after the dimension that it indexes, if a block with better names writes or reads that buffer too."""
    names = loop_names(func)
    return func.replace(body=_Rename(names).visit(func.body)) if names else func


def loop_names(func):
    """{loop variable: the name that NameLoops gives it} for those whose own name is made up."""
    scan = _Scan(_dimension_names(func))
    scan.visit(func.body)
    return scan.names()


def _dimension_names(func):
    """{(id of a buffer, dimension): the name of the first iteration variable, no made-up one, that alone indexes it};
    blocks that write a buffer come before those that read it."""
    found, known = {}, list(blocks(func.body))
    for region in [r for b in known for r in b.writes] + [r for b in known for r in b.reads]:
        for k, dim in enumerate(region.region):
            name = _plain(dim.min.name) if isinstance(dim.min, Var) else ""
            if name and not MADE_UP.match(name):
                found.setdefault((id(region.buffer), k), name)
    return found


def _plain(name):
    """The name of an iteration variable without what marks it as one."""
    return name.removeprefix("v_").removesuffix("_init")


class _Scan(Visitor):
    def __init__(self, dimensions):
        self.dimensions = dimensions
        self.loops = []   # on the path, outermost first
        self.drives = {}  # loop variable -> name of the iteration variable, [loop variables that drive the same one]

    def visit_For(self, loop):
        self.loops.append(loop.loop_var)
        self.visit(loop.body)
        self.loops.pop()

    def visit_BlockRealize(self, realize):
        for iv, value in zip(realize.block.iter_vars, realize.iter_values):
            used = set(free_vars(value))
            together = tuple(v for v in self.loops if v in used)
            name = self._name(iv.var, realize.block)
            for v in together:
                if name and v not in self.drives:
                    self.drives[v] = (name, together)
        self.visit((realize.block.init, realize.block.body))

    def visit_BufferStore(self, _):
        """It drives nothing."""

    def _name(self, var, block):
        """A name for loops that drive an iteration variable; "" when nothing suggests one."""
        if not MADE_UP.match(_plain(var.name)):
            return _plain(var.name)
        names = (self.dimensions.get((id(region.buffer), k)) for region in (*block.writes, *block.reads)
                 for k, dim in enumerate(region.region) if dim.min is var)
        return next(filter(None, names), "")

    def names(self):
        """{loop variable: its new name} for those whose own name is made up."""
        found = {}
        for v, (name, together) in self.drives.items():
            if MADE_UP.match(v.name):
                mine = [w for w in together if MADE_UP.match(w.name) and self.drives[w][0] == name]
                found[v] = name if len(mine) == 1 else f"{name}_{mine.index(v)}"
        return found


class _Rename(Mutator):
    def __init__(self, names):
        self.renamed = {v: Var(name, v.dtype) for v, name in names.items()}

    def visit_Var(self, v):
        return self.renamed.get(v, v)
