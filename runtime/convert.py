"""convert: Python values as what programs are made of."""
from __future__ import annotations

from ..ir.expr import StringImm, as_expr


def convert(value):
    """Numbers as expressions, strings as StringImm, lists as tuples; a node or anything that is none stays."""
    if isinstance(value, (list, tuple)):
        return tuple(map(convert, value))
    if isinstance(value, str):
        return StringImm(value)
    return as_expr(value) if isinstance(value, (bool, int, float)) else value
