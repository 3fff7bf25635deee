"""Every operation of every vector type against NumPy, on every instruction set that this machine can run."""
import math

import numpy as np
import pytest

from ingot.ir.tir.intrin import BIT_INTRINSICS, INTRINSICS

LANES = {"f32x4": 4, "f32x8": 8, "f32x16": 16}
TYPES = ["f32x1", *LANES]
TINY = np.finfo(np.float32).tiny


@pytest.fixture(autouse=True)
def _silent():
    with np.errstate(all="ignore"):
        yield


def same(actual, expected):
    """Equal bits of value: NaN is NaN, and 0 is not -0."""
    zero = (actual == 0) & (expected == 0)
    sign_differs = zero & (np.signbit(actual) != np.signbit(expected))
    return ((actual == expected) | (np.isnan(actual) & np.isnan(expected))) & ~sign_differs


def normal(*arrays):
    """Where no array has a denormal or the smallest normal, which may come from one."""
    return np.all([(x == 0) | ~(np.abs(x) <= TINY) for x in arrays], axis=0)


def expect(actual, expected, build, type_, *inputs):
    """Asserts `same`, but for denormals where the build flushes them in vectors."""
    wrong = ~same(actual, expected)
    if build.flushes and type_ != "f32x1":
        with np.errstate(invalid="ignore"):
            wrong &= normal(expected, *inputs)
            wrong &= ~((actual == 0) & (expected == 0))
    at = np.flatnonzero(wrong)
    assert not len(at), f"{type_}: {len(at)} wrong, first at {[x[at[0]] for x in inputs]}: " \
                        f"{actual[at[0]]!r} instead of {expected[at[0]]!r}"


EXACT = {
    "neg": lambda a, b, c: -a,
    "abs": lambda a, b, c: np.abs(a),
    "sqrt": lambda a, b, c: np.sqrt(a),
    "round": lambda a, b, c: np.rint(a),
    "floor": lambda a, b, c: np.floor(a),
    "ceil": lambda a, b, c: np.ceil(a),
    "add": lambda a, b, c: a + b,
    "sub": lambda a, b, c: a - b,
    "mul": lambda a, b, c: a * b,
    "div": lambda a, b, c: a / b,
    "copysign": lambda a, b, c: np.copysign(a, b),
    "clamp": lambda a, b, c: np.clip(a, np.float32(-1.5), np.float32(6)),
    **{f"fixed_{n}": lambda a, b, c, n=n: BIT_INTRINSICS["fixed"].numpy(a, b, n) for n in range(0, 32, 4)},
    **{f"top_bits_{n}_{bits}": lambda a, b, c, n=n, bits=bits: BIT_INTRINSICS["top_bits"].numpy(a, n, bits)
       for n, bits in ((0, 4), (12, 4), (28, 4), (0, 2), (14, 2), (30, 2), (8, 8), (24, 8))},
    "greater": lambda a, b, c: BIT_INTRINSICS["greater"].numpy(a, b),
    "select_lt": lambda a, b, c: np.where(a < b, c, np.float32(1)),
    "select_le": lambda a, b, c: np.where(a <= b, c, np.float32(1)),
    "select_eq": lambda a, b, c: np.where(a == b, c, np.float32(1)),
}


@pytest.mark.parametrize("op", EXACT)
def test_exact_operations(build, results, abc, op):
    for type_ in TYPES:
        expect(results[f"{type_}_{op}"], EXACT[op](*abc), build, type_, *abc)


def test_simd_name_is_the_expected_one(build, results):
    assert f"{build.simd}_" in results


@pytest.mark.parametrize("op, reference", [("min", np.minimum), ("max", np.maximum)])
def test_min_max_and_their_nan_contract(build, results, abc, op, reference):
    a, b, _ = abc
    for type_ in TYPES:
        y = results[f"{type_}_{op}"]
        ordered = ~np.isnan(a) & ~np.isnan(b) & ~((a == 0) & (b == 0))
        expect(y[ordered], reference(a, b)[ordered], build, type_, a[ordered], b[ordered])
        assert np.isnan(y[np.isnan(b)]).all()
        only_a = np.isnan(a) & ~np.isnan(b)
        assert (np.isnan(y) | (y == b))[only_a & normal(b)].all()


