"""tvm._ffi.registry: functions by name."""
from ...runtime.registry import (  # noqa: F401
    get_global_func, list_global_func_names, register_func, remove_global_func)
