"""Padding as an operator of its own, and packed weights."""

import numpy as np
import pytest
from graph_check import Graph, check, const, data, ops, param, weights

from ingot.ir.dtype import DataType
from ingot.ir.expr import Var
from ingot.ir.node import structural_equal
from ingot.ir.relax import Constant
from ingot.ir.relax.expr import TupleGetItem
from ingot.ir.relax.ops.conv_layouts import pack_weights as pack_array
from ingot.ir.target import Target
from ingot.ir.transform.pack import pack_weights, split_padding
from ingot.ir.transform.project_inputs import project_inputs
from machines import machine, set_costs


def pack(mod):
    return pack_weights(mod, machine(4))


def test_padding_is_split_off_and_shared():
    g = Graph(param("x", 1, 3, 5, 5))
    x = g.params[0]
    a = g.op("nn.conv2d", x, const(3, 3, 3, 3), padding=(1, 0, 2, 1))
    b = g.op("nn.conv2d", x, const(3, 3, 3, 3, seed=1), padding=(1, 0, 2, 1))
    c = g.op("nn.conv2d", x, const(3, 3, 2, 2), padding=(0, 0, 1, 1))
    mod = check(g.module(a, b, c), data(1, 3, 5, 5), passes=[split_padding])
    assert ops(mod) == ["nn.pad", "nn.conv2d", "nn.conv2d", "nn.pad", "nn.conv2d"]
    assert all(b.value.attrs["padding"] == (0, 0, 0, 0) for b in mod["main"].bindings if b.value.op == "nn.conv2d")


def test_padding_of_max_pools_is_split_off_but_not_that_of_ceil_mode():
    g = Graph(param("x", 1, 2, 7, 7))
    window = dict(pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1))
    a = g.op("nn.max_pool2d", g.params[0], **window)
    b = g.op("nn.max_pool2d", g.params[0], **window, ceil_mode=True)
    mod = check(g.module(a, b), data(1, 2, 7, 7) - 2, passes=[split_padding])
    assert ops(mod) == ["nn.pad", "nn.max_pool2d", "nn.max_pool2d"]
    assert mod["main"].bindings[0].value.attrs["pad_value"] == float("-inf")


@pytest.mark.parametrize("kernel, attrs, border", [
    ((4, 4), dict(padding=(1, 1, 1, 1)), (1, 1, 1, 1)), ((2, 2), {}, None),
    ((3, 3), dict(padding=(1, 1, 1, 1), output_padding=(1, 1)), (0, 1, 0, 1)),
    ((5, 2), dict(padding=(2, 3, 1, 0), output_padding=(0, 1)), (1, 1, 0, 1)),
])
def test_what_phases_see_around_their_input_is_split_off(kernel, attrs, border):
    g = Graph(param("x", 1, 2, 3, 4, 4))
    y = g.op("nn.conv2d_phases", g.params[0], const(1, *kernel, 2, 4, 4), strides=(2, 2), out_channels=4,
             data_layout="NCHW4c", **attrs)
    mod = check(g.module(y), data(1, 2, 3, 4, 4), passes=[split_padding, split_padding])
    assert ops(mod) == ["nn.pad"] * (border is not None) + ["nn.conv2d_phases"]
    if border:
        assert mod["main"].bindings[0].value.attrs["pad_width"] == (0, 0, 0, 0, *border, 0, 0)


def test_padding_of_symbolic_sizes():
    h = Var("h", "int64")
    g = Graph(param("x", 1, 3, h, h))
    y = g.op("nn.conv2d", g.params[0], const(4, 3, 3, 3), padding=(1, 1, 1, 1), strides=(2, 2))
    assert ops(check(g.module(y), data(1, 3, 6, 6))) == ["nn.pad", "nn.conv2d"]


