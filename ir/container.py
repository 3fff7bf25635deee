"""What TVM calls its containers. Programs are made of Python's tuples and dicts; all of these are of these classes."""
from __future__ import annotations


class _Kind(type):
    def __instancecheck__(cls, value):
        return isinstance(value, cls.kinds)


class Array(tuple, metaclass=_Kind):
    """A tuple, as runtime.convert makes one of a list; lists are Arrays, too."""

    kinds = (tuple, list)
    type_key = "Array"


class Map(dict, metaclass=_Kind):
    """A dict, as runtime.convert makes one."""

    kinds = (dict,)
    type_key = "Map"


class DictAttrs(dict, metaclass=_Kind):
    """Attributes of functions and modules, here also as attributes of Python's. Any dict is of this class."""

    kinds = (dict,)
    type_key = "DictAttrs"

    def __getattr__(self, name):
        if name not in self:
            raise AttributeError(f"there is no attribute {name!r}; there is {', '.join(map(str, self)) or 'none'}")
        return self[name]


__all__ = ["Array", "DictAttrs", "Map"]
