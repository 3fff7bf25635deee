"""tvm._ffi: its errors, and devices."""
from . import base, runtime_ctypes  # noqa: F401
