"""Rows of rewrite_simplify, each as Python evaluates it on small integers."""
import random

import numpy as np
import pytest
from arith_brute import APPLY, evaluate

from ingot.ir import tir
from ingot.ir.arith import Analyzer, Extension
from ingot.ir.arith.rewrite import choices, conditions, divisions, sums
from ingot.ir.arith.rewrite.pattern import _both_divisions
from ingot.ir.expr import (EQ, LE, LT, Add, And, Broadcast, Call, Cast, Div, FloorDiv, FloorMod, IntImm, Let, Max, Min,
                           Mod, Mul, Ramp, Range, Select, StringImm, Sub, Var, const, is_const_int)

TRIES, WANTED, MOST = 400, 12, 20000


def truncated(x, y):
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


MEANING = {"tdiv": truncated, "tmod": lambda x, y: x - y * truncated(x, y), "floordiv": lambda x, y: x // y,
           "floormod": lambda x, y: x % y, "not_": lambda b: not b, "select": lambda b, x, y: x if b else y,
           "nonneg": lambda x: x >= 0, "pos": lambda x: x > 0, "le": lambda x, y: x <= y, "lt": lambda x, y: x < y,
           "equal": lambda x, y: x == y, "constant": lambda x: False, "ordered": lambda x: True,
           "outside": lambda x, n: abs(n) > 12, "abs": abs, "min": min, "max": max}


def values(names, rng):
    """A value of each name: truths of a, b and d, else small integers, 0 and of either sign."""
    return {n: rng.random() < 0.5 if n in "abd" else rng.randint(*rng.choice(((-12, 12), (-3, 3)))) for n in names}


def holds(row, rng):
    """How often the condition of a row held; each time both of its sides were equal."""
    pattern, result, condition = (text and compile(text.removeprefix("~"), text, "eval") for text in row)
    names, held = [n for n in pattern.co_names if n not in MEANING], 0
    for n in range(MOST):
        if n >= TRIES and held >= WANTED:
            break
        given = values(names, rng)
        try:
            if condition and not eval(condition, MEANING, given):
                continue
            before = eval(pattern, MEANING, given)
        except ZeroDivisionError:
            continue
        assert eval(result, MEANING, given) == before, f"{row} at {given}"
        held += 1
    return held


@pytest.mark.parametrize("table", (sums, divisions, choices, conditions), ids=lambda t: t.__name__.split(".")[-1])
def test_both_sides_of_a_row_are_equal(table):
    rng = random.Random(1)
    for given in table.ROWS:
        for row in _both_divisions(given):
            assert holds(row, rng), f"the condition of {row} never holds"


X, Y, Z = Var("x"), Var("y"), Var("z")
V4 = Var("v", "int32x4")


def lanes(e, env):
    """The lanes of a vector of ramps and broadcasts."""
    if type(e) is Ramp:
        return [evaluate(e.base, env) + n * evaluate(e.stride, env) for n in range(e.lanes)]
    if type(e) is Broadcast:
        return [evaluate(e.value, env)] * e.lanes
    return [APPLY[type(e)](a, b) for a, b in zip(lanes(e.a, env), lanes(e.b, env))]


def test_vectors_keep_their_lanes():
    rng = random.Random(2)
    kinds = (Add, Sub, Mul, FloorDiv, FloorMod, Div, Mod, Min, Max, LT, LE, EQ)
    changed = 0
    for _ in range(400):
        an, low, kind = Analyzer(), rng.choice((0, -9)), rng.choice(kinds)
        an.bind(X, Range(low, 40))
        base = rng.choice((X, X * rng.choice((2, 4, 8)), X * 8 + rng.randint(-9, 17), X % 64))
        a = rng.choice((Ramp(base, rng.choice((1, 2, 4, 8, -1, 3)), 4), Broadcast(base, 4)))
        divisor = rng.choice((1, 2, 4, 8, 16, 64))
        b = Broadcast(divisor, 4) if kind in kinds[3:7] else rng.choice((Ramp(X, 2, 4), Broadcast(X + 1, 4)))
        e = kind(a, b)
        done = an.rewrite_simplify(e)
        changed += type(done) in (Ramp, Broadcast)
        for value in range(low, low + 40):
            assert lanes(done, {X: value}) == lanes(e, {X: value}), (e, done, value)
    assert changed > 80


