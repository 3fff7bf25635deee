"""Scalar expressions shared by both IRs: variables, immediates, arithmetic, calls. Names and semantics are TVM's.

`Div` and `Mod` truncate toward zero on integers (C's `/` and `%`); `FloorDiv` and `FloorMod` round down. Python
operators build nodes: `a // b` is FloorDiv, `a % b` FloorMod, `a == b` an EQ. Python numbers take the other side's
dtype; operands of different dtypes meet in one, as match_dtype says.
"""
from __future__ import annotations

from functools import partial

from .dtype import DataType, ScalableLanes
from .equal_op import EqualOp, NotEqualOp
from .folding import INTEGERS, folded, wrapped
from .module import GlobalVar
from .node import Node, collect, node, node_field
from .op import Op
from .substitution import substitute  # noqa: F401
from .types import PrimType, Type
from .upper import provides, upper


class PrimExpr(Node):
    """Base of scalar (and vector) expressions. `dtype` is a field or a property of every subclass."""

    __slots__ = ()
    _holds_statements = False

    def __repr__(self):
        return str(self)

    def __truediv__(self, other):
        if self.dtype.is_int and not isinstance(other, float):
            raise TypeError("`/` on integers is ambiguous: use `//` (floor), tir.truncdiv or tir.div")
        return binary(Div, self, other)

    def __rtruediv__(self, other):
        if self.dtype.is_int:
            raise TypeError("`/` on integers is ambiguous: use `//` (floor), tir.truncdiv or tir.div")
        return binary(Div, other, self)

    def __neg__(self):
        return binary(Sub, const(0, self.dtype), self)

    def __invert__(self):
        return upper("intrinsic")("bitwise_not", self)

    def __eq__(self, other):
        return EqualOp.of(partial(binary, EQ), self, other)

    def __ne__(self, other):
        return NotEqualOp.of(partial(binary, NE), self, other)

    equal = __eq__
    __hash__ = object.__hash__

    def __bool__(self):
        if isinstance(self, (EQ, NE)):  # `a == b` as a Python condition asks for identity, as in TVM, or for one value
            same = type(self.a) is type(self.b) and isinstance(self.a, IMMEDIATES) and self.a.value == self.b.value
            return (same or self.a is self.b) == isinstance(self, EQ)
        raise ValueError("a symbolic expression has no truth value in Python; use tir.all, tir.any or tir.Not")

    def astype(self, dtype):
        return cast(self, dtype)

    def __str__(self):
        return upper("expr_to_str")(self)


@node
class Var(PrimExpr):
    """A variable, equal only to itself. Loop variables, symbolic dimensions and handles are Vars.

    most: of a dimension that a run decides, its upper bound, an expression of dimensions that callers pass. Such a
    dimension may be 0. least: of a dimension that callers pass, its lower bound, 0 or 1. is_size: whether it is never
    negative, whoever gives it its value. dtype may be given as a type, whose PointerType a handle keeps as its `pointer`."""

    name: str
    dtype: DataType = DataType("int32")
    most: object = node_field(ignore=True, default=None)
    least: int = node_field(ignore=True, default=1)
    is_size: bool = node_field(ignore=True, default=False)
    pointer: object = node_field(ignore=True, default=None)
    _is_binder_leaf = True

    def __post_init__(self):
        if not isinstance(self.name, str):
            raise TypeError(f"the name of a variable is a string, not {self.name!r}")
        if isinstance(self.dtype, Type):
            object.__setattr__(self, "pointer", None if isinstance(self.dtype, PrimType) else self.dtype)
        object.__setattr__(self, "dtype", DataType("handle" if self.pointer else getattr(self.dtype, "dtype", self.dtype)))

    def renewed(self, name=None, dtype=None):
        """A new variable of which the same is known, by default also of the same name and dtype."""
        return Var(name or self.name, dtype or self.dtype, self.most, self.least, self.is_size, self.pointer)

    @property
    def type_annotation(self):
        """The variable's type."""
        return self.pointer or PrimType(self.dtype)

    @property
    def may_be_zero(self):
        """Whether a dimension may be 0."""
        return self.most is not None or self.least == 0


