"""The text of documents in Python's syntax, with places in it underlined."""
from __future__ import annotations

import math
import re

from ...ir.expr import FloatImm, IntImm
from ...ir.script.expr_printer import number
from ...ir.script.style import CLOSE, OPEN, settle
from . import doc as D
from .doc import OperationKind as K

# Python's precedence, loosest first
LAMBDA, IF_ELSE, OR, AND, NOT, COMPARE, BIT_OR, BIT_XOR, BIT_AND, SHIFT, ADD, MULTIPLY, UNARY, POWER, ATOM = range(15)
OPERATORS = {  # kind -> (text, precedence)
    K.USub: ("-", UNARY), K.Invert: ("~", UNARY), K.Not: ("not ", NOT), K.Add: ("+", ADD), K.Sub: ("-", ADD),
    K.Mult: ("*", MULTIPLY), K.Div: ("/", MULTIPLY), K.FloorDiv: ("//", MULTIPLY), K.Mod: ("%", MULTIPLY),
    K.Pow: ("**", POWER), K.LShift: ("<<", SHIFT), K.RShift: (">>", SHIFT), K.BitAnd: ("&", BIT_AND),
    K.BitOr: ("|", BIT_OR), K.BitXor: ("^", BIT_XOR), K.Lt: ("<", COMPARE), K.LtE: ("<=", COMPARE),
    K.Eq: ("==", COMPARE), K.NotEq: ("!=", COMPARE), K.Gt: (">", COMPARE), K.GtE: (">=", COMPARE),
    K.And: ("and", AND), K.Or: ("or", OR), K.IfThenElse: ("if", IF_ELSE)}
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def to_python_script(doc, indent_spaces=4, print_line_numbers=False, num_context_lines=None, path_to_underline=None):
    """The text of a document. path_to_underline: ObjectPaths; below the documents of each, or of the longest beginning
    of it that any document stands for, are carets. num_context_lines: only so many lines around these."""
    printer = _Printer(indent_spaces, _marked(doc, path_to_underline or ()))
    context = None if num_context_lines is None or num_context_lines < 0 else num_context_lines
    return settle("\n".join(printer.block([doc])).rstrip(), context, print_line_numbers).rstrip()


def _marked(doc, paths):
    """The ids of the documents to underline."""
    found, all_docs = set(), list(_below(doc))
    for path in paths:
        fits = [(len(p.steps), id(d)) for d in all_docs for p in d.source_paths if p.steps == path.steps[:len(p.steps)]]
        longest = max((n for n, _ in fits), default=None)
        found.update(key for n, key in fits if n == longest)
    return found


def _below(doc):
    yield doc
    for value in vars(doc).values():
        for part in value if isinstance(value, list) else (value,):
            if isinstance(part, D.Doc):
                yield from _below(part)


def _precedence(doc):
    if isinstance(doc, D.OperationDoc):
        return OPERATORS[doc.kind][1]
    if isinstance(doc, D.LiteralDoc) and isinstance(doc.value, (IntImm, FloatImm)):
        return UNARY if math.copysign(1, doc.value.value) < 0 else ATOM
    return LAMBDA if isinstance(doc, D.LambdaDoc) else ATOM