@pytest.mark.parametrize("op, reference", [("minimum", np.minimum), ("maximum", np.maximum)])
def test_minimum_and_maximum_pass_on_every_nan(build, results, abc, op, reference):
    a, b, _ = abc
    for type_ in TYPES:
        y, unequal = results[f"{type_}_{op}"], ~((a == 0) & (b == 0))
        expect(y[unequal], reference(a, b)[unequal], build, type_, a[unequal], b[unequal])


def test_fma_rounds_as_the_build_says(build, results, abc):
    a, b, c = (x.astype(np.float64) for x in abc)
    for type_ in TYPES:
        y = results[f"{type_}_fma"]
        if not build.fused:
            expect(y, abc[0] * abc[1] + abc[2], build, type_, *abc, abc[0] * abc[1])
            continue
        exact = a * b + c
        rounded = exact.astype(np.float32)
        # float64 rounds a sum of very different exponents before the second rounding: allow the neighbour
        close = same(y, rounded) | (np.abs(y - exact) <= np.spacing(np.abs(rounded)) * 0.500001)
        if build.flushes and type_ != "f32x1":
            close |= ~normal(*abc, rounded)
        assert close.all(), (type_, [x[~close][0] for x in abc], y[~close][0], exact[~close][0])


def test_one_element_for_all_lanes(build, results, abc):
    """fma_lane and accumulate may round once or twice."""
    for type_, lanes in LANES.items():
        b, c = (x[:lanes].astype(np.float64) for x in abc[1:])
        assert same(results[f"{type_}_lane"].reshape(lanes, lanes), np.repeat(abc[1][:lanes, None], lanes, 1)).all()
        assert same(results[f"{type_}_held"], abc[1][:lanes]).all()
        product = b[:, None] * c
        exact = product + b
        usable = (np.abs(product) < 1e38) & (np.abs(exact) < 1e38)
        bound = 2.0 ** -23 * (np.abs(product) + np.abs(exact)) + 4 * TINY
        for name in ("fma_lane", "accumulate"):
            y = results[f"{type_}_{name}"].reshape(lanes, lanes)
            assert usable.any() and (np.abs(y - exact) <= bound)[usable].all(), (type_, name)


def test_ldexp_rounds_once(build, results, abc):
    """For operands near 1, as exp has them: the first of two factors must not leave the normal range."""
    a, b, _ = abc
    near_1 = (np.abs(a) > 0.5) & (np.abs(a) < 2) & ~np.isnan(b)
    n = np.clip(np.rint(b[near_1]), -252, 254).astype(np.int32)
    for type_ in TYPES:
        expect(results[f"{type_}_ldexp"][near_1], np.ldexp(a[near_1], n), build, type_, a[near_1])


def test_mantissa_and_exponent_of_positive_normals(build, results, abc):
    a = abc[0]
    where = (a >= TINY) & np.isfinite(a)
    for type_ in TYPES:
        m, e = (results[f"{type_}_{op}"][where] for op in ("mantissa", "exponent"))
        assert (np.ldexp(m.astype(np.float64), e.astype(np.int32)) == a[where]).all()
        assert m.min() >= np.float32(math.sqrt(0.5)) and m.max() <= np.float32(math.sqrt(2))


def sigmoid(x):
    return np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x)))


# the bounds that simd/math.h and the rows of intrinsics state: units in the last place, and what may be off besides
FUNCTIONS = {
    "exp": (np.exp, INTRINSICS["exp"].ulp, 0),
    "log": (np.log, INTRINSICS["log"].ulp, 0),
    "tanh": (np.tanh, INTRINSICS["tanh"].ulp, 0),
    "erf": (np.vectorize(math.erf), INTRINSICS["erf"].ulp, 0),
    "sigmoid": (sigmoid, INTRINSICS["sigmoid"].ulp, 6.1e-39),
}