@node
class IntImm(PrimExpr):
    dtype: DataType
    value: int

    def __post_init__(self):
        dtype, value = DataType(self.dtype), int(self.value)
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "value", value)
        if not 0 <= value < 128 or dtype.bits <= 8:
            dtype.hold(value)

    def __bool__(self):
        return bool(self.value)

    def __int__(self):
        return self.value

    __index__ = __int__


@node
class FloatImm(PrimExpr):
    """A float. Of 16 bits and fewer the value is the rounded one; float32 keeps the digits it was given."""

    dtype: DataType
    value: float

    def __post_init__(self):
        dtype = DataType(self.dtype)
        if not dtype.is_float:
            raise TypeError(f"FloatImm takes a dtype of floats, not {dtype}")
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "value", dtype.hold(float(self.value)))

    def __float__(self):
        return self.value


@node
class StringImm(PrimExpr):
    value: str

    @property
    def dtype(self):
        return DataType("handle")


IMMEDIATES = (IntImm, FloatImm, StringImm)


class BinaryExpr(PrimExpr):
    """Base of arithmetic on two operands of one dtype, which is also the result's."""

    __slots__ = ()

    @property
    def dtype(self):
        return self.a.dtype

    def __int__(self):
        """What the machine computes of two integers whose sum int32 or int64 does not hold, which stays as it is."""
        if not (isinstance(self.a, IntImm) and isinstance(self.b, IntImm)):
            raise TypeError(f"{self} is no constant")
        return wrapped(INTEGERS[type(self).__name__](self.a.value, self.b.value), self.dtype)


class CompareExpr(PrimExpr):
    """Base of comparisons and connectives: the result is bool with the operands' lanes."""

    __slots__ = ()

    @property
    def dtype(self):
        return DataType("bool").with_lanes(self.a.dtype.lanes)


def _meet(owner, left="a", right="b"):
    """Python's number in one of two fields takes the dtype of the other."""
    a, b = getattr(owner, left), getattr(owner, right)
    if not (isinstance(a, PrimExpr) and isinstance(b, PrimExpr)):
        for field, value in zip((left, right), match_all((a, b))):
            object.__setattr__(owner, field, value)


def _operator(name, base):
    """Declare a node class with fields a and b, of which Python numbers take the other's dtype."""
    cls = type(name, (base,), {"__annotations__": {"a": PrimExpr, "b": PrimExpr}, "__module__": __name__,
                               "__qualname__": name, "__post_init__": _meet})
    return node(cls)


Add, Sub, Mul, Div, Mod = (_operator(n, BinaryExpr) for n in ("Add", "Sub", "Mul", "Div", "Mod"))
FloorDiv, FloorMod = _operator("FloorDiv", BinaryExpr), _operator("FloorMod", BinaryExpr)
Min, Max = _operator("Min", BinaryExpr), _operator("Max", BinaryExpr)
EQ, NE, LT, LE, GT, GE = (_operator(n, CompareExpr) for n in ("EQ", "NE", "LT", "LE", "GT", "GE"))
And, Or = _operator("And", CompareExpr), _operator("Or", CompareExpr)


@node
class Not(CompareExpr):
    a: PrimExpr


@node
class Select(PrimExpr):
    """`true_value` where `condition`, else `false_value`; both sides may be evaluated."""

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr

    def __post_init__(self):
        _meet(self, "true_value", "false_value")
        object.__setattr__(self, "condition", as_expr(self.condition))

    @property
    def dtype(self):
        return self.true_value.dtype


@node
class Cast(PrimExpr):
    dtype: DataType
    value: PrimExpr

    def __post_init__(self):
        object.__setattr__(self, "dtype", DataType(self.dtype))
        object.__setattr__(self, "value", as_expr(self.value))


