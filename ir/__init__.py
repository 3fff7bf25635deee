"""What a program is, and how it may be rewritten. The names here are those of both IRs: `from ingot import ir`."""
from .compare import assert_structural_equal  # noqa: F401
from .expr import IntImm, FloatImm, PrimExpr, Range, StringImm  # noqa: F401
from .module import BaseFunc, GlobalVar, IRModule  # noqa: F401
from .node import Node, load_json, save_json, structural_equal, structural_hash  # noqa: F401


def __getattr__(name):
    """ir.transform and ir.instrument, as TVM has them; what is here must not need them."""
    if name in ("transform", "instrument"):
        from importlib import import_module
        return import_module(".transform" if name == "transform" else ".transform.instrument", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
