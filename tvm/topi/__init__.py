"""tvm.topi: the operator library (ir/topi), and schedules of stages for what it computes: topi.cuda, topi.generic;
topi.gpu has sorting and sums."""
from ...ir import topi as _topi

_MODULES = ("cuda", "generic", "gpu", "testing")


def __getattr__(name):
    if name in _MODULES:
        from importlib import import_module
        return import_module(f"{__name__}.{name}")
    return getattr(_topi, name)


def __dir__():
    return sorted({*dir(_topi), *_MODULES})
