"""Operators of the domain com.microsoft against onnxruntime."""
import math

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_models import assert_same, model, run_both, seven_bits

import ingot
from ingot.frontend.onnx import CONVERTERS, OnnxImportError, from_onnx
from ingot.frontend.onnx.msft_schemas import IN_STANDARD_DOMAIN, MICROSOFT, schemas
from ingot.ir.relax.evaluate import evaluate
from ingot.runtime import NetworkError

RNG = np.random.default_rng(44)
ONE = np.float32
TYPES = (np.uint8, np.int8)


def floats(*shape, scale=1.0):
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def whole(dtype, *shape):
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def one_node(op, arrays, constants=(), outputs=("y",), kinds=None, domain=MICROSOFT, **attrs):
    """(model, feeds) of one node. arrays: its inputs (None: absent); kinds: element types of the outputs."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(arrays)]
    arrays = {n: np.asarray(a) for n, a in zip(names, arrays) if n}
    weights = {n: a for n, a in arrays.items() if int(n[1:]) in constants}
    feeds = {n: a for n, a in arrays.items() if n not in weights}
    node = helper.make_node(op, names, outputs, name="the_node", domain=domain)
    node.attribute.extend(helper.make_attribute(k.rstrip("_"), v) for k, v in attrs.items())
    infos = [helper.make_tensor_value_info(o, kind, None)
             for o, kind in zip(outputs, kinds or [TensorProto.FLOAT] * len(outputs)) if o]
    proto = model([node], {n: (list(a.shape), a.dtype.name) for n, a in feeds.items()}, infos, 17, weights)
    proto.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    return proto, feeds


def check(op, arrays, constants=(), outputs=("y",), compiled=False, **kw):
    """Results of floats to 1e-5, those of integers exactly. compiled: of C, whose sums have onnxruntime's order."""
    pytest.importorskip("onnxruntime")
    proto, feeds = one_node(op, arrays, constants, outputs, **kw)
    found, expected = run_both(proto, feeds)
    if compiled:
        with ingot.compile(proto, threads="none") as library:
            found = [library.run(feeds)[o.name] for o in proto.graph.output]
    for a, b in zip(found, expected, strict=True):
        exact = b.dtype.kind in "iu"
        assert_same([a], [b], *((0, 0) if exact else (1e-5, 1e-5)))


def byte_kind(dtype):
    return [helper.np_dtype_to_tensor_dtype(np.dtype(dtype))]


