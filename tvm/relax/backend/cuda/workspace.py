"""The memory that kernels of attention want beside their operands."""
from __future__ import annotations

from .....ir.node import Mutator, collect
from .....ir.relax.expr import Function
from .....ir.transform.classic.allocate_workspace import SIZE, allocate_workspace
from ..utils import known, product

_UNKNOWN = 8  # bytes, where the result's size is symbolic


def with_workspace(mod, library):
    """A module whose functions for a library that are attention take a workspace, as large as their result."""
    return allocate_workspace(mod.with_functions({n: _Asking(library).visit(f) if isinstance(f, Function) else f
                                                  for n, f in mod.functions.items()}))


class _Asking(Mutator):
    """Composite functions that are attention get the attribute WorkspaceSize, and so do those for generators around."""

    def __init__(self, library):
        self.library = library

    def visit_Constant(self, constant):
        return constant

    def visit_Function(self, func):
        name = func.attrs.get("Composite") or ""
        if name.startswith(f"{self.library}.") and "attention" in name:
            return func.with_attr(SIZE, _bytes(func.ret_struct_info))
        func = self.generic_visit(func)
        sizes = [f.attrs[SIZE] for f in collect(func.body, Function) if SIZE in f.attrs]
        return func.with_attr(SIZE, max(sizes)) if sizes and func.attrs.get("Codegen") == self.library else func


def _bytes(info):
    elements = product(info.dims)
    return int(elements) * info.dtype.bits // 8 if known(elements) else _UNKNOWN