def _lanes(value):
    """The number of lanes of a vector as an int; of T.vscale() * 4 as ScalableLanes."""
    if isinstance(value, (int, IntImm)):
        return ScalableLanes(-int(value)) if int(value) < 0 else int(value)
    found = scalable_lanes(value)
    if found is None:
        raise TypeError(f"a vector has a known number of lanes, or T.vscale() times a number of them, not {value}")
    return found


def scalable_lanes(e):
    """The ScalableLanes that the product of T.vscale() and an integer is; None for another expression."""
    factor, scale = (e.b, e.a) if isinstance(e, Mul) and isinstance(e.a, Call) else (getattr(e, x, e) for x in "ab")
    is_scale = isinstance(scale, Call) and scale.op == "tir.vscale"
    return ScalableLanes(int(factor)) if is_scale and isinstance(factor, (int, IntImm)) else None


@node
class Ramp(PrimExpr):
    """The vector base, base + stride, ..., `lanes` of them. As an index with a count it means the first `count` lanes:
    the others are not stored, and loaded they are 0."""

    base: PrimExpr
    stride: PrimExpr
    lanes: int
    count: PrimExpr | None = None

    def __post_init__(self):
        if not (isinstance(self.base, PrimExpr) and isinstance(self.stride, PrimExpr)):
            for name, value in zip(("base", "stride"), match_all((self.base, self.stride))):
                object.__setattr__(self, name, value)
        if type(self.lanes) is not int or self.lanes < 1:
            object.__setattr__(self, "lanes", _lanes(self.lanes))

    @property
    def dtype(self):
        return self.base.dtype.with_lanes(self.lanes)


@node
class Broadcast(PrimExpr):
    value: PrimExpr
    lanes: int

    def __post_init__(self):
        if not isinstance(self.value, PrimExpr):
            object.__setattr__(self, "value", as_expr(self.value))
        if type(self.lanes) is not int or self.lanes < 1:
            object.__setattr__(self, "lanes", _lanes(self.lanes))

    @property
    def dtype(self):
        return self.value.dtype.with_lanes(self.lanes)


def require_dtype(var, value):
    """TypeError where a variable is given a value of another dtype: nothing is converted unless a Cast says so."""
    if value.dtype != var.dtype:
        raise TypeError(f"{var.name} is of {var.dtype}, its value {value} of {value.dtype}: cast one of them")


@node
class Let(PrimExpr):
    var: Var = node_field(define=True)
    value: PrimExpr = None
    body: PrimExpr = None

    def __post_init__(self):
        for name in ("value", "body"):
            if not isinstance(getattr(self, name), PrimExpr):
                object.__setattr__(self, name, as_expr(getattr(self, name), self.var.dtype))
        require_dtype(self.var, self.value)

    @property
    def dtype(self):
        return self.body.dtype


@node
class Call(PrimExpr):
    """A call of an intrinsic (`op` such as "tir.exp"), of the function of the module that `op` is the GlobalVar of, or
    of the C function named first (op "tir.call_extern")."""

    dtype: DataType
    op: object  # Op or GlobalVar
    args: tuple

    def __post_init__(self):
        object.__setattr__(self, "dtype", DataType(self.dtype))
        if not isinstance(self.op, GlobalVar):
            object.__setattr__(self, "op", Op(self.op))
        object.__setattr__(self, "args", tuple(self.args))


@node
class Range(Node):
    """Half-open [min, min + extent)."""

    min: PrimExpr
    extent: PrimExpr
    _holds_statements = False

    @staticmethod
    def from_min_extent(minimum, extent):
        minimum, extent = as_expr(minimum), as_expr(extent)
        if minimum.dtype != extent.dtype:
            minimum, extent = match_dtype(minimum, extent)
        return Range(minimum, extent)

    def __repr__(self):
        return f"I.Range({self.min}, {self.min + self.extent})"


