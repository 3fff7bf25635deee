"""Printed script: both IRs in Python syntax, in the spelling of TVM's classic script."""
from __future__ import annotations

import re

from ..expr import Var
from ..module import GlobalVar, IRModule
from ..node import collect, save_json
from ..relax import expr as relax
from ..tir.function import PrimFunc
from ..tir.stmt import Stmt
from ..upper import provides, upper
from . import highlight  # noqa: F401  (provides what shows a script)
from .expr_printer import MALFORMED, ExprPrinter, quote
from .names import identifier
from .relax_printer import RelaxPrinter
from .tir_printer import TIRPrinter, expr_to_str

HEADER = "from ingot.script import {}\n\n"
_IMPORTS = {"I": "ir as I", "T": "tir as T", "R": "relax as R"}


# Options of TVM's printer that change nothing here
_WITHOUT_EFFECT = frozenset("""verbose_expr num_context_lines syntax_sugar path_to_underline path_to_annotate
obj_to_underline obj_to_annotate int_dtype float_dtype buffer_dtype extra_config binding_names show_object_address
show_all_struct_info""".split())


@provides("script")
def script(node, show_meta=False, *, name=None, indent_spaces=4, print_line_numbers=False, **options):
    """The text of a module, function, statement or expression of either IR. Never fails on a partial tree.

    show_meta: of a module or graph function, write the constants too, so that the text alone can be read back. name:
    what the module or function is called. print_line_numbers: a number before each line, for reading. TVM's other
    options are taken and have no effect.
    """
    if set(options) - _WITHOUT_EFFECT:
        raise TypeError(f"script: unknown option {', '.join(sorted(set(options) - _WITHOUT_EFFECT))}")
    text = _full_script(node, show_meta)
    if name is not None:
        text = re.sub(r"^(class|def) \w+", rf"\1 {identifier(name)}", text, count=1, flags=re.MULTILINE)
    if indent_spaces != 4:
        text = re.sub(r"^(    )+", lambda m: " " * (len(m[0]) // 4 * indent_spaces), text, flags=re.MULTILINE)
    if print_line_numbers:
        lines = text.split("\n")
        text = "\n".join(f"{n:{len(str(len(lines)))}}  {line}" for n, line in enumerate(lines, 1))
    return text


def _full_script(node, show_meta):
    try:
        return _with_meta(_script(node), node) if show_meta else _script(node)
    except MALFORMED:
        return ExprPrinter().malformed(node)


def _script(node):
    if isinstance(node, IRModule):
        return _with_header("ITR", RelaxPrinter().module(node))
    if isinstance(node, PrimFunc):
        return _with_header("IT", TIRPrinter().function(node))
    if isinstance(node, relax.Function):
        return _with_header("ITR", RelaxPrinter().function_text(node))
    if isinstance(node, Stmt):
        return TIRPrinter().statement(node)
    if isinstance(node, (GlobalVar, relax.StructInfo)) or type(node).__module__ == relax.__name__:
        return RelaxPrinter().node_text(node)
    return expr_to_str(node)


@provides("script_alone")
def script_alone(node, **options):
    """The text of a piece of a graph below the declarations of the variables that it uses and does not define."""
    defined = {id(b.var) for b in collect(node, (relax.VarBinding, relax.MatchCast))}
    defined |= {id(p) for f in collect(node, relax.Function) for p in f.params}
    free = [v for v in collect(node, (relax.RelaxVar, relax.DataflowVar)) if id(v) not in defined]
    dims, lines = set(), []

    def declare(part):
        for dim in collect(part, Var):
            if id(dim) not in dims and dim.dtype != "handle":
                dims.add(id(dim))
                lines.append(f"{dim.name} = T.{dim.dtype}()")

    for var in free:
        if var.struct_info is not None:
            declare(var.struct_info)
            lines.append(f"{var.name}: {var.struct_info}")
    if node not in free:
        declare(node)
    return "\n".join([*lines, script(node, **options)])


@provides("show_alone")
def show_alone(node, style=None, **options):
    """Print it, coloured on a terminal."""
    upper("show")(script_alone(node, **options), style=style)


def metadata(node):
    """The data that a script leaves out: {"relax.expr.Constant": [the constants, by number]}.

    from_source(text, metadata=...) takes it.
    """
    printer = RelaxPrinter()
    printer.module(node) if isinstance(node, IRModule) else printer.function_text(node)
    return {"relax.expr.Constant": printer.constants()}


def _with_meta(text, node):
    """`text` with its constants, as JSON, below the imports."""
    constants = metadata(node)["relax.expr.Constant"] if not isinstance(node, PrimFunc) else []
    if not constants:
        return text
    head, _, body = text.partition("\n\n")
    saved = quote(save_json(relax.RelaxTuple(tuple(constants))))
    names = head if re.search(r"\bI\b", head) else head.replace("import ", "import ir as I, ", 1)
    return f"{names}\n\nmetadata = I.metadata({saved})\n\n{body}"


def _with_header(namespaces, text):
    """`text` below the import of those namespaces that it uses."""
    used = [n for n in namespaces if re.search(rf"\b{n}\.", text)]
    return HEADER.format(", ".join(_IMPORTS[n] for n in used)) + text


__all__ = ["script", "metadata", "expr_to_str"]
