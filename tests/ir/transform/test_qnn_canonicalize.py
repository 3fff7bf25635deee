"""Products of quantized tensors: the same sums, whichever numbers a target multiplies."""
import numpy as np
import pytest
from graph_check import Graph, execute, ops, param

from ingot.ir.relax import Constant
from ingot.ir.target import Target
from ingot.ir.transform.match_signs import match_signs
from ingot.ir.transform.qnn_canonicalize import qnn_canonicalize

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


def test_sums_that_floats_do_not_hold_are_of_integers():
    x, w = np.full((1, 600), 255, np.uint8), np.full((600, 1), 127, np.int8)
    g = Graph(param("x", 1, 600, dtype="uint8"))
    y = g.op("qnn.matmul", g.params[0], Constant(w, "w"), Constant(np.uint8(0)), Constant(np.int8(0)))
    made = assert_sums(g.module(y), FLOATS, x, np.array([[255 * 127 * 600]]))
    assert made["main"].bindings[-1].value.op == "matmul" and (
        made["main"].bindings[-1].value.args[0].struct_info.dtype == "int32")