# TVM's name of a kind of loop, in the order of its numbers -> ours
ITER_NAMES = {"DataPar": "spatial", "ThreadIndex": "thread", "CommReduce": "reduce", "Ordered": "scan", "Opaque": "opaque"}
ITER_TYPES = tuple(ITER_NAMES.values())


@node
class IterVar(Node):
    """A block's iteration variable: its domain and how it iterates (`iter_type`), or the index of a thread.

    dom may be given as (begin, end), var as a name, iter_type as one of TVM's numbers; the types are
    also known as IterVar.DataPar, ThreadIndex, CommReduce, Ordered and Opaque.
    """

    dom: Range
    var: Var = node_field(define=True)
    iter_type: str = "spatial"  # "spatial" | "reduce" | "scan" | "opaque" | "thread"
    thread_tag: str = ""
    _holds_statements = False

    def __post_init__(self):
        if isinstance(self.dom, (tuple, list)):
            begin, end = map(as_expr, self.dom)
            object.__setattr__(self, "dom", Range.from_min_extent(begin, end - begin))
        if isinstance(self.var, str):
            object.__setattr__(self, "var", Var(self.var, "int32" if self.dom is None else self.dom.extent.dtype))
        if isinstance(self.iter_type, int):
            object.__setattr__(self, "iter_type", ITER_TYPES[self.iter_type])
        if type(self.thread_tag) is not str:  # that of a loop, which is more than its name
            object.__setattr__(self, "thread_tag", str(self.thread_tag or ""))

    @property
    def dtype(self):
        return self.var.dtype


for _name, _type in ITER_NAMES.items():
    setattr(IterVar, _name, _type)
AS_VARIABLE = [f"__{side}{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod") for side in ("", "r")]
AS_VARIABLE += ["__neg__", "__lt__", "__le__", "__gt__", "__ge__", "astype"]  # what is done with its variable
for _method in AS_VARIABLE:
    setattr(IterVar, _method, lambda self, *other, method=_method: getattr(self.var, method)(*other))


# ---------------------------------------------------------------- building

_FLOAT32_MAX = DataType("float32").finite_range()[1]


@provides("const")
def const(value, dtype=None):
    """An immediate of `dtype` (default: bool, int32 or float32, and int64 or float64 where that does not hold it);
    vectors are broadcast. A numpy scalar has a dtype of its own."""
    if dtype is None:
        if hasattr(value, "item"):
            value, dtype = value.item(), str(value.dtype)
        elif isinstance(value, bool):
            dtype = "bool"
        elif isinstance(value, int):
            dtype = "int32" if -(1 << 31) <= value < (1 << 31) else "int64"
        else:
            dtype = "float32" if abs(value) in (0, float("inf")) or not _FLOAT32_MAX < abs(value) else "float64"
    dtype = DataType(dtype)
    if dtype.lanes > 1:
        return Broadcast(const(value, dtype.element), dtype.lanes)
    return FloatImm(dtype, value) if dtype.is_float else IntImm(dtype, value)


def as_expr(value, dtype=None):
    """`value` as an expression: expressions pass, Python and numpy numbers become immediates."""
    if isinstance(value, (PrimExpr, IterVar)):
        return value if isinstance(value, PrimExpr) else value.var
    if isinstance(value, str):
        return StringImm(value)
    if hasattr(value, "__prim_expr__"):
        return value.__prim_expr__()
    value = value.item() if hasattr(value, "item") else value  # of a numpy scalar
    if isinstance(value, (bool, int, float)):
        return const(value, dtype)
    raise TypeError(f"cannot make an expression of a {type(value).__name__}: {value!r}")


def is_const_int(e, value=None):
    """True for an integer immediate (equal to `value` when given)."""
    return isinstance(e, IntImm) and (value is None or e.value == value)


def operation_of(e):
    """(what an expression does, its operands): the name of a call and its arguments; else the class and what it has of
    a and b."""
    if isinstance(e, Call):
        return e.op, e.args
    return type(e), tuple(getattr(e, side) for side in ("a", "b") if hasattr(e, side))


