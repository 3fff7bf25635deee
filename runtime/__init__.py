"""How Python runs compiled code: networks (CompiledLibrary), modules of functions (Module), and tensors (NDArray)."""
from ..ir.dtype import DataType, DataTypeCode
from ..ir.expr import const
from ..ir.node import Node as Object
from ..ir.object_path import ObjectPath
from . import builtins as container, vm_functions  # noqa: F401
from .binding import NetworkError
from .convert import ObjectGeneric, String, convert
from .device import Device, cpu, cuda, device
from .evaluator import BenchmarkResult
from .executable import Executable, load_module
from .library import CompiledLibrary
from .builtins import ShapeTuple
from .module import Module, ModulePropertyMask, enabled
from .module_executable import ModuleExecutable  # noqa: F401  (what Executable makes of a Module)
from .ndarray import NDArray
from .packed import ModuleError, PackedFunc
from .params import load_param_dict, load_param_dict_from_file, save_param_dict, save_param_dict_to_file
from .sample import sample_inputs
from .shapes import InputError
from .timing import Timing
from .verify import compare_outputs

__all__ = ["BenchmarkResult", "CompiledLibrary", "DataType", "DataTypeCode", "Device", "Executable", "InputError",
           "Module", "ModuleError", "ModulePropertyMask", "NDArray", "NetworkError", "Object",
           "ObjectGeneric", "ObjectPath", "PackedFunc", "ShapeTuple", "String", "Timing",
           "compare_outputs", "const", "convert", "cpu", "cuda", "device", "enabled", "load_module", "load_param_dict",
           "load_param_dict_from_file", "sample_inputs", "save_param_dict", "save_param_dict_to_file"]
