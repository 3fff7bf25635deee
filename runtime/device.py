"""Devices by DLPack's numbers. Code runs on the CPU, and on CUDA's; others have a name, for scripts that ask for them."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

CPU, CUDA = 1, 2
_NAMES = {CPU: "cpu", CUDA: "cuda", 3: "cuda_host", 4: "opencl", 7: "vulkan", 8: "metal", 9: "vpi", 10: "rocm",
          12: "ext_dev", 15: "webgpu", 16: "hexagon"}
_TYPES = {"cpu": CPU, "llvm": CPU, "c": CPU, "cuda": CUDA, "gpu": CUDA, "nvptx": CUDA, "cl": 4, "mtl": 8,
          **{name: number for number, name in _NAMES.items()}}


@dataclass(frozen=True)
class Backend:
    """What is done with devices of a kind. why_absent(index): why one cannot be used, one line, or None; synchronize(
    index); empty(shape, dtype, device): a new tensor; version(index): "8.0", or None of what has none."""

    why_absent: Callable
    synchronize: Callable
    empty: Callable
    version: Callable = lambda index: None


BACKENDS = {}  # DLPack's number: Backend, from the modules that have its tensors


@dataclass(frozen=True)
class Device:
    """device_type: DLPack's number; index: which one of these devices."""

    device_type: int
    index: int = 0

    @property
    def device_id(self):
        return self.index

    @property
    def exist(self):
        """Whether code can run there."""
        return self.device_type in BACKENDS and BACKENDS[self.device_type].why_absent(self.index) is None

    @property
    def compute_version(self):
        """The version of a CUDA device, such as "8.0"; None where there is none, and of the CPU."""
        return BACKENDS[self.device_type].version(self.index) if self.exist else None

    def sync(self, stream=None):
        """Wait for the device. On the CPU calls return when their work is done, so there is nothing to wait for."""
        if self.device_type not in BACKENDS:
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


def cpu(dev_id=0):
    """The CPU."""
    return Device(CPU, dev_id)


def cuda(dev_id=0):
    """A CUDA device; `exist` says whether it is there."""
    return Device(CUDA, dev_id)
