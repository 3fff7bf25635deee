"""Numbers in indices by name: of the strides of buffers, which a function declares as constants.

    enum { X_PLANE = 12544, X_ROW = 112 };
    ... x[c * X_PLANE + y * (2 * X_ROW) + X_ROW + 1]

All arithmetic of named numbers stands in parentheses, or binds tighter than what is around: compilers read a constant.
"""
from __future__ import annotations

from ..ir.expr import Add, Cast, IntImm, Mul, Sub
from ..ir.names import ending, unique_name
from .c_types import fits_int, identifier

MOST_NAME = 20  # letters of a buffer's name
MOST_PARTS = 3  # of a number that is a sum of multiples of strides


class Strides:
    """Names of the strides of one function's buffers. table: attrs["strides"] of the function, by buffers' names; names
    are taken in `names`, whether they are used or not."""

    def __init__(self, table, names):
        self.known = {buffer: [(n, _name(buffer, word, names)) for word, n in strides if fits_int(n)]
                      for buffer, strides in table.items()}
        self.used = set()
        self.spelled = {}  # id of an IntImm -> (it, its text, whether that is a sum, a product or "" for a name)

    def declarations(self):
        """The lines that declare the names which texts use, one enumeration for each buffer."""
        for strides in self.known.values():
            used = [f"{name} = {n}" for n, name in strides if name in self.used]
            if used:
                yield f"enum {{ {', '.join(used)} }};"

    def index(self, e, buffers):
        """An index into each of some buffers, or a part of one, with numbers of its own where these have names: those
        of the first, if all have the same strides."""
        tables = [self.known.get(b.name, ()) if b.dtype.lanes == 1 else () for b in buffers]
        strides = tables[0] if len({tuple(n for n, _ in table) for table in tables}) == 1 else ()
        return self._index(e, strides) if strides else e

    def _index(self, e, strides):
        if isinstance(e, IntImm):
            return self._spelled(e, *_sum(e.value, strides))
        if isinstance(e, Add) and isinstance(e.b, IntImm) and e.b.value < 0 and fits_int(e.b.value):
            e = Sub(e.a, IntImm(e.b.dtype, -e.b.value))
        if isinstance(e, (Add, Sub)):
            return e.replace(a=self._index(e.a, strides), b=self._index(e.b, strides))
        if isinstance(e, Mul) and isinstance(e.b, IntImm):
            return e.replace(b=self._spelled(e.b, *_product(e.b.value, strides)))
        if isinstance(e, Cast) and e.value.dtype.is_int:
            return e.replace(value=self._index(e.value, strides))
        return e

    def _spelled(self, number, parts, rest):
        """The number, or a new one that is printed by the names of its parts."""
        if not parts or len(parts) + bool(rest) > MOST_PARTS:
            return number
        new = IntImm(number.dtype, number.value)
        self.used.update(name for _, name in parts)
        texts = [name if times == 1 else f"{times} * {name}" for times, name in parts]
        texts += [str(rest)] if rest else []
        kind = "sum" if len(texts) > 1 else "product" if parts[0][0] > 1 else ""
        self.spelled[id(new)] = new, " + ".join(texts), kind
        return new


def _name(buffer, word, names):
    """A new name, in which a long one of a buffer is its last words."""
    return unique_name(identifier(f"{ending(identifier(buffer), MOST_NAME)}_{word}".upper()), names.taken)


def _product(value, strides):
    """([(times, name)], 0) of the largest stride that divides a number; ([], 0) where none does."""
    return next(([(value // n, name)] for n, name in sorted(strides, reverse=True) if value > 0 and value % n == 0),
                []), 0


def _sum(value, strides):
    """([(times, name)], rest): a number, that is no negative one, in multiples of strides, the largest first."""
    parts = []
    for n, name in sorted(strides, reverse=True) if fits_int(value) else ():
        times, value = divmod(value, n) if value >= n else (0, value)
        parts += [(times, name)] if times else []
    return parts, value
