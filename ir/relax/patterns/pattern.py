"""Patterns of values.

Each pattern yields its solutions: pattern.solutions(expr, found, m) gives, one after another, the ways in which `expr`
fits, each as `found` with what the patterns inside matched: a dict {pattern: value}. m says what variables are bound
to. A pattern that occurs twice matches the same value twice. Sums and products are commutative, and a quotient of a
product is one of either factor.
"""
from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from itertools import permutations

from ...dtype import DataType
from ...expr import Op, PrimExpr, Var, as_expr, cast, substitute
from ...module import GlobalVar
from ...node import Node, structural_equal
from ...op import takes_tuple
from ...upper import upper
from .. import expr as rx
from ..ops.common import same_dim

_COMMUTATIVE = ("add", "multiply")
# Attributes that TVM hands as arguments, which patterns of calls then name.
AS_ARGUMENTS = {"strided_slice": ("axes", "begin", "end", "strides")}
_NUMBERS = {"clip": ("min", "max")}
CONTEXTS = []  # the open PatternContexts, innermost last
_DIMS = "dims"  # the key in `found` of {dimension of a pattern: what it is}


def _pattern(cls):
    """Patterns are told apart by identity: two wildcards may match different values."""
    return dataclass(eq=False, repr=False)(cls)


@dataclass
class Match:
    """What variables are bound to: {variable: value}, or nothing, where patterns look no further than variables."""

    var2val: dict = field(default_factory=dict)

    def value(self, expr):
        """What an expression is: the value of a bound variable, the body of a sequence without bindings."""
        while True:
            if isinstance(expr, rx._AnyVar) and expr in self.var2val:
                expr = self.var2val[expr]
            elif isinstance(expr, rx.SeqExpr) and not any(b.bindings for b in expr.blocks):
                expr = expr.body
            else:
                return expr

    def solutions(self, pattern, expr, found):
        """`found` extended by each way in which `expr` fits `pattern`."""
        expr = self.value(expr)
        if pattern in found:
            if found[pattern] is expr or isinstance(expr, Op) and found[pattern] == expr:
                yield found
            return
        for more in pattern.solutions(expr, found, self):
            yield {**more, pattern: expr}

    def all_of(self, patterns, exprs, found):
        """The solutions of several patterns, of as many expressions, in order."""
        if not patterns:
            yield found
            return
        for more in self.solutions(patterns[0], exprs[0], found):
            yield from self.all_of(patterns[1:], exprs[1:], more)


class DFPattern:
    """A pattern; called, one of a call whose callee it is: is_op("relax.add")(x, y)."""

    def __call__(self, *args, varg_default_wildcard=False, add_constraint=True):
        call = CallPattern(self, args, varg_default_wildcard)
        if add_constraint and open_context():
            for n, arg in enumerate(args):
                open_context().add_edge(arg, call, n if len(args) > 1 else -1)
        return call

    def __or__(self, other):
        return OrPattern(self, other)

    def __and__(self, other):
        return AndPattern(self, other)

    def __invert__(self):
        return NotPattern(self)

    def has_attr(self, attrs):
        """With these attributes, of a call or function: {name: value}."""
        return AttrPattern(self, attrs)

    def has_struct_info(self, struct_info):
        """With struct info at least as precise; dimensions that are variables stand for any, one for the same."""
        return StructInfoPattern(self, rx.as_struct_info(struct_info))

    def has_type(self, ttype):
        """With this checked_type: a tensor's number of dimensions and dtype."""
        return TypePattern(self, ttype)

    def has_dtype(self, dtype):
        return DataTypePattern(self, dtype)

    def has_shape(self, shape):
        return ShapePattern(self, tuple(shape))

    def match(self, expr, var2val=None):
        """Whether an expression fits. var2val, as analysis.get_var2val gives it: what its variables are bound to."""
        return self.extract_matched_expr(expr, var2val) is not None

    def extract_matched_expr(self, expr, var2val=None):
        """{pattern: expression} of the first way in which it fits, None when there is none."""
        first = next(Match(dict(var2val or {})).solutions(self, expr, {}), None)
        return None if first is None else public(first)

    # ------------------------------------------------ uses, in a PatternContext

    def used_by(self, other, index=-1):
        """In the context: `other` uses this, as its argument `index` where given."""
        return _sequence(self).used_by(other, index)

    __xor__ = used_by

    def only_used_by(self, other, index=-1):
        """As used_by, and nothing else uses this."""
        return _sequence(self).only_used_by(other, index)

    __rshift__ = only_used_by

    def dup(self):
        """The same pattern as one of its own, matching another value."""
        return copy(self)

    def fork_to(self, *others):
        """Each of `others` uses this."""
        for other in others:
            self.used_by(other)

    def same_shape_as(self, *others):
        """In the context: this and `others` have equal shapes."""
        constraint = SameShapeConstraint(self, *others)
        if open_context():
            open_context().add_constraint(constraint)
        return constraint


