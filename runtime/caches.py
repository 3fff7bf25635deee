"""The cache of an attention's keys or values over the steps of a text: rows that steps append and attention views."""
from __future__ import annotations

from copy import copy

import numpy as np

from .ndarray import NDArray, empty


class AttentionKVCache:
    """Rows [n, ...] of one dtype. `filled`: how many are there; `position`: where a window writes next."""

    def __init__(self, rows, shape, filled=-1):
        """rows: the first ones, an NDArray; shape: what is reserved; filled: how many of the rows count, -1 for all."""
        self.data, self.filled, self._shared = empty(tuple(shape), rows.dtype), 0, False
        self._written = [0]  # how many rows of the memory someone has added, one list for all who share it
        self.append(rows)
        self.position = 0
        if filled > self.data.shape[0]:
            raise ValueError(f"{filled} rows cannot be there in a cache with room for {self.data.shape[0]}")
        if filled >= 0:
            self.filled = self.position = filled

    def fork(self):
        """A cache of the same rows, which goes another way: what either does from now on, the other does not see. Their
        memory is one until one of them replaces rows, or adds some where another one has added."""
        forked = copy(self)
        self._shared = forked._shared = True
        return forked

    def append(self, rows):
        """Add rows, past the end of what is reserved into twice the room."""
        self._fits(rows)
        if self._written[0] > self.filled:
            self._own()
        self._reserve(self.filled + rows.shape[0])
        np.asarray(self.data)[self.filled:self.filled + rows.shape[0]] = np.asarray(rows)
        self.filled += rows.shape[0]
        self._written[0] = self.filled

    def update(self, rows):
        """Replace all that is there. ValueError for other than as many rows."""
        self._fits(rows)
        if rows.shape[0] != self.filled:
            raise ValueError(f"the cache has {self.filled} rows, and an update must have as many, not {rows.shape[0]}")
        self._own()
        np.asarray(self.data)[:self.filled] = np.asarray(rows)

    def override(self, rows, most, sinks=0):
        """Add rows to a window of `most`: past its end they replace the oldest, but for the first `sinks`."""
        self._fits(rows)
        count = rows.shape[0]
        if count > most - sinks:
            raise ValueError(f"a window of {most} rows, {sinks} of which stay, has no room for {count}")
        self._own()
        self._reserve(min(self.filled + count, most))
        data, given = np.asarray(self.data), np.asarray(rows)
        first = min(count, most - self.position)
        data[self.position:self.position + first] = given[:first]
        data[sinks:sinks + count - first] = given[first:]
        self.filled = min(self.filled + count, most)
        self.position = self.position + count if first == count else sinks + count - first

    def view(self, shape=None):
        """The rows that are there, without a copy. ValueError for a shape that is not theirs."""
        found = (self.filled, *self.data.shape[1:])
        if shape is not None and tuple(shape) != found:
            raise ValueError(f"a cache of shape {list(found)} cannot be viewed as {list(shape)}")
        return NDArray(np.asarray(self.data)[:self.filled])

    def pop(self, count):
        """Forget the last rows. ValueError for more than there are."""
        if not 0 <= count <= self.filled:
            raise ValueError(f"{count} rows cannot be taken off a cache of {self.filled}")
        self.filled -= count

    def clear(self):
        self.filled = self.position = 0

    def _fits(self, rows):
        if rows.dtype != self.data.dtype or rows.shape[1:] != self.data.shape[1:]:
            raise ValueError(f"rows of {rows.dtype}{list(rows.shape)} do not fit a cache of {self.data.dtype}"
                             f"{['n', *self.data.shape[1:]]}")

    def _own(self):
        """Take a copy of rows that a fork has, too, before some are replaced."""
        if self._shared:
            self._move(self.data.shape[0])

    def _reserve(self, count):
        room = self.data.shape[0]
        if count <= room:
            return
        if room == 0:
            raise ValueError(f"a cache with room for no rows cannot grow to {count}")
        while room < count:
            room *= 2
        self._move(room)

    def _move(self, room):
        """The rows in memory of their own."""
        data = empty((room, *self.data.shape[1:]), self.data.dtype)
        np.asarray(data)[:self.filled] = np.asarray(self.data)[:self.filled]
        self.data, self._shared, self._written = data, False, [self.filled]


def _then_itself(method):
    """A function that calls a method of a cache and gives the cache."""
    def call(cache, *args):
        method(cache, *args)
        return cache
    return call


def _each(method):
    def call(caches, *args):
        for cache in caches:
            method(cache, *args)
    return call


FUNCTIONS = {
    "attention_kv_cache_create": AttentionKVCache, "attention_kv_cache_view": AttentionKVCache.view,
    "attention_kv_cache_append": _then_itself(AttentionKVCache.append),
    "attention_kv_cache_update": _then_itself(AttentionKVCache.update),
    **dict.fromkeys(("attention_kv_cache_window_override", "attention_kv_cache_window_override_with_sinks"),
                    _then_itself(AttentionKVCache.override)),
    "attention_kv_cache_array_popn": _each(AttentionKVCache.pop),
    "attention_kv_cache_array_clear": _each(AttentionKVCache.clear),
}

__all__ = ["AttentionKVCache", "FUNCTIONS"]
