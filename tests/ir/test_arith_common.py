"""detect_common_subexpr, and relations of solved inequalities."""
import pytest
from arith_brute import evaluate

from ingot.ir import arith, tir
from ingot.ir.expr import Broadcast, Call, Cast, Range, Var
from ingot.ir.tir import decl_buffer

X, Y, Z = (Var(name) for name in "xyz")


def found(e, threshold):
    return {str(part): times for part, times in arith.detect_common_subexpr(e, threshold).items()}


def test_the_largest_parts_that_are_repeated():
    part = tir.floor(Cast("float32", X + Y) + 0.5)
    again = tir.floor(Cast("float32", X + Y) + 0.5)
    e = part + Cast("float32", X) + again * Cast("float32", Z)
    assert arith.detect_common_subexpr(e, 2) == {part: 2} and next(iter(arith.detect_common_subexpr(e, 2))) is part
    assert arith.detect_common_subexpr(e, 3) == {} and list(arith.detect_common_subexpr(e, 1)) == [e]


def test_parts_of_parts_are_counted_together():
    """Those inside of larger ones that are too rare, and those that stand alone."""
    assert found((X * Y + 1) * (X * Y + 1) * (X * Y + 2), 2) == {"x * y + 1": 2}
    assert found((X * Y + 1) * (X * Y + 1) * (X * Y + 2), 3) == {"x * y": 3}
    assert found((X * Y + 1) * (X * Y + 2) + X * Y, 3) == {"x * y": 3}


def test_what_is_no_computation():
    data = decl_buffer((8,), "int32")
    assert found(data[X] + data[X], 2) == {} and found(data[X + 1] + data[X + 1], 2) == {"x + 1": 2}
    call = Call("int32", "tir.call_extern", (tir.StringImm("f"), X + 1))
    assert found(call + call, 2) == {"x + 1": 2}
    assert found(Broadcast(X + 1, 4) + Broadcast(X + 1, 4), 2) == {"x + 1": 2}
    assert found(X + X, 2) == {}
    with pytest.raises(ValueError, match="at least 0, not -1"):
        arith.detect_common_subexpr(X, -1)


def test_relations_say_at_most():
    solved = arith.solve_linear_inequalities([X + Y <= 20, X - Y >= 10], [X, Y], {
        X: Range.from_min_extent(-100, 200), Y: Range.from_min_extent(0, 10)}, deskew_range=True)
    x, y = solved.dst.variables
    (relation,) = solved.dst.relations
    assert isinstance(relation, tir.LE) and relation.b.value == 10
    for a in range(12):
        for b in range(6):
            holds = arith.Analyzer().simplify(tir.substitute(relation, {x: tir.const(a), y: tir.const(b)})).value
            assert bool(holds) == (a + 2 * b <= 10)


def test_linear_equations_of_unsigned_integers():
    a, b = Var("a", "uint32"), Var("b", "uint32")
    one = tir.const(1, "uint32")
    for e in (one - a, a * 3 - b * (a - a + 2) + 7, (b - a) * (b + 1) + b // tir.const(3, "uint32"), b - one, a * 0):
        *weights, base = arith.detect_linear_equation(e, [a])
        for x in (0, 1, 5, (1 << 32) - 1):
            for y in (0, 2, (1 << 32) - 2):
                at = {a: x, b: y}
                total = sum(evaluate(w, at) * at[v] for v, w in zip([a], weights)) + evaluate(base, at)
                assert (total - evaluate(e, at)) % (1 << 32) == 0, (e, x, y)
    assert arith.detect_linear_equation(one - a, [a])[0].value == -1
    assert arith.detect_linear_equation(a * a + b, [a]) == [] == arith.detect_linear_equation(a // (one + one), [a])
