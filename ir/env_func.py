"""EnvFunc: a registered packed function as part of a program, known by its name."""
from __future__ import annotations

from .node import Node, node
from .tir.runtime_ops import PACKED_FUNCTIONS


@node
class EnvFunc(Node):
    """name: by which the function is registered (register_func)."""

    name: str
    _holds_statements = False

    @staticmethod
    def get(name):
        """The EnvFunc of a function. ValueError where none is registered."""
        if name not in PACKED_FUNCTIONS:
            raise ValueError(f"Cannot find global function {name}")
        return EnvFunc(name)

    @property
    def func(self):
        """The function."""
        return EnvFunc.get(self.name) and PACKED_FUNCTIONS[self.name]

    def __call__(self, *args):
        return self.func(*args)


__all__ = ["EnvFunc"]
