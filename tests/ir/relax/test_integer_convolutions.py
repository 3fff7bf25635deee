"""Convolutions of 8-bit integers with sums in int32: exact in plain and in blocked layouts, by words of channels or of
columns, for every mix of signs; compiled, with what requantizes them, for every target that this machine runs."""
import numpy as np
import pytest
from ops_nn_check import call_of, check, evaluate
from test_dot_products import DOTS, MIXES, TARGETS, in_turn, integers, product_of

import ingot
from ingot.codegen.toolchain import missing_tools
from ingot.codegen.toolchains import is_supported_here
from ingot.ir.op import InferError
from ingot.ir.relax import Constant
from ingot.ir.relax.arithmetic.dot_product import name_of
from ingot.ir.relax.evaluate import evaluate as evaluate_module
from ingot.ir.relax.ops.conv_layouts import (pack_weights, pack_words, pair_words, unpack_words,
                                                unpair_words)
from ingot.ir.relax.ops.layout import pack_channels, unpack_channels
from ingot.ir.target import Target


@MIXES
@pytest.mark.parametrize("shape, weight, attrs", [
    ((2, 3, 6, 5), (4, 3, 3, 3), {"padding": (1, 1, 1, 1)}), ((1, 6, 5, 5), (4, 3, 3, 2), {"groups": 2}),
    ((1, 4, 7, 7), (4, 1, 3, 3), {"groups": 4, "strides": (2, 2)})])
def test_plain_layouts(left, right, shape, weight, attrs):
    x, w = integers(shape, left), integers(weight, right, 1)
    _, result = check("nn.conv2d", [x, w], 0, out_dtype="int32", **attrs)
    assert result.dtype == np.int32
    wide = [a.astype(np.float64) for a in (x, w)]
    np.testing.assert_array_equal(result, evaluate("nn.conv2d", wide, **attrs))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("inner", [4, 8, None])
def test_words_stand_for_the_weights(dtype, inner):
    w = integers((20, 8, 3, 6), dtype)
    expected = pack_weights(w if inner else np.pad(w, ((0, 0),) * 3 + ((0, 2),)), 8, 1, inner)
    np.testing.assert_array_equal(unpack_words(pack_words(w, 8, 1, inner), dtype), expected)


@pytest.mark.parametrize("left, right, inner, attrs", in_turn(
    DOTS.values(), [(4, {}), (8, {"strides": (2, 1), "dilation": (1, 2)})]), ids=str)
def test_words_of_channels(left, right, inner, attrs):
    x, w = integers((1, 16, 5, 7), left), integers((11, 16, 3, 3), right, 1)
    packed = {"data_layout": "NCHW8c", "kernel_layout": f"OIHW{inner}i8o4i", "out_channels": 11,
              "arithmetic": name_of(left, right)}
    _, result = check("nn.conv2d", [pack_channels(x, 8), pack_words(w, 8, 1, inner)], 0, **packed, **attrs)
    expected = evaluate("nn.conv2d", [x, w], out_dtype="int32", **attrs)
    np.testing.assert_array_equal(unpack_channels(result, 11), expected)


@pytest.mark.parametrize("attrs", [{}, {"strides": (2, 1), "dilation": (1, 2)}], ids=str)
def test_words_of_channels_of_16_bits(attrs):
    x, w = integers((1, 16, 5, 7), "int16"), integers((11, 16, 3, 3), "int16", 1)
    packed = {"data_layout": "NCHW8c", "kernel_layout": "OIHW4i8o2i", "out_channels": 11, "arithmetic": "dot_s16s16"}
    _, result = check("nn.conv2d", [pack_channels(x, 8), pack_words(w, 8, 1, 4)], 0, **packed, **attrs)
    expected = evaluate("nn.conv2d", [x, w], out_dtype="int32", **attrs)
    np.testing.assert_array_equal(unpack_channels(result, 11), expected)


