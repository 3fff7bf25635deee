"""tvm._ffi: its errors, devices, and functions by name."""
from ...runtime.registry import get_global_func, list_global_func_names, register_func  # noqa: F401
from . import base, registry, runtime_ctypes  # noqa: F401
