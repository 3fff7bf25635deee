"""The random numbers of schedules: a multiplicative generator, the one of TVM's schedules, so that a seed says what is
drawn. Integers and weighted choices are taken from it as libstdc++ takes them."""
from __future__ import annotations

import random
from bisect import bisect_left
from itertools import accumulate

_MODULUS, _MULTIPLIER = 2147483647, 48271


class RandomEngine:
    """A stream of numbers from a seed, an int of at least 0; None: a seed that nobody chose."""

    def __init__(self, seed=None):
        self.seed(seed)

    def seed(self, seed):
        """Start anew. Raises TypeError for what is no int, ValueError for a negative one."""
        if seed is None or seed == -1 and not isinstance(seed, bool):
            seed = random.SystemRandom().randrange(1, _MODULUS)
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise TypeError(f"a seed is an int or None, not {seed!r}")
        if seed < 0:
            raise ValueError(f"a seed is not negative, and {seed} is")
        self.state = seed % _MODULUS or 1

    def fork(self):
        """A seed for another stream."""
        return self._next() * 32767 % 1999999973 or 1

    def below(self, count):
        """An int from 0 to count - 1, all equally likely. One of a single choice draws nothing."""
        if count == 1:
            return 0
        width = (_MODULUS - 1) // count
        while (drawn := self._next()) >= width * count:
            pass
        return drawn // width

    def weighted(self, weights):
        """The position of one of `weights`, each as likely as it is large. A single one draws nothing."""
        if len(weights) < 2:
            return 0
        low, high = self._next(), self._next()
        sums = list(accumulate(w / sum(weights) for w in weights))
        return bisect_left(sums[:-1], (low + high * float(_MODULUS)) / float(_MODULUS) ** 2)

    def sample(self, count, k):
        """k different ints below count."""
        if k == 2:
            first, second = self.below(count), self.below(count - 1)
            return [first, second + (second >= first)]
        order = list(range(count))
        for i in range(k):
            j = i + self.below(count - i)
            order[i], order[j] = order[j], order[i]
        return order[:k]

    def _next(self):
        self.state = self.state * _MULTIPLIER % _MODULUS
        return self.state
