"""Scalar expressions, literals and attribute values as Python-syntax script, with no parenthesis too many.

What is printed parses back to the same structure: dtypes of immediates are spelled out unless they are the default
integer (int32 in TensorIR, int64 in graph shapes), and parentheses follow Python's own precedence.
"""
from __future__ import annotations

import json

import numpy as np

from ..expr import FloatImm, IntImm, Var
from ..module import GlobalVar
from ..node import Node, structural_equal
from ..tir.device_ops import DTYPE_FIRST
from ..tir.intrin import result_dtype
from ..tir.runtime_ops import place_of_dtype
from .names import NameTable, identifier
from .style import PLAIN

# Python's precedence of the operators used, loosest first. An operand is parenthesised when it binds looser than asked.
LOWEST, OR, AND, NOT, COMPARE, ADDITIVE, MULTIPLICATIVE, UNARY, ATOM = range(9)

# class -> (operator, its precedence, the least precedence of the left operand). The right operand must bind tighter
# than the operator: all of these associate to the left, and comparisons, which chain in Python, not at all.
OPERATORS = {
    "Add": ("+", ADDITIVE, ADDITIVE), "Sub": ("-", ADDITIVE, ADDITIVE),
    "Mul": ("*", MULTIPLICATIVE, MULTIPLICATIVE), "Div": ("/", MULTIPLICATIVE, MULTIPLICATIVE),
    "FloorDiv": ("//", MULTIPLICATIVE, MULTIPLICATIVE), "FloorMod": ("%", MULTIPLICATIVE, MULTIPLICATIVE),
    "And": ("and", AND, AND), "Or": ("or", OR, OR),
    **{name: (text, COMPARE, COMPARE + 1) for name, text in (
        ("EQ", "=="), ("NE", "!="), ("LT", "<"), ("LE", "<="), ("GT", ">"), ("GE", ">="))},
}
# class -> the function it prints as, with the node's fields as arguments
FUNCTIONS = {"Min": "T.min", "Max": "T.max", "Mod": "T.truncmod", "Select": "T.Select", "Ramp": "T.Ramp",
             "Broadcast": "T.Broadcast"}
# class -> the constants on the left, and those on the right, that TVM computes with at once when a script is read: the
# operator is spelled as a function then, which computes nothing. So it is where both operands are constants.
FOLDED = {"Add": ((0,), (0,)), "Sub": ((), (0,)), "Mul": ((0, 1), (0, 1)), "Div": ((0,), (1,)),
          "FloorDiv": ((0,), (1,)), "FloorMod": ((0,), (1,)), "And": ((0, 1), (0, 1)), "Or": ((0, 1), (0, 1))}
# What printing a partial tree may raise: a field is missing or of another type than the node's.
MALFORMED = (AttributeError, TypeError, ValueError, LookupError)


def quote(text):
    """A Python string literal in double quotes."""
    return json.dumps(str(text), ensure_ascii=False)


def sequence(items, brackets="()"):
    """Printed items as a tuple (one item keeps its comma) or, with brackets "[]", a list."""
    comma = "," if len(items) == 1 and brackets == "()" else ""
    return brackets[0] + ", ".join(items) + comma + brackets[1]


# Calls whose dtype comes first, beside those of DTYPE_FIRST.
NAMED_DTYPES = frozenset(f"tir.{name}" for name in (
    "call_extern", "call_pure_extern", "call_llvm_intrin", "call_llvm_pure_intrin", "reinterpret", "undef",
    "get_active_lane_mask"))