def public(found):
    """A solution without what is kept beside the patterns."""
    return {p: e for p, e in found.items() if p != _DIMS}


def open_context():
    """The innermost PatternContext, or None."""
    return CONTEXTS[-1] if CONTEXTS else None


def _sequence(pattern):
    return upper("pattern_sequence")([pattern])


# ---------------------------------------------------------------- leaves

@_pattern
class WildcardPattern(DFPattern):
    def solutions(self, expr, found, m):
        yield found


@_pattern
class ExprPattern(DFPattern):
    """This expression, or one of the same structure; also an operator."""

    expr: object

    def solutions(self, expr, found, m):
        same = expr == self.expr if isinstance(self.expr, str) else (
            isinstance(expr, Node) and structural_equal(self.expr, expr))
        if same:
            yield found


@_pattern
class VarPattern(DFPattern):
    name: str = ""
    kinds = (rx.RelaxVar, rx.DataflowVar)

    @property
    def name_hint(self):
        return self.name

    def solutions(self, expr, found, m):
        if isinstance(expr, self.kinds) and self.name in ("", expr.name):
            yield found


@_pattern
class DataflowVarPattern(VarPattern):
    kinds = (rx.DataflowVar,)


@_pattern
class GlobalVarPattern(VarPattern):
    """A function of the module whose name contains `name`."""

    kinds = (GlobalVar,)

    def solutions(self, expr, found, m):
        if isinstance(expr, GlobalVar) and self.name in expr.name:
            yield found


@_pattern
class ExternFuncPattern(DFPattern):
    global_symbol: str = ""

    def solutions(self, expr, found, m):
        if isinstance(expr, rx.ExternFunc) and self.global_symbol in ("", expr.global_symbol):
            yield found


@_pattern
class ConstantPattern(DFPattern):
    def solutions(self, expr, found, m):
        if isinstance(expr, rx.Constant):
            yield found


@_pattern
class PrimArrPattern(DFPattern):
    """A shape as a value, its dimensions equal by proof."""

    fields: tuple

    def __post_init__(self):
        self.fields = tuple(as_expr(d) for d in self.fields)

    def __getitem__(self, index):
        return self.fields[index]

    def __len__(self):
        return len(self.fields)

    def solutions(self, expr, found, m):
        if isinstance(expr, rx.ShapeExpr) and _same_dims(self.fields, expr.values):
            yield found


def _same_dims(mine, theirs):
    return len(mine) == len(theirs) and all(
        same_dim(cast(a, "int64"), b) for a, b in zip(map(as_expr, mine), theirs))


# ---------------------------------------------------------------- combinations

@_pattern
class OrPattern(DFPattern):
    left: DFPattern
    right: DFPattern

    def solutions(self, expr, found, m):
        yield from m.solutions(self.left, expr, found)
        yield from m.solutions(self.right, expr, found)


@_pattern
class AndPattern(DFPattern):
    left: DFPattern
    right: DFPattern

    def solutions(self, expr, found, m):
        for more in m.solutions(self.left, expr, found):
            yield from m.solutions(self.right, expr, more)


@_pattern
class NotPattern(DFPattern):
    reject: DFPattern

    def solutions(self, expr, found, m):
        if next(m.solutions(self.reject, expr, found), None) is None:
            yield found


@_pattern
class _Refined(DFPattern):
    """A pattern of which more is asked: accepts(expr, found) -> `found`, with more in it, or None."""

    pattern: DFPattern

    def solutions(self, expr, found, m):
        for more in m.solutions(self.pattern, expr, found):
            more = self.accepts(expr, more)
            if more is not None:
                yield more


@_pattern
class AttrPattern(_Refined):
    attrs: dict

    def accepts(self, expr, found):
        known = getattr(expr, "attrs", None)
        fits = known is not None and all(
            name in known and _same_value(value, known[name]) for name, value in dict(self.attrs).items())
        return found if fits else None


def _same_value(a, b):
    """Whether an attribute is what a pattern asks for: numbers, strings, lists of them and structures."""
    a, b = (x.value if isinstance(x, PrimExpr) and hasattr(x, "value") else x for x in (a, b))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same_value, a, b))
    if isinstance(a, Node) or isinstance(b, Node):
        return structural_equal(a, b)
    return type(a) is type(b) and a == b or isinstance(a, (int, float)) and a == b or str(a) == str(b)


