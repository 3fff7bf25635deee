"""Reading decorated functions and classes, and script text: what @T.prim_func, @I.ir_module and from_source do."""
from __future__ import annotations

import sys
import textwrap

from ..upper import upper
from .errors import Source, told
from .macros import decorator, in_class, surroundings
from .module_parser import ROWS as MODULE_ROWS, ModuleParser
from .relax_names import ROWS as RELAX_ROWS
from .relax_parser import RelaxParser
from .tir_names import ROWS as TIR_ROWS
from .tir_parser import TIRParser


def prim_func(*func, private=False, check_well_formed=True):
    """@T.prim_func: the function as a PrimFunc. Inside an @I.ir_module class the class reads it.

    A name other than main becomes the attribute "global_symbol", unless `private`.
    """
    frame = sys._getframe(1)

    def read(f):
        if in_class(f, frame):
            return f
        source = Source.of(f, frame)
        return TIRParser(source, surroundings(f, frame), True).top(source.parse()[0], private, check_well_formed)
    return decorator(read, func)


def ir_module(*cls, check_well_formed=True):
    """@I.ir_module: the functions of a class as an IRModule."""
    frame = sys._getframe(1)

    def read(c):
        source = Source.of(c, frame)
        parser = ModuleParser(source, surroundings(c, frame), True)
        parser.check_well_formed = check_well_formed
        return parser.class_module(source.parse()[0])
    return decorator(read, cls)


def relax_function(*func, pure=True, private=False, check_well_formed=True):
    """@R.function: the function as a relax Function. Inside an @I.ir_module class the class reads it.

    pure: whether it says that it has no side effects; relax.analysis.well_formed holds it to that.
    """
    frame = sys._getframe(1)

    def read(f):
        if in_class(f, frame):
            return f
        source = Source.of(f, frame)
        parser = RelaxParser(source, surroundings(f, frame), True)
        parser.check_well_formed = check_well_formed
        return parser.top(source.parse()[0], private, pure)
    return decorator(read, func)


def rewriter(cls):
    """@R.rewriter: the functions `pattern` and `replacement` of a class as a rule (transform/pattern_rewrite.py)."""
    frame = sys._getframe(1)
    source = Source.of(cls, frame)
    return upper("rule_of")(ModuleParser(source, surroundings(cls, frame), True).class_module(source.parse()[0]))


def from_source(text, metadata=None, filename="<script>", env=None, extra_vars=None, check_well_formed=True):
    """The IRModule or function that `text` says: what mod.script() printed, or the same written by hand.

    metadata: the constants of a script printed without them: {"relax.expr.Constant": [Constant or array, ...]}, as
    script.metadata(mod) gives; mod.script(show_meta=True) needs none. env or extra_vars: further names, {name: value}.
    check_well_formed: hold prim_funcs to the verifier's rules. The text is read, never run. Raises ScriptError.
    """
    if not isinstance(text, str):
        raise TypeError(f"from_source takes script text, not a {type(text).__name__}")
    parser = ModuleParser(Source(textwrap.dedent(text), filename), {**(env or {}), **(extra_vars or {})})
    parser.check_well_formed = check_well_formed
    with told():
        return parser.document(metadata)


# The decorators read what stands below them with the parsers, which need the other names: so these come last.
RELAX_ROWS["rewriter"] = rewriter
TIR_ROWS["prim_func"], RELAX_ROWS["function"], MODULE_ROWS["ir_module"] = prim_func, relax_function, ir_module

__all__ = ["from_source", "ir_module", "prim_func", "relax_function", "rewriter"]
