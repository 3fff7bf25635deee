"""tvm._ffi: its errors."""
from . import base  # noqa: F401
