"""Index maps that leave places empty: which, in terms of the outer index first, and over symbolic extents."""
import itertools
import random

import pytest

from ingot.ir import tir
from ingot.ir.arith import Analyzer
from ingot.ir.expr import IntImm, Var, const, substitute
from ingot.ir.tir.index_map import IndexMap

N = Var("n")

PADDED = {
    "right": (lambda i: (i // 4, i % 4), 15, "axis0 == 3 and 3 == axis1"),
    "more on the right": (lambda i: (i // 8, i % 8), 12, "axis0 == 1 and axis1 >= 4"),
    "left": (lambda i: ((i + 1) // 4, (i + 1) % 4), 15, "axis0 == 0 and axis1 < 1"),
    "three digits": (lambda i: (i // 32, i // 4 % 8, i % 4), 116, "axis0 == 3 and axis1 * 4 + axis2 >= 20"),
    "turned": (lambda i: (i // 4 % 8, i // 32, i % 4), 116, "axis1 == 3 and axis0 * 4 + axis2 >= 20"),
    "one turn": (lambda i: (i // 4, i % 4), 3, "3 == axis1"),
}


def number(e, env):
    value = Analyzer().simplify(substitute(e, {v: const(n, v.dtype) for v, n in env.items()}))
    assert isinstance(value, IntImm), value
    return value.value


def check(index_map, shape, inverse, empty, env):
    """The inverse gives each element's place back, and the predicate holds just where none is."""
    extents = [number(e, env) for e in shape]
    places = {}
    for point in itertools.product(*map(range, extents)):
        places[tuple(number(e, env) for e in index_map.map_indices([const(p) for p in point]))] = point
    for place in itertools.product(*(range(number(e, env)) for e in index_map.map_shape(shape))):
        at = {**env, **dict(zip(inverse.initial_indices, place))}
        assert bool(number(empty, at)) == (place not in places), (place, empty)
        if place in places:
            assert tuple(number(e, at) for e in inverse.final_indices) == places[place]


@pytest.mark.parametrize("case", PADDED)
def test_places_that_stay_empty(case):
    function, extent, wanted = PADDED[case]
    index_map = IndexMap.from_func(function)
    inverse, empty = index_map.non_surjective_inverse([extent])
    assert str(empty) == wanted
    check(index_map, [const(extent)], inverse, empty, {})


def test_random_maps():
    rng = random.Random(7)
    for _ in range(40):
        c, d, left = rng.choice([2, 3, 4]), rng.choice([2, 3]), rng.randint(0, 5)
        parts = [lambda i: (i + left) // (c * d), lambda i: (i + left) // c % d, lambda i: (i + left) % c]
        rng.shuffle(parts)
        index_map = IndexMap.from_func(lambda i: [part(i) for part in parts])  # noqa: B023
        extent = rng.randint(c * d, 40)
        check(index_map, [const(extent)], *index_map.non_surjective_inverse([extent]), {})


@pytest.mark.parametrize("left", [0, 3])
def test_symbolic_extents(left):
    """Of n elements in blocks of 4: what the last block lacks depends on n."""
    index_map = IndexMap.from_func(lambda i: ((i + left) // 4, (i + left) % 4))
    inverse, empty = index_map.non_surjective_inverse([N])
    for n in range(1, 14):
        check(index_map, [N], inverse, empty, {N: n})
    with pytest.raises(ValueError, match="has no inverse"):
        index_map.inverse([N])


def test_indices_decide_the_dtype():
    index_map = IndexMap.from_func(lambda i: (i // 4, i % 4))
    for dtype in ("int32", "int64"):
        found = index_map.map_indices([const(42, dtype)])
        assert [(e.dtype, e.value) for e in map(Analyzer().simplify, found)] == [(dtype, 10), (dtype, 2)]
    assert (tir.IntImm("int64", 7) + tir.IntImm("int32", 1)).dtype == "int64"
    assert (tir.IntImm("int64", 7) + 1).dtype == (1 + tir.IntImm("int64", 7)).dtype == "int64"
