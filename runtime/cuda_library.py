"""CudaLibrary: a network for CUDA that Python calls as a function. nvcc builds it, with or without a device."""
from __future__ import annotations

import numpy as np

from ..codegen.toolchain import build_shared
from .cuda_array import Block, CudaArray, empty, from_other, is_on_cuda, why_misaligned
from .cudart import Event, cudart, use_device
from .device import CUDA, Device
from .device_binding import DeviceBinding
from .library import CompiledLibrary
from .shapes import InputError
from .timing import Timing

HOST_BYTES = 128  # NAME_HOST_BYTES of templates/cuda/model.h


class CudaBinding(DeviceBinding):
    """One instance of a network on a device."""

    def __init__(self, path, model, weights=None, index=0):
        """index: the device's number."""
        super().__init__(path, model, weights, HOST_BYTES)
        self._index = index

    def run(self, dims, tensors, stream=0):
        """Enqueue one inference: addresses of the inputs and outputs on the device, and of a stream."""
        use_device(self._index)
        self.enqueue(dims, [self._pointer(address) for address in tensors], self._pointer(stream))

    def allocate(self, size, align):
        return Block(size, self._index)  # cudaMalloc aligns to 256, as networks ask

    def pointer_of(self, block):
        return self._pointer(block.pointer)

    def upload(self, block, array):
        CudaArray(block.pointer, array.shape, "uint8", Device(CUDA, self._index), block).copyfrom(array)

    def reason(self, code):
        return cudart().error_text(code)

    def _pointer(self, address):
        return self._ffi.cast("void *", address)


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
        for spec, a in zip(self._inputs, arrays):
            if isinstance(a, CudaArray) and (why := why_misaligned(a)):
                raise InputError(f"input {spec.name} {why}")
        # What is on the device is checked by arrays of its shape and dtype, whose memory nobody touches.
        stand_ins = [np.empty(a.shape, np.dtype(a._dtype.numpy)) if isinstance(a, CudaArray) else a for a in arrays]
        checked, values = self._checked(stand_ins, given)
        inputs = [a if isinstance(a, CudaArray) else empty(c.shape, c.dtype.name, self.device).copyfrom(c)
                  for a, c in zip(arrays, checked)]
        outputs = [empty(spec.room_shape(values), spec.dtype.name, self.device) for spec in self._outputs]
        return [values[dim] for dim in self._dims], inputs, outputs, on_device

    def _run(self, dims, inputs, outputs, on_device, stream=0):
        with self._lock:
            self.build()
            outputs = self._filled(dims, outputs, dims, [t.pointer for t in (*inputs, *outputs)], stream)
        return outputs if on_device else [t.numpy() for t in outputs]

    def bind(self, *arrays):
        """(run, outputs): a function that enqueues the network on the stream whose address it is given, 0 by default;
        the outputs are arrays on the device."""
        run, outputs = self._bound_run(arrays)
        self._check_bindable()
        return run, outputs

    def _bound_run(self, arrays):
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
        run, _ = self._bound_run(arrays)
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
