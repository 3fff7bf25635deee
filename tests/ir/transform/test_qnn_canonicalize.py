"""Products of quantized tensors: the same sums, whichever numbers a target multiplies."""
import numpy as np
import pytest
from graph_check import Graph, execute, ops, param

from ingot.ir.relax import Constant
from ingot.ir.relax.ops.qnn import sums_dtype
from ingot.ir.target import Target
from ingot.ir.transform.match_signs import match_signs
from ingot.ir.transform.qnn_canonicalize import qnn_canonicalize, short_parts

RNG = np.random.default_rng(8)
BYTES, FLOATS = Target.get("c"), Target.get("cuda-sm_80")


def integers(dtype, *shape):
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def assert_sums(mod, target, x, expected):
    made = qnn_canonicalize(mod, target)
    assert not any(op.startswith("qnn") for op in ops(made))
    found, = execute(made, x)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, expected)
    return made


@pytest.mark.parametrize("target", [BYTES, FLOATS], ids=str)
@pytest.mark.parametrize("x_dtype", ["int8", "uint8"])
@pytest.mark.parametrize("w_dtype, w_zero", [("int8", 0), ("uint8", 128), ("uint8", 100), ("int8", [3, -5, 0, 7])])
def test_products(target, x_dtype, w_dtype, w_zero):
    x, w = integers(x_dtype, 5, 12), integers(w_dtype, 12, 4)
    zeros = np.int8(-3) if x_dtype == "int8" else np.uint8(200), np.asarray(w_zero, w_dtype)
    g = Graph(param("x", 5, 12, dtype=x_dtype))
    y = g.op("qnn.matmul", g.params[0], Constant(w, "w"), *map(Constant, map(np.asarray, zeros)))
    assert_sums(g.module(y), target, x, (x.astype(int) - zeros[0]) @ (w.astype(int) - zeros[1]))


@pytest.mark.parametrize("target", ["c", "x86-64-v4-vnni", "aarch64-dotprod", "x86-64-v3", "cuda-sm_80"])
@pytest.mark.parametrize("left, right", [("uint8", "uint8"), ("int8", "int8"), ("uint8", "int8")])
def test_products_of_matrices_that_a_run_knows(target, left, right):
    """Of which the second lies across: with zero points of all, of each row and column, that a run knows, and none."""
    (a, b), (x, w) = (integers(t, *s) for t, s in ((left, (5, 1)), (right, (1, 4)))), (
        integers(left, 2, 5, 12), integers(right, 4, 12))
    g = Graph(param("x", 2, 5, 12, dtype=left), param("w", 4, 12, dtype=right), param("a", 5, 1, dtype=left))
    t = g.op("permute_dims", g.params[1], axes=(1, 0))
    zeros = [(Constant(np.asarray(3, left)), Constant(np.asarray(120, right))), (g.params[2], Constant(b)),
             (Constant(np.asarray(0, left)), Constant(np.asarray(0, right)))]
    mod = g.module(*(g.op("qnn.matmul", g.params[0], t, *z) for z in zeros))
    made = qnn_canonicalize(mod, Target.get(target))
    x_, w_ = x.astype(int), w.astype(int).T
    for found, expected in zip(execute(made, x, w, a),
                               ((x_ - 3) @ (w_ - 120), (x_ - a) @ (w_ - b.astype(int)), x_ @ w_)):
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, expected)
    dtypes = {str(v.struct_info.dtype) for b in made["main"].bindings if b.value.op == "matmul" for v in b.value.args}
    assert dtypes == ({"float32"} if target in ("x86-64-v3", "cuda-sm_80") else {left, right} if target == "c" else
                      {left, "int8" if left == "uint8" else "uint8"} if target == "x86-64-v4-vnni" else {left})


WORDS_AND_BYTES = [("int16", "int16"), ("uint16", "uint16"), ("int16", "uint8"), ("int8", "uint16")]


