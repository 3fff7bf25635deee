"""Constants of PrimFuncs in their module's attribute "constants", a list in which equal arrays are one."""
from __future__ import annotations

import numpy as np

from ...elements import Elements
from ...node import Mutator
from ...tir.function import PrimFunc

ATTRIBUTE = "constants"


def extract_constants(mod):
    """Ensures that the module's attribute "constants" has the elements of each T.allocate_const, and that
    irmod_storage_idx says where. The elements stay in the functions, too."""
    constants = list(mod.attrs.get(ATTRIBUTE, ()))
    made = _rewritten(mod, lambda e: e.replace(index=_number(constants, e.data)) if e.data is not None else e)
    return made.replace(attrs={**mod.attrs, ATTRIBUTE: constants}) if constants else made


def _number(constants, data):
    """Where a list has an array, at its end now if nowhere before."""
    for n, other in enumerate(constants):
        if other.dtype == data.dtype and other.shape == data.shape and other.tobytes() == data.tobytes():
            return n
    constants.append(Elements.of(data))
    return len(constants) - 1


def bind_constants(mod):
    """Ensures that each T.allocate_const has its elements: those that irmod_storage_idx names of the module's attribute
    "constants". Raises ValueError where it has none of that number, or of another size."""
    constants = mod.attrs.get(ATTRIBUTE, ())

    def bound(e):
        if e.data is not None:
            return e
        if not 0 <= e.index < len(constants):
            raise ValueError(f'a constant is number {e.index} of the module\'s attribute "{ATTRIBUTE}", which has '
                             f"{len(constants)}")
        return type(e).of(np.asarray(constants[e.index]), e.elements, e.extents, e.annotations, e.index)
    return _rewritten(mod, bound)


def _rewritten(mod, change):
    rewrite = _Constants(change)
    return mod.with_functions({name: func.replace(body=rewrite.visit(func.body)) if isinstance(func, PrimFunc) else func
                               for name, func in mod.functions.items()})


class _Constants(Mutator):
    def __init__(self, change):
        self.visit_one = change

    def visit_ConstantArray(self, e):
        return self.visit_one(e)


__all__ = ["bind_constants", "extract_constants"]
