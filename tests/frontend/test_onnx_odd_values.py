"""NaN, infinities, zeros of both signs, denormals and extreme integers, in networks compiled for several targets:
results are those of numpy, by which the standard defines its reference. Where C leaves arithmetic undefined, ours is
defined."""
import warnings

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import ingot
from onnx_models import model, one_node, value_info

NAN, INF = np.nan, np.inf
ODD = [NAN, INF, -INF, 0.0, -0.0, 1e-42, -1e-42, 3.4e38, -3.4e38, 1.5, -2.5, 7.0]
TARGETS = ("host", "c", "x86-64-v3")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def built(target):
    """Whether this machine builds and runs code for a target."""
    try:
        ingot.compile(network([("Relu", ["x"], {})], {"x": np.zeros(4, np.float32)})[0], target=target)(
            np.zeros(4, np.float32))
    except Exception:
        return False
    return True


def network(nodes, inputs, weights=None):
    """(a model whose outputs are those of all nodes, their names). nodes: (operator, inputs, attributes)."""
    made = [helper.make_node(op, ins, [f"y{n}"], **attrs) for n, (op, ins, attrs) in enumerate(nodes)]
    graph = helper.make_graph(
        made, "odd", [value_info(k, list(v.shape), v.dtype.name) for k, v in inputs.items()],
        [helper.make_empty_tensor_value_info(f"y{n}") for n in range(len(nodes))],
        [numpy_helper.from_array(np.asarray(w), k) for k, w in (weights or {}).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), [
        f"y{n}" for n in range(len(nodes))]


def compare(nodes, inputs, expected, target, weights=None, rtol=0):
    if target == "x86-64-v3" and not built(target):
        pytest.skip("this machine does not run x86-64-v3")
    proto, names = network(nodes, inputs, weights)
    with ingot.compile(proto, target=target, threads="none") as library:
        found = library.run(inputs)
    for name, (op, ins, attrs), want in zip(names, nodes, expected):
        got = found[name]
        assert got.dtype == want.dtype, (op, got.dtype, want.dtype)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=0, equal_nan=True, err_msg=f"{op} {ins} {attrs} {target}")


def floats(dtype, *shape):
    """Odd numbers in an order that a prime number of steps makes: each has all others as a neighbour somewhere."""
    count = int(np.prod(shape))
    return np.array(ODD, dtype)[np.arange(count) * 7 % len(ODD) - np.arange(count) // len(ODD) % 5].reshape(shape)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_choices_pass_on_nan(dtype, target):
    x, y = floats(dtype, 4, 36), floats(dtype, 4, 36)[::-1, ::-1].copy()
    few = np.array(ODD + [2.0, 3.0, 4.0, 5.0], dtype)[np.arange(4 * 36) % 16].reshape(4, 36)  # rows without NaN
    few[1:3] = np.nan_to_num(few[1:3], nan=1.0)
    low, high = np.array(-1.5, dtype), np.array(6, dtype)
    nodes = [("Max", ["x", "y"], {}), ("Min", ["x", "y"], {}), ("Max", ["y", "x", "few"], {}), ("Relu", ["x"], {}),
             ("Clip", ["x", "low", "high"], {}), ("ReduceMax", ["few"], {"axes": [1]}),
             ("ReduceMin", ["few"], {"axes": [1]}), ("ReduceMax", ["few"], {"axes": [0]}),
             ("ReduceMin", ["few"], {"axes": [0, 1], "keepdims": 0}), ("ArgMax", ["few"], {"axis": 1}),
             ("ArgMin", ["few"], {"axis": 1}), ("ArgMax", ["x"], {"axis": 0, "keepdims": 0}),
             ("LeakyRelu", ["x"], {"alpha": 0.5}), ("Abs", ["x"], {}), ("Neg", ["x"], {})]
    expected = [np.maximum(x, y), np.minimum(x, y), np.maximum(np.maximum(x, y), few), np.maximum(x, 0 * low),
                np.clip(x, low, high), few.max(1, keepdims=True), few.min(1, keepdims=True),
                few.max(0, keepdims=True), few.min(), few.argmax(1)[:, None], few.argmin(1)[:, None], x.argmax(0),
                np.where(x < 0, x * np.array(0.5, dtype), x), np.abs(x), -x]
    expected = [np.asarray(e, e.dtype) for e in expected]
    compare(nodes, {"x": x, "y": y, "few": few}, expected, target, {"low": low, "high": high})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("channels", [3, 32])  # plain, and in blocks
def test_pools_pass_on_nan(channels, target):
    x = np.random.default_rng(0).standard_normal((1, channels, 12, 12)).astype(np.float32)
    x[0, :, 4, 5], x[0, 0, 7, 7], x[0, 1, 0, 0], x[0, 2] = NAN, INF, -INF, -INF
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-INF)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    nodes = [("MaxPool", ["x"], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
             ("MaxPool", ["x"], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}),
             ("GlobalMaxPool", ["x"], {})]
    compare(nodes, {"x": x}, [windows.max((4, 5)), windows[:, :, ::2, ::2].max((4, 5)), x.max((2, 3), keepdims=True)],
            target)


