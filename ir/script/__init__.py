"""Printed script: both IRs in Python syntax, in the spelling of TVM's classic script."""
from __future__ import annotations

import re

from ..module import GlobalVar, IRModule
from ..tir.function import PrimFunc
from ..tir.stmt import Stmt
from .expr_printer import MALFORMED, ExprPrinter
from .tir_printer import TIRPrinter, expr_to_str

HEADER = "from ingot.script import {}\n\n"
_IMPORTS = {"I": "ir as I", "T": "tir as T", "R": "relax as R"}


def script(node):
    """The text of a module, function, statement or expression of either IR. Never fails on a partial tree."""
    try:
        return _script(node)
    except MALFORMED:
        return ExprPrinter().malformed(node)


def _script(node):
    from ..relax import expr as relax
    from .relax_printer import RelaxPrinter
    if isinstance(node, IRModule):
        return _with_header("ITR", RelaxPrinter().module(node))
    if isinstance(node, PrimFunc):
        return _with_header("T", TIRPrinter().function(node))
    if isinstance(node, relax.Function):
        return _with_header("TR", RelaxPrinter().function_text(node))
    if isinstance(node, Stmt):
        return TIRPrinter().statement(node)
    if isinstance(node, GlobalVar) or type(node).__module__ == relax.__name__:
        return RelaxPrinter().node_text(node)
    return expr_to_str(node)


def _with_header(namespaces, text):
    """`text` below the import of those namespaces that it uses."""
    used = [n for n in namespaces if re.search(rf"\b{n}\.", text)]
    return HEADER.format(", ".join(_IMPORTS[n] for n in used)) + text


__all__ = ["script", "expr_to_str"]
