"""tvm.relax: graphs, their passes, and how they are built and run."""
from importlib import import_module as _import_module

from ...ir import relax as _relax
from ...ir.relax import *  # noqa: F401,F403
from . import analysis, expr_functor  # noqa: F401
from .expr_functor import PyExprMutator, PyExprVisitor  # noqa: F401

_BUILT = ("build", "Executable", "VirtualMachine")  # in vm.py, which loads the runtime


def DynTensorType(ndim=-1, dtype="float32"):  # noqa: N802 (TVM's name)
    """What TVM called the struct info of a tensor of unknown shape."""
    return _relax.TensorStructInfo(None, dtype, ndim)


TensorType = DynTensorType


ObjectType = _relax.ObjectStructInfo
TupleType = _relax.TupleStructInfo


def FuncType(arg_types, ret_type):  # noqa: N802
    """What TVM's types have for functions."""
    return _relax.FuncStructInfo(arg_types, ret_type)


def ShapeType(ndim=-1):  # noqa: N802
    """What TVM's types have for shapes."""
    return _relax.ShapeStructInfo(None, ndim)


def __getattr__(name):
    if name == "transform":  # loads every pass
        return _import_module(".transform", __name__)
    if name in ("vm", "vm_build"):
        return _import_module(".vm", __name__)
    if name in _BUILT:
        return getattr(_import_module(".vm", __name__), name)
    return getattr(_relax, name)
