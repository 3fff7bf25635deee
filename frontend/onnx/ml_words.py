"""Text between operators, as the numbers of the words that it may be: labels that are encoded again, categories."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir.relax.expr import RelaxExpr


@dataclass(frozen=True)
class Words:
    """A tensor of text. codes: int64, for each element its place in `words`."""

    codes: RelaxExpr
    words: tuple

    way_out = "drop the output (the scores of a classifier tell the class), or train with numbers as labels"

    def __str__(self):
        shown = ", ".join(map(repr, self.words[:3]))
        return f"text ({shown}{' ...' if len(self.words) > 3 else ''})"


def words_of(node, index=0):
    """Input `index`, which must be Words."""
    value = node.input(index)
    if not isinstance(value, Words):
        raise node.error("it takes text, and its input is a tensor of numbers")
    return value


def by_word(node, words, table, other):
    """For each element the number beside its word, or `other`. table: {word: number}; other: an array [1]."""
    values = np.array([table.get(w, other[0]) for w in words.words], other.dtype)
    return node.call("take", node.const(values, values.dtype), words.codes, axis=0)
