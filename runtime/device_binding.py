"""What the bindings of networks for CUDA and for OpenCL share: an instance in the memory of the host, an arena on the
device, runs that are enqueued."""
from __future__ import annotations

import cffi

from .binding import ABI, HEADER, NetworkError, aligned_empty

HOST_ALIGN = 16
ERR_DEVICE = -12  # INGOT_ERR_DEVICE of runtime_c/ingot.h
_MODEL = """
extern ingot_model_info {name}_info;
uint64_t {name}_arena_bytes_({dims_or_void});
int {name}_init_(void **net, void *host, size_t host_bytes, void *arena, size_t arena_bytes, void *queue,
    uint32_t abi, size_t info_bytes);
int {name}_set_weights(void *net, void *weights, size_t bytes);
int32_t {name}_device_error(void *net);
void {name}_release(void *net);
int {name}_run({run});
"""


class DeviceBinding:
    """One instance of a network in a loaded library. Not safe for concurrent calls.

    Subclasses say how memory of the device is had: allocate(bytes, alignment) returns an object with `size`, pointer_of
    (object) its address as cffi has it, upload(object, array) fills it, reason(code) what an error of the device is.
    Raises NetworkError for every status but INGOT_OK.
    """

    def __init__(self, path, model, weights, host_bytes, ffi=None):
        """path: the shared library; weights: a uint8 array for networks that take a pointer to them, else None."""
        self._name, self._weights, self._given = model.name, weights, None
        self._ffi = ffi or cffi.FFI()
        dims = [f"int64_t {dim}" for dim in model.dims]
        run = ["void *net", *dims, *(f"void *tensor{i}" for i in range(len(model.inputs) + len(model.outputs))),
               *(f"int64_t *found{i}" for i in range(len(model.found))), "void *queue"]
        self._ffi.cdef(HEADER + _MODEL.format(name=model.name, dims_or_void=", ".join(dims) or "void",
                                              run=", ".join(run)))
        self._library = self._ffi.dlopen(str(path))
        self._net, self._arena = self._ffi.new("void **"), None
        self._found, self._cells = model.found, self._ffi.new("int64_t[]", max(len(model.found), 1))
        self._host = aligned_empty(host_bytes, HOST_ALIGN)

    @property
    def info(self):
        """NAME_info, the cffi struct."""
        return self._function("info")

    def enqueue(self, dims, pointers, queue):
        """Enqueue one inference on tensors at addresses of the device."""
        if dims or self._arena is None:
            self._reserve(dims, queue)
        self._check("run", self._net[0], *dims, *pointers, *(self._cells + k for k in range(len(self._found))), queue)

    @property
    def found(self):
        """{dimension that runs decide: its value in the last one}."""
        return {name: int(self._cells[k]) for k, name in enumerate(self._found)}

    def release(self):
        """What stands before an instance is made anew, or ends."""

    def close(self):
        """Unload the library. The object is of no use afterwards."""
        if self._arena is not None:
            self.release()
            self._arena = None
        self._ffi.dlclose(self._library)

    def _reserve(self, dims, queue):
        """Make the arena large enough for `dims`; the instance is made anew."""
        need, align = max(self._function("arena_bytes_")(*dims), 1), self.info.arena_align
        if self._arena is not None and self._arena.size >= need:
            return
        if self._arena is not None:
            self.release()
        self._arena = self.allocate(need, align)
        self._check("init_", self._net, self._ffi.from_buffer(self._host), len(self._host),
                    self.pointer_of(self._arena), need, queue, ABI, self._ffi.sizeof("ingot_model_info"))
        if self._weights is not None:
            if self._given is None:
                self._given = self.allocate(len(self._weights), align)
                self.upload(self._given, self._weights)
            self._check("set_weights", self._net[0], self.pointer_of(self._given), len(self._weights))

    def _function(self, suffix):
        return getattr(self._library, f"{self._name}_{suffix}")

    def _check(self, suffix, *arguments):
        status = self._function(suffix)(*arguments)
        if status == 0:
            return
        text = self._ffi.string(self._library.ingot_status_str(status)).decode()
        if status == ERR_DEVICE:
            text += f": {self.reason(self._function('device_error')(self._net[0]))}"
        raise NetworkError(f"{self._name}_{suffix.rstrip('_')} failed: {text} (status {status})", status)
