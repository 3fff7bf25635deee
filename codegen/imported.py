"""C sources that programs import (pragma_import_c, import_llvm), put together in one file."""
from __future__ import annotations

import re

# What ends a part at the top of a file, and what may hold braces that are none.
_TOKEN = re.compile(r"""(?P<skip>//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
                        |(?P<line>^[ \t]*\#(?:\\\n|[^\n])*)|[{};]""", re.DOTALL | re.MULTILINE | re.VERBOSE)
_FUNCTION = re.compile(r"[^{]*\)\s*\{.*\}\s*", re.DOTALL)


def together(sources):
    """The sources, each once; of functions that several define word for word, as two intrinsics do that share one, the
    first definition stays. Sources with conditional lines stay whole."""
    seen, found = set(), []
    for source in dict.fromkeys(s.strip("\n") for s in sources):
        if not re.search(r"^\s*#\s*if", source, re.MULTILINE):
            source = "".join(part for part in _parts(source) if not _repeats(part, seen))
        if source.strip():
            found.append(source)
    return found


def _repeats(part, seen):
    """Whether a part is a function's definition that was seen; it is from now on."""
    words = part.strip()
    if not _FUNCTION.fullmatch(part):
        return False
    known = words in seen
    seen.add(words)
    return known


def _parts(source):
    """The declarations, definitions and lines of the preprocessor at the top of a source, which they make up."""
    begin = depth = 0
    for token in _TOKEN.finditer(source):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if not token["skip"] and depth == 0 and token[0] != "{":
            yield source[begin:token.end()]
            begin = token.end()
    yield source[begin:]


__all__ = ["together"]
