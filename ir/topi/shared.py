"""What functions shared with relax.op (composites_tensor.py, composites_nn.py) call, of te tensors."""
from __future__ import annotations

from ..dtype import DataType
from ..expr import as_expr, is_const_int
from ..op import InferError
from ..relax.classic import plain
from ..relax.composites_tensor import TENSORS
from ..relax.ops.common import simplify


def number(dim, what):
    """A dimension as an int. InferError where it is symbolic."""
    value = plain(simplify(as_expr(dim)))
    if not isinstance(value, int):
        raise InferError(f"{what} must be a number, it is {value}")
    return value


class TensorOps:
    """What functions shared with relax.op call (composites_tensor.py): ops(name, ...), and what else they need."""

    def __init__(self, ops):
        self.ops = ops

    def __call__(self, name, /, *args, **kwargs):
        return TENSORS[name](self, *args, **kwargs) if name in TENSORS else self.ops(name, *args, **kwargs)

    def core(self, name, /, *args, **kwargs):
        return self.ops(name, *args, **kwargs)

    @staticmethod
    def tuple(*fields):
        return list(fields)

    @staticmethod
    def items(value, count):
        return list(value)[:count]

    @staticmethod
    def size(dim):
        return number(dim, "the extent of the axis")

    @staticmethod
    def same_dims(what, a, b):
        if len(a) != len(b) or any(not is_const_int(simplify(as_expr(x) - as_expr(y)), 0) for x, y in zip(a, b)):
            raise InferError(f"{what} differ: {list(a)} and {list(b)}")

    @staticmethod
    def declared(x, dims):
        return x

    @staticmethod
    def range_of(dtype):
        return DataType(dtype).finite_range()
