"""Arrays as the text of C: words of 64 bits, which compilers read several times faster than single numbers, and which
mean the same in every byte order: a macro of ingot.h takes apart those that hold several numbers."""
from __future__ import annotations

from itertools import groupby

import numpy as np

from .blob import Blob

WORD, ROW = 8, 4  # bytes of a word; words of a row


def segments(arrays):
    """Arrays as rows of words, each array from a multiple of 64 bytes on: [{bits of a number, count of words, rows of
    C}], arrays of equal numbers together."""
    parts = []
    for size, alike in groupby(arrays or [np.zeros(0, np.uint8)], key=lambda a: a.itemsize):
        words = np.frombuffer(bytes(Blob(alike, "little")), f"<u{WORD}")
        texts = list(map("0x{:016x}u".format, words.tolist()))
        rows = "\n".join(f"        INGOT_WORDS_{8 * size}({', '.join(texts[i:i + ROW])}),"
                         for i in range(0, len(texts), ROW))
        parts.append({"bits": 8 * size, "count": len(words), "rows": rows})
    return parts
