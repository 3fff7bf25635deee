"""What checks of matches ask, and the rewriter from which those begin that give operators to libraries."""
from __future__ import annotations

from math import prod

from ....ir.arith import Analyzer
from ....ir.expr import IntImm
from ....ir.relax.expr import DataflowVar, TensorStructInfo, TupleStructInfo
from ....ir.target import Target
from ..expr_functor import PyExprMutator


class BackendDispatcher(PyExprMutator):
    """A rewriter of a module's functions that asks for the target of a value."""

    @staticmethod
    def is_gpu_target(target):
        return Target.get(target).launch is not None

    @staticmethod
    def get_shape_dtype(expr):
        """(shape, dtype) of a tensor. ValueError where they are not known."""
        info = expr.struct_info
        if not isinstance(info, TensorStructInfo) or info.shape is None:
            raise ValueError(f"Expecting a expr with known shape, but got {expr} with {info}: R.match_cast says it")
        return info.shape, info.dtype

    def _get_target(self, info):
        """The target of the device that a struct info names, else the one around. ValueError where there is none."""
        target = target_of(info)
        if target is None:
            raise ValueError("Target not found: name a vdevice in the struct info, or use `with target:`")
        return target


def target_of(info):
    """The target of the device that a struct info names, else the one around, else None."""
    for part in info.fields if isinstance(info, TupleStructInfo) else (info,):
        device = getattr(part, "vdevice", None)
        if device is not None:
            return Target.get(device.target)
    return Target.current()


def has_leaking_intermediate_variables(context):
    """Whether anything but a match's result is used outside of it, or can be."""
    inside = set(context.matched_bindings)
    result = context.value_to_bound_var[context.matched_expr]
    return any(not isinstance(v, DataflowVar) or not inside.issuperset(context.var_usages.get(v, ()))
               for v in inside if v is not result)


def known(dim):
    """Whether a dimension is a number."""
    return isinstance(dim, (int, IntImm))


def dims_of(value):
    """The dimensions of a tensor, None where they are not known."""
    return getattr(value.struct_info, "dims", None)


def product(dims):
    """How many elements dimensions have; symbolic ones give an expression."""
    return prod(dims)


def same(a, b):
    """Whether two dimensions are proved to be equal."""
    return Analyzer().can_prove_equal(a, b)


def is_product_of_rows(call):
    """Whether a matmul has its second operand as it stands, not one that a pass has packed."""
    return call.attrs.get("b_layout", "KN") == "KN"


def swaps_rows_and_columns(call, ndim):
    """Whether a permute_dims swaps the last two of `ndim` dimensions."""
    axes = call.attrs.get("axes")
    axes = range(ndim)[::-1] if axes is None else [int(a) % ndim for a in axes]
    return list(axes) == [*range(ndim - 2), ndim - 1, ndim - 2]


__all__ = ["BackendDispatcher", "has_leaking_intermediate_variables"]
