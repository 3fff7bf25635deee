"""LowerAllocTensor: every tensor in a storage of its own."""
from __future__ import annotations

from ..expr import const
from .plan_blocks import Allocations


def lower_alloc_tensor(func):
    """A graph function in which each R.builtin.alloc_tensor is R.memory.alloc_tensor from an R.memory.alloc_storage of
    as many bytes, symbolic where its shape is. ValueError where the shape is not known."""
    return _Lower(func).visit(func)


class _Lower(Allocations):
    def allocation(self, b, bindings):
        info = b.value.struct_info
        if not isinstance(info.shape, tuple):
            raise ValueError(f"LowerAllocTensor: the shape of {b.var.name} is {b.value.args[0].struct_info}, it must "
                             "be a ShapeExpr or a variable that holds one")
        size = const(info.dtype.bytes, "int64")
        for d in info.shape:
            size = size * d
        return self.tensor_in(self.bound_storage(b, size, "uint8", bindings), b.value)


__all__ = ["lower_alloc_tensor"]
