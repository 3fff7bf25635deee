"""tvm.relax.frontend: what reads networks. nn and torch are ingot.frontend's; onnx has TVM's arguments."""
from importlib import import_module as _import_module

from ....frontend.params import detach_params  # noqa: F401
from ...absent import FRONTENDS


def __getattr__(name):
    if name == "onnx":
        return _import_module(".onnx", __name__)
    if name in ("nn", "torch"):
        return _import_module(f"....frontend.{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; {FRONTENDS}")
