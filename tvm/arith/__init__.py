"""tvm.arith: integer analysis."""
from ...ir import arith as _arith
from ...ir.arith import *  # noqa: F401,F403
from . import _ffi_api  # noqa: F401


def __getattr__(name):
    return getattr(_arith, name)
