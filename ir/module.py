"""IRModule: the functions of a program by name. A module is a value: `with_function` returns a new one."""
from __future__ import annotations

from .node import Node, node, node_field


class BaseFunc(Node):
    """Base of PrimFunc and relax.Function."""

    __slots__ = ()


@node
class GlobalVar(Node):
    """The name of a function in its module, used as a call's operator."""

    name: str


@node
class IRModule(Node):
    """`functions`: {name: function}; `attrs`: facts about the whole module (model name, dimension names ...)."""

    functions: dict = node_field(default_factory=dict)
    attrs: dict = node_field(default_factory=dict)

    def __getitem__(self, name):
        name = name.name if isinstance(name, GlobalVar) else name
        if name not in self.functions:
            raise KeyError(f"no function {name!r} in the module; it has {', '.join(self.functions) or 'none'}")
        return self.functions[name]

    def __contains__(self, name):
        return (name.name if isinstance(name, GlobalVar) else name) in self.functions

    def with_function(self, name, function):
        """A module in which `name` is `function` (added at the end when new)."""
        return self.replace(functions={**self.functions, name: function})

    def with_functions(self, functions):
        return self.replace(functions=dict(functions))

    def with_attr(self, key, value):
        return self.replace(attrs={**self.attrs, key: value})

    def script(self, show_meta=False):
        """The module in script syntax; show_meta: with its constants, so that from_source reads the text alone."""
        from .script import script
        return script(self, show_meta)

    __str__ = script

    def show(self):
        """Print the module's script, coloured on a terminal."""
        from .script.highlight import show
        show(self.script())
