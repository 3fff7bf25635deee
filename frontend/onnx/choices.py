"""Choices of an import that only what comes later shows to be right, and trying them in turn."""
from __future__ import annotations

from .errors import OnnxImportError, UnknownBound

MOST_ATTEMPTS = 16


class Choices:
    """The choices that an import has made, in order. `next` gives one, `attempt` goes back to them."""

    def __init__(self):
        self.made, self.at = [], 0  # (choice, whether it is the second one); how many this attempt has made

    def next(self, first):
        """A bool: `first` at first, the other one where an attempt with it has failed."""
        if self.at == len(self.made):
            self.made.append((first, False))
        self.at += 1
        return self.made[self.at - 1][0]

    def attempt(self, make):
        """What make() returns under the first choices that let it. Raises its first OnnxImportError where none do, and
        an UnknownBound at once."""
        start, failed = self.at, None
        for _ in range(MOST_ATTEMPTS):
            try:
                return make()
            except UnknownBound:
                raise
            except OnnxImportError as error:
                failed = failed or error
            if not self._turn(start):
                break
        raise failed

    def _turn(self, start):
        """Go back to `start`, with the last choice after it that can be another one; False where there is none."""
        while len(self.made) > start and self.made[-1][1]:
            self.made.pop()
        self.at = start
        if len(self.made) == start:
            return False
        self.made[-1] = not self.made[-1][0], True
        return True
