"""Compiled objects by content: the same source, headers, compiler and flags give the same object.

The cache is a folder ($INGOT_CACHE_DIR, else ~/.cache/ingot) that any number of processes may use at once: a file
appears in it complete, under the hash of everything that it was made from, and never changes.
"""
from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
_INCBIN = re.compile(rb'\.incbin[^\n]*"([^"]+)"|^[ \t]*#[ \t]*embed[ \t]*"', re.MULTILINE)


def content_key(source, command):
    """(hash of a source, of the headers that it includes by "..." and of `command`; whether it embeds a binary file).

    Embedded files are not read: a source that has one is not worth caching.
    """
    digest = hashlib.blake2b(digest_size=20)
    for word in command:
        digest.update(word.encode() + b"\0")
    has_blob = False
    waiting, seen = [Path(source)], set()
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        text = file.read_bytes()
        digest.update(f"{file.name}\0{len(text)}\0".encode() + text)
        has_blob = has_blob or _INCBIN.search(text) is not None
        for match in _INCLUDE.finditer(text):
            name = os.fsdecode(match[1])
            found = (folder / name for folder in (file.parent, Path(source).parent))
            waiting.extend(path for path in found if path.is_file())
    return digest.hexdigest(), has_blob


class FileCache:
    """Files under `folder`, each named by its key and `suffix`; None keeps nothing.

    kind: of the files of a class, which its folder is called by; limit_bytes: of all of them."""

    kind = suffix = ""
    limit_bytes = 1 << 30

    def __init__(self, folder):
        self.folder = folder

    @classmethod
    def default(cls):
        """The cache that the environment names; one that keeps nothing where its folder cannot be written."""
        return cls(cls.folder_of(cls.kind))

    @staticmethod
    def folder_of(kind):
        """The folder that the environment names, for one kind of files; None where it cannot be written."""
        root = os.environ.get("INGOT_CACHE_DIR")
        try:
            folder = (Path(root) if root else Path.home() / ".cache" / "ingot") / kind
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, RuntimeError):  # RuntimeError: there is no home folder
            return None
        return folder if os.access(folder, os.W_OK) else None

    def read(self, key):
        """The bytes of a key's file; None where there is none."""
        if self.folder is None:
            return None
        try:
            data = self._path(key).read_bytes()
            os.utime(self._path(key))
        except OSError:
            return None
        return data

    def write(self, key, data):
        """Keep bytes under `key`; quietly not, when the disk is full."""
        self._place(key, lambda file: Path(file).write_bytes(data))

    def store(self, key, file):
        """Keep a copy of the finished `file` under `key`; quietly not, when the disk is full."""
        self._place(key, lambda temporary: shutil.copyfile(file, temporary))

    def _place(self, key, fill):
        """Let the file of `key` appear complete: fill(path) writes one of another name."""
        if self.folder is None:
            return
        temporary = None
        try:
            handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=".new-")
            os.close(handle)
            fill(temporary)
            os.replace(temporary, self._path(key))
        except OSError:
            if temporary is not None:
                Path(temporary).unlink(missing_ok=True)

    def _path(self, key):
        return self.folder / f"{key}{self.suffix}"

    def trim(self, limit_bytes=None):
        """Remove the files that were not used for longest until at most `limit_bytes` remain."""
        if self.folder is None:
            return
        limit_bytes = self.limit_bytes if limit_bytes is None else limit_bytes
        files = []
        for path in self.folder.iterdir():
            try:
                state = path.stat()
            except OSError:  # another process removed it
                continue
            files.append((state.st_mtime, state.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files, key=lambda entry: entry[0]):
            if total <= limit_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size


class ObjectCache(FileCache):
    """Objects under `folder`; None keeps nothing."""

    kind, suffix = "objects", ".o"

    def fetch(self, key, output):
        """Copy the object of `key` to `output`; whether there was one. A copy, as another process may trim."""
        if self.folder is None:
            return False
        try:
            shutil.copyfile(self._path(key), output)
            os.utime(self._path(key))
        except OSError:
            return False
        return True


class HeaderCache(FileCache):
    """Headers as gcc has parsed them, under `folder`; empty files are those that were asked for once."""

    kind, suffix = "headers", ".gch"
    limit_bytes = 1 << 28  # some 25 MB each

    def link(self, key, place):
        """Let `place` be the file of `key`; whether there is one. gcc does without when another process trims it."""
        try:
            if self.folder is None or not self._path(key).stat().st_size:
                return False
            os.utime(self._path(key))
            os.symlink(self._path(key).absolute(), place)
        except OSError:
            return False
        return True

    def is_second(self, key):
        """Whether the file of `key` was asked for before."""
        if self.folder is None:
            return False
        if not self._path(key).exists():
            self.write(key, b"")
            return False
        return True
