"""Builders of calls that programs name and that no row of numbers describes: TVM's runtime, hints, vectors' halves.

Each row is the call's parameters in TVM's order and its dtype. "dtype" among the parameters says the call's dtype and
is no argument. What a target cannot compute of these its code generator refuses, with the call's name.
"""
from __future__ import annotations

from ..dtype import DataType
from ..expr import Call, PrimExpr, StringImm, as_expr, const
from .device_ops import DEVICE_OPS, SHUFFLES

# name: (parameters, the last with a * where it takes any number, the dtype; None: that of the parameter "dtype")
ROWS = {
    "tvm_check_return": ("expected return_unexpected nested_call", "int32"),
    "tvm_thread_invariant": ("cond", "bool"),
    "anylist_getitem": ("list_handle index", "handle"),
    "anylist_resetitem": ("list_handle index", "int32"),
    "anylist_setitem_call_packed": ("list_handle index func_name *args", "int32"),
    "anylist_setitem_call_cpacked": ("list_handle index func_name *args", "int32"),
    "tvm_struct_get": ("arr index field dtype", None),
    "tvm_struct_set": ("arr index field value", "int32"),
    "tvm_stack_alloca": ("kind num", "handle"),
    "tvm_call_packed_lowered": ("name values types begin end", "int32"),
    "tvm_call_cpacked_lowered": ("name values types begin end resource", "int32"),
    "lookup_param": ("param_name", "handle"),
    "isnullptr": ("val", "bool"),
    "assume": ("cond", "bool"),
    "undef": ("", "int32"),
    "tvm_throw_last_error": ("", "handle"),
    "vectorlow": ("dtype vec", None),
    "vectorhigh": ("dtype vec", None),
    "vectorcombine": ("dtype vec1 vec2", None),
    "start_profile_intrinsic": ("id", "handle"),
    "end_profile_intrinsic": ("id", "handle"),
    "dp4a": ("vec1 vec2 acc", "int32"),
    "TVMBackendAllocWorkspace": ("device_type device_id nbytes dtype_code_hint dtype_bits_hint", "handle"),
    "TVMBackendFreeWorkspace": ("device_type device_id ptr", "int32"),
}

PACKED_FUNCTIONS = {}  # name -> the function of Python that programs call by it; runtime/registry.py fills it


def _argument(value):
    """A value as an argument of a call: a buffer is its data pointer."""
    return as_expr(value.data if hasattr(value, "access_ptr") else value)


def _builder(name, params, dtype):
    *params, rest = params if params and params[-1][0] == "*" else (*params, None)

    def build(*args, **named):
        args, more = (args[:len(params)], args[len(params):]) if rest else (args, ())
        of = named.pop("dtype", dtype) if "dtype" not in params else dtype  # as printers say it
        if len(args) > len(params) or any(key not in params[len(args):] for key in named) or (
                len(args) + len(named) != len(params)):
            raise TypeError(f"{name} takes {', '.join(params) or 'no arguments'}")
        values = {**dict(zip(params, args)), **named}
        return Call(of or values["dtype"], f"tir.{name}", (
            *(_argument(values[p]) for p in params if p != "dtype"), *map(_argument, more)))
    build.__name__, build.__doc__ = name, f"The call tir.{name}({', '.join(params)})."
    return build


def _device_builder(name, dtype):
    def build(*args):
        of, args = (args[0], args[1:]) if dtype is None else (dtype, args)
        return Call(of, f"tir.{name}", tuple(map(_argument, args)))
    build.__name__ = name
    build.__doc__ = (f"The call tir.{name} of its arguments"
                     f"{', of which the first is its dtype' if dtype is None else ''}.")
    return build


def place_of_dtype(call):
    """Where the dtype of a call is said: (its place among the arguments or None, the dtype that is not said); None for
    a call of no row."""
    row = ROWS.get(call.op.removeprefix("tir."))
    if row is None:
        return None
    params, dtype = row[0].split(), row[1]
    return (params.index("dtype"), None) if dtype is None else (None, dtype)


def _shuffle_builder(name):
    def build(mask, value, *rest):
        args = tuple(map(_argument, (mask, value, *rest)))
        return Call(args[1].dtype, f"tir.{name}", args)
    build.__name__, build.__doc__ = name, f"The call tir.{name}(mask, value, ...), of the value's dtype."
    return build


def tvm_tuple(*value):
    """The call tir.tvm_tuple of its arguments."""
    return Call("handle", "tir.tvm_tuple", tuple(map(_argument, value)))


def type_annotation(dtype):
    """A value that stands for a dtype among the arguments of a call."""
    return Call(DataType(dtype), "tir.type_annotation", ())


def tvm_access_ptr(ptype, data, offset, extent, rw_mask):
    """The address of element `offset` of `data`, of which `extent` elements are read (rw_mask 1), written (2) or both.

    ptype: the elements' dtype, or a type_annotation."""
    kind = ptype if isinstance(ptype, PrimExpr) and not isinstance(ptype, StringImm) else type_annotation(
        getattr(ptype, "value", ptype))
    return Call("handle", "tir.tvm_access_ptr", (kind, *(const(v) if isinstance(v, int) else _argument(v) for v in (
        data, offset, extent, rw_mask))))


BUILDERS = {name: _builder(name, params.split(), dtype) for name, (params, dtype) in ROWS.items()}
globals().update(BUILDERS)
globals().update({name: _device_builder(name, row.dtype) for name, row in DEVICE_OPS.items()})
globals().update({name: _shuffle_builder(name) for name in SHUFFLES})
__all__ = ["tvm_access_ptr", "tvm_tuple", "type_annotation", *ROWS, *DEVICE_OPS, *SHUFFLES]
