"""Settings of the process that a compilation changes, and restores afterwards.

Numpy's products take one thread. Weights are folded and the self-test's outputs computed by thousands of small
products. Threads of a BLAS wait for one another in loops: on a busy machine, or for small products, that takes several
times the processor time of one thread. One thread also gives the same digits on machines with different numbers of
cores.

The garbage collector looks for cycles a tenth as often: programs are trees that are freed without it.
"""
from __future__ import annotations

import ctypes
import gc
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock

import numpy as np

# Names of the functions that read and set the number of threads, in the builds of OpenBLAS that numpy is linked to.
_NAMES = tuple((f"{prefix}openblas_get_num_threads{suffix}", f"{prefix}openblas_set_num_threads{suffix}")
               for prefix in ("scipy_", "") for suffix in ("64_", "_64", ""))
NEW_OBJECTS = 10_000  # at least, before the garbage collector looks through the newest ones
_LOCK = Lock()
_before = []  # what each `with` that runs now has found: (threads, thresholds of the collector)


@contextmanager
def for_compiling():
    """`with for_compiling():` the process is as compilations want it inside, and as before after the last of several.
    An unknown BLAS keeps its threads, a collector that is off or rarer its thresholds."""
    get, put = _functions()
    with _LOCK:
        _before.append((get(), gc.get_threshold()))
        put(1)
        newest, *older = gc.get_threshold()
        if newest:
            gc.set_threshold(max(newest, NEW_OBJECTS), *older)
    try:
        yield
    finally:
        with _LOCK:
            found = _before.pop()
            if not _before:
                put(found[0])
                gc.set_threshold(*found[1])


@lru_cache(maxsize=None)
def _functions():
    """(get, set) of the number of threads; of an unknown BLAS they do nothing."""
    try:
        library = ctypes.CDLL(np._core._multiarray_umath.__file__)  # symbols of what it is linked to are found, too
    except (AttributeError, OSError, TypeError):
        return int, lambda threads: None
    for get, put in _NAMES:
        if hasattr(library, get) and hasattr(library, put):
            return getattr(library, get), getattr(library, put)
    return int, lambda threads: None
