"""Annotations for the C printer: sources to include, and the signature that callers see."""
from __future__ import annotations

import re

from ..expr import StringImm
from ..tir.hints import IMPORT_C, IMPORT_LLVM
from .walk import StmtMutator, blocks, without


def lift_imports(func):
    """Ensures that no loop, block or attribute says pragma_import_c or pragma_import_llvm: attrs["import_c"] lists the
    sources, each once, in order of appearance; the C of the function comes after them. Raises ValueError where one is
    no text of C."""
    lift = _Lift(func.attrs.get("import_c", ()))
    body = lift.visit(func.body)
    return func if body is func.body else func.replace(body=body).with_attr("import_c", tuple(lift.sources))


def text_of(value):
    """A text in an annotation, which a parsed program has as a StringImm."""
    return value.value if isinstance(value, StringImm) else value


_KEYS = (IMPORT_C, IMPORT_LLVM)
_LLVM = re.compile(r"^(; ModuleID|target triple|define .*@)", re.MULTILINE)  # what LLVM's own texts have


class _Lift(StmtMutator):
    def __init__(self, sources):
        self.sources = dict.fromkeys(sources)

    def visit_For(self, loop):
        return super().visit_For(self._without(loop))

    def visit_Block(self, block):
        return super().visit_Block(self._without(block))

    def _without(self, node):
        for key in _KEYS:
            if key in node.annotations:
                self._add(key, node.annotations[key])
                node = without(node, key)
        return node

    def visit_AttrStmt(self, attr):
        if attr.attr_key not in _KEYS:
            return super().visit_AttrStmt(attr)
        self._add(attr.attr_key, attr.value)
        return self.visit(attr.body)

    def _add(self, key, source):
        text = text_of(source)
        if not isinstance(text, str) or _LLVM.search(text):
            raise ValueError(f"{key} takes the text of a C source, not {text!r:.60}")
        self.sources[str(text)] = None


def make_packed_api(func):
    """Requires shaped buffers. Ensures func.signature, the parameters that callers see, as Buffers and
    scalar Vars, from which the C entry point and its checks are made; and attrs["outputs"], the positions among its
    buffers of those that blocks write, also where a C function does."""
    if func.signature:
        return func
    written = {id(w.buffer) for block in blocks(func.body) for w in block.writes}
    outputs = tuple(n for n, b in enumerate(func.buffers) if id(b) in written)
    return func.replace(signature=tuple(func.buffer_map.get(p, p) for p in func.params)).with_attr("outputs", outputs)
