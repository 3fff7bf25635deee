"""Names in printed script: one Python identifier per variable or buffer, unique in its scope and deterministic."""
from __future__ import annotations

import keyword
import re
from contextlib import contextmanager

from ..names import unique_name

RESERVED = frozenset({"I", "T", "R", "cls", "range", "metadata", "_"})


def identifier(hint):
    """`hint` as a Python identifier that is no keyword: "conv1/relu" is "conv1_relu", "in" is "in_"."""
    name = re.sub(r"\W", "_", str(hint)) or "v"
    if not (name[0].isalpha() or name[0] == "_"):
        name = "v" + name if name[0] == "_" else "v_" + name
    return name + "_" if keyword.iskeyword(name) else name


class NameTable:
    """Which object is called what. Objects are looked up by identity; names free up when their scope ends.

    An object that nothing defined gets its name at first use and keeps it to the end: partial trees print too.
    """

    addresses = False  # whether names end with where their objects are in memory

    def __init__(self):
        self._text = {}  # id -> (object, text): holding the object keeps its id from being reused
        self._used = set(RESERVED)
        self._scopes = [[]]  # per scope, the (id, name) pairs that end with it

    @contextmanager
    def scope(self):
        """Names defined inside end with the `with` block."""
        self._scopes.append([])
        try:
            yield
        finally:
            for key, name in self._scopes.pop():
                self._text.pop(key, None)
                self._used.discard(name)

    @property
    def level(self):
        """The number of the current scope."""
        return len(self._scopes) - 1

    def reserve(self, name):
        """Give a name to nothing."""
        self._used.add(name)

    def define(self, obj, hint, level=-1):
        """A new name for `obj` in the current scope, or that of a level: the hint, or hint_1, hint_2 ... when taken."""
        return self._enter(obj, hint, self._scopes[level])

    def bind(self, obj, text):
        """Print `obj` as `text` (such as "A.data") within the current scope; reserves no name."""
        self._text[id(obj)] = (obj, text)
        self._scopes[-1].append((id(obj), None))

    def known(self, obj):
        return id(obj) in self._text

    def get(self, obj, hint):
        """The text of `obj`; a free object is named for the rest of the whole text."""
        found = self._text.get(id(obj))
        return found[1] if found else self._enter(obj, hint, self._scopes[0])

    def _enter(self, obj, hint, scope):
        hint = f"{hint}_{id(obj):#x}" if self.addresses else hint
        name = unique_name(identifier(hint), self._used)
        self._text[id(obj)] = (obj, name)
        scope.append((id(obj), name))
        return name