class ExprPrinter:
    """Prints expressions; names come from `names`, which statement printers fill.

    default_int: the dtype of integers printed bare. style: see style.Style.
    """

    style = PLAIN
    module_name = None  # of the module that a function is printed in

    def __init__(self, names=None, default_int="int32"):
        self.names = names or NameTable()
        self.default_int = default_int

    def expr(self, e, tightness=LOWEST):
        """The text of `e`, parenthesised when it binds looser than `tightness`."""
        text, precedence = self._bound(e)
        return f"({text})" if precedence < tightness else text

    def exprs(self, items):
        return [self.expr(i) for i in items]

    def tuple_of(self, items):
        """Shapes and other tuples of expressions."""
        return sequence(self.exprs(items))

    def _bound(self, e):
        """(text, precedence) of any expression, node or Python value; of a malformed one, its class and fields."""
        try:
            text, precedence = self._spelled(e)
        except MALFORMED:
            text, precedence = self.malformed(e), ATOM
        return (self.style.expr(e, text) if self.style.marks else text), precedence

    def _spelled(self, e):
        kind = type(e).__name__
        if kind in OPERATORS:
            return self._operator(kind, e)
        if kind in FUNCTIONS:
            fields = [self.expr(value) for value in (getattr(e, f) for f in e._fields) if value is not None]
            return f"{FUNCTIONS[kind]}({', '.join(fields)})", ATOM
        method = getattr(self, "expr_" + kind, None)
        if method:
            return method(e)
        return (self.malformed(e) if isinstance(e, Node) else self.value(e)), ATOM

    def _operator(self, kind, e):
        operator, precedence, left = OPERATORS[kind]
        if kind == "Sub" and _is_negation(e):
            return "-" + self.expr(e.b, UNARY + 1), UNARY
        if kind == "Div" and _is_integer(e) or self.default_int == "int32" and _is_folded(kind, e.a, e.b):
            return f"T.{kind}({self.expr(e.a)}, {self.expr(e.b)})", ATOM
        if self._is_bare(e.a) and self._is_bare(e.b):  # Python itself would compute 2 * 3
            return f"T.{e.a.dtype}({e.a.value}) {operator} {self.expr(e.b, precedence + 1)}", precedence
        return f"{self.expr(e.a, left)} {operator} {self.expr(e.b, precedence + 1)}", precedence

    def _is_bare(self, e):
        """True for an integer that prints as Python's own."""
        return isinstance(e, IntImm) and e.dtype == self.default_int

    def expr_Shuffle(self, e):
        vectors, indices = (sequence(self.exprs(part), "[]") for part in (e.vectors, e.indices))
        return f"T.Shuffle({vectors}, {indices})", ATOM

    # ------------------------------------------------------------ leaves

    def expr_Not(self, e):
        return "not " + self.expr(e.a, NOT), NOT

    def expr_Var(self, e):
        return self.names.get(e, e.name), ATOM

    def expr_IntImm(self, e):
        if e.dtype == "bool":
            return f"T.bool({bool(e.value)})", ATOM
        if e.dtype == self.default_int:
            return str(e.value), UNARY if e.value < 0 else ATOM
        return f"T.{e.dtype}({e.value})", ATOM

    def expr_FloatImm(self, e):
        return f"T.{e.dtype}({number(e.value) if np.isfinite(e.value) else quote(e.value)})", ATOM

    def expr_StringImm(self, e):
        return quote(e.value), ATOM

    def expr_ConstantArray(self, e):
        """The elements of T.allocate_const in one list."""
        data = "None" if e.data is None else f"[{', '.join(self._element(x) for x in e.data.reshape(-1))}]"
        more = f", annotations={self.value(e.annotations)}" if e.annotations else ""
        more += f", irmod_storage_idx={e.index}" if e.index is not None else ""
        return f"T.allocate_const({data}, {quote(e.elements)}, {list(e.extents)}{more})", ATOM

    def _element(self, x):
        """The shortest number that reads back as an element of an array."""
        if x.dtype.kind not in "fV" or np.isfinite(float(x)):
            return str(x if x.dtype.kind == "b" or x.dtype.kind in "iuf" else float(x))
        return f"float({quote(float(x))})"

    def expr_Cast(self, e):
        return f"T.Cast({quote(e.dtype)}, {self.expr(e.value)})", ATOM

    def expr_Let(self, e):
        value = self.expr(e.value)
        with self.names.scope():
            name = self.names.get(e.var, "") if self.names.known(e.var) else self.names.define(e.var, e.var.name)
            return f"T.Let({self.expr(e.body)}, where={{{name}: {value}}})", ATOM

    def expr_CommReducer(self, e):
        identity = self.exprs(e.identity)
        with self.names.scope():
            names = [self.names.define(v, v.name) for v in (*e.lhs, *e.rhs)]
            result = self.exprs(e.result)
        text = result[0] if len(result) == 1 else f"({', '.join(result)})"
        return f"T.comm_reducer(lambda {', '.join(names)}: {text}, [{', '.join(identity)}])", ATOM

    def expr_IndexMap(self, e):
        with self.names.scope():
            names = ", ".join(self.names.define(v, v.name) for v in e.initial_indices)
            final = self.tuple_of(e.final_indices)
        dtype = next((v.dtype for v in e.initial_indices if v.dtype != "int64"), None)
        said = f", index_dtype={quote(dtype)}" if dtype else ""
        return f"T.index_map(lambda {names}: {final}{said})", ATOM

    def expr_Call(self, e):
        args = self.exprs(e.args)
        if isinstance(e.op, GlobalVar):
            module = f"{self.module_name}." if self.module_name else ""
            return f"{module}{identifier(e.op.name)}({', '.join(args)})", ATOM
        short = str(e.op).removeprefix("tir.")
        if e.op in NAMED_DTYPES or e.op in DTYPE_FIRST:
            return f"T.{short}({', '.join([quote(e.dtype), *args])})", ATOM
        place, dtype = place_of_dtype(e) or (None, result_dtype(e.op, e.args))
        if place is not None:
            args.insert(place, quote(e.dtype))
        if place is not None or e.dtype == dtype:
            return f"T.{short}({', '.join(args)})", ATOM
        return f"T.call_intrin({', '.join([quote(e.dtype), quote(e.op), *args])})", ATOM

    # ------------------------------------------------------------ buffers

    def expr_Buffer(self, b):
        return self.names.get(b, b.name), ATOM

    def expr_BufferLoad(self, e):
        return self.access(e.buffer, e.indices), ATOM

    def expr_ProducerLoad(self, e):
        return self.access(e.producer, e.indices), ATOM

    def access(self, buffer, indices):
        """buffer[i, j]; a buffer of no dimensions is indexed with ()."""
        return f"{self._buffer_name(buffer)}[{', '.join(map(self._index, indices)) or '()'}]"

    def _index(self, i):
        """One index; a vector of indices, whose step and length are known, as a slice."""
        if type(i).__name__ != "Ramp" or not _is_slice(i):
            return self.expr(i)
        if type(i.lanes) is not int:  # T.vscale() * 4
            start, zero = self.expr(i.base, ADDITIVE), isinstance(i.base, IntImm) and i.base.value == 0
            return f"{start}:{i.lanes!r}" if zero else f"{start}:{start} + {i.lanes!r}"
        step = "" if i.stride.value == 1 else f":{self.expr(i.stride)}"
        return ":".join(self.bounds(i.base, IntImm(i.stride.dtype, i.lanes * i.stride.value))) + step

    def expr_BufferRegion(self, r):
        parts = [self.range_index(i) for i in r.region]
        return f"{self._buffer_name(r.buffer)}[{', '.join(parts) or '()'}]", ATOM

    def _buffer_name(self, buffer):
        return self.names.get(buffer, buffer.name)

    def range_index(self, r):
        """One dimension of a region: `i` for [i, i + 1), else `start:stop`."""
        if isinstance(r.extent, IntImm) and r.extent.value == 1 and r.extent.dtype == _dtype(r.min):
            return self.expr(r.min)
        return ":".join(self.bounds(r.min, r.extent))

    def bounds(self, minimum, extent):
        """Texts of start and stop. Unless start is 0 or both are immediates, stop is spelled `start + extent`, so that
        the extent can be read off it."""
        if isinstance(minimum, IntImm) and _dtype(extent) == minimum.dtype:
            if minimum.value == 0:
                return self.expr(minimum), self.expr(extent)
            if isinstance(extent, IntImm):
                return self.expr(minimum), self.expr(IntImm(minimum.dtype, minimum.value + extent.value))
        return self.expr(minimum), f"{self.expr(minimum, ADDITIVE)} + {self.expr(extent, ADDITIVE + 1)}"

    def expr_Range(self, r):
        return f"T.Range({', '.join(self.bounds(r.min, r.extent))})", ATOM

    def expr_PrimType(self, t):
        return f"T.{t.dtype}", ATOM

    def expr_PointerType(self, t):
        element = quote(t.element_type.dtype) if hasattr(t.element_type, "dtype") else self.expr(t.element_type)
        return f"T.handle({', '.join([element, *([quote(t.storage_scope)] if t.storage_scope else [])])})", ATOM

    def expr_TupleType(self, t):
        return f"T.Tuple({', '.join(self.exprs(t.fields))})" if t.fields else "None", ATOM

    def expr_IterVar(self, v):
        return self.expr(v.var), ATOM

    # ------------------------------------------------------------ values

    def value(self, v):
        """An attribute's value: Python literals as they are, immediates with their dtype (1 and T.int32(1) differ)."""
        if isinstance(v, IntImm) and v.dtype != "bool":
            return f"T.{v.dtype}({v.value})"
        if type(v).__name__ == "StringImm":
            return f"T.StringImm({quote(v.value)})"
        if isinstance(v, Node):
            return self.expr(v)
        if isinstance(v, str):
            return quote(v)
        if isinstance(v, float):
            return number(v) if np.isfinite(v) else f"float({quote(v)})"
        if isinstance(v, dict):
            items = sorted(v.items()) if all(isinstance(k, str) for k in v) else v.items()
            return "{" + ", ".join(f"{self.value(k)}: {self.value(x)}" for k, x in items) + "}"
        if isinstance(v, (list, tuple)):
            return sequence([self.value(x) for x in v], "[]" if isinstance(v, list) else "()")
        if isinstance(v, np.ndarray):
            return f"T.array({v.tolist()!r}, {quote(v.dtype.name)})"
        return " ".join(repr(v).split())

    def expr_Plan(self, e):
        """A kernel's plan: what it leaves open is left out."""
        return f"I.Plan({', '.join(f'{name}={self.value(v)}' for name, v in e.decided().items())})", ATOM

    def malformed(self, e):
        """A malformed node, or one without a spelling of its own: class and fields, so that printing never fails."""
        fields = [f"{f}={self.value(getattr(e, f))}" for f in e._fields if f not in e._ignore]
        return f"I.{type(e).__name__}({', '.join(fields)})"


