"""Mutator: parts of a module replaced by what a method returns for each."""
from __future__ import annotations

from .core import Effect, Module, ModuleDict, ModuleList, Parameter


class Mutator:
    """visit_module, visit_modulelist, visit_param, visit_effect(name, part) return what takes the part's place.

    By default that is the part, whose own parts were visited: self.visit(name, part).
    """

    def visit_module(self, name, node):
        return self.visit(name, node)

    def visit_modulelist(self, name, node):
        return self.visit(name, node)

    visit_moduledict = visit_modulelist

    def visit_param(self, name, node):
        return self.visit(name, node)

    def visit_effect(self, name, node):
        return self.visit(name, node)

    def visit(self, name, node):
        """The node, after its parts were visited under names such as "layers.0.weight"."""
        parts = list(node.parts()) if isinstance(node, Module) else list(vars(node).items())
        for key, part in parts:
            method = next((m for kind, m in _VISITS if isinstance(part, kind)), None)
            if method is None:
                continue
            new = getattr(self, method)(f"{name}.{key}" if name else key, part)
            if isinstance(node, ModuleList):
                node[int(key)] = new
            elif isinstance(node, ModuleDict):
                node[key] = new
            else:
                setattr(node, key, new)
        return node


_VISITS = ((ModuleList, "visit_modulelist"), (ModuleDict, "visit_moduledict"), (Module, "visit_module"),
           (Effect, "visit_effect"), (Parameter, "visit_param"))
__all__ = ["Mutator"]