def match_dtype(a, b):
    """Both operands in one dtype, as in TVM: immediates take the other's, the narrower of integers and floats widens,
    one of a sign beside one as wide without becomes one without, bools become numbers, integers floats; lanes
    broadcast."""
    if a.dtype == b.dtype:
        return a, b
    if a.dtype.lanes == 1 != b.dtype.lanes:
        return match_dtype(Broadcast(a, b.dtype.lanes), b)
    if b.dtype.lanes == 1 != a.dtype.lanes:
        return match_dtype(a, Broadcast(b, a.dtype.lanes))
    if a.dtype.lanes != b.dtype.lanes:
        raise TypeError(f"operands of different lanes: {a.dtype} and {b.dtype}")
    both = isinstance(a, IntImm) and isinstance(b, IntImm) and a.dtype.is_int and b.dtype.is_int
    if not both and _adapts(a, b.dtype):
        return const(a.value, b.dtype), b
    if not both and _adapts(b, a.dtype):
        return a, const(b.value, a.dtype)
    if a.dtype.is_int and b.dtype.is_int:
        wide = max(a.dtype, b.dtype, key=lambda t: (t.bits, t.code == "uint"))
        return cast(a, wide), cast(b, wide)
    for left, right in ((a.dtype, b.dtype), (b.dtype, a.dtype)):
        if right.is_float and (left.is_int or left.is_bool) or right.is_int and left.is_bool:
            return cast(a, right), cast(b, right)
    if a.dtype.code == b.dtype.code == "float" and a.dtype.bits != b.dtype.bits:
        wide = max(a.dtype, b.dtype, key=lambda t: t.bits)
        return cast(a, wide), cast(b, wide)
    raise TypeError(f"operands of different dtype: {a.dtype} and {b.dtype}; cast one of them")


def match_all(args):
    """Operands in one dtype: Python numbers take that of the first expression, expressions match as match_dtype says.

    A fraction beside integers stays a float32 (and makes floats of them).
    """
    exprs = [a for a in args if isinstance(a, PrimExpr)]
    dtype = exprs[0].dtype.element if exprs else None
    out = tuple(number_like(a, dtype) if dtype and isinstance(a, (bool, int, float)) else as_expr(a) for a in args)
    for a in out[1:]:
        first, _ = match_dtype(out[0], a)
        out = (first, *out[1:])
    return (out[0], *(match_dtype(a, out[0])[0] for a in out[1:]))


def number_like(value, dtype):
    """A Python number as an immediate of `dtype`; a fraction beside integers stays a float32."""
    dtype = DataType(dtype)
    if isinstance(value, float) and not dtype.is_float:
        return FloatImm("float32", value)
    return const(value, None if dtype.is_bool and value not in (0, 1) else dtype)


def _adapts(e, dtype):
    """Whether an immediate may as well be one of `dtype`."""
    return isinstance(e, (IntImm, FloatImm)) and (dtype.is_float or not e.dtype.is_float) and dtype.holds(e.value)


def cast(value, dtype):
    """`value` converted to `dtype` (itself when it already is); a scalar becomes every lane of a vector."""
    value, dtype = as_expr(value), DataType(dtype)
    if value.dtype == dtype:
        return value
    if dtype.lanes != 1 and value.dtype.lanes == 1:
        return Broadcast(cast(value, dtype.element), dtype.lanes)
    if value.dtype == "handle":
        raise TypeError(f"cannot cast a handle to other types: {value} is none of {dtype}")
    if value.dtype.lanes != dtype.lanes:
        raise TypeError(f"cannot cast {value.dtype} to {dtype}: the lanes stay as many")
    if isinstance(value, Broadcast) and value.lanes == dtype.lanes:
        return Broadcast(cast(value.value, dtype.element), value.lanes)
    exact = isinstance(value, IntImm) or isinstance(value, FloatImm) and (
        dtype.is_float or dtype.is_int and abs(value.value) < 2.0 ** 64)  # toward zero
    number = value.value if exact and dtype.is_float else int(value.value) if exact else None
    if exact and dtype.lanes == 1 and dtype.holds(number):
        return const(number, dtype)
    return Cast(dtype, value)