def number(value):
    """A finite float: of a whole one its digits and .0, of others as many digits as its double has."""
    return f"{value:.1f}" if value == int(value) else f"{value:.17g}"


def _is_folded(kind, a, b):
    """Whether TVM would compute with a constant operand when it reads the operator."""
    left, right = FOLDED.get(kind, ((), ()))
    known = [isinstance(v, (IntImm, FloatImm)) for v in (a, b)]
    return all(known) or known[0] and a.value in left or known[1] and b.value in right


def _is_slice(ramp):
    """Whether `start:stop:step` says all of a vector of indices."""
    stride = ramp.stride
    known = ramp.lanes > 1 if type(ramp.lanes) is int else stride.value == 1
    return (ramp.count is None and known and isinstance(stride, IntImm) and stride.value > 0
            and stride.dtype == _dtype(ramp.base))


def _dtype(e):
    """The dtype of a well-formed expression; None for what a partial tree may hold instead."""
    try:
        return e.dtype
    except (AttributeError, IndexError):
        return None


def _is_integer(e):
    dtype = _dtype(e)
    return dtype is not None and not dtype.is_float


def _is_negation(e):
    """True for 0 - x, which is what `-x` builds."""
    if isinstance(e.b, (IntImm, FloatImm)) or _dtype(e.b) != _dtype(e.a):
        return False
    zero = isinstance(e.a, (IntImm, FloatImm)) and e.a.value == 0
    return zero and not (isinstance(e.a, FloatImm) and e.a.value.hex().startswith("-"))


def same_expr(a, b):
    """Structurally equal, or the same variable."""
    return a is b or (isinstance(a, Node) and not isinstance(a, Var) and structural_equal(a, b))
