"""tvm.ir.diagnostics: what is told of errors of scripts, before they are raised."""
from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ..ir.script.errors import RENDERERS


class DiagnosticLevel(IntEnum):
    """How bad something is, by TVM's numbers."""

    BUG, ERROR, WARNING, NOTE, HELP = 10, 20, 30, 40, 50


@dataclass(frozen=True)
class Span:
    """A place in a source; lines and columns count from 1."""

    source_name: str
    line: int
    end_line: int
    column: int
    end_column: int


@dataclass(frozen=True)
class Diagnostic:
    level: DiagnosticLevel
    span: Span
    message: str


@dataclass(frozen=True)
class DiagnosticContext:
    """What was found in one script."""

    diagnostics: tuple


def override_renderer(render_func):
    """Call render_func(DiagnosticContext) of each script that is refused; of None, nothing any more."""
    def render(error):
        span = Span(error.filename, error.line, error.line, error.column, error.column)
        render_func(DiagnosticContext((Diagnostic(DiagnosticLevel.ERROR, span, error.message),)))
    RENDERERS[:] = [] if render_func is None else [render]


__all__ = ["Diagnostic", "DiagnosticContext", "DiagnosticLevel", "Span", "override_renderer"]
