"""Text that is in no file: what `exec` ran, `python -c` was given, or a person typed at a prompt.

Python keeps no source of such code, but often the text itself is still there: a variable or a constant of the program
that executed it, a console's variable, what the process was given, the lines of the prompt's history. A text counts
only when it compiles to the very code that runs, so none is taken for another. That is the code around the program: a
function's own says nothing of its decorators and annotations. It is compiled to compare, never run.
"""
from __future__ import annotations

import __future__

import os
import sys
from types import CodeType

_FUTURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
_MOST = 1 << 20  # bytes of a program on standard input
_HISTORY = 200  # lines of a prompt's history in which a statement of it is looked for


def typed_lines(name, frame, code=None):
    """The lines of the text, in which `name` is written, that defines it in `frame`; None where it is lost.

    code: of a function, which one of the frames from this one on defines. Their variables are looked into for texts.
    """
    around = next((f.f_code for f in _frames(frame) if code is None or any(c is code for c in f.f_code.co_consts)), None)
    for text in dict.fromkeys((*_held(frame), *_given(), *_history())) if around else ():
        if name in text and _is_of(text, around):
            return text.splitlines(True)
    return None


def _frames(frame):
    """The frame and its callers."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _held(frame):
    """Texts that running code holds, those of the nearest caller first."""
    for place in _frames(frame):
        for value in (*place.f_locals.values(), *place.f_globals.values(), *place.f_code.co_consts):
            if type(value) is str and "\n" in value:
                yield value + "\n" * (not value.endswith("\n"))


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
