"""type_checked: a decorator that holds the arguments of calls to a function's annotations."""
from __future__ import annotations

import collections.abc
import functools
import inspect
import types
import typing


def type_checked(func):
    """Decorator: a call whose argument is not of the type that its parameter is annotated with raises a TypeError that
    names it. List, Dict, Tuple, Optional, Union, Callable (of any signature) and classes are known; a list may be a
    tuple. A text that stands for an annotation is looked up where the function was written."""
    signature = inspect.signature(func)
    try:
        wanted = typing.get_type_hints(func)
    except NameError:  # of a name that is defined later, or in a function
        wanted = {n: p.annotation for n, p in signature.parameters.items() if not isinstance(p.annotation, str)}
    wanted = {n: t for n, t in wanted.items() if n in signature.parameters and t is not inspect.Parameter.empty}

    @functools.wraps(func)
    def checked(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, type_ in wanted.items():
            several = signature.parameters[name].kind
            value = bound.arguments[name]
            each = value if several is inspect.Parameter.VAR_POSITIONAL else (
                value.values() if several is inspect.Parameter.VAR_KEYWORD else (value,))
            for one in each:
                _require(one, name, type_, func.__qualname__)
        return func(*args, **kwargs)
    return checked


def _require(value, name, type_, func):
    if not _is(value, type_):
        raise TypeError(f'In "{func}", "{name}" has wrong type. Expected "{_name(type_)}", but gets: "{_shown(value)}"')


def _is(value, type_):
    origin, parts = typing.get_origin(type_), typing.get_args(type_)
    if type_ is typing.Any or isinstance(type_, typing.TypeVar):
        return True
    if type_ is None:
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(_is(value, part) for part in parts)
    if origin is None:
        return callable(value) if type_ is typing.Callable else isinstance(value, type_)
    return _CONTAINERS.get(origin, lambda value, parts: isinstance(value, origin))(value, parts)


def _is_list(value, parts):
    return isinstance(value, (list, tuple)) and all(_is(v, part) for v in value for part in parts)


def _is_dict(value, parts):
    return isinstance(value, dict) and (not parts or all(
        _is(k, parts[0]) and _is(v, parts[1]) for k, v in value.items()))


def _is_tuple(value, parts):
    if not isinstance(value, tuple):
        return False
    if len(parts) == 2 and parts[1] is Ellipsis:
        return all(_is(v, parts[0]) for v in value)
    return len(value) == len(parts) and all(map(_is, value, parts))


_CONTAINERS = {list: _is_list, dict: _is_dict, tuple: _is_tuple,
               collections.abc.Callable: lambda value, parts: callable(value),
               typing.Literal: lambda value, parts: value in parts}


def _name(type_):
    """List[int], as an annotation is written."""
    return type_.__name__ if isinstance(type_, type) and not typing.get_args(type_) else str(type_).replace("typing.", "")


def _shown(value):
    """What a value's annotation could be."""
    if isinstance(value, (list, tuple)):
        inside = ", ".join(dict.fromkeys(map(_shown, value)))
        return f"{'List' if isinstance(value, list) else 'Tuple'}[{inside}]"
    return type(value).__name__


__all__ = ["type_checked"]
