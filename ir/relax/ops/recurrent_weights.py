"""How the weights of a recurrence's states lie in memory, r of nn.gru_steps and its like, with H states and G gates:

    [D, H, G*H]                       as they come
    [D, J, H, G, w]                   in panels of the w states whose sums a kernel makes at a time, J w = H
    [D, J, H / 4, G, v, 3, lanes]     the same of 24 bits (short_weights.py), w = v lanes
"""
from __future__ import annotations

import numpy as np

from .short_weights import TERMS, WORDS, float_term, float_words, of_float_words

PANELS, SHORT = 5, 7  # dimensions of weights in panels


def pack(r, gates, width, lanes=0):
    """r [D, H, G*H] in panels of so many states; of 24 bits, in vectors of `lanes`, unless these are 0."""
    directions, hidden, _ = r.shape
    panels = r.reshape(directions, hidden, gates, hidden // width, width).transpose(0, 3, 1, 2, 4)
    if not lanes:
        return np.ascontiguousarray(panels)
    words = float_words(panels.reshape(*panels.shape[:3], gates * width), lanes)
    return words.reshape(*words.shape[:3], gates, width // lanes, WORDS, lanes)


def unpack(r):
    """r [D, H, G*H] of any of the forms."""
    if r.ndim == SHORT:
        directions, panels, groups, gates, vectors, words, lanes = r.shape
        whole = of_float_words(r.reshape(directions, panels, groups, gates * vectors, words, lanes))
        r = whole.reshape(directions, panels, groups * TERMS, gates, vectors * lanes)
    if r.ndim == PANELS:
        directions, _, hidden, *_ = r.shape
        r = r.transpose(0, 2, 3, 1, 4).reshape(directions, hidden, -1)
    return r


def expected_shape(shape, directions, hidden, gates):
    """The shape of weights of the form that `shape` has."""
    width = width_of(shape)
    if not width or hidden % width:
        return directions, hidden, gates * hidden
    if len(shape) == PANELS:
        return directions, hidden // width, hidden, gates, width
    return directions, hidden // width, hidden // TERMS, gates, shape[4], WORDS, shape[6]


def width_of(shape):
    """The states of a panel; None where there are no panels."""
    return int(shape[4]) * int(shape[6]) if len(shape) == SHORT else int(shape[4]) if len(shape) == PANELS else None


def weight(r, d, k, gate, j, turned):
    """(the number of a state, its weight for state j of a gate) as expressions, for the k-th term of a sum; r: a
    buffer. turned(k, count): the k-th of so many in the order of the step."""
    width = width_of(r.shape)
    if len(r.shape) == SHORT:
        groups, lanes = int(r.shape[2]), int(r.shape[6])
        group, n = turned(k // TERMS, groups), k % TERMS
        at = d, j // width, group, gate, j % width // lanes
        return group * TERMS + n, float_term(lambda word: r[(*at, word, j % lanes)], n)
    if width:
        state = turned(k, int(r.shape[2]))
        return state, r[d, j // width, state, gate, j % width]
    state = turned(k, int(r.shape[1]))
    return state, r[d, state, j + gate * int(r.shape[1])]
