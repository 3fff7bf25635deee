"""convert: Python values as what programs are made of."""
from __future__ import annotations

from ..ir.container import Array, Map
from ..ir.expr import StringImm, const

String = str  # strings are Python's


class ObjectGeneric:
    """What stands for a node: asobject() gives it."""

    def asobject(self):
        raise NotImplementedError


def convert(value):
    """Numbers as immediates, lists as Arrays, dicts as Maps, strings as StringImm, what stands for a node as that;
    numbers in those, nodes and anything else stay."""
    if isinstance(value, (bool, int, float)):
        return const(value)
    return _converted(value)


def _converted(value):
    if isinstance(value, (list, tuple)):
        return Array(map(_converted, value))
    if isinstance(value, dict):
        return Map((k, _converted(v)) for k, v in value.items())
    if isinstance(value, str):
        return StringImm(value)
    return value.asobject() if isinstance(value, ObjectGeneric) else value


__all__ = ["ObjectGeneric", "String", "convert"]
