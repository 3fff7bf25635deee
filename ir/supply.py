"""Names that are still free: of anything, and of the functions of a module."""
from __future__ import annotations

from .module import GlobalVar
from .names import Names, unique_name


class NameSupply:
    """Gives each name once, with `prefix` and _ before it; a name that is taken gets a number."""

    def __init__(self, prefix=""):
        self.prefix, self._taken = prefix, Names()

    def fresh_name(self, name, add_prefix=True, add_underscore=True):
        """A free name like `name`, which it is from now on not; points become _. add_underscore: before its number."""
        return unique_name(self._named(name, add_prefix).replace(".", "_"), self._taken, "_" if add_underscore else "")

    def reserve_name(self, name, add_prefix=True):
        """Take a name, and return it."""
        name = self._named(name, add_prefix)
        self._taken.add(name)
        return name

    def contains_name(self, name, add_prefix=True):
        """Whether a name is taken."""
        return self._named(name, add_prefix) in self._taken

    def _named(self, name, add_prefix):
        return f"{self.prefix}_{name}" if add_prefix and self.prefix else name


class GlobalVarSupply:
    """Gives GlobalVars of names that are free. value: a NameSupply, an IRModule or a list of these, whose functions'
    names are taken; None: none is."""

    def __init__(self, value=None):
        self.names, self._known = value if isinstance(value, NameSupply) else NameSupply(), {}
        if value is not None and value is not self.names:
            for mod in value if isinstance(value, (list, tuple)) else [value]:
                for name in mod.functions:
                    self.reserve_global(GlobalVar(name))

    def fresh_global(self, name, add_prefix=True):
        """A GlobalVar of a free name."""
        found = GlobalVar(self.names.fresh_name(name, add_prefix))
        return self._known.setdefault(found.name, found)

    def unique_global_for(self, name, add_prefix=True):
        """The GlobalVar of a name: that which was given or reserved before, or a new one."""
        name = self.names._named(name, add_prefix)
        return self._known.get(name) or self._known.setdefault(self.names.reserve_name(name, False), GlobalVar(name))

    def reserve_global(self, global_var, allow_conflict=False):
        """Take the name of a GlobalVar. ValueError where another one has it, unless allow_conflict."""
        if self._known.get(global_var.name, global_var) is not global_var and not allow_conflict:
            raise ValueError(f"the name {global_var.name!r} is taken by another GlobalVar")
        self.names.reserve_name(global_var.name, False)
        self._known[global_var.name] = global_var


__all__ = ["GlobalVarSupply", "NameSupply"]
