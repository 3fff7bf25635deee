"""The rows that scripts and topi need beyond the importer's: interpreted lowering against the numpy reference."""
import numpy as np
import pytest
from ops_basic_check import N, call_of, check, floats, infos, ints, interpret

from ingot.ir.expr import Var
from ingot.ir.op import InferError
from ingot.ir.relax import PrimValue, RelaxVar, ShapeExpr, TensorStructInfo, call_op, const

X = floats(3, 5, 7)
FIRST = {(0, 0): N}


@pytest.mark.parametrize("name, args, attrs, expected", [
    ("tril", [X], {"k": -1}, np.tril(X, -1)), ("triu", [X], {}, np.triu(X)), ("tril", [ints(5, 4)], {"k": 1}, None),
    ("flip", [X], {"axis": -2}, X[:, ::-1]), ("repeat", [X], {"repeats": 3, "axis": 1}, np.repeat(X, 3, 1)),
    ("one_hot", [ints(3, 4, low=-1, high=6)], {"depth": 5, "axis": 1, "on_value": 2.0, "off_value": -1.0}, None),
    ("one_hot", [ints(3, 4, low=0, high=5, dtype="int64")], {"depth": 5, "dtype": "int8"}, None),
    ("all", [X > 0], {"axis": 1}, (X > 0).all(1)), ("any", [X > 2.5], {"keepdims": True}, None),
    ("any", [X > 2.5], {"axis": (0, 2)}, (X > 2.5).any((0, 2))), ("all", [X > -9], {}, np.array(True)),
    ("variance", [X], {"axis": (0, 2)}, X.var((0, 2))), ("variance", [X], {}, X.var()),
    ("std", [X], {"axis": 1}, X.std(1)),
    ("std", [X], {"axis": -1, "keepdims": True}, None), ("variance", [X], {"axis": ()}, np.zeros_like(X)),
    ("argmax", [X], {}, X.argmax()), ("argmin", [X], {"keepdims": True}, X.argmin().reshape(1, 1, 1)),
    ("argmax", [ints(4, 5, low=0, high=2)], {"select_last_index": True}, None),
    ("cumsum", [X], {"axis": 1}, X.cumsum(1)),
    ("cumsum", [ints(4, 3, dtype="int8")], {"axis": 0, "dtype": "int32"}, None),
    ("cumprod", [X], {"axis": -1}, X.cumprod(-1)), ("cumprod", [X], {"axis": 0, "exclusive": True}, None),
    ("cumsum", [ints(4)], {"axis": 0, "exclusive": True}, np.concatenate([[0], ints(4).cumsum()[:-1]])),
    ("nn.rms_norm", [X, floats(7)], {}, X / np.sqrt(np.square(X).mean(-1, keepdims=True) + 1e-5) * floats(7)),
    ("nn.rms_norm", [X, floats(5, 7)], {"axes": (1, 2), "epsilon": 0.1}, None),
    ("nn.rms_norm", [X.astype("float16"), floats(7).astype("float16")], {}, None),
    ("isfinite", [np.array([1, np.inf, np.nan, -np.inf], "float32")], {}, np.array([True, False, False, False])),
])
def test_rows(name, args, attrs, expected):
    half = any(a.dtype == np.float16 for a in args)
    result, = check(name, *args, attrs=attrs, symbolic=FIRST, tolerance=2e-3 if half else 1e-5)
    if expected is not None:
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shapes, attrs", [
    ([(3, 5, 12), (3, 7, 10), (3, 7, 9)], {"heads": 2, "head_size": 4, "offsets": (3, 2, 0), "scale": 0.5, "lanes": 4}),
    ([(3, 5, 6), (3, 8, 6), (3, 8, 6), (5, 8)], {"heads": 3, "head_size": 2, "lanes": 4}),
    ([(3, 2, 4), (3, 5, 4), (3, 5, 4), (2, 1)], {"heads": 1, "head_size": 4, "lanes": 8})])
def test_attention(shapes, attrs):
    batch = {(n, 0): N for n in range(3)}
    result, = check("nn.attention", *(floats(*s) for s in shapes), attrs=attrs, symbolic=batch, tolerance=1e-5)
    assert result.shape == (*shapes[0][:2], attrs["heads"] * attrs["head_size"])


