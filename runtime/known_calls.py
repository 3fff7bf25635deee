"""Calls of operators whose struct info says less than values do: as they are for the values of a run."""
from __future__ import annotations

import numpy as np

from ..ir.expr import const
from ..ir.node import Mutator
from ..ir.relax.expr import (PrimStructInfo, PrimValue, RelaxTuple, RelaxVar, ShapeExpr, ShapeStructInfo,
                             TensorStructInfo)
from ..ir.relax.partial import is_partial
from ..ir.upper import upper
from .ndarray import dtype_of


def known_call(call, arrays):
    """(call, arrays) with variables of the values' own shapes and dtypes, where struct info leaves some open; else the
    same. arrays: {variable: array, tuple of such, shape or number}. Raises the operator's InferError where it does not take
    such values."""
    if not any(is_partial(a) for a in (call, *call.args)):
        return call, arrays
    made = {}
    swap = _Swap({id(v): _stand_in(v, value, made) for v, value in arrays.items()})
    args = tuple(swap.visit(a) for a in call.args)
    return upper("classic_call")(call.replace(args=args)), made


def _stand_in(var, value, made):
    """What stands for a variable: an expression of variables whose values `made` gets."""
    if isinstance(var.struct_info, ShapeStructInfo):
        return ShapeExpr(tuple(const(int(n), "int64") for n in value))
    if isinstance(var.struct_info, PrimStructInfo):
        return PrimValue(const(value, var.struct_info.dtype))
    if isinstance(value, tuple):
        return RelaxTuple(tuple(_stand_in(RelaxVar(f"{var.name}_{k}", info), v, made) for k, (v, info) in enumerate(
            zip(value, _fields(var.struct_info, len(value))))))
    array = np.asarray(value)
    known = RelaxVar(var.name, TensorStructInfo(array.shape, dtype_of(array)))
    made[known] = array
    return known


def _fields(info, count):
    fields = getattr(info, "fields", ())
    return fields if len(fields) == count else (info,) * count


class _Swap(Mutator):
    def __init__(self, known):
        self.known = known

    def visit_RelaxVar(self, v):
        return self.known.get(id(v), v)

    visit_DataflowVar = visit_RelaxVar

    def visit_TupleGetItem(self, item):
        value = self.visit(item.tuple_value)
        return value.fields[item.index] if isinstance(value, RelaxTuple) else item.replace(tuple_value=value)


__all__ = ["known_call"]
