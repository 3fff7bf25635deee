"""Printed script: both IRs in Python syntax, in the spelling of TVM's classic script."""
from __future__ import annotations

import re

from ..expr import Range
from ..module import GlobalVar, IRModule
from ..node import save_json
from ..relax import expr as relax
from ..tir.function import PrimFunc
from ..tir.stmt import Stmt
from ..upper import provides, upper
from . import highlight  # noqa: F401  (provides what shows a script)
from .expr_printer import MALFORMED, ExprPrinter, quote
from .names import identifier
from .relax_printer import OMITTED, RelaxPrinter
from .style import PLAIN, renamed, settle, style_of
from .tir_printer import TIRPrinter, expr_to_str

# The names that a text uses, as comments: TVM's line, which texts of both begin with. Reading gives them their meaning.
_IMPORTS = {"I": "# from tvm.script import ir as I\n", "T": "# from tvm.script import tir as T\n",
            "R": "# from tvm.script import relax as R\n"}


# Options of TVM's printer that change nothing here
_WITHOUT_EFFECT = frozenset("""verbose_expr int_dtype float_dtype buffer_dtype extra_config binding_names""".split())
_MARKS = ("syntax_sugar", "obj_to_underline", "path_to_underline", "obj_to_annotate", "path_to_annotate")


@provides("script")
def script(node, show_meta=False, **options):
    """The text of a module, function, statement or expression of either IR. Never fails on a partial tree.

    show_meta: of a module or graph function, write the constants too, so that the text alone can be read back. name:
    what the module or function is called. print_line_numbers: a number before each line, for reading. ir_prefix and
    its like: what stands for I, T, R and cls. syntax_sugar=False: each loop, iterator, parameter and root block by
    itself. obj_to_underline, [node], and path_to_underline, [ObjectPath]: carets below; num_context_lines: only so
    many lines around these. obj_to_annotate and path_to_annotate, {node or path: text}: comments. TVM's other options
    are taken and have no effect.
    """
    return _styled(lambda style: _full_script(node, show_meta, style), node, **options)


def _styled(text_of, node, *, name=None, indent_spaces=4, print_line_numbers=False, num_context_lines=None,
            ir_prefix="I", tir_prefix="T", relax_prefix="R", module_alias="cls", show_all_struct_info=True,
            show_object_address=False, **options):
    """text_of(style), as options of `script` ask for it."""
    style = style_of(node, **{key: options.pop(key) for key in _MARKS if key in options},
                     alias=module_alias or "", infos=show_all_struct_info, addresses=show_object_address,
                     taken=tuple(filter(None, (ir_prefix, tir_prefix, relax_prefix, module_alias))),
                     module=identifier(name) if name is not None and isinstance(node, IRModule) else "Module")
    if set(options) - _WITHOUT_EFFECT:
        raise TypeError(f"script: unknown option {', '.join(sorted(set(options) - _WITHOUT_EFFECT))}")
    text = text_of(style)
    if name is not None:
        text = re.sub(r"^(\W?)(class|def) \w+", rf"\1\2 {identifier(name)}", text, count=1, flags=re.MULTILINE)
    if indent_spaces != 4:
        text = re.sub(r"^(    )+", lambda m: " " * (len(m[0]) // 4 * indent_spaces), text, flags=re.MULTILINE)
    text = renamed(text, I=ir_prefix, T=tir_prefix, R=relax_prefix)
    return settle(text, num_context_lines, print_line_numbers) if style.marks or print_line_numbers else text


def _full_script(node, show_meta, style=PLAIN):
    try:
        return _with_meta(_script(node, style), node) if show_meta else _script(node, style)
    except MALFORMED:
        return ExprPrinter().malformed(node)


def _script(node, style):
    relaxed, tensor = _styled_printer(RelaxPrinter, style), _styled_printer(TIRPrinter, style)
    if isinstance(node, IRModule):
        return _with_header("ITR", relaxed.module(node))
    if isinstance(node, PrimFunc):
        return _with_header("IT", tensor.function(node))
    if isinstance(node, relax.Function):
        return _with_header("ITR", relaxed.function_text(node))
    if isinstance(node, Stmt):
        return tensor.statement(node)
    if isinstance(node, Range):
        return tensor.expr(node).replace("T.", "I.", 1)
    if _is_of_graph(node):
        return relaxed.node_text(node)
    return tensor.expr(node)


def _styled_printer(kind, style):
    """A printer of a kind, which gives nothing a name that the style gives."""
    printer = kind()
    printer.style, printer.names.addresses = style, style.addresses
    for name in style.taken:
        printer.names.reserve(name)
    return printer


def _is_of_graph(node):
    return isinstance(node, (GlobalVar, relax.StructInfo)) or type(node).__module__ == relax.__name__


@provides("script_alone")
def script_alone(node, **options):
    """The text of a piece of a graph, or of TensorIR, below the declarations of what it uses and does not define."""
    if not _is_of_graph(node):
        return _piece(node, **{key: value for key, value in options.items() if key not in ("name", "show_meta")})

    def text_of(style):
        printer = _styled_printer(RelaxPrinter, style)
        printer.declares = True
        return printer.node_text(node)
    return _styled(text_of, node, **options)


def _piece(node, **options):
    def text_of(style):
        return _styled_printer(TIRPrinter, style).piece(node)
    return _styled(text_of, node, **options)


@provides("show_alone")
def show_alone(node, style=None, **options):
    """Print it, coloured on a terminal."""
    upper("show")(script_alone(node, **options), style=style)


def metadata(node):
    """The data that a script leaves out: {"relax.expr.Constant": [the constants, by number]}.

    from_source(text, metadata=...) takes it.
    """
    printer = RelaxPrinter()
    if not isinstance(node, PrimFunc):
        printer.module(node) if isinstance(node, IRModule) else printer.function_text(node)
    return {"relax.expr.Constant": printer.constants()}


def _with_meta(text, node):
    """`text` with its constants, as JSON, in front."""
    constants = metadata(node)["relax.expr.Constant"]
    if not constants:
        return text
    saved = quote(save_json(relax.RelaxTuple(tuple(constants))))
    return f"metadata = I.metadata({saved})\n{text.removesuffix(OMITTED).rstrip()}"


def _with_header(namespaces, text):
    """`text` below the lines that name those namespaces that it uses."""
    used = [n for n in namespaces if re.search(rf"\b{n}\.", text)]
    return "".join(_IMPORTS[n] for n in used) + "\n" + text


__all__ = ["script", "metadata", "expr_to_str"]
