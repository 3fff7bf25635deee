"""tempdir: a folder for the files of a script."""
from __future__ import annotations

import tempfile
from pathlib import Path


class TempDirectory:
    """A fresh folder that goes when it is removed, closed by `with`, or no longer used."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="ingot-")
        self.temp_dir = self.path = self._folder.name

    def relpath(self, name):
        """The path of a file called `name` in the folder."""
        return str(Path(self.path, name))

    def listdir(self):
        """The names of what is in the folder, in order."""
        return sorted(p.name for p in Path(self.path).iterdir())

    def remove(self):
        self._folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def tempdir():
    """A TempDirectory."""
    return TempDirectory()
