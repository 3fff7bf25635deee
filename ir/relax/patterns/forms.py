"""Patterns as scripts write them: is_op("relax.add")(wildcard(), is_const())."""
from __future__ import annotations

from ...expr import Op
from .pattern import (CallPattern, ConstantPattern, DataflowVarPattern, ExprPattern, ExternFuncPattern,
                      GlobalVarPattern, NotPattern, PrimArrPattern, TupleGetItemPattern, TuplePattern,
                      UnorderedTuplePattern, VarPattern, WildcardPattern, open_context)


def is_var(name=""):
    """A variable, of this name where given."""
    return VarPattern(name)


def is_dfv(name=""):
    return DataflowVarPattern(name)


def is_gv(name=""):
    """A function of the module whose name contains `name`."""
    return GlobalVarPattern(name)


def is_const():
    return ConstantPattern()


def is_expr(expr):
    return ExprPattern(expr)


def is_op(op_name):
    """An operator, to be called: is_op("relax.add")(wildcard(), wildcard())."""
    return ExprPattern(Op.get(op_name))


def is_tuple(fields, unordered=False):
    return (UnorderedTuplePattern if unordered else TuplePattern)(tuple(fields))


def is_tuple_get_item(tuple_value, index=None):
    return TupleGetItemPattern(tuple_value, index)


def wildcard():
    return WildcardPattern()


def has_dtype(dtype, pattern=None):
    return (pattern or wildcard()).has_dtype(dtype)


def is_shape(shape):
    """A shape as a value, where has_shape is of a tensor that has it."""
    return PrimArrPattern(tuple(shape))


def has_attr(attrs, pattern=None):
    return (pattern or wildcard()).has_attr(attrs)


def reject(pattern):
    return NotPattern(pattern)


def _foreign(op, function, args, tir_vars):
    """A call of call_tir or its like: function(tuple of args, tir_vars)."""
    if args is None:
        return CallPattern(is_op(op), (function, wildcard()), varg_default_wildcard=True)
    args = is_tuple(args) if isinstance(args, (list, tuple)) else args
    if open_context():  # what is in the tuple is used by the call
        pattern = CallPattern(is_op(op), (function, args, *(() if tir_vars is None else (tir_vars,))))
        for n, arg in enumerate(getattr(args, "fields", ())):
            open_context().add_edge(arg, pattern, n)
        return pattern
    return CallPattern(is_op(op), (function, args, *(() if tir_vars is None else (tir_vars,))))


def is_call_tir(func_name, args=None, tir_vars=None):
    """R.call_tir of the function func_name, with patterns of its arguments; None: any."""
    return _foreign("relax.call_tir", is_gv(func_name), args, tir_vars)


def is_call_dps_packed(func_name, args=None):
    return _foreign("relax.call_dps_packed", ExternFuncPattern(func_name), args, None)


def is_call_packed(func_name, args=None):
    return CallPattern(ExternFuncPattern(func_name), args or (), varg_default_wildcard=args is None)


def make_fused_bias_activation_pattern(op_name, with_bias=False, activation=None):
    """An operator of two tensors, a sum with a bias where asked, and an activation where one is named."""
    out = is_op(op_name)(wildcard(), wildcard())
    if with_bias:
        out = is_op("relax.add")(out, wildcard())
    return is_op(activation)(out) if activation else out

__all__ = ["has_attr", "has_dtype", "is_call_dps_packed", "is_call_packed", "is_call_tir", "is_const", "is_dfv",
           "is_expr", "is_gv", "is_op", "is_shape", "is_tuple", "is_tuple_get_item", "is_var",
           "make_fused_bias_activation_pattern", "reject", "wildcard"]
