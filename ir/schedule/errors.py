"""ScheduleError: a refused primitive, said in one line or shown in the program with the place underlined."""
from __future__ import annotations

from ..script.tir_printer import TIRPrinter

RENDER_LEVELS = ("detail", "fast", "none")
LONG = 50    # lines from which on a program is shown in parts
AROUND = 3   # lines shown around a place in a long program


class ScheduleError(ValueError):
    """A primitive that cannot be applied. Nothing has changed.

    primitive, argument: which one refused which argument; reason: what is wrong; hint: what would make it legal; tried:
    whether `func` is not the program that was given but what the primitive would have made of it.
    str() renders by level: "detail" the reason, the hint and the script with the place underlined, "fast" one line,
    "none" the primitive's name alone. Rendering happens when asked for, so a search that catches the error does not
    pay.
    """

    def __init__(self, primitive, argument, reason, hint="", func=None, at=(), level="detail", tried=False):
        self.primitive, self.argument, self.reason, self.hint = primitive, argument, reason, hint
        self.func, self.at, self.level, self.tried = func, tuple(at), level, tried
        super().__init__(self.line)

    @property
    def line(self):
        """The error in one line."""
        where = f"argument {self.argument}: " if self.argument else ""
        return f"{self.primitive}: {where}{self.reason}" + (f"; {self.hint}" if self.hint else "")

    def __str__(self):
        if self.level == "none":
            return f"{self.primitive} cannot be applied (error_render_level is \"none\")"
        if self.level == "fast" or self.func is None:
            return self.line
        title = f"# The program as {self.primitive} would make it:\n" if self.tried else ""
        return f"{self.line}\n{title}{marked_script(self.func, self.at)}"


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
