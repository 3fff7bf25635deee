"""The public face of arith: what TVM's users call, by example and against brute force."""
import itertools
import random

import pytest
from arith_brute import Undefined, assignments, evaluate, imm

from ingot.ir import arith
from ingot.ir.arith import Analyzer, ConstIntBound, IntervalSet, ModularSet
from ingot.ir.expr import (EQ, GE, GT, LE, LT, Add, And, Broadcast, Call, Cast, FloatImm, FloorDiv, FloorMod, Max, Min,
                           Mul, Ramp, Range, Var, const)
from ingot.ir.node import structural_equal
from ingot.ir.tir import BufferLoad, BufferStore, For, IfThenElse, PrimFunc, SeqStmt, decl_buffer
from ingot.ir.transform.simplify import simplify

X, Y, Z, N, M = (Var(name) for name in "xyznm")
L = Var("l", "int64")
R = Range.from_min_extent
NEG, POS = arith.int_set.neg_inf(), arith.int_set.pos_inf()


# ---------------------------------------------------------------- Analyzer

def test_bounds_as_tvm_gives_them():
    an = Analyzer()
    assert an.const_int_bound(L) == (ConstIntBound.NEG_INF, ConstIntBound.POS_INF)
    assert an.const_int_bound(X) == (-2**31, 2**31 - 1)
    assert an.const_int_bound(X < Y) == (0, 1)
    an.update(L, ConstIntBound(2, ConstIntBound.POS_INF))
    bound = an.const_int_bound(L * 3 + 1)
    assert (bound.min_value, bound.max_value) == (7, bound.POS_INF)
    an.update(X, ConstIntBound(-9, 4))
    assert an.const_int_bound(FloorDiv(X, imm(2))) == (-5, 2)
    assert an.const_int_bound_is_bound(X) and not an.const_int_bound_is_bound(Y)
    an.bind(Y, X + 1)
    assert an.const_int_bound_is_bound(Y) and an.const_int_bound(Y) == (-8, 5)


def test_update_refuses_to_replace_silently():
    an = Analyzer()
    an.update(X, ConstIntBound(0, 4))
    an.update(X, ConstIntBound(0, 4))
    with pytest.raises(ValueError, match="x already has .*override=True"):
        an.update(X, ConstIntBound(0, 5))
    an.update(X, ConstIntBound(0, 5), override=True)
    assert an.const_int_bound(X).max_value == 5
    with pytest.raises(TypeError, match="ConstIntBound or a ModularSet, not a int"):
        an.update(X, 3)


def test_modular_sets_are_stated_and_learned():
    an = Analyzer()
    an.update(X, ModularSet(6, 8))
    assert an.modular_set(X) == (6, 2) and an.modular_set(X * 2 + 1) == (12, 5)
    assert an.simplify(X % 3).value == 2
    with an.constraint_scope((Y + 1) % 4 == 3):
        assert an.modular_set(Y * 2) == (8, 4)
        assert an.simplify(Y % 2).value == 0
    assert an.modular_set(Y) == (1, 0)


def test_the_simplifiers_have_one_normal_form():
    an = Analyzer()
    an.bind(X, R(0, 8))
    e = (X * 4 + Y - Y) // 8
    wanted = X // 2
    for simplify in (an.simplify, an.rewrite_simplify, an.canonical_simplify):
        done = simplify(e)
        assert structural_equal(done, wanted) and simplify(done) is done
    assert an.simplify(e, steps=0) is e and structural_equal(an.simplify(e, steps=3), wanted)


def test_proofs():
    an = Analyzer()
    an.bind(X, R(0, N))
    assert an.can_prove(X < N, arith.ProofStrength.SYMBOLIC_BOUND) and an.can_prove(X >= 0)
    assert an.can_prove_less(X, N) and an.can_prove_greater_equal(N, X + 1) and an.can_prove_equal(X + X, X * 2)
    assert not an.can_prove_less(X, N - 1) and not an.can_prove_greater_equal(X, 1)


def test_a_binding_that_others_rest_on_may_be_replaced():
    an = Analyzer()
    an.bind(X, R(0, 4))
    an.bind(Y, R(0, X + 1))
    assert an.can_prove(Y < 4)
    an.bind(X, R(0, 9), allow_override=True)
    assert not an.can_prove(Y < 4) and an.can_prove(Y < 9)


