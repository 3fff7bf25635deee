"""Names that are not taken yet."""
from __future__ import annotations


def unique_name(hint, taken, separator="_"):
    """`hint`, or hint_1, hint_2 ... when it is in the set `taken`; the result is added to `taken`."""
    name, n = hint, 0
    while name in taken:
        n += 1
        name = f"{hint}{separator}{n}"
    taken.add(name)
    return name
