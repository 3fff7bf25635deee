"""Blocked layouts over a graph: what runs blocked, what is transformed, and that results stay."""
from functools import partial

import numpy as np
import pytest
from graph_check import PASSES, Graph, check, const, data, ops, param, weights

from ingot.ir.expr import Var
from ingot.ir.node import structural_equal
from ingot.ir.relax.expr import Constant, RelaxCall, TupleGetItem
from ingot.ir.script import metadata
from ingot.ir.script.functions import from_source
from ingot.ir.transform.convert_layout import convert_layout
from ingot.ir.transform.fold_constants import fold_constants
from ingot.ir.transform.pack import pack_weights, split_padding
from machines import machine


def convert(mod):
    return convert_layout(mod, 4)


def converted(g, *outputs, inputs=None, passes=(convert,)):
    """The module after the pass, whose result stays through lowering."""
    inputs = inputs or [data(*p.struct_info.static_shape) for p in g.params]
    return check(g.module(*outputs), *inputs, passes=list(passes))


def conv(g, x, outputs, kernel=3, seed=0, groups=1, **attrs):
    channels = x.struct_info.shape[1].value
    return g.op("nn.conv2d", x, const(outputs, channels // groups, kernel, kernel, seed=seed), groups=groups, **attrs)


def layouts(mod):
    """(data_layout, out_layout) of each convolution."""
    return [(b.value.attrs["data_layout"], b.value.attrs["out_layout"]) for b in mod["main"].bindings
            if isinstance(b.value, RelaxCall) and b.value.op == "nn.conv2d"]


FIRST, DENSE, PLAIN = ("NCHW", "NCHW4c"), ("NCHW4c", ""), ("NCHW", "")


def test_a_chain_is_transformed_at_its_ends_alone():
    g = Graph(param("x", 1, 3, 8, 9))
    y = g.op("nn.relu", g.op("add", conv(g, g.params[0], 6, strides=(2, 2), padding=(1, 1, 1, 1)), const(1, 6, 1, 1)))
    y = conv(g, g.op("nn.max_pool2d", y, pool_size=(2, 2)), 5, kernel=2, seed=1)
    mod = converted(g, y)
    assert ops(mod) == ["nn.conv2d", "add", "nn.relu", "nn.max_pool2d", "nn.conv2d", "layout_transform"]
    assert layouts(mod) == [FIRST, DENSE]
    assert {w.data.shape for w in weights(mod)} == {(2, 3, 3, 3, 4), (1, 2, 1, 1, 4), (2, 2, 2, 2, 4, 4)}
    assert all(w.name == "w" for w in weights(mod))


def test_the_other_passes_go_on_in_blocked_form():
    g = Graph(param("x", 2, 3, 8, 8))
    y = g.op("nn.batch_norm", conv(g, g.params[0], 6, padding=(1, 1, 1, 1)), *(const(6, seed=n) for n in range(3)),
             Constant(np.abs(data(6)) + 1))
    z = g.op("nn.relu", g.op("add", conv(g, g.op("nn.relu", y), 6, padding=(1, 1, 1, 1), seed=1), y))
    z = g.op("squeeze", g.op("mean", z, axis=(2, 3), keepdims=True), axis=(2, 3))
    at = PASSES.index(split_padding)
    mod = converted(g, g.op("matmul", z, const(6, 5)), passes=[*PASSES[:at], convert, *PASSES[at:]])
    found = ops(mod)
    assert ("nn.conv2d", "add") in found and ("nn.conv2d", "add", "nn.relu") in found
    assert found[-4:] == ["mean", "layout_transform", "squeeze", "matmul"]


def test_symbolic_batch_and_size():
    n, h = Var("n", "int64"), Var("h", "int64")
    g = Graph(param("x", n, 3, h, h))
    y = conv(g, g.op("nn.relu", conv(g, g.params[0], 8, padding=(1, 1, 1, 1))), 4, kernel=1)
    mod = converted(g, g.op("mean", y, axis=(2, 3)), inputs=[data(2, 3, 5, 5)])
    assert ops(mod) == ["nn.conv2d", "nn.relu", "nn.conv2d", "mean", "reshape", "squeeze"]
    assert structural_equal(from_source(str(mod["main"]), metadata=metadata(mod["main"])), mod["main"])


def test_one_point_of_whole_blocks_is_a_view_in_both_layouts():
    g = Graph(param("x", 1, 8, 1, 1))
    y = g.op("sigmoid", conv(g, conv(g, g.params[0], 12, kernel=1), 8, kernel=1, seed=1))
    assert ops(converted(g, g.op("reshape", y, [1, 8]))) == ["reshape", "nn.conv2d", "nn.conv2d", "sigmoid", "reshape",
                                                             "reshape"]


def test_depthwise_convolutions_follow_their_input():
    g = Graph(param("x", 1, 3, 7, 7))
    y = conv(g, conv(g, g.params[0], 6), 6, groups=6, strides=(2, 2), padding=(1, 0, 0, 1), seed=1)
    mod = converted(g, conv(g, y, 4, kernel=1), conv(g, g.params[0], 3, groups=3))
    assert layouts(mod) == [FIRST, ("NCHW4c", ""), DENSE, PLAIN]
    assert ops(mod).count("layout_transform") == 0 + 1


def transposed(g, x, outputs, kernel=3, seed=0, groups=1, **attrs):
    channels = x.struct_info.shape[1].value
    weight = const(channels, outputs // groups, kernel, kernel, seed=seed)
    return g.op("nn.conv2d_transpose", x, weight, groups=groups, **attrs)


@pytest.mark.parametrize("channels", [8, 6])
def test_transposed_convolutions_are_in_phases(channels):
    g = Graph(param("x", 1, channels, 4, 5))
    y = g.op("nn.relu", transposed(g, g.params[0], 6, strides=(2, 2), padding=(1, 1, 1, 1), output_padding=(1, 0)))
    mod = converted(g, transposed(g, y, 5, kernel=4, seed=1, strides=(2, 3), padding=(1, 0, 1, 1)))
    assert ops(mod) == ["layout_transform", "nn.conv2d_phases", "nn.relu", "nn.conv2d_phases", "layout_transform"]
    assert [w.data.shape for w in weights(mod)] == [(2, 3, 3, 2, 4, 4), (2, 4, 4, 2, 4, 4)]


def test_transposed_convolutions_of_few_channels_have_small_blocks_of_weights():
    g = Graph(param("x", 1, 24, 3, 3))
    mod = check(g.module(transposed(g, g.params[0], 6, kernel=2, strides=(2, 2))), data(1, 24, 3, 3),
                passes=[lambda m: convert_layout(m, 16)])
    assert [w.data.shape for w in weights(mod)] == [(1, 2, 2, 3, 8, 16)]


def test_channels_of_a_transposed_convolution_may_lie_anywhere():
    g = Graph(param("x", 1, 12, 3, 4))
    y = shuffle(g, conv(g, conv(g, g.params[0], 12, kernel=1), 12, kernel=1, groups=2, seed=1), 3)
    mod = converted(g, transposed(g, y, 4, kernel=2, strides=(2, 2), seed=2))
    assert ops(mod)[-2:] == ["nn.conv2d_phases", "layout_transform"] and "gather_channels" not in ops(mod)


def test_a_transposed_convolution_of_stride_1_is_one_with_the_mirrored_kernel():
    g = Graph(param("x", 1, 8, 4, 5))
    mod = converted(g, transposed(g, g.params[0], 4, padding=(1, 0, 2, 3), dilation=(2, 2)))
    assert ops(mod) == ["layout_transform", "nn.conv2d", "layout_transform"]
    assert mod["main"].bindings[1].value.attrs["padding"] == (3, 4, 2, 1)


@pytest.mark.parametrize("stride, expected", [(3, "nn.conv2d_phases"), (1, "nn.conv2d")])
def test_transposed_convolutions_of_rows_multiply_no_zeros(stride, expected):
    g = Graph(param("x", 1, 8, 1, 9))
    y = g.op("nn.conv2d_transpose", g.params[0], const(8, 6, 1, 4), strides=(1, stride), padding=(0, 1, 0, 2))
    found = ops(converted(g, y))
    assert expected in found and "nn.conv2d_transpose" not in found


def test_a_dilated_transposed_convolution_has_a_larger_kernel_with_zeros():
    g = Graph(param("x", 1, 8, 4, 5))
    mod = converted(g, transposed(g, g.params[0], 4, strides=(2, 3), padding=(1, 0, 2, 3), dilation=(2, 1)))
    assert ops(mod) == ["layout_transform", "nn.conv2d_phases", "layout_transform"]
    assert [w.data.shape[1:3] for w in weights(mod)] == [(5, 3)]


@pytest.mark.parametrize("attrs", [dict(padding=(3, 0, 0, 0)), dict(padding=(0, 3, 0, 0))])
def test_other_transposed_convolutions_stay_plain(attrs):
    g = Graph(param("x", 1, 8, 4, 5))
    assert ops(converted(g, transposed(g, g.params[0], 4, **attrs))) == ["nn.conv2d_transpose"]


@pytest.mark.parametrize("channels, outputs, gathered", [(16, 8, False), (12, 8, True), (16, 12, True)])
def test_groups_of_whole_blocks_are_dense_and_others_gathered(channels, outputs, gathered):
    g = Graph(param("x", 1, channels, 5, 5))
    mod = converted(g, conv(g, conv(g, g.params[0], channels, kernel=1), outputs, groups=2, seed=1))
    assert ops(mod)[1:3] == ["nn.conv2d", "nn.conv2d_gathered" if gathered else "nn.conv2d"]
    assert layouts(mod) == [DENSE] * (2 - gathered)


@pytest.mark.parametrize("channels, outputs, groups, op, held", [
    (16, 8, 4, "nn.conv2d", (2, 2, 3, 3, 4, 4)),  # two groups are a block of 4 outputs, and two of 8 inputs
    (12, 6, 6, "nn.conv2d_gathered", (2, 6, 3, 3, 4)),  # three groups share a block
    (10, 5, 5, "nn.conv2d", (5, 2, 3, 3)),  # five do not fit one: plain
])
def test_groups_of_few_channels_share_blocks(channels, outputs, groups, op, held):
    g = Graph(param("x", 1, channels, 5, 5))
    mod = converted(g, conv(g, conv(g, g.params[0], channels, kernel=1), outputs, groups=groups, seed=1))
    assert [b.value.args[1].data.shape for b in mod["main"].bindings if b.value.op == op][-1] == held


def test_a_depthwise_convolution_of_several_outputs_a_channel():
    g = Graph(param("x", 1, 8, 5, 5))
    mod = converted(g, conv(g, conv(g, g.params[0], 8, kernel=1), 16, groups=8, seed=1))
    assert ops(mod)[1:3] == ["nn.conv2d", "nn.conv2d_gathered"]


def test_groups_of_bytes_whose_sums_are_wider_are_not_gathered():
    """What gathers channels has sums of the operands' dtype."""
    rng = np.random.default_rng(1)

    def layer(x, outputs, inputs, kernel, **attrs):
        w = Constant(rng.integers(-128, 128, (outputs, inputs, kernel, kernel)).astype(np.int8), "w")
        y = g.op("nn.conv2d", x, w, out_dtype="int32", **attrs)
        return g.op("add", y, Constant(rng.integers(-99, 99, (1, outputs, 1, 1)).astype(np.int32), "bias"))

    g = Graph(param("x", 1, 8, 5, 5, dtype="int8"))
    x = g.op("astype", g.op("right_shift", layer(g.params[0], 8, 8, 1), Constant(np.int32(10), "n")), dtype="int8")
    mod = g.module(layer(x, 16, 1, 3, groups=8))
    found = check(mod, rng.integers(-128, 128, (1, 8, 5, 5)).astype(np.int8), compare=np.testing.assert_array_equal,
                  passes=[lambda m: convert_layout(m, 4, dtypes=("int8", "int32"))])
    assert "nn.conv2d_gathered" not in ops(found) and "NCHW4c" in str(layouts(found))


@pytest.mark.parametrize("lanes", [4, 16])
def test_a_shuffled_network_of_groups_stays_blocked(lanes):
    """As ShuffleNet: grouped, shuffled, depthwise, grouped, added to its input; then one that halves the image."""
    def unit(x, outputs, seed, strides=(1, 1)):
        y = shuffle(g, g.op("nn.relu", conv(g, x, 52, kernel=1, groups=4, seed=seed)), 4)
        y = conv(g, y, 52, groups=52, strides=strides, padding=(1, 1, 1, 1), seed=seed + 1)
        return conv(g, y, outputs, kernel=1, groups=4, seed=seed + 2)

    g = Graph(param("x", 1, 3, 6, 8))
    x = conv(g, g.params[0], 52, padding=(1, 1, 1, 1))
    for n in range(2):
        x = g.op("nn.relu", g.op("add", unit(x, 52, 3 * n), x))
    pooled = g.op("nn.avg_pool2d", x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1))
    x = g.op("nn.relu", g.op("concat", unit(x, 52, 8, (2, 2)), pooled, axis=1))
    x = g.op("add", unit(x, 104, 11), x)
    at = PASSES.index(split_padding)
    mod = converted(g, g.op("mean", x, axis=(2, 3)),
                    passes=[*PASSES[:at], lambda m: convert_layout(m, lanes), *PASSES[at:]])
    found = [op for name in ops(mod) for op in (name if isinstance(name, tuple) else [name])]
    assert found.count("nn.conv2d_gathered") == 8 and found.count("layout_transform") <= 1
    assert found.count("gather_channels") == 3  # into the first sum, the last sum, and order


def test_squeeze_and_excite():
    g = Graph(param("x", 1, 3, 6, 6))
    x = g.op("nn.hard_swish", conv(g, g.params[0], 6))
    gate = g.op("nn.relu", conv(g, g.op("mean", x, axis=(2, 3), keepdims=True), 2, kernel=1, seed=1))
    gate = g.op("nn.hard_sigmoid", conv(g, gate, 6, kernel=1, seed=2))
    mod = converted(g, g.op("multiply", x, gate))
    assert ops(mod).count("layout_transform") == 1 and ops(mod)[-1] == "layout_transform"


def test_operands_that_broadcast():
    g = Graph(param("x", 2, 4, 6, 6), param("mask", 2, 1, 6, 6))
    x = conv(g, g.params[0], 6, kernel=1)
    x = g.op("multiply", x, g.params[1])
    x = g.op("add", x, const(6, 1, 1))
    x = g.op("subtract", const(6, 6), x)
    x = g.op("divide", x, Constant(np.abs(data(1, 6, 1, 1)) + 1))
    x = g.op("multiply", g.op("maximum", x, const(1, 6, 6, 6)), Constant(np.float32(2)))
    mod = converted(g, g.op("multiply", g.op("add", x, Constant(np.ones((1, 1, 1, 1), np.float32))), const(6)))
    assert ops(mod)[-1] == "layout_transform" and ops(mod).count("layout_transform") == 2
    divisor = next(b.value.args[1].data for b in mod["main"].bindings if b.value.op == "divide")
    assert divisor.shape == (1, 2, 1, 1, 4) and (divisor[0, 1, 0, 0, 2:] == 1).all()


@pytest.mark.parametrize("name, channels, blocked", [
    ("exp", 6, False), ("exp", 8, True), ("rsqrt", 6, False), ("rsqrt", 8, True), ("sigmoid", 6, True)])
def test_padded_channels_stay_finite(name, channels, blocked):
    g = Graph(param("x", 1, 4, 5, 5))
    y = g.op(name, g.op("abs", conv(g, g.params[0], channels)))
    found = ops(converted(g, conv(g, y, 4, seed=1)))
    assert found.index(name) == 3 + (not blocked)


def test_a_division_by_a_value_needs_whole_blocks():
    for channels, transforms in ((6, 4), (8, 1)):
        g = Graph(param("x", 1, 4, 5, 5))
        a = conv(g, g.params[0], channels)
        y = conv(g, g.op("divide", a, g.op("add", g.op("abs", a), Constant(np.float32(1)))), 4, seed=1)
        assert ops(converted(g, y)).count("layout_transform") == transforms


def test_concat_and_split_of_whole_blocks():
    g = Graph(param("x", 1, 3, 6, 6))
    parts = [conv(g, g.params[0], n, seed=n) for n in (4, 8, 6)]
    joined = g.op("concat", *parts, axis=1)
    a, b, c = (g.bind(TupleGetItem(g.op("split", joined, sections=(8, 4, 6), axis=1), k)) for k in range(3))
    tall = g.op("concat", a, a, axis=2)
    mod = converted(g, conv(g, tall, 4), g.op("add", c, c), b)
    assert ops(mod)[3:5] == ["concat", "split"] and ops(mod).count("layout_transform") == 3


def test_concat_joins_blocks_also_where_they_have_room():
    g = Graph(param("x", 1, 3, 6, 6))
    joined = g.op("concat", conv(g, g.params[0], 6), conv(g, g.params[0], 4, seed=1), axis=1)
    joined = g.op("add", g.op("multiply", joined, const(1, 10, 1, 1)), const(10, 1, 1, seed=1))
    deep = conv(g, conv(g, joined, 10, groups=10, seed=2), 4, kernel=1, seed=3)
    mod = converted(g, deep, g.op("nn.max_pool2d", joined, pool_size=(2, 2)))
    assert ops(mod) == ["nn.conv2d", "nn.conv2d", "concat", "multiply", "add", "nn.conv2d", "nn.conv2d",
                        "nn.max_pool2d",
                        "layout_transform", "gather_channels", "layout_transform"]


def test_few_channels_of_whole_rows_stay_plain():
    """Up to half a vector of them, until a convolution makes more; its padding stays where strides part columns."""
    g = Graph(param("x", 1, 3, 8, 16))
    y = g.op("nn.relu", conv(g, g.params[0], 2, strides=(2, 2), padding=(1, 1, 1, 1)))
    y = conv(g, y, 2, padding=(1, 1, 1, 1), groups=2, seed=1)
    y = conv(g, y, 4, kernel=1, seed=2)
    split = partial(split_padding, lanes=4)
    mod = converted(g, y, passes=[convert, split, lambda mod: pack_weights(mod, machine(4))])
    assert ops(mod) == ["nn.conv2d", "nn.relu", "nn.pad", "nn.conv2d", "nn.conv2d", "layout_transform"]
    assert layouts(mod) == [PLAIN, PLAIN, FIRST]
    assert [w.data.shape for w in weights(mod)] == [(2, 3, 3, 3), (2, 1, 3, 3), (1, 2, 1, 1, 4)]


@pytest.mark.parametrize("outputs, width, padding", [(3, 16, (1, 1, 1, 1)), (2, 14, (1, 1, 1, 1)),
                                                     (2, 16, (1, 1, 1, 0))])
def test_others_of_few_channels_are_blocked(outputs, width, padding):
    """More than half a vector, parts of vectors in a row, columns that strides part unevenly."""
    g = Graph(param("x", 1, 3, 8, width))
    y = conv(g, g.params[0], outputs, strides=(2, 2), padding=padding)
    assert layouts(converted(g, y)) == [FIRST]


def test_concat_with_much_room_and_split_inside_a_block_are_plain():
    g = Graph(param("x", 1, 3, 6, 7))
    joined = g.op("concat", conv(g, g.params[0], 5), conv(g, g.params[0], 1, seed=1), axis=1)
    halves = g.op("split", conv(g, joined, 12), sections=(6, 6), axis=1)
    mod = converted(g, *(g.bind(TupleGetItem(halves, k)) for k in (0, 1)))
    assert ops(mod) == ["nn.conv2d", "nn.conv2d", "layout_transform", "layout_transform", "concat", "layout_transform",
                        "nn.conv2d", "layout_transform", "split"]


def test_a_split_of_what_was_joined():
    g = Graph(param("x", 1, 3, 6, 6))
    joined = g.op("concat", conv(g, g.params[0], 6), conv(g, g.params[0], 7, seed=1), axis=1)
    halves = g.op("split", g.op("nn.relu", joined), sections=(6, 7), axis=1)
    mod = converted(g, *(conv(g, g.bind(TupleGetItem(halves, k)), 4, kernel=1) for k in (0, 1)))
    assert ops(mod)[3:6] == ["nn.relu", "split", "nn.conv2d"]


def shuffle(g, x, groups):
    n, c, h, w = x.struct_info.shape
    parts = g.op("reshape", x, [n, groups, c.value // groups, h, w])
    return g.op("reshape", g.op("permute_dims", parts, axes=(0, 2, 1, 3, 4)), [n, c, h, w])


def test_a_shuffle_of_channels_moves_nothing():
    g = Graph(param("x", 2, 3, 6, 6))
    x = g.op("nn.relu", conv(g, g.params[0], 12))
    y = conv(g, conv(g, shuffle(g, x, 3), 12, groups=12, seed=1), 8, kernel=1, seed=2)
    mod = converted(g, y)
    assert ops(mod) == ["nn.conv2d", "nn.relu", "nn.conv2d", "nn.conv2d", "layout_transform"]
    (spots, names), = mod["main"].attrs["spots"]  # those of the depthwise convolution
    assert spots == tuple(c % 3 * 4 + c // 3 for c in range(12)) and len(names) == 1


def test_images_whose_channels_lie_otherwise_are_moved_once():
    g = Graph(param("x", 1, 3, 6, 6))
    x = conv(g, g.params[0], 8)
    y = shuffle(g, conv(g, g.params[0], 8, seed=1), 2)
    z = g.op("nn.relu", g.op("add", x, y))
    mod = converted(g, conv(g, g.op("add", z, g.op("sigmoid", y)), 4, kernel=1, seed=2))
    assert ops(mod) == ["nn.conv2d", "nn.conv2d", "gather_channels", "add", "nn.relu", "sigmoid", "add", "nn.conv2d",
                        "layout_transform"]


def test_a_view_of_channels_that_something_needs_is_plain():
    g = Graph(param("x", 1, 3, 6, 6))
    parts = g.op("reshape", conv(g, g.params[0], 8), [1, 2, 4, 4, 4])
    mod = converted(g, g.op("sum", parts, axis=1), g.op("permute_dims", parts, axes=(0, 2, 1, 4, 3)))
    assert ops(mod) == ["nn.conv2d", "layout_transform", "reshape", "sum", "permute_dims"]


def test_a_split_that_is_returned_whole_is_plain():
    g = Graph(param("x", 1, 3, 6, 6))
    halves = g.op("split", conv(g, g.params[0], 8), sections=(4, 4), axis=1)
    mod = g.module(g.bind(TupleGetItem(halves, 0)), g.op("nn.relu", g.bind(TupleGetItem(halves, 1))))
    check(mod, data(1, 3, 6, 6), passes=[convert])
    assert ops(convert(g.module(halves)))[-2:] == ["layout_transform", "split"]


def test_pads_pools_and_resizing():
    g = Graph(param("x", 1, 3, 6, 6))
    x = g.op("nn.pad", conv(g, g.params[0], 6), pad_width=(0, 0, 0, 0, 1, 2, 0, 1), pad_mode="reflect")
    x = g.op("nn.avg_pool2d", x, pool_size=(2, 2), padding=(1, 0, 0, 1))
    x = g.op("nn.adaptive_avg_pool2d", g.op("image.resize2d", x, size=(9, 8)), output_size=(3, 4))
    x = g.op("nn.pad", g.op("nn.max_pool2d", x, pool_size=(2, 2)), pad_width=(0, 0, 1, 0, 0, 0, 0, 0))
    assert ops(converted(g, x)) == ["nn.conv2d", "nn.pad", "nn.avg_pool2d", "image.resize2d", "nn.adaptive_avg_pool2d",
                                    "nn.max_pool2d", "layout_transform", "nn.pad"]


def test_padding_in_blocked_form_goes_plane_by_plane():
    g = Graph(param("x", 1, 3, 6, 6))
    x = g.op("nn.max_pool2d", conv(g, g.params[0], 6), pool_size=(3, 3), padding=(1, 1, 1, 1))
    x = conv(g, x, 4, padding=(0, 1, 2, 0))
    mod = converted(g, x, passes=[convert, split_padding])
    assert [b.value.attrs["pad_width"] for b in mod["main"].bindings if b.value.op == "nn.pad"] == [
        (0, 0, 0, 0, 1, 1, 1, 1, 0, 0), (0, 0, 0, 0, 0, 2, 1, 0, 0, 0)]


def test_what_needs_all_channels_is_plain_and_made_once():
    g = Graph(param("x", 1, 3, 6, 6))
    x = conv(g, g.params[0], 6)
    a, b = g.op("nn.lrn", x, size=3), g.op("nn.softmax", x, axis=1)
    mod = converted(g, conv(g, g.op("add", g.op("nn.max_pool2d", a, pool_size=(2, 2)),
                                    g.op("nn.max_pool2d", b, pool_size=(2, 2))), 4, seed=1))
    assert ops(mod) == ["nn.conv2d", "layout_transform", "nn.lrn", "nn.softmax", "nn.max_pool2d", "nn.max_pool2d",
                        "add", "layout_transform", "nn.conv2d", "reshape"]


@pytest.mark.parametrize("channels, size, blocked", [(8, 5, True), (8, 8, True), (8, 11, False), (6, 3, False)])
def test_local_response_of_whole_blocks(channels, size, blocked):
    g = Graph(param("x", 1, 3, 6, 6))
    x = g.op("nn.relu", g.op("nn.lrn", conv(g, g.params[0], channels), size=size, alpha=0.3))
    mod = converted(g, conv(g, g.op("nn.max_pool2d", x, pool_size=(2, 2)), 4, seed=1))
    assert ops(mod).count("layout_transform") == (0 if blocked else 2)


def test_reductions_over_height_and_width():
    g = Graph(param("x", 1, 3, 6, 6))
    x = conv(g, g.params[0], 6)
    mod = converted(g, g.op("max", x, axis=(2, 3)), g.op("mean", x, axis=-1, keepdims=True), g.op("sum", x, axis=1))
    assert ops(mod).count("layout_transform") == 3


def test_a_weight_used_twice_is_packed_once():
    g = Graph(param("x", 1, 8, 5, 5))
    w = const(8, 8, 1, 1)
    mod = converted(g, g.op("nn.conv2d", g.op("nn.conv2d", g.params[0], w), w))
    assert len(weights(mod)) == 1


def test_what_stays_as_it_was():
    x, row, wide = param("x", 1, 4, 5, 5), param("row", 1, 4, 1, 9), param("wide", 1, 4, 5, 5, dtype="float64")
    v, c = param("v", 6, 4, 3, 3), Var("c", "int64")
    g = Graph(x, row, wide, v)
    w = const(6, 4, 1, 3)
    outputs = [g.op("nn.conv2d", x, v), g.op("nn.conv2d", row, w),
               g.op("nn.conv2d", wide, w.replace(data=w.data.astype(np.float64))), g.op("nn.relu", x)]
    mod = g.module(*outputs)
    assert structural_equal(convert(mod), mod)
    g = Graph(param("x", 1, c, 5, 5))
    mod = g.module(g.op("nn.max_pool2d", g.params[0], pool_size=(2, 2)))
    assert structural_equal(convert(mod), mod)
    g = Graph(param("x", 1, 8, 5, 5))
    mod = g.module(conv(g, g.params[0], 8))
    assert structural_equal(convert_layout(mod, 1), mod)


def test_blocks_of_input_channels_are_no_larger_than_need_be():
    g = Graph(param("x", 1, 8, 5, 5))
    y = conv(g, conv(g, conv(g, g.params[0], 12, kernel=1), 6, kernel=1, seed=1), 5, seed=2)
    mod = check(g.module(y), data(1, 8, 5, 5), passes=[lambda m: convert_layout(m, 8)])
    assert [b.value.attrs["kernel_layout"] for b in mod["main"].bindings if b.value.op == "nn.conv2d"] == [
        "OIHW8i8o", "OIHW4i8o", "OIHW8i8o"]


def test_constants_among_concatenated_images():
    g = Graph(param("x", 1, 8, 5, 5))
    y = g.op("concat", conv(g, g.params[0], 8), const(1, 4, 3, 3), axis=1)
    assert ops(converted(g, y, passes=[fold_constants, convert]))[-2:] == ["concat", "layout_transform"]
