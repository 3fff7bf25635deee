"""Errors of the script parser: where in the source, the line with a caret, and what was expected."""
from __future__ import annotations

import ast
import inspect


class ScriptError(ValueError):
    """A script that cannot be read. filename, line (from 1), column (from 1), text (the source line) and message."""

    def __init__(self, message, filename="<script>", line=0, column=0, text=""):
        self.message, self.filename, self.line, self.column, self.text = message, filename, line, column, text
        shown = f"\n    {text.strip()}\n    {' ' * (column - 1 - len(text) + len(text.lstrip()))}^" if text else ""
        super().__init__(f"{filename}:{line}:{column}: {message}{shown}")


class Source:
    """Script text and where it came from.

    first_line: the number of its first line in the file. Text that is indented, as that of a decorated function inside
    another is, is parsed as it stands, so that columns stay those of the file.
    """

    def __init__(self, text, filename="<script>", first_line=1):
        self.lines = text.split("\n")
        self.filename = filename
        self._before = first_line - 1  # added to line numbers of the tree
        self._skipped = 0              # lines put in front of the text for Python's parser
        if text[:1] in (" ", "\t"):
            text, self._skipped = "if True:\n" + text, 1
        self._text = text

    @staticmethod
    def of(obj):
        """The source of a decorated class or function; ScriptError when Python does not have it."""
        try:
            lines, first = inspect.getsourcelines(obj)
            return Source("".join(lines), inspect.getsourcefile(obj) or "<script>", max(first, 1))
        except (OSError, TypeError) as error:
            raise ScriptError(f"the source of {getattr(obj, '__name__', obj)!r} is not known to Python ({error}); "
                              "put it in a file, or give its text to ingot.script.from_source") from error

    def parse(self):
        """The statements of the text (ast nodes); syntax errors become ScriptErrors."""
        try:
            tree = ast.parse(self._text, self.filename)
        except SyntaxError as error:
            raise self._error(error.msg, error.lineno or 1, error.offset or 1) from error
        return tree.body[0].body if self._skipped else tree.body

    def error(self, node, message):
        """The ScriptError that points at an ast node."""
        line = self.lines[node.lineno - 1 - self._skipped]
        column = len(line.encode()[:node.col_offset].decode(errors="replace")) + 1
        return self._error(message, node.lineno, column)

    def _error(self, message, line, column):
        index = line - 1 - self._skipped
        text = self.lines[index] if 0 <= index < len(self.lines) else ""
        return ScriptError(message, self.filename, index + 1 + self._before, column, text)


__all__ = ["ScriptError", "Source"]
