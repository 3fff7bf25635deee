"""Iteration maps with symbolic sizes, conditions on parts of loops, loops of one iteration: values by brute force."""
import random
from collections import Counter

import pytest
from arith_brute import assignments, evaluate

from ingot.ir import arith, te, tir
from ingot.ir.arith import Analyzer, detect_iter_map
from ingot.ir.expr import And, Range, Var, free_vars
from ingot.ir.node import structural_equal

X, Y, Z, F = (Var(name) for name in "xyzf")
N, M = tir.SizeVar("n"), tir.SizeVar("m")
R = Range.from_min_extent


def loops(*extents):
    return {v: R(0, e) for v, e in zip((X, Y, Z), extents)}


def points(domains, env, predicate=True):
    """The assignments of the loops, beside those of env, at which the predicate holds."""
    found = assignments({v: range(evaluate(r.extent, env) if free_vars(r.extent) else r.extent.value)
                         for v, r in domains.items()})
    return [at for at in ({**env, **p} for p in found) if predicate is True or evaluate(predicate, at)]


def check(indices, domains, env, predicate=True, level="surjective"):
    """Whether a map is found; if so, its sums are the indices, and these meet the whole box, each point as often."""
    found = detect_iter_map(indices, domains, predicate, level)
    if found.errors:
        return False
    plain = [arith.normalize_iter_map_to_expr(e) for e in found.indices]
    met = Counter()
    for at in points(domains, env, predicate):
        image = tuple(evaluate(e, at) for e in indices)
        assert image == tuple(evaluate(e, at) for e in plain), (indices, predicate)
        met[image] += 1
    sides = [evaluate(e.args[0].extent, env) if e.args else 1 for e in found.indices]
    total = 1
    for side in sides:
        total *= side
    if level != "nocheck":
        assert len(met) == total, (indices, predicate)
    if level == "bijective":
        assert set(met.values()) == {1}
    return True


# ---------------------------------------------------------------- sizes

def test_a_size_is_at_least_0():
    size = te.size_var("s", "int64")
    assert isinstance(size, tir.SizeVar) and isinstance(size, Var) and not isinstance(te.var("s"), tir.SizeVar)
    assert Analyzer().const_int_bound(size).min_value == 0 and Analyzer().can_prove(size >= 0)
    assert not Analyzer().can_prove(size >= 1) and not Analyzer().can_prove(te.var("s") >= 0)
    assert isinstance(tir.stmt.Evaluate(size).value.replace(name="t"), tir.SizeVar)


