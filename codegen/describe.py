"""Describe a kernel's schedule: tile, loop order, threads, and the primitives with their loops."""
from __future__ import annotations

from itertools import groupby

from ..ir.expr import IntImm, Var, is_const_int
from ..ir.schedule.errors import ScheduleError
from ..ir.schedule.handles import LoopRV
from ..ir.tir.stmt import BlockRealize, For
from ..ir.transform.name_loops import loop_names
from ..ir.transform.walk import statements

MADE_UP_SUFFIX = ("_update", "_init")  # what primitives add to the names of blocks


def described(func, sch):
    """Attributes of a scheduled function, for the comment in the C: "loops", those of its main computation in words;
    "terms", how many a sum of the main computation of `func`, from before, has; "schedule", its primitives. Loops have
    the names that they have in the C, or had before they were split."""
    names = _Names(sch)
    return {"loops": _words(_main(sch.func.body), names.of), "terms": _terms(_main(func.body)),
            "schedule": _primitives(sch.trace, names)}


class _Names:
    """Names of the loops and blocks that a schedule's handles stand for, or stood for."""

    def __init__(self, sch):
        self.sch, self.renamed = sch, loop_names(sch.func)
        for step in reversed(list(sch.trace)):  # those that are no more: after what became of them
            if step.name in ("split", "fuse"):
                self._name_from(step)

    def _name_from(self, step):
        before, after = (dict.fromkeys(v for h in handles if (v := self._var(h)) is not None)
                         for handles in (step.inputs, step.outputs))
        new = {self.of(v).rpartition("_")[0] or self.of(v) for v in after if v in self.renamed}
        if len(before) == len(new) == 1:
            self.renamed.setdefault(next(iter(before)), new.pop())

    def _var(self, handle):
        """The loop variable of a handle, None of one that stands for something else."""
        value = self._value(handle) if isinstance(handle, LoopRV) else None
        return value if isinstance(value, Var) else None

    def _value(self, handle):
        try:
            return self.sch.value(handle)
        except ScheduleError:
            return None

    def of(self, var):
        return self.renamed.get(var, var.name)

    def text(self, handle):
        """The name of what a handle stands for; "" where nothing says."""
        value = self._value(handle)
        if isinstance(value, Var):
            return self.of(value)
        return _plain(value) if isinstance(value, str) else "" if value is None else str(getattr(value, "value", value))


def _plain(block):
    for suffix in MADE_UP_SUFFIX:
        block = block.removesuffix(suffix)
    return block


# ---------------------------------------------------------------- primitives

def _primitives(trace, names):
    """The primitives of a trace in one line, each with the loops or blocks that it is about: queries are left out, and
    those of one name that follow one another and only say where are one."""
    return ", ".join(_joined(_step(step, names) for step in trace if not step.name.startswith("get_")))


def _joined(steps):
    for name, same in groupby(steps, key=lambda s: s[0]):
        alone = []
        for _, where, values in same:
            if values or len(where) != 1:
                yield from [f"{name}({', '.join(alone)})"] if alone else []
                alone = []
                yield f"{name}({', '.join([*where, *values])})" if where or values else name
            else:
                alone += where
        yield from [f"{name}({', '.join(alone)})"] if alone else []


def _step(step, names):
    """(primitive, names of the loops and blocks that it is about, its other arguments as texts)."""
    where = [text for handle in step.inputs if (text := names.text(handle))]
    values = [str(v) for _, v in step.args if isinstance(v, (int, str)) and not isinstance(v, bool) and v != -1]
    values += ["x".join("?" if f is None else str(f) for f in v) for _, v in step.args
               if isinstance(v, (tuple, list)) and v and all(f is None or isinstance(f, int) for f in v)]
    return step.name, where, values


# ---------------------------------------------------------------- words

def _main(body):
    """(the loops around, block) of the block that runs most often, of which a reduction goes before; None of none."""
    found = []
    _nests(body, [], found)
    return max(found, key=lambda nest: nest[2])[:2] if found else None


def _terms(nest):
    """How many terms the sums of a nest have; 0 where that is not known."""
    terms = 1
    for iv in nest[1].iter_vars if nest else ():
        if iv.iter_type == "reduce":
            terms *= iv.dom.extent.value if isinstance(iv.dom.extent, IntImm) else 0
    return terms


def _words(nest, name):
    """Tile, order of loops and threads of a nest."""
    if nest is None:
        return ""
    loops = [x for x in nest[0] if not is_const_int(x.extent, 1)]
    tile = [_turns(x, name) for x in loops if x.kind == "unrolled"]
    vectors = [f"{_turns(x, name)} in vectors" for x in loops if x.kind == "vectorized"]
    order = [name(x.loop_var) for x in loops if x.kind not in ("unrolled", "vectorized")]
    shared = [name(x.loop_var) for x in loops if x.kind == "parallel"]
    parts = [f"tile {' by '.join([*tile, *vectors])}" if tile else ", ".join(vectors),
             f"loops {', '.join(order)}" if order else "", f"threads share {' and '.join(shared)}" if shared else ""]
    return "; ".join(filter(None, parts))


def _turns(loop, name):
    return f"{getattr(loop.extent, 'value', loop.extent)} {name(loop.loop_var)}"


def _nests(stmt, loops, found):
    """Adds (the loops around a block, it, (whether it reduces, how often it runs)) for the blocks in a statement."""
    if isinstance(stmt, For):
        loops = [*loops, stmt]
    inner = list(statements(stmt))
    if isinstance(stmt, BlockRealize) and stmt.block.iter_vars:
        runs = 1
        for loop in loops:
            runs *= loop.extent.value if isinstance(loop.extent, IntImm) else 2
        reduces = any(iv.iter_type == "reduce" for iv in stmt.block.iter_vars)
        found.append((loops, stmt.block, (reduces, runs)))
    for child in inner:
        _nests(child, loops, found)