def parameters(dtype, count):
    """Scales and zero points."""
    info = np.iinfo(dtype)
    return (RNG.uniform(.01, .05, count).astype(np.float32),
            RNG.integers(info.min // 2, info.max // 2, count).astype(dtype))


# ---------------------------------------------------------------- the table

def test_every_row_has_a_converter_and_every_converter_a_row():
    rows = {name if name in IN_STANDARD_DOMAIN else f"{MICROSOFT}::{name}" for name in schemas()}
    assert rows == {name for name in CONVERTERS if name.startswith("com.microsoft::") or name in IN_STANDARD_DOMAIN}


def test_refusals_name_the_domain():
    for op, text in (("Inverse", "com.microsoft::Inverse"), ("QuickGelu", "attribute 'beta'")):
        attrs = {"beta": 1.0} if op == "QuickGelu" else {}
        with pytest.raises(OnnxImportError, match=text):
            from_onnx(one_node(op, [floats(2, 3)], **attrs)[0])
    with pytest.raises(OnnxImportError, match="lacks the attribute 'num_heads'"):
        from_onnx(one_node("MultiHeadAttention", [floats(1, 2, 4)])[0])


def test_a_model_of_this_domain_alone():
    proto, feeds = one_node("QuickGelu", [floats(2, 3)])
    del proto.opset_import[0]
    x = feeds["x0"]
    assert_same([evaluate(from_onnx(proto), feeds)], [x / (1 + np.exp(-1.702 * x))])


# ---------------------------------------------------------------- bytes

@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_pairs_of_bytes(op, dtype):
    """All pairs."""
    info = np.iinfo(dtype)
    every = np.arange(info.min, info.max + 1).astype(dtype)
    for _ in range(3):
        scales, zeros = parameters(dtype, 3)
        scales[2] = scales[0] * scales[1] * 70 if op == "QLinearMul" else scales[2]
        arrays = [np.repeat(every, 256), scales[0], zeros[0], np.tile(every, 256), scales[1], zeros[1], scales[2],
                  zeros[2]]
        check(op, arrays, (1, 2, 4, 5, 6, 7), kinds=byte_kind(dtype))


@pytest.mark.parametrize("dtype", TYPES)
def test_tables(dtype):
    info = np.iinfo(dtype)
    every = np.arange(info.min, info.max + 1).astype(dtype)
    scales, zeros = parameters(dtype, 2)
    check("QLinearSigmoid", [every, scales[0], zeros[0], ONE(1 / 256), zeros[1]], (1, 2, 3, 4), kinds=byte_kind(dtype))
    check("QLinearLeakyRelu", [every, scales[0], zeros[0], scales[1], zeros[1]], (1, 2, 3, 4), kinds=byte_kind(dtype),
          alpha=.1)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("channels_last", [0, 1])
def test_pools(dtype, channels_last):
    x, (scales, zeros) = whole(dtype, 2, 6, 9, 8), parameters(dtype, 2)
    arrays = [x, scales[0], zeros[0], scales[0] * ONE(.8), zeros[1]]
    for attrs in ({"kernel_shape": [3, 2], "strides": [2, 1]}, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
                  {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1, "ceil_mode": 1}):
        check("QLinearAveragePool", arrays, range(1, 5), compiled=True, kinds=byte_kind(dtype),
              channels_last=channels_last, **attrs)
    arrays[3] = scales[0] / ONE(5)
    check("QLinearGlobalAveragePool", arrays, range(1, 5), kinds=byte_kind(dtype), channels_last=channels_last)
    check("NhwcMaxPool", [x], kinds=byte_kind(dtype), kernel_shape=[3, 3], pads=[1, 1, 0, 0])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("opset, axis", [(13, -1), (13, 1), (11, 1), (11, 2)])
def test_softmax_of_bytes(dtype, opset, axis):
    for scale, zero in ((1 / 256, np.iinfo(dtype).min), (.0123, 3)):
        check("QLinearSoftmax", [whole(dtype, 2, 6, 9), ONE(.05), dtype(5), ONE(scale), dtype(zero)], range(1, 5),
              kinds=byte_kind(dtype), axis=axis, opset_=opset)


@pytest.mark.parametrize("dtype", TYPES)
def test_choices_and_concatenations_of_bytes(dtype):
    x, (scales, zeros) = whole(dtype, 2, 6, 9), parameters(dtype, 3)
    check("QLinearConcat", [scales[2], zeros[2], x, scales[0], zeros[0], x[:, :3], scales[2], zeros[2]],
          (0, 1, 3, 4, 6, 7), kinds=byte_kind(dtype), axis=1)
    check("QLinearWhere", [x > 3, x, scales[0], zeros[0], x[:, ::-1].copy(), scales[1], zeros[1], scales[2], zeros[2]],
          (2, 3, 5, 6, 7, 8), kinds=byte_kind(dtype))


@pytest.mark.parametrize("a, b", [(np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)])
@pytest.mark.parametrize("constants", [False, True])
def test_products_of_bytes(a, b, constants):
    x, w = whole(a, 7, 33), seven_bits(whole(b, 33, 12))
    (scale, y_scale), (zero, y_zero) = parameters(a, 2)
    scales, bias = RNG.uniform(.01, .02, 12).astype(np.float32), RNG.integers(-900, 900, 12).astype(np.int32)
    zeros, some = np.zeros(12, b), range(1, 9) if constants else range(1, 3)
    for turned in (0, 1):
        operand = w.T.copy() if turned else w
        check("QGemm", [x, scale, zero, operand, scales, zeros, bias, y_scale * ONE(10), y_zero], some,
              kinds=byte_kind(a), transB=turned, alpha=1.5)
        check("QGemm", [x, scale, zero, operand, scales[0], b(4), bias], some, transB=turned)
    check("MatMulIntegerToFloat", [x, w, scale, scales, zero, zeros + b(2), floats(12)], some)
    check("DynamicQuantizeMatMul", [floats(4, 7, 33), w, scales, zeros, floats(12)], some)
    check("DynamicQuantizeMatMul", [floats(4, 7, 33), w, scales[0], b(3)], some)


def test_long_sums_stay_integers():
    """Past 2^24 float32 would not hold them."""
    x, w = np.full((1, 4096), 255, np.uint8), np.full((4096, 3), 63, np.int8)
    w[0] = [1, 2, 3]
    check("MatMulInteger", [x, w], (1,), domain="", kinds=[TensorProto.INT32])


@pytest.mark.parametrize("dtype", TYPES)
def test_conversions(dtype):
    scales, zeros = parameters(dtype, 7)
    x = floats(4, 7, 3)
    check("QuantizeLinear", [x, scales[0], zeros[0]], (1, 2), kinds=byte_kind(dtype))
    check("QuantizeLinear", [x, scales, zeros], (1, 2), kinds=byte_kind(dtype), axis=1)
    check("DequantizeLinear", [whole(dtype, 4, 7), scales[0], zeros[0]], (1, 2))


def test_zeros_quantize_dynamically():
    check("DynamicQuantizeLinear", [np.zeros((3, 4), np.float32)], outputs=["y", "s", "z"], domain="",
          kinds=[TensorProto.UINT8, TensorProto.FLOAT, TensorProto.UINT8])


# ---------------------------------------------------------------- floats

def test_activations():
    x, bias = floats(2, 5, 12), floats(12)
    for op, arrays in (("Gelu", [x]), ("BiasGelu", [x, bias]), ("FastGelu", [x]), ("FastGelu", [x, bias]),
                       ("QuickGelu", [x])):
        check(op, arrays)


def test_biases_that_onnxruntime_adds_on_gpus_alone():
    x, bias, skip = floats(2, 5, 12), floats(12), floats(2, 5, 12)
    for op, arrays in (("BiasAdd", [x, bias, skip]), ("BiasSplitGelu", [x, bias])):
        proto, feeds = one_node(op, arrays)
        total = (x + bias).astype(np.float64)
        gate = total[..., 6:]
        gelu = gate / 2 * (1 + np.vectorize(math.erf)(gate / math.sqrt(2)))
        expected = total + skip if op == "BiasAdd" else total[..., :6] * gelu
        assert_same([evaluate(from_onnx(proto), feeds)], [expected.astype(np.float32)])


@pytest.mark.parametrize("activation, params", [
    ("Relu", []), ("Clip", [-1., 1.]), ("LeakyRelu", [.2]), ("HardSigmoid", [.3, .4]), ("Tanh", []), ("Sigmoid", [])])
def test_fused_convolutions(activation, params):
    arrays = [floats(1, 4, 6, 6), floats(8, 4, 3, 3, scale=.3), floats(8), floats(1, 8, 6, 6)]
    attrs = {"activation_params": params} if params else {}
    check("FusedConv", arrays, (1, 2), pads=[1, 1, 1, 1], activation=activation, **attrs)
    check("FusedConv", arrays[:2], (1,), activation=activation, **attrs)


def test_fused_products():
    a, b, c = floats(5, 12), floats(7, 12), floats(7)
    check("FusedGemm", [a, b, c], (1, 2), transB=1, alpha=.5, activation="Relu")
    check("FusedGemm", [a, b, c], (1, 2), transB=1, activation="LeakyRelu", activation_alpha=.3)
    check("FusedMatMul", [floats(2, 5, 12), floats(2, 7, 12)], transB=1, alpha=.3)
    check("FusedMatMul", [floats(5, 2, 3, 4), floats(6, 2, 3, 4)], transBatchA=1, transBatchB=1, transB=1)
    check("FusedMatMul", [floats(4, 2, 3, 5), floats(2, 3, 6, 4)], transBatchA=1, transA=1, transB=1)


def test_normalizations():
    x, gamma, beta = floats(2, 5, 12), floats(12), floats(12)
    outputs = ["y", "", "", "s"]
    check("SimplifiedLayerNormalization", [x, gamma], domain="", epsilon=1e-5)
    check("SkipLayerNormalization", [x, x[::-1].copy(), gamma, beta, beta], (2, 3, 4), outputs)
    check("SkipLayerNormalization", [x, x[0], gamma, beta], (2, 3))
    check("SkipLayerNormalization", [x, x[:1], gamma], (2,))
    check("SkipSimplifiedLayerNormalization", [x, x[::-1].copy(), gamma, beta], (2, 3), outputs, epsilon=1e-6)


def test_embeddings():
    ids, segments = (RNG.integers(0, n, (2, 5)).astype(np.int32) for n in (20, 2))
    tables, ends = [floats(n, 12) for n in (20, 9, 2)], [floats(12), floats(12)]
    mask = (np.arange(5) < [[3], [5]]).astype(np.int32)
    kinds = [TensorProto.FLOAT, TensorProto.INT32, TensorProto.FLOAT]
    check("EmbedLayerNormalization", [ids, segments, *tables, *ends, mask], range(2, 7), ["y", "m", "e"], kinds=kinds)
    check("EmbedLayerNormalization", [ids, None, *tables[:2], None, *ends], range(2, 7), ["y", "m"], kinds=kinds)
    check("EmbedLayerNormalization", [ids, segments, *tables, *ends, None, ids % 9], range(2, 7), ["y", "m"],
          kinds=kinds)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("columns, block", [(64, 32), (80, 32), (48, 16)])
def test_weights_of_a_few_bits(bits, columns, block):
    rows, blocks = 24, -(-columns // block)
    x, packed = floats(2, 3, columns), whole(np.uint8, rows, blocks, block * bits // 8)
    scales = RNG.uniform(.01, .02, (rows, blocks)).astype(np.float32)
    zeros = whole(np.uint8, rows, -(-blocks * bits // 8))
    attrs = {"K": columns, "N": rows, "bits": bits, "block_size": block}
    check("MatMulNBits", [x, packed, scales], (1, 2), **attrs)
    check("MatMulNBits", [x, packed, scales, zeros, None, floats(rows)], (1, 2, 3, 5), **attrs)
    if bits < 8:  # onnxruntime has no others
        zeros = RNG.uniform(0, 2 ** bits, (rows, blocks)).astype(np.float32)
        check("MatMulNBits", [x, packed, scales, zeros], (1, 2, 3), **attrs)


# ---------------------------------------------------------------- attention

B, S, H, D = 2, 5, 4, 8
W = H * D
ENDS = (np.arange(S) < [[3], [5]]).astype(np.int32)


@pytest.mark.parametrize("mask", [None, np.int32([3, 5]), np.int32([4, 5, 1, 0]), ENDS, ENDS[:, ::-1].copy(), ENDS * 0,
                                  (RNG.random((B, S, S)) < .6).astype(np.int32)])
@pytest.mark.parametrize("attrs", [{}, {"unidirectional": 1}, {"mask_filter_value": -3., "scale": .4}])
def test_attention(mask, attrs):
    x, w, bias = floats(B, S, 16), floats(16, 3 * W, scale=.3), floats(3 * W)
    check("Attention", [x, w, bias, mask], (1, 2), num_heads=H, **attrs)


def test_attention_with_a_past_and_biases():
    x, w, bias = floats(B, S, 16), floats(16, 3 * W, scale=.3), floats(3 * W)
    check("Attention", [x, w], (1,), num_heads=H)
    check("Attention", [x, w, bias, ENDS, None, floats(1, H, S, S)], (1, 2), num_heads=H)
    check("Attention", [x, floats(16, 2 * W + 16, scale=.3), floats(2 * W + 16)], (1, 2), num_heads=H,
          qkv_hidden_sizes=[W, W, 16])
    check("Attention", [x, w, bias], (1, 2), ["y", "p"], num_heads=H)
    mask, past = (RNG.random((B, S + 3)) < .7).astype(np.int32), floats(2, B, H, 3, D)
    check("Attention", [x, w, bias, mask, past], (1, 2), ["y", "p"], num_heads=H, unidirectional=1)


@pytest.mark.parametrize("weight", TYPES)
def test_attention_of_bytes(weight):
    x, w, bias = whole(np.uint8, B, S, 16), seven_bits(whole(weight, 16, 3 * W)), floats(3 * W)
    one = [ONE(.01), ONE(.01), ENDS, np.uint8(7), weight(3)]
    check("QAttention", [x, w, bias, *one], (1, 2, 3, 4, 6, 7), num_heads=H)
    scales = RNG.uniform(.005, .01, 3 * W).astype(np.float32)
    check("QAttention", [x, w, bias, ONE(.01), scales, None, np.uint8(7), np.zeros(3 * W, weight)], (1, 2, 3, 4, 6, 7),
          num_heads=H, unidirectional=1)


def test_multi_head_attention():
    q, k, v, bias = floats(B, S, W), floats(B, 7, W), floats(B, 7, W), floats(3 * W)
    for arrays in ([q, k, v], [q, k, v, bias], [q, k, floats(B, 7, 16)], [q, floats(B, H, 7, D), floats(B, H, 7, D)],
                   [q, k, v, bias, (RNG.random((B, 7)) < .6).astype(np.int32)],
                   [q, k, v, bias, (RNG.random((B, S, 7)) < .6).astype(np.int32)],
                   [q, k, v, bias, np.int32([4, 7])], [q, k, v, None, None, floats(B, 1, S, 7)]):
        check("MultiHeadAttention", arrays, (3,), num_heads=H, scale=.2)
    q, k, v = (floats(B, S, W) for _ in range(3))
    check("MultiHeadAttention", [q, k, v], num_heads=H, unidirectional=1)
    past = [floats(B, H, 3, D), floats(B, H, 3, D)]
    check("MultiHeadAttention", [q, k, v, None, None, None, *past], (), ["y", "k", "v"], num_heads=H, unidirectional=1)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotations(interleaved):
    angles, places = floats(20, D // 2), RNG.integers(0, 20, (B, S))
    tables = [np.cos(angles), np.sin(angles)]
    for x, where, attrs in ((floats(B, S, W), places, {}), (floats(B, S, W), np.int64([3]), {}),
                            (floats(B, H, S, D), places, {}),
                            (floats(B, S, 24), places, {"num_heads": 2, "rotary_embedding_dim": D})):
        check("RotaryEmbedding", [x, where, *tables], (2, 3), interleaved=interleaved, **attrs)


@pytest.mark.parametrize("last", [[S - 1, S - 1], [S - 3, S - 1]])
@pytest.mark.parametrize("interleaved", [0, 1])
def test_group_query_attention(last, interleaved):
    angles = floats(20, 8)
    ends = [np.int32(last), np.int32([S])]
    check("GroupQueryAttention", [floats(B, S, 64), floats(B, S, 32), floats(B, S, 32), None, None, *ends,
                                  np.cos(angles), np.sin(angles)], (6, 7, 8), ["y", "k", "v"], num_heads=4,
          kv_num_heads=2, do_rotary=1, rotary_interleaved=interleaved)
    check("GroupQueryAttention", [floats(B, S, 128), None, None, None, None, *ends], (6,), ["y", "k", "v"], num_heads=4,
          kv_num_heads=2)


CACHE = 12  # rows of a buffer


@pytest.mark.parametrize("attrs", [{}, {"softcap": 3.0}, {"local_window_size": 3}, {"smooth_softmax": 1}],
                         ids=["plain", "softcap", "window", "smooth"])
@pytest.mark.parametrize("last", [[8, 8], [6, 9], [0, 11]])
def test_group_query_attention_of_several_sequences(last, attrs):
    """Each continues its own part of a buffer."""
    angles, total = floats(20, 8), max(last) + 1
    ends = [np.int32(last), np.int32([total])]
    arrays = [floats(B, 1, 64), floats(B, 1, 32), floats(B, 1, 32), floats(B, 2, CACHE, 16), floats(B, 2, CACHE, 16),
              *ends, np.cos(angles), np.sin(angles)]
    pytest.importorskip("onnxruntime")
    proto, feeds = one_node("GroupQueryAttention", arrays, (6, 7, 8), ("y", "k", "v"), num_heads=4, kv_num_heads=2,
                            do_rotary=1, **attrs)
    found, expected = run_both(proto, feeds)
    assert_same(found[:1], expected[:1], 1e-5, 1e-5)
    for a, b in zip(found[1:], expected[1:]):
        for sequence, end in enumerate(last):  # onnxruntime leaves the rows beyond as they were in memory
            assert_same([a[sequence, :, :end + 1]], [b[sequence, :, :end + 1]], 1e-5, 1e-5)
    if last != [8, 8]:
        return
    feeds["x5"] = np.int32([0, CACHE])
    with ingot.compile(proto, threads="none") as library, pytest.raises(NetworkError, match="out of range"):
        library.run(feeds)


@pytest.mark.parametrize("attrs", [{"softcap": 3.0}, {"local_window_size": 2}, {"smooth_softmax": 1}])
@pytest.mark.parametrize("batch", [1, B])
def test_group_query_attention_of_prompts(batch, attrs):
    ends = [np.int32([S - 1] * batch), np.int32([S])]
    check("GroupQueryAttention", [floats(batch, S, 64), floats(batch, S, 32), floats(batch, S, 32), None, None, *ends],
          (6,), num_heads=4, kv_num_heads=2, **attrs)


def test_group_query_attention_adds_a_bias_and_turns_by_positions():
    angles, ends = floats(20, 8), [np.int32([S - 1] * B), np.int32([S])]
    places, bias = np.tile(np.arange(4, S + 4), (B, 1)), floats(1, 4, S, S)
    qkv = [floats(B, S, 64), floats(B, S, 32), floats(B, S, 32), None, None]
    check("GroupQueryAttention", [*qkv, *ends, np.cos(angles), np.sin(angles), places], (6, 7, 8), num_heads=4,
          kv_num_heads=2, do_rotary=1)
    check("GroupQueryAttention", [*qkv, *ends, None, None, None, bias], (6,), num_heads=4, kv_num_heads=2)


def test_group_query_attention_refuses_growing_pasts_of_several_sequences():
    proto, _ = one_node("GroupQueryAttention", [floats(B, S, 64), floats(B, S, 32), floats(B, S, 32),
                                                floats(B, 2, 3, 16), floats(B, 2, 3, 16), np.int32([6, 6]),
                                                np.int32([7])], (6,), num_heads=4, kv_num_heads=2)
    for value in proto.graph.input[3:5]:
        value.type.tensor_type.shape.dim[2].dim_param = "past"
    with pytest.raises(OnnxImportError, match="a growing past of 2 sequences"):
        from_onnx(proto)