@pytest.mark.parametrize("by_head", [False, True])
@pytest.mark.parametrize("queries, keys", [(1, 9), (2, 300), (7, 5)])
def test_attention_of_heads_that_share_keys(queries, keys, by_head):
    """Operands by head, or by columns, of a few queries and of more; three heads for each head of keys."""
    attrs = {"heads": 6, "kv_heads": 2, "head_size": 4, "scale": 0.5, "lanes": 4, "by_head": by_head}
    q, k, v = floats(2, 6, queries, 4), floats(2, 2, keys, 4), floats(2, 2, keys, 4)
    mask = floats(queries, keys)
    wide = [np.repeat(x, 3, axis=1).astype(np.float64) for x in (k, v)]
    scores = q @ wide[0].swapaxes(2, 3) * 0.5 + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ wide[1]
    expected = expected if by_head else expected.transpose(0, 2, 1, 3).reshape(2, queries, 24)
    columns = [x.transpose(0, 2, 1, 3).reshape(2, x.shape[2], -1) for x in (q, k, v)]
    for given in ((q, k, v), (columns[0], k, v), columns):
        result, = check("nn.attention", *given, mask, attrs=attrs, tolerance=1e-5)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("queries, keys, lanes", [(7, 270, 4), (6, 5, 16), (1, 64, 5)])
def test_attention_of_any_length(queries, keys, lanes):
    """Keys in more than one block, in a part of one; lanes that a tile is not a multiple of."""
    s, t = Var("s", "int64"), Var("t", "int64")
    q, k, v, mask = floats(1, queries, 4), floats(1, keys, 4), floats(1, keys, 4), floats(queries, keys)
    check("nn.attention", q, k, v, mask, attrs={"heads": 1, "head_size": 4, "lanes": lanes}, tolerance=1e-5,
          symbolic={(0, 1): s, (1, 1): t, (2, 1): t, (3, 0): s, (3, 1): t})


@pytest.mark.parametrize("queries, keys, groups, masked", [(5, 70, 1, False), (18, 3, 2, True)])
def test_attention_by_tiles(queries, keys, groups, masked):
    """The form for tensor cores, on its loops as they are."""
    s, t = Var("s", "int64"), Var("t", "int64")
    arrays = [floats(1, n, length, 16).astype("float16")
              for n, length in ((2, queries), (groups, keys), (groups, keys))]
    mask = [floats(queries, keys)] if masked else []
    attrs = {"heads": 2, "kv_heads": groups, "head_size": 16, "scale": 0.25, "by_head": True, "rows": 16,
             "arithmetic": "mma"}
    check("nn.attention", *arrays, *mask, attrs=attrs, tolerance=2e-3,
          symbolic={(0, 2): s, (1, 2): t, (2, 2): t, (3, 0): s, (3, 1): t})


def test_attention_of_many_keys():
    q, k = floats(1, 1, 2), floats(1, 530, 2)
    check("nn.attention", q, k, k, attrs={"heads": 1, "head_size": 2}, tolerance=1e-5)


@pytest.mark.parametrize("hidden", [np.finfo(np.float32).min, -1e9, -np.inf])
def test_masked_keys(hidden):
    """Causal, and a row all of whose keys are hidden: their mean, where the mask is finite."""
    q, k, v = floats(1, 6, 8), floats(1, 7, 8), floats(1, 7, 8)
    mask = np.where(np.tril(np.ones((6, 7), bool)), 0, hidden).astype(np.float32)
    if np.isfinite(hidden):
        mask[4] = hidden
    result, = check("nn.attention", q, k, v, mask, attrs={"heads": 2, "head_size": 4, "lanes": 4}, tolerance=1e-5)
    np.testing.assert_allclose(result[0, 0], v[0, 0], rtol=1e-6)
    if np.isfinite(hidden):
        np.testing.assert_allclose(result[0, 4], v[0].mean(axis=0), rtol=1e-5, atol=1e-6)


POOLED = floats(2, 3, 7, 10)


