"""Expressions of a script: Python's syntax tree to IR expressions or, where only Python values meet, Python values.

IR expressions are built literally, nothing is folded, so that a printed program reads back as it was. Python's numbers
are computed with as Python does, and take the dtype of the IR expression they meet.
"""
from __future__ import annotations

import ast
import difflib
import operator
import re

from .. import expr as E
from ..arith import Analyzer
from ..expr import IntImm, FloatImm, IterVar, PrimExpr, Range, as_expr, const, is_const_int, match_dtype
from ..module import SYMBOL, GlobalVar, linked
from ..node import Node, structural_equal
from ..tir.buffer import Buffer
from ..tir.intrin import if_then_else, intrinsic
from ..tir.stmt import BufferLoad, BufferRegion
from .errors import ScriptError
from .loops import loop
from .namespaces import Form, is_number, matched, number_like
from .specs import Meta, Spec

# Python's operator -> (node class or intrinsic, the operator on Python values)
BINARY = {
    ast.Add: (E.Add, operator.add), ast.Sub: (E.Sub, operator.sub), ast.Mult: (E.Mul, operator.mul),
    ast.Div: (E.Div, operator.truediv), ast.FloorDiv: (E.FloorDiv, operator.floordiv),
    ast.Mod: (E.FloorMod, operator.mod), ast.Pow: ("pow", operator.pow),
    ast.LShift: ("shift_left", operator.lshift), ast.RShift: ("shift_right", operator.rshift),
    ast.BitAnd: ("bitwise_and", operator.and_), ast.BitOr: ("bitwise_or", operator.or_),
    ast.BitXor: ("bitwise_xor", operator.xor)}
COMPARE = {
    ast.Eq: (E.EQ, operator.eq), ast.NotEq: (E.NE, operator.ne), ast.Lt: (E.LT, operator.lt),
    ast.LtE: (E.LE, operator.le), ast.Gt: (E.GT, operator.gt), ast.GtE: (E.GE, operator.ge),
    ast.Is: (None, operator.is_), ast.IsNot: (None, operator.is_not),
    ast.In: (None, lambda a, b: a in b), ast.NotIn: (None, lambda a, b: a not in b)}
BUILTINS = {f.__name__: f for f in (len, int, float, bool, str, tuple, list, dict, min, max, sum, abs, zip, enumerate)}
BUILTINS["range"] = loop("serial")
# What a function called from a script raises for arguments it does not take.
REFUSALS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)


class _Given:
    """An index that is known already, and where it stands."""

    def __init__(self, node, value):
        self.node, self.value = node, value


