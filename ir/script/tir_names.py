"""The names of TensorIR's script, T.*: one row each. Functions take evaluated arguments and return nodes or Specs."""
from __future__ import annotations

import builtins

import numpy as np

from .. import expr as E
from ..dtype import DataType
from ..expr import Call, IterVar, StringImm, as_expr, const, match_dtype
from ..node import structural_equal
from ..tir import intrin
from ..tir.buffer import Buffer
from ..tir.stmt import BufferStore, Evaluate
from . import specs as S
from .functions import macro, prim_func
from .loops import loop
from .namespaces import Form, Namespace, dtype_name, is_number, matched
from .special_forms import let, let_where


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

class _BufferType:
    """T.Buffer((m, n), "float32"), T.Buffer[(m, n), "float32"] and T.Buffer[128, "float32"]."""

    def __call__(self, shape, dtype="float32", data=None, strides=(), elem_offset=None, scope="global", align=-1,
                 offset_factor=None, buffer_type="", axis_separators=None):
        return S.BufferSpec("buffer", shape, str(dtype), data, strides, elem_offset, scope, align, offset_factor)

    def __getitem__(self, item):
        shape, dtype = item if isinstance(item, tuple) and isinstance(item[-1], str) else (item, "float32")
        return self(shape, dtype)


def _buffer(how):
    def buffer(shape, dtype="float32", data=None, strides=(), elem_offset=None, scope="global", align=-1,
               offset_factor=None, buffer_type="", axis_separators=None):
        return S.BufferSpec(how, shape, str(dtype), data, strides, elem_offset, scope, align, offset_factor)
    return buffer


def _match_buffer(param, shape=None, dtype="float32", data=None, strides=(), elem_offset=None, scope="global",
                  align=-1, offset_factor=None, buffer_type="", axis_separators=None):
    if shape is None:
        raise TypeError("give the shape of the matched buffer")
    return S.BufferSpec("match", shape, str(dtype), data, strides, elem_offset, scope, align, offset_factor, param)


def _allocate(extents, dtype, scope="global", condition=None, annotations=None):
    return S.BufferSpec("allocate", tuple(extents), str(dtype), scope=scope)


def _buffer_store(buffer, value, indices):
    indices = indices if isinstance(indices, (list, tuple)) else (indices,)
    value = const(value, buffer.dtype) if is_number(value) else as_expr(value)
    return BufferStore(buffer, value, tuple(as_expr(i) for i in indices))


# ---------------------------------------------------------------- expressions

def _literal(cls):
    """The node cls(a, b) as it is written: nothing folded."""
    def build(a, b):
        return cls(*match_dtype(*matched(_value(a), _value(b))))
    return build


def _value(v):
    """A buffer region used as an argument of a call stays; a Buffer is its data pointer."""
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


def _intrinsic(name):
    count = intrin.INTRINSICS[name][0]

    def build(*args):
        if len(args) != count:
            raise TypeError(f"takes {count} argument{'s' if count > 1 else ''}, got {len(args)}")
        args = matched(*(_value(a) for a in args))
        args = match_dtype(*args) if count == 2 else args
        return Call("bool" if name in ("isnan", "isinf") else args[0].dtype, "tir." + name, args)
    return build


def _call(op, dtype=None):
    """A call of `op` of the dtype given, or of that of its first argument."""
    def build(*args):
        args = matched(*(_value(a) for a in args))
        return Call(dtype or args[0].dtype, op, args)
    return build


def _call_intrin(dtype, op, *args):
    return Call(dtype, op if op.startswith("tir.") else "tir." + op, _values(args))


def _call_extern(dtype, name, *args):
    return Call(dtype, "tir.call_extern", _values((name, *args)))


def _call_packed(*args):
    return Call("int32", "tir.tvm_call_packed", _values(args))


def _call_pure_extern(dtype, name, *args):
    return Call(dtype, "tir.call_pure_extern", _values((name, *args)))


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


def _ramp(base, stride, lanes):
    base, stride = match_dtype(*matched(_value(base), _value(stride)))
    return E.Ramp(base, stride, int(lanes))


def _broadcast(value, lanes):
    return E.Broadcast(as_expr(_value(value)), int(lanes))


