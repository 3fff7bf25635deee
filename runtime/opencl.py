"""OpenCL from Python: a queue of the first device, and networks on it. $INGOT_OPENCL_PLATFORM chooses a platform."""
from __future__ import annotations

import os
import weakref

import cffi

from ..codegen.toolchain import build_shared
from .device_binding import DeviceBinding
from .library import CompiledLibrary

LIBRARIES = ("libOpenCL.so.1", "libOpenCL.so", "OpenCL.dll", "/System/Library/Frameworks/OpenCL.framework/OpenCL")
HOST_FIXED, HOST_EACH = 128, 16  # bytes of an instance, as codegen/opencl_package.py counts them
_ALL_DEVICES, _READ_WRITE = 0xFFFFFFFF, 1
_CDEF = """
int clGetPlatformIDs(unsigned, void **, unsigned *);
int clGetDeviceIDs(void *, uint64_t, unsigned, void **, unsigned *);
void *clCreateContext(const intptr_t *, unsigned, void *const *, void *, void *, int *);
void *clCreateCommandQueueWithProperties(void *, void *, const uint64_t *, int *);
void *clSVMAlloc(void *, uint64_t, size_t, unsigned);
void clSVMFree(void *, void *);
int clEnqueueSVMMemcpy(void *, unsigned, void *, const void *, size_t, unsigned, void *, void *);
int clFinish(void *);
"""


class OpenCLError(RuntimeError):
    """OpenCL, a device of it, or memory that is not there; `status` is OpenCL's code, 0 where it has none."""

    def __init__(self, message, status=0):
        super().__init__(message)
        self.status = status


class Queue:
    """A queue of a device, in order, with memory that both the host's pointers and kernels know."""

    def __init__(self):
        self.ffi = cffi.FFI()
        self.ffi.cdef(_CDEF)
        self._cl = self._load()
        self._context, self.handle = self._opened()

    def _load(self):
        for name in LIBRARIES:
            try:  # for the libraries of networks, too, which call it
                return self.ffi.dlopen(name, self.ffi.RTLD_NOW | self.ffi.RTLD_GLOBAL)
            except OSError:
                continue
        raise OpenCLError("no OpenCL here: no ICD loader (on Debian and Ubuntu: ocl-icd-libopencl1)")

    def _opened(self):
        ffi, cl, count, status = self.ffi, self._cl, self.ffi.new("unsigned *"), self.ffi.new("int *")
        platforms, device = ffi.new("void *[16]"), ffi.new("void **")
        cl.clGetPlatformIDs(16, platforms, count)
        number = int(os.environ.get("INGOT_OPENCL_PLATFORM", 0))
        if number >= min(count[0], 16):
            raise OpenCLError(f"no OpenCL platform {number} here: there are {count[0]} (pocl runs on CPUs: on Debian "
                              "and Ubuntu pocl-opencl-icd)")
        self.check("clGetDeviceIDs", cl.clGetDeviceIDs(platforms[number], _ALL_DEVICES, 1, device, ffi.NULL))
        context = cl.clCreateContext(ffi.NULL, 1, device, ffi.NULL, ffi.NULL, status)
        self.check("clCreateContext", status[0])
        queue = cl.clCreateCommandQueueWithProperties(context, device[0], ffi.NULL, status)
        self.check("clCreateCommandQueueWithProperties", status[0])
        return context, queue

    @staticmethod
    def check(name, status):
        if status:
            raise OpenCLError(f"{name} failed: OpenCL's error {status}", status)

    def memory(self, size, align=128):
        """A Memory of at least `size` bytes at a multiple of `align`."""
        return Memory(self, self._cl, self._context, max(size, 1), align)

    def copy(self, dst, src, size):
        """Copy bytes and wait; dst and src: pointers of cffi's, or arrays."""
        if size:
            dst, src = (self.ffi.from_buffer(p) if hasattr(p, "ctypes") else p for p in (dst, src))
            self.check("clEnqueueSVMMemcpy", self._cl.clEnqueueSVMMemcpy(
                self.handle, 1, dst, src, size, 0, self.ffi.NULL, self.ffi.NULL))

    def finish(self):
        self.check("clFinish", self._cl.clFinish(self.handle))


class Memory:
    """Shared virtual memory, freed with the object. `pointer` is cffi's."""

    def __init__(self, queue, cl, context, size, align):
        block = cl.clSVMAlloc(context, _READ_WRITE, size + align, 0)
        if block == queue.ffi.NULL:
            raise OpenCLError(f"clSVMAlloc has no {size} bytes, or the device has no shared virtual memory")
        address = int(queue.ffi.cast("uintptr_t", block))
        self.size, self.pointer = size, queue.ffi.cast("void *", -(-address // align) * align)
        weakref.finalize(self, cl.clSVMFree, context, block)


class OpenCLBinding(DeviceBinding):
    """One instance of a network, with its queue."""

    def __init__(self, path, model, weights=None):
        self._queue, self._tensors = Queue(), {}
        super().__init__(path, model, weights, HOST_FIXED + HOST_EACH * len(model.kernels), self._queue.ffi)

    def run(self, dims, inputs, outputs):
        """One inference on arrays, which are copied to the device and back."""
        places = [self._place(n, array) for n, array in enumerate((*inputs, *outputs))]
        for array, place in zip(inputs, places):
            self._queue.copy(place, array, array.nbytes)
        self.enqueue(dims, places, self._queue.handle)
        self._queue.finish()
        for array, place in zip(outputs, places[len(inputs):]):
            self._queue.copy(array, place, array.nbytes)

    def bound(self, dims, inputs, outputs):
        """`run` as a function without arguments."""
        return lambda: self.run(dims, inputs, outputs)

    def _place(self, n, array):
        """Memory of the device for tensor n, kept from run to run while it is large enough."""
        if n not in self._tensors or self._tensors[n].size < array.nbytes:
            self._tensors[n] = self._queue.memory(array.nbytes)
        return self._tensors[n].pointer

    def allocate(self, size, align):
        return self._queue.memory(size, align)

    def pointer_of(self, memory):
        return memory.pointer

    def upload(self, memory, array):
        self._queue.copy(memory.pointer, array, len(array))

    def reason(self, code):
        return f"OpenCL's error {code}"

    def release(self):
        self._queue.finish()
        self._function("release")(self._net[0])


class OpenCLLibrary(CompiledLibrary):
    """A network compiled for OpenCL, the result of `ingot.compile(model, target="opencl")`: called with numpy arrays,
    which are copied. The device's driver compiles the kernels at the first call, which raises OpenCLError where there
    is no device."""

    def _check_target(self):
        """Any machine builds it."""

    def _bound(self, sources):
        path = build_shared(sources, self._folder / f"{self.name}.so", self.model.target, "none", self._jobs)
        return OpenCLBinding(path, self.model, self._weights_of(sources))

    def profiler(self, *arrays):
        raise NotImplementedError("a profile by Python is of networks on the CPU: use the tools of the device's maker")
