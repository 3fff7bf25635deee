"""Printed kernels by what they are made from: a network that is compiled again takes them from a folder.

An entry holds the Kernel, the lowered function without its body, and how many parallel loops were planned. Its key
is a hash of the function before it is scheduled, with all names, of what steers its schedule and lowering, and of this
package's sources. The folder is $INGOT_CACHE_DIR/kernels, else ~/.cache/ingot/kernels; INGOT_KERNEL_CACHE=0 turns it
off. As the objects beside it, entries are code: who may write there may run code here.
"""
from __future__ import annotations

import hashlib
import os
import pickle
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from pathlib import Path

from ..ir.expr import const
from ..ir.node import digest
from ..ir.tir.function import PrimFunc
from ..ir.tir.stmt import Evaluate
from .kernels import Kernel
from .object_cache import FileCache

_DIGEST_BYTES = 20
_LIMIT_BYTES = 64 << 20


@dataclass(frozen=True)
class Entry:
    """func: lowered, with an empty body; waits: parallel loops of the plan for several threads, None where nobody
    asked: whether a network gains by threads does not depend on what is in the cache."""

    func: PrimFunc
    kernel: Kernel
    waits: int | None


def without_body(func):
    """A lowered function without its body: the parameters, buffers and attributes that the program around it reads."""
    return func.replace(body=Evaluate(const(0)))


class KernelCache(FileCache):
    """Entries under `folder`; None keeps nothing."""

    kind, suffix, limit_bytes = "kernels", ".kernel", _LIMIT_BYTES

    def __init__(self, folder):
        super().__init__(folder)
        self.stored = 0

    @classmethod
    def default(cls):
        """The cache that the environment names; one that keeps nothing where it is off or cannot be written."""
        if os.environ.get("INGOT_KERNEL_CACHE") == "0":
            return cls(None)
        return super().default()

    def key(self, func, *settings):
        """The key of a function before it is scheduled. settings: what else decides about its C."""
        if self.folder is None:
            return None
        return digest((func, _text(settings), _version()), names=True, size=_DIGEST_BYTES).hex()

    def fetch(self, key):
        """The Entry of a key; None where there is none, or one that is not as it was written."""
        data = self.read(key)
        if data is None or hashlib.blake2b(data[_DIGEST_BYTES:], digest_size=_DIGEST_BYTES).digest() != (
                data[:_DIGEST_BYTES]):
            return None
        try:
            entry = pickle.loads(zlib.decompress(data[_DIGEST_BYTES:]))
        except Exception:  # whatever a file of another version holds: it is made anew
            return None
        return entry if isinstance(entry, Entry) else None

    def store(self, key, entry):
        """Keep an Entry; quietly not, when the disk is full."""
        if self.folder is None:
            return
        try:
            data = zlib.compress(pickle.dumps(entry, pickle.HIGHEST_PROTOCOL), 1)
        except (RecursionError, pickle.PicklingError, TypeError, AttributeError):  # of a script's own attributes
            return
        self.write(key, hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest() + data)
        self.stored += 1

    def trim(self, limit_bytes=None):
        """After entries were stored: as FileCache.trim."""
        if self.stored:
            super().trim(limit_bytes)


def _text(value):
    """A value of dataclasses, mappings, sets, tuples and plain values as text that is the same in every process: the
    repr of a set is in the order of its hashes."""
    if is_dataclass(value):
        return f"{type(value).__name__}{[(f.name, _text(getattr(value, f.name))) for f in fields(value)]}"
    if isinstance(value, Mapping):
        return f"{{{sorted((_text(k), _text(v)) for k, v in value.items())}}}"
    if isinstance(value, (set, frozenset)):
        return f"{{{sorted(map(_text, value))}}}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_text, value))})"
    return repr(value)


@lru_cache(maxsize=None)
def _version():
    """A hash of the Python sources of this package that make kernels, and of Python's version."""
    root = Path(__file__).parent.parent
    found = hashlib.blake2b(f"{sys.version_info[:2]}".encode(), digest_size=_DIGEST_BYTES)
    for folder in ("ir", "codegen"):
        for path in sorted((root / folder).rglob("*.py")):
            found.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return found.hexdigest()
