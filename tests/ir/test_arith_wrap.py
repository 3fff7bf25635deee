"""Values of buffers may be any number: arithmetic on them wraps around, so that only what holds then is simplified."""
import numpy as np
import pytest

from ingot.ir import tir
from ingot.ir.arith import Analyzer
from ingot.ir.expr import (EQ, GE, GT, LE, LT, And, Cast, Div, FloorDiv, FloorMod, Let, Max, Mod, Not, Or, Range,
                           Select, Var, as_expr, const)
from ingot.ir.node import structural_equal
from ingot.ir.tir.stmt import BufferStore, LetStmt, for_
from ingot.ir.transform.pipeline import lower_prim_func
from interp import run

I, V = Var("i"), Var("v")
DATA, BYTES = tir.decl_buffer((8,), "int32", "data"), tir.decl_buffer((8,), "int8", "bytes")
X, Y = DATA[I], Cast("int32", BYTES[I])
FOUR, SEVEN = const(4, "int32"), const(7, "int32")


@pytest.mark.parametrize("e", [
    GT(X + 1, X), LT(X - 1, X), GE(X * X, const(0, "int32")), FloorDiv(X * FOUR, FOUR), FloorMod(X * 4, FOUR),
    Max(X + 1, X), Cast("int64", X + 1), LT(Select(GT(X, SEVEN), X + 1, X), X), EQ(X * 3, const(1, "int32")),
    LT(Y - 3, X), LT(X + I, X + I + 1), Let(V, X, GT(V + 1, V)), Div(tir.min(X, const(0, "int32")), FOUR),
    Mod(tir.min(X, const(0, "int32")), SEVEN)], ids=str)  # the least number has no negative
def test_what_may_wrap_around_stays(e):
    an = Analyzer()
    an.bind(I, Range(0, 8))
    assert structural_equal(an.simplify(e), e)
    assert not (e.dtype.is_bool and an.can_prove(e))


X8, Y8, F, G = Var("x", "int8"), Var("y", "int8"), Var("f", "float32"), Var("g", "float32")
ROW, ROW8 = X + DATA[I + 1] * -8, X8 + Y8 * const(-8, "int8")


@pytest.mark.parametrize("rules", ["rewrite_simplify", "canonical_simplify"])
@pytest.mark.parametrize("e", [
    LT(X, X + 1), FloorDiv(X * FOUR, FOUR), LT(X + 1, SEVEN), LT(X + DATA[I + 1], X), FloorDiv(X + FOUR, FOUR),
    And(LE(const(0), ROW), LT(ROW, const(8))), And(LE(const(0, "int8"), ROW8), LT(ROW8, const(8, "int8"))),
    Not(LT(F, G)), Or(LT(F, G), LE(G, F)), Not(LE(const(0.5), F))], ids=str)
def test_rules_leave_what_may_wrap_around_or_be_no_number(e, rules):
    out = getattr(Analyzer(), rules)(e)
    assert structural_equal(out, e) or rules == "canonical_simplify" and type(out) is type(e) is And


def test_bits_of_unsigned_numbers_have_no_bounds_of_theirs():
    cast = Cast("int32", Var("u", "uint32"))
    assert Analyzer().const_int_bound(cast).min_value < 0
    assert Analyzer().const_int_bound(Cast("int32", Var("u", "uint16"))).max_value == 65535


@pytest.mark.parametrize("e, simple", [
    (X + 1 - X, 1), (X + 3 + I - 3, X + I), (X * 2 - X, X), (X * X - X * X, 0), (EQ(X + I, I + X), const(True)),
    (GT(Y + 1, Y), const(True)), (FloorDiv(Y * FOUR, FOUR), Y), (GT(I + 1, I), const(True)),
    (FloorDiv(I * 8 + FloorMod(X, const(8, "int32")), const(8, "int32")), I),
    (LT(tir.max(tir.min(X + 1, SEVEN), const(0, "int32")) * 8 + I, const(64, "int32")), const(True)),
    (GT(Cast("int64", X) + 1, Cast("int64", X)), const(True))], ids=str)
def test_what_holds_anyway_is_simplified(e, simple):
    an = Analyzer()
    an.bind(I, Range(0, 8))
    assert structural_equal(an.simplify(e), as_expr(simple, e.dtype))


@pytest.mark.parametrize("let", [False, True])
def test_lowered(let):
    out, x = tir.decl_buffer((8,), "int32", "out"), V if let else X
    store = BufferStore(out, Select(GT(x + 1, x), FloorDiv(x * FOUR, FOUR), const(-7, "int32")), (I,))
    func = lower_prim_func(tir.prim_func([DATA, out], for_(I, 8, LetStmt(V, X, store) if let else store)))
    data, found = np.array([0, 2**31 - 1, -2**31, 2**29, -2**29, 2**30, -1, 5], np.int32), np.zeros(8, np.int32)
    with np.errstate(over="ignore"):
        run(func, data, found)
        np.testing.assert_array_equal(found, np.where(data + np.int32(1) > data, data * np.int32(4) // 4, -7))