@_pattern
class StructInfoPattern(_Refined):
    struct_info: rx.StructInfo

    def accepts(self, expr, found):
        dims = fit(self.struct_info, getattr(expr, "struct_info", None), found.get(_DIMS, {}))
        return None if dims is None else {**found, _DIMS: dims}


def fit(info, actual, dims):
    """`dims` with what the variables in the shapes of `info` are in `actual`; None where `actual` is no such value.
    What `info` does not say is free; what it says `actual` must have, dimensions by proof."""
    if isinstance(info, rx.ObjectStructInfo):
        return dims if actual is not None else None
    if type(info) is not type(actual):
        return None
    if isinstance(info, rx.TupleStructInfo):
        if len(info.fields) != len(actual.fields):
            return None
        for a, b in zip(info.fields, actual.fields):
            dims = None if dims is None else fit(a, b, dims)
        return dims
    if _says_dtype(info) and info.dtype != actual.dtype:
        return None
    mine, theirs = (getattr(i, "shape", getattr(i, "values", None)) for i in (info, actual))
    if isinstance(info, rx.PrimStructInfo):
        mine, theirs = ((i.value,) if getattr(i, "value", None) is not None else None for i in (info, actual))
    if mine is None:
        known = getattr(info, "ndim", -1)
        return dims if known in (-1, getattr(actual, "ndim", -1)) else None
    if theirs is None or len(mine) != len(theirs):
        return None
    for a, b in zip(mine, theirs):
        if isinstance(a, Var) and a not in dims:
            dims = {**dims, a: b}
        elif not same_dim(substitute(a, dims), b):
            return None
    return dims


def _says_dtype(info):
    return hasattr(info, "dtype") and info.dtype.code != "void"


@_pattern
class TypePattern(_Refined):
    type: object

    def accepts(self, expr, found):
        return found if structural_equal(self.type, expr.checked_type) else None


@_pattern
class DataTypePattern(_Refined):
    dtype: str

    def accepts(self, expr, found):
        info = getattr(expr, "struct_info", None)
        return found if isinstance(info, rx.TensorStructInfo) and info.dtype == DataType(self.dtype) else None


@_pattern
class ShapePattern(_Refined):
    shape: tuple

    def accepts(self, expr, found):
        shape = getattr(getattr(expr, "struct_info", None), "shape", None)
        return found if shape is not None and _same_dims(self.shape, shape) else None


# ---------------------------------------------------------------- what is made of several values

def callee(call):
    """What a call calls: an operator, a function of the module, a foreign function."""
    if call.op == "call":
        return call.attrs["gv"]
    returns = call.op in rx.PACKED and call.op != "call_dps_packed"
    return extern(call.attrs["func"]) if returns else call.op


def extern(name):
    """The foreign function of a name, as an expression."""
    return rx.ExternFunc(str(name))


def arguments(call):
    """The arguments of a call as TVM has them: the function that call_tir and its like call is the first, a tuple of
    its arguments the second, and dimensions passed after these the third."""
    if call.op in ("call_tir", "call_tir_inplace"):
        dims = call.attrs.get("sym_args") or ()
        return (call.attrs["gv"], rx.RelaxTuple(call.args), *((rx.ShapeExpr(dims),) if dims else ()))
    if call.op == "call_dps_packed":
        return extern(call.attrs["func"]), rx.RelaxTuple(call.args)
    if call.op in AS_ARGUMENTS and len(call.args) == 1:
        listed = [call.attrs[name] for name in AS_ARGUMENTS[call.op]]
        count = len(listed[0])
        lists = (v if v is not None else (1,) * count for v in listed)
        return (*call.args, *(rx.RelaxTuple([rx.PrimValue(d) for d in values]) for values in lists))
    if call.op in _NUMBERS and len(call.args) == 1 and None not in call.attrs.values():
        return (*call.args, *(rx.PrimValue(call.attrs[name]) for name in _NUMBERS[call.op]))
    return call.args