class Evaluator:
    """Evaluates expressions of one source.

    env: the names around the script. trusted: the script is code of this process (a decorated function), so that
    Python which this class does not know (comprehensions, lambdas ...) may be run; text is never run.
    """

    default_int = "int32"  # the dtype of integers with nothing beside them
    alone = False  # whether what is read is a function without its module, whose functions go by their names

    def __init__(self, source, env, trusted=False):
        self.source, self.env, self.trusted = source, env, trusted
        self.scopes = [{}]

    def fail(self, node, message):
        raise self.source.error(node, message)

    def linked(self, node, func, private):
        """A function as it stands alone or in its module: what others find it by is its name, of a private one nothing."""
        if private and SYMBOL in func.attrs:
            self.fail(node, f"function {node.name} is private and has a global_symbol, {func.attrs[SYMBOL]}, by which "
                            "others find it: it must be one or the other")
        return linked(func, node.name, private)

    # ------------------------------------------------------------ names

    def define(self, name, value):
        self.scopes[-1][name] = value

    def eval_Name(self, node):
        for scope in reversed(self.scopes):
            if node.id in scope:
                return scope[node.id]
        if node.id in self.env:
            return self.env[node.id]
        if node.id in BUILTINS:
            return BUILTINS[node.id]
        known = [n for n in (*dict.fromkeys(n for scope in reversed(self.scopes) for n in scope), *self.env)
                 if not n.startswith("_")]
        near = difflib.get_close_matches(node.id, known, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; known here: {', '.join(known[:12])}" if known else ""
        return self.fail(node, f"{node.id!r} is not defined{hint}")

    # ------------------------------------------------------------ evaluation

    def eval(self, node):
        """The value of an expression: an IR node, a Spec or a Python value. What it raises points at `node`."""
        method = getattr(self, "eval_" + type(node).__name__, None)
        try:
            return method(node) if method else self._run(node)
        except REFUSALS as error:
            return self.blame(node, error)

    def blame(self, node, error, who=""):
        """Raise `error` as one that points at `node`, unless it points somewhere already."""
        if isinstance(error, ScriptError):
            raise error
        text = re.sub(r"^[\w.<>]+\(\) ", "", str(error)) or type(error).__name__  # Python names its own function first
        raise self.source.error(node, who + text) from error

    def scalar(self, node):
        """The IR expression an ast node means; Python numbers become immediates."""
        return self.as_scalar(self.eval(node), node)

    def as_scalar(self, value, node, dtype=None):
        """`value` as an expression; dtype: that of Python integers (default_int) or numbers when given."""
        value = self.operand(value, node)
        if isinstance(value, PrimExpr):
            return value
        if isinstance(value, bool) and dtype is None:
            return const(value, "bool")
        if isinstance(value, int) and dtype is None:
            wide = not -(1 << 31) <= value < 1 << 31
            return const(value, "int64" if wide else self.default_int)
        if dtype is not None and is_number(value):
            return number_like(value, dtype)
        try:
            return as_expr(value)
        except TypeError:
            return self.fail(node, f"expected an expression, not {describe(value)}")

    def operand(self, value, node):
        """`value` where an operand or argument stands: iterators are their variables, regions vector loads."""
        if isinstance(value, IterVar):
            return value.var
        if isinstance(value, Meta):
            return value.value
        if isinstance(value, BufferRegion):
            return self._python(node, vector_load, value)
        if isinstance(value, Buffer):
            self.fail(node, f"buffer {value.name} is used as a value: index it, or take its pointer, {value.name}.data")
        if isinstance(value, Spec):
            self.fail(node, f"this has a meaning as {value.place} only")
        return value

    def eval_Constant(self, node):
        return node.value

    def eval_Tuple(self, node):
        return tuple(self.sequence(node.elts))

    def eval_List(self, node):
        return self.sequence(node.elts)

    def sequence(self, elements):
        values = []
        for e in elements:
            if isinstance(e, ast.Starred):
                values.extend(self.eval(e.value))
            else:
                values.append(self.eval(e))
        return values

    def eval_Dict(self, node):
        return {self.eval(k): self.eval(v) for k, v in zip(node.keys, node.values)}

    def eval_Attribute(self, node):
        return self.attribute(node, self.eval(node.value))

    def attribute(self, node, value):
        """What an attribute of a value is."""
        if node.attr.startswith("_"):
            self.fail(node, f"names that start with an underscore, such as {node.attr}, cannot be used in a script")
        try:
            return getattr(value, node.attr)
        except AttributeError as error:
            known = type(value).__name__ in ("Namespace", "Group")  # which say it better
            text = str(error) if known else f"{describe(value)} has no {node.attr!r}"
            return self.fail(node, text)

    # ------------------------------------------------------------ operators

    def eval_BinOp(self, node):
        return self.combine(node, BINARY.get(type(node.op)), self.eval(node.left), self.eval(node.right))

    def combine(self, node, row, a, b):
        """One binary operator on two values."""
        if row is None:
            self.fail(node, "this operator has no meaning in a script")
        cls, python = row
        a, b = self.operand(a, node), self.operand(b, node)
        if cls is None or not (isinstance(a, PrimExpr) or isinstance(b, PrimExpr)):
            return self._python(node, python, a, b)
        if isinstance(cls, str):
            return intrinsic(cls, *matched(a, b))
        a, b = match_dtype(*matched(a, b))
        if cls is E.Div and not a.dtype.is_float:
            self.fail(node, "`/` on integers is ambiguous: use `//`, which rounds down, or T.truncdiv, which truncates")
        return cls(a, b)

    def _python(self, node, function, *args):
        try:
            return function(*args)
        except REFUSALS as error:
            return self.blame(node, error)

    def eval_UnaryOp(self, node):
        value = self.operand(self.eval(node.operand), node)
        kind = type(node.op)
        if not isinstance(value, PrimExpr):
            python = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Invert: operator.inv}
            return self._python(node, python[kind], value)
        if kind is ast.USub:
            if isinstance(value, (IntImm, FloatImm)):
                return const(-value.value, value.dtype)
            return E.Sub(const(0, value.dtype), value)
        if kind is ast.UAdd:
            return value
        if kind is ast.Not:
            return E.Not(self.condition(value, node))
        return intrinsic("bitwise_not", value)

    def eval_Compare(self, node):
        result, left = None, self.eval(node.left)
        for op, right in zip(node.ops, node.comparators):
            right = self.eval(right)
            one = self.combine(node, COMPARE[type(op)], left, right)
            result = one if result is None else self._connect(node, E.And, result, one)
            left = right
        return result

    def eval_BoolOp(self, node):
        cls = E.And if isinstance(node.op, ast.And) else E.Or
        result = self.eval(node.values[0])
        for v in node.values[1:]:
            if not isinstance(result, PrimExpr) and bool(result) == (cls is E.Or):
                return result
            result = self._connect(node, cls, result, self.eval(v))
        return result

    def _connect(self, node, cls, a, b):
        """a and b, a or b; a Python value on the left did not decide."""
        a, b = self.operand(a, node), self.operand(b, node)
        if not isinstance(a, PrimExpr):
            return b
        return cls(self.condition(a, node), self.condition(b, node))

    def condition(self, value, node):
        """`value` as an expression that is bool."""
        value = self.as_scalar(value, node)
        if not value.dtype.is_bool:
            self.fail(node, f"a condition is bool, this is {value.dtype}: compare it, as in `x != 0`")
        return value

    def eval_IfExp(self, node):
        test = self.operand(self.eval(node.test), node)
        if not isinstance(test, PrimExpr):
            return self.eval(node.body if test else node.orelse)
        values = (self.operand(self.eval(n), n) for n in (node.body, node.orelse))
        return if_then_else(test, *matched(*values))

    # ------------------------------------------------------------ calls and subscripts

    def eval_Call(self, node):
        if self.alone:
            self._name_callee(node)
        function = self.eval(node.func)
        if isinstance(function, Form):
            return function.handler(self, node)
        args = self.sequence(node.args)
        kwargs = {}
        for k in node.keywords:
            kwargs.update({k.arg: self.eval(k.value)} if k.arg else self.eval(k.value))
        return self.call(node, function, args, kwargs)

    def _name_callee(self, node):
        """A name of nothing else that is called, or is what R.call_tir calls, is a function of the module."""
        by_name = getattr(node.func, "attr", "").startswith("call_tir") and node.args
        callee = node.args[0] if by_name else node.func
        taken = (*self.scopes, self.env) if by_name else (*self.scopes, self.env, BUILTINS)  # cls.max is max here
        if isinstance(callee, ast.Name) and not any(callee.id in known for known in taken):
            self.scopes[0][callee.id] = GlobalVar(callee.id)

    def call(self, node, function, args, kwargs):
        """function(*args, **kwargs), what it raises pointing at `node`."""
        if not callable(function):
            self.fail(node, f"{describe(function)} cannot be called")
        try:
            return function(*args, **kwargs)
        except REFUSALS as error:
            return self.blame(node, error, ast.unparse(node.func) + ": ")

    def eval_Subscript(self, node):
        base = self.eval(node.value)
        if isinstance(base, Buffer):
            return self.access(base, node)
        index = self.operand(self.eval(node.slice), node.slice)
        return self.subscript(node, base, int(index) if isinstance(index, IntImm) else index)

    def subscript(self, node, base, index):
        if isinstance(base, Node) or isinstance(base, Spec):
            self.fail(node, f"{describe(base)} cannot be indexed")
        return self._python(node, lambda: base[index])

    def eval_Slice(self, node):
        return slice(*(self.eval(n) if n is not None else None for n in (node.lower, node.upper, node.step)))

    def access(self, buffer, node):
        """buffer[...]: a BufferLoad or, when any index is a slice, a BufferRegion."""
        parts = [p for part in (node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice])
                 for p in self._indices_in(part)]
        if len(parts) != len(buffer.shape):
            self.fail(node, f"buffer {buffer.name} has {len(buffer.shape)} dimensions, indexed with {len(parts)}")
        values = [self._range(p, extent) if isinstance(p, ast.Slice) else self._index(p)
                  for p, extent in zip(parts, buffer.shape)]
        if not any(isinstance(v, Range) for v in values):
            return BufferLoad(buffer, tuple(values))
        return BufferRegion(buffer, tuple(point(v) for v in values))

    def _indices_in(self, node):
        """What an index is of: itself, or where it is `*vs`, or a name of several variables, those."""
        value = None
        if isinstance(node, ast.Tuple):  # A[(*s, r)]
            return [p for part in node.elts for p in self._indices_in(part)]
        if isinstance(node, ast.Starred):
            value = self.eval(node.value)
        elif isinstance(node, ast.Name) and isinstance(found := self.eval(node), (tuple, list)):
            value = found
        return [node] if value is None else [_Given(ast.copy_location(ast.Constant(None), node), v) for v in value]

    def _index(self, node):
        node, value = (node.node, node.value) if isinstance(node, _Given) else (node, self.eval(node))
        if isinstance(value, Range):  # T.Range(start, stop)
            return value
        value = self.as_scalar(value, node)
        if value.dtype.is_float or value.dtype == "handle":
            self.fail(node, f"an index is an integer, this is {value.dtype}")
        return value

    def _range(self, node, whole):
        """start:stop as a Range; `start:start + extent` keeps the extent as it is written."""
        if node.step is not None and not is_const_int(step := self.scalar(node.step), 1):
            return self._strided(node, step)
        start = self.eval(node.lower) if node.lower is not None else 0
        if node.upper is None:
            return make_range(self, node, start, whole)
        if isinstance(node.upper, ast.BinOp) and isinstance(node.upper.op, ast.Add):
            begin, left = self.as_scalar(start, node), self.scalar(node.upper.left)
            if not isinstance(start, int) and structural_equal(begin, left):
                return Range(begin, self.as_scalar(self.eval(node.upper.right), node.upper, begin.dtype))
        return make_range(self, node, start, self.eval(node.upper))

    def _strided(self, node, step):
        """start:stop:step, a vector of indices: its Ramp."""
        if node.upper is None:
            self.fail(node, "a slice with a step is a vector of indices: give it as start:stop:step")
        start = const(0, self.default_int) if node.lower is None else self.scalar(node.lower)
        start, step = match_dtype(start, step)
        length = Analyzer().simplify(E.FloorDiv(E.Sub(E.Add(self._stop(node, start), step), E.Add(
            start, const(1, start.dtype))), step))
        if not isinstance(length, IntImm) or length.value < 1:
            self.fail(node, "a slice with a step is a vector of indices: its length must be known")
        return E.Ramp(start, step, length.value)

    def _stop(self, node, start):
        return match_dtype(self.scalar(node.upper), start)[0]

    # ------------------------------------------------------------ everything else

    def _run(self, node):
        """Python that has no meaning of its own in a script: run it, if the script is code of this process."""
        if not self.trusted:
            self.fail(node, f"Python's {type(node).__name__} cannot be used in a script")
        names = {k: v for scope in [self.env, *self.scopes] for k, v in scope.items()}
        code = compile(ast.fix_missing_locations(ast.Expression(node)), self.source.filename, "eval")
        return self._python(node, lambda: eval(code, names))  # noqa: S307


