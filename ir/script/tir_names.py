"""The names of TensorIR's script, T.*: one row each. Functions take evaluated arguments and return nodes or Specs."""
from __future__ import annotations

import builtins
from dataclasses import replace
from functools import partial

import numpy as np

from .. import expr as E
from ..dtype import DataType
from ..expr import Call, IterVar, StringImm, as_expr, is_const_int, match_dtype
from ..node import structural_equal
from ..target import Target, TargetError
from ..tir import intrin
from ..tir.buffer import Buffer
from ..tir.constants import ConstantArray
from ..tir.device_ops import DEVICE_OPS, SHUFFLES
from ..tir.runtime_ops import BUILDERS
from ..tir.shuffle import Shuffle
from ..tir.size_var import SizeVar
from ..tir.stmt import BufferLoad, BufferRegion, BufferStore, Evaluate
from ..tir.unlowered import Prefetch
from . import specs as S
from .evaluator import vector_load
from .loops import loop
from .macros import macro
from .namespaces import Form, Namespace, dtype_name, is_number, matched, number_like
from .special_forms import access_pointer, index_map, let, let_where, reducer


# ---------------------------------------------------------------- loops

def _thread_binding(start, stop=None, thread=None, *, annotations=None):
    if isinstance(stop, str):
        stop, thread = None, stop
    if not isinstance(thread, str):
        raise ValueError('name the thread, as in T.thread_binding(32, thread="threadIdx.x")')
    first, last = (None, start) if stop is None else (start, stop)
    return S.Loops((S.Head("thread_binding", first, last, thread, dict(annotations or {})),))


def _grid(*extents):
    if not extents:
        raise ValueError("give one extent per loop")
    return S.Loops(tuple(S.Head("serial", None, e) for e in extents))


# ---------------------------------------------------------------- blocks

def _block(name="", no_realize=False):
    if not isinstance(name, str):
        raise TypeError("the name of a block is a string; its iterators are T.axis lines below it")
    return S.BlockSpec(name, no_realize)


def _axis(iter_type):
    def axis(dom, value=None):
        return S.AxisSpec(iter_type, dom, value)
    return axis


def _remap(kinds, bindings):
    return S.RemapSpec(kinds, tuple(bindings))


def _regions(field):
    def regions(*given):
        if len(given) == 1 and isinstance(given[0], (list, tuple)):
            given = given[0]
        return S.RegionsSpec(field, tuple(given))
    return regions


def _attrs(owner):
    def attrs(given):
        if not isinstance(given, dict):
            raise TypeError("takes a dict of attributes")
        return S.AttrsSpec(owner, dict(given))
    return attrs


AXES = Namespace("T.axis", {
    **{kind: _axis(kind) for kind in ("spatial", "reduce", "scan", "opaque")},
    "S": _axis("spatial"), "R": _axis("reduce"), "remap": _remap})


# ---------------------------------------------------------------- buffers

def _buffer(how, shape, dtype="float32", data=None, strides=None, elem_offset=None, scope="global", align=None,
            offset_factor=None, buffer_type="", axis_separators=None):
    if isinstance(shape, str):
        raise TypeError(f"the shape of a buffer is an extent or a tuple of them, not the string {shape!r}")
    if buffer_type not in ("", "default", None) and not (buffer_type == "auto" and strides):  # who has one index at 0
        raise ValueError(f"buffer_type {buffer_type!r} is not supported: give the strides")
    layout = {"strides": strides or None, "elem_offset": elem_offset, "scope": scope or None,
              "data_alignment": align if align and align > 0 else None, "offset_factor": offset_factor or None,
              "axis_separators": axis_separators or None}
    return S.BufferSpec(how, shape, str(dtype), data, {k: v for k, v in layout.items() if v is not None})


def _match_buffer(param, shape=None, dtype=None, *args, **kwargs):
    if shape is None and isinstance(param, BufferRegion):  # those of the region
        shape, dtype = [r.extent for r in param.region], dtype or param.buffer.dtype
    if shape is None:
        raise TypeError("give the shape of the matched buffer")
    dtype = dtype or "float32"
    return replace(_buffer("match", shape, dtype, *args, **kwargs), source=param)


class _BufferType:
    """T.Buffer((m, n), "float32"), T.Buffer[(m, n), "float32"] and T.Buffer[128, "float32"]."""

    __call__ = staticmethod(partial(_buffer, "buffer"))

    def __getitem__(self, item):
        shape, dtype = item if isinstance(item, tuple) and isinstance(item[-1], str) else (item, "float32")
        return self(shape, dtype)


