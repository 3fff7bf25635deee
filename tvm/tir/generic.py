"""tvm.tir.generic: arithmetic as functions of two operands, of which one is an expression."""
from ...ir.tir.intrin import floordiv, floormod  # noqa: F401
from ...ir.expr import as_expr, cast as _cast


def add(lhs, rhs, span=None):
    """lhs + rhs"""
    return as_expr(lhs) + rhs


def subtract(lhs, rhs, span=None):
    """lhs - rhs"""
    return as_expr(lhs) - rhs


def multiply(lhs, rhs, span=None):
    """lhs * rhs"""
    return as_expr(lhs) * rhs


def divide(lhs, rhs, span=None):
    """lhs / rhs of floats"""
    return as_expr(lhs) / rhs


def cast(src, dtype, span=None):
    """src converted to a dtype"""
    return _cast(src, dtype)


__all__ = ["add", "cast", "divide", "floordiv", "floormod", "multiply", "subtract"]