SYMBOLIC = {
    "split": ([X // N, X % N], {X: R(0, N * M)}),
    "split of a fused loop": ([(X * N + Y) // N, (X * N + Y) % N], {X: R(0, M), Y: R(0, N)}),
    "fused": ([(Y + 1) * N + X], {X: R(0, N), Y: R(0, 4)}),
    "strides": ([X * 2 * N + Y * 2], {X: R(0, 3), Y: R(0, N)}),
    "digits joined": ([X // (N * N) % 4 * (N * N) + X // N % N * N + X % N], {X: R(0, N * N * 4)}),
}


@pytest.mark.parametrize("case", SYMBOLIC)
def test_symbolic_sizes(case):
    indices, domains = SYMBOLIC[case]
    for env in ({N: 3, M: 2}, {N: 1, M: 4}, {N: 4, M: 1}):
        assert check(indices, domains, env, level="bijective")


def test_a_divisor_of_unknown_sign_is_refused():
    assert detect_iter_map([X // F], {X: R(0, F * 4)}).errors


def test_joined_digits_are_the_loop():
    domains = {X: R(0, N * N * 8)}
    (done,) = arith.iter_map_simplify([X // (N * N) % 8 * (N * N) + X // N % N * N + X % N], domains)
    assert done is X
    z = X * 64 + Y
    (done,) = arith.iter_map_simplify([(z // (N * N) * N + z % (N * N) // N) * N + z % N],
                                      {X: R(0, (N * N + 1) // 2), Y: R(0, 64)}, z < N * N * 32)
    assert structural_equal(done, z)


@pytest.mark.parametrize("start", [F * 360, F * 7 + 3, F, F * 4 + 1])
def test_padding_by_what_a_variable_leaves(start):
    """The part of a row that begins at any multiple: the places before it depend on the variable."""
    for indices in ([(start + X) // 16], [(start + X) % 16], [(start + X) // 4 % 4, (start + X) % 4]):
        for extent in (360, 32, 41):
            found = [check(indices, loops(extent), {F: f}) for f in range(-3, 5)]
            assert len(set(found)) == 1
    assert detect_iter_map([(F * 360 + X) // 16], loops(360)).indices[0].args[0].extent.value == 23
    assert detect_iter_map([(F + X) // 16], loops(18)).errors  # 2 of 16 or 3, as f has it


# ---------------------------------------------------------------- conditions on parts

PARTS = {
    "quotient": ([X // 4, X % 4], loops(16), X // 4 < 3),
    "sum of quotients": ([X // 2 * 4 + Y // 2, X % 2 * 2 + Y % 2], loops(4, 8), X // 2 * 4 + Y // 2 < 7),
    "quotient and loop": ([X * 2 + Y // 4, Y % 4], loops(4, 8), X * 2 + Y // 4 < 7),
    "remainders": ([X // 4, Y // 3, X % 4 * 3 + Y % 3], loops(8, 6), X % 4 * 3 + Y % 3 < 10),
    "both parts": ([X // 2 * 4 + Y // 2, X % 2 * 2 + Y % 2], loops(4, 8),
                   And(X // 2 * 4 + Y // 2 < 7, X % 2 * 2 + Y % 2 < 3)),
    "part of what is bounded": ([(X * 3 + Y) // 4 * 2 + Z // 2, (X * 3 + Y) % 4 * 2 + Z % 2], loops(6, 3, 4),
                                And(X * 3 + Y < 16, (X * 3 + Y) % 4 * 2 + Z % 2 < 7)),
    "outer part": ([X * 4 + Y], loops(6, 4), X * 4 + Y < 16),
}


@pytest.mark.parametrize("case", PARTS)
@pytest.mark.parametrize("level", ["bijective", "surjective", "nocheck"])
def test_conditions_on_parts_of_loops(case, level):
    indices, domains, predicate = PARTS[case]
    assert check(indices, domains, {}, predicate, level)


def test_random_conditions_on_parts():
    rng, found = random.Random(5), Counter()
    for _ in range(250):
        c, d = rng.choice([2, 3, 4]), rng.choice([1, 2, 3])
        domains = loops(c * rng.randint(1, 3), d * rng.randint(1, 4))
        high, low = X // c * (domains[Y].extent.value // d) + Y // d, X % c * d + Y % d
        values = rng.choice(([high, low], [low, high], [high * (c * d) + low], [low], [X, Y], [high]))
        parts = high, low, X // c, Y % d, X * 2 + Y
        wanted = [rng.choice(parts) < rng.randint(1, 12) for _ in range(rng.randint(1, 2))]
        predicate, level = wanted[0] if len(wanted) == 1 else And(*wanted), rng.choice(["bijective", "surjective"])
        found[check(values, domains, {}, predicate, level)] += 1
    assert found[True] > 80, found


# ---------------------------------------------------------------- division by an inner space

DIVIDED = {
    "what all begin with": ([X * 12 + Y * 3 + Z + F], loops(5, 4, 3), [Z], True),
    "starts": ([X * 3 + Y], {X: R(2, 4), Y: R(6, 3)}, [Y], True),
    "bounded and moved": ([X * 4 + Y + 7], loops(3, 4), [Y], X * 4 + Y + 7 < 15),
    "extent that a condition gives": ([X * 7 + Y * 2 + Z, X * 0], loops(3, 4, 2), [Y, Z], Y * 2 + Z < 7),
    "gaps inside": ([X * 14 + Y * 2], loops(3, 4), [Y], True),
    "one turn is left": ([X * 8 + Y], loops(2, 8), [Y], Y <= 0),
    "parts of both": ([X // 2 * 7 + Y * 2 + Z // 2, X % 2 * 2 + Z % 2], loops(4, 4, 4), [Y, Z], Y * 2 + Z // 2 < 7),
}


@pytest.mark.parametrize("bindings", [[X * -6 - Y], [Y * -1, X], [Y * -4]])
def test_what_counts_down_inside_is_not_divided(bindings):
    assert arith.subspace_divide(bindings, loops(3, 2), [Y], check_level="nocheck") == []


@pytest.mark.parametrize("case", DIVIDED)
def test_subspace_divide(case):
    bindings, domains, inner, predicate = DIVIDED[case]
    *pairs, (outside, inside) = arith.subspace_divide(bindings, domains, inner, predicate, check_level="nocheck")
    for at in points({v: R(0, r.extent) for v, r in domains.items()}, {F: 5}):
        at = {v: n + (domains[v].min.value if v in domains else 0) for v, n in at.items()}
        holds = predicate is True or bool(evaluate(predicate, at))
        assert holds == bool(evaluate(outside.extent, at) and evaluate(inside.extent, at))
        for binding, (outer, part) in zip(bindings, pairs) if holds else ():
            one, other = (evaluate(arith.normalize_iter_map_to_expr(m.source), at) for m in (outer, part))
            assert one * part.extent.value + other == evaluate(binding, at)


def test_loops_of_one_iteration_stay_where_that_is_asked():
    (outer, inner), (none, part), _ = arith.subspace_divide([X, Y], loops(1, 1), [Y], simplify_trivial_iterators=False)
    plain = [arith.normalize_iter_map_to_expr(m.source) for m in (outer, inner, none, part)]
    assert plain[0] is X and plain[3] is Y and [e.value for e in plain[1:3]] == [0, 0]
    for index, domains, wanted in ((X + Y + Z, loops(1, 1, 1), X + Y + Z), (X // 4 + Y + Z, loops(4, 4, 1), Y + Z),
                                   (X + Y + Z // 4 * 4 + Z % 4, loops(1, 1, 32), Z + X + Y)):
        assert structural_equal(arith.iter_map_simplify([index], domains, simplify_trivial_iterators=False)[0], wanted)
        (done,) = arith.iter_map_simplify([index], domains)
        assert not {v for v, r in domains.items() if r.extent.value == 1} & set(free_vars(done))


def test_an_index_that_gains_nothing_stays():
    index = Y + 64 - X % 2 * 64
    assert arith.iter_map_simplify([index], loops(6, 64))[0] is index
    assert arith.iter_map_simplify([Y * 2 + X % 2 * 64 - Y - X % 2 * 64], loops(6, 64))[0] is Y


def test_quotients_of_sorted_sums_round_up():
    (split,) = arith.normalize_to_iter_sum(X // 5, loops(4096)).args
    assert (split.lower_factor.value, split.extent.value) == (5, 820)
    assert structural_equal(arith.normalize_iter_map_to_expr(split), X // 5)
