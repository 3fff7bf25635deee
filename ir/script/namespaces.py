"""The names that a script imports: T, R and I, each a table from name to what it means."""
from __future__ import annotations

import difflib

from ..dtype import DataType
from ..expr import PrimExpr, as_expr, cast, const, number_like
from .specs import Fresh


class Namespace:
    """Attribute access on a table of names.

    other(name): the meaning of a name that is not in the table, or None. absent: name -> why there is no such name
    here, and what to write instead.
    """

    def __init__(self, name, rows, other=None, absent=()):
        self._name, self._rows, self._other, self._absent = name, rows, other, dict(absent)

    def __getattr__(self, name):
        found = self._rows.get(name)
        if found is None and self._other and not name.startswith("_"):
            found = self._other(name)
        if found is None and name in self._absent:
            raise AttributeError(f"{self._name}.{name} is not supported: {self._absent[name]}")
        if found is None:
            near = difflib.get_close_matches(name, self._rows, 1)
            hint = f"; did you mean {self._name}.{near[0]}?" if near else ""
            raise AttributeError(f"{self._name} has no name {name!r}{hint}")
        return found

    def __dir__(self):
        return sorted(self._rows)

    def __repr__(self):
        return f"<script names {self._name}.*>"


class Form:
    """A name whose arguments are read by the parser: handler(parser, ast.Call) -> value."""

    def __init__(self, name, handler):
        self.name, self.handler = name, handler

    def __call__(self, *args, **kwargs):
        raise TypeError(f"{self.name} has a meaning inside a script only")


class DTypeName:
    """T.float32: an annotation; T.float32(1.5) an immediate; T.float32(e) a cast; T.float32() a new variable."""

    def __init__(self, dtype):
        self.dtype = DataType(dtype)

    def __call__(self, value=None, storage_scope=None, most=None, is_size_var=False, **_):
        """handle("float32", "global"), a typed pointer, is a handle; handle(0) is the pointer to nothing."""
        if value is None or self.dtype == "handle" and type(value) is not int:
            return Fresh(self.dtype, None if most is None else as_expr(most).astype(self.dtype), is_size_var)
        if isinstance(value, str):
            return const(float(value), self.dtype) if self.dtype.is_float else const(int(value), self.dtype)
        if isinstance(value, (bool, int, float)):
            return const(value, self.dtype)
        return cast(value, self.dtype)

    def __repr__(self):
        return f"T.{self.dtype}"


_DTYPES = {}


def dtype_name(name):
    """The DTypeName of "float32", "int8x16" ...; None when there is no such dtype."""
    if name not in _DTYPES:
        try:
            _DTYPES[name] = DTypeName({"boolean": "bool"}.get(name, name))
        except ValueError:
            return None
    return _DTYPES[name]


def is_number(value):
    """True for Python's numbers, whose dtype the other operand decides."""
    return isinstance(value, (bool, int, float))


def matched(*args):
    """Operands as expressions: a Python number takes the dtype of the first operand that has one."""
    exprs = [a for a in args if isinstance(a, PrimExpr)]
    if not exprs:
        return tuple(as_expr(a) for a in args)
    dtype = exprs[0].dtype
    return tuple(number_like(a, dtype) if is_number(a) else as_expr(a) for a in args)


__all__ = ["DTypeName", "Form", "Namespace", "dtype_name", "is_number", "matched", "number_like"]
