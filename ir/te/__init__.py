"""Tensor expressions, with TVM's names."""
from .create import create_prim_func  # noqa: F401
from .tensor import (  # noqa: F401
    ComputeOp, PlaceholderOp, ProducerLoad, Reduce, Tensor, comm_reducer, compute, max, min, placeholder, prod,
    reduce_axis, sum)
