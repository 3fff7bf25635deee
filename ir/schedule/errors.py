"""ScheduleError: a refused primitive, said in one line or shown in the program with the place underlined."""
from __future__ import annotations

from ..script.marked import marked_script

RENDER_LEVELS = ("detail", "fast", "none")


class ScheduleError(ValueError):
    """A primitive that cannot be applied. Nothing has changed.

    primitive, argument: which one refused which argument; reason: what is wrong; hint: what would make it legal; tried:
    whether `func` is not the program that was given but what the primitive would have made of it.
    str() renders by level: "detail" the reason, the hint and the script with the place underlined, "fast" one line,
    "none" the primitive's name alone. Rendering happens when asked for, so a search that catches the error does not
    pay. args: the message at that level, without the script. brief: what "fast" says instead of the reason and the
    hint, where TVM has other words for it.
    """

    def __init__(self, primitive, argument, reason, hint="", func=None, at=(), level="detail", tried=False, brief=""):
        self.primitive, self.argument, self.reason, self.hint = primitive, argument, reason, hint
        self.func, self.at, self.level, self.tried, self.brief = func, tuple(at), level, tried, brief
        super().__init__(str(self) if level != "detail" else self.line)

    @property
    def line(self):
        """The error in one line."""
        where = f"argument {self.argument}: " if self.argument else ""
        return f"{self.primitive}: {where}{self.reason}" + (f"; {self.hint}" if self.hint else "")

    def __str__(self):
        if self.level == "none":
            return f"{self.primitive} cannot be applied (not rendered): error_render_level is \"none\""
        if self.level == "fast" and self.brief:
            return f"{self.primitive}: {self.brief}"
        if self.level == "fast" or self.func is None:
            return self.line
        title = f"# The program as {self.primitive} would make it:\n" if self.tried else ""
        return f"{self.line}\n{title}{marked_script(self.func, self.at)}"


class HandleError(ScheduleError, IndexError):
    """A handle that the schedule does not know."""


class BufferChoiceError(ScheduleError, AssertionError):
    """A buffer that is not in the signature of the block; scripts for TVM know it as an AssertionError."""