@pytest.mark.parametrize("target", ["host", "c"])
def test_log_of_sums_of_exponentials(target):
    x = np.array([[-INF] * 3, [INF, 1, -INF], [INF] * 3, [NAN, INF, 1], [1000, 1000, -INF], [-1000, -1000, -2000],
                  [1, 2, 3]], np.float32)
    want = np.array([-INF, INF, INF, NAN, 1000 + np.log(2), -1000 + np.log(2), np.log(np.exp([1., 2, 3]).sum())],
                    np.float32)
    compare([("ReduceLogSumExp", ["x"], {"axes": [1], "keepdims": k}) for k in (0, 1)], {"x": x},
            [want, want[:, None]], target, rtol=1e-6)


def integers(dtype, shift):
    """All pairs of extreme and small numbers, as two tensors."""
    info = np.iinfo(dtype)
    some = np.array([info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 100,
                     *([-1, -2, -3, -7] if info.min else [])], dtype)
    a, b = np.meshgrid(some, np.roll(some, shift))
    return a.reshape(-1), b.reshape(-1)


def truncated(a, b):
    """Quotients towards zero, in Python's integers."""
    return np.array([0 if v == 0 else abs(int(u)) // abs(int(v)) * (1 if (u < 0) == (v < 0) else -1)
                     for u, v in zip(a, b)], object)


def lowest_bits(values, dtype):
    return np.array([int(v) & (1 << 8 * np.dtype(dtype).itemsize) - 1 for v in values], np.uint64).astype(dtype)


