"""Attention and rotary positions in numpy, one sequence at a time: what caches of keys and values are held to."""
import numpy as np


def rotated(x, positions, theta=1e4):
    """x [tokens, heads, columns] at positions, columns k and k + half a pair."""
    half = x.shape[-1] // 2
    angles = np.outer(positions, theta ** (-np.arange(half) / half))[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], -1)


def after(rows, cols):
    """Which of cols keys each of the last `rows` tokens sees."""
    return np.arange(cols) <= np.arange(cols - rows, cols)[:, None]


def attention(q, k, v, sees, scale):
    """(attention, log2 of what its softmax divides by) of q [rows, heads, columns] over k, v [cols, kv heads, columns]."""
    k, v = (np.repeat(a, q.shape[1] // a.shape[1], 1) for a in (k, v))
    scores = np.where(sees, np.einsum("rhd,chd->hrc", q, k) * scale, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    total = weights.sum(-1)
    return (np.einsum("hrc,chd->rhd", weights / total[..., None], v),
            ((np.log(total) + scores.max(-1)) / np.log(2)).T)
