"""Iteration maps in their public form, and index maps built on them: structure by example, values by brute force."""
import itertools
import random

import pytest
from arith_brute import assignments, evaluate, imm

from ingot.ir import arith
from ingot.ir.arith import Analyzer, IterMapLevel, IterMark, IterSplitExpr, IterSumExpr, detect_iter_map
from ingot.ir.expr import And, Min, Range, Var, substitute
from ingot.ir.node import structural_equal
from ingot.ir.tir.index_map import IndexMap

X, Y, Z, N, M = (Var(name) for name in "xyznm")
R = Range.from_min_extent


def loops(*extents):
    return {v: R(0, e) for v, e in zip((X, Y, Z), extents)}


def plain(v, extent, scale=1, base=0):
    return IterSumExpr((IterSplitExpr(IterMark(v, extent), scale=scale),), base)


def fused(*splits, extent, base=0):
    return IterSumExpr((IterSplitExpr(IterMark(IterSumExpr(splits, 0), extent)),), base)


def split(v, extent, lower=1, size=None, scale=1):
    return IterSplitExpr(IterMark(v, extent), lower, size, scale)


FOUND = {
    "identity": ([X, Y + 3], loops(4, 5), True, [plain(X, 4), plain(Y, 5, base=3)]),
    "constant": ([imm(2)], loops(4), True, [IterSumExpr((), 2)]),
    "stride": ([X * 4 + 1], loops(8), True, [plain(X, 8, 4, 1)]),
    "split": ([X // 4, X % 4], loops(16), True,
              [IterSumExpr((split(X, 16, 4, 4),), 0), IterSumExpr((split(X, 16, 1, 4),), 0)]),
    "fuse": ([X * 5 + Y], loops(4, 5), True, [fused(split(X, 4, scale=5), split(Y, 5), extent=20)]),
    "start": ([X], {X: R(3, 4)}, True, [IterSumExpr((IterSplitExpr(IterMark(X - 3, 4)),), 3)]),
    "cut": ([X], loops(8), X < 5, [IterSumExpr((IterSplitExpr(IterMark(plain(X, 8), 5)),), 0)]),
    "trivial": ([X * 4 + Y], loops(1, 4), True, [plain(Y, 4)]),
}


@pytest.mark.parametrize("case", FOUND)
def test_structure(case):
    indices, domains, predicate, wanted = FOUND[case]
    found = detect_iter_map(indices, domains, predicate)
    assert not found.errors and structural_equal(tuple(found.indices), tuple(wanted)), found.indices


def test_a_divided_sum_is_a_mark_of_its_own():
    found = detect_iter_map([(X * 6 + Y) // 4, (X * 6 + Y) % 4], loops(8, 6), check_level="bijective")
    high, low = (e.args[0] for e in found.indices)
    assert high.source is low.source and high.source.extent.value == 48
    assert [s.scale.value for s in high.source.source.args] == [6, 1]
    assert (high.lower_factor.value, high.extent.value, low.lower_factor.value, low.extent.value) == (4, 12, 1, 4)


def test_trivial_loops_may_be_kept():
    found = detect_iter_map([X * 4 + Y], loops(1, 4), simplify_trivial_iterators=False)
    assert structural_equal(found.indices[0], fused(split(X, 1, scale=4), split(Y, 4), extent=4))


def test_levels():
    half = [X // 2], loops(8)
    assert detect_iter_map(*half).indices and detect_iter_map(*half, check_level=IterMapLevel.Surjective).indices
    assert detect_iter_map(*half, check_level="Bijective").errors
    twice = [X, X], loops(8)
    assert detect_iter_map(*twice).errors and detect_iter_map(*twice, check_level="NoCheck").indices
    assert not detect_iter_map([X * Y], loops(4, 4), check_level="nocheck").indices
    with pytest.raises(ValueError, match="check_level must be one of Bijective, Surjective, NoCheck, not 'onto'"):
        detect_iter_map(*half, check_level="onto")


PADDED = {
    "right": ([X // 4, X % 4], loops(14)),
    "none": ([X // 4, X % 4], loops(16)),
    "left": ([(X + 3) // 4, (X + 3) % 4], loops(13)),
    "both": ([(X + 1) // 4, (X + 1) % 4 // 2, (X + 1) % 2], loops(13)),
    "fused": ([(X * 5 + Y + 3) // 4, (X * 5 + Y + 3) % 4], loops(3, 5)),
    "two loops": ([X // 4, Y // 3, X % 4, Y % 3], loops(7, 5)),
    "negative start": ([(X - 1) // 4, (X - 1) % 4], loops(6)),
}


@pytest.mark.parametrize("case", PADDED)
def test_padding(case):
    indices, domains = PADDED[case]
    found = detect_iter_map(indices, domains, check_level="NoCheck")
    assert found.indices and bool(detect_iter_map(indices, domains).errors) == (case != "none")
    points = list(assignments({v: range(r.extent.value) for v, r in domains.items()}))
    assert not any(evaluate(found.padding_predicate, env) for env in points)
    check_inverse(found, domains, [tuple(evaluate(i, env) for i in indices) for env in points])


ONTO = {
    "shifted": ([(X + 80) // 32], loops(176), [(6, 2)]),
    "low digits": ([(X + 80) // 2 % 16, (X + 80) % 2], loops(176), [(16, 0), (2, 0)]),
    "high digit": ([X // 15], loops(26), [(2, 0)]),
    "middle digits": ([(X + 10) % 3, (X + 10) // 3 % 4], loops(24), [(3, 0), (4, 0)]),
    "fused": ([(X * 32 + Y * 8) // 16], loops(5, 4), [(10, 0)]),
    "overlapping": ([X * 7 + Y], loops(3, 8), [(22, 0)]),
    "three overlapping": ([X * 18 + Y * 7 + Z], loops(2, 3, 8), [(40, 0)]),
    "beside a unit loop": ([X], loops(3, 1), [(3, 0)]),
}


@pytest.mark.parametrize("case", ONTO)
def test_surjective_maps_meet_all_they_claim(case):
    indices, domains, wanted = ONTO[case]
    found = detect_iter_map(indices, domains, check_level="surjective")
    assert [(e.args[0].extent.value, e.base.value) for e in found.indices] == wanted, found.errors
    assert images(indices, domains) == boxes(found)


def images(indices, domains):
    points = assignments({v: range(r.extent.value) for v, r in domains.items()})
    return {tuple(evaluate(e, env) for e in indices) for env in points}


def boxes(found):
    ends = [(e.base.value, e.args[0] if e.args else None) for e in found.indices]
    return set(itertools.product(*([base] if s is None else [base + n * s.scale.value for n in range(s.extent.value)]
                                   for base, s in ends)))


def test_random_maps_are_onto_what_is_claimed():
    rng, found = random.Random(3), 0
    for _ in range(250):
        domains = loops(rng.randint(1, 14), rng.randint(1, 6))
        x = X + rng.randint(-3, 9)
        part = rng.choice((x, X * rng.randint(2, 7) + Y, x // rng.randint(1, 4), x % rng.randint(2, 6)))
        other = rng.choice((Y, x % rng.randint(2, 6), part // 3, X * rng.randint(1, 4) + Y * 2))
        indices = [part // rng.randint(1, 4), other] if rng.random() < 0.5 else [part % rng.randint(2, 5)]
        result = detect_iter_map(indices, domains)
        if not result.errors:
            found += 1
            assert images(indices, domains) == boxes(result), (indices, domains)
    assert found > 60


def test_a_bound_below_a_sum_of_loops():
    found = detect_iter_map([X * 6 + Y], loops(2, 6), And(1 < X * 6 + Y, X * 6 + Y < 10))
    assert (found.indices[0].args[0].extent.value, found.indices[0].base.value) == (8, 2)


def check_inverse(found, domains, images):
    """The inverse sends every image to its point, and to a padded one what no point is sent to."""
    outputs = [Var(f"o{i}") for i in range(len(found.indices))]
    inverse = arith.inverse_affine_iter_map(found.indices, outputs)
    padding = substitute(found.padding_predicate, inverse)
    points = list(assignments({v: range(r.min.value, r.min.value + r.extent.value) for v, r in domains.items()}))
    assert len(set(images)) == len(images)
    for image, env in zip(images, points):
        at = dict(zip(outputs, image))
        assert {v: evaluate(e, at) for v, e in inverse.items()} == {v: env[v] for v in inverse}
    boxes = [range(e.base.value, e.base.value + (e.args[0].extent.value if e.args else 1)) for e in found.indices]
    for image in itertools.product(*boxes):
        assert bool(evaluate(padding, dict(zip(outputs, image)))) == (image not in set(images)), image


def test_inverse_of_random_bijections():
    rng, seen = random.Random(3), 0
    for _ in range(120):
        extents = [rng.choice([1, 2, 3, 4, 6]) for _ in range(3)]
        domains = {v: R(rng.choice([0, 0, 2]), e) for v, e in zip((X, Y, Z), extents)}
        whole = ((X - domains[X].min) * extents[1] + Y - domains[Y].min) * extents[2] + Z - domains[Z].min
        c, d = rng.choice([1, 2, 3, 4, 6]), rng.choice([1, 2, 3])
        indices = [whole // (c * d), whole // c % d + 1, whole % c]
        rng.shuffle(indices)
        found = detect_iter_map(indices, domains, check_level="Bijective")
        if found.indices:
            seen += 1
            points = assignments({v: range(r.min.value, r.min.value + r.extent.value) for v, r in domains.items()})
            check_inverse(found, domains, [tuple(evaluate(i, env) for i in indices) for env in points])
    assert seen > 40


def test_inverse_refuses_what_it_cannot_solve():
    found = detect_iter_map([X], loops(4)).indices
    with pytest.raises(ValueError, match="1 indices cannot take the values of 2 outputs"):
        arith.inverse_affine_iter_map(found, [Y, Z])
    with pytest.raises(ValueError, match="does not count one variable"):
        arith.inverse_affine_iter_map([plain(X * 2, 4)], [Y])


# ---------------------------------------------------------------- forms of maps

def test_back_to_expressions():
    domains = loops(8, 6)
    for e in (X * 6 + Y, (X * 6 + Y) // 4 % 3 + 0, X // 2 * 3 + 1):
        found = detect_iter_map([e], domains, check_level="NoCheck")
        back = arith.normalize_iter_map_to_expr(found.indices[0])
        for env in assignments({X: range(8), Y: range(6)}):
            assert evaluate(back, env) == evaluate(e, env)


def test_sorted_sums():
    done = arith.normalize_to_iter_sum(Y + Z * 3 + X * 6 + N + 7, loops(8, 3, 2))
    assert [s.scale.value for s in done.args] == [6, 3, 1] and structural_equal(done.base, N + 7)
    done = arith.normalize_to_iter_sum(X // 3 * 2 + Min(Y, Z) + Y * Z, {X: R(3, 8), Y: R(0, 6), Z: R(0, 3)})
    (split,) = done.args
    assert split.extent.value == 3 and structural_equal(split.source.source, X - 3)
    back = arith.normalize_iter_map_to_expr(done)
    for env in assignments({X: range(3, 11), Y: range(6), Z: range(3)}):
        assert evaluate(back, env) == env[X] // 3 * 2 + min(env[Y], env[Z]) + env[Y] * env[Z]


def test_sorted_sums_of_symbolic_scales():
    """Scales with more symbolic factors go first, and neighbouring digits of a loop are one split."""
    done = arith.normalize_to_iter_sum(Z + ((Y * 4 * M + X // 3 * 12 + X % 3 * 4 + 2) * N), {
        X: Range(imm(0), N * 3), Y: Range(imm(0), M * N), Z: Range(imm(0), M)})
    assert [split.source.source for split in done.args] == [Y, X, Z]
    assert Analyzer().can_prove_equal(done.args[1].scale, N * 4) and structural_equal(done.base, N * 2)


def test_simplify_as_a_map():
    (done,) = arith.iter_map_simplify([(X * 6 + Y) // 3], loops(8, 6))
    assert structural_equal(done, X * 2 + Y // 3)
    (done,) = arith.iter_map_simplify([Min(X, Y) * 2 // 2], loops(8, 6), X < Y)
    assert done is X


DIVIDED = {
    "split loop": ([X * 4 + Y, Z], loops(3, 4, 2), [Y], True, [(3, 4), (2, 1)]),
    "two inner": ([X * 12 + Y * 4 + Z], loops(2, 3, 4), [Y, Z], True, [(2, 12)]),
    "inner alone": ([Y + 5, X], loops(3, 4), [Y], True, [(1, 4), (3, 1)]),
    "bounded": ([X * 4 + Y], loops(3, 4), [Y], X * 4 + Y < 8, [(2, 4)]),
    "bounds of each": ([X, Y], loops(6, 6), [Y], And(X < 4, Y < 5), [(4, 1), (1, 5)]),
    "symbolic": ([X * N + Y], {X: R(0, M), Y: R(0, N)}, [Y], True, [(M, N)]),
}
UNDIVIDED = {
    "inner is outer": ([X * 4 + Y], loops(3, 4), [X], True),
    "mixed bound": ([X * 4 + Y], loops(3, 4), [Y], X * 4 + Y < 10),
    "gap": ([X * 3 + Y], loops(3, 4), [Y], True),
    "product": ([X * Y], loops(3, 4), [Y], True),
}


@pytest.mark.parametrize("case", DIVIDED)
def test_subspace_divide(case):
    bindings, domains, inner, predicate, extents = DIVIDED[case]
    *pairs, (outer_condition, inner_condition) = arith.subspace_divide(bindings, domains, inner, predicate)
    an = Analyzer()
    for v, r in domains.items():
        an.bind(v, r)
    for binding, (outer, part), (outer_extent, inner_extent) in zip(bindings, pairs, extents, strict=True):
        assert an.can_prove_equal(outer.extent, outer_extent) and an.can_prove_equal(part.extent, inner_extent)
        one, other = map(arith.normalize_iter_map_to_expr, (outer.source, part.source))
        assert an.can_prove_equal(one * part.extent + other, binding)
    if not isinstance(domains[X].extent, Var):
        for env in assignments({v: range(r.extent.value) for v, r in domains.items()}):
            both = evaluate(outer_condition.extent, env) and evaluate(inner_condition.extent, env)
            assert predicate is True or bool(both) == bool(evaluate(predicate, env))


@pytest.mark.parametrize("case", UNDIVIDED)
def test_what_cannot_be_divided(case):
    assert arith.subspace_divide(*UNDIVIDED[case]) == []


# ---------------------------------------------------------------- index maps

MAPS = {
    "transpose": (lambda i, j: (j, i), (3, 5)),
    "packed": (lambda n, c, h: (n, c // 4, h, c % 4), (1, 8, 3)),
    "padded": (lambda n, c, h: (n, c // 4, h, c % 4), (2, 7, 3)),
    "flat": (lambda i, j: i * 5 + j, (3, 5)),
    "fused and split": (lambda i, j: ((i * 6 + j) // 4, (i * 6 + j) % 4), (2, 6)),
    "fused and padded": (lambda i, j: ((i * 5 + j) // 4, (i * 5 + j) % 4), (3, 5)),
    "moved": (lambda i: ((i + 3) // 4, (i + 3) % 4), (14,)),
}


LATER = {  # the first place that is taken is not that of zeros
    "later": (lambda i: (i + 1,), (4,)),
    "in a later part": (lambda i: ((i + 2) // 4, (i + 2) % 4), (2,)),
    "one of two": (lambda i, j: (i // 4, j + 3, i % 4), (6, 2)),
    "without its quotient": (lambda i: (i % 4,), (3,)),
}


@pytest.mark.parametrize("case", MAPS)
def test_inverse_index_maps(case):
    function, shape = MAPS[case]
    index_map = IndexMap.from_func(function)
    if _inverted(index_map, shape):
        assert index_map.inverse(shape).is_equivalent_to(index_map.non_surjective_inverse(shape)[0])
    else:
        with pytest.raises(ValueError, match="has no inverse over .*: a division"):
            index_map.inverse(shape)


@pytest.mark.parametrize("case", LATER)
def test_places_before_the_first_are_told(case):
    function, shape = LATER[case]
    assert not _inverted(IndexMap.from_func(function), shape)


def _inverted(index_map, shape):
    """Whether a map leaves no place empty; its inverse is checked."""
    inverse, padding = index_map.non_surjective_inverse(shape)
    images, places = {}, list(itertools.product(*(range(e.value) for e in index_map.map_shape(shape))))
    for point in itertools.product(*map(range, shape)):
        images[tuple(evaluate(e, {}) for e in _constant(index_map, point))] = point
    for image in places:
        back = tuple(e.value for e in _constant(inverse, image))
        holes = _constant(IndexMap(inverse.initial_indices, (padding,)), image)[0]
        assert bool(holes.value) == (image not in images)
        assert image not in images or back == images[image]
    return len(images) == len(places)


def _constant(index_map, point):
    return [Analyzer().simplify(e) for e in index_map.map_indices(point)]


def test_index_maps_over_symbolic_and_shifted_ranges():
    index_map = IndexMap.from_func(lambda i, j: (j, i // 4, i % 4))
    shape = index_map.map_shape((N * 4, M))
    assert [str(e) for e in shape] == ["m", "n", "4"]
    inverse = index_map.inverse((N * 4, M))
    assert inverse.is_equivalent_to(IndexMap.from_func(lambda a, b, c: (b * 4 + c, a)))
    moved = index_map.map_ranges([R(4, 8), R(2, 3)])
    assert [(r.min.value, r.extent.value) for r in moved] == [(2, 3), (1, 2), (0, 4)]
    assert index_map.inverse([R(4, 8), R(2, 3)]).is_equivalent_to(inverse)


def test_index_maps_refuse():
    with pytest.raises(ValueError, match="takes 2 indices; the shape has 1 dimensions"):
        IndexMap.from_func(lambda i, j: (j, i)).inverse((3,))
    with pytest.raises(ValueError, match="may be negative"):
        IndexMap.from_func(lambda i: (i - 1,)).map_shape((3,))
    with pytest.raises(ValueError, match="no bounds are known of index 0"):
        IndexMap.from_func(lambda i: (i * N,)).map_ranges((3,))
    with pytest.raises(ValueError, match="has no inverse"):
        IndexMap.from_func(lambda i: (i * 2,)).non_surjective_inverse((3,))
    assert not IndexMap.from_func(lambda i: (i, i)).is_equivalent_to(IndexMap.from_func(lambda i: (i,)))
    assert not IndexMap.from_func(lambda i: (i,)).is_equivalent_to(IndexMap.from_func(lambda i: (i + 1,)))