@pytest.mark.parametrize("op", FUNCTIONS)
def test_functions_within_their_ulp_bounds(build, results, abc, op):
    """NaN, infinity and overflow exactly; the finite within the bound, in units of the reference's last place."""
    reference, bound, near_0 = FUNCTIONS[op]
    a = abc[0]
    exact = reference(a.astype(np.float64))
    rounded = exact.astype(np.float32)
    finite = np.isfinite(rounded)
    unit = np.spacing(np.abs(rounded)).astype(np.float64)
    for type_ in TYPES:
        y = results[f"{type_}_{op}"]
        special = ~finite
        ulp = np.where(finite, np.maximum(np.abs(y - exact) - near_0, 0) / unit, 0)
        if build.flushes and type_ != "f32x1":
            kept = ((np.abs(a) > 1e-37) | (a == 0)) & ((np.abs(exact) > 1e-37) | (exact == 0))
            special, ulp = special & (kept | np.isnan(a)), np.where(kept, ulp, 0)
        assert same(y, rounded)[special].all()
        worst = int(np.nanargmax(np.where(np.isnan(ulp), np.inf, ulp)))
        assert ulp[worst] <= bound, f"{type_}_{op}({a[worst]!r}) = {y[worst]!r}, {ulp[worst]:.2f} ulp off"


def test_gelu_is_exact_within_9e_8_of_its_argument(build, results, abc):
    """The smaller side of it has no digits of its own; below -12.5 it is as good as 0, as is the limit."""
    a = abc[0]
    exact = INTRINSICS["gelu"].numpy(a.astype(np.float64))
    finite = np.isfinite(a) & (np.abs(a) > 1e-36) if build.flushes else np.isfinite(a)
    for type_ in TYPES:
        y = results[f"{type_}_gelu"].astype(np.float64)
        assert (np.isnan(y) == np.isnan(a)).all()
        assert (y[a == np.inf] == np.inf).all() and (np.abs(y[a < -12.5]) <= 1e-34).all()
        error = np.abs(y - exact)[finite] / np.maximum(np.abs(a[finite].astype(np.float64)), TINY)
        assert error.max() <= 9e-8, a[finite][error.argmax()]


def test_silu_is_exact_within_2_8_units_and_0_where_it_is_small(build, results, abc):
    """x sigmoid(x), which is NaN at minus infinity; below -88 it is 4e-37 at most, and may be 0."""
    a = abc[0]
    exact = INTRINSICS["silu"].numpy(a.astype(np.float64))
    finite = np.isfinite(a) & (np.abs(a) > 1e-36) if build.flushes else np.isfinite(a)
    unit = np.spacing(np.abs(exact.astype(np.float32))).astype(np.float64)
    for type_ in TYPES:
        y = results[f"{type_}_silu"].astype(np.float64)
        assert (np.isnan(y) == np.isnan(exact)).all() and (y[a == np.inf] == np.inf).all()
        assert (y[a < -89] == 0)[np.isfinite(a[a < -89])].all()
        error = np.maximum(np.abs(y - exact) - 4e-37, 0)[finite] / unit[finite]
        assert error.max() <= 2.8, a[finite][error.argmax()]


@pytest.mark.parametrize("op", ["tanh", "erf", "floor", "ceil", "round"])
def test_zero_keeps_its_sign(results, abc, op):
    zero = abc[0] == 0
    for type_ in TYPES:
        assert (np.signbit(results[f"{type_}_{op}"][zero]) == np.signbit(abc[0][zero])).all()


def test_widths_agree_to_the_bit(build, results):
    """A kernel gives the same answer whichever width it is scheduled for."""
    if build.flushes:
        pytest.skip("vectors flush denormals, single floats do not")
    for op in (*FUNCTIONS, "silu"):
        for type_ in LANES:
            assert same(results[f"{type_}_{op}"], results[f"f32x1_{op}"]).all(), (type_, op)
    for type_ in LANES:  # the sign of a zero is that of max(0, -0)
        assert same(results[f"{type_}_gelu"] + np.float32(0), results["f32x1_gelu"] + np.float32(0)).all(), type_


