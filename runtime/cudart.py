"""CUDA's runtime library as Python sees it: found, loaded with cffi, its calls checked.

$INGOT_CUDART names the library, else it is looked for in $CUDA_HOME, beside nvcc, in /usr/local/cuda, among the
packages of pip and where the system's loader looks. Nothing is loaded before the first call that needs a device.
"""
from __future__ import annotations

import os
import re
import shutil
import sys
from functools import lru_cache
from pathlib import Path

import cffi

HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = 1, 2, 3  # cudaMemcpyKind
# cudaDeviceAttr
ATTRIBUTES = {"max_threads_per_block": 1, "max_shared_memory_per_block": 8, "warp_size": 10, "max_clock_rate": 13,
              "multi_processor_count": 16, "compute_major": 75, "compute_minor": 76, "l2_cache_bytes": 38,
              "max_shared_memory_per_block_optin": 97}
_CDEF = """
const char *cudaGetErrorName(int);
const char *cudaGetErrorString(int);
int cudaGetDeviceCount(int *);
int cudaSetDevice(int);
int cudaDeviceSynchronize(void);
int cudaDeviceGetAttribute(int *, int, int);
int cudaDriverGetVersion(int *);
int cudaRuntimeGetVersion(int *);
int cudaMalloc(void **, size_t);
int cudaFree(void *);
int cudaMemcpy(void *, const void *, size_t, int);
int cudaMemcpyAsync(void *, const void *, size_t, int, void *);
int cudaMemGetInfo(size_t *, size_t *);
int cudaStreamCreate(void **);
int cudaStreamDestroy(void *);
int cudaStreamSynchronize(void *);
int cudaEventCreate(void **);
int cudaEventDestroy(void *);
int cudaEventRecord(void *, void *);
int cudaEventSynchronize(void *);
int cudaEventElapsedTime(float *, void *, void *);
"""
NO_DRIVER, NO_DEVICE = 35, 100  # cudaErrorInsufficientDriver, cudaErrorNoDevice


class CudaError(RuntimeError):
    """A call of CUDA's that failed, or a library or a device that is not there; `status` is CUDA's code, 0 where there
    is no library that would have one."""

    def __init__(self, message, status=0):
        super().__init__(message)
        self.status = status


class Cudart:
    """The loaded library: cudart.call("cudaMalloc", ...) raises CudaError where CUDA refuses."""

    def __init__(self, path):
        self.path, self.ffi = path, cffi.FFI()
        self.ffi.cdef(_CDEF)
        try:
            self._library = self.ffi.dlopen(path)
        except OSError as error:
            raise CudaError(f"cannot load CUDA's runtime library {path}: {error}") from None

    def call(self, name, *arguments):
        status = getattr(self._library, name)(*arguments)
        if status:
            raise CudaError(f"{name} failed: {self.error_text(status)}", status)

    def error_text(self, status):
        """"cudaErrorNoDevice (100): no CUDA-capable device is detected"."""
        name, text = (self.ffi.string(f(status)).decode(errors="replace")
                      for f in (self._library.cudaGetErrorName, self._library.cudaGetErrorString))
        return f"{name} ({status}): {text}"

    def result(self, kind, name, *arguments):
        """What a call stores through its first parameter, a pointer to `kind`."""
        cell = self.ffi.new(f"{kind} *")
        self.call(name, cell, *arguments)
        return cell[0]

    def pointer(self, address):
        return self.ffi.cast("void *", address)

    def address(self, pointer):
        return int(self.ffi.cast("uintptr_t", pointer))

    def attribute(self, name, device=0):
        """A number that describes a device, by a name of ATTRIBUTES."""
        return self.result("int", "cudaDeviceGetAttribute", ATTRIBUTES[name], device)


def candidates():
    """Paths and names at which the library may be, in order."""
    if os.environ.get("INGOT_CUDART", "").strip():
        return [os.environ["INGOT_CUDART"].strip()]
    roots = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    nvcc = shutil.which("nvcc")
    roots += [Path(nvcc).resolve().parent.parent] if nvcc else []
    roots += [Path("/usr/local/cuda")]
    folders = [root / lib for root in roots for lib in ("lib64", "lib", "targets/x86_64-linux/lib")]
    pip = [part for entry in filter(None, sys.path)
           for part in sorted(Path(entry, "nvidia").glob("*/lib"), reverse=True)]
    found = [str(file) for folder in [*folders, *pip] for file in sorted(folder.glob("libcudart.so*"), reverse=True)]
    return [*found, "libcudart.so", "libcudart.so.13", "libcudart.so.12"]


@lru_cache(maxsize=None)
def _loaded(path):
    return Cudart(path)


def cudart():
    """The Cudart of this machine. Raises CudaError where there is none."""
    failures = []
    for path in candidates():
        try:
            return _loaded(path)
        except CudaError as error:
            failures.append(error)
    if os.environ.get("INGOT_CUDART"):
        raise failures[0]
    raise CudaError("no CUDA runtime library (libcudart.so) here: pip install nvidia-cuda-runtime, or set CUDA_HOME")


def device_count():
    """How many devices CUDA can use here. Raises CudaError, with CUDA's reason, where there is none."""
    library = cudart()
    try:
        count = library.result("int", "cudaGetDeviceCount")
    except CudaError as error:
        what = {NO_DRIVER: "no CUDA driver here, or one older than the runtime library",
                NO_DEVICE: "no CUDA device here"}.get(error.status, "no CUDA device can be used here")
        reason = re.sub(r"^\w+ failed: ", "", str(error))
        raise CudaError(f"{what}: {reason}", error.status) from None
    if count < 1:
        raise CudaError("no CUDA device here", NO_DEVICE)
    return count


def use_device(index):
    """Make a device the current one and return the Cudart. Raises CudaError where it is not there."""
    count = device_count()
    if index >= count:
        raise CudaError(f"no CUDA device {index} here: there {'is one' if count == 1 else f'are {count}'}, from 0 on",
                        NO_DEVICE)
    library = cudart()
    library.call("cudaSetDevice", index)
    return library


class Stream:
    """Work of a device that is done in order; Stream.default is the one that waits for the others."""

    def __init__(self, device=0, handle=None):
        """handle: the address of a stream of another library, which keeps it; None makes a new one."""
        self._cudart, self._own = use_device(device), handle is None
        self.handle = handle
        if self._own:
            self.handle = self._cudart.address(self._cudart.result("void *", "cudaStreamCreate"))

    @property
    def pointer(self):
        return self._cudart.pointer(self.handle)

    def synchronize(self):
        """Wait for what was enqueued."""
        self._cudart.call("cudaStreamSynchronize", self.pointer)

    def close(self):
        if self._own and self.handle:
            self._cudart.call("cudaStreamDestroy", self.pointer)
            self.handle = None


class Event:
    """A moment of a stream."""

    def __init__(self, device=0):
        self._cudart = use_device(device)
        self._event = self._cudart.result("void *", "cudaEventCreate")

    def record(self, stream=0):
        """The moment when all is done that was enqueued so far; stream: its address, or a Stream."""
        self._cudart.call("cudaEventRecord", self._event, self._cudart.pointer(getattr(stream, "handle", stream)))

    def synchronize(self):
        self._cudart.call("cudaEventSynchronize", self._event)

    def seconds_since(self, earlier):
        """Seconds from another event's moment to this one's; both are over."""
        return self._cudart.result("float", "cudaEventElapsedTime", earlier._event, self._event) * 1e-3

    def close(self):
        if self._event is not None:
            self._cudart.call("cudaEventDestroy", self._event)
            self._event = None
