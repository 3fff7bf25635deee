"""Context: what a primitive sees of the function it rewrites, and how it refuses."""
from __future__ import annotations

from ..arith import Analyzer, ConstIntBound
from ..expr import Range, Var, free_vars, is_const_int, substitute
from ..names import unique_name
from ..node import collect
from ..tir.index_map import IndexMap
from ..tir.stmt import BlockRealize, For, SeqStmt, is_constant
from .blocks import name_of, uses
from .errors import ScheduleError
from .handles import Mark
from .index import Index


class Context:
    """The function, its index, and the name under which errors are raised. A new one per applied primitive."""

    def __init__(self, schedule, primitive, func_name, index, tried=False):
        self._schedule, self.primitive, self.func_name, self._tried = schedule, primitive, func_name, tried
        self.index, self.func = index, index.func

    def resolve(self, handle):
        """The statement a handle stands for."""
        return self._schedule.statement(handle, self)

    def number(self, handle):
        """The number a handle stands for."""
        return self._schedule.value(handle)

    def own(self, value):
        """An expression, IndexMap or tuple of such in the variables of the function: of its name and dtype where one is
        of another function, so that a trace applies to any copy of its program."""
        own = {v for m in collect(value, IndexMap) for v in m.initial_indices}
        used = [v for v in free_vars(value) if v not in own and v not in self.index.loops]
        if not used:
            return value
        buffers, mine = self.func.buffer_map.values(), {}
        for v in {*self.func.params, *free_vars([(b.shape, b.strides, b.elem_offset) for b in buffers])}:
            mine.setdefault((v.name, v.dtype), []).append(v)
        found = {v: mine.get((v.name, v.dtype), ()) for v in used}
        return substitute(value, {v: same[0] for v, same in found.items() if len(same) == 1})

    def block_called(self, name):
        """The BlockRealize of a name."""
        if name not in self.index.blocks:
            known = f"function {self.func_name} has {', '.join(self.index.blocks)}"
            self.refuse("'name'", f"Cannot find a block with the name: {name}", known,
                        brief=f"Cannot find a block with the specified name, {name!r}; {known}")
        return self.index.blocks[name]

    def location(self, handle):
        """The For a handle stands for, or the Mark of one that sample_compute_location made of no loop."""
        found = self._schedule.value(handle)
        return found if isinstance(found, Mark) else self.resolve(handle)

    @property
    def rng(self):
        """The schedule's source of random numbers."""
        return self._schedule.rng

    def refuse(self, argument, reason, hint="", at=(), brief="", error=ScheduleError):
        """Raise the ScheduleError of this primitive; `at` are statements to mark. error: its class."""
        raise error(self.primitive, argument, reason, hint, self.func, at, self._schedule.error_render_level,
                    self._tried, brief)

    def with_func(self, func):
        """The context after a rewrite, for checks that need the new function."""
        return Context(self._schedule, self.primitive, self.func_name, Index(func), tried=True)

    def new_block_name(self, hint, taken=()):
        """`hint`, or hint_1, hint_2 ... when a block has that name, or it is one of those `taken`."""
        return unique_name(hint, {*self.index.names, *taken})

    def scope(self, realize, argument):
        """The realize of the block around `realize`; only loops and sequences may lie between,
        and constants, which are at the top of a function (Schedule)."""
        for above in self.index.ancestors(realize):
            if type(above) is BlockRealize:
                self._require_names_apart(above, argument)
                self._require_own_domains(realize, argument)
                return above
            if type(above) not in (For, SeqStmt) and not is_constant(above):
                self.refuse(argument, f"block {name_of(realize)} lies under a {type(above).__name__}",
                            "only loops may lie between a block and its scope", [realize])
        return self.refuse(argument, f"block {name_of(realize)} is the root block", "name a block inside it", [realize])

    def _require_names_apart(self, scope, argument):
        """Refuse to reason about a scope that writes one memory under two names."""
        found = self.index.aliases(scope)
        if found:
            self.refuse(argument, f"inside block {name_of(scope)}, {found[0].name} and {found[1].name} are parts of "
                        "one buffer", "use one of them alone there", [scope])

    def _require_own_domains(self, realize, argument):
        """Refuse a block whose iterators have other domains in other iterations of a loop."""
        loops = {loop.loop_var for loop in self.index.loops_above(realize)}
        for iv in realize.block.iter_vars:
            if uses((iv.dom.min, iv.dom.extent), loops):
                self.refuse(argument, f"the domain of iterator {iv.var.name} of block {name_of(realize)} depends on a "
                            "loop", "give the iterator a constant domain, as with T.axis.spatial(n, value)", [realize])

    def analyzer_at(self, stmt):
        """An Analyzer that knows the loops around a statement."""
        return analyzer_of(self.index.loops_above(stmt))


def analyzer_of(loops):
    """An Analyzer that knows the ranges of the loops, outermost first."""
    analyzer = Analyzer()
    for loop in loops:
        analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
    return analyzer


def know_dimensions(analyzer, func):
    """The Analyzer, which now knows that dimensions of parameters are at least 1: callers are held to that."""
    for dim in (dim for b in func.buffer_map.values() for dim in b.shape if isinstance(dim, Var)):
        analyzer.update(dim, ConstIntBound(1, ConstIntBound.POS_INF), True)
    return analyzer


def ranges_of(loops):
    """{loop Var: Range}, in order."""
    return {loop.loop_var: Range(loop.min, loop.extent) for loop in loops}


def is_unit(loop):
    """Whether a loop runs exactly once."""
    return is_const_int(loop.extent, 1)
