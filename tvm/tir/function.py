"""tvm.tir.function: PrimFuncs, index maps and intrinsics for tensorize."""
from ...ir.schedule import TensorIntrin  # noqa: F401
from ...ir.tir import function as _function
from ...ir.tir.function import PrimFunc  # noqa: F401
from ...ir.tir.index_map import IndexMap  # noqa: F401


def __getattr__(name):
    return getattr(_function, name)