class _PointerType:
    """T.Ptr(T.float32, "global") and T.Ptr[T.float32]: the type of a handle."""

    def __call__(self, dtype, storage_scope="global"):
        return S.Fresh(DataType("handle"))

    def __getitem__(self, item):
        return self(item)


def _allocate(extents, dtype, scope="global", condition=None, annotations=None):
    if not (condition is None or is_const_int(condition, 1) or condition is True):
        raise ValueError("an allocation under a condition is not supported: put it in an `if`")
    return _buffer("allocate", tuple(extents), dtype, scope=scope)


def _allocate_const(data, dtype, extents, annotations=None, *, irmod_storage_idx=None):
    index = getattr(irmod_storage_idx, "value", irmod_storage_idx)
    return S.ConstantSpec(ConstantArray.of(data, dtype, extents, annotations, index))


def _buffer_store(buffer, value, indices, predicate=None):
    """T.buffer_store(A, value, [i, 0:4]), of a vector where an index is a slice."""
    indices = tuple(indices) if isinstance(indices, (list, tuple)) else (indices,)
    value = number_like(value, buffer.dtype) if is_number(value) else as_expr(value)
    if predicate is not None:
        return buffer.vstore(indices, value, predicate)
    place = buffer[tuple(map(_value, indices))]
    return BufferStore(buffer, value, (vector_load(place) if isinstance(place, BufferRegion) else place).indices)


# ---------------------------------------------------------------- expressions

def _literal(cls):
    """The node cls(a, b) as it is written: nothing folded."""
    def build(a, b):
        return cls(*match_dtype(*matched(_value(a), _value(b))))
    return build


def _value(v):
    """A slice of a buffer is a vector, a Buffer its data pointer, an iterator its variable."""
    if isinstance(v, BufferRegion):
        return vector_load(v)
    return v.data if isinstance(v, Buffer) else v.var if isinstance(v, IterVar) else v


def _values(args):
    return tuple(as_expr(_value(a)) for a in args)


def _connective(cls):
    def build(*args):
        first, *rest = _values(args)
        for a in rest:
            first = cls(first, a)
        return first
    return build


def _of_values(build):
    """A builder of ir/tir/intrin.py, whose arguments may be buffers and iterators here."""
    return lambda *args: build(*map(_value, args))


def _typed(build):
    """`build`, of an expression, that takes the keyword dtype as well, which older printers write: the result's."""
    def typed(*args, dtype=None, **kwargs):
        value = build(*args, **kwargs)
        if dtype is not None and as_expr(value).dtype != DataType(dtype):
            raise TypeError(f"the result is {as_expr(value).dtype}, not {dtype} as the keyword dtype says")
        return value
    return typed


def _dtype_first(build):
    """`build`, whose first argument is the result's dtype, that takes it as the keyword dtype instead."""
    def typed(*args, dtype=None, **kwargs):
        return build(*args if dtype is None else (dtype or "void", *args), **kwargs)
    return typed


def _device_op(name):
    """An operation of GPU hardware; TVM's printers say the dtype "handle" of those that have none."""
    build = _of_values(partial(intrin.device_op, name))

    def call(*args, dtype=None):
        first = DEVICE_OPS[name].dtype is None if name in DEVICE_OPS else False
        return build(*args) if dtype is None or not first else build(dtype, *args)
    return call


def _runtime_op(build):
    """A builder of ir/tir/runtime_ops.py, of values."""
    return lambda *args, **named: build(*map(_value, args), **named)


def _intrinsic(name):
    return _of_values(partial(intrin.intrinsic, name))


def _if_then_else(condition, true_value, false_value):
    a, b = match_dtype(*matched(_value(true_value), _value(false_value)))
    return Call(a.dtype, "tir.if_then_else", (as_expr(condition), a, b))


def _select(condition, true_value, false_value):
    return E.Select(as_expr(condition), *match_dtype(*matched(_value(true_value), _value(false_value))))


def _cast_node(dtype, value):
    return E.Cast(dtype, as_expr(_value(value)))


def _cast(value, dtype):
    """T.cast(value, dtype), and Cast's own order of arguments, which some scripts use."""
    if isinstance(value, str) and not isinstance(dtype, str):
        value, dtype = dtype, value
    return E.cast(_value(value), dtype)


def _lanes(lanes):
    """A number of lanes: an int, or a multiple of T.vscale()."""
    lanes = _value(lanes)
    return lanes if isinstance(lanes, E.PrimExpr) and not isinstance(lanes, E.IntImm) else int(lanes)


def _ramp(base, stride, lanes, count=None):
    base, stride = match_dtype(*matched(_value(base), _value(stride)))
    return E.Ramp(base, stride, _lanes(lanes), None if count is None else as_expr(_value(count)))


