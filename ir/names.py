"""Names that are not taken yet, and short ones."""
from __future__ import annotations


class Names(set):
    """Names that are taken, to which many are added: `numbers` are those up to which a hint's are taken."""

    def __init__(self, names=()):
        super().__init__(names)
        self.numbers = {}


def unique_name(hint, taken, separator="_"):
    """`hint`, or hint_1, hint_2 ... when it is in the set `taken`; the result is added to `taken`."""
    numbers = getattr(taken, "numbers", {})
    name, n = hint, numbers.get((hint, separator), 0)
    while name in taken:
        n += 1
        name = f"{hint}{separator}{n}"
    taken.add(name)
    numbers[hint, separator] = n
    return name


def ending(text, most):
    """`text`, or of a longer one the last parts, as many as have at most `most` letters together, from one on that
    begins with a letter: of a path what is between slashes, else words between underscores."""
    separator = "/" if "/" in text else "_"
    parts = text.strip(separator).split(separator)
    ends = [end for n in range(len(parts)) if (end := separator.join(parts[n:]))[:1].isalpha()]
    return text if len(text) <= most else next((end for end in ends if len(end) <= most), text)
