"""Loop names for readers: a loop that a primitive named is called after the block iteration variable it drives."""
from __future__ import annotations

import re

from ..expr import Var, free_vars
from ..node import Mutator, Visitor

# What primitives and lowering call loops when nothing better is known: ax3, i2_1_init ...
_MADE_UP = re.compile(r"^(ax|i)\d+(_\d+)*(_init)?$")


def name_loops(func):
    """Requires blocks. Ensures that loops with made-up names carry the name of the first block iteration variable that
    depends on them (v_ic -> ic), numbered from the outermost (x_0, x_1) where several do."""
    scan = _Scan()
    scan.visit(func.body)
    return func.replace(body=_Rename(scan.names()).visit(func.body))


class _Scan(Visitor):
    def __init__(self):
        self.loops = []   # on the path, outermost first
        self.drives = {}  # loop variable -> [loop variables that drive the same iteration variable], its name
        self.order = []

    def visit_For(self, loop):
        self.loops.append(loop.loop_var)
        self.generic_visit(loop)
        self.loops.pop()

    def visit_BlockRealize(self, realize):
        for iv, value in zip(realize.block.iter_vars, realize.iter_values):
            used = free_vars(value)
            together = tuple(v for v in self.loops if any(v is u for u in used))
            name = iv.var.name.removeprefix("v_").removesuffix("_init")
            for v in together:
                if v not in self.drives and not _MADE_UP.match(name):
                    self.drives[v] = (name, together)
                    self.order.append(v)
        self.generic_visit(realize)

    def names(self):
        """{loop variable: its new name} for those whose own name is made up."""
        found = {}
        for v in self.order:
            if _MADE_UP.match(v.name):
                name, together = self.drives[v]
                mine = [w for w in together if _MADE_UP.match(w.name) and self.drives[w][0] == name]
                found[v] = name if len(mine) == 1 else f"{name}_{mine.index(v)}"
        return found


class _Rename(Mutator):
    def __init__(self, names):
        self.renamed = {v: Var(name, v.dtype) for v, name in names.items()}

    def visit_Var(self, v):
        return self.renamed.get(v, v)