@pytest.mark.parametrize("target", ["host", "c"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_around(dtype, target):
    a, b = integers(dtype, 1)
    x, y = a.astype(object), b.astype(object)
    floored = np.array([0 if v == 0 else u % v for u, v in zip(x, y)], object)
    rest = np.where(y == 0, 0, x - truncated(a, b) * y)
    nodes = [("Add", ["a", "b"], {}), ("Sub", ["a", "b"], {}), ("Mul", ["a", "b"], {}), ("Div", ["a", "b"], {}),
             ("Mod", ["a", "b"], {}), ("Mod", ["a", "b"], {"fmod": 1}), ("Max", ["a", "b"], {}),
             ("Min", ["a", "b"], {}), ("Abs", ["a"], {}), ("Sign", ["a"], {})]
    expected = [x + y, x - y, x * y, truncated(a, b), floored, rest, np.maximum(x, y), np.minimum(x, y), abs(x),
                np.sign(x)]
    if dtype.startswith("int"):
        nodes.append(("Neg", ["a"], {}))
        expected.append(-x)
    if dtype in ("int32", "int64"):
        nodes.append(("Pow", ["a", "power"], {}))
        expected.append(x ** 5)
    compare(nodes, {"a": a, "b": b}, [lowest_bits(e, dtype) for e in expected], target,
            {"power": np.array(5, dtype)} if dtype in ("int32", "int64") else None)


@pytest.mark.parametrize("target", ["host", "c"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "int8", "uint8"])
def test_integers_that_wrap_around_are_compared(dtype, target):
    """Fused with the arithmetic: x + 1 > x does not hold for the greatest x, nor is 4 x / 4 always x."""
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max, 0, 1, info.max // 4 + 1, info.max // 2 + 1, 5], dtype)
    one, four = np.array(1, dtype), np.array(4, dtype)
    nodes = [("Add", ["x", "one"], {}), ("Greater", ["y0", "x"], {}), ("Max", ["y0", "x"], {}),
             ("Mul", ["x", "four"], {}), ("Div", ["y3", "four"], {}), ("Cast", ["y0"], {"to": 7})]
    with np.errstate(over="ignore"):
        more, times = x + one, x * four
    quotient = lowest_bits(truncated(times, np.full_like(x, 4)), dtype)
    compare(nodes, {"x": x}, [more, more > x, np.maximum(more, x), times, quotient, more.astype(np.int64)], target,
            {"one": one, "four": four})


@pytest.mark.parametrize("target", ["host", "c"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_casts_of_what_does_not_fit(dtype, target):
    """To int32 and int64: their least number; to narrower ones: the lowest bits of int32's."""
    x = np.array([NAN, INF, -INF, 3e9, -3e9, 1e19, -1e19, 1e10, 255.9, -1.5, 256, 300.7, 70000, 2.0 ** 31, -2.0 ** 31,
                  2.0 ** 63, -2.0 ** 63, -0.0, 0.9], dtype)

    def whole(bits):
        fits = np.abs(np.nan_to_num(np.trunc(x), nan=1e30)) < 2.0 ** (bits - 1)
        return [int(v) if f else -2 ** (bits - 1) for v, f in zip(x, fits)]

    kinds = ("int8", "uint8", "int16", "uint16", "int32", "int64", "uint32")
    bits = [64 if k in ("int64", "uint32") else 32 for k in kinds]
    compare([("Cast", ["x"], {"to": helper.np_dtype_to_tensor_dtype(np.dtype(k))}) for k in kinds], {"x": x},
            [lowest_bits(whole(n), k) for k, n in zip(kinds, bits)], target)


@pytest.mark.parametrize("op", ["Gather", "GatherElements"])
def test_computed_indices_stay_inside(op):
    """A computed index may be any number: it counts from the end where it is negative, and the first or
    the last element stands in for what is not there."""
    table = np.arange(5, dtype=np.float32) * 10
    i = np.array([0, 4, 5, -1, -5, -6, 2 ** 31 - 1, -2 ** 31], np.int32)
    want = table[np.clip(np.where(i < 0, i.astype(np.int64) + 5, i), 0, 4)]
    f = np.array([0, 4, 5, -1, NAN, INF, -INF, 1e30], np.float32)
    weights = {"table": table, "one": np.ones(8, np.int32)}
    made = [helper.make_node("Identity", ["i"], ["k"]), helper.make_node("Mul", ["k", "one"], ["j"]),
            helper.make_node(op, ["table", "j"], ["y"]), helper.make_node("Cast", ["f"], ["g"], to=7),
            helper.make_node(op, ["table", "g"], ["z"])]
    graph = helper.make_graph(made, "g", [value_info("i", [8], "int32"), value_info("f", [8])],
                              [value_info("y", [8]), value_info("z", [8])],
                              [numpy_helper.from_array(v, n) for n, v in weights.items()])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with ingot.compile(proto, target="c", threads="none") as library:
        y, z = library(i, f)
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(z, table[[0, 4, 4, 4, 0, 0, 0, 0]])


@pytest.mark.parametrize("target", ["host", "c"])
def test_sums_of_int32_saturate(target):
    """As onnxruntime has them; those of int64 wrap around, as the standard's reference has all."""
    most, least = 2 ** 31 - 1, -2 ** 31
    x = np.array([[most, most, 1], [least, least, -1], [most, -most, 5], [-3, -4, 0], [65536, 65537, 1]], np.int32)
    wide, w = x.astype(np.int64), np.array([[2 ** 63 - 1, 1, 7], [2 ** 53, 1, 0]])

    def held(values):
        return np.clip(values, least, most).astype(np.int32)[:, None]

    total = wide.sum(1)
    nodes = [(f"Reduce{name}", ["x"], {"axes": [1]}) for name in ("Mean", "Prod", "L1", "SumSquare", "L2", "Max")]
    expected = [held(np.trunc(total / 3)), held(np.prod(x.astype(float), 1)), held(abs(wide).sum(1)),
                held((x.astype(float) ** 2).sum(1)), held(np.trunc(np.sqrt((x.astype(float) ** 2).sum(1)))),
                x.max(1, keepdims=True)]
    nodes += [("ReduceSum", ["x", "axis"], {}), ("ReduceSum", ["w", "axis"], {})]
    expected += [held(total), np.array([[6 - 2 ** 63], [2 ** 53 + 1]])]
    compare(nodes, {"x": x, "w": w}, expected, target, {"axis": np.array([1])})


@pytest.mark.parametrize("target", ["host", "c"])
def test_powers(target):
    x = np.array([INF, -INF, 0, -0.0, NAN, 1, -1, 2, -8, 4, 2, 10], np.float32)
    y = np.array([0.5, 0.5, -1, -1, 0, NAN, INF, -INF, 1 / 3, 0.5, 200, -50], np.float32)
    i, j = np.array([2, -3, 0, 10, 1, -1, -1, 5, 0]), np.array([62, 3, 0, 30, -5, -3, -4, -2, 7])
    f = np.array([0.5, 2, 0, 1.5, -1, 1, 2, 0.5, 0.5], np.float32)
    with np.errstate(all="ignore"):
        powers = np.power(x, y)
        half = np.where(x == -INF, np.float32(INF), np.sqrt(x))
    nodes = [("Pow", ["x", "y"], {}), ("Pow", ["x", "half"], {}), ("Pow", ["d", "half64"], {}),
             ("Pow", ["i", "j"], {}), ("Pow", ["i", "f"], {}), ("Pow", ["k", "j"], {})]
    expected = [powers, half, half.astype(float), np.array([2 ** 62, -27, 1, 10 ** 30 % 2 ** 64, 1, -1, 1, 0, 0]),
                np.trunc(np.power(i.astype(float), f.astype(float))).astype(np.int64),
                np.array([0, -27, 1, 10 ** 30 % 2 ** 32, 1, -1, 1, 0, 0], np.int64).astype(np.int32)]
    feeds = {"x": x, "y": y, "i": i, "j": j, "f": f, "k": i.astype(np.int32), "d": x.astype(float)}
    compare(nodes, feeds, expected, target, {"half": np.float32(0.5), "half64": np.float64(0.5)}, rtol=1e-6)


# ---------------------------------------------------------------- what mutated models found

@pytest.mark.parametrize("op, attrs", [("Div", {}), ("Mod", {}), ("Mod", {"fmod": 1})])
def test_integers_by_the_constant_0_are_0(op, attrs):
    """onnxruntime ends the process, or refuses to run."""
    proto = one_node(op, [np.int32([-7, 0, 7]), np.int32(0)], 17, (1,), **attrs)
    with ingot.compile(proto, target="c", threads="none") as library:
        np.testing.assert_array_equal(library(np.int32([-7, 0, 7])), [0, 0, 0])


@pytest.mark.parametrize("step", [1 << 31, (1 << 63) - 1, -(1 << 40)])
def test_a_step_beyond_the_axis_takes_one_element(step):
    x = np.arange(5, dtype=np.float32)
    bounds = [np.array([v]) for v in ((1, 5, 0, step) if step > 0 else (3, -9, 0, step))]
    proto = one_node("Slice", [x, *bounds], 17, (1, 2, 3, 4))
    with ingot.compile(proto, target="c", threads="none") as library:
        np.testing.assert_array_equal(library(x), x[1:2] if step > 0 else x[3:4])


def test_no_warning_is_printed_while_compiling():
    """Constants that overflow, have no root, or no value at all; numpy would print what a run does in silence."""
    big = np.full((4, 4, 1, 1), 3e38, np.float32)
    nodes = [helper.make_node("Conv", ["x", "big"], ["c"]),
             helper.make_node("BatchNormalization", ["c", "s", "s", "s", "v"], ["b"], epsilon=-1e30),
             helper.make_node("Mul", ["b", "huge"], ["m"]), helper.make_node("Mul", ["m", "huge"], ["n"]),
             helper.make_node("Cast", ["nan"], ["i"], to=TensorProto.INT32),
             helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT), helper.make_node("Add", ["n", "f"], ["a"]),
             helper.make_node("Cast", ["a"], ["h"], to=TensorProto.FLOAT16),
             helper.make_node("Cast", ["h"], ["y"], to=TensorProto.FLOAT)]
    weights = {"big": big, "s": np.full(4, 3e38, np.float32), "v": np.full(4, -1, np.float32),
               "huge": np.float32(3e38), "nan": np.float32(np.nan)}
    proto = model(nodes, {"x": [1, 4, 3, 3]}, ["y"], weights=weights)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for level in (0, 1, 2):
            ingot.compile(proto, threads="none", opt_level=level)
