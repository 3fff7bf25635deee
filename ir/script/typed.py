"""Text that is in no file: what `exec` ran, `python -c` was given, or a person typed at a prompt.

Python keeps no source of such code, but often the text itself is still there: a variable or a constant of the program
that executed it, a console's variable, what the process was given, the lines of the prompt's history. A text counts
only when it compiles to the very code that runs, so none is taken for another. It is compiled to compare, never run.
"""
from __future__ import annotations

import __future__

import os
import sys
from types import CodeType

_FUTURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
_MOST = 1 << 20  # bytes of a program on standard input
_HISTORY = 200  # lines of a prompt's history in which a statement of it is looked for


def typed_lines(name, frame, codes):
    """The lines of the text, in which `name` is written, that one of `codes` was compiled from; None where it is lost.

    frame: where the program runs, whose variables and those of its callers are looked into.
    """
    for text in dict.fromkeys((*_held(frame), *_given(), *_history())):
        if name in text and any(_is_of(text, code) for code in codes):
            return text.splitlines(True)
    return None


def _held(frame):
    """Texts that running code holds, those of the nearest caller first."""
    while frame is not None:
        for value in (*frame.f_locals.values(), *frame.f_globals.values(), *frame.f_code.co_consts):
            if type(value) is str and "\n" in value:
                yield value + "\n" * (not value.endswith("\n"))
        frame = frame.f_back


def _given():
    """The program of `python -c`, and that of `python - < file`."""
    words = sys.orig_argv
    if "-c" in words[:-1]:
        yield words[words.index("-c") + 1] + "\n"
    try:
        yield os.pread(0, _MOST, 0).decode()  # leaves the place up to which it is read
    except (OSError, ValueError, AttributeError):  # a terminal or a pipe; a system that cannot
        pass


def _history():
    """The last statement at a prompt, which one of its last lines begins."""
    readline = sys.modules.get("readline")
    count = readline.get_current_history_length() if readline else 0
    lines = [readline.get_history_item(n) or "" for n in range(max(1, count - _HISTORY), count + 1)]
    return ["\n".join(lines[n:]) + "\n" for n in reversed(range(len(lines))) if lines[n][:1] not in ("", " ", "\t")]


def _is_of(text, code):
    """Whether `text` compiles to `code`, or to something that has it inside."""
    for mode in ("exec", "single"):
        try:
            made = compile(text, code.co_filename, mode, code.co_flags & _FUTURES, dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        if _has(made, code):
            return True
    return False


def _has(made, code):
    if made == code and list(made.co_lines()) == list(code.co_lines()):
        return True
    return any(_has(inner, code) for inner in made.co_consts if isinstance(inner, CodeType))


__all__ = ["typed_lines"]
