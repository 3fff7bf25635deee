"""Convolutions of bytes of plain images by single numbers (conv_planar.py): what packed weights stand for, the stages
in every form, and networks on boards, bit by bit."""
import numpy as np
import pytest
from ops_nn_check import call_of, check, evaluate
from test_dot_products import DOTS, in_turn, integers
from test_integer_convolutions import NETWORKS, network

import ingot
from ingot.codegen.toolchain import missing_tools
from ingot.ir.op import InferError
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.arithmetic.dot_product import name_of
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.relax.evaluate import evaluate as evaluate_module
from ingot.ir.relax.ops import conv_planar
from ingot.ir.target import Target
from ingot.ir.tir.intrinsics import ALL_DOTS, ALL_INTRINSICS
from ingot.runtime.emulated import EmulatedLibrary


@pytest.mark.parametrize("inputs, kernel", [(3, (3, 3)), (1, (2, 5)), (8, (1, 1))])
def test_packed_weights_stand_for_the_weights(inputs, kernel):
    w = integers((5, inputs, *kernel), "int8")
    for terms, dtype in ((1, None), (4, "int8"), (16, None)):
        packed = conv_planar.pack(w, 2, terms)
        np.testing.assert_array_equal(conv_planar.unpack(packed, 5, inputs, kernel[1], terms, dtype), w)


@pytest.mark.parametrize("terms, dtype", [(1, "int16"), (4, "int16"), (4, "int8"), (4, "uint8")])
@pytest.mark.parametrize("inputs, kernel, strides", [(3, (3, 3), (2, 1)), (1, (4, 2), (1, 3)), (8, (1, 1), (2, 2))])
def test_rows_of_channels_of_16_bits(terms, dtype, inputs, kernel, strides):
    """Also of bytes that are widened."""
    x, w = integers((2, inputs, 7, 6), dtype), integers((5, inputs, *kernel), "int8", 1)
    packed = conv_planar.pack(w, 2, terms, pairs=True)
    np.testing.assert_array_equal(conv_planar.unpack(packed, 5, inputs, kernel[1], terms, "int8", pairs=True), w)
    attrs = {"kernel_layout": f"OH{kernel[1]}w2o{'4k' * (terms > 1)}", "out_channels": 5, "strides": strides,
             **({"arithmetic": "dot_s16s8"} if terms == 4 else {})}
    _, result = check("nn.conv2d", [x, packed], 0, **attrs)
    np.testing.assert_array_equal(result, evaluate("nn.conv2d", [x, w], out_dtype="int32", strides=strides))


@pytest.mark.parametrize("left, right, inputs, kernel, strides, terms", in_turn(DOTS.values(), [
    (*layer, terms) for layer in ((3, (3, 3), (2, 1)), (1, (4, 2), (1, 3)), (8, (1, 1), (2, 2)))
    for terms in (1, 4, 16)]))
def test_rows_of_channels(left, right, inputs, kernel, strides, terms):
    x, w = integers((2, inputs, 7, 6), left), integers((5, inputs, *kernel), right, 1)
    attrs = {"kernel_layout": f"OH{kernel[1]}w2o{f'{terms}k' * (terms > 1)}", "out_channels": 5, "strides": strides,
             **({"arithmetic": name_of(left, right)} if terms == 4 else {})}
    _, result = check("nn.conv2d", [x, conv_planar.pack(w, 2, terms)], 0, **attrs)
    np.testing.assert_array_equal(result, evaluate("nn.conv2d", [x, w], out_dtype="int32", strides=strides))


@pytest.mark.parametrize("left, right, strides, width", in_turn(
    ALL_DOTS.values(), [((1, 1), 7), ((1, 1), 8), ((2, 2), 7), ((2, 2), 8), ((1, 3), 9)]))
def test_words_of_columns(left, right, strides, width):
    """The input has as many columns more, of any numbers, as the last word reads."""
    x, w = integers((1, 3, 6, width), left), integers((3, 1, 4, 3), right, 1)
    more = conv_planar.columns_more(width, strides[1])
    wide = np.concatenate([x, integers((1, 3, 6, more), left, 2)], axis=3)
    attrs = {"kernel_layout": f"CH3w2p+{more}", "out_channels": 3, "groups": 3, "strides": strides,
             "arithmetic": name_of(left, right, ALL_DOTS)}
    _, result = check("nn.conv2d", [wide, conv_planar.pack_depthwise(w)], 0, **attrs)
    np.testing.assert_array_equal(result, evaluate("nn.conv2d", [x, w], out_dtype="int32", strides=strides, groups=3))


def test_what_is_refused():
    rows = {"kernel_layout": "OH3w2o4k", "out_channels": 4, "arithmetic": "dot_s8s8"}
    with pytest.raises(InferError, match="does not hold out_channels=4"):
        call_of("nn.conv2d", [(1, 8, 5, 5), (2, 3, 5, 2)], rows, ["int8", "int32"])
    with pytest.raises(InferError, match="must be of bytes"):
        call_of("nn.conv2d", [(1, 8, 5, 5), (2, 3, 6, 2)], rows, ["uint8", "int32"])
    with pytest.raises(InferError, match="without padding and dilation"):
        call_of("nn.conv2d", [(1, 8, 5, 5), (2, 3, 6, 2)], {**rows, "padding": (1, 1, 1, 1)}, ["int8", "int32"])
    taps = {"kernel_layout": "CH3w2p+0", "out_channels": 4, "groups": 4, "arithmetic": "dot_s8s8"}
    with pytest.raises(InferError, match="words end in the input"):
        call_of("nn.conv2d", [(1, 4, 5, 5), (4, 3, 2)], taps, ["int8", "int32"])


