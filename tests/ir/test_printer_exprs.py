"""Printed expressions mean what the tree means: read by Python's own grammar they give the same value and structure."""
import ast
import itertools
import operator

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ingot.ir import expr as E
from ingot.ir import tir
from ingot.ir.expr import Cast, FloatImm, Let, Not, Ramp, Select, Var, const
from ingot.ir.node import structural_equal

VARIABLES = {name: Var(name) for name in "ijk"}
I, J, K = VARIABLES.values()
X = Var("x", "float32")

ARITHMETIC = [E.Add, E.Sub, E.Mul, E.FloorDiv, E.FloorMod, E.Div, E.Mod, E.Min, E.Max]
COMPARISONS = [E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE]


# ---------------------------------------------------------------- the same value

def truncdiv(a, b):
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


VALUES = {
    "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod, "Div": truncdiv, "Mod": lambda a, b: a - b * truncdiv(a, b), "Min": min, "Max": max,
    "EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge}


class T:
    """The T namespace of printed integer expressions, in Python."""

    min, max, truncdiv, truncmod = min, max, staticmethod(truncdiv), staticmethod(VALUES["Mod"])
    bool, int32 = bool, int

    @staticmethod
    def Select(condition, true_value, false_value):
        return true_value if condition else false_value


for _name, _function in VALUES.items():  # operators with a constant operand that TVM would compute with
    setattr(T, _name, staticmethod(_function))


def evaluate(e, env):
    """The value of a tree by its definition."""
    kind = type(e).__name__
    if kind == "Var":
        return env[e.name]
    if kind == "IntImm":
        return e.value
    if kind == "Not":
        return not evaluate(e.a, env)
    if kind == "And":
        return evaluate(e.a, env) and evaluate(e.b, env)
    if kind == "Or":
        return evaluate(e.a, env) or evaluate(e.b, env)
    if kind == "Select":  # Python evaluates the arguments of T.Select before choosing
        c, t, f = (evaluate(x, env) for x in (e.condition, e.true_value, e.false_value))
        return t if c else f
    return VALUES[kind](evaluate(e.a, env), evaluate(e.b, env))


def outcome(compute):
    try:
        return compute()
    except ZeroDivisionError:
        return "division by zero"


def _grow(children):
    compare = st.builds(lambda c, a, b: c(a, b), st.sampled_from(COMPARISONS), children, children)
    connect = st.builds(lambda c, a, b: c(a, b), st.sampled_from([E.And, E.Or, E.EQ]), compare, compare)
    condition = st.one_of(compare, connect, st.builds(lambda a, b: E.And(a, Not(b)), compare, connect))
    return st.one_of(
        st.builds(lambda c, a, b: c(a, b), st.sampled_from(ARITHMETIC), children, children),
        st.builds(lambda a: E.Sub(const(0), a), children),
        st.builds(Select, condition, children, children))


LEAVES = st.one_of(st.sampled_from([I, J, K]), st.integers(-5, 5).map(const))
INTEGERS = st.recursive(LEAVES, _grow, max_leaves=8)


@settings(max_examples=150, deadline=None)
@given(INTEGERS)
def test_printed_integers_have_the_trees_value(e):
    code = compile(str(e), "<printed>", "eval")
    for values in itertools.product((-3, 0, 2, 7), repeat=3):
        env = dict(zip("ijk", values))
        assert outcome(lambda: eval(code, {"T": T}, dict(env))) == outcome(lambda: evaluate(e, env)), str(e)


# ---------------------------------------------------------------- the same structure

_BINARY = {ast.Add: E.Add, ast.Sub: E.Sub, ast.Mult: E.Mul, ast.Div: E.Div,
           ast.FloorDiv: E.FloorDiv, ast.Mod: E.FloorMod}
_COMPARE = {ast.Eq: E.EQ, ast.NotEq: E.NE, ast.Lt: E.LT, ast.LtE: E.LE, ast.Gt: E.GT, ast.GtE: E.GE}
_CALLED = {"min": E.Min, "max": E.Max, "truncdiv": E.Div, "truncmod": E.Mod, "Select": Select,
           **{name: getattr(E, name) for name in VALUES}}


def read(n):
    """The tree of a printed expression, taken literally: no folding, no matching of dtypes."""
    if isinstance(n, ast.Name):
        return VARIABLES[n.id]
    if isinstance(n, ast.Constant):
        return const(n.value)
    if isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Not):
        return Not(read(n.operand))
    if isinstance(n, ast.UnaryOp):
        return const(-n.operand.value) if isinstance(n.operand, ast.Constant) else E.Sub(const(0), read(n.operand))
    if isinstance(n, ast.BinOp):
        return _BINARY[type(n.op)](read(n.left), read(n.right))
    if isinstance(n, ast.Compare):
        assert len(n.ops) == 1, "a comparison was printed as a chain"
        return _COMPARE[type(n.ops[0])](read(n.left), read(n.comparators[0]))
    if isinstance(n, ast.BoolOp):
        result = read(n.values[0])
        for v in n.values[1:]:
            result = (E.And if isinstance(n.op, ast.And) else E.Or)(result, read(v))
        return result
    if n.func.attr == "int32":
        return read(n.args[0])
    return _CALLED[n.func.attr](*(read(a) for a in n.args))


