"""How lines of C are broken."""
from __future__ import annotations

import re

INDENT = "    "
WIDTH = 120


def wrapped(line, width=WIDTH):
    """`line` as lines of at most `width` columns where it can be broken: after a comma or before a binary operator,
    the loosest that does not leave the line almost empty. What continues inside parentheses stands deeper than what
    does not."""
    indent, text = len(line) - len(line.lstrip()), line.strip()
    points, lines, start, margin, outside = list(_breaks(text)), [], 0, indent, False
    while len(text) - start + margin > width:
        fitting = [p for p in points if start + len(INDENT) < p[0] <= start + width - margin]
        if not fitting:
            break
        filled = [p for p in fitting if p[0] - start > (width - margin) // 6] or fitting
        at, tightness = min(filled, key=lambda p: (p[1], -p[0]))
        lines.append(" " * margin + text[start:at].strip())
        inside = tightness >= len(_TIGHTNESS)
        outside = outside or not inside
        start, margin = at, indent + len(INDENT) * (2 if inside and outside else 1)
    return [*lines, " " * margin + text[start:].strip()]


# How tightly a break point holds its sides together: a comma least.
_TIGHTNESS = {op: n for n, ops in enumerate((
    [","], ["=", "+=", "-=", "*=", "/="], ["?", ":"], ["||"], ["&&"], ["==", "!=", "<", "<=", ">", ">="], ["+", "-"],
    ["*", "/", "%"])) for op in ops}
LAST_RESORT = 1000
_BREAK = re.compile(r"[(\[]|[)\]]|,(?= )|(?<= )[-+*/%=<>!&|?:]+(?= )")


def _breaks(line):
    """(position, tightness) of every place where a line may be broken; nesting counts most, so that what is inside
    parentheses is at least len(_TIGHTNESS)."""
    depth = 0
    for found in _BREAK.finditer(line):
        token = found[0]
        if token in "([":
            depth += 1
            yield found.end(), LAST_RESORT + depth  # where names are long
        elif token in ")]":
            depth -= 1
        elif token == ",":
            yield found.end(), depth * len(_TIGHTNESS)
        elif token in _TIGHTNESS:
            yield found.start(), depth * len(_TIGHTNESS) + _TIGHTNESS[token]


def with_parameters(head, params):
    """A parameter list over as many lines as it needs."""
    return "\n".join(wrapped(f"{head}{', '.join(params) or 'void'})"))