def canonical_text(e, *bounds):
    an = Analyzer()
    with an.constraint_scope(*bounds):
        return str(an.rewrite_simplify(e))


def test_the_shape_is_kept():
    assert canonical_text(X - (Y + X)) == "-y"
    assert canonical_text(Min(X + Y, Z) - X) == "T.min(y, z - x)"
    assert canonical_text((X * 4 + Y) // 2, X >= 0, Y >= 0) == "x * 2 + y // 2"
    assert canonical_text(And(X // 10 == 5, X % 10 < 7)) == "50 <= x and x < 57"
    assert canonical_text((X + 1) > Y) == "y <= x"
    assert canonical_text(Min(V4, Broadcast(X, 4)) + Broadcast(0, 4)) == str(Min(V4, Broadcast(X, 4)) + Broadcast(0, 4))
    assert canonical_text(Let(Z, const(3), Z + X)) == "x + 3"


def test_what_wraps_around_or_rounds_is_only_folded():
    u, f = Var("u", "uint8"), Var("f", "float32")
    assert canonical_text(u - u) == "T.uint8(0)" and canonical_text((u + 200) + 100) == str((u + 200) + 100)
    assert canonical_text(f - f) == "f - f" and canonical_text(const(0.5, "float16") + const(0.25, "float16")) == (
        "T.float16(0.75)")
    for kept in (f - 0.0, f * 1.0, 1.0 * f, Div(f, const(1.0, "float32"))):
        assert Analyzer().rewrite_simplify(kept) is f
    cast = Cast("float32", X)
    assert Analyzer().rewrite_simplify(cast + 0.0) is cast and Analyzer().rewrite_simplify(Broadcast(cast, 4) * (
        Broadcast(const(1.0, "float32"), 4))).value is cast
    for other in (f + 0.0, f - -0.0, f * 0.0):  # of -0.0, and of NaN
        assert canonical_text(other) == str(other)
    assert canonical_text(Call("float32", "tir.ceil", (const(2.25, "float32"),))) == "T.float32(3.0)"
    acts = Call("int32", "tir.call_extern", (StringImm("next"),))
    assert canonical_text(acts - acts) == str(acts - acts)


def test_a_cast_is_of_the_float_that_the_type_holds():
    for dtype, value, want in (("float64", const(0.1, "float32"), float(np.float32(0.1))),
                             ("int32", Cast("float32", const(16777217)), 16777216)):
        assert Analyzer().rewrite_simplify(Cast(dtype, value)).value == want


def test_divisions_by_zero_are_refused():
    with pytest.raises(ValueError, match="division by zero"):
        Analyzer().rewrite_simplify(FloorMod(Ramp(1, 1, 2), Broadcast(0, 2)))


def test_products_beside_sums_are_an_extension():
    an = Analyzer()
    claim = X * Y < (X + Y) * 2048
    with an.constraint_scope(X > 0, Y > 0, X < 2049):
        assert not isinstance(an.rewrite_simplify(claim), IntImm)
        an.enabled_extensions = Extension.ComparisonOfProductAndSum
        assert an.rewrite_simplify(claim).value == 1
        assert not isinstance(an.rewrite_simplify(X * Y < (X + Y) * 2047), IntImm)  # 2048 * y >= (2048 + y) * 2047


def test_a_call_with_an_effect_is_made_as_often_as_it_is_written():
    """The same object, too: it stands for a call at each place."""
    call, x, on = tir.call_extern("int32", "next_number"), Var("x"), Var("on", "bool")
    twice, an = call // 2, Analyzer()
    for e in (call - call, call + call, twice - twice, call * 2 - call, call // call, tir.max(call, call) + x,
              (call + 1) * (x + 1), call == call, tir.if_then_else(call > 0, x, x), Select(on, twice, twice)):
        for simplify in (an.simplify, an.rewrite_simplify, an.canonical_simplify):
            assert str(simplify(e)).count("next_number") == str(e).count("next_number"), (simplify, e)
    assert not an.can_prove_equal(call, call) and not an.can_prove(call - call == 0)
    with an.constraint_scope(call > 0):
        assert not an.can_prove(call > 0)
    pure = tir.call_pure_extern("int32", "square", x)
    assert is_const_int(an.simplify(pure - pure), 0)