@pytest.mark.parametrize("target", ["c", "x86-64-v3", "aarch64-dotprod", "cuda-sm_80"])
@pytest.mark.parametrize("left, right", WORDS_AND_BYTES)
def test_products_of_matrices_of_16_bits_that_a_run_knows(target, left, right):
    """At the ends of their range, the second across: of zero points in the middle, which int16 has not, of others, and
    of those that a run knows, by rows and columns; sums longer than int32 holds are cut in pieces."""
    ends = {dtype: (np.iinfo(dtype).min, np.iinfo(dtype).max) for dtype in (left, right)}
    x, w = (np.where(RNG.random(s) < 0.9, RNG.choice(ends[t]), integers(t, *s)).astype(t)
            for t, s in ((left, (2, 3, 1030)), (right, (4, 1030))))
    a, b = integers(left, 3, 1), integers(right, 1, 4)
    middles = [0 if t.startswith("i") else 1 << np.iinfo(t).bits - 1 for t in (left, right)]
    g = Graph(param("x", 2, 3, 1030, dtype=left), param("w", 4, 1030, dtype=right), param("a", 3, 1, dtype=left))
    t = g.op("permute_dims", g.params[1], axes=(1, 0))
    zeros = [[Constant(np.asarray(z, d)) for z, d in zip(middles, (left, right))],
             (Constant(np.asarray(ends[left][0], left)), Constant(np.asarray(ends[right][1], right))),
             (g.params[2], Constant(b))]
    mod = g.module(*(g.op("qnn.matmul", g.params[0], t, *z, out_dtype="int64") for z in zeros))
    made = qnn_canonicalize(mod, Target.get(target))
    x_, w_ = x.astype(np.int64), w.astype(np.int64).T
    for found, zero in zip(execute(made, x, w, a), (middles, (ends[left][0], ends[right][1]), (a.astype(np.int64), b))):
        np.testing.assert_array_equal(found, (x_ - zero[0]) @ (w_ - np.asarray(zero[1], np.int64)))
    products = [b.value for b in made["main"].bindings if b.value.op == "matmul"]
    if target in ("x86-64-v3", "aarch64-dotprod"):
        assert {str(v.struct_info.dtype) for p in products for v in p.args} == {"int16"}
        assert all(p.struct_info.dtype == "int32" and p.args[0].struct_info.shape[-1].value < 512 for p in products)
        parts = 1 if "8" in left + right else 2
        assert len(products) == 3 * parts * -(-1030 // (256 if "uint8" in (left, right) else 510))


def test_a_sum_that_int32_is_said_to_hold_is_one_product():
    x, w = integers("int16", 3, 8) // 64, integers("int16", 8, 4) // 64
    g = Graph(param("x", 3, 8, dtype="int16"), param("w", 8, 4, dtype="int16"))
    zero = Constant(np.asarray(0, "int16"))
    made = qnn_canonicalize(g.module(g.op("qnn.matmul", *g.params, zero, zero)), Target.get("x86-64-v3"))
    assert ops(made) == ["matmul"]
    np.testing.assert_array_equal(execute(made, x, w)[0], x.astype(int) @ w.astype(int))


@pytest.mark.parametrize("target", [BYTES, FLOATS], ids=str)
@pytest.mark.parametrize("groups, padding", [(1, (1, 0, 1, 2)), (4, (1, 1, 1, 1)), (1, (0, 0, 0, 0))])
def test_convolutions_are_padded_with_the_zero_point(target, groups, padding):
    x, w = integers("uint8", 1, 4, 6, 5), integers("int8", 8, 4 // groups, 3, 3)
    g = Graph(param("x", 1, 4, 6, 5, dtype="uint8"))
    y = g.op("qnn.conv2d", g.params[0], Constant(w, "w"), Constant(np.uint8(77)), Constant(np.int8(0)),
             padding=padding, groups=groups)
    top, left, bottom, right = padding
    padded = np.pad(x.astype(int) - 77, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    n, _, h, v = windows.shape[:4]
    parts = windows.reshape(n, groups, 4 // groups, h, v, 3, 3)
    expected = np.einsum("ngchvij,gocij->ngohv", parts, w.reshape(groups, 8 // groups, 4 // groups, 3, 3).astype(int))
    made = assert_sums(g.module(y), target, x, expected.reshape(n, 8, h, v))
    dtypes = [b.value.args[0].struct_info.dtype for b in made["main"].bindings if b.value.op == "nn.conv2d"]
    assert dtypes == ["uint8" if target is BYTES else "float32"]


@pytest.mark.parametrize("target", ["c", "x86-64-v4-vnni", "aarch64-dotprod"])
def test_padding_with_a_zero_point_that_a_run_knows(target):
    x, zero, w = integers("uint8", 1, 4, 6, 5), np.array(77, np.uint8), integers("int8", 8, 4, 3, 3)
    g = Graph(param("x", 1, 4, 6, 5, dtype="uint8"), param("zero", dtype="uint8"))
    mod = g.module(g.op("qnn.conv2d", g.params[0], Constant(w, "w"), g.params[1], Constant(np.array(0, np.int8)),
                        padding=(1, 0, 1, 2)))
    expected, = execute(mod, x, zero)
    target = Target.get(target)
    made = qnn_canonicalize(match_signs(mod, target), target)
    np.testing.assert_array_equal(execute(made, x, zero)[0], expected)
    conv, = (b.value for b in made["main"].bindings if b.value.op == "nn.conv2d")
    assert conv.args[0].struct_info.dtype == ("int8" if target.name == "aarch64-dotprod" else "uint8")
    assert conv.args[1].struct_info.dtype == "int8"


def test_constants_that_are_added_become_one():
    x, w, bias = integers("uint8", 2, 8), integers("int8", 8, 3), RNG.integers(-99, 99, 3).astype(np.int32)
    g = Graph(param("x", 2, 8, dtype="uint8"))
    total = g.op("qnn.matmul", g.params[0], Constant(w, "w"), Constant(np.uint8(9)), Constant(np.int8(0)))
    made = assert_sums(g.module(g.op("add", total, Constant(bias, "bias"))), BYTES, x,
                       (x.astype(int) - 9) @ w.astype(int) + bias)
    assert ops(made) == ["matmul", "add"]


@pytest.mark.parametrize("target", ["c", "x86-64-v3", "aarch64-dotprod", "cuda-sm_80"])
@pytest.mark.parametrize("x_dtype, zero", [("int16", 0), ("int16", -32768), ("uint16", 40000)])
@pytest.mark.parametrize("w_dtype, w_zero", [("int8", 0), ("uint8", 100), ("int16", 0)])
def test_activations_of_16_bits(target, x_dtype, zero, w_dtype, w_zero):
    """As pairs, or as two bytes where vectors multiply these faster; all at the ends of their range."""
    x, w = integers(x_dtype, 1, 6, 5, 4), integers(w_dtype, 4, 6, 3, 3)
    x[0, :3], x[0, 3:, 2:] = np.iinfo(x_dtype).max, np.iinfo(x_dtype).min
    w[0], w[1] = np.iinfo(w_dtype).max, np.iinfo(w_dtype).min
    sums = sums_dtype(x_dtype, zero, w.astype(int) - w_zero, (0,))
    assert sums == ("int64" if w_dtype == "int16" else "int32")
    g = Graph(param("x", *x.shape, dtype=x_dtype))
    y = g.op("qnn.conv2d", g.params[0], Constant(w, "w"), *(Constant(np.asarray(z, t)) for z, t in (
        (zero, x_dtype), (w_zero, w_dtype))), padding=(1, 1, 1, 1), out_dtype=sums)
    padded = np.pad(x.astype(int) - zero, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    made = qnn_canonicalize(match_signs(g.module(y), Target.get(target)), Target.get(target))
    found, = execute(made, x)
    assert found.dtype == sums and not any(op.startswith("qnn") for op in ops(made))
    np.testing.assert_array_equal(found, np.einsum("nchvij,ocij->nohv", windows, w.astype(int) - w_zero))
    calls = [b.value for b in made["main"].bindings if getattr(b.value, "op", None) == "nn.conv2d"]
    kinds = {"c": "int16", "x86-64-v3": "int16", "aarch64-dotprod": "int8", "cuda-sm_80": sums}
    assert {str(call.args[0].struct_info.dtype) for call in calls} == {kinds[target]}


@pytest.mark.parametrize("terms, count", [(2, 2), (300, 2), (700, 3), (5000, 4), (40_000, 0)])
def test_parts_of_weights_whose_sums_32_bits_hold(terms, count):
    """The fewest, for data of 16 bits and least and greatest weights; none of too many terms."""
    weight = integers("int16", terms, 3)
    weight[:, 0], weight[:, 1] = 2 ** 15 - 1, -2 ** 15
    parts = short_parts(weight, (0,), "int64") or []
    assert len(parts) == count
    if parts:
        np.testing.assert_array_equal(sum(factor * part.astype(np.int64) for factor, part in parts), weight)
    for _, part in parts:
        assert np.abs(part.astype(np.int64)).sum(axis=0).max() << 15 < 2 ** 31


@pytest.mark.parametrize("target, terms", [("x86-64-v4-vnni", 70_000), ("aarch64-dotprod", 140_000)])
def test_bytes_whose_sums_32_bits_do_not_hold_are_no_parts_of_wide_sums(target, terms):
    x, w = np.full((1, terms), 2 ** 15 - 1, np.int16), np.full((terms, 1), -128, np.int8)
    g = Graph(param("x", *x.shape, dtype="int16"))
    zeros = Constant(np.array(-2 ** 15, np.int16)), Constant(np.array(0, np.int8))
    y = g.op("qnn.matmul", g.params[0], Constant(w, "w"), *zeros, out_dtype="int64")
    found, = execute(qnn_canonicalize(g.module(y), Target.get(target)), x)
    assert found.item() == terms * (2 ** 16 - 1) * -128


@pytest.mark.parametrize("bias, expected", [(0, "int32"), (2 ** 31 - 1 - 127 * 32767 * 516, "int32"),
                                            (2 ** 31 - 127 * 32767 * 516, "int64"), (-2 ** 31, "int64")])
def test_whether_32_bits_hold_sums(bias, expected):
    """To the last one: of 516 weights of 127, none below 0, and data of at most 32767."""
    weight = np.full((516, 2), 127, np.int8)
    assert sums_dtype("int16", 0, weight, (-1,), np.array([0, bias])) == expected
    assert sums_dtype("int16", None, weight, (-1,)) == sums_dtype("int16", 0, None, (-1,)) == "int64"
    assert sums_dtype("uint8", None, None, ()) == "int32"


def test_sums_that_floats_do_not_hold_are_of_integers():
    x, w = np.full((1, 600), 255, np.uint8), np.full((600, 1), 127, np.int8)
    g = Graph(param("x", 1, 600, dtype="uint8"))
    y = g.op("qnn.matmul", g.params[0], Constant(w, "w"), Constant(np.uint8(0)), Constant(np.int8(0)))
    made = assert_sums(g.module(y), FLOATS, x, np.array([[255 * 127 * 600]]))
    assert made["main"].bindings[-1].value.op == "matmul" and (
        made["main"].bindings[-1].value.args[0].struct_info.dtype == "int32")
