"""LowerRuntimeBuiltin (VMBuiltinLower): what graphs ask of the runtime as calls of its functions vm.builtin.*."""
from __future__ import annotations

from ...node import Mutator
from ...relax.expr import (DataTypeImm, PrimValue, RelaxCall, RelaxTuple, ShapeExpr, ShapeStructInfo, TupleStructInfo,
                           call_builtin_with_ctx)
from ...relax.op import call as operator
from ...relax.struct_info import ObjectStructInfo

_LIBRARY = "vm.builtin."
_DEVICES = {"cpu": 1, "cuda": 2, "opencl": 4}  # DLPack's numbers; CPUs by any other name


def lower_runtime_builtin(func):
    """A graph function whose memory is of R.vm.alloc_storage and R.vm.alloc_tensor, and whose R.reshape, R.shape_of,
    R.tensor_to_shape, R.to_vdevice, closures and R.vm.call_tir_dyn are calls of functions vm.builtin.*, and R.memory.view
    one of runtime.TVMArrayCreateView, where the tensor's shape and dtype are known. ValueError for
    R.builtin.alloc_tensor, which LowerAllocTensor lowers before, and TypeError for a reshape by what is no shape."""
    return _Lower().visit(func)


class _Lower(Mutator):
    def visit_Constant(self, constant):
        return constant

    def visit_RelaxCall(self, call):
        call = self.generic_visit(call)
        rule = _RULES.get(call.op) if isinstance(call.op, str) else None
        return call if rule is None else rule(call)


def _packed(name, *args, info):
    return RelaxCall("call_packed", args, {"func": _LIBRARY + name}, info)


def _same_arguments(name):
    return lambda call: _packed(name, *call.args, info=call.struct_info)


def _reshape(call):
    if not isinstance(call.args[1].struct_info, ShapeStructInfo):
        raise TypeError(f"LowerRuntimeBuiltin: reshape takes a shape, got {call.args[1].struct_info}")
    return _same_arguments("reshape")(call)


def _to_device(call):
    device = call.attrs["dst_vdevice"]
    kind = next((n for name, n in _DEVICES.items() if str(device.target).startswith(name)), _DEVICES["cpu"])
    return _packed("to_device", call.args[0], PrimValue(kind), PrimValue(device.vdevice_id), info=call.struct_info)


def _spread(name, info):
    """A call of a function and a tuple as one of the function and the tuple's fields."""
    return lambda call: _packed(name, call.args[0], *_fields(name, call), info=info)


def _fields(name, call):
    if not isinstance(call.args[1], RelaxTuple):
        raise ValueError(f"LowerRuntimeBuiltin: the arguments of {call.op} must be a tuple that is written out")
    return call.args[1].fields


def _invoke(call):
    info = ObjectStructInfo() if call.struct_info is None else call.struct_info
    return call_builtin_with_ctx(f"{_LIBRARY}invoke_closure", (call.args[0], *_fields("invoke_closure", call)),
                                 sinfo_args=info)


def _view(call):
    """A call of what makes views, of all that one is; memory.view itself where the tensor's shape or dtype is not known."""
    given = dict(zip(call.attrs.get("operands", _OF_VIEWS), call.args))
    data = given["data"]
    info = data.struct_info
    shape = given.get("shape") or (ShapeExpr(info.dims) if info.dims is not None else None)
    dtype = given.get("dtype") or (DataTypeImm(info.dtype) if info.dtype != "void" else None)
    if shape is None or dtype is None:
        return call
    args = (data, shape, dtype, given.get("relative_byte_offset") or PrimValue(0))
    return RelaxCall("call_pure_packed", args, {"func": "runtime.TVMArrayCreateView"}, call.struct_info)


def _unplanned(call):
    raise ValueError("LowerRuntimeBuiltin: R.builtin.alloc_tensor is left; apply LowerAllocTensor before")


def _storage(call):
    size, device, scope, _ = call.args
    return operator("vm.alloc_storage", size, device, "uint8", scope)


def _kill(call):
    return operator("vm.kill_object", call.args[0])


_OF_VIEWS = ("data", "shape", "dtype", "relative_byte_offset")
_RULES = {
    "memory.view": _view,
    "vm.call_tir_dyn": _spread("call_tir_dyn", TupleStructInfo(())), "reshape": _reshape,
    **{name: _same_arguments(name) for name in ("shape_of", "tensor_to_shape")}, "to_vdevice": _to_device,
    "make_closure": _spread("make_closure", ObjectStructInfo()),
    **dict.fromkeys(("invoke_closure", "invoke_pure_closure"), _invoke),
    "builtin.alloc_tensor": _unplanned, "memory.alloc_storage": _storage,
    "memory.alloc_tensor": lambda call: operator("vm.alloc_tensor", *call.args),
    **dict.fromkeys(("memory.kill_storage", "memory.kill_tensor"), _kill),
}
__all__ = ["lower_runtime_builtin"]