@pytest.mark.parametrize("size", [(1, 1), (3, 4), (7, 5), (9, 10)])
def test_adaptive_pools(size):
    for name, function in (("avg", np.mean), ("max", np.max)):
        result, = check(f"nn.adaptive_{name}_pool2d", POOLED, attrs={"output_size": size}, symbolic=FIRST)
        i, j = size[0] - 1, size[1] // 2  # one window by hand
        rows = slice(i * 7 // size[0], -(-(i + 1) * 7 // size[0]))
        columns = slice(j * 10 // size[1], -(-(j + 1) * 10 // size[1]))
        np.testing.assert_allclose(result[..., i, j], function(POOLED[..., rows, columns], (2, 3)), rtol=1e-5)
    assert check("nn.adaptive_avg_pool2d", POOLED.astype("float16"), attrs={"output_size": size},
                 tolerance=2e-3)[0].dtype == np.float16


@pytest.mark.parametrize("mode", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("size", [(14, 20), (5, 3), (7, 10), (1, 13)])
def test_resize(mode, size):
    """onnxruntime is what the importer's tests compare with."""
    attrs = {"size": size, "coordinate_transformation_mode": mode}
    linear, = check("image.resize2d", POOLED, attrs=attrs, symbolic=FIRST)
    if size == (7, 10):
        np.testing.assert_array_equal(linear, POOLED)
    roundings = ("round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    for rounding in roundings if size in ((5, 3), (1, 13)) else roundings[:1]:
        check("image.resize2d", POOLED, attrs={**attrs, "method": "nearest_neighbor", "rounding_method": rounding})
    check("image.resize2d", POOLED.astype("float16"), attrs=attrs, tolerance=2e-3)
    cubic, = check("image.resize2d", POOLED, attrs={**attrs, "method": "cubic", "cubic_alpha": -0.5})
    if size == (7, 10):
        np.testing.assert_array_equal(cubic, POOLED)


def test_resize_by_scales():
    """3.3 times 10 columns are 33; columns lie where the scale says, and 1.05 of 7 rows is as many, elsewhere."""
    attrs = {"size": (7, 33), "coordinate_transformation_mode": "asymmetric", "method": "linear"}
    scaled, = check("image.resize2d", POOLED, attrs={**attrs, "scales": (1.05, 3.3)})
    plain, = check("image.resize2d", POOLED, attrs=attrs)
    row = 1 / 1.05
    np.testing.assert_allclose(scaled[:, :, 1], plain[:, :, 0] * (1 - row) + plain[:, :, 1] * row, rtol=1e-5, atol=1e-5)


def test_doubling_repeats_pixels():
    result, = check("image.resize2d", POOLED, attrs={"size": (14, 20), "method": "nearest_neighbor"})
    np.testing.assert_array_equal(result, POOLED.repeat(2, 2).repeat(2, 3))


@pytest.mark.parametrize("shape", [(2, 3), (N, 3), ()])
@pytest.mark.parametrize("dtype", [None, "int8"])
def test_full(shape, dtype):
    call = call_op("full", ShapeExpr(shape), const(7.0), dtype=dtype)
    assert call.struct_info.dtype == (dtype or "float32")
    sizes = tuple(4 if d is N else d for d in shape)
    from ingot.ir import te
    from ingot.ir.op import OPS
    from interp import run
    value = te.placeholder((), "float32", "v")
    out = np.zeros(sizes, call.struct_info.dtype.numpy)
    lowered = OPS["full"].lower([call.args[0].values, value], call.attrs, call.struct_info)
    run(te.create_prim_func([value, lowered]), np.float32([7]).reshape(()), out)
    np.testing.assert_array_equal(out, OPS["full"].evaluate([sizes, np.float32(7)], call.attrs))
    assert (out == 7).all()


@pytest.mark.parametrize("start, stop, step, dtype", [
    (0, 7, 2, "int64"), (5, -3, -2, "int32"), (3, 3, 1, "int64"), (1.0, 2.0, 0.25, "float32"), (0, 9, 1, "float32")])
def test_arange(start, stop, step, dtype):
    from ingot.ir.op import OPS
    call = call_op("arange", start, stop, step, dtype=dtype)
    expected = np.arange(start, stop, step).astype(dtype)
    assert infos(call)[0].static_shape == expected.shape
    np.testing.assert_array_equal(OPS["arange"].evaluate([start, stop, step], call.attrs), expected)
    from ingot.ir import te
    from interp import run
    out = np.zeros_like(expected)
    run(te.create_prim_func([OPS["arange"].lower([a.value for a in call.args], call.attrs, call.struct_info)]), out)
    np.testing.assert_array_equal(out, expected)


def test_a_symbolic_arange():
    call = call_op("arange", 0, N * 2, 3, dtype="int64")
    assert str(infos(call)[0].shape[0]) == "(n * T.int64(2) + T.int64(2)) // T.int64(3)"


@pytest.mark.parametrize("name, args, attrs, message", [
    ("tril", [floats(3)], {}, r"tril: takes a tensor of at least 2 dimensions, got \(3,\)"),
    ("one_hot", [ints(3)], {"depth": 0}, "one_hot: depth=0 must be at least 1"),
    ("one_hot", [X], {"depth": 3}, "one_hot: takes an integer tensor, got float32"),
    ("one_hot", [ints(3)], {"depth": 3, "dtype": "float31"}, "one_hot: .*float31"),
    ("flip", [X], {"axis": 3}, "flip: axis 3 is outside a tensor of 3 dimensions"),
    ("repeat", [X], {"repeats": 0, "axis": 0}, "repeat: repeats=0 must be at least 1"),
    ("variance", [ints(3, 4)], {}, "variance: takes a floating-point tensor, got int32"),
    ("cumsum", [X], {"axis": 3}, "cumsum: axis 3 is outside a tensor of 3 dimensions"),
    ("cumsum", [X], {"axis": 0, "dtype": "float31"}, "cumsum: .*float31"),
    ("all", [X], {}, "all: takes a bool tensor, got float32"),
    ("nn.rms_norm", [X, floats(5)], {}, r"weight has shape \(5,\), it must be \(7,\): the axes \(2,\) of input"),
    ("nn.attention", [X, X, X], {"heads": 0, "head_size": 7}, "nn.attention: heads 0 must be at least 1"),
    ("nn.attention", [X, X, X], {"heads": 1, "head_size": 7, "arithmetic": "mma"},
     r'tensor cores \(arithmetic "mma"\) take float16 and bfloat16, heads of 16 to 128 columns.*not float32, 7 and 0'),
    ("nn.attention", [X, X, X], {"heads": 2, "head_size": 3, "offsets": (0, 1)},
     r"offsets \(0, 1\) must be three: of q, k and v"),
    ("nn.attention", [X, X, X], {"heads": 2, "head_size": 3, "offsets": (0, 2, 0)},
     r"2 heads of 3 columns from column 2 on are not inside k \(3, 5, 7\), whose rows have 7"),
    ("nn.attention", [X, floats(2, 5, 7), X], {"heads": 1, "head_size": 7},
     r"q \(3, 5, 7\), k \(2, 5, 7\) and v \(3, 5, 7\) must have the same batch \(dim 0\), and k and v as many keys"),
    ("nn.attention", [X, X, X, floats(4, 5)], {"heads": 1, "head_size": 7},
     r"mask \(4, 5\) does not broadcast to the scores \(3, 1, 5, 5\)"),
    ("nn.adaptive_avg_pool2d", [POOLED], {"output_size": (3,)}, r"output_size \(3,\) must be 2 integers of at least 1"),
    ("image.resize2d", [POOLED], {"size": (0, 3)}, r"size \(0, 3\) must be 2 integers of at least 1"),
    ("image.resize2d", [POOLED], {"size": (3, 3), "method": "area"}, "method='area' is none of 'nearest_neighbor'"),
    ("image.resize2d", [POOLED], {"size": (3, 3), "scales": (2.0,)}, r"scales \(2.0,\) must be none, or 2 numbers of"),
    ("image.resize2d", [POOLED], {"size": (3, 3), "rounding_method": "up"}, "rounding_method='up' is none of"),
    ("full", [(3,), X], {}, r"full: the value must have no dimensions, its shape is \(3, 5, 7\)"),
])
def test_errors(name, args, attrs, message):
    with pytest.raises(InferError, match=message):
        call_of(name, args, attrs)


def test_errors_of_dimensions():
    k = Var("k", "int64")
    wide = RelaxVar("x", TensorStructInfo((1, 3, 8, k), "float32"))
    with pytest.raises(InferError, match="arange: step must be a number other than 0"):
        call_op("arange", 0, 4, 0, dtype="int32")
    with pytest.raises(InferError, match="arange: a symbolic start or stop takes integers only"):
        call_op("arange", 0.5, k, 1, dtype="float32")
    with pytest.raises(InferError, match="arange: stop must be a number or a dimension, it is a RelaxVar"):
        call_op("arange", PrimValue(0), wide, PrimValue(1), dtype="int32")


def test_interpreting_keeps_the_dtype():
    call = call_of("one_hot", [ints(3)], {"depth": 4, "dtype": "int8"})
    out, = interpret(call, [ints(3)], [np.zeros((3, 4), np.int8)])
    assert out.sum() <= 3
