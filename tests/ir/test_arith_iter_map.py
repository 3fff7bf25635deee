"""Iteration maps: known splits and fuses are seen, and random maps that are accepted are bijections by brute force."""
import itertools
import os
from collections import Counter

import pytest
from arith_brute import assignments, evaluate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingot.ir.arith import Analyzer, affine_domains, detect_iter_map, is_affine_binding
from ingot.ir.expr import And, IntImm, Range, Var

I, J, K, N, M = (Var(name) for name in "ijknm")
R = Range.from_min_extent


def ranges(**extents):
    names = {"i": I, "j": J, "k": K}
    return {names[v]: R(0, e) for v, e in extents.items()}


AFFINE = {
    "identity": ([I, J], ranges(i=4, j=5), None),
    "permuted": ([J, I], ranges(i=4, j=5), None),
    "fuse": ([I * 5 + J], ranges(i=4, j=5), None),
    "split": ([I // 8, I % 8], ranges(i=32), None),
    "split twice": ([I // 16, I // 4 % 4, I % 4], ranges(i=32), None),
    "fuse then split": ([(I * 6 + J) // 4, (I * 6 + J) % 4], ranges(i=8, j=6), None),
    "interleave": ([I * 4 + J % 4, J // 4], ranges(i=3, j=8), None),
    "offset": ([I + 3, J * 0 + 7], ranges(i=4, j=1), None),
    "constant": ([IntImm("int32", 0), I], ranges(i=4), None),
    "padded split": ([I * 4 + J], ranges(i=3, j=4), I * 4 + J < 10),
    "padded split twice": ([(I * 2 + J) * 4 + K], ranges(i=2, j=2, k=4), And(I * 2 + J < 3, (I * 2 + J) * 4 + K < 10)),
    "padded, aligned quotient": ([I // 3, I % 3 * 4 + J], ranges(i=13, j=4), I * 4 + J < 48),
    "padded fuse then split": ([(I * 4 + J) // 10, (I * 4 + J) % 10], ranges(i=13, j=4), I * 4 + J < 50),
    "cut loop": ([I, J], ranges(i=8, j=4), I < 5),
    "raised start": ([I, J], ranges(i=8, j=4), I >= 2),
    "not from zero": ([I * 4 + J], {I: R(2, 3), J: R(0, 4)}, None),
    "symbolic": ([I * M + J], ranges(i=N, j=M), None),
    "symbolic padded": ([I * 4 + J], ranges(i=(N + 3) // 4, j=4), I * 4 + J < N),
    "symbolic sum": ([I * (N + 1) + J, K], ranges(i=M, j=N + 1, k=3), None),
    "symbolic fuse and split": ([(I * M + J) // M, (I * M + J) % M], ranges(i=N, j=M), None),
    "split of a split": ([I // 2 * 2 + J // 3, I % 2 * 3 + J % 3], ranges(i=4, j=6), None),
}
NOT_AFFINE = {
    "shared": ([I, I], ranges(i=4), None),
    "overlap": ([I * 3 + J], ranges(i=4, j=4), None),
    "gap": ([I * 5 + J], ranges(i=4, j=4), None),
    "unused": ([I], ranges(i=4, j=4), None),
    "part of a loop": ([I // 2], ranges(i=4), None),
    "not divisible": ([I // 4, I % 4], ranges(i=10), None),
    "shared digits": ([I // 2, I % 4], ranges(i=8), None),
    "product": ([I * J], ranges(i=4, j=4), None),
    "triangle": ([I, J], ranges(i=4, j=4), J < I),
    "cut box": ([I, J], ranges(i=3, j=4), I * 4 + J < 10),
    "unaligned cut": ([(I * 4 + J) // 12, (I * 4 + J) % 12], ranges(i=13, j=4), I * 4 + J < 50),
    "reversed": ([3 - I], ranges(i=4), None),
    "window": ([I + J], ranges(i=4, j=3), None),
    "dependent range": ([I, J], {I: R(0, 4), J: R(0, I + 1)}, None),
}


@pytest.mark.parametrize("case", AFFINE)
def test_affine(case):
    answer = affine_domains(*AFFINE[case])
    assert answer, answer.reason


@pytest.mark.parametrize("case", AFFINE)
def test_affine_is_a_bijection(case):
    values, loops, predicate = AFFINE[case]
    domains = affine_domains(values, loops, predicate).domains
    for sizes in assignments({N: range(1, 6), M: range(1, 4)}):
        box = {v: range(evaluate(r.min, sizes), evaluate(r.min, sizes) + evaluate(r.extent, sizes))
               for v, r in loops.items()}
        points = [{**sizes, **env} for env in assignments(box)]
        images = [tuple(evaluate(v, env) for v in values) for env in points
                  if predicate is None or evaluate(predicate, env)]
        expected = [range(evaluate(d.min, sizes), evaluate(d.min, sizes) + evaluate(d.extent, sizes)) for d in domains]
        assert sorted(images) == sorted(itertools.product(*expected))


@pytest.mark.parametrize("case", NOT_AFFINE)
def test_not_affine(case):
    answer = affine_domains(*NOT_AFFINE[case])
    assert not answer and answer.reason


def test_domains():
    answer = affine_domains(*AFFINE["padded split"])
    (domain,) = answer.domains
    assert (domain.min.value, domain.extent.value) == (0, 10)


def test_loops_left_over():
    assert is_affine_binding([I], ranges(i=4, j=4), bijective=False)
    assert is_affine_binding([I // 2], ranges(i=4), bijective=False)
    assert is_affine_binding([I // 4 % 2], ranges(i=16), bijective=False)
    assert not is_affine_binding([I // 2, I % 4], ranges(i=8), bijective=False)
    assert not is_affine_binding([I, I], ranges(i=8), bijective=False)


def test_known_variables():
    an = Analyzer()
    an.bind(N, R(4, 1))
    assert is_affine_binding([I * N + J], ranges(i=3, j=4), None, an)
    assert not is_affine_binding([I * N + J], ranges(i=3, j=4))


@st.composite
def maps(draw):
    """(values, domains, predicate): digits of fused loops dealt out to one to three values, sometimes spoilt."""
    extents = [draw(st.sampled_from([1, 2, 3, 4, 6, 8])) for _ in range(3)]
    domains = dict(zip((I, J, K), (range(e) for e in extents)))
    terms = [I, J, K]
    values = []
    for _ in range(draw(st.integers(1, 3))):
        total = None
        for _ in range(draw(st.integers(1, 3))):
            t = draw(st.sampled_from(terms))
            if draw(st.booleans()):
                t = t * draw(st.sampled_from([2, 3, 4, 6, 8])) + draw(st.sampled_from(terms))
            c = draw(st.sampled_from([2, 3, 4]))
            t = draw(st.sampled_from([t, t, t // c, t % c]))
            t = t * draw(st.sampled_from([1, 1, 2, 3, 4, 6, 8]))
            total = t if total is None else total + t
        values.append(total)
    predicate = None
    if draw(st.booleans()):
        cut = draw(st.one_of(st.sampled_from(values), st.sampled_from(terms)))
        predicate = cut < draw(st.integers(1, 40))
    return values, domains, predicate


@st.composite
def real_maps(draw):
    """Maps made by splitting and fusing, so that many are bijections."""
    extents = [draw(st.sampled_from([2, 3, 4, 6])) for _ in range(3)]
    domains = dict(zip((I, J, K), (range(e) for e in extents)))
    order = draw(st.permutations([0, 1, 2]))
    names = [(I, J, K)[o] for o in order]
    sizes = [extents[o] for o in order]
    fused = (names[0] * sizes[1] + names[1]) * sizes[2] + names[2]
    total = sizes[0] * sizes[1] * sizes[2]
    predicate = None
    if draw(st.booleans()):
        total = draw(st.integers(1, total))
        predicate = fused < total
    if draw(st.booleans()):
        fused, other = names[0] * sizes[1] + names[1], [names[2]]
        predicate = None if draw(st.booleans()) else fused < draw(st.integers(1, sizes[0] * sizes[1]))
    else:
        other = []
    c = draw(st.sampled_from([1, 2, 3, 4, 6, 12]))
    d = draw(st.sampled_from([1, 2, 3]))
    values = [fused // (c * d), fused // c % d, fused % c] if draw(st.booleans()) else [fused // c, fused % c]
    return values + other, domains, predicate


def check_by_brute_force(values, domains, predicate, bijective):
    loops = {v: R(r.start, len(r)) for v, r in domains.items()}
    answer = affine_domains(values, loops, predicate, bijective=bijective)
    if not answer:
        return
    points = [env for env in assignments(domains) if predicate is None or evaluate(predicate, env)]
    images = [tuple(evaluate(v, env) for v in values) for env in points]
    box = 1
    for at, domain in enumerate(answer.domains):
        lo, extent = domain.min.value, domain.extent.value
        assert {image[at] for image in images} == set(range(lo, lo + extent))
        box *= extent
    counts = Counter(images)
    assert len(counts) == box
    assert set(counts.values()) == {1} if bijective else len(set(counts.values())) == 1


# A fixed small sample by default; ARITH_EXAMPLES=5000 searches at random.
CHECK = settings(max_examples=int(os.environ.get("ARITH_EXAMPLES", "100")), deadline=None, database=None,
                 derandomize="ARITH_EXAMPLES" not in os.environ, suppress_health_check=list(HealthCheck))


@CHECK
@given(maps(), st.booleans())
def test_accepted_maps_are_bijections(case, bijective):
    check_by_brute_force(*case, bijective)


@CHECK
@given(real_maps(), st.booleans())
def test_accepted_splits_are_bijections(case, bijective):
    check_by_brute_force(*case, bijective)


@pytest.mark.parametrize("condition", [K > 0, I < 0, And(I < 4, I * 0 + K > 1)])
def test_no_map_where_no_iteration_is_left(condition):
    found = detect_iter_map([I], ranges(i=8, k=1), condition)
    assert not found.indices and [*found.errors] == ["a condition that never holds"]