class _Printer:
    """Statements are lists of lines, which blocks indent; expressions are texts."""

    def __init__(self, indent, marked):
        self.indent, self.marked = " " * indent, marked

    # ------------------------------------------------------------ statements

    def block(self, docs):
        """The lines of documents below each other."""
        return [line for d in docs for line in self.lines(d)]

    def lines(self, doc):
        """The lines of one document, an expression's, too."""
        if isinstance(doc, (D.ExprDoc, D.SliceDoc)):
            return [self.expr(doc)]
        lines = getattr(self, type(doc).__name__)(doc)
        if id(doc) in self.marked:
            lines = [re.sub(r"^( *)(.*?[^ ].*)$", rf"\1{OPEN}\2{CLOSE}", line) for line in lines]
        return self._commented(doc, lines)

    def suite(self, docs):
        return [self.indent + line if line else line for line in self.block(docs) or ["pass"]]

    def _commented(self, doc, lines):
        comment = getattr(doc, "comment", None)
        if comment is None or isinstance(doc, (D.CommentDoc, D.DocStringDoc, D.FunctionDoc, D.ClassDoc)):
            return lines
        if isinstance(doc, (D.IfDoc, D.WhileDoc, D.ForDoc, D.ScopeDoc)):
            return [*(f"# {text}" for text in comment.split("\n")), *lines]
        if "\n" in comment:
            raise ValueError(f"the comment of a {type(doc).__name__} cannot have newlines: it stands behind the line")
        return [f"{lines[0]}  # {comment}"]

    def StmtBlockDoc(self, doc):
        return self.block(doc.stmts)

    def ExprStmtDoc(self, doc):
        return [self.expr(doc.expr)]

    def AssignDoc(self, doc):
        return [self._assigned(doc)]

    def _assigned(self, doc):
        left = self.joined(doc.lhs.elements) if isinstance(doc.lhs, D.TupleDoc) else self.expr(doc.lhs)
        text = left if doc.annotation is None else f"{left}: {self.expr(doc.annotation)}"
        if doc.rhs is None:
            return text
        bare = isinstance(doc.rhs, D.TupleDoc) and len(doc.rhs.elements) > 1
        return f"{text} = {self.joined(doc.rhs.elements) if bare else self.expr(doc.rhs)}"

    def IfDoc(self, doc):
        rest = ["else:", *self.suite(doc.else_branch)] if doc.else_branch else []
        return [f"if {self.expr(doc.predicate)}:", *self.suite(doc.then_branch), *rest]

    def WhileDoc(self, doc):
        return [f"while {self.expr(doc.predicate)}:", *self.suite(doc.body)]

    def ForDoc(self, doc):
        names = self.expr(doc.lhs)
        if isinstance(doc.lhs, D.TupleDoc):
            names = self.joined(doc.lhs.elements) + ("," if len(doc.lhs.elements) == 1 else "")
        return [f"for {names} in {self.expr(doc.rhs)}:", *self.suite(doc.body)]

    def ScopeDoc(self, doc):
        name = "" if doc.lhs is None else f" as {self.expr(doc.lhs)}"
        return [f"with {self.expr(doc.rhs)}{name}:", *self.suite(doc.body)]

    def AssertDoc(self, doc):
        return [f"assert {self.expr(doc.test)}" + ("" if doc.msg is None else f", {self.expr(doc.msg)}")]

    def ReturnDoc(self, doc):
        return [f"return {self.expr(doc.value)}"]

    def FunctionDoc(self, doc):
        if any(a.comment is not None for a in doc.args):
            raise ValueError("a parameter has no comment")
        returns = "" if doc.return_type is None else f" -> {self.expr(doc.return_type)}"
        args = ", ".join(self.lines(a)[0] for a in doc.args)
        return [*(f"@{self.expr(d)}" for d in doc.decorators), f"def {self.expr(doc.name)}({args}){returns}:",
                *self._described(doc), *self.suite(doc.body), ""]

    def ClassDoc(self, doc):
        return [*(f"@{self.expr(d)}" for d in doc.decorators), f"class {self.expr(doc.name)}:", *self._described(doc),
                *self.suite(doc.body)]

    def _described(self, doc):
        return [] if doc.comment is None else [self.indent + line if line else line for line in _docstring(doc.comment)]

    def CommentDoc(self, doc):
        return [f"# {line}" for line in doc.comment.split("\n")] if doc.comment else [""]

    def DocStringDoc(self, doc):
        return _docstring(doc.comment) if doc.comment else [""]

    # ------------------------------------------------------------ expressions

    def expr(self, doc, tightness=LAMBDA):
        """The text of an expression, in parentheses where it binds looser than asked."""
        text = getattr(self, type(doc).__name__)(doc)
        text = f"({text})" if _precedence(doc) < tightness else text
        return f"{OPEN}{text}{CLOSE}" if id(doc) in self.marked else text

    def joined(self, docs):
        return ", ".join(map(self.expr, docs))

    def LiteralDoc(self, doc):
        value = doc.value
        if value is None:
            return "None"
        if isinstance(value, str):
            return '"' + "".join(_ESCAPES.get(c, c) for c in value) + '"'
        if isinstance(value, IntImm):
            return str(bool(value.value)) if value.dtype == "bool" else str(value.value)
        return number(value.value) if math.isfinite(value.value) else f'"{value.value}"'

    def IdDoc(self, doc):
        return doc.name

    def AttrAccessDoc(self, doc):
        return f"{self.expr(doc.value, ATOM)}.{doc.name}"

    def IndexDoc(self, doc):
        return f"{self.expr(doc.value, ATOM)}[{self.joined(doc.indices) or '()'}]"

    def CallDoc(self, doc):
        named = [f"{key}={self.expr(value)}" for key, value in zip(doc.kwargs_keys, doc.kwargs_values)]
        return f"{self.expr(doc.callee, ATOM)}({', '.join([*map(self.expr, doc.args), *named])})"

    def OperationDoc(self, doc):
        text, precedence = OPERATORS[doc.kind]
        a, *rest = doc.operands
        if len(doc.operands) != (1 if doc.kind in (K.USub, K.Invert, K.Not) else 3 if doc.kind == K.IfThenElse else 2):
            raise ValueError(f"OperationDoc: {len(doc.operands)} operands of {doc.kind.name}")
        if not rest:
            return text + self.expr(a, precedence)
        if doc.kind == K.IfThenElse:
            then, other = rest
            return (f"{self.expr(then, precedence)} if {self.expr(a, precedence + 1)} else "
                    f"{self.expr(other, precedence + 1)}")
        if doc.kind == K.Pow:  # of the right, and looser than a sign on its right
            return f"{self.expr(a, precedence + 1)} ** {self.expr(rest[0], UNARY)}"
        chains = precedence == COMPARE  # Python reads a < b < c as a < b and b < c
        return f"{self.expr(a, precedence + chains)} {text} {self.expr(rest[0], precedence + 1)}"

    def LambdaDoc(self, doc):
        return f"lambda {self.joined(doc.args)}: {self.expr(doc.body, LAMBDA)}"

    def TupleDoc(self, doc):
        return f"({self.joined(doc.elements)}{',' if len(doc.elements) == 1 else ''})"

    def ListDoc(self, doc):
        return f"[{self.joined(doc.elements)}]"

    def DictDoc(self, doc):
        return "{" + ", ".join(f"{self.expr(k)}: {self.expr(v)}" for k, v in zip(doc.keys, doc.values)) + "}"

    def SliceDoc(self, doc):
        ends = [("" if e is None else self.expr(e)) for e in (doc.start, doc.stop)]
        return ":".join(ends if doc.step is None else [*ends, self.expr(doc.step)])


def _docstring(comment):
    return ['"""', *comment.split("\n"), '"""']


__all__ = ["to_python_script"]