@pytest.mark.parametrize("channels", [4, 6, 9, 1])
def test_convolution_weights_are_packed(channels):
    g = Graph(param("x", 2, 3, 5, 5))
    y = g.op("nn.conv2d", g.params[0], const(channels, 3, 3, 3), padding=(1, 1, 1, 1), dilation=(1, 1))
    mod = check(g.module(y), data(2, 3, 5, 5), passes=[split_padding, pack])
    call = mod["main"].bindings[-1].value
    assert call.attrs["kernel_layout"] == "OIHW4o" and call.attrs["out_channels"] == channels
    assert call.args[1].data.shape == (-(-channels // 4), 3, 3, 3, 4) and call.args[1].name == "w"


def test_a_weight_used_in_two_ways_is_packed_for_both():
    g = Graph(param("x", 1, 4, 5, 5), param("y", 1, 8, 5, 5))
    w = const(16, 4, 3, 3)
    a = g.op("nn.conv2d", g.params[0], w)
    b = g.op("nn.conv2d", g.params[1], w, groups=2)
    check(g.module(a, b), data(1, 4, 5, 5), data(1, 8, 5, 5), passes=[lambda mod: pack_weights(mod, machine(16))])


def test_depthwise_convolutions_and_data_operands_are_not_packed():
    g = Graph(param("x", 1, 4, 5, 5), param("y", 5, 4), param("z", 4))
    conv = g.op("nn.conv2d", g.params[0], const(4, 1, 3, 3), groups=4)
    product = g.op("matmul", const(3, 5), g.params[1])
    vector = g.op("matmul", g.params[2], const(4, 3))
    batch = g.op("matmul", g.params[1], const(2, 4, 3))
    mod = check(g.module(conv, product, vector, batch), data(1, 4, 5, 5), data(5, 4), data(4), passes=[pack])
    assert all(b.value.attrs.get("b_layout", "KN") == "KN" and b.value.attrs.get("kernel_layout", "OIHW") == "OIHW"
               for b in mod["main"].bindings)


@pytest.mark.parametrize("rows", [(3,), (2, 3), (Var("n", "int64"),), (1,)])
def test_product_weights_are_packed_once(rows):
    g = Graph(param("x", *rows, 5))
    w = const(5, 5)
    y = g.op("matmul", g.op("nn.relu", g.op("matmul", g.params[0], w)), w)
    mod = check(g.module(y), data(*(3 if isinstance(r, Var) else r for r in rows), 5), passes=[pack])
    assert {b.value.attrs.get("b_layout") for b in mod["main"].bindings} == {"KN8n", None}
    assert len(weights(mod)) == 1 and weights(mod)[0].data.shape == (1, 5, 8)


def test_registers_of_one_lane_that_are_not_known_pack_nothing():
    g = Graph(param("x", 2, 5))
    mod = g.module(g.op("matmul", g.params[0], const(5, 5)))
    assert structural_equal(pack_weights(mod, Target.get("c")), mod)


def _layer(name, gates, directions, states, constant=True, **attrs):
    g = Graph(param("x", 3, 2, 5), *([] if constant else [param("w", directions, gates * 4, 5)]))
    w = const(directions, gates * 4, 5) if constant else g.params[1]
    y = g.op(name, g.params[0], w, const(directions, gates * 4, 4), const(directions, 2 * gates * 4),
             *[const(directions, 2, 4)] * states, hidden_size=4, **attrs)
    return g.module(*(g.bind(TupleGetItem(y, n)) for n in range(1 + states)))


@pytest.mark.parametrize("name, gates, directions, states, attrs", [
    ("nn.gru", 3, 1, 1, {"linear_before_reset": True}), ("nn.rnn", 1, 1, 1, {"direction": "reverse"}),
    ("nn.lstm", 4, 2, 2, {"direction": "bidirectional"})])
def test_recurrent_layers_are_a_product_and_steps(name, gates, directions, states, attrs):
    mod = check(_layer(name, gates, directions, states, **attrs), data(3, 2, 5), passes=[project_inputs])
    assert ops(mod)[:5] == ["reshape", "matmul", "add", "reshape", name + "_steps"]
    product, steps = mod["main"].bindings[1].value, mod["main"].bindings[4].value
    assert product.args[1].data.shape == (5, directions * gates * 4)
    assert steps.args[1].data.shape == (directions, 4, gates * 4)
    assert steps.args[2].data.shape == (directions, gates * 4)


def test_recurrent_layers_of_computed_weights_stay():
    mod = _layer("nn.gru", 3, 1, 1, constant=False)
    assert structural_equal(project_inputs(mod), mod)


def made_by(mod):
    """The arithmetics of products."""
    return [b.value.attrs["arithmetic"] for b in mod["main"].bindings if b.value.op == "matmul"]


@pytest.mark.parametrize("rows, depth, sliced", [((6,), 64, True), ((2, 6), 64, True), ((6,), 50, False),
                                                 ((3,), 64, False), (("n",), 64, False)])
def test_products_become_those_of_split_integers_where_there_is_a_unit(rows, depth, sliced, monkeypatch):
    set_costs(monkeypatch, {"split_integer.profitable": 100})  # of the smallest, which is interpreted
    rows = [Var(d, "int64") if isinstance(d, str) else d for d in rows]
    given = [6 if isinstance(d, Var) else d for d in rows]
    g = Graph(param("x", *rows, depth))
    w = const(depth, 32)
    a, b = (g.op("matmul", g.op(name, g.params[0]), w) for name in ("nn.relu", "sigmoid"))
    for cpu, kept in ((machine(16, integer_tiles=True), not sliced), (machine(16), True)):
        mod = check(g.module(a, b), data(*given, depth), passes=[lambda mod: pack_weights(mod, cpu, "relaxed")])
        assert made_by(mod) == 2 * ["fma" if kept else "split_integer"]
        used = [b.value.args[1] for b in mod["main"].bindings if b.value.op == "matmul"]
        assert used[0] is used[1]  # weights are cut into slices once


@pytest.mark.parametrize("shape, filled", [((8, 50), (8, 64)), ((2, 8, 50), (2, 8, 64)), ((8, 48), None)])
def test_rows_of_products_by_inner_products_are_filled_up(shape, filled):
    g = Graph(param("x", *shape))
    y = g.op("matmul", g.params[0], const(shape[-1], 160))
    cpu = machine(16, 32, multiply_adds=1, adds_beside=1)
    mod = check(g.module(y), data(*shape), passes=[lambda mod: pack_weights(mod, cpu, "relaxed")])
    assert ops(mod) == ["nn.pad"] * bool(filled) + ["matmul"] and made_by(mod) == ["inner_product"]
    assert mod["main"].bindings[-1].value.args[0].struct_info.static_shape == (filled or shape)


def test_weights_that_are_not_finite_are_not_cut_into_slices():
    w = const(512, 192)
    w.data[3, 4] = np.inf
    g = Graph(param("x", 48, 512))
    mod = pack_weights(g.module(g.op("matmul", g.params[0], w)), machine(16, integer_tiles=True), "relaxed")
    assert made_by(mod) == ["fma"]


@pytest.mark.parametrize("rows, shape, largest, compressed", [
    (1, (256, 100), 1, True), (8, (256, 100), 1, False), (1, (256, 16), 1, False), (1, (254, 100), 1, False),
    (1, (256, 100), np.inf, False), (1, (256, 100), 1e-20, False), (1, (256, 100), 1e6, False)])
def test_products_that_wait_for_their_weights_have_compressed_ones(rows, shape, largest, compressed):
    w = const(*shape)
    w.data[:] *= np.float32(min(largest, 1))
    w.data[3, 4] = largest
    g = Graph(param("x", rows, shape[0]))
    mod = g.module(g.op("matmul", g.params[0], w))
    cpu = machine(16, l1_bytes=64 << 10, l2_bytes=0, multiply_adds=1)
    for allowed in (True, False):
        packed = pack_weights(mod, cpu, "relaxed" if allowed else "float32")
        assert made_by(packed) == ["compressed" if compressed and allowed else "fma"]


def test_compressed_weights_of_a_product():
    """Columns of very different size; the same results."""
    w = const(32, 20)
    w.data[:] *= 10.0 ** np.arange(-10, 10)
    g = Graph(param("x", 1, 32))
    cpu = machine(4, l1_bytes=0, l2_bytes=0, memory_read=1)
    check(g.module(g.op("matmul", g.params[0], w)), data(1, 32), passes=[lambda mod: pack_weights(mod, cpu, "relaxed")])


@pytest.mark.parametrize("name, states, hidden",
                         [("nn.gru", 1, 64), ("nn.gru", 1, 60), ("nn.lstm", 2, 64), ("nn.rnn", 1, 64)])
def test_recurrences_have_panels(name, states, hidden):
    gates = {"nn.gru": 3, "nn.lstm": 4, "nn.rnn": 1}[name]
    g = Graph(param("x", 3, 1, 5))
    parts = [const(1, gates * hidden, 5), const(1, gates * hidden, hidden), const(1, 2 * gates * hidden)]
    y = g.op(name, g.params[0], *parts, *[const(1, 1, hidden)] * states, hidden_size=hidden)
    module, cpu = g.module(g.bind(TupleGetItem(y, 0))), machine(16, l1_bytes=8 << 10)
    mod = check(module, data(3, 1, 5), passes=[project_inputs, lambda mod: pack_weights(mod, cpu, "relaxed")])
    steps = next(b.value for b in mod["main"].bindings if b.value.op == name + "_steps")
    assert steps.args[1].struct_info.ndim == 5


def test_double_precision_is_not_packed():
    g = Graph(param("x", 2, 5, dtype="float64"))
    w = const(5, 3)
    y = g.op("matmul", g.params[0], w.replace(data=w.data.astype(np.float64)))
    mod = check(g.module(y), data(2, 5).astype(np.float64), passes=[pack])
    assert mod["main"].bindings[0].value.attrs["b_layout"] == "KN"


def test_packing_pads_with_zeros():
    packed = pack_array(np.arange(1, 7, dtype=np.float32).reshape(3, 2), 2)
    assert packed.tolist() == [[[1, 3], [2, 4]], [[5, 0], [6, 0]]]


@pytest.mark.parametrize("dtype, target", [("float32", "x86-64-v3"), ("float16", "aarch64-fp16"),
                                           ("int8", "cortex-m4f"),
                                           ("bfloat16", "aarch64-bf16"), ("int16", "cortex-m4f")])
@pytest.mark.parametrize("rows, terms, columns", [(0, 3, 5), (2, 0, 3), (2, 3, 0)])
def test_products_of_nothing_stay(dtype, target, rows, terms, columns):
    g, own = Graph(param("x", rows, terms, dtype=dtype)), DataType("int8" if dtype == "int16" else dtype)
    y = g.op("matmul", g.params[0], Constant(np.ones((terms, columns), own.numpy), "w"),
             out_dtype="int32" if own.is_int else "float32")
    mod = g.module(y)
    assert structural_equal(pack_weights(mod, Target.get(target)), mod)
