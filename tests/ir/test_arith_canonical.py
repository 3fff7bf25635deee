"""canonical_simplify: how it writes sums of parts of numbers, what it makes of reductions, what it leaves alone."""
import numpy as np
import pytest

from ingot.ir import te
from ingot.ir.arith import Analyzer, ConstIntBound
from ingot.ir.expr import (EQ, LE, NE, Call, Cast, Div, FloorDiv, FloorMod, Min, Mod, Select, StringImm, Sub, Var,
                           const, substitute)
from ingot.ir.module import GlobalVar
from ingot.ir.node import structural_equal
from ingot.ir.tir import if_then_else

X, Y, Z, N = (Var(name) for name in "xyzn")
I, J = Var("i", "int64"), Var("j", "int64")


def written(e, **bounds):
    """canonical_simplify's text of `e` with {name: (least, greatest)} known."""
    an = Analyzer()
    for v in (X, Y, Z, N, I, J):
        if v.name in bounds:
            an.update(v, ConstIntBound(*bounds[v.name]))
    return str(an.canonical_simplify(e))


@pytest.mark.parametrize("e, text", [
    # greater factors first; what is taken away last, the constant before it where it adds
    (Y + X * 5 + 2 - Z * 2, "x * 5 + y + 2 - z * 2"), (Y - 3 + X * 5 - X * 5, "y - 3"), (X * 2 - X * 3 + 1, "1 - x"),
    (X * (Y * 6) - Y, "x * y * 6 - y"), ((X + Y) * 3, "x * 3 + y * 3"),
    # parts of one number meet again
    (X // 6 * 6 + X // 3 % 2 * 3 + X % 3, "x"), (Div(X, 6) * 6 + Mod(Div(X, 3), 2) * 3 + Mod(X, 3), "x"),
    ((X + Y) // 4 * 4 + (X + Y) % 4 - Y, "x"), (X // 8 * 2 + X % 8 // 4, "x // 4"),
    # quotients and remainders
    ((X * 8 + 5) // 4, "x * 2 + 1"), (Div(X * 8 + 5, 4), "T.Div(x * 8 + 5, 4)"), (Div(X * 8 + 4, 4), "x * 2 + 1"),
    ((X * 3) // 2, "x * 3 // 2"), ((X * 2 + Y * 3) // 2, "y * 3 // 2 + x"), ((X - 7) % 4, "(x + 1) % 4"),
    (FloorMod(X * 4, 8), "x % 2 * 4"), (X % 12 // 3 % 2, "x % 6 // 3"), (Mod(Mod(X, 12), 4), "T.truncmod(x, 4)"),
    # by what is no constant
    (FloorDiv(X * 6 * Y, Y * Z * 4), "x * 3 // (z * 2)"), (FloorMod(X * Y, Y * Z), "x % z * y"),
    # comparisons
    (X * 4 - 3 < Y, "x * 4 - 3 < y"), (X * 4 < Y * 8 - 4, "x + 1 - y * 2 < 0"),
    (EQ(X - 3, 4), "x == 7"), (NE(const(-2**31) - X, 0), "x != -2147483648"), (EQ(X + 5, const(-2**31)), "T.bool(False)"),
    (LE(3 - X, Y), "3 <= y + x"),
])
def test_spelling(e, text):
    assert written(e) == text


def test_what_bounds_add():
    assert written(X * 8 + Y < 16, y=(0, 7)) == "x < 2"
    assert written(X * -8 + Y < 16, y=(0, 7)) == "-2 < x"
    assert written(X * 8 - Y < 0, y=(0, 7)) == "x * 8 - y < 0"  # x = 0 depends on y
    assert written(X * 8 + (Y * 4 + Z) % 64 < 24, y=(0, 99), z=(0, 3)) == "(y * 4 + z) % 64 // 8 + x < 3"
    assert written(Div(X * 8 + 5, 4), x=(0, 100)) == "x * 2 + 1"
    assert written(Mod(X - 7, 4), x=(7, 100)) == "T.truncmod(x - 3, 4)"
    assert written(Cast("int32", I + J + 1) - Cast("int32", I), i=(0, 9), j=(0, 9)) == 'T.Cast("int32", j) + 1'
    assert written(Cast("int32", I + 1) - Cast("int32", I), i=(0, 2**31)) != "1"  # i + 1 may be no int32


def test_remainders_of_both_signs_beside_brute_force():
    """Quotients and remainders of quotients and remainders by factors of either sign, on numbers of either sign."""
    rng, kinds = np.random.default_rng(3), (Div, Mod, FloorDiv, FloorMod)
    apply = {FloorDiv: lambda a, b: a // b, FloorMod: lambda a, b: a % b, Div: lambda a, b: int(a / b),
             Mod: lambda a, b: a - b * int(a / b)}
    for _ in range(600):
        e, steps = X, []
        for _ in range(rng.integers(2, 5)):
            kind, by, factor, more = kinds[rng.integers(4)], int(rng.choice((2, 3, 4, 6, 8, -2, -3))), int(
                rng.choice((1, 1, -1, 2, 3, -2))), int(rng.choice((0, 0, 1, -5)))
            e, steps = kind(e * factor + more, by), [*steps, (kind, factor, more, by)]
        done = Analyzer().canonical_simplify(e)
        for x in range(-30, 31):
            want = x
            for kind, factor, more, by in steps:
                want = apply[kind](want * factor + more, by)
            assert Analyzer().simplify(substitute(done, {X: const(x)})).value == want, (e, done, x)


def test_numbers_too_great_for_the_type_stay_apart():
    assert written(X * 65536 * 65536 + Y - Y) == "x * 65536 * 65536"
    assert written(X + (2**31 - 1) + 1 - Y) == "x + 2147483647 - y + 1"


def test_what_acts_is_computed_as_often_as_written():
    for op, args in (("tir.call_extern", (StringImm("next"),)), (GlobalVar("next"), ())):
        e = Sub(Call("int32", op, args), Call("int32", op, args))
        for simplify in (Analyzer().simplify, Analyzer().rewrite_simplify, Analyzer().canonical_simplify):
            assert str(simplify(e)) == str(e)


def test_a_select_computes_both_values():
    inner = if_then_else(Div(X, 3) > 2, X, 0)
    assert written(Select(X >= 10, inner, 0)) == "T.Select(10 <= x, x, 0)"
    assert written(Select(Y > 0, FloorDiv(X, Min(Y, 1)), 0)) == "T.Select(0 < y, x // T.min(y, 1), 0)"  # y may be 0


def test_branches_use_their_condition():
    done = Analyzer().canonical_simplify(if_then_else(X * 4 >= 10 - Y, Mod(X * 4 + Y - 10, 6), 0))
    assert str(done) == "T.if_then_else(10 <= x * 4 + y, T.truncmod(x * 4 + y - 4, 6), 0)"


# ---------------------------------------------------------------- reductions

def test_a_reduction_drops_what_is_not_asked_for():
    pairs = te.comm_reducer(lambda a, b: (a[0] + b[0], a[1] * b[1], a[0] + b[2]), lambda *types: tuple(
        const(n, t) for n, t in zip((0, 1, 0), types)), name="pairs")
    k, data = te.reduce_axis((0, 8), "k"), te.placeholder((8,), name="data")
    values = (data[k], data[7 - k], data[k] + const(0.0, "float32"))
    kept = [Analyzer().canonical_simplify(pairs(values, k)[n]) for n in range(3)]
    assert [len(r.source) for r in kept] == [1, 1, 2] and [r.value_index for r in kept] == [0, 0, 1]
    assert structural_equal(kept[0], te.sum(data[k], k))
    acting = Call("float32", GlobalVar("next"), ())
    assert len(Analyzer().canonical_simplify(pairs((data[k], acting, data[k]), k)[0]).source) == 2


def test_a_reduction_over_nothing_is_its_source():
    data = te.placeholder((8,), name="data")
    assert str(Analyzer().canonical_simplify(te.sum(data[3], []))) == "data[3]"
    started = te.sum(data[3], [], where=X > 3, init=2.0)
    assert written(started, x=(0, 3)) == "T.float32(2.0)"
    assert "data[3]" in written(started, x=(4, 5))


def test_axes_are_in_their_ranges():
    k, j = te.reduce_axis((0, 10), "k"), te.reduce_axis((-5, 3), "j")
    done = Analyzer().canonical_simplify(te.sum(Select(k + j < 12, k + j, 0), [k, j]))
    assert structural_equal(done, te.sum(k + j, [k, j]))
