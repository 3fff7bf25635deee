"""The script of a function with places in it underlined."""
from __future__ import annotations

from .tir_printer import TIRPrinter

LONG = 50    # lines from which on a program is shown in parts
AROUND = 3   # lines shown around a place in a long program


def marked_script(func, places):
    """The script of a PrimFunc with the statements of `places` underlined: of a loop its variable, of others the first
    line. Of a long program only the lines around them and those that they are nested in."""
    printer = _MarkingPrinter(places)
    lines, marks = printer.function(func).splitlines(), printer.marks
    shown = _shown(lines, sorted(marks)) if len(lines) > LONG else range(len(lines))
    out, last = [], -1
    for number in [*shown, len(lines)]:
        if number > last + 3:  # "..." stands for three lines and more
            out.append(_indent(lines[last + 1]) * " " + "...")
        else:
            out.extend(lines[last + 1:number])
        if number < len(lines):
            out.append(lines[number])
        if number in marks:
            out.append(_underline(marks[number]))
        last = number
    return "\n".join(out)


def _shown(lines, marked):
    """The numbers of the lines to show of a long program: the head, those around marked ones, and what holds these."""
    shown = set(range(AROUND))
    for number in marked:
        shown.update(range(max(number - AROUND, 0), min(number + AROUND + 1, len(lines))))
        depth = _indent(lines[number])
        for above in range(number - 1, -1, -1):
            if _indent(lines[above]) < depth:
                depth = _indent(lines[above])
                shown.add(above)
    return sorted(shown)


def _indent(line):
    return len(line) - len(line.lstrip())


def _underline(spans):
    text = [" "] * max(end for _, end in spans)
    for start, end in spans:
        text[start:end] = "^" * (end - start)
    return "".join(text)


class _MarkingPrinter(TIRPrinter):
    """marks: {line number: [(start, end) of what to underline]}."""

    def __init__(self, places):
        super().__init__()
        self._places = {id(p) for p in places}
        self.marks = {}

    def stmt(self, s, last):
        start = len(self.lines)
        super().stmt(s, last)
        if start == len(self.lines):
            return
        line = self.lines[start]
        if type(s).__name__ != "For":
            if id(s) in self._places:
                self.marks.setdefault(start, []).append((_indent(line), len(line)))
            return
        column = _indent(line) + len("for ")
        for loop, name in zip(self._grid(s), line[column:].split(" in ")[0].split(", ")):
            if id(loop) in self._places:
                self.marks.setdefault(start, []).append((column, column + len(name)))
            column += len(name) + len(", ")
