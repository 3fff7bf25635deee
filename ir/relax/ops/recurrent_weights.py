"""How the weights of a recurrence's states lie in memory, r of nn.gru_steps and its like, with H states and G gates:

    [D, H, G*H]          as they come
    [D, J, H, G, w]      in panels of the w states whose sums a kernel makes at a time, J w = H
"""
from __future__ import annotations

import numpy as np

PANELS = 5  # dimensions of weights in panels


def pack(r, gates, width):
    """r [D, H, G*H] in panels of so many states."""
    directions, hidden, _ = r.shape
    panels = r.reshape(directions, hidden, gates, hidden // width, width).transpose(0, 3, 1, 2, 4)
    return np.ascontiguousarray(panels)


def unpack(r):
    """r [D, H, G*H] of either form."""
    if r.ndim == PANELS:
        directions, _, hidden, *_ = r.shape
        r = r.transpose(0, 2, 3, 1, 4).reshape(directions, hidden, -1)
    return r


def expected_shape(shape, directions, hidden, gates):
    """The shape of weights of the form that `shape` has."""
    width = width_of(shape)
    if not width or hidden % width:
        return directions, hidden, gates * hidden
    return directions, hidden // width, hidden, gates, width


def width_of(shape):
    """The states of a panel; None where there are no panels."""
    return int(shape[4]) if len(shape) == PANELS else None


def weight(r, d, state, gate, j):
    """The weight of a state for state j of a gate as an expression; r: a buffer."""
    width = width_of(r.shape)
    if width:
        return r[d, j // width, state, gate, j % width]
    return r[d, state, j + gate * int(r.shape[1])]