def of_16_bits(op, x):
    """Layers of 16 bits of all forms, whose sums int32 holds, or parts of weights are cut for; the results of all."""
    def layer(shape, dtype, sums, x=x, **attrs):
        zeros = (Constant(np.array(z, t)) for z, t in ((9, "int16"), (0, "int8")))
        w = Constant(integers(shape, dtype, sum(shape)), "w")
        return op("qnn.matmul" if len(shape) == 2 else "qnn.conv2d", x, w, *zeros, out_dtype=sums, **attrs)

    results = []
    for dtype, sums in (("int8", "int32"), ("int16", "int64")):
        first = layer((19, 3, 3, 3), dtype, sums, padding=(1, 1, 1, 1))
        small = op("astype", op("right_shift", first, Constant(np.array(9, sums))), dtype="int16")
        deep = layer((11, 19, 3, 3), dtype, sums, small)
        apart = layer((19, 1, 3, 3), dtype, sums, small, groups=19, padding=(1, 1, 1, 1))
        plain = layer((3, 1, 1, 5), dtype, sums, op("reshape", op("astype", x, dtype="int16"), [1, 1, 1, 147]))
        product = layer((49, 21), dtype, sums, op("reshape", x, [3, 49]))
        results += [first, deep, apart, plain, product]
    return results


def test_layers_of_16_bits():
    mod, x = product_of(of_16_bits, ((1, 3, 7, 7), "int16")), integers((1, 3, 7, 7), "int16")
    expected = evaluate_module(mod, [x])
    with ingot.compile(mod, target="host", threads="none") as library:
        for found, wanted in zip(library(x), expected):
            np.testing.assert_array_equal(found, wanted)
    for target, called in (("x86-64-v3", "i32x8_dot_s16s16("), ("aarch64-linux-gnu", "i32x4_dot_s16s16(")):
        assert called in ingot.inspect_stage(mod, "c", target=target, threads="none")