def _broadcast(value, lanes):
    return E.Broadcast(as_expr(_value(value)), _lanes(lanes))


def _call(dtype, op, args):
    """T.Call(dtype, op, args): a call of an operator by its name, "tir.exp"."""
    return Call(DataType(dtype), getattr(op, "name", op), tuple(as_expr(_value(a)) for a in args))


def _shuffle(vectors, indices):
    return Shuffle([as_expr(_value(v)) for v in vectors], [as_expr(_value(i)) for i in indices])


def _range(start, stop):
    """T.Range(start, stop), in a region."""
    start, stop = match_dtype(*matched(start, stop))
    if isinstance(stop, E.Add) and structural_equal(start, stop.a):
        return E.Range(start, stop.b)
    return E.Range(start, stop - start)


def _prefetch(buffer, bounds):
    """T.prefetch(A, [T.Range(0, 8)]): the box of A that is read soon."""
    return Prefetch(buffer, tuple(b if isinstance(b, E.Range) else E.Range(*b) for b in bounds))


def _evaluate(value):
    return Evaluate(as_expr(_value(value)))


def _address_of(place):
    """T.address_of(A[i]): of A, and of A[4:8], that of the first element."""
    if isinstance(place, BufferRegion):
        place = BufferLoad(place.buffer, tuple(r.min for r in place.region))
    return intrin.address_of(place[(0,) * len(place.shape)] if isinstance(place, Buffer) else place)


def _buffer_load(buffer, indices, predicate=None):
    """T.BufferLoad(A, [i, j])"""
    return BufferLoad(buffer, _values(indices), predicate)


def _reinterpret(dtype, value):
    """T.reinterpret(dtype, value)."""
    return intrin.reinterpret(dtype, _value(value))


def _abs(x):
    return builtins.abs(x) if is_number(x) else _intrinsic("abs")(x)


def _target(config, host=None):
    """T.target("cuda", host="llvm"): the Target; of one that there is no code for what names it, which a pass that asks
    for the Target refuses."""
    try:
        return Target(config, host=host)
    except TargetError:
        return config


_NODES = {"Add": E.Add, "Sub": E.Sub, "Mul": E.Mul, "Div": E.Div, "Mod": E.Mod, "FloorDiv": E.FloorDiv,
          "FloorMod": E.FloorMod, "Min": E.Min, "Max": E.Max, "EQ": E.EQ, "NE": E.NE, "LT": E.LT, "LE": E.LE,
          "GT": E.GT, "GE": E.GE, "min": E.Min, "max": E.Max, "floordiv": E.FloorDiv, "floormod": E.FloorMod,
          "truncdiv": E.Div, "truncmod": E.Mod, "div": E.Div, "mod": E.Mod, "indexdiv": E.FloorDiv,
          "indexmod": E.FloorMod}

# The result's dtype comes first, or is the keyword dtype
DTYPE_FIRST = {
    **{name: _of_values(getattr(intrin, name)) for name in (
        "call_intrin", "call_extern", "call_pure_extern", "call_llvm_intrin", "call_llvm_pure_intrin")},
    "Cast": _cast_node, "reinterpret": _reinterpret, "min_value": intrin.min_value, "max_value": intrin.max_value,
    "infinity": intrin.infinity, "undef": intrin.undef, "IntImm": E.IntImm, "FloatImm": E.FloatImm,
    "get_active_lane_mask": _of_values(intrin.get_active_lane_mask),
}
# The result's dtype follows from the operands; the keyword dtype may repeat it
TYPED = {
    **{name: _of_values(getattr(intrin, name)) for name in (
        "likely", "ignore_loop_partition", "ret", "assume", "q_multiply_shift", "q_multiply_shift_per_axis")},
    **dict.fromkeys(("call_packed", "call_cpacked", "tvm_call_packed", "tvm_call_cpacked"), intrin.call_packed),
    "address_of": _address_of,
    **{name: _of_values(partial(intrin.call_intrin, "handle", name)) for name in (
        "tvm_stack_make_array", "tvm_stack_make_shape", "tvm_tuple")},
    **{name: _literal(cls) for name, cls in _NODES.items()},
    **{name: _intrinsic(name) for name in intrin.SCALAR_INTRINSICS},
    **{name: _of_values(partial(intrin.vector_intrinsic, name)) for name in intrin.VECTOR_INTRINSICS}, "abs": _abs,
    "fabs": _intrinsic("abs"), "isfinite": _of_values(intrin.isfinite), "ceildiv": _of_values(intrin.ceildiv),
    "power": _intrinsic("pow"), "And": _connective(E.And), "Or": _connective(E.Or), "all": _connective(E.And),
    "any": _connective(E.Or), "Not": lambda a: E.Not(as_expr(a)), "if_then_else": _if_then_else, "Select": _select,
    "select": _select, "Ramp": _ramp, "ramp": _ramp, "Broadcast": _broadcast, "broadcast": _broadcast,
    "Shuffle": _shuffle,
}


