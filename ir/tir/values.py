"""The values of integer expressions for many values of their variables at once, by numpy."""
from __future__ import annotations

import numpy as np

from .. import expr as E
from .interpreter import RUNTIME

_FUNCTIONS = {E.Add: np.add, E.Sub: np.subtract, E.Mul: np.multiply, E.FloorDiv: np.floor_divide, E.FloorMod: np.mod,
              E.Div: RUNTIME["trunc_div"], E.Mod: RUNTIME["trunc_mod"], E.Min: np.minimum, E.Max: np.maximum,
              E.EQ: np.equal, E.NE: np.not_equal, E.LT: np.less, E.LE: np.less_equal, E.GT: np.greater,
              E.GE: np.greater_equal, E.And: np.logical_and, E.Or: np.logical_or}


def values_of(e, arrays):
    """An integer or boolean expression over arrays {Var: array}, which broadcast. TypeError for what has no such value,
    as a load."""
    kind = type(e)
    if kind is E.Var and e in arrays:
        return arrays[e]
    if kind is E.IntImm:
        return e.value
    if kind in _FUNCTIONS:
        return _FUNCTIONS[kind](values_of(e.a, arrays), values_of(e.b, arrays))
    if kind is E.Not:
        return np.logical_not(values_of(e.a, arrays))
    if kind is E.Select:
        return np.where(*(values_of(part, arrays) for part in (e.condition, e.true_value, e.false_value)))
    if kind is E.Cast and e.dtype.is_int:
        return values_of(e.value, arrays)
    raise TypeError(f"{e} has no value for given integers alone")
