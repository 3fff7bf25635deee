"""How Python runs compiled code: networks (CompiledLibrary), modules of functions (Module), and tensors (NDArray)."""
from ..ir.dtype import DataType
from ..ir.expr import const
from .binding import NetworkError
from .convert import convert
from .device import Device, cpu, cuda, device
from .evaluator import BenchmarkResult
from .library import CompiledLibrary
from .module import Module, enabled, load_module
from .ndarray import NDArray
from .packed import ModuleError, PackedFunc
from .sample import sample_inputs
from .shapes import InputError
from .timing import Timing
from .verify import compare_outputs

__all__ = ["BenchmarkResult", "CompiledLibrary", "DataType", "Device", "InputError", "Module", "ModuleError", "NDArray",
           "NetworkError", "PackedFunc", "Timing", "compare_outputs", "const", "convert", "cpu", "cuda", "device",
           "enabled", "load_module", "sample_inputs"]