_DIVISIONS = ("FloorDiv", "FloorMod", "Div", "Mod")
_NEUTRAL = {("Add", 0), ("Sub", 0), ("Mul", 1), ("FloorDiv", 1), ("Div", 1)}  # right operands that change nothing
_NOTHING = {("Mul", 0), ("FloorMod", 1), ("Mod", 1)}  # and those that give 0, where the other has no effect


def binary(cls, a, b):
    """The node cls(a, b) after matching dtypes and folding immediates and neutral elements."""
    try:
        a = number_like(a, b.dtype.element) if isinstance(b, PrimExpr) and isinstance(a, (int, float)) else as_expr(a)
        b = number_like(b, a.dtype.element) if isinstance(b, (int, float)) else as_expr(b)
    except TypeError:
        return NotImplemented
    a, b = match_dtype(a, b)
    name = cls.__name__
    if not a.dtype.is_int:
        constant = type(a) is FloatImm and type(b) is FloatImm
        value = folded(name, a.dtype, a.value, b.value) if constant else None
        return cls(a, b) if value is None else const(value, _dtype_of(cls, a))
    if isinstance(b, IntImm):
        if name in _DIVISIONS and b.value == 0:
            raise ZeroDivisionError(f"{name} by zero in an index expression")
        if isinstance(a, IntImm):
            value = folded(name, a.dtype, a.value, b.value)
            return cls(a, b) if value is None else const(value, _dtype_of(cls, a))
        if (name, b.value) in _NEUTRAL:
            return a
        return const(0, a.dtype) if (name, b.value) in _NOTHING and not upper("has_effect")(a) else cls(a, b)
    if isinstance(a, IntImm) and name in ("Add", "Mul"):
        if (name, a.value) in _NEUTRAL:
            return b
        return a if (name, a.value) in _NOTHING and not upper("has_effect")(b) else cls(a, b)
    return cls(a, b)


def _dtype_of(cls, a):
    """The dtype of a node of a class with the first operand `a`."""
    return DataType("bool") if issubclass(cls, CompareExpr) else a.dtype


def _add_operators():
    """Python's operators of PrimExpr, in both orders: those that make nodes and those that call intrinsics."""
    nodes = {"add": Add, "sub": Sub, "mul": Mul, "floordiv": FloorDiv, "mod": FloorMod}
    calls = {"lshift": "shift_left", "rshift": "shift_right", "and": "bitwise_and", "or": "bitwise_or",
             "xor": "bitwise_xor", "pow": "pow"}
    for name, what in {**nodes, **calls}.items():
        build = partial(binary, what) if name in nodes else (
            lambda a, b, what=what: upper("intrinsic")(what, a, b))
        setattr(PrimExpr, f"__{name}__", lambda self, other, build=build: build(self, other))
        setattr(PrimExpr, f"__r{name}__", lambda self, other, build=build: build(other, self))
    for name, what in {"lt": LT, "le": LE, "gt": GT, "ge": GE}.items():
        setattr(PrimExpr, f"__{name}__", lambda self, other, what=what: binary(what, self, other))


_add_operators()


def _connected(cls, decides, a, b):
    """cls(a, b) of bools; a constant either decides, where its value is `decides`, or says nothing."""
    a, b = as_expr(a), as_expr(b)
    if isinstance(a, IntImm):
        return a if bool(a.value) == decides else b
    if isinstance(b, IntImm):
        return b if bool(b.value) == decides else a
    return cls(a, b)


def logical_and(a, b):
    """a && b with constants folded."""
    return _connected(And, False, a, b)


def logical_or(a, b):
    """a || b with constants folded."""
    return _connected(Or, True, a, b)


def free_vars(root):
    """The Vars under `root`, each once, in order of first use."""
    return collect(root, Var)
