"""Loading libraries that may use OpenMP."""
from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager

SPINS = "10000"  # turns of libgomp's waiting loop, about 0.5 ms: more than threads of one kernel differ by


def load(ffi, path):
    """ffi.dlopen(path), where idle threads neither hold a core for long nor outlive their code.

    The parallel loops of tvm.build's modules and of the roofline are OpenMP's. Its threads spin before they sleep, in
    libgomp by default for many milliseconds: on a core that others want, the one that all wait for may be the one that
    cannot run. Networks have threads of their own, but what loads libgomp first says how long it spins, and they ask
    it how many threads there are. What the user chose (OMP_WAIT_POLICY, GOMP_SPINCOUNT) stays, and so does a libgomp
    that was loaded before.
    """
    with _brief_spins():
        library = ffi.dlopen(str(path))
    _keep_loaded()
    return library


@contextmanager
def _brief_spins():
    """The environment that libgomp reads when it is loaded."""
    if {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = SPINS
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]


def _keep_loaded():
    """Pin the OpenMP runtimes of this process: their idle worker threads would run on in unmapped code once the last
    library that uses them is unloaded. By ctypes, as cffi crashes on RTLD_NOLOAD of what is not loaded."""
    for name in ("libgomp.so.1", "libomp.so.5", "libomp.so"):
        try:
            ctypes.CDLL(name, os.RTLD_NOW | os.RTLD_NOLOAD | os.RTLD_NODELETE)
        except OSError:  # not loaded
            pass
