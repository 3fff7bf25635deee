"""VerifyHints: no hint is left that a pass should have consumed."""
from __future__ import annotations

from ..tir.hints import HINTS, PRINTER, READER
from ..tir.stmt import AttrStmt, Block, For
from .walk import all_statements


def verify_hints(func, left_out=()):
    """Raises ValueError where a loop, block or attribute still has a hint for a pass: none has seen it, or it did not
    take it away. left_out: names of passes that did not run."""
    for stmt in all_statements(func.body):
        for key in (stmt.attr_key,) if isinstance(stmt, AttrStmt) else getattr(stmt, "annotations", ()):
            hint = HINTS.get(key)
            if hint is not None and not {PRINTER, READER, *left_out} & {*hint.consumed_by}:
                name, consumers = func.attrs.get("global_symbol", "a function"), " or ".join(hint.consumed_by)
                raise ValueError(f"{_place(stmt)} of {name} still has the hint {key!r}, which {consumers} should "
                                 "have consumed")
    return func


def _place(stmt):
    return (f"loop {stmt.loop_var.name}" if isinstance(stmt, For) else
            f"block {stmt.name_hint}" if isinstance(stmt, Block) else "an attribute")
