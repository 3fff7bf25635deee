"""relax.utils.args_converter: decorators of functions that take graph expressions, which convert what they are given."""
from __future__ import annotations

import functools
import inspect
import typing

from ...ir.relax.expr import RelaxExpr
from .expr import Expr
from .utils import convert_to_expr

EXPRESSIONS = (Expr, RelaxExpr)  # as parameters are annotated that take graph expressions


def _list(value):
    """A list of expressions. TypeError for what is no list or tuple."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"a list of graph expressions is wanted, not {type(value).__name__}: {value}")
    return list(map(convert_to_expr, value))


def _decorator(func, ways):
    """`func` called with arguments converted by ways, {parameter: f}; None stays."""
    signature = inspect.signature(func)

    @functools.wraps(func)
    def converted(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        for name, convert in ways.items():
            if name not in bound.arguments:
                continue
            given, kind = bound.arguments[name], signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                given = tuple(v if v is None else convert(v) for v in given)
            elif kind is inspect.Parameter.VAR_KEYWORD:
                given = {k: v if v is None else convert(v) for k, v in given.items()}
            elif given is not None:
                given = convert(given)
            bound.arguments[name] = given
        return func(*bound.args, **bound.kwargs)
    return converted


def _named(names, convert):
    def decorator(func):
        unknown = [n for n in names if n not in inspect.signature(func).parameters]
        if unknown:
            raise ValueError(f"{func.__name__} has no parameter {', '.join(unknown)}")
        return _decorator(func, dict.fromkeys(names, convert))
    return decorator


def to_expr(*arg_names):
    """A decorator: the arguments of these parameters become graph expressions."""
    return _named(arg_names, convert_to_expr)


def to_list_expr(*arg_names):
    """A decorator: the arguments of these parameters become lists of graph expressions."""
    return _named(arg_names, _list)


def _way(annotation):
    """How arguments of a parameter are converted: Expr, List[Expr], either in an Optional; None for others."""
    if typing.get_origin(annotation) is typing.Union:
        rest = [a for a in typing.get_args(annotation) if a is not type(None)]
        annotation = rest[0] if len(rest) == 1 else None
    if annotation in EXPRESSIONS:
        return convert_to_expr
    if typing.get_origin(annotation) is list and typing.get_args(annotation)[0] in EXPRESSIONS:
        return _list
    return None


def auto(func):
    """The function with arguments converted as its annotations say."""
    ways = {name: _way(annotation) for name, annotation in typing.get_type_hints(func).items() if name != "return"}
    return _decorator(func, {name: way for name, way in ways.items() if way})


__all__ = ["auto", "to_expr", "to_list_expr"]