def _range(start, stop):
    """T.Range(start, stop), in a region."""
    start, stop = match_dtype(*matched(start, stop))
    if isinstance(stop, E.Add) and structural_equal(start, stop.a):
        return E.Range(start, stop.b)
    return E.Range(start, stop - start)


def _evaluate(value):
    return Evaluate(as_expr(_value(value)))


def _abs(x):
    return builtins.abs(x) if is_number(x) else _intrinsic("abs")(x)


_NODES = {"Add": E.Add, "Sub": E.Sub, "Mul": E.Mul, "Div": E.Div, "Mod": E.Mod, "FloorDiv": E.FloorDiv,
          "FloorMod": E.FloorMod, "Min": E.Min, "Max": E.Max, "EQ": E.EQ, "NE": E.NE, "LT": E.LT, "LE": E.LE,
          "GT": E.GT, "GE": E.GE, "min": E.Min, "max": E.Max, "floordiv": E.FloorDiv, "floormod": E.FloorMod,
          "truncdiv": E.Div, "truncmod": E.Mod, "div": E.Div, "mod": E.Mod, "indexdiv": E.FloorDiv,
          "indexmod": E.FloorMod}

ROWS = {
    # functions
    "prim_func": prim_func, "macro": macro, "inline": macro, "meta_var": S.Meta, "func_attr": _attrs("function"),
    # loops
    "grid": _grid, "serial": loop("serial"), "parallel": loop("parallel"), "vectorized": loop("vectorized"),
    "unroll": loop("unrolled"), "unrolled": loop("unrolled"), "thread_binding": _thread_binding,
    "While": S.WhileSpec,
    # blocks
    "block": _block, "sblock": _block, "init": S.InitSpec, "axis": AXES, "reads": _regions("reads"),
    "writes": _regions("writes"), "where": S.WhereSpec, "block_attr": _attrs("block"), "sblock_attr": _attrs("block"),
    # buffers
    "Buffer": _BufferType(), "match_buffer": _match_buffer, "alloc_buffer": _buffer("alloc"),
    "decl_buffer": _buffer("decl"), "buffer_decl": _buffer("buffer"), "allocate": _allocate,
    "buffer_store": _buffer_store, "address_of": intrin.address_of, "Range": _range,
    # scoped statements
    "Assert": S.AssertSpec, "attr": S.AttrSpec, "evaluate": _evaluate,
    "LetStmt": lambda value, dtype=None: S.LetSpec(value, dtype), "Let": Form("T.Let", let_where),
    "let": Form("T.let", let),
    # calls
    "call_intrin": _call_intrin, "call_extern": _call_extern, "call_pure_extern": _call_pure_extern,
    "call_packed": _call_packed, "tvm_call_packed": _call_packed, "likely": _call("tir.likely", "bool"),
    "ret": _call("tir.ret"),
    # expressions
    **{name: _literal(cls) for name, cls in _NODES.items()},
    **{name: _intrinsic(name) for name in intrin.INTRINSICS}, "abs": _abs, "fabs": _intrinsic("abs"),
    "power": _intrinsic("pow"), "And": _connective(E.And), "Or": _connective(E.Or), "all": _connective(E.And),
    "any": _connective(E.Or), "Not": lambda a: E.Not(as_expr(a)), "if_then_else": _if_then_else, "Select": _select,
    "select": _select, "Cast": _cast_node, "cast": _cast, "Ramp": _ramp, "ramp": _ramp, "Broadcast": _broadcast,
    "broadcast": _broadcast, "min_value": intrin.min_value, "max_value": intrin.max_value,
    "StringImm": StringImm, "array": lambda values, dtype: np.array(values, dtype),
    "bitwise_and": _call("tir.bitwise_and"), "bitwise_or": _call("tir.bitwise_or"),
    "bitwise_xor": _call("tir.bitwise_xor"), "bitwise_not": _call("tir.bitwise_not"),
    "shift_left": _call("tir.shift_left"), "shift_right": _call("tir.shift_right"),
    # types
    "dtype": DataType, "var": lambda dtype: S.Fresh(DataType(dtype)), "Var": E.Var,
}
T = Namespace("T", ROWS, dtype_name)

__all__ = ["T", "ROWS"]
