"""relax.utils: values as expressions, and functions with variables of their own."""
from __future__ import annotations

from importlib import import_module

from ...ir.expr import PrimExpr, StringImm, as_expr
from ...ir.relax.block_builder import BlockBuilder
from ...ir.relax.expr import PrimValue, RelaxExpr, RelaxTuple, ShapeExpr
from ...ir.transform.fresh_vars import copy_with_new_vars


def convert_to_expr(value):
    """A value as a graph expression: numbers and dimensions as PrimValues, lists of dimensions as shapes, lists of
    expressions as tuples. TypeError for others."""
    if isinstance(value, RelaxExpr):
        return value
    if isinstance(value, (list, tuple)):
        values = list(value)
        if values and all(isinstance(v, (int, PrimExpr)) and not isinstance(v, StringImm) for v in values):
            return ShapeExpr(tuple(values))
        return RelaxTuple(tuple(map(convert_to_expr, values)))
    if isinstance(value, str):
        return PrimValue(StringImm(value))
    try:
        return PrimValue(value if type(value) is int else as_expr(value))
    except TypeError:
        raise TypeError(f"Cannot convert {value} with type {type(value)} to a graph expression") from None


def gen_call_tir_inputs(func, *args, **kwargs):
    """(the PrimFunc that func(*args) describes, the tensors that R.call_tir passes, what it gives, the dimensions
    passed after), as BlockBuilder.call_te has them."""
    builder = BlockBuilder()
    call = builder.call_te(func, *args, **kwargs)
    return builder.get()[call.attrs["gv"]], call.args, call.struct_info, call.attrs["sym_args"]


def __getattr__(name):
    if name == "args_converter":  # which uses convert_to_expr
        return import_module(f"{__name__.rpartition('.')[0]}.args_converter")
    raise AttributeError(f"relax.utils has no {name}")


__all__ = ["convert_to_expr", "copy_with_new_vars", "gen_call_tir_inputs"]