def test_rounding_to_bytes():
    """Ties to even, saturated, plus a zero point."""
    x = np.float32([-300, -128.5, -1.5, -0.5, 0.5, 1.5, 2.5, 127.5, 1e30, -np.inf])
    np.testing.assert_array_equal(ALL_INTRINSICS["round_i8"].numpy(x, 3), [-128, -125, 1, 3, 3, 5, 5, 127, 127, -128])
    np.testing.assert_array_equal(ALL_INTRINSICS["round_u8"].numpy(x, 3), [0, 0, 1, 3, 3, 5, 5, 131, 255, 0])
    x = np.float32([-32768.5, -1.5, 0.5, 32767.5, 65534.5, 1e30])
    np.testing.assert_array_equal(ALL_INTRINSICS["round_i16"].numpy(x, 3), [-32765, 1, 3, 32767, 32767, 32767])
    np.testing.assert_array_equal(ALL_INTRINSICS["round_u16"].numpy(x, 3), [0, 1, 3, 32771, 65535, 65535])


@pytest.mark.parametrize("target, left", [
    ("cortex-m0plus", "uint8"), ("cortex-m4f", "uint8"), ("cortex-m4f", "int8"), ("cortex-m55", "uint8"),
    ("cortex-m55", "int8"), ("rv32imc", "int8"), ("rv32imafc", "uint8")])
def test_networks_on_boards(target, left):
    if reason := missing_tools(Target.get(target)):
        pytest.skip(reason)
    mod = network("a mobile network", left, "int8")
    x = integers(NETWORKS["a mobile network"][0], left, 5)
    with EmulatedLibrary(ingot.compile(mod, target=target).model) as library:
        np.testing.assert_array_equal(library(x), evaluate_module(mod, [x]))


def words(dtype):
    """(Convolutions and a product of 16 bits, with sums in 32, that are requantized with a zero point; an input)."""
    shape, middle = (2, 6, 5, 7), np.array(9000 if dtype == "int16" else 40000, dtype)
    limits, bb, x = np.iinfo(dtype), BlockBuilder(), RelaxVar("x", TensorStructInfo(shape, dtype))
    with bb.function("main", [x]):
        def emit(op, *args, **attrs):
            return bb.emit(call_op(op, *args, **attrs))

        def requantized(total, scale):
            y = emit("multiply", emit("astype", total, dtype="float32"), Constant(np.array(scale, np.float32)))
            y = emit("add", emit("round", y), Constant(np.array(middle, np.float32)))
            return emit("astype", emit("clip", y, min=float(limits.min), max=float(limits.max)), dtype=dtype)

        zeros = Constant(middle), Constant(np.array(0, np.int8))
        w, own, v = (Constant(integers(sizes, "int8", 1)) for sizes in ((5, 6, 3, 3), (5, 1, 3, 3), (175, 7)))
        y = requantized(emit("qnn.conv2d", x, w, *zeros, padding=(1, 1, 1, 1)), 1 / 1000)
        y = requantized(emit("qnn.conv2d", y, own, *zeros, padding=(1, 1, 1, 1), groups=5), 1 / 300)
        y = emit("reshape", y, [2, 175])
        bb.emit_func_output(requantized(emit("qnn.matmul", y, v, *zeros), 1 / 150))
    return bb.get(), integers(shape, dtype, 3)


@pytest.mark.parametrize("target, dtype", [("cortex-m0plus", "int16"), ("cortex-m4f", "uint16"),
                                           ("cortex-m55", "int16"), ("rv32imafc", "uint16")])
def test_words_on_boards(target, dtype):
    """Sums of products of pairs, and those one by one; some results saturate."""
    if reason := missing_tools(Target.get(target)):
        pytest.skip(reason)
    mod, x = words(dtype)
    expected = evaluate_module(mod, [x])
    with EmulatedLibrary(ingot.compile(mod, target=target).model) as library:
        np.testing.assert_array_equal(library(x), expected)
    assert {np.iinfo(dtype).min, np.iinfo(dtype).max} <= set(expected.reshape(-1).tolist())


def test_products_of_pairs_have_their_instructions():
    text = ingot.inspect_stage(words("int16")[0], "c", target="cortex-m4f", threads="none")
    for called in ("ingot_dot_s16s8(", "ingot_taps_s16(", "ingot_load_pair(", "ingot_round_i16("):
        assert called in text
    assert "ingot_f32_to_i32" not in text


def test_products_of_words_have_their_instructions():
    text = ingot.inspect_stage(network("a mobile network", "int8", "int8"), "c", target="cortex-m4f", threads="none")
    for called in ("ingot_dot_s16s8(", "ingot_load_aligned_pair(", "ingot_taps_s8(", "ingot_round_i8("):
        assert called in text
    assert "ingot_f32_to_i32" not in text
    assert "ingot_add_i32(conv2d_of_taps" not in text  # sums begin at the bias


def test_vectors_of_columns_have_their_instructions():
    text = ingot.inspect_stage(network("a mobile network", "uint8", "int8"), "c", target="cortex-m55", threads="none")
    for called in ("i32x4_add_scaled(", "i32x4_load_u8(", "i32x4_load_u8_n(", "i32x4_round_u8(", "ingot_dot_row_u8s8("):
        assert called in text
    assert "i32x4_add(conv2d_local" not in text
