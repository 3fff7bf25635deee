"""Calls of relax.op that no operator of the table computes: of runtimes, devices, closures, training. Each is a
function from its arguments to struct info; `operands` names those that are values."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import IntImm
from ..vdevice import VDevice
from .classic import plain
from .composites import operands
from .expr import (DERIVED, DataflowVar, DataTypeImm, ObjectStructInfo, PrimStructInfo, RelaxCall, RelaxString, RelaxVar,
                   ShapeExpr, ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo, as_struct_info)
from .ops.common import InferTypeError, fail, product, shape_text

VOID = TupleStructInfo(())
AS_VALUES = {"dtype": DataTypeImm, "storage_scope": RelaxString}  # what a string given as such an operand is


def _tensor(name, value):
    info = value.struct_info
    if not isinstance(info, TensorStructInfo):
        fail(name, f"takes a tensor, got {info}", InferTypeError)
    return info


def _shape(name, value):
    value = ShapeExpr(tuple(value)) if isinstance(value, (list, tuple)) else value
    info = value.struct_info if hasattr(value, "struct_info") else None
    if not isinstance(info, ShapeStructInfo):
        fail(name, f"takes a shape, got {info or value!r}", InferTypeError)
    return value.values if hasattr(value, "values") else info.values if info.values is not None else value


def _dtype(value):
    """A dtype of a string, an R.dtype, or a string as a value."""
    while hasattr(value, "value") and not isinstance(value, str):
        value = value.value
    return value


def _elements(info):
    dims = info.dims
    if dims is None or not all(isinstance(d, IntImm) for d in dims):
        return None
    count = 1
    for d in dims:
        count *= d.value
    return count


# ---------------------------------------------------------------- memory

@operands("shape dtype runtime_device_index storage_scope")
def alloc_tensor(shape, dtype, runtime_device_index, storage_scope="global"):
    return TensorStructInfo(_shape("builtin.alloc_tensor", shape), _dtype(dtype))


@operands("size virtual_device_index storage_scope dtype")
def alloc_storage(size, virtual_device_index, storage_scope, dtype):
    return ObjectStructInfo()


@operands("storage offset shape dtype")
def storage_tensor(storage, offset, shape, dtype):
    return TensorStructInfo(_shape("memory.alloc_tensor", shape), _dtype(dtype))


@operands("func args")
def call_tir_dyn(func, args):
    return VOID


@operands("value")
def kill(value):
    return VOID


@operands("x")
def same(x):
    return _tensor("this call", x)


@operands("data shape dtype relative_byte_offset")
def view(data, shape=None, dtype=None, relative_byte_offset=None):
    """The bytes of a tensor read as another shape and dtype."""
    info, name = _tensor("memory.view", data), "memory.view"
    dtype = getattr(dtype, "value", dtype)
    kind = dtype.struct_info if hasattr(dtype, "struct_info") else None
    result = info.dtype if dtype is None else "void" if kind is not None else dtype
    offset = relative_byte_offset
    if offset is not None:
        offset = getattr(offset, "value", offset)
        at = getattr(relative_byte_offset, "struct_info", None)
        if at is not None and not isinstance(at, PrimStructInfo):
            fail(name, f"relative_byte_offset must be a number, it is {at}", InferTypeError)
    out = TensorStructInfo(info.shape if shape is None else _shape(name, shape), result,
                           *((info.ndim,) if shape is None and info.shape is None else ()))
    offset = plain(offset) if offset is not None else 0
    if shape is None and dtype is None and isinstance(offset, int) and offset > 0 and _elements(info) != 0:
        fail(name, f"the whole of a tensor from byte {offset} on ends beyond it: give a shape or a dtype")
    return _checked_view(name, info, out, offset)


DERIVED["tvm.relax.struct_info.infer_view_sinfo"] = view


def _checked_view(name, info, out, offset):
    before, after = _elements(info), _elements(out)
    known = info.dtype != "void" and out.dtype != "void"
    if isinstance(offset, int) and offset < 0:
        fail(name, f"relative_byte_offset is {offset}, before the first byte of {shape_text(info)}")
    if known and isinstance(offset, int):
        if before is not None and after is not None:
            if offset + after * out.dtype.bytes > before * info.dtype.bytes:
                fail(name, f"{after} elements of {out.dtype} from byte {offset} on are more than the "
                           f"{before * info.dtype.bytes} bytes of {shape_text(info)}")
        elif isinstance(offset, int) and _larger(out, info):
            fail(name, f"a view of shape {shape_text(out)} is larger than the tensor, {shape_text(info)}")
    elif before is not None and after is not None and info.dtype == out.dtype and after > before:
        fail(name, f"{after} elements are more than the {before} of {shape_text(info)}")
    elif info.dtype == out.dtype == "void" and _larger(out, info):
        fail(name, f"a view of shape {shape_text(out)} is larger than the tensor, {shape_text(info)}")
    return out


def _larger(out, info):
    if not isinstance(out.dims, tuple) or not isinstance(info.dims, tuple):
        return False
    mine, theirs = product(out.dims), product(info.dims)
    sizes = (1, 1) if info.dtype == "void" else (out.dtype.bytes, info.dtype.bytes)
    analyzer = Analyzer()
    return analyzer.can_prove(mine * sizes[0] > theirs * sizes[1])


# ---------------------------------------------------------------- devices, workers

def to_vdevice(data, dst_vdevice):
    if not isinstance(dst_vdevice, VDevice):
        fail("to_vdevice", f"dst_vdevice must be a VDevice, not {dst_vdevice!r}", InferTypeError)
    return _tensor("to_vdevice", data).replace(vdevice=dst_vdevice)


def hint_on_device(data, dst_vdevice, memory_scope="global"):
    return _tensor("hint_on_device", data)


@operands("x")
def allreduce(x, op_type="sum", in_group=True):
    if op_type not in ("sum", "prod", "min", "max", "avg"):
        fail("ccl.allreduce", f"op_type {op_type!r} is none of sum, prod, min, max, avg")
    return _tensor("ccl.allreduce", x)


def allgather(x, num_workers, in_group=True):
    info = _tensor("ccl.allgather", x)
    if info.dims is None:
        return info.replace(shape=None) if info.shape is not None else info
    return TensorStructInfo((info.dims[0] * num_workers, *info.dims[1:]), info.dtype, -1, info.vdevice)


def broadcast_from_worker0(x):
    return _tensor("ccl.broadcast_from_worker0", x)


def scatter_from_worker0(x, num_workers, axis=0):
    info = _tensor("ccl.scatter_from_worker0", x)
    if info.dims is None:
        fail("ccl.scatter_from_worker0", "the tensor's shape must be known")
    dim = info.dims[axis]
    if isinstance(dim, IntImm) and dim.value % num_workers:
        fail("ccl.scatter_from_worker0", f"axis {axis} of {shape_text(info)} does not divide among {num_workers}")
    dims = list(info.dims)
    dims[axis] = dim // num_workers
    return TensorStructInfo(tuple(dims), info.dtype, -1, info.vdevice)


# ---------------------------------------------------------------- tensors whose shapes a run decides

@operands("x begin end strides")
def dynamic_strided_slice(x, begin, end, strides):
    info = _tensor("dynamic_strided_slice", x)
    for what, v in (("begin", begin), ("end", end), ("strides", strides)):
        own = _tensor("dynamic_strided_slice", v)
        if own.ndim not in (1, -1) or own.dtype not in ("int64", "void"):
            fail("dynamic_strided_slice", f"{what} must be int64 of one dimension, it is {own}")
        if own.dims and info.ndim >= 0 and isinstance(own.dims[0], IntImm) and own.dims[0].value != info.ndim:
            fail("dynamic_strided_slice", f"{what} has {own.dims[0].value} numbers, the tensor {info.ndim} dimensions")
    return TensorStructInfo(None, info.dtype, info.ndim)


@operands("x sorted return_index return_inverse return_counts axis")
def unique(x, sorted=True, return_index=False, return_inverse=False, return_counts=False, axis=None):  # noqa: A002
    info = _tensor("unique", x)
    sorted, axis = plain(sorted), plain(axis)  # noqa: A001
    if axis is not None and info.ndim >= 0 and not -info.ndim <= axis < info.ndim:
        fail("unique", f"axis {axis} is outside a tensor of {info.ndim} dimensions")
    rank = 1 if axis is None else info.ndim
    if info.ndim == 0:
        values = TensorStructInfo((1,), info.dtype)
    else:
        values = TensorStructInfo(None, info.dtype, rank)
    fields = [values]
    for asked in (plain(return_index), plain(return_inverse), plain(return_counts)):
        if asked:
            fields.append(TensorStructInfo((1,), "int64") if info.ndim == 0 else TensorStructInfo(None, "int64", 1))
    return fields[0] if len(fields) == 1 else TupleStructInfo(tuple(fields))


def nonzero(x):
    _tensor("nonzero", x)
    return TensorStructInfo(None, "int64", 2)


def tensor_to_shape(x):
    info = _tensor("tensor_to_shape", x)
    if info.ndim not in (1, -1):
        fail("tensor_to_shape", f"takes a tensor of one dimension, got {shape_text(info)}")
    size = info.dims[0] if info.dims else None
    return ShapeStructInfo(None, size.value if isinstance(size, IntImm) else -1)


# ---------------------------------------------------------------- messages, closures

@operands("values")
def print_(*values, format=""):  # noqa: A002
    return VOID


@operands("condition format_args")
def assert_op(condition, format_args=None, format=""):  # noqa: A002
    info = getattr(condition, "struct_info", None)
    if info is not None and getattr(info, "dtype", "bool") not in ("bool", "void"):
        fail("assert_op", f"the condition must be bool, it is {info}", InferTypeError)
    return VOID


@operands("func args")
def make_closure(func, args):
    return ObjectStructInfo()


@operands("closure args")
def invoke_closure(closure, args, sinfo_args):
    return _result(sinfo_args)


def _result(sinfo_args):
    if isinstance(sinfo_args, StructInfo) or hasattr(sinfo_args, "struct_info"):
        return as_struct_info(sinfo_args)
    return as_struct_info(sinfo_args[0]) if len(sinfo_args) == 1 else TupleStructInfo(tuple(sinfo_args))


@operands("")
def null_value():
    return ObjectStructInfo()


# ---------------------------------------------------------------- what is known of a tensor at run time

def _inspected(name, at_axis=False):
    def of_axis(tensor, axis):
        _tensor(f"inspect.{name}", tensor)
        return PrimStructInfo("int64")

    def of_tensor(tensor):
        info = _tensor(f"inspect.{name}", tensor)
        facts = {"tensor_dtype_bits": ("uint8", info.dtype.bits), "tensor_dtype_lanes": ("uint16", info.dtype.lanes),
                 "tensor_dtype_code": ("uint8", info.dtype.type_code)}
        if name == "tensor_ndim":
            return PrimStructInfo("int32") if info.ndim < 0 else PrimStructInfo(value=IntImm("int32", info.ndim))
        dtype, value = facts.get(name, ("int64", None))
        if info.dtype == "void" or value is None:
            return PrimStructInfo(dtype)
        return PrimStructInfo(value=IntImm(dtype, value))
    if at_axis:
        of_axis.operands = "tensor axis"
    return of_axis if at_axis else of_tensor


# ---------------------------------------------------------------- training

def _bound_only(name):
    def checkpoint(input):  # noqa: A002
        if not isinstance(input, (RelaxVar, DataflowVar, RelaxCall)):  # a call is bound before it
            fail(name, "takes a variable: bind the value first", InferTypeError)
        return input.struct_info
    return checkpoint


def no_grad(input):  # noqa: A002
    return input.struct_info


def _like(at):
    def made(*args, **kwargs):
        return args[at].struct_info
    return made


@operands("output_grad predictions targets weights")
def nll_loss_backward(output_grad, predictions, targets, weights=None, reduction="mean", ignore_index=-100):
    return predictions.struct_info


@operands("output_grad data")
def pool_backward(output_grad, data, pool_size=(1, 1), strides=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1),
                  ceil_mode=False, count_include_pad=False, layout="NCHW", out_layout=None):
    return data.struct_info


@operands("output_grad x indices")
def take_backward(output_grad, x, indices, axis=None):
    return x.struct_info


RUNTIME = {
    "builtin.alloc_tensor": alloc_tensor, "builtin.stop_lift_params": same, "memory.view": view,
    "memory.alloc_storage": alloc_storage, "memory.alloc_tensor": storage_tensor, "memory.kill_storage": kill,
    "memory.kill_tensor": kill, "memory.ensure_zero_offset": same, "vm.kill_object": kill,
    "vm.alloc_storage": operands("shape runtime_device_index dtype storage_scope")(
        lambda shape, runtime_device_index, dtype, storage_scope="global": ObjectStructInfo()),
    "vm.alloc_tensor": operands("storage offset shape dtype")(
        lambda storage, offset, shape, dtype: storage_tensor(storage, offset, shape, dtype)),
    "vm.call_tir_dyn": call_tir_dyn,
    "to_vdevice": to_vdevice, "hint_on_device": hint_on_device,
    "ccl.allreduce": allreduce, "ccl.allgather": allgather, "ccl.broadcast_from_worker0": broadcast_from_worker0,
    "ccl.scatter_from_worker0": scatter_from_worker0,
    "dynamic_strided_slice": dynamic_strided_slice, "unique": unique, "nonzero": nonzero,
    "tensor_to_shape": tensor_to_shape, "print": print_, "assert_op": assert_op,
    "make_closure": make_closure, "invoke_closure": invoke_closure, "invoke_pure_closure": invoke_closure,
    "null_value": null_value,
    **{f"inspect.{n}": _inspected(n) for n in ("tensor_dtype_code", "tensor_dtype_bits", "tensor_dtype_lanes",
                                               "tensor_ndim", "tensor_byte_offset", "tensor_elem_offset")},
    **{f"inspect.{n}": _inspected(n, True) for n in ("tensor_shape_i", "tensor_stride_i")},
    "grad.no_grad": no_grad, "grad.start_checkpoint": _bound_only("grad.start_checkpoint"),
    "grad.end_checkpoint": _bound_only("grad.end_checkpoint"), "grad.nll_loss_backward": nll_loss_backward,
    "grad.max_pool2d_backward": pool_backward, "grad.avg_pool2d_backward": pool_backward,
    "grad.take_backward": take_backward,
}
__all__ = ["AS_VALUES", "RUNTIME"]
