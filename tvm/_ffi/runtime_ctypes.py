"""tvm._ffi.runtime_ctypes"""
from ...runtime.device import Device  # noqa: F401