def vector_load(region):
    """A slice of a buffer where a value stands: the vector of its elements. ValueError when its length is not known."""
    if any(not isinstance(r.extent, IntImm) and E.scalable_lanes(r.extent) is None for r in region.region):
        raise ValueError("a slice used as a value is a vector: its length must be known")
    if any(not is_const_int(r.extent, 1) for r in region.region[:-1]):
        raise ValueError(f"a slice used as a value is a vector along the last dimension: this one, of "
                         f"{region.buffer.name}, is longer along others; write a loop")
    return BufferLoad(region.buffer, tuple(
        r.min if isinstance(r.extent, IntImm) and r.extent.value <= 1 else
        E.Ramp(r.min, const(1, r.min.dtype), r.extent) for r in region.region))


def point(value):
    """A Range of one element for an index; Ranges pass."""
    return value if isinstance(value, Range) else Range(value, const(1, value.dtype))


def make_range(parser, node, start, stop):
    """[start, stop) as a Range of one dtype. A stop of `start + extent` keeps that extent."""
    given = [v.dtype for v in (start, stop) if isinstance(v, (PrimExpr, IterVar))]
    dtype = given[-1] if given else parser.default_int
    start, stop = (parser.as_scalar(v, node, dtype) for v in (start, stop))
    if isinstance(stop, E.Add) and structural_equal(stop.a, start):
        return Range(start, stop.b)
    start, stop = match_dtype(start, stop)
    if isinstance(start, IntImm) and isinstance(stop, IntImm):
        return Range(start, const(stop.value - start.value, start.dtype))
    if isinstance(start, IntImm) and start.value == 0:
        return Range(start, stop)
    return Range(start, Analyzer().simplify(stop - start))


def describe(value):
    """Describe a value for an error message."""
    if isinstance(value, Spec):
        return f"what stands in {value.place}"
    if isinstance(value, Buffer):
        return f"buffer {value.name}"
    return f"a {type(value).__name__}" if not isinstance(value, str) else f"the string {value!r}"


__all__ = ["Evaluator", "describe", "make_range", "point", "vector_load"]
