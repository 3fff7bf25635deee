"""ToNonDataflow, ConvertToDataflow: which bindings lie in dataflow blocks."""
from __future__ import annotations

from ..node import Mutator, collect
from ..relax.expr import BindingBlock, DataflowBlock, DataflowVar, Function, If, RelaxCall, RelaxVar
from .canonicalize_bindings import used_outside
from .dead_code import is_impure
from .graph import Substitute


def to_non_dataflow(func):
    """A function without dataflow blocks: their variables are visible in all of it."""
    return _ToNonDataflow().visit(func)


class _ToNonDataflow(Mutator):
    def __init__(self):
        self.made = {}

    def visit_Constant(self, constant):
        return constant

    def visit_DataflowVar(self, var):
        if id(var) not in self.made:
            self.made[id(var)] = RelaxVar(var.name, var.struct_info, var.origin)
        return self.made[id(var)]

    def visit_DataflowBlock(self, block):
        return BindingBlock(self.visit(block.bindings))


def convert_to_dataflow(mod, min_size=2):
    """A module in which at least `min_size` bindings without side effects that follow one another lie in a dataflow
    block; variables that nothing outside of it uses are DataflowVars."""
    impure = impure_functions(mod)
    return mod.with_functions({n: _Extract(impure, min_size).visit(f) if isinstance(f, Function) else f
                               for n, f in mod.functions.items()})


def impure_functions(mod):
    """The names of the graph functions that have side effects, or call one that has."""
    graphs = {n: f for n, f in mod.functions.items() if isinstance(f, Function)}
    found, more = set(), {n for n, f in graphs.items() if is_impure(f)}
    while more:
        found |= more
        more = {n for n, f in graphs.items() if n not in found and _called(f) & found}
    return found


def _called(value):
    """The names of the graph functions that a value calls."""
    return {c.attrs["gv"].name for c in collect(value, RelaxCall) if c.op == "call"}


class _Extract(Mutator):
    def __init__(self, impure, min_size):
        self.impure, self.min_size = impure, min_size

    def visit_Constant(self, constant):
        return constant

    def visit_SeqExpr(self, seq):
        blocks, run = [], []  # run: (kind of block, binding) of what has no side effects

        def end_run():
            for kind, b in run:
                _add(blocks, DataflowBlock if len(run) >= self.min_size else kind, b)
            run.clear()

        for block in seq.blocks:
            for b in block.bindings:
                if self._is_pure(b.value):
                    run.append((type(block), b.replace(value=self.visit(b.value))))
                else:
                    end_run()
                    _add(blocks, type(block), b.replace(value=self.visit(b.value)))
        end_run()
        return hidden(seq.replace(blocks=tuple(kind(tuple(bindings)) for kind, bindings in blocks)))

    def _is_pure(self, value):
        if isinstance(value, Function):
            return True  # its definition: calls of functions that are values count as impure
        local = isinstance(value, RelaxCall) and not isinstance(value.op, str)
        return not (isinstance(value, If) or local or is_impure(value) or _called(value) & self.impure)


def _add(blocks, kind, binding):
    """Add a binding to the last of blocks [(kind, bindings)], or to a new one where that is of another kind."""
    if not blocks or blocks[-1][0] is not kind:
        blocks.append((kind, []))
    blocks[-1][1].append(binding)


def hidden(seq):
    """A sequence in which variables of dataflow blocks that nothing outside uses are DataflowVars."""
    used, env = used_outside(seq), {}
    for block in seq.blocks:
        for b in block.bindings if isinstance(block, DataflowBlock) else ():
            if type(b.var) is RelaxVar and id(b.var) not in used[id(block)]:
                env[id(b.var)] = DataflowVar(b.var.name, b.var.struct_info, b.var.origin)
    return Substitute(env).visit(seq) if env else seq


__all__ = ["convert_to_dataflow", "hidden", "impure_functions", "to_non_dataflow"]
