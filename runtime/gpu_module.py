"""GpuModule: functions that run on a GPU, as tvm.build makes them. It is built and loaded at the first call."""
from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import cffi
import numpy as np

from ..codegen.package import evaluate_dim
from ..codegen.toolchain import build_shared
from ..ir.dtype import DataType
from ..ir.expr import IntImm, Var
from ..ir.tir.buffer import Buffer
from .cuda_array import CudaArray, empty, from_other, is_on_cuda, why_misaligned
from .cudart import Event, cudart, use_device
from .device import CUDA, Device
from .evaluator import BenchmarkResult
from .shapes import InputError, shape_text

_LAUNCH = "int {name}_launch(const unsigned *extents, size_t shared, void *stream, void **arguments);"


class GpuError(RuntimeError):
    """A launch that the device refused, or a kind of device that Python cannot run functions on."""


class DeviceSource:
    """The kernels of a module: get_source() is their text."""

    def __init__(self, module):
        self._module, self.type_key = module, str(module.target.kind)

    def get_source(self, fmt=""):
        if fmt not in ("", self.type_key, "cu", "cl"):
            raise ValueError(f"the source is {self.type_key}: fmt must be \"\" or {self.type_key!r}, not {fmt!r}")
        return self._module.source()

    @property
    def imported_modules(self):
        return []


class GpuModule:
    """Functions on a GPU.

        mod["name"](a, b)                         calls a function with arrays on the device, nd.array(x, tvm.cuda(0))
        mod(a, b)                                 calls the module's entry: its only function, or main
        mod.imported_modules[0].get_source()      the kernels' text
        mod.get_source()                          what each function launches

    A call raises CudaError, with CUDA's reason, where there is no device.
    """

    def __init__(self, module):
        """module: a codegen.device_module.DeviceModule."""
        self._module, self.type_key = module, str(module.target.kind)
        self._functions = {f.name: GpuFunction(self, f) for f in module.functions}
        self._lock, self._library, self._ffi, self._folder = threading.Lock(), None, cffi.FFI(), None

    @property
    def imported_modules(self):
        return [DeviceSource(self._module)]

    @property
    def function_names(self):
        """Names of the functions, in order."""
        return tuple(self._functions)

    def get_function(self, name, query_imports=False):
        """The GpuFunction called `name`. Raises AttributeError where there is none."""
        name = self.entry_name if name == "__tvm_main__" else name
        if name not in self._functions:
            raise AttributeError(f"the module has no function {name!r}; it has {', '.join(self._functions)}")
        return self._functions[name]

    __getitem__ = get_function

    def implements_function(self, name, query_imports=False):
        return name in self._functions

    @property
    def entry_name(self):
        """The name of the function that mod(...) calls; AttributeError where several could be meant."""
        if not self._module.entry:
            raise AttributeError("the module has several functions and none is called main or marked with "
                                 f"tir.is_entry_func; call one by name: {', '.join(self._functions)}")
        return self._module.entry

    @property
    def entry_func(self):
        return self.get_function(self.entry_name)

    def __call__(self, *args):
        return self.entry_func(*args)

    def get_source(self, fmt=""):
        """What each function launches. The kernels are imported_modules[0].get_source()."""
        return self._module.host()

    def time_evaluator(self, func_name, dev, number=10, repeat=1, min_repeat_ms=0, cooldown_interval_ms=0,
                       repeats_to_cooldown=1, f_preproc=""):
        """A function that times calls of `func_name` by the device's events and returns a BenchmarkResult. Each of
        `repeat` measurements is the mean of `number` calls, of more where these take less than min_repeat_ms. The other
        arguments are of the CPU's."""
        if not (isinstance(dev, Device) and dev.device_type == CUDA):
            raise ValueError(f"functions of this module run on tvm.cuda(0), not on {dev}")
        if number < 1 or repeat < 1:
            raise ValueError(f"number and repeat must be at least 1, not {number} and {repeat}")
        func = self.get_function(func_name)

        def evaluate(*args):
            use_device(dev.index)
            func(*args)
            times, count = [], number
            for _ in range(repeat):
                seconds = _seconds(func, args, count, dev.index)
                while seconds * 1e3 < min_repeat_ms:
                    count = max(count + 1, min(count * 10, int(count * min_repeat_ms * 1.1e-3 / max(seconds, 1e-9))))
                    seconds = _seconds(func, args, count, dev.index)
                times.append(seconds / count)
            return BenchmarkResult(tuple(times))
        return evaluate

    # ------------------------------------------------------------ for functions

    def launch(self, symbol, extents, shared, arguments, stream=0):
        """Enqueue a kernel. arguments: cffi cells of what it takes."""
        ffi = self._ffi
        cells = ffi.new("void *[]", [ffi.cast("void *", cell) for cell in arguments] or [ffi.NULL])
        status = getattr(self._loaded(), f"{symbol}_launch")(
            ffi.new("unsigned[6]", extents), shared, ffi.cast("void *", stream), cells)
        if status:
            raise GpuError(f"kernel {symbol} cannot be launched on blocks {tuple(extents[:3])} of threads "
                           f"{tuple(extents[3:])}: {cudart().error_text(status)}")

    def _loaded(self):
        """The library, which nvcc makes at first. Raises ToolchainError."""
        with self._lock:
            if self._library is None:
                for k in self._module.kernels:
                    self._ffi.cdef(_LAUNCH.format(name=k.function.name))
                self._folder = tempfile.TemporaryDirectory(prefix="ingot-")
                folder = Path(self._folder.name)
                for name, text in self._module.files().items():
                    (folder / name).write_text(text)
                path = build_shared([folder / "module.cu"], folder / "module.so", self._module.target, "none")
                self._library = self._ffi.dlopen(str(path))
            return self._library


