"""An Executable of a Module: what scripts make of the module that tvm.tir.build gives."""
from __future__ import annotations

from .executable import Executable
from .module import Module


class ModuleExecutable(Executable):
    """Executable(mod) of a Module: `mod` is the module, jit() what runs."""

    def __init__(self, mod):
        self._module, self._jitted_mod = mod, None

    @property
    def mod(self):
        return self._module

    def jit(self, *, fcompile=None, addons=None, force_recompile=False, **_):
        """The module, compiled; with force_recompile once more, as another one. fcompile, addons: must be left out."""
        if fcompile or addons:
            raise ValueError("jit: the compiler is that which CC names, and links nothing more")
        if self._jitted_mod is None or force_recompile:
            self._jitted_mod = self._module.again() if force_recompile else self._module
            self._jitted_mod.compile()
        return self._jitted_mod

    def __getitem__(self, name):
        return self.jit()[name]

    def __call__(self, *args):
        return self.jit()(*args)

    def export_library(self, file_name, **kwargs):
        """Write the module to a file; see Module."""
        self._module.export_library(file_name, **kwargs)

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "_module"), name)


Executable.of_module = Module, ModuleExecutable
__all__ = ["ModuleExecutable"]
