"""Calls to modules of higher layers by name: the upper module registers a function, so that imports go one way.

A node prints itself, say, with the printer, which imports the nodes: `ir.script` provides "script", and the nodes ask
`upper("script")`. Importing any part of `ingot.ir` imports what provides these names.
"""
from __future__ import annotations

_PROVIDED = {}


def provides(name):
    """Register the decorated function or class as what modules below call `name`."""
    def register(value):
        _PROVIDED[name] = value
        return value
    return register


def upper(name):
    """The function that a higher module registered as `name`."""
    return _PROVIDED[name]


def upper_method(name):
    """A method that is the function a higher module registered as `name`."""
    def method(self, *args, **kwargs):
        return _PROVIDED[name](self, *args, **kwargs)
    method.__doc__ = "What is printed of it; see ir/script."
    return method


__all__ = ["provides", "upper", "upper_method"]
