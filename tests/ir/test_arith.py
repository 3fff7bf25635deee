"""Integer analysis by example: what simplify prints, what is proved, which intervals come out."""
import pytest

from ingot.ir.arith import Analyzer, covers, eval_range, range_of, union_ranges
from ingot.ir.expr import (Add, And, Broadcast, Call, Cast, Div, FloatImm, FloorDiv, IntImm, Max, Min, Mod, Mul, Not,
                           Or, Ramp, Range, Select, Var, const)
from ingot.ir.node import structural_equal
from ingot.ir.tir import BufferLoad, decl_buffer

I, J, K, N, M = (Var(name) for name in "ijknm")
B = Var("b", "int64")
R = Range.from_min_extent


def analyzer(**extents):
    an = Analyzer()
    names = {"i": I, "j": J, "k": K, "n": N, "m": M}
    for name, extent in extents.items():
        an.bind(names[name], R(0, extent))
    return an



SIMPLIFIED = {
    "like terms": (I * 3 + J + I * 5 - J, I * 8),
    "distribution": ((I + 2) * 4 - 8, I * 4),
    "flattened index": ((I * 4 + J) * 16 + K, I * 64 + J * 16 + K),
    "quotient of a split": ((I * 4 + J) // 4, I),
    "remainder of a split": ((I * 4 + J) % 4, J),
    "coarser quotient": ((I * 4 + J) // 8, I // 2),
    "coarser remainder": ((I * 4 + J) % 8, I % 2 * 4 + J),
    "within one block": (K % 16, K),
    "shifted block": ((J + 8) // 4, IntImm("int32", 2)),
    "fused back": (K // 4 * 4 + K % 4, K),
    "fused back from three": (K // 8 * 8 + K // 4 % 2 * 4 + K % 4, K),
    "remainder from a quotient": (N - N // 4 * 4, N % 4),
    "quotient from a remainder": (N - N % 4, N // 4 * 4),
    "nested quotients": (N // 3 // 5, N // 15),
    "common factor": ((N * 4 + M * 8) // 12, (N + M * 2) // 3),
    "constant out of a quotient": ((N + 9) // 4, (N + 1) // 4 + 2),
    "rounding up": ((N - 1) // 4 + 1, (N + 3) // 4),
    "negative divisor": (FloorDiv(N, IntImm("int32", -1)), 0 - N),
    "truncating quotient": (Div(I * 4 + J, IntImm("int32", 4)), I),
    "truncating remainder": (Mod(0 - K, IntImm("int32", 16)), 0 - K),
    "minimum decided": (Min(I, const(8)), I),
    "maximum decided": (Max(J - 4, const(0)), IntImm("int32", 0)),
    "minimum of three": (Min(Min(N, const(7)), const(5)), Min(N, const(5))),
    "same sides": (Select(N == M, I + J, J + I), I + J),
    "decided condition": (Select(I < 8, J, K), J),
    "symbolic quotient": ((N * M + N * 3) // N, M + 3),
    "exact symbolic quotient": ((N - 2) // (2 - N), IntImm("int32", -1)),
    "cancelled factor": ((N * I) // (N * 4), I // 4),
}


@pytest.mark.parametrize("case", SIMPLIFIED)
def test_simplify(case):
    e, expected = SIMPLIFIED[case]
    an = analyzer(i=8, j=4, k=16)
    done = an.simplify(e)
    assert structural_equal(done, expected), (done, expected)
    assert an.simplify(done) is done


CONDITIONS = {
    "true": (I * 4 + J < 32, True),
    "false": (I * 4 + J >= 32, False),
    "common terms": (N + I < N + 4, I < 4),
    "common factor": (I * 4 + K * 8 < 18, I + K * 2 < 5),
    "two constants": (I + 1 <= K + 3, I < K + 3),
    "equal parts cancel": (N * 4 + I == N * 4 + 2, I == 2),
    "parity": (N * 2 == M * 4 + 1, False),
    "implied part": (And(I < 3, I < 5), I < 3),
    "contradiction": (And(I < 3, I > 5), False),
    "negation": (Not(I < K), I >= K),
    "either": (Or(I < K, J >= 0), True),
}


@pytest.mark.parametrize("case", CONDITIONS)
def test_simplify_condition(case):
    e, expected = CONDITIONS[case]
    expected = IntImm("bool", expected) if isinstance(expected, bool) else expected
    an = analyzer(i=8, j=4, k=16)
    done = an.simplify(e)
    assert structural_equal(done, expected), (done, expected)
    assert an.simplify(done) is done


def test_symbolic_loops():
    an = Analyzer()
    an.bind(I, R(0, N))
    an.bind(J, R(0, M))
    assert an.simplify((I * M + J) // M) is I
    assert an.simplify((I * M + J) % M) is J
    assert an.can_prove(I * M + J < N * M)
    assert an.can_prove(And(I >= 0, I <= N - 1))
    assert not an.can_prove(I < N - 1)
    assert not an.can_prove(N >= 1)  # only where I exists is N known to be positive


def test_rounded_up_loops():
    an = Analyzer()
    an.bind(I, R(0, (N + 3) // 4))
    an.bind(J, R(0, 4))
    assert an.can_prove(I * 4 < N)
    assert an.can_prove(I * 4 + J < (N + 3) // 4 * 4)
    assert not an.can_prove(I * 4 + J < N)
    with an.constraint_scope(I * 4 + J < N):
        assert an.can_prove(I * 4 + J <= N - 1)
    assert not an.can_prove(I * 4 + J < N)


def test_constraints():
    an = analyzer(i=8, j=4)
    with an.constraint_scope(And(I * 4 + J < 10, J != 3)):
        assert an.const_int_bound(I) == (0, 2)
        assert an.can_prove(I < 3)
        assert an.can_prove(I * 2 + J < 10)
    with an.constraint_scope(N == M + 1):
        assert an.can_prove_equal(N * 2, M * 2 + 2)
    with an.constraint_scope(N % 4 == 0):
        assert an.can_prove_equal(N // 4 * 4, N)
    flag = Var("flag", "bool")
    with an.constraint_scope(flag):
        assert an.can_prove(flag)
    assert not an.can_prove(flag)
    assert an.const_int_bound(I) == (0, 7)


def test_bounds_and_modular_sets():
    an = analyzer(i=8, j=4)
    assert an.const_int_bound(I * 4 - J) == (-3, 28)
    assert an.interval(N) == (None, None)
    assert an.const_int_bound(N) == (-2**31, 2**31 - 1)
    assert an.const_int_bound(N % 8) == (0, 7)
    assert an.interval(Max(N, const(0))) == (0, None)
    assert an.modular_set(N * 8 + 3) == (8, 3)
    assert an.modular_set(N * 16 // 4) == (4, 0)
    an.mark_nonnegative(N)
    assert an.interval(N * 2 + 1) == (1, None)
    assert Analyzer().const_int_bound(Cast("int32", Var("u", "uint8"))) == (0, 255)


@pytest.mark.parametrize("e, bounds", [
    (I + (J % 2) * (7 - I * 2), (0, 7)),           # forward or backward
    (I * J - I - J * 7 + 3, (-18, 3)), (I * J * 2 + I, (0, 49)),
    (I * I - I, (-7, 49)), (I * N + J, (None, None))])  # neither linear in each, nor bounded
def test_sums_of_products_are_bounded_by_their_corners(e, bounds):
    assert analyzer(i=8, j=4).interval(e) == bounds


def test_binding_to_an_expression_and_rebinding():
    an = Analyzer()
    an.bind(I, J * 2)
    assert structural_equal(an.simplify(I + 1), J * 2 + 1)
    with pytest.raises(ValueError, match=r"i is already bound to .*allow_override=True"):
        an.bind(I, R(0, 4))
    an.bind(I, R(0, 4), allow_override=True)
    an.bind(I, R(0, 4))  # the same again
    assert an.can_prove(I < 4)
    an.bind(I, R(0, 9), allow_override=True)
    assert not an.can_prove(I < 4)
    an.bind(I, R(N, 1), allow_override=True)
    assert an.simplify(I + 1 - N).value == 1


def test_wide_indices():
    an = Analyzer()
    an.bind(I, R(0, 8))
    wide = Cast("int64", I)
    done = an.simplify(wide * 4 + B + Cast("int64", I * 4))
    assert structural_equal(done, wide * 8 + B)
    assert an.can_prove_equal(Cast("int64", I * 2 + 1), wide * 2 + 1)
    assert structural_equal(an.simplify(Cast("int32", wide * 2)), I * 2)
    product = wide * Cast("int64", J)
    assert an.simplify(product) is product  # multiplied after widening, not before
    kept = Cast("int32", B)
    assert an.simplify(kept) is kept


def test_narrow_types_wrap_and_stay_closed():
    u, v = Var("u", "uint8"), Var("v", "uint8")
    e = Add(Add(u, v), IntImm("uint8", 0))
    an = Analyzer()
    assert an.simplify(e) is e
    assert an.can_prove(Cast("int32", e) < 256)


def test_simplify_inside_floats_loads_and_vectors():
    an = analyzer(i=8, j=4)
    buffer = decl_buffer((32,), "float32", "A")
    load = BufferLoad(buffer, ((I * 4 + J) // 4,))
    x = Add(load, Mul(FloatImm("float32", 0.0), load))
    done = an.simplify(x)
    assert done.a.indices[0] is I and isinstance(done.b, Mul)
    assert an.simplify(done) is done
    vector = BufferLoad(buffer, (Ramp((I + I) * 4, const(1), 8),))
    assert structural_equal(an.simplify(vector).indices[0].base, I * 8)
    kept = Add(Ramp(I, const(1), 4), Broadcast(J, 4))
    assert an.simplify(kept) is kept


def test_guarded_values_use_their_condition():
    an = analyzer(i=8)
    e = Call("int32", "tir.if_then_else", (I < 4, Min(I, const(3)), const(0)))
    assert an.simplify(e).args[1] is I
    both_evaluated = Select(I < 4, Min(I, const(3)), const(0))
    assert isinstance(an.simplify(both_evaluated).true_value, Min)


def test_loads_and_calls_as_atoms():
    an = Analyzer()
    buffer = decl_buffer((32,), "int32", "A")
    assert an.can_prove_equal(BufferLoad(buffer, (I + J,)) + 1 - BufferLoad(buffer, (J + I,)), 1)
    read = Call("int32", "tir.call_extern", (const(0),))
    again = Call("int32", "tir.call_extern", (const(0),))
    assert not an.can_prove_equal(read, again)


RELAXED = {
    "split": (I * 4 + J, {J: R(0, 4)}, I * 4, I * 4 + 3),
    "window": (I * 2 + J, {I: R(K * 8, 8), J: R(0, 3)}, K * 16, K * 16 + 16),
    "aligned quotient": ((K * 8 + I) // 4, {I: R(0, 8)}, K * 2, K * 2 + 1),
    "aligned remainder": ((K * 8 + I) % 8, {I: R(0, 8)}, const(0), const(7)),
    "negative scale": (N - I, {I: R(0, 8)}, N - 7, N),
    "minimum": (Min(I * 4 + 4, N), {I: R(0, 8)}, Min(N, const(4)), Min(N, const(32))),
    "dependent ranges": (I + J, {I: R(0, 4), J: R(I, 3)}, const(0), const(8)),
    "symbolic range": (I * M + J, {I: R(0, N), J: R(0, M)}, const(0), N * M - 1),
    "untouched": (K + 1, {I: R(0, 4)}, K + 1, K + 1),
}


@pytest.mark.parametrize("case", RELAXED)
def test_eval_range(case):
    e, ranges, least, greatest = RELAXED[case]
    found = eval_range(e, ranges)
    an = Analyzer()
    assert an.can_prove_equal(found[0], least) and an.can_prove_equal(found[1], greatest), found


def test_eval_range_without_a_bound():
    assert eval_range(I * N, {I: R(0, 4)}) is None  # the sign of n is not known
    an = Analyzer()
    an.mark_nonnegative(N)
    assert structural_equal(eval_range(I * N, {I: R(0, 4)}, an)[1], N * 3)
    assert not an.can_prove(I < 4)  # the ranges were known to that question only


def test_ranges():
    an = Analyzer()
    whole = union_ranges(R(I, 4), R(I + 2, 4), an)
    assert whole.min is I and whole.extent.value == 6
    assert covers(whole, R(I + 1, 5), an) and not covers(whole, R(I + 1, 6), an)
    assert range_of(I, I + 3).extent.value == 4
