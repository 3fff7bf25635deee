"""Colours for script on a terminal."""
from __future__ import annotations

import os
import re
import sys

from ..upper import provides

# What stands out, in the order it is looked for, and its ANSI colour.
COLOURS = {"comment": "90", "string": "32", "decorator": "35", "keyword": "34", "name": "36",
           "number": "33"}
_PATTERN = re.compile(r"""(?P<comment>\#.*)
    | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    | (?P<decorator>@[\w.]+)
    | (?P<keyword>\b(?:from|import|as|class|def|for|in|while|if|elif|else|with|return|assert|pass|and|or|not)\b)
    | (?P<name>\b[TRI]\.[\w.]+)
    | (?P<number>(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?\b)""", re.VERBOSE)


def highlight(text):
    """`text` with ANSI colours."""
    return _PATTERN.sub(lambda m: f"\033[{COLOURS[m.lastgroup]}m{m[0]}\033[0m", text)


@provides("show")
def show(text, file=None, style=None):
    """Print `text`, coloured where `file` (default: standard output) is a terminal and NO_COLOR is not set.

    style: "none" for no colours; TVM's other styles are taken for the one there is.
    """
    file = sys.stdout if file is None else file
    coloured = style != "none" and file.isatty() and "NO_COLOR" not in os.environ
    print(highlight(text) if coloured else text, file=file)


def cprint(printable, style=None, black_format=None):
    """Print a module, function or part of one, or a text of such, coloured on a terminal."""
    show(printable if isinstance(printable, str) else printable.script(), style=style)


__all__ = ["cprint", "highlight", "show"]