def test_a_scope_does_not_bring_back_what_a_binding_implied():
    an = Analyzer()
    an.bind(X, R(0, 4))
    assert an.can_prove(X < 4) and an.simplify(X // 4).value == 0
    with an.constraint_scope(Y > 0):
        an.bind(X, R(0, 9), allow_override=True)
    assert not an.can_prove(X < 4) and structural_equal(an.simplify(X // 4), X // 4)


def test_a_range_that_may_be_empty_proves_nothing_outside():
    an = Analyzer()
    an.bind(X, R(0, N))
    arith.eval_range(Min(X + N, N * 3), {X: R(0, N)}, an)
    an.int_set(Min(X + N, N * 3))
    assert an.can_prove(X >= 0) and not an.can_prove(N >= 1)


def test_a_negative_divisor_keeps_the_inner_part():
    an = Analyzer()
    domains = {N: range(3, 5), Y: range(0, 3), M: range(-3, 3), X: range(-4, 4)}
    for v, r in domains.items():
        an.bind(v, R(r.start, len(r)))
    for by, kind in itertools.product((N * M, N * -4, N * 4), (FloorDiv, FloorMod)):
        e = kind(N * X + Y, by)
        done = an.simplify(e)
        for env in assignments(domains):
            try:
                assert evaluate(done, env) == evaluate(e, env)
            except Undefined:
                continue
    assert structural_equal(an.simplify((N * X + Y) // (N * 4)), X // 4)


A, B = decl_buffer((4,), "int32", "A"), decl_buffer((4,), "int32", "B")


def test_a_condition_on_memory_does_not_outlive_a_store():
    load = BufferLoad(A, (const(0),))
    again = IfThenElse(load > 0, BufferStore(B, const(1), (const(0),)))
    program = IfThenElse(load > 0, SeqStmt((BufferStore(A, const(0), (const(0),)), again)))
    kept = simplify(PrimFunc((), {}, program)).body
    assert isinstance(kept.then_case.seq[1], IfThenElse)
    an = Analyzer()
    random_flag = Call("int32", "tir.call_extern", (const(0),))
    with an.constraint_scope(random_flag > 0):
        assert not an.can_prove(random_flag > 0)


def test_floats_and_vectors_stay_as_they_are():
    an = Analyzer()
    f = Var("f", "float32")
    for e in (f + FloatImm("float32", 0.0), f * FloatImm("float32", 0.0), f - f, Min(f, f),
              Add(Ramp(X, const(1), 4), Broadcast(Y, 4)), Cast("float32", X) * FloatImm("float32", 1.0)):
        assert an.simplify(e) is e


# ---------------------------------------------------------------- sets

def is_set(found, low, high):
    return all(a is b if a is NEG or a is POS or b is NEG or b is POS else Analyzer().can_prove_equal(a, b)
               for a, b in ((found.min_value, low), (found.max_value, high)))


SETS = {
    "range": (X + 1, {X: R(0, 10)}, 1, 10),
    "interval": (X * 2 - Y, {X: IntervalSet(0, 3), Y: IntervalSet(1, 2)}, -2, 5),
    "no upper end": (X * 2 + 1, {X: IntervalSet(2, POS)}, 5, POS),
    "turned round": (3 - X, {X: IntervalSet(2, POS)}, NEG, 1),
    "symbolic ends": (X + N, {X: IntervalSet(N, N + 7)}, N * 2, N * 2 + 7),
    "everything": (X * N, {X: R(0, 4)}, NEG, POS),
    "point": (N + 1, {X: R(0, 4)}, N + 1, N + 1),
    "remainder": (X % 4, {X: IntervalSet(NEG, POS)}, 0, 3),
}


@pytest.mark.parametrize("case", SETS)
def test_int_set(case):
    e, domains, low, high = SETS[case]
    an = Analyzer()
    an.bind(X, R(0, 100))  # the domains given count, not this
    found = an.int_set(e, domains)
    assert is_set(found, low, high), found
    assert an.const_int_bound(X) == (0, 99)


def test_int_set_of_what_is_bound():
    an = Analyzer()
    an.bind(X, R(0, N))
    an.bind(Y, R(X, 3))
    assert is_set(an.int_set(X * 4 + Y), 0, N * 5 - 3)
    with pytest.raises(ValueError, match="the domain of x is empty"):
        an.int_set(X, {X: IntervalSet.nothing()})


def test_interval_sets():
    small, large = IntervalSet(2, 5), arith.int_set.interval(N, POS)
    assert arith.int_set.single_point(N).is_single_point() and not small.is_point()
    assert IntervalSet(N + 1, 1 + N).can_prove_single_point()
    assert IntervalSet.nothing().is_nothing() and IntervalSet.everything().is_everything()
    assert is_set(small.union_set(IntervalSet(7, 9)), 2, 9)
    assert is_set(small.union_set(large), Min(N, const(2)), POS) and is_set(small.union_set(
        IntervalSet.nothing()), 2, 5)
    assert is_set(small.intersect(IntervalSet(4, POS)), 4, 5)
    assert small.intersect(IntervalSet(6, 9)).is_nothing()
    assert is_set(IntervalSet.from_range(R(N, 4)), N, N + 3)
    assert small.can_prove_positive() and not small.can_prove_negative()
    assert IntervalSet(NEG, 0).can_prove_non_positive() and not large.can_prove_non_negative()
    assert IntervalSet(NEG, -1).can_prove_negative() and IntervalSet(0, N).can_prove_non_negative()


def test_vectors_as_sets():
    assert is_set(arith.int_set.vector(Ramp(X, const(2), 4)), X, X + 6)
    assert is_set(arith.IntSet.vector(Ramp(X, const(-2), 4)), X - 6, X)
    assert is_set(arith.IntSet.vector(X), X, X) and is_set(arith.IntSet.single_point(3), 3, 3)
    mixed = Add(Mul(Ramp(X, const(1), 4), Broadcast(const(4), 4)), Ramp(const(0), const(-3), 4))
    assert is_set(arith.IntSet.vector(mixed), X * 4, X * 4 + 3)  # the lanes move together
    assert is_set(arith.IntSet.vector(FloorMod(Ramp(X * 4, const(1), 4), Broadcast(const(4), 4))), 0, 3)


# ---------------------------------------------------------------- patterns and bounds

def test_detect_linear_equation():
    def found(e, variables):
        return [str(p) for p in arith.detect_linear_equation(e, variables)]
    assert found(X * 3 + Y * N - 2 + M, [X, Y]) == ["3", "n", "m - 2"]
    assert found(X - X + 4, [X]) == ["0", "4"] and found(X * 2, []) == ["x * 2"]
    assert found((X + 1) * (N + 2), [X]) == ["n + 2", "n + 2"]
    for e in (X * Y, X // 2, Min(X, Y), X * X, Cast("float32", X)):
        assert arith.detect_linear_equation(e, [X, Y]) == []


def test_detect_clip_bound():
    def found(e, variables):
        return [p if p is None else str(p) for p in arith.detect_clip_bound(e, variables)]
    assert found(And(X >= 2, X < N), [X]) == ["2", "n - 1"]
    assert found(And(And(X - Y < 4, Y <= 3), GT(X, Y + 1)), [X]) == [] == found(X * 2 < 4, [X])
    low, *rest = arith.detect_clip_bound(And(And(X > 1, 5 - Y >= 0), Call("bool", "tir.likely", (X > N,))), [X, Y])
    assert Analyzer().can_prove_equal(low, Max(N + 1, const(2))) and rest[:2] == [None, None] and rest[2].value == 5
    assert found(EQ(X, N), [X]) == ["n", "n"] and found(X < Y, [X, Y]) == [] and found(X % 2 < 1, [X]) == []


DEDUCED = {
    "above": (X, X * 2 + Y < 20, {}, {Y: R(0, 4)}, NEG, 8),
    "below": (X, X * -3 + 4 < Y, {}, {Y: IntervalSet(-1, 5)}, 2, POS),
    "equal": (X, EQ(X * 2, N * 4 + 2), {}, {}, N * 2 + 1, N * 2 + 1),
    "both": (X, And(X >= N, X * 2 <= 9), {}, {}, N, 4),
    "quotient": (X, (X + 1) // 4 <= 2, {}, {}, NEG, 10),
    "quotient below": (X, FloorDiv(X, imm(4)) >= N, {}, {}, N * 4, POS),
    "symbolic scale": (X, X * N <= M, {N: IntervalSet(1, POS)}, {}, NEG, M // N),
    "sign unknown": (X, X * N <= M, {}, {}, POS, NEG),
    "no solution known": (X, EQ(X * 2, N), {}, {}, POS, NEG),
    "not a condition on it": (X, X * X < 4, {}, {}, POS, NEG),
    "unbounded rest": (X, X + Y < 4, {}, {Y: IntervalSet(0, POS)}, POS, NEG),
}


@pytest.mark.parametrize("case", DEDUCED)
def test_deduce_bound(case):
    var, condition, hints, relaxed, low, high = DEDUCED[case]
    found = arith.deduce_bound(var, condition, hints, relaxed)
    assert is_set(found, low, high), found


def test_deduced_bounds_are_safe():
    rng = random.Random(7)
    for _ in range(150):
        e = X * rng.choice([1, 2, 3, -1, -2, -4]) + Y * rng.choice([0, 1, -2]) + rng.randint(-6, 6)
        if rng.random() < 0.5:
            e = FloorDiv(e, imm(rng.choice([2, 3]))) + Y
        condition = rng.choice([LT, LE, GT, GE, EQ])(e, rng.choice([imm(rng.randint(-5, 5)), N]))
        found = arith.deduce_bound(X, condition, {N: R(0, 3)}, {Y: R(-1, 4)})
        for env in assignments({N: range(0, 3), X: range(-12, 12)}):
            low = evaluate(found.min_value, env) if found.has_lower_bound() else None
            high = evaluate(found.max_value, env) if found.has_upper_bound() else None
            inside = not found.is_nothing() and (low is None or low <= env[X]) and (high is None or env[X] <= high)
            if inside:
                assert all(evaluate(condition, {**env, Y: y}) for y in range(-1, 3)), (condition, found, env)


REGIONS = {
    "tile": ([R(X * 4 + Y, 1), R(Z, 2)], {X: R(0, 3), Y: R(0, 4), Z: R(5, 1)}, True),
    "windows": ([R(X * 2, 3)], {X: R(0, 5)}, True),
    "bounded": ([R(X * 4 + Y, 1)], {X: R(0, 3), Y: R(0, 4)}, X * 4 + Y < 10),
    "gaps": ([R(X * 4, 2)], {X: R(0, 3)}, True),
    "diagonal": ([R(X, 1), R(X, 1)], {X: R(0, 3)}, True),
    "overlapping": ([R(X + Y, 1)], {X: R(0, 3), Y: R(0, 3)}, X < 2),
    "padded": ([R((X + 1) // 2 + 1, 1)], {X: R(0, 5)}, True),
    "downward": ([R(5 - X, 1), R(20 - Y * 4, 16)], {X: R(0, 4), Y: R(0, 3)}, True),
    "downward with gaps": ([R(20 - Y * 4, 2)], {Y: R(0, 3)}, True),
    "quotient of overlapping": ([R((X + Y) // 2, 1)], {X: R(0, 8), Y: R(0, 4)}, True),
    "bounded overlapping": ([R((X + Y) // 3, 1)], {X: R(0, 8), Y: R(0, 4)}, X + Y < 5),
    "bounded part": ([R(X // 4, 1), R(Y * 4 + X % 4, 1)], {X: R(0, 16), Y: R(0, 4)}, Y * 4 + X % 4 > 3),
}


@pytest.mark.parametrize("case", REGIONS)
def test_estimated_regions(case):
    region, domains, predicate = REGIONS[case]
    points = set()
    for env in assignments({v: range(r.min.value, r.min.value + r.extent.value) for v, r in domains.items()}):
        if predicate is True or evaluate(predicate, env):
            starts = [evaluate(r.min, env) for r in region]
            points.update(itertools.product(*(range(s, s + r.extent.value) for s, r in zip(starts, region))))

    def box(sets):
        return set(itertools.product(*(range(s.min_value.value, s.max_value.value + 1) for s in sets)))
    strict = arith.estimate_region_strict_bound(region, domains, predicate)
    lower = arith.estimate_region_lower_bound(region, domains, predicate)
    upper = arith.estimate_region_upper_bound(region, domains, predicate)
    assert (strict is None) == (case in ("gaps", "diagonal", "downward with gaps"))
    assert strict is None or box(strict) == points
    assert lower is None or box(lower) <= points
    assert points <= box(upper)


@pytest.mark.parametrize("start, domains", [(Y, {Y: R(0, 10)}), (X * 5 + Y, {X: R(0, 2), Y: R(0, 5)})])
def test_regions_of_tiles_at_the_ends(start, domains):
    """What a condition leaves of the tile number N, which stays symbolic."""
    e = N * 8 + start
    predicate = And(imm(1) <= e, e < 60)
    (found,) = arith.estimate_region_lower_bound([R(e, 1)], domains, predicate)
    for n in range(8):
        points = {evaluate(e, at) for at in ({**env, N: n} for env in assignments(
            {v: range(r.extent.value) for v, r in domains.items()})) if evaluate(predicate, at)}
        low, high = (evaluate(end, {N: n}) for end in (found.min_value, found.max_value))
        assert set(range(low, high + 1)) == points


def test_regions_whose_size_varies_are_not_estimated():
    assert arith.estimate_region_lower_bound([R(X, X + 1)], {X: R(0, 3)}, True) is None


def test_domain_touched():
    body = BufferStore(A, BufferLoad(A, (X + 1,)) + 1, (X,))
    loop = For(X, const(0), const(3), "serial", body)
    assert [(r.min.value, r.extent.value) for r in arith.domain_touched(loop, A, True, False)] == [(1, 3)]
    assert [(r.min.value, r.extent.value) for r in arith.domain_touched(loop, A, False, True)] == [(0, 3)]
    assert [(r.min.value, r.extent.value) for r in arith.domain_touched(loop, A, True, True)] == [(0, 4)]
    assert arith.domain_touched(loop, B, True, True) == []