def _seconds(func, args, count, index):
    start, end = Event(index), Event(index)
    start.record()
    for _ in range(count):
        func(*args)
    end.record()
    end.synchronize()
    return end.seconds_since(start)


class GpuFunction:
    """A function of a GpuModule, called with arrays on the device and numbers; outputs are written in place.

    Raises InputError (a ValueError) or TypeError naming the argument that does not fit.
    """

    def __init__(self, module, function):
        self._module, self._function, self.name = module, function, function.name
        self._workspaces = {}

    def __call__(self, *args):
        kind = self._module.type_key
        if kind != "cuda":
            raise GpuError(f"{self.name}: functions for {kind} are text here; compile a network for {kind} to a "
                           "folder, whose host code runs its kernels")
        use_device(0)
        given, values = self._checked(args)
        ffi = self._module._ffi
        for b in self._function.workspace:
            given[id(b.data)] = self._workspace(b, values)
        for symbol, kernel in self._function.launches:
            cells = [self._cell(ffi, kernel.func, p, given, values) for p in kernel.func.params]
            extents = [evaluate_dim(e, values) for e in (*kernel.grid, *kernel.block)]
            self._module.launch(symbol, extents, evaluate_dim(kernel.shared, values), cells)

    def _cell(self, ffi, func, p, given, values):
        buffer = func.buffer_map.get(p)
        if buffer is not None:
            return ffi.new("void **", ffi.cast("void *", given[id(buffer.data)].pointer))
        cell = np.array([values[p.name]], p.dtype.numpy)
        return ffi.from_buffer(cell)

    def _workspace(self, buffer, values):
        size = evaluate_dim(buffer.shape[0], values)
        found = self._workspaces.get(id(buffer))
        if found is None or found.shape[0] < size:
            found = self._workspaces[id(buffer)] = empty((size,), buffer.dtype, Device(CUDA, 0))
        return found

    # ------------------------------------------------------------ arguments

    def _checked(self, args):
        """({id of a data pointer: array}, {name of a scalar or dimension: value})."""
        signature = self._function.signature
        if len(args) != len(signature):
            raise InputError(f"{self.name}: {len(args)} arguments given, {len(signature)} expected: "
                             f"{', '.join(x.name for x in signature)}")
        given, values, shapes = {}, {}, []
        flat = iter(self._function.func.buffers)
        for x, value in zip(signature, args):
            if isinstance(x, Buffer):
                array = self._array(x, value)
                given[id(next(flat).data)] = array
                shapes.append((x, array))
            else:
                values[x.name] = value
        for x, array in shapes:
            for extent, size in zip(x.shape, array.shape):
                if isinstance(extent, Var):
                    values.setdefault(extent.name, size)
        for x, array in shapes:
            want = tuple(e.value if isinstance(e, IntImm) else evaluate_dim(e, values) for e in x.shape)
            if want != tuple(array.shape):
                raise InputError(f"{self.name}: argument {x.name} has shape {shape_text(array.shape)}, expected "
                                 f"{shape_text(want)}")
        return given, values

    def _array(self, x, value):
        if not (isinstance(value, CudaArray) or is_on_cuda(value)):
            raise TypeError(f"{self.name}: argument {x.name} is a {type(value).__name__} that is not on the device; "
                            "copy it there: tvm.nd.array(x, tvm.cuda(0))")
        array = value if isinstance(value, CudaArray) else from_other(value)
        if DataType(array.dtype) != x.dtype:
            raise InputError(f"{self.name}: argument {x.name} has dtype {array.dtype}, expected {x.dtype}")
        if why := why_misaligned(array):
            raise InputError(f"{self.name}: argument {x.name} {why}")
        if len(array.shape) != len(x.shape):
            raise InputError(f"{self.name}: argument {x.name} has {len(array.shape)} dimensions, expected "
                             f"{len(x.shape)}")
        return array

    def __repr__(self):
        return f"<ingot GpuFunction {self.name}>"


__all__ = ["DeviceSource", "GpuError", "GpuFunction", "GpuModule"]
