"""CudaLibrary: a network for CUDA that Python calls as a function. nvcc builds it, with or without a device."""
from __future__ import annotations

import cffi
import numpy as np

from ..codegen.toolchain import build_shared
from .binding import ABI, HEADER, NetworkError, aligned_empty
from .cuda_array import Block, CudaArray, empty, from_other, is_on_cuda
from .cudart import Event, cudart, use_device
from .device import CUDA, Device
from .library import CompiledLibrary
from .shapes import check_inputs
from .timing import Timing

HOST_BYTES, HOST_ALIGN = 128, 16  # NAME_HOST_BYTES and NAME_HOST_ALIGN of templates/cuda/model.h
ERR_DEVICE = -12  # INGOT_ERR_DEVICE of runtime_c/ingot.h
_MODEL = """
extern ingot_model_info {name}_info;
uint64_t {name}_arena_bytes_({dims_or_void});
int {name}_init_(void **net, void *host, size_t host_bytes, void *arena, size_t arena_bytes, void *stream,
    uint32_t abi, size_t info_bytes);
int {name}_set_weights(void *net, void *weights, size_t bytes);
int32_t {name}_device_error(void *net);
int {name}_run({run});
"""


class CudaBinding:
    """One instance of a network in a loaded library, on a device. Not safe for concurrent calls.

    Raises NetworkError for every status but INGOT_OK, with CUDA's own reason where it refused something.
    """

    found = {}

    def __init__(self, path, model, weights=None, index=0):
        """path: the shared library; weights: a uint8 array for networks that take a pointer; index: the device's."""
        self._name, self._weights, self._index = model.name, weights, index
        self._ffi = cffi.FFI()
        dims = [f"int64_t {dim}" for dim in model.dims]
        run = ["void *net", *dims, *(f"void *tensor{i}" for i in range(len(model.inputs) + len(model.outputs))),
               "void *stream"]
        self._ffi.cdef(HEADER + _MODEL.format(name=model.name, dims_or_void=", ".join(dims) or "void",
                                              run=", ".join(run)))
        self._library = self._ffi.dlopen(str(path))
        self._net, self._arena, self._given_weights = self._ffi.new("void **"), None, None
        self._host = aligned_empty(HOST_BYTES, HOST_ALIGN)

    @property
    def info(self):
        return self._function("info")

    def run(self, dims, tensors, stream=0):
        """Enqueue one inference: addresses of the inputs and outputs on the device, and of a stream."""
        use_device(self._index)
        if dims or self._arena is None:
            self._reserve(dims, stream)
        pointers = [self._pointer(address) for address in tensors]
        self._check("run", self._net[0], *dims, *pointers, self._pointer(stream))

    def _reserve(self, dims, stream):
        """Make the arena large enough for `dims`; the instance is made anew."""
        need = max(self._function("arena_bytes_")(*dims), 1)
        if self._arena is not None and self._arena.size >= need:
            return
        self._arena = Block(need, self._index)
        self._check("init_", self._net, self._pointer(self._host.ctypes.data), HOST_BYTES,
                    self._pointer(self._arena.pointer), need, self._pointer(stream), ABI,
                    self._ffi.sizeof("ingot_model_info"))
        if self._weights is not None:
            if self._given_weights is None:
                self._given_weights = empty(self._weights.shape, "uint8", Device(CUDA, self._index))
                self._given_weights.copyfrom(self._weights)
            self._check("set_weights", self._net[0], self._pointer(self._given_weights.pointer),
                        self._given_weights.nbytes)

    def close(self):
        self._ffi.dlclose(self._library)

    def _function(self, suffix):
        return getattr(self._library, f"{self._name}_{suffix}")

    def _pointer(self, address):
        return self._ffi.cast("void *", address)

    def _check(self, suffix, *arguments):
        status = self._function(suffix)(*arguments)
        if status == 0:
            return
        text = self._ffi.string(self._library.ingot_status_str(status)).decode()
        if status == ERR_DEVICE:
            text += ": " + cudart().error_text(self._function("device_error")(self._net[0]))
        raise NetworkError(f"{self._name}_{suffix.rstrip('_')} failed: {text} (status {status})", status)


class CudaLibrary(CompiledLibrary):
    """A network compiled for CUDA, the result of `ingot.compile(model, target="cuda")`.

        y = lib(x)                    numpy arrays are copied to the device, and the outputs back
        y = lib(x)                    of arrays on the device (nd.array(x, cuda(0)), torch, cupy) outputs are there, too
        lib.build()                   by nvcc, which needs no device
        lib.time(x)                   by events of the device

    A call raises CudaError, with CUDA's reason, where there is no device.
    """

    device = Device(CUDA, 0)

    def _check_target(self):
        """Any machine builds it."""

    def _bound(self, sources):
        path = build_shared(sources, self._folder / f"{self.name}.so", self.model.target, "none", self._jobs)
        return CudaBinding(path, self.model, self._weights_of(sources), self.device.index)

    def _prepare(self, arrays, given=None):
        """(dim values, inputs and outputs on the device); the last element says whether the inputs came from there."""
        use_device(self.device.index)
        on_device = any(map(is_on_cuda, arrays))
        arrays = [from_other(a) if is_on_cuda(a) else a for a in arrays]
        # What is on the device is checked by arrays of its shape and dtype, whose memory nobody touches.
        stand_ins = [np.empty(a.shape, np.dtype(a._dtype.numpy)) if isinstance(a, CudaArray) else a for a in arrays]
        checked, values = check_inputs(self._inputs, self._dims, stand_ins, given)
        inputs = [a if isinstance(a, CudaArray) else empty(c.shape, c.dtype.name, self.device).copyfrom(c)
                  for a, c in zip(arrays, checked)]
        outputs = [empty(spec.concrete(values), spec.dtype.name, self.device) for spec in self._outputs]
        return [values[dim] for dim in self._dims], inputs, outputs, on_device

    def _run(self, dims, inputs, outputs, on_device, stream=0):
        with self._lock:
            self.build()
            self._binding.run(dims, [t.pointer for t in (*inputs, *outputs)], stream)
        return outputs if on_device else [t.numpy() for t in outputs]

    def bind(self, *arrays):
        """(run, outputs): a function that enqueues the network on the stream whose address it is given, 0 by default;
        the outputs are arrays on the device."""
        dims, inputs, outputs, _ = self._prepare(arrays)
        with self._lock:
            self.build()

        def run(stream=0):
            self._run(dims, inputs, outputs, True, getattr(stream, "handle", stream))
        return run, tuple(outputs)

    def time(self, *arrays, repeat=20, warmup=2):
        """Seconds of `repeat` runs on the device, by its events, after `warmup` that do not count: a Timing."""
        if repeat < 1:
            raise ValueError(f"repeat must be at least 1, not {repeat}")
        run, _ = self.bind(*arrays)
        for _ in range(warmup):
            run()
        moments = [Event(self.device.index) for _ in range(repeat + 1)]
        moments[0].record()
        for moment in moments[1:]:
            run()
            moment.record()
        moments[-1].synchronize()
        times = tuple(end.seconds_since(start) for start, end in zip(moments, moments[1:]))
        for moment in moments:
            moment.close()
        return Timing(times)

    def profiler(self, *arrays):
        raise NotImplementedError("a profile by Python is of networks on the CPU: export the folder, make PROFILE=1 "
                                  "and run its example, which prints the time of each kernel, or use nsys and ncu")
