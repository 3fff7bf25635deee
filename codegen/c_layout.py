"""How lines of C, of comments and of prose are broken."""
from __future__ import annotations

import re
import textwrap
from bisect import bisect

INDENT = "    "
WIDTH = 120


def wrapped(line, width=WIDTH):
    """`line` as lines of at most `width` columns where it can be broken: after a comma or before a binary operator,
    the loosest that does not leave the line almost empty. What continues inside parentheses stands deeper than what
    does not."""
    indent, text = len(line) - len(line.lstrip()), line.strip()
    points, lines, start, margin, outside = list(_breaks(text)), [], 0, indent, False
    while len(text) - start + margin > width:
        ends = (start + len(INDENT), start + width - margin)  # beyond the first, up to the second
        fitting = points[slice(*(bisect(points, (end, LAST_RESORT * LAST_RESORT)) for end in ends))]
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
# Beyond all of these: after the name of a called function, within an index, after another bracket.
CALL, INDEX, LAST_RESORT = 500, 1000, 2000
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_BREAK = re.compile(r"[(\[]|[)\]]|,(?= )|(?<= )[-+*/%=<>!&|?:]+(?= )")


def _breaks(line):
    """(position, tightness) of every place where a line may be broken; nesting counts most, so that what is inside
    parentheses is at least len(_TIGHTNESS). The arguments of a call come apart from its name before an index among them
    is broken."""
    depth, brackets = 0, []
    for found in _BREAK.finditer(_STRING.sub(lambda text: "_" * len(text[0]), line)):
        token = found[0]
        if token in "([":
            depth += 1
            brackets.append(token)
            calls = token == "(" and re.match(r"\w", line[found.start() - 1:found.start()])
            yield found.end(), (CALL if calls else LAST_RESORT) + depth
        elif token in ")]":
            depth -= 1
            del brackets[-1:]
        elif token in _TIGHTNESS:
            within = INDEX if "[" in brackets else 0
            place = found.end() if token == "," else found.start()
            yield place, within + depth * len(_TIGHTNESS) + _TIGHTNESS[token]


def with_parameters(head, params):
    """A parameter list over as many lines as it needs."""
    return "\n".join(wrapped(f"{head}{', '.join(params) or 'void'})"))


# ---------------------------------------------------------------- files

_LONG = re.compile(rf"^.{{{WIDTH + 1},}}$", re.MULTILINE)
_TRAILING = re.compile(r"(\s*)(\S.*?)\s*(/\*(?:(?!\*/).)*\*/)")


def folded(text):
    """A file of C with its lines of more than WIDTH columns broken, where they can be."""
    return _LONG.sub(lambda line: "\n".join(_folded(line[0])), text)


def _folded(line):
    """A long line as lines: what comments code stands before it, and macros go on behind backslashes."""
    indent = line[:len(line) - len(line.lstrip())]
    text = line.strip()
    if text.startswith(("/*", "* ")):
        margin = indent + (" * " if text.startswith("/*") else "* ")
        return _filled(text, indent, margin)
    commented = _TRAILING.fullmatch(line)
    if commented:
        _, code, comment = commented.groups()
        return [*_filled(comment, indent, indent + " * "), *folded(indent + code).split("\n")]
    if text.startswith("#"):
        return " \\\n".join(wrapped(line, WIDTH - 2)).split("\n") if text.startswith("#define") else [line]
    return wrapped(line)


def folded_comments(text):
    """A file of assembly with the long lines of its comments broken: a statement ends with its line."""
    return _LONG.sub(lambda line: "\n".join(_folded(line[0])) if line[0].startswith((" *", "/*")) else line[0], text)


def folded_prose(text):
    """Markdown with the long lines of its prose, its C and its commands' comments broken: not of tables."""
    lines, code = [], ""
    for line in text.split("\n"):
        if line.startswith("```"):
            code = "" if code else line
        command, hash_, comment = line.partition(" # ")
        if len(line) <= WIDTH or line.startswith("|") or code not in ("", "```c") and not hash_:
            lines.append(line)
        elif code == "```sh":
            lines += [*_filled(comment, "# ", "# "), command.rstrip()]
        else:
            lines += _folded(line) if code else _filled(line, "", "")
    return "\n".join(lines)


def folded_arguments(text, end=""):
    """A CMakeLists.txt with its long lines broken between arguments; end: of a line that goes on."""
    lines = []
    for line in text.split("\n"):
        whole = _STRING.sub(lambda string: string[0].replace(" ", "\0"), line)
        indent = line[:len(line) - len(line.lstrip())]
        long = len(line) > WIDTH and "\t" not in indent  # not the commands of a rule
        if line.startswith("#"):
            lines += _filled(line, "", "# ")
            continue
        parts = _filled(whole.lstrip(), indent, indent + INDENT, WIDTH - len(end)) if long else [whole]
        lines += (end + "\n").join(parts).replace("\0", " ").split("\n")
    return "\n".join(lines)


def folded_rules(text):
    """A Makefile with its long lines, but for commands, going on behind backslashes."""
    return folded_arguments(text, " \\")


def _filled(text, first, margin, width=WIDTH):
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=margin, break_long_words=False,
                         break_on_hyphens=False)
