"""Types, as TVM has them: what variables and functions are annotated with. Equal where their structure is."""
from __future__ import annotations

from .dtype import DataType
from .node import Node, node, structural_equal


class Type(Node):
    """Base of types."""

    __slots__ = ()
    _holds_statements = False
    span = None

    def __eq__(self, other):
        return isinstance(other, Type) and structural_equal(self, other)

    def __hash__(self):
        return hash((type(self).__name__, *(getattr(self, f) for f in self._fields)))


@node
class PrimType(Type):
    """A number of a dtype."""

    dtype: DataType

    def __post_init__(self):
        object.__setattr__(self, "dtype", DataType(self.dtype))


@node
class PointerType(Type):
    """The address of elements of a type, in a memory."""

    element_type: Type
    storage_scope: str = ""

    def __post_init__(self):
        if not isinstance(self.element_type, Type):
            raise TypeError(f"a PointerType is to a type, such as PrimType('float32'), not to {self.element_type!r}")


@node
class TupleType(Type):
    """A tuple of values of types."""

    fields: tuple = ()

    def __post_init__(self):
        object.__setattr__(self, "fields", tuple(self.fields))


@node
class FuncType(Type):
    """A function of arguments of types, that returns a value of one."""

    arg_types: tuple = ()
    ret_type: Type = None

    def __post_init__(self):
        object.__setattr__(self, "arg_types", tuple(self.arg_types))


__all__ = ["FuncType", "PointerType", "PrimType", "TupleType", "Type"]
