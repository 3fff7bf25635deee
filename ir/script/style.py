"""How a script is printed, beside what it says: places in it underlined or annotated, longer or shorter forms, prefixes.

A printer puts characters that no script has around the text of what is marked; `settle` makes lines of carets and
comments of them when the text is complete, since only then it is known where what stands.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, field

OPEN, CLOSE, NOTE = "\ue000", "\ue001", "\ue002"  # around what is underlined; around a note on what stands before it
_MARK = re.compile(f"([{OPEN}{CLOSE}{NOTE}])")
_PREFIXES = re.compile(r'"(?:\\.|[^"\\\n])*"|# from tvm\.script import \w+ as (?P<alias>[ITR])$|#.*|'
                       r'(?<![\w.])(?P<prefix>[ITR])(?=\.)', re.MULTILINE)


@dataclass(frozen=True)
class Style:
    """sugar: whether T.grid, T.axis.remap, buffers as parameters and implied root blocks stand for what is longer.
    underlined: ids of nodes; notes: {id of a node: text}; held: the nodes. alias: by what name functions of the module
    are called in graph functions, "" for that of the module. module: its name. infos: whether variables have annotations
    that their values imply. addresses: whether names end with where their objects are. taken: names of namespaces and
    of the module, which nothing else has."""

    sugar: bool = True
    underlined: frozenset = frozenset()
    notes: dict = field(default_factory=dict)
    held: tuple = ()
    alias: str = "cls"
    module: str = "Module"
    infos: bool = True
    addresses: bool = False
    taken: tuple = ()

    @property
    def marks(self):
        return bool(self.underlined or self.notes)

    def noted(self, node):
        """Whether a node has a note, which stands at a line of its own."""
        return id(node) in self.notes

    def expr(self, node, text):
        """The text of an expression with its marks."""
        text = f"{OPEN}{text}{CLOSE}" if id(node) in self.underlined else text
        return f"{text}{NOTE}{self.notes[id(node)]}{NOTE}" if self.noted(node) else text

    def lines(self, node, lines):
        """The lines of a statement or function with its marks: a note stands behind a line, and above several."""
        if id(node) in self.underlined:
            lines = [re.sub(r"^( *)(.+)$", rf"\1{OPEN}\2{CLOSE}", line) for line in lines]
        if self.noted(node) and lines:
            note = self.notes[id(node)]
            indent = re.match(" *", lines[0])[0]
            lines = [f"{lines[0]}{NOTE}{note}{NOTE}"] if len(lines) == 1 else [f"{indent}# {note}", *lines]
        return lines


PLAIN = Style()


def style_of(root, syntax_sugar=True, obj_to_underline=None, path_to_underline=None, obj_to_annotate=None,
             path_to_annotate=None, **more):
    """The Style that options of script(...) ask for; more: its other fields. A path that does not
    lead to a node marks the last on its way."""
    underlined = [*(obj_to_underline or ()), *(_at(root, p) for p in path_to_underline or ())]
    noted = [*(obj_to_annotate or {}).items(), *((_at(root, p), text) for p, text in (path_to_annotate or {}).items())]
    return Style(bool(syntax_sugar), frozenset(map(id, underlined)), {id(n): str(text) for n, text in noted},
                 (*underlined, *(n for n, _ in noted)), **more)


def _at(root, path):
    return path.nodes(root)[-1]


def renamed(text, **prefixes):
    """`text` with other names for I, T and R. Raises ValueError for one that is no name."""
    prefixes = {old: new for old, new in prefixes.items() if new is not None and new != old}
    for new in prefixes.values():
        if not str(new).isidentifier():
            raise ValueError(f"script: the prefix {new!r} is no identifier")

    def other(m):
        if m["alias"]:
            return m[0][:-1] + prefixes.get(m["alias"], m["alias"])
        return prefixes.get(m["prefix"], m["prefix"]) if m["prefix"] else m[0]
    return _PREFIXES.sub(other, text) if prefixes else text


def settle(text, context=None, numbers=False):
    """The lines of a marked text: carets below what is underlined, notes as comments behind their lines.

    context: how many lines to show around those that are underlined; all where None. numbers: a number before each.
    """
    lines, carets = [], {}
    for line in text.split("\n"):
        plain, spans = _unmarked(line)
        if spans:
            carets[len(lines)] = "".join("^" if any(a <= n < b for a, b in spans) else " " for n in range(
                max(b for _, b in spans)))
        lines.append(plain)
    width = len(str(len(lines))) if numbers else 0
    shown = range(len(lines)) if context is None or not carets else _around(carets, context, len(lines))
    out, before = [], -1
    for n in [*shown, len(lines)]:
        if n > before + 1:
            out.append(f"(... {n - before - 1} lines skipped ...)")
        if n < len(lines):
            out.append(f"{n + 1:{width}} {lines[n]}".rstrip() if numbers else lines[n])
        if n in carets:
            out.append((" " * (width + 1) if numbers else "") + carets[n])
        before = n
    return "\n".join(out)


def _around(carets, context, count):
    """The numbers of the lines to show: those around carets, and a single one between others, which needs no words."""
    near = {n for c in carets for n in range(c - context, c + context + 1)}
    return [n for n in range(count) if n in near or (n - 1 in near or n == 0) and (n + 1 in near or n == count - 1)]


def _unmarked(line):
    """(the line without marks, its notes behind it; [(start, end) of what is underlined])."""
    text, starts, spans, notes, in_note = "", [], [], [], False
    for part in _MARK.split(line):
        if part == NOTE:
            in_note = not in_note
        elif part == OPEN:
            starts.append(len(text))
        elif part == CLOSE:
            spans.append((starts.pop(), len(text)))
        elif in_note:
            notes.append(part)
        else:
            text += part
    return text + "".join(f"  # {note}" for note in notes), spans


__all__ = ["PLAIN", "Style", "renamed", "settle", "style_of"]
