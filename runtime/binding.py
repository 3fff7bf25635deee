"""Loading a compiled network with cffi in ABI mode, and the calls of its C interface."""
from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial

import cffi
import numpy as np

from . import openmp

# The part of runtime_c/ingot.h that Python reads; tests compare the layout with the header's.
ABI = 1
HEADER = """
typedef struct { const char *name; int dtype; int32_t ndim; const int64_t *dims; const char *const *dim_names;
} ingot_tensor_info;
typedef struct {
    uint32_t abi; uint32_t struct_bytes; const char *name; int32_t n_inputs; int32_t n_outputs; int32_t n_dims;
    const ingot_tensor_info *inputs; const ingot_tensor_info *outputs; const char *const *dim_names;
    uint64_t arena_bytes; uint64_t arena_align; uint64_t weights_bytes; uint64_t flops;
    const char *source_hash; const char *target;
} ingot_model_info;
const char *ingot_status_str(int status);
"""
# cffi takes "extern const" for a number that it would have to know here, so the struct is declared without const.
_MODEL = """
extern ingot_model_info {name}_info;
uint64_t {name}_arena_bytes_({dims_or_void});
int {name}_init_(void **net, void *arena, size_t arena_bytes, {further}uint32_t abi, size_t info_bytes);
int {name}_set_weights(void *net, const void *weights, size_t bytes);
int {name}_set_reader(void *net, int (*read)(void *, uint64_t, void *, size_t), void *user);
int {name}_run({run});
int {name}_set_profile(void *net, void *hook, void *user);
"""
# Of runtime_c/profile.c, which only profiled builds hold.
_PROFILE = """
typedef struct { double start; double *seconds; } ingot_call_times;
void ingot_keep_time(void *user, int32_t call);
"""


class NetworkError(RuntimeError):
    """A call into a compiled network that did not return INGOT_OK; `status` is the code."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


def cdef_of(model):
    """The C declarations of `model` (name, inputs, outputs, dims) for cffi; data pointers are all void."""
    dims = [f"int64_t {dim}" for dim in model.dims]
    arguments = ["void *net", *dims, *(f"const void *input{i}" for i in range(len(model.inputs))),
                 *(f"void *output{i}" for i in range(len(model.outputs))),
                 *(f"int64_t *found{i}" for i in range(len(getattr(model, "found", ()))))]
    further = "void *memory, size_t bytes, " * len(getattr(model, "further_memories", ()))
    own = _MODEL.format(name=model.name, further=further, dims_or_void=", ".join(dims) or "void",
                        run=", ".join(arguments))
    return HEADER + _PROFILE + own


def aligned_empty(size, align):
    """`size` (> 0) uninitialized bytes at a multiple of `align`."""
    raw = np.empty(size + align, np.uint8)
    start = -raw.ctypes.data % align
    return raw[start:start + size]


class Binding:
    """One instance of a network in a loaded library: its handle lives in an arena that this object owns.

    Not safe for concurrent calls: the caller serializes them. Raises NetworkError for every status but INGOT_OK.
    """

    def __init__(self, path, model, weights=None):
        """path: the shared library; model: see cdef_of; weights: a uint8 array for networks that take a pointer."""
        self._name, self._weights = model.name, weights
        self._ffi = cffi.FFI()
        self._ffi.cdef(cdef_of(model))
        self._library = openmp.load(self._ffi, path)
        self._net, self._arena = self._ffi.new("void **"), None
        further = getattr(model, "further_bytes", None)  # of arena, for all threads that this machine runs
        self._further = further(os.cpu_count() or 1) if further else 0
        streamed = getattr(model, "weights", "") == "stream"
        self._reader = self._ffi.callback("int(void *, uint64_t, void *, size_t)", self._read) if streamed else None
        self._memories = [aligned_empty(max(size, 1), 64) for _, size in getattr(model, "further_memories", ())]
        self._run, self._buffer = self._function("run"), self._ffi.from_buffer
        names = getattr(model, "found", ())  # dimensions of outputs that each run decides
        self._found, cells = names, self._ffi.new("int64_t[]", max(len(names), 1))
        self._cells, self._results = cells, [cells + k for k in range(len(names))]
        self.after_runs = lambda: None  # raises what functions of Python raised in a run

    @property
    def info(self):
        """NAME_info, the cffi struct."""
        return self._function("info")

    def run(self, dims, inputs, outputs):
        """One inference: `dims` are the values of the symbolic dimensions, the others C-contiguous arrays."""
        if dims or self._arena is None:
            self._reserve(dims)
        status = self._run(self._net[0], *dims, *map(self._buffer, inputs), *map(self._buffer, outputs),
                           *self._results)
        self.after_runs()
        if status:
            self._fail("run", status)

    @property
    def found(self):
        """{dimension that runs decide: its value in the last one}."""
        return {name: int(self._cells[k]) for k, name in enumerate(self._found)}

    def bound(self, dims, inputs, outputs):
        """`run` as a function without arguments, which keeps the arrays."""
        self._reserve(dims)
        pointers = [*map(self._buffer, inputs), *map(self._buffer, outputs), *self._results]
        if dims:  # the handle moves when others need a larger arena
            def call(function=self._run, net=self._net):
                return function(net[0], *dims, *pointers)
        else:
            call = partial(self._run, self._net[0], *pointers)

        def run():
            status = call()
            self.after_runs()
            if status:
                self._fail("run", status)
        return run

    @contextmanager
    def timed_calls(self, seconds):
        """Runs within leave the seconds of each kernel call in a float64 array. For builds with -DINGOT_PROFILE and
        runtime_c/profile.c; there was a run with the same dims before."""
        times = self._ffi.new("ingot_call_times *", {"seconds": self._ffi.cast("double *", seconds.ctypes.data)})
        hook = self._ffi.cast("void *", self._library.ingot_keep_time)
        self._check("set_profile", self._net[0], hook, times)
        try:
            yield
        finally:
            self._check("set_profile", self._net[0], self._ffi.NULL, self._ffi.NULL)

    def _reserve(self, dims):
        """Make the arena large enough for `dims`; the handle moves with it."""
        need = self._function("arena_bytes_")(*dims) + self._further
        if self._arena is not None and len(self._arena) >= need:
            return
        self._arena = aligned_empty(need, self.info.arena_align)
        beside = [x for array in self._memories for x in (self._pointer(array), len(array))]
        self._check("init_", self._net, self._pointer(self._arena), need, *beside, ABI,
                    self._ffi.sizeof("ingot_model_info"))
        if self._reader is not None:
            self._check("set_reader", self._net[0], self._reader, self._ffi.NULL)
        elif self._weights is not None:
            self._check("set_weights", self._net[0], self._pointer(self._weights), self.info.weights_bytes)

    def _read(self, user, offset, to, count):
        """An ingot_reader of ingot.h."""
        if to != self._ffi.NULL:
            self._ffi.memmove(to, self._ffi.from_buffer(self._weights[offset:offset + count]), count)
        return 0

    def close(self):
        """Unload the library. The object is of no use afterwards."""
        self._ffi.dlclose(self._library)

    def _function(self, suffix):
        return getattr(self._library, f"{self._name}_{suffix}")

    def _pointer(self, array):
        return self._ffi.cast("void *", array.ctypes.data)

    def _check(self, suffix, *arguments):
        status = self._function(suffix)(*arguments)
        if status:
            self._fail(suffix, status)

    def _fail(self, suffix, status):
        text = self._ffi.string(self._library.ingot_status_str(status)).decode()
        raise NetworkError(f"{self._name}_{suffix.rstrip('_')} failed: {text} (status {status})", status)
