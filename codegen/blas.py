"""How many threads numpy's products take while a network is compiled: one.

Weights are folded and the self-test's outputs computed by thousands of small products. Threads of a BLAS wait for one
another in loops: on a busy machine, or for small products, that takes several times the processor time of one thread.
One thread also gives the same digits on machines with different numbers of cores.
"""
from __future__ import annotations

import ctypes
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock

import numpy as np

# Names of the functions that read and set the number of threads, in the builds of OpenBLAS that numpy is linked to.
_NAMES = tuple((f"{prefix}openblas_get_num_threads{suffix}", f"{prefix}openblas_set_num_threads{suffix}")
               for prefix in ("scipy_", "") for suffix in ("64_", "_64", ""))
_LOCK = Lock()
_inside = [0, 0]  # how many `with` run now, and the number of threads that was before the first


@contextmanager
def one_blas_thread():
    """`with one_blas_thread():` numpy's products take one thread inside; nothing changes with an unknown BLAS."""
    get, put = _functions()
    with _LOCK:
        if _inside[0] == 0:
            _inside[1] = get()
            put(1)
        _inside[0] += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside[0] -= 1
            if _inside[0] == 0:
                put(_inside[1])


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
