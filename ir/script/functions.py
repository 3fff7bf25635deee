"""Reading decorated functions and classes, and script text: what @T.prim_func, @I.ir_module and from_source do."""
from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from dataclasses import dataclass

from .errors import ScriptError, Source


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


def _decorator(read, given):
    """`read` as a decorator; given: what the decorator was called with, () when it had arguments of its own."""
    return read(given[0]) if given else read


def prim_func(*func, private=False, check_well_formed=True):
    """@T.prim_func: the function as a PrimFunc. Inside an @I.ir_module class the class reads it.

    A name other than main becomes the attribute "global_symbol", unless `private`.
    """
    from .tir_parser import TIRParser
    frame = sys._getframe(1)

    def read(f):
        if in_class(f):
            return f
        source = Source.of(f, frame)
        return TIRParser(source, surroundings(f, frame), True).top(source.parse()[0], private, check_well_formed)
    return _decorator(read, func)


def macro(*func, hygienic=True):
    """@T.macro and @T.macro(hygienic=False)."""
    frame = sys._getframe(1)

    def read(f):
        source = Source.of(f, frame)
        return Macro(source.parse()[0], source, surroundings(f, frame), hygienic)
    return _decorator(read, func)


def ir_module(*cls, check_well_formed=True):
    """@I.ir_module: the functions of a class as an IRModule."""
    from .module_parser import ModuleParser
    frame = sys._getframe(1)

    def read(c):
        source = Source.of(c, frame)
        parser = ModuleParser(source, surroundings(c, frame), True)
        parser.check_well_formed = check_well_formed
        return parser.class_module(source.parse()[0])
    return _decorator(read, cls)


def relax_function(*func, pure=True, private=False):
    """@R.function: the function as a relax Function. Inside an @I.ir_module class the class reads it."""
    from .relax_parser import RelaxParser
    frame = sys._getframe(1)

    def read(f):
        if in_class(f):
            return f
        source = Source.of(f, frame)
        return RelaxParser(source, surroundings(f, frame), True).top(source.parse()[0], private)
    return _decorator(read, func)


def from_source(text, metadata=None, filename="<script>", env=None, extra_vars=None, check_well_formed=True):
    """The IRModule or function that `text` says: what mod.script() printed, or the same written by hand.

    metadata: the constants of a script printed without them: {"relax.expr.Constant": [Constant or array, ...]}, as
    script.metadata(mod) gives; mod.script(show_meta=True) needs none. env or extra_vars: further names, {name: value}.
    check_well_formed: hold prim_funcs to the verifier's rules. The text is read, never run. Raises ScriptError.
    """
    from .module_parser import ModuleParser
    if not isinstance(text, str):
        raise TypeError(f"from_source takes script text, not a {type(text).__name__}")
    parser = ModuleParser(Source(textwrap.dedent(text), filename), {**(env or {}), **(extra_vars or {})})
    parser.check_well_formed = check_well_formed
    return parser.document(metadata)


__all__ = ["Macro", "MacroCall", "ScriptError", "from_source", "ir_module", "macro", "prim_func", "relax_function"]