@_pattern
class CallPattern(DFPattern):
    """A call. varg_default_wildcard: of any more arguments too."""

    op: DFPattern
    args: tuple
    varg_default_wildcard: bool = False

    def __post_init__(self):
        self.args = tuple(self.args)

    def solutions(self, expr, found, m):
        if not isinstance(expr, rx.RelaxCall):
            return
        args = (rx.RelaxTuple(expr.args),) if len(self.args) == 1 and takes_tuple(expr.op) else arguments(expr)
        counts = len(args) >= len(self.args) if self.varg_default_wildcard else len(args) == len(self.args)
        for more in m.solutions(self.op, callee(expr), found) if counts else ():
            yield from m.all_of(self.args, args, more)
            if expr.op in _COMMUTATIVE and len(args) == 2:
                yield from m.all_of(self.args, args[::-1], more)
        for same in self._reordered():
            if isinstance(expr, rx.RelaxCall) and _names(same.op, expr.op):
                yield from same.solutions(expr, found, m)

    def _reordered(self):
        """(a * b) / c as a * (b / c) and b * (a / c), and a * (b / c) as (a * b) / c."""
        if _names(self.op, "divide") and isinstance(self.args[0], CallPattern) and _names(
                self.args[0].op, "multiply"):
            product, divisor = self.args
            for a, b in permutations(product.args):
                yield CallPattern(product.op, (b, CallPattern(self.op, (a, divisor))))
        if _names(self.op, "multiply"):
            for a, b in permutations(self.args):
                if isinstance(a, CallPattern) and _names(a.op, "divide"):
                    yield CallPattern(a.op, (CallPattern(self.op, (a.args[0], b)), a.args[1]))


def _names(pattern, operator):
    """Whether a pattern is that of an operator."""
    return isinstance(pattern, ExprPattern) and isinstance(pattern.expr, str) and pattern.expr == operator


@_pattern
class FunctionPattern(DFPattern):
    params: tuple
    body: DFPattern

    def __post_init__(self):
        self.params = tuple(self.params)

    def solutions(self, expr, found, m):
        if not isinstance(expr, rx.Function) or len(expr.params) != len(self.params):
            return
        inside = Match({**m.var2val, **{b.var: b.value for b in getattr(expr, "bindings", ())}})
        body = expr.body.body if isinstance(expr.body, rx.SeqExpr) else expr.body
        for more in inside.all_of(self.params, expr.params, found):
            yield from inside.solutions(self.body, body, more)


@_pattern
class TuplePattern(DFPattern):
    fields: tuple

    def __post_init__(self):
        self.fields = tuple(self.fields)

    def __getitem__(self, index):
        """The pattern of an item, None: of any. IndexError where there is no such item."""
        if index is not None and not -len(self.fields) <= index < len(self.fields):
            raise IndexError(f"item {index} of a pattern of a tuple of {len(self.fields)}")
        return TupleGetItemPattern(self, index if index is None else index % len(self.fields))

    def __len__(self):
        return len(self.fields)

    def solutions(self, expr, found, m):
        if isinstance(expr, rx.RelaxTuple) and len(expr.fields) == len(self.fields):
            yield from m.all_of(self.fields, expr.fields, found)


@_pattern
class UnorderedTuplePattern(TuplePattern):
    def solutions(self, expr, found, m):
        if isinstance(expr, rx.RelaxTuple) and len(expr.fields) == len(self.fields):
            yield from self._rest(self.fields, expr.fields, found, m)

    def _rest(self, patterns, fields, found, m):
        if not patterns:
            yield found
        for n, field_ in enumerate(fields if patterns else ()):
            for more in m.solutions(patterns[0], field_, found):
                yield from self._rest(patterns[1:], fields[:n] + fields[n + 1:], more, m)


@_pattern
class TupleGetItemPattern(DFPattern):
    tuple_value: DFPattern
    index: int = None

    def solutions(self, expr, found, m):
        if isinstance(expr, rx.TupleGetItem) and self.index in (None, expr.index):
            yield from m.solutions(self.tuple_value, expr.tuple_value, found)


@dataclass(eq=False, init=False)
class SameShapeConstraint:
    """What patterns of a context match has one shape."""

    args: tuple

    def __init__(self, *args):
        self.args = args

    def holds(self, matched):
        """Whether it does, of {pattern: variable}; patterns that are not matched yet ask for nothing."""
        infos = [matched[p].struct_info for p in self.args if p in matched]
        shapes = [getattr(i, "shape", getattr(i, "values", None)) for i in infos]
        return not shapes or None not in shapes and all(_same_dims(shapes[0], s) for s in shapes[1:])


__all__ = [n for n, v in globals().items() if n[0] != "_" and getattr(v, "__module__", None) == __name__
           and n not in ("AS_ARGUMENTS", "CONTEXTS", "Match", "arguments", "callee", "extern", "fit", "open_context",
                         "public")]
