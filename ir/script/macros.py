"""Macros (T.macro), and what every decorator of a script does: it reads the source and what that sees around it."""
from __future__ import annotations

import ast
import inspect
import linecache
import sys
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

from .errors import Source, told


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

    def __get__(self, instance, owner=None):
        """A macro of a class of Python's takes the object that it is called on."""
        return self if instance is None else partial(self, instance)

    def signature(self, evaluate):
        """Its parameters, as Python's; evaluate: of a default's syntax tree, its value."""
        a, kinds = self.tree.args, inspect.Parameter
        plain = [*a.posonlyargs, *a.args]
        defaults = [None] * (len(plain) - len(a.defaults)) + a.defaults
        rows = [(x, kinds.POSITIONAL_ONLY if n < len(a.posonlyargs) else kinds.POSITIONAL_OR_KEYWORD, d)
                for n, (x, d) in enumerate(zip(plain, defaults))]
        rows += [(a.vararg, kinds.VAR_POSITIONAL, None)] if a.vararg else []
        rows += [(x, kinds.KEYWORD_ONLY, d) for x, d in zip(a.kwonlyargs, a.kw_defaults)]
        rows += [(a.kwarg, kinds.VAR_KEYWORD, None)] if a.kwarg else []
        return inspect.Signature([kinds(x.arg, kind, default=kinds.empty if d is None else evaluate(d))
                                  for x, kind, d in rows])


@dataclass(frozen=True)
class MacroCall:
    macro: Macro
    args: tuple
    kwargs: dict


READS_CLASS = ("ir_module", "rewriter")  # decorators that read a class as a whole


def in_class(func, frame):
    """Whether a function, decorated in `frame`, stands in the body of a class that is read as a whole: one below
    @I.ir_module or @R.rewriter. In any other class it is a function of its own."""
    outer = func.__qualname__.rpartition(".")[0]
    if not outer or outer.endswith("<locals>"):
        return False
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)[frame.f_code.co_firstlineno - 1:]
    above = list(takewhile(lambda line: not line.lstrip().startswith("class "), lines))
    return not lines or any(word in line for line in above for word in READS_CLASS)


def surroundings(func, frame):
    """The names a decorated function or class sees: globals (its own, where something else calls the decorator), the
    decorating frame's locals, what it closes over."""
    env = {**getattr(func, "__globals__", {}), **frame.f_globals, **frame.f_locals}
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
    def reported(program):
        with told():
            return read(program)
    return reported(given[0]) if given else reported


def macro(*func, hygienic=True):
    """@T.macro and @T.macro(hygienic=False)."""
    frame = sys._getframe(1)
    if func and not inspect.isfunction(func[0]):
        raise ValueError("T.macro takes keywords only, hygienic=True or hygienic=False")

    def read(f):
        source = Source.of(f, frame)
        return Macro(source.parse()[0], source, surroundings(f, frame), hygienic)
    return decorator(read, func)


__all__ = ["Macro", "MacroCall", "decorator", "in_class", "macro", "surroundings"]
