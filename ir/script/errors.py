"""Errors of the script parser: where in the source, the line with a caret, and what was expected."""
from __future__ import annotations

import ast
import inspect
from contextlib import contextmanager

from ..module import BaseFunc
from .typed import typed_lines

RENDERERS = []  # what is told of the error of a script that is refused, before it is raised


class ScriptError(ValueError):
    """A script that cannot be read. filename, line (from 1), column (from 1), text (the source line) and message."""

    def __init__(self, message, filename="<script>", line=0, column=0, text=""):
        self.message, self.filename, self.line, self.column, self.text = message, filename, line, column, text
        shown = f"\n    {text.strip()}\n    {' ' * (column - 1 - len(text) + len(text.lstrip()))}^" if text else ""
        super().__init__(f"{filename}:{line}:{column}: {message}{shown}")


@contextmanager
def told():
    """Tell RENDERERS what is raised inside."""
    try:
        yield
    except ScriptError as error:
        for render in RENDERERS:
            render(error)
        raise


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
    def of(obj, frame):
        """The source of a function or class that is decorated in `frame`; ScriptError when Python does not have it."""
        try:
            lines, first, filename = (_class_lines if inspect.isclass(obj) else _function_lines)(obj, frame)
            return Source("".join(lines), filename, first)
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


def _function_lines(func, frame):
    """(lines, number of the first, file name) of a function."""
    code = inspect.unwrap(func).__code__
    try:
        lines, first = inspect.getsourcelines(func)
    except OSError:
        lines, first = typed_lines(func.__name__, frame, code), code.co_firstlineno
        if lines is None:
            raise
        lines = inspect.getblock(lines[first - 1:])
    return lines, max(first, 1), inspect.getsourcefile(func) or code.co_filename


def _class_lines(cls, frame):
    """(lines, number of the first, file name) of a class that is decorated in `frame`.

    A class does not know the file it is written in: its module may have none, as in a notebook, or another one, as in
    text that is executed, and may define several classes of that name. Its functions know their file and line, and so
    does the frame.
    """
    own = [f for f in vars(cls).values() if inspect.isfunction(f) and f.__qualname__.startswith(cls.__qualname__ + ".")]
    places = [(f, f.__code__, f.__code__.co_firstlineno) for f in own] + [(frame, frame.f_code, frame.f_lineno)]
    for place, code, line in places:
        try:
            lines = _lines_around(place, cls.__name__, frame)
            node = _class_at(ast.parse("".join(lines)), cls.__name__, line)
        except (OSError, SyntaxError):
            continue
        if node is not None:
            first = min(n.lineno for n in (node, *node.decorator_list))
            return lines[first - 1:node.end_lineno], first, code.co_filename
    if not any(isinstance(f, BaseFunc) for f in vars(cls).values()):
        raise OSError("could not find class definition")
    lines, line = inspect.findsource(cls)  # whose functions were read by themselves
    return inspect.getblock(lines[line:]), line + 1, inspect.getsourcefile(cls)


def _lines_around(place, name, frame):
    """The lines of the text that a function or frame is in, and class `name` with it, which is decorated in `frame`.
    Raises OSError where it is lost."""
    try:
        return inspect.findsource(place)[0]
    except OSError:
        lines = typed_lines(name, frame)
        if lines is None:
            raise
        return lines


def _class_at(tree, name, line):
    """The innermost class `name` in whose text, decorators included, a line lies; None where there is none."""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == name
             and min(m.lineno for m in (n, *n.decorator_list)) <= line <= n.end_lineno]
    return max(found, key=lambda n: n.lineno, default=None)


__all__ = ["RENDERERS", "ScriptError", "Source", "told"]