def _iter_var(var, dom, iter_type, thread_tag):
    """T.iter_var(i, T.Range(0, 16), "ThreadIndex", "threadIdx.x"): the index of a thread, for T.attr."""
    return E.IterVar(dom, var, E.ITER_NAMES.get(iter_type, iter_type), thread_tag)


ROWS = {
    **{name: _runtime_op(build) for name, build in BUILDERS.items()},
    **{f"call_{kind}_lowered": _runtime_op(BUILDERS[f"tvm_call_{kind}_lowered"]) for kind in ("packed", "cpacked")},
    # functions
    "macro": macro, "inline": macro, "meta_var": S.Meta, "func_attr": _attrs("function"),
    # loops
    "grid": _grid, "serial": loop("serial"), "parallel": loop("parallel"), "vectorized": loop("vectorized"),
    "unroll": loop("unrolled"), "unrolled": loop("unrolled"), "thread_binding": _thread_binding,
    "While": S.WhileSpec,
    # blocks
    "block": _block, "sblock": _block, "init": S.InitSpec, "axis": AXES, "reads": _regions("reads"),
    "writes": _regions("writes"), "where": S.WhereSpec, "block_attr": _attrs("block"), "sblock_attr": _attrs("block"),
    # buffers
    "Buffer": _BufferType(), "match_buffer": _match_buffer, "alloc_buffer": partial(_buffer, "alloc"),
    "decl_buffer": partial(_buffer, "decl"), "allocate": _allocate,
    "allocate_const": _allocate_const,
    **dict.fromkeys(("buffer_decl", "buffer"), partial(_buffer, "buffer")),
    "preflattened_buffer": lambda *args, **kwargs: S.Ignored(), **dict.fromkeys(("Ptr", "ptr"), _PointerType()),
    "buffer_store": _buffer_store, "Range": _range,
    "comm_reducer": Form("T.comm_reducer", reducer), "tvm_access_ptr": Form("T.tvm_access_ptr", access_pointer),
    **dict.fromkeys(("BufferLoad", "ProducerLoad"), _buffer_load), "type_annotation": lambda dtype: DataType(dtype),
    "Call": _call,
    # scoped statements
    "Assert": S.AssertSpec, "attr": S.AttrSpec, "realize": S.RealizeSpec, "prefetch": _prefetch,
    "evaluate": _evaluate, "llvm_lookup_intrinsic_id": str,
    "LetStmt": lambda value, dtype=None, *, var=None: S.LetSpec(value, dtype, var), "Let": Form("T.Let", let_where),
    "let": Form("T.let", let),
    # expressions
    **{name: _typed(build) for name, build in TYPED.items()},
    **{name: _dtype_first(build) for name, build in DTYPE_FIRST.items()},
    **{name: _device_op(name) for name in (*DEVICE_OPS, *SHUFFLES)},
    "vscale": lambda dtype=None: intrin.vscale(), "cast": _cast, "StringImm": StringImm,
    "array": lambda values, dtype: np.array(values, dtype),
    # types, threads and the rest
    "dtype": DataType, "var": lambda dtype: S.Fresh(DataType(dtype)),
    "buffer_var": lambda dtype, storage_scope="global": S.Fresh(DataType("handle")), "Var": E.Var, "SizeVar": SizeVar,
    "target": _target, "index_map": Form("T.index_map", index_map), "env_thread": S.EnvThread,
    "launch_thread": S.LaunchSpec, "iter_var": _iter_var,
}
_LEGACY = "it is older than T.Buffer; declare the buffer and write A[i]"
ABSENT = {
    "load": _LEGACY, "store": _LEGACY, "buffer_realize": "it is T.realize(A[0:8], scope)",
    "buffer_load": "write A[i, j]", "call_kernel": "call a function of C with T.call_extern",
    "CommReducer": "reduce in a block with T.init()", "Reduce": "reduce in a block with T.init()",
    "func_ret": "a prim_func stores its results into the buffers of its parameters",
    "bind": "bind iterators as in vi = T.axis.spatial(8, i)",
}
T = Namespace("T", ROWS, dtype_name, ABSENT)

__all__ = ["T", "ROWS"]