@pytest.mark.parametrize("op, reference", [("add", np.sum), ("min", np.min), ("max", np.max)])
def test_reductions(build, results, abc, op, reference):
    for type_, lanes in LANES.items():
        groups = abc[0].reshape(-1, lanes).astype(np.float64)
        y = results[f"{type_}_reduce_{op}"]
        usable = (np.abs(groups) < 1e30).all(axis=1)
        if op == "add":
            bound = 1e-6 * np.abs(groups).sum(axis=1) + lanes * TINY
        else:
            bound = TINY if build.flushes else 0
        assert (np.abs(y - reference(groups, axis=1)) <= bound)[usable].all()
        with_nan = np.isnan(groups).any(axis=1)
        assert with_nan.any() and np.isnan(y[with_nan]).all()


def test_the_greatest_of_a_vector(results, abc):
    """By its bits, those of NaN among them."""
    for type_, lanes in LANES.items():
        expected = abc[0].view(np.int32).reshape(-1, lanes).max(axis=1)
        assert (results[f"{type_}_reduce_greater"].view(np.int32) == expected).all()


def test_partial_loads_fill_with_zeros(results, abc):
    """That the stores touch nothing else, ops.c checks itself; the sanitized builds watch the loads."""
    for type_, lanes in LANES.items():
        y = results[f"{type_}_load_n"].reshape(lanes + 1, lanes)
        expected = np.where(np.arange(lanes) < np.arange(lanes + 1)[:, None], abc[0][:lanes], np.float32(0))
        assert same(y, expected).all()


@pytest.mark.parametrize("name, dtype", [("i8", np.int8), ("u8", np.uint8), ("i16", np.int16)])
def test_integers_are_loaded_as_floats(results, abc, name, dtype):
    for type_, lanes in LANES.items():
        own = abc[0].view(dtype)[:3 * lanes + 1].astype(np.float32)
        y = results[f"{type_}_load_{name}"].reshape(lanes + 3, lanes)
        parts = np.where(np.arange(lanes) < np.arange(lanes + 1)[:, None], own[:lanes], np.float32(0))
        assert np.array_equal(y, [own[1:lanes + 1], own[:3 * lanes:3], *parts])


def test_first_lanes_of_one_and_the_rest_of_another(results, abc):
    for type_, lanes in LANES.items():
        y = results[f"{type_}_first_n"].reshape(lanes + 1, lanes)
        expected = np.where(np.arange(lanes) < np.arange(lanes + 1)[:, None], abc[0][:lanes], abc[1][:lanes])
        assert same(y, expected).all()


def test_blocks_of_two_vectors(results, abc):
    for type_, lanes in LANES.items():
        a, b = (x[:lanes] for x in abc[:2])
        for k, y in enumerate(results[f"{type_}_blocks"].reshape(-1, 2, lanes)):
            blocks = np.stack([a, b]).reshape(2, -1, 1 << k)
            assert same(y[0], np.concatenate([blocks[0, ::2], blocks[1, ::2]], axis=-1).reshape(-1)).all()
            assert same(y[1], np.concatenate([blocks[0, 1::2], blocks[1, 1::2]], axis=-1).reshape(-1)).all()
        assert 2 << k == lanes


def test_strided_and_unaligned_memory(results, abc):
    a, b, _ = abc
    for type_, lanes in LANES.items():
        forward, backward, unaligned = results[f"{type_}_load_strided"].reshape(3, lanes)
        assert same(forward, a[:3 * lanes:3]).all()
        assert same(backward, a[:3 * lanes:3][::-1]).all()
        assert same(unaligned, a[1:lanes + 1]).all()
        expected = b[:3 * lanes].copy()
        expected[::3] = a[:lanes]
        assert same(results[f"{type_}_store_strided"], expected).all()