@settings(max_examples=150, deadline=None)
@given(INTEGERS)
def test_printed_integers_read_back(e):
    assert structural_equal(read(ast.parse(str(e), mode="eval").body), e), str(e)


@settings(max_examples=150, deadline=None)
@given(INTEGERS)
def test_no_parenthesis_is_superfluous(e):
    """Python's own unparser, which is near minimal, uses no fewer. (It prints `--i`, where -(-i) is kinder.)"""
    text = str(e)
    assume("-(-" not in text)
    assert text.count("(") <= ast.unparse(ast.parse(text)).count("("), text


# ---------------------------------------------------------------- spelling

@pytest.mark.parametrize("e, text", [
    (I - (J - K), "i - (j - k)"), ((I - J) - K, "i - j - k"), ((I + J) * K, "(i + j) * k"),
    (5 * (I % 2), "5 * (i % 2)"),
    (5 * I % 2, "5 * i % 2"), (I // (J // K), "i // (j // k)"), (I // J // K, "i // j // k"), (I + J * K, "i + j * k"),
    (-I, "-i"), (-(I + J), "-(i + j)"), (-(-I), "-(-i)"), (-I * J, "-i * j"), (I * -J, "i * -j"),
    (I - const(-1), "i - -1"),
    (E.Sub(const(0), const(3)), "T.Sub(0, 3)"), (-X, "-x"),
    (E.Sub(FloatImm("float32", -0.0), X), "T.float32(-0.0) - x"),
    (E.EQ(I < J, J < K), "(i < j) == (j < k)"), (Not(I < J), "not i < j"),
    (E.EQ(Not(I < J), I < K), "(not i < j) == (i < k)"),
    (E.And(I < J, E.And(J < K, K < I)), "i < j and (j < k and k < i)"),
    (Not(E.Or(I < J, J < K)), "not (i < j or j < k)"),
    (E.And(E.Or(I < J, J < K), Not(K < I)), "(i < j or j < k) and not k < i")])
def test_parentheses(e, text):
    assert str(e) == text


@pytest.mark.parametrize("e, text", [
    (const(3), "3"), (const(-3), "-3"), (const(3, "int64"), "T.int64(3)"), (const(-3, "int8"), "T.int8(-3)"),
    (const(True), "T.bool(True)"), (const(1.0), "T.float32(1.0)"), (const(0.1, "float64"), "T.float64(0.10000000000000001)"),
    (const(1e-30), "T.float32(1.0000000000000001e-30)"), (const(float("inf")), 'T.float32("inf")'),
    (const(float("nan")), 'T.float32("nan")'),
    (const(float("-inf"), "float16"), 'T.float16("-inf")'), (tir.StringImm('a"b\n'), '"a\\"b\\n"')])
def test_immediates(e, text):
    assert str(e) == text


@pytest.mark.parametrize("e, text", [
    (tir.exp(X), "T.exp(x)"), (tir.power(X, 2.0), "T.pow(x, T.float32(2.0))"), (tir.isnan(X), "T.isnan(x)"),
    (tir.max(I, 0), "T.max(i, 0)"), (tir.truncmod(I, J), "T.truncmod(i, j)"),
    (I.astype("float32"), 'T.Cast("float32", i)'),
    (tir.if_then_else(I < 1, X, 0.0), "T.if_then_else(i < 1, x, T.float32(0.0))"),
    (tir.likely(I < 1), "T.likely(i < 1)"),
    (tir.select(I < 1, X, 1.0), "T.Select(i < 1, x, T.float32(1.0))"), (X / 2.0, "x / T.float32(2.0)"),
    (tir.call_extern("float32", "f", X, 1), 'T.call_extern("float32", "f", x, 1)'),
    (tir.Call("int32", "tir.exp", (X,)), 'T.call_intrin("int32", "tir.exp", x)'),
    (tir.Call("float32x8", "tir.vectorlow", (X,)), 'T.vectorlow("float32x8", x)'),
    (Ramp(I * 4, const(1), 4), "T.Ramp(i * 4, 1, 4)"), (const(0.0, "float32x4"), "T.Broadcast(T.float32(0.0), 4)"),
    (Let(J, I + 1, J * J), "T.Let(j * j, where={j: i + 1})"),
    (Cast("int64", I) + Var("n", "int64"), 'T.Cast("int64", i) + n')])
def test_calls(e, text):
    assert str(e) == text
