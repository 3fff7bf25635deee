"""Macros (T.macro), and what every decorator of a script does: it reads the source and what that sees around it."""
from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import dataclass

from .errors import Source


@dataclass(frozen=True)
class Macro:
    """Statements to be put where the macro is called, its parameters bound to the arguments (T.macro).

    hygienic: other names mean what they mean where the macro is written, else where it is called.
    """

    tree: ast.FunctionDef
    source: Source
    env: dict
    hygienic: bool = True

    def __call__(self, *args, **kwargs):
        return MacroCall(self, args, kwargs)


@dataclass(frozen=True)
class MacroCall:
    macro: Macro
    args: tuple
    kwargs: dict


def in_class(func):
    """Whether a function stands in the body of a class, which then reads it as a whole."""
    outer = func.__qualname__.rpartition(".")[0]
    return bool(outer) and not outer.endswith("<locals>")


def surroundings(func, frame):
    """The names a decorated function or class sees: globals, the decorating frame's locals, what it closes over."""
    env = {**frame.f_globals, **frame.f_locals}
    if inspect.isfunction(func):
        cells = zip(func.__code__.co_freevars, func.__closure__ or ())
        env.update((name, cell.cell_contents) for name, cell in cells if _filled(cell))
    return env


def _filled(cell):
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def decorator(read, given):
    """`read` as a decorator; given: what the decorator was called with, () when it had arguments of its own."""
    return read(given[0]) if given else read


def macro(*func, hygienic=True):
    """@T.macro and @T.macro(hygienic=False)."""
    frame = sys._getframe(1)

    def read(f):
        source = Source.of(f, frame)
        return Macro(source.parse()[0], source, surroundings(f, frame), hygienic)
    return decorator(read, func)


__all__ = ["Macro", "MacroCall", "decorator", "in_class", "macro", "surroundings"]
