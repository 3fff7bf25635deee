"""SizeVar: variables that are never negative, such as the sizes of shapes."""
from __future__ import annotations

from ..expr import Var


class _Sizes(type):
    def __call__(cls, name="size", dtype="int32", span=None):
        return Var(name, dtype, is_size=True)

    def __instancecheck__(cls, value):
        return isinstance(value, Var) and value.is_size


class SizeVar(metaclass=_Sizes):
    """SizeVar(name, dtype) is a Var that arith knows to be at least 0. `span`, TVM's place in a script, is not kept."""
