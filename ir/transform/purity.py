"""RemovePurityChecking: what functions without side effects may call once nothing moves their calls any more."""
from __future__ import annotations

from ..node import Mutator
from ..relax.expr import Function
from .dataflow_blocks import impure_functions

_ANY = {"call_pure_packed": "call_packed", "invoke_pure_closure": "invoke_closure"}


def remove_purity_checking(mod):
    """A module whose functions without side effects say so, by attrs["relax.force_pure"], and call foreign functions as
    any function does. They have no dataflow blocks (ToNonDataflow): ValueError naming one that has."""
    impure = impure_functions(mod)
    return mod.with_functions({n: f if n in impure or not isinstance(f, Function) else
                               _Unchecked(n).visit(f.with_attr("relax.force_pure", True))
                               for n, f in mod.functions.items()})


class _Unchecked(Mutator):
    def __init__(self, name):
        self.name = name

    def visit_Constant(self, constant):
        return constant

    def visit_DataflowBlock(self, block):
        raise ValueError(f"RemovePurityChecking: function {self.name} has a dataflow block: apply ToNonDataflow before")

    def visit_RelaxCall(self, call):
        return call.replace(op=_ANY[call.op]) if call.op in _ANY else call
