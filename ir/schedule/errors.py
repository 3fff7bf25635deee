"""ScheduleError: a refused primitive, said in one line or shown in the program with the place marked."""
from __future__ import annotations

from ..script.tir_printer import TIRPrinter

RENDER_LEVELS = ("detail", "fast", "none")
MARK = "  # <== here"


class ScheduleError(ValueError):
    """A primitive that cannot be applied. Nothing has changed.

    primitive, argument: which one refused which argument; reason: what is wrong; hint: what would make it legal.
    str() renders by level: "detail" the line and the script with the place marked, "fast" the line, "none" the
    primitive's name alone. Rendering happens when asked for, so a search that catches the error does not pay.
    """

    def __init__(self, primitive, argument, reason, hint="", func=None, at=(), level="detail"):
        self.primitive, self.argument, self.reason, self.hint = primitive, argument, reason, hint
        self.func, self.at, self.level = func, tuple(at), level
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
        return f"{self.line}\n{marked_script(self.func, self.at)}"


def marked_script(func, places):
    """The script of a PrimFunc, the first line of each statement of `places` marked."""
    return _MarkingPrinter(places).function(func)


class _MarkingPrinter(TIRPrinter):
    def __init__(self, places):
        super().__init__()
        self._places = {id(p) for p in places}

    def stmt(self, s, last):
        start = len(self.lines)
        super().stmt(s, last)
        nest = self._grid(s) if type(s).__name__ == "For" else (s,)
        if start < len(self.lines) and any(id(n) in self._places for n in nest):
            self.lines[start] += MARK
