"""RemovePurityChecking: what functions without side effects may call once nothing moves their calls any more."""
from __future__ import annotations

from ..node import Mutator
from ..relax.expr import Function
from .dataflow_blocks import impure_functions

_ANY = {"call_pure_packed": "call_packed", "call_inplace_packed": "call_packed",
        "invoke_pure_closure": "invoke_closure"}


def remove_purity_checking(mod):
    """A module whose functions without side effects say so, by attrs["relax.force_pure"], and call foreign functions as
    any function does. They have no dataflow blocks (ToNonDataflow): ValueError naming one that has."""
    impure = impure_functions(mod)
    return mod.with_functions({n: f if n in impure or not isinstance(f, Function) else
                               _Unchecked(n).visit(f)
                               for n, f in mod.functions.items()})


class _Unchecked(Mutator):
    def __init__(self, name):
        self.name = name

    def visit_Constant(self, constant):
        return constant

    def visit_Function(self, func):
        return self.generic_visit(func.with_attr("relax.force_pure", True))

    def visit_DataflowBlock(self, block):
        raise ValueError(f"RemovePurityChecking: function {self.name} has a dataflow block: apply ToNonDataflow before")

    def visit_RelaxCall(self, call):
        if call.op not in _ANY:
            return call
        return call.replace(op=_ANY[call.op], attrs={k: v for k, v in call.attrs.items() if k != "inplace_indices"})
