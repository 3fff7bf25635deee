"""Kernels in words: what was decided, the bounds of errors, and the primitives that scheduled them."""
from __future__ import annotations

from itertools import groupby

from ..ir.expr import Var
from ..ir.relax.accuracy import growth_of_sums
from ..ir.relax.arithmetic import FMA, FP16
from ..ir.schedule.errors import ScheduleError
from ..ir.schedule.handles import LoopRV
from ..ir.schedule.plan import ATTRIBUTE
from ..ir.schedule.words import in_words
from ..ir.tir.halves import computed_in_halves
from ..ir.transform.name_loops import loop_names

MADE_UP_SUFFIX = ("_update", "_init")  # what primitives add to the names of blocks


def summary(func):
    """The algorithm of a function, and its Plan, in words."""
    plan = func.attrs.get(ATTRIBUTE)
    return "; ".join(filter(None, [" + ".join(func.attrs.get("algorithm", ())), in_words(plan) if plan else ""]))


def error_bounds(func):
    """The bounds of a function's errors, in words: of each arithmetic, and of sums of products by FMAs."""
    terms = func.attrs.get("sums")
    name, unit = (FP16.name, "2^-11") if computed_in_halves(func) else (FMA.name, "u")
    fma = [f"{name}: each sum of {terms} terms within {growth_of_sums(terms):.4g} {unit} |x| |w|"] if terms else []
    return (*func.attrs.get("bounds", ()), *fma)


def primitives(sch):
    """The primitives of a schedule in one line, each with the loops or blocks that it is about, by the names that they
    have in the C, or had before they were split. Queries are left out, and those of one name that follow one another
    and only say where are one."""
    names = _Names(sch)
    return ", ".join(_joined(_step(step, names) for step in sch.trace if not step.name.startswith("get_")))


MOST_NAMED = 2  # loops that were fused, each of which gives a part of the name


class _Names:
    """Names of the loops and blocks that a schedule's handles stand for, or stood for."""

    def __init__(self, sch):
        self.sch, self.renamed = sch, loop_names(sch.func)
        self.short = {}  # long names of fused loops, which kernels for devices call by other ones: what stands for them
        for step in sch.trace if any(step.name == "bind" for step in sch.trace) else ():
            if step.name == "fuse" and len(step.handles) > MOST_NAMED:
                first, last = (self.of(self._var(h)) for h in (step.handles[0], step.handles[-1]))
                self.short[self._var(step.outputs[0]).name] = f"{first}...{last}"
        for step in reversed(list(sch.trace)):  # those that are no more: after what became of them
            if step.name in ("split", "fuse"):
                self._name_from(step)

    def _name_from(self, step):
        before, after = (dict.fromkeys(v for h in handles if (v := self._var(h)) is not None)
                         for handles in (step.handles, step.outputs))
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
        name = self.renamed.get(var, var.name)
        fused = next((n for n in self.short if name == n or name.startswith(f"{n}_")), None)
        return self.short[fused] + name[len(fused):] if fused else name

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
    where = [text for handle in step.handles if (text := names.text(handle))]
    values = [str(v) for _, v in step.args if isinstance(v, (int, str)) and not isinstance(v, bool) and v != -1]
    values += ["x".join("?" if f is None else str(f) for f in v) for _, v in step.args
               if isinstance(v, (tuple, list)) and v and all(f is None or isinstance(f, int) for f in v)]
    return step.name, where, values