@MIXES
@pytest.mark.parametrize("groups", [1, 2])
def test_words_of_channels_in_pairs(left, right, groups):
    """Those of two blocks side by side, as products of matrices read them."""
    x, w = integers((1, 16, 5, 7), left), integers((8, 16 // groups, 3, 3), right, 1)
    words = pack_words(w, 4, groups, 4)
    np.testing.assert_array_equal(unpair_words(pair_words(words)), words)
    packed = {"data_layout": "NCHW4c", "kernel_layout": "OIHW4i4o4i2i", "out_channels": 8, "groups": groups,
              "arithmetic": name_of(left, right)}
    _, result = check("nn.conv2d", [pack_channels(x, 4), pair_words(words)], 0, **packed)
    expected = evaluate("nn.conv2d", [x, w], out_dtype="int32", groups=groups)
    np.testing.assert_array_equal(unpack_channels(result, 8), expected)


@pytest.mark.parametrize("left, right, kernel, strides", in_turn(
    DOTS.values(), [((3, 3), (2, 2)), ((1, 5), (1, 1)), ((7, 7), (2, 2)), ((2, 4), (1, 3))]))
def test_words_of_columns(left, right, kernel, strides):
    """The input has more columns, of any numbers, where the last word does."""
    x, w = integers((1, 3, 9, 12), left), integers((6, 3, *kernel), right, 1)
    more = -kernel[1] % 4
    packed = {"out_layout": "NCHW4c", "kernel_layout": "OIHW4o4w", "out_channels": 6,
              "arithmetic": name_of(left, right)}
    wide = np.concatenate([x, integers((1, 3, 9, more), left, 2)], axis=3)
    _, result = check("nn.conv2d", [wide, pack_words(w, 4)], 0, strides=strides, **packed)
    expected = evaluate("nn.conv2d", [x, w], out_dtype="int32", strides=strides)
    np.testing.assert_array_equal(unpack_channels(result, 6), expected)


def test_what_is_refused():
    packed = {"data_layout": "NCHW4c", "kernel_layout": "OIHW4i4o4i", "out_channels": 4, "arithmetic": "dot_u8s8"}
    shapes = [(1, 1, 3, 3, 4), (1, 1, 1, 1, 1, 4)]
    with pytest.raises(InferError, match="must be uint8 and .* words of int32 by dot_u8s8, not int8 and int32"):
        call_of("nn.conv2d", shapes, packed, ["int8", "int32"])
    with pytest.raises(InferError, match=r"must have 1 words of input channels in a block \(dim 4\)"):
        call_of("nn.conv2d", [shapes[0], (1, 1, 1, 1, 4, 4)], packed, ["uint8", "int32"])
    with pytest.raises(InferError, match="dtype"):
        call_of("nn.conv2d", [(1, 4, 3, 3), (4, 4, 1, 1)], {}, ["uint8", "int8"])


# layers: (outputs, kernel, stride, groups)
NETWORKS = {
    "a mobile network": ((1, 3, 19, 17), [(32, 3, 2, 1), (32, 3, 1, 32), (17, 1, 1, 1), (40, 1, 1, 1), (40, 5, 2, 40)]),
    "a residual network": ((1, 3, 24, 24), [(16, 7, 2, 1), (24, 3, 1, 1), (16, 1, 1, 1), (33, 3, 2, 1)]),
    "many channels": ((2, 20, 6, 5), [(64, 3, 1, 1), (64, 3, 1, 2), (10, 1, 2, 1)]),
}


def network(name, left, right):
    """Convolutions that are requantized to `left`, their input padded by its zero point."""
    shape, layers = NETWORKS[name]
    rng, info, zero = np.random.default_rng(0), np.iinfo(left), 7

    def build(op, x):
        channels = shape[1]
        for n, (outputs, k, stride, groups) in enumerate(layers):
            def constant(data, what):
                return Constant(np.asarray(data), f"{what}{n}")
            w = integers((outputs, channels // groups, k, k), right, n)
            x = op("nn.pad", x, pad_width=(0, 0, 0, 0, *(k // 2,) * 4), pad_value=zero)
            y = op("nn.conv2d", x, constant(w, "w"), strides=(stride, stride), groups=groups, out_dtype="int32")
            spread = np.sqrt(np.square(w.astype(np.float64)).sum(axis=(1, 2, 3))).reshape(1, -1, 1, 1)
            y = op("add", y, constant(rng.integers(-999, 999, spread.shape).astype(np.int32), "b"))
            y = op("multiply", op("astype", y, dtype="float32"), constant((1 / spread).astype(np.float32), "s"))
            y = op("add", op("round", y), constant(np.array(zero, np.float32), "z"))
            x = op("astype", op("clip", y, min=float(info.min), max=float(info.max)), dtype=left)
            channels = outputs
        return x

    return product_of(build, (shape, left))


@pytest.mark.parametrize("target, name, left", [
    (target, name, ("uint8", "int8")[(n + k) % 2]) for n, target in enumerate(TARGETS)
    for k, name in enumerate(NETWORKS)])
def test_compiled_networks(target, name, left):
    cpu = Target.get(target)
    if not is_supported_here(cpu):
        pytest.skip(f"this machine does not run {target}")
    if reason := missing_tools(cpu):
        pytest.skip(reason)
    mod = network(name, left, "int8")
    x = integers(NETWORKS[name][0], left, 5)
    expected = evaluate_module(mod, [x])
    assert len(np.unique(expected)) > 20
    with ingot.compile(mod, target=target, threads="none") as library:
        np.testing.assert_array_equal(library(x), expected)


def test_every_part_of_a_convolution_is_in_vectors():
    text = ingot.inspect_stage(network("a mobile network", "uint8", "int8"), "c", target="x86-64-v4", threads="none")
    assert "i32x16_dot_u8s8(" in text and "i32x16_store_u8(" in text and "ingot_f32_to_i32" not in text


@pytest.mark.parametrize("shape, weight, attrs", [
    ((1, 6, 9, 11), (6, 2, 3, 3), {"groups": 3}), ((1, 1, 1, 64), (4, 1, 1, 5), {}),
    ((1, 3, 9, 40), (8, 3, 3, 3), {"dilation": (1, 2)})], ids=str)
def test_those_without_a_blocked_layout(shape, weight, attrs):
    """Sums of floats where these hold them."""
    x, w = integers(shape, "uint8"), integers(weight, "int8", 1)
    mod = product_of(lambda op, x: op("nn.conv2d", x, Constant(w, "w"), out_dtype="int32", **attrs), (shape, "uint8"))
    with ingot.compile(mod, target="host", threads="none") as library:
        np.testing.assert_array_equal(library(x), evaluate("nn.conv2d", [x, w], out_dtype="int32", **attrs))
