"""tvm.relax: graphs, their passes, and how they are built and run."""
from importlib import import_module as _import_module

from ...ir import relax as _relax
from ...ir.relax import *  # noqa: F401,F403
from ...ir.upper import provides as _provides
from . import analysis, expr_functor  # noqa: F401
from .expr_functor import PyExprMutator, PyExprVisitor  # noqa: F401

expr = _import_module(".expr", __name__)  # not that of ir.relax, which is in what * gives
Expr, BindingBlock, Var = expr.Expr, expr.BindingBlock, expr.Var
_BUILT = ("build", "Executable", "VirtualMachine", "VMInstrumentReturnKind")  # in vm.py, which loads the runtime


class _Types(type):
    """What TVM's types were: struct info without dimensions."""

    def __call__(cls, *args, **kwargs):
        return cls.make(*args, **kwargs)

    def __instancecheck__(cls, value):
        return isinstance(value, cls.info)


class TensorType(metaclass=_Types):
    info = _relax.TensorStructInfo

    @staticmethod
    def make(ndim=-1, dtype="float32"):
        return _relax.TensorStructInfo(None, dtype, ndim)


class ShapeType(metaclass=_Types):
    info = _relax.ShapeStructInfo

    @staticmethod
    def make(ndim=-1):
        return _relax.ShapeStructInfo(None, ndim)


# What frontend/nn, which is below the runtime, has its modules compiled by, and holds its parameters in.
_provides("nn_jit")(lambda *args: _import_module(".jit", __name__).jit(*args))
_provides("as_ndarray")(lambda data: _import_module("...runtime.ndarray", __name__).array(data))
_provides("shared_ndarray")(lambda data: _import_module("...runtime.ndarray", __name__).from_dlpack(data))
_provides("dynamo_runner")(lambda mod: _import_module(".jit", __name__).runner(mod))
DynTensorType = TensorType
ObjectType, TupleType, FuncType = _relax.ObjectStructInfo, _relax.TupleStructInfo, _relax.FuncStructInfo


def __getattr__(name):
    if name in ("backend", "dpl", "pipeline", "testing", "training", "transform", "utils"):  # load every pass
        return _import_module(f".{name}", __name__)
    if name in ("vm", "vm_build"):
        return _import_module(".vm", __name__)
    if name in ("ExecBuilder", "VMFuncKind", "exec_builder"):
        module = _import_module(".exec_builder", __name__)
        return module if name == "exec_builder" else getattr(module, name)
    if name in ("get_pipeline", "get_default_pipeline", "register_pipeline"):
        return getattr(_import_module(".pipeline", __name__), name)
    if name == "frontend":
        return _import_module(".frontend", __name__)
    if name in _BUILT:
        return getattr(_import_module(".vm", __name__), name)
    return getattr(_relax, name)
