"""The source of a function, a class or a text, with where it stands."""
from __future__ import annotations

import ast
import inspect


class Source:
    """source_name: its file; start_line and start_column: where it begins in it; source: its text, without the columns
    before it; full_source: that of the whole file."""

    def __init__(self, program):
        if isinstance(program, str):
            self.source_name, self.start_line, self.start_column = "<str>", 1, 0
            self.source = self.full_source = program
            return
        lines, first = inspect.getsourcelines(program)
        self.source_name, self.start_line = inspect.getsourcefile(program), max(first, 1)
        self.start_column = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
        self.source = "".join(lines)
        if self.start_column:
            self.source = "\n".join(line[self.start_column:].rstrip() for line in lines)
        self.full_source = "".join(inspect.findsource(program)[0])

    def as_ast(self):
        """The syntax tree, an ast.Module."""
        return ast.parse(self.source)


__all__ = ["Source"]
