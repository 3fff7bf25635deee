"""Devices by DLPack's numbers. Code runs on the CPU and on CUDA's; the others have a name, and do not exist here."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

CPU, CUDA = 1, 2
_NAMES = {CPU: "cpu", CUDA: "cuda", 3: "cuda_host", 4: "opencl", 7: "vulkan", 8: "metal", 9: "vpi", 10: "rocm",
          12: "ext_dev", 15: "webgpu", 16: "hexagon"}
_TYPES = {**{name: number for number, name in _NAMES.items()}, "llvm": CPU, "c": CPU, "gpu": CUDA, "nvptx": CUDA,
          "cl": 4, "mtl": 8}
# What a device may say of itself; None where it does not say.
FACTS = ("api_version", "available_global_memory", "compute_version", "device_name", "driver_version",
         "l2_cache_size_bytes", "max_clock_rate", "max_shared_memory_per_block", "max_thread_dimensions",
         "max_threads_per_block", "multi_processor_count", "total_global_memory", "warp_size")


@dataclass(frozen=True)
class Backend:
    """What is done with devices of a kind. why_absent(index): why one cannot be used, one line, or None; synchronize(
    index); empty(shape, dtype, device): a new tensor; facts(index): {name of FACTS: what}."""

    why_absent: Callable
    synchronize: Callable
    empty: Callable
    facts: Callable = lambda index: {}


BACKENDS = {}  # DLPack's number: Backend, from the modules that have its tensors


@dataclass(frozen=True)
class Device:
    """device_type: DLPack's number; index: which one of these devices. The names of FACTS are attributes: a CUDA
    device's "8.0", bytes, threads ...; None of one that is not there, and of the CPU."""

    device_type: int
    index: int = 0

    @property
    def device_id(self):
        return self.index

    @property
    def exist(self):
        """Whether code can run there."""
        return self.device_type in BACKENDS and BACKENDS[self.device_type].why_absent(self.index) is None

    def __getattr__(self, name):
        if name not in FACTS:
            raise AttributeError(f"a Device has no {name}")
        return BACKENDS[self.device_type].facts(self.index).get(name) if self.exist else None

    def sync(self, stream=None):
        """Wait for the device. On the CPU calls return when their work is done, so there is nothing to wait for."""
        if not self.exist:
            raise ValueError(f"there is no device {self} here")
        BACKENDS[self.device_type].synchronize(self.index)

    def __str__(self):
        return f"{_NAMES.get(self.device_type, self.device_type)}({self.index})"

    __repr__ = __str__


def device(dev_type, dev_id=0):
    """The Device of a name ("cpu", "llvm", "cuda", "cuda:1") or of DLPack's number."""
    if isinstance(dev_type, str):
        kind, _, number = dev_type.partition(":")
        kind = (kind.split() or [""])[0]  # "llvm -mcpu=..."
        if kind not in _TYPES or number and not number.isdigit():
            raise ValueError(f"unknown device {dev_type!r}; known: {', '.join(_TYPES)}")
        return Device(_TYPES[kind], int(number or dev_id))
    if dev_type not in _NAMES:
        raise ValueError(f"unknown device type {dev_type}; known: " +
                         ", ".join(f"{n} ({name})" for n, name in _NAMES.items()))
    return Device(dev_type, dev_id)


for _number, _name in _NAMES.items():  # Device.kDLCPU, Device.kDLExtDev
    _parts = (part.upper() if part in ("cpu", "cuda", "vpi", "rocm") else part.title() for part in _name.split("_"))
    setattr(Device, "kDL" + "".join(_parts), _number)


def _of_kind(number):
    def make(dev_id=0):
        return Device(number, dev_id)
    make.__name__ = _NAMES[number]
    make.__doc__ = f"The {_NAMES[number]} device of a number; `exist` says whether it is there."
    return make


cpu, cuda, cuda_host, opencl, vulkan, metal, vpi, rocm, ext_dev, webgpu, hexagon = map(_of_kind, _NAMES)
