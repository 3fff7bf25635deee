"""A brute-force evaluator of integer expressions, and generators of random ones, for the tests of ir/arith."""
import itertools
import math

from hypothesis import strategies as st

from ingot.ir.expr import (EQ, GE, GT, LE, LT, NE, Add, And, BinaryExpr, Call, Cast, CompareExpr, Div, FloatImm,
                           FloorDiv, FloorMod, IntImm, Let, Max, Min, Mod, Mul, Not, Or, Range, Select, Sub, Var)
from ingot.ir.node import collect
from ingot.ir.tir.stmt import BufferLoad

I32 = "int32"


class Undefined(Exception):
    """The expression has no known value under this assignment, as where it divides by zero."""


def _divides(compute):
    def apply(a, b):
        if b == 0:
            raise Undefined
        return compute(a, b)
    return apply


def _trunc(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


APPLY = {
    Add: lambda a, b: a + b, Sub: lambda a, b: a - b, Mul: lambda a, b: a * b, Min: min, Max: max,
    FloorDiv: _divides(lambda a, b: a // b), FloorMod: _divides(lambda a, b: a % b),
    Div: _divides(_trunc), Mod: _divides(lambda a, b: a - b * _trunc(a, b)),
    EQ: lambda a, b: a == b, NE: lambda a, b: a != b, LT: lambda a, b: a < b, LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b, GE: lambda a, b: a >= b, And: lambda a, b: a and b, Or: lambda a, b: a or b,
}


def _shifted(a, n):
    if n < 0:
        raise Undefined
    return a >> n


def _log2(a):
    if a <= 0:
        raise Undefined
    return math.log2(a)


_BITS = {"tir.bitwise_and": lambda a, b: a & b, "tir.shift_right": _shifted,
         "tir.shift_left": lambda a, n: _shifted(a << max(2 * n, 0), n)}
_OF_ONE = {"tir.fabs": abs, "tir.ceil": math.ceil, "tir.log2": _log2}


def evaluate(e, env):
    """The Python int, bool or float value of `e` with variables from env; raises Undefined on a zero divisor.

    int32 and int64 count as unbounded, as in ir/arith; narrower integers wrap. Buffers hold small numbers.
    """
    kind = type(e)
    if kind is IntImm:
        return bool(e.value) if e.dtype == "bool" else e.value
    if kind is FloatImm:
        return e.value
    if kind is Var:
        return env[e]
    if kind is Select:
        chosen, other = (e.true_value, e.false_value) if evaluate(e.condition, env) else (e.false_value, e.true_value)
        evaluate(other, env)
        return evaluate(chosen, env)
    if kind is Let:
        return evaluate(e.body, {**env, e.var: evaluate(e.value, env)})
    if kind is BufferLoad:
        return evaluate(e.indices[0], env) * 7 % 11 - 5
    if kind is Not:
        return not evaluate(e.a, env)
    if kind is Cast:
        return _wrapped(evaluate(e.value, env), e.dtype)
    if kind is Call and e.op == "tir.likely":
        return evaluate(e.args[0], env)
    if kind is Call and e.op == "tir.vscale":
        return 2
    if kind is Call and e.op in _OF_ONE:
        return _OF_ONE[e.op](evaluate(e.args[0], env))
    if kind is Call and e.op == "tir.if_then_else":
        return evaluate(e.args[1 if evaluate(e.args[0], env) else 2], env)
    if kind is Call and e.op in _BITS:
        return _BITS[e.op](*(evaluate(a, env) for a in e.args))
    if kind is Call:
        raise Undefined  # what the function gives is not known
    return _wrapped(APPLY[kind](evaluate(e.a, env), evaluate(e.b, env)), e.dtype)


def _wrapped(value, dtype):
    if dtype.is_bool:
        return bool(value)
    if not dtype.is_int or dtype.bits >= 32:
        return float(value) if dtype.is_float else int(value)
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if value > dtype.max_value() else value


def assignments(domains):
    """Every assignment of {Var: Python range}, as dicts."""
    for values in itertools.product(*domains.values()):
        yield dict(zip(domains, values))


def bind_all(analyzer, domains):
    for v, r in domains.items():
        analyzer.bind(v, Range(IntImm(v.dtype, r.start), IntImm(v.dtype, len(r))))


VARS = [Var(name) for name in "xyz"]


def imm(value):
    return IntImm(I32, value)


@st.composite
def domain_sets(draw, names=VARS):
    """{Var: range} of a few values each."""
    out = {}
    for v in names:
        start = draw(st.sampled_from([0, 0, 0, 1, -3, 2]))
        out[v] = range(start, start + draw(st.sampled_from([1, 2, 3, 4, 5, 8])))
    return out


CONSTANTS = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 8, 12, 16, -1, -2, -3, -4, 7])
DIVISORS = st.sampled_from([1, 2, 3, 4, 6, 8, 12, -1, -2, -3, -4])
LEAVES = st.one_of(st.sampled_from(VARS), st.sampled_from(VARS), CONSTANTS.map(imm))


def _grow(inner):
    def node(kinds, left=inner, right=inner):
        return st.builds(lambda k, a, b: k(a, b), st.sampled_from(kinds), left, right)
    comparisons = node([EQ, NE, LT, LE, GT, GE])
    return st.one_of(
        node([Add, Sub]), node([Add, Sub]), node([Mul], right=CONSTANTS.map(imm)), node([Mul]),
        node([FloorDiv, FloorMod], right=DIVISORS.map(imm)), node([FloorDiv, FloorMod], right=DIVISORS.map(imm)),
        node([Div, Mod], right=DIVISORS.map(imm)), node([FloorDiv, FloorMod]), node([Min, Max]),
        st.builds(Select, comparisons, inner, inner))


def well_typed(e):
    """Whether the operands of every operator under `e` agree in dtype."""
    return all(n.a.dtype == n.b.dtype for n in collect(e, (BinaryExpr, CompareExpr)) if hasattr(n, "b"))


WIDE = Var("w", "int64")


def wide_expressions(most=8):
    """int64 expressions over casts of int32 ones and an int64 variable."""
    leaf = st.one_of(st.just(WIDE), expressions(4).map(lambda e: Cast("int64", e)),
                     CONSTANTS.map(lambda c: IntImm("int64", c)))
    div = DIVISORS.map(lambda c: IntImm("int64", c))

    def grow(inner):
        return st.one_of(
            st.builds(lambda k, a, b: k(a, b), st.sampled_from([Add, Sub, Mul, Min, Max]), inner, inner),
            st.builds(lambda k, a, b: k(a, b), st.sampled_from([FloorDiv, FloorMod, Div]), inner, div),
            inner.map(lambda e: Cast("int64", Cast("int32", e))))
    return st.recursive(leaf, grow, max_leaves=most)


def expressions(most=10):
    return st.recursive(LEAVES, _grow, max_leaves=most)


def conditions(most=8):
    e = expressions(most // 2)
    atoms = st.builds(lambda k, a, b: k(a, b), st.sampled_from([EQ, NE, LT, LE, GT, GE]), e, e)
    return st.one_of(atoms, st.recursive(atoms, lambda c: st.one_of(
        st.builds(And, c, c), st.builds(Or, c, c), st.builds(Not, c)), max_leaves=3))
