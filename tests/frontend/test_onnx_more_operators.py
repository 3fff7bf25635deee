"""Operators of places, signals, images and norms against onnxruntime, or onnx's own reference where that has none."""
import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx_models import assert_same, check_node, model, one_node

from ingot.frontend.onnx import OnnxImportError, from_onnx
from ingot.ir.relax.evaluate import evaluate

RNG = np.random.default_rng(3)
X = RNG.standard_normal((3, 4, 5)).astype(np.float32)
IMAGE = RNG.standard_normal((2, 4, 7, 6)).astype(np.float32)


def check_reference(op, arrays, opset, constants=(), outputs=1, rtol=1e-5, atol=1e-6, **attrs):
    """Import a one-node model, evaluate it, and compare with onnx's reference."""
    proto = one_node(op, arrays, opset, constants, outputs, **attrs)
    feeds = {f"x{i}": a for i, a in enumerate(arrays) if a is not None and i not in constants}
    found = evaluate(from_onnx(proto), feeds)
    found = list(found) if isinstance(found, tuple) else [found]
    assert_same(found, ReferenceEvaluator(proto).run(None, feeds), rtol, atol)


def fails(op, arrays, opset, text, **kw):
    with pytest.raises(OnnxImportError, match=text):
        from_onnx(one_node(op, arrays, opset, **kw))


# ---------------------------------------------------------------- places

@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
def test_scatters(reduction):
    indices = RNG.permutation(15).reshape(3, 1, 5) % 4
    check_node("ScatterElements", [X, indices, X[:, :1] * 2], 18, axis=1, reduction=reduction)
    check_node("ScatterND", [X, np.int64([[0, 1], [2, -1]]), X[:2, 0] * 2], 18, reduction=reduction)


def test_gather_nd_and_reverse_sequence():
    check_node("GatherND", [X, np.int64([[[0], [-1]], [[1], [2]], [[3], [0]]])], 13, batch_dims=1)
    check_node("ReverseSequence", [X, np.int64([1, 4, 2])], 10, batch_axis=0, time_axis=1)
    check_node("ReverseSequence", [X, np.int64([1, 3, 2, 3])], 10, batch_axis=1, time_axis=0)
    fails("ReverseSequence", [X, np.int64([1, 3, 2])], 10, "must be 0 and 1", batch_axis=0, time_axis=2)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("constants", [(), (1,)])
def test_cumsum(axis, constants):
    for flags in ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}):
        check_node("CumSum", [X, np.array(axis)], 14, constants, **flags)
        check_reference("CumProd", [X, np.array(axis)], 26, constants, **flags)


@pytest.mark.parametrize("largest", [0, 1])
def test_top_k_hardmax_one_hot(largest):
    ties = RNG.integers(0, 4, (3, 4, 5)).astype(np.float32)
    check_node("TopK", [ties, np.int64([3])], 11, (1,), 2, axis=1, largest=largest)
    check_node("Hardmax", [ties], 13, axis=1)
    check_node("Hardmax", [ties], 11, axis=1)
    check_node("OneHot", [np.int64([[1, -2], [4, 9]]), np.int64(5), np.float32([2, 7])], 11, (1,), axis=largest)
    check_node("Det", [X[:, :, :4]], 11, rtol=1e-4)
    fails("TopK", [X, np.int64([9])], 11, "k=9", constants=(1,), outputs=2)


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_tensor_scatter(mode):
    cache, update = (RNG.standard_normal((2, 3, n, 4)).astype(np.float32) for n in (6, 2))
    check_reference("TensorScatter", [cache, update, np.int64([1, 5 if mode == "circular" else 4])], 24, mode=mode)
    check_reference("TensorScatter", [cache, update], 24, mode=mode)


# ---------------------------------------------------------------- bits, integers, modulo

@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_bit_shift(dtype, direction):
    x = RNG.integers(0, 200, 12).astype(dtype)
    check_node("BitShift", [x, RNG.integers(0, 8, 12).astype(dtype)], 11, direction=direction)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint64"])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_bit_shift_of_signed_and_too_far(dtype, direction):
    if onnx.defs.onnx_opset_version() < 28:
        pytest.skip("onnx knows no BitShift of signed numbers")
    x = RNG.integers(-100 if dtype[0] == "i" else 0, 100, 12).astype(dtype)
    by = np.array([0, 1, 3, 7, 8, 15, 31, 32, 63, 64, 100, 5]).astype(dtype)
    check_reference("BitShift", [x, by], 28, direction=direction)
    if dtype[0] == "i":
        check_reference("BitShift", [x, -by], 28, direction=direction)


def test_bitwise_and_bit_cast():
    a, b = RNG.integers(-100, 100, (2, 8)).astype(np.int16)
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        check_node(op, [a, b], 18)
    check_node("BitwiseNot", [a], 18)
    check_reference("BitCast", [X], 26, to=6)
    check_reference("BitCast", [np.float16([1.5, -2, np.inf])], 26, to=4)
    fails("BitCast", [X], 26, "float32 of 32 bits has no int8", to=3)


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64", "uint8"])
def test_mod(dtype):
    a, b = RNG.integers(-20, 20, 12), RNG.integers(1, 6, 12) * RNG.choice([-1, 1], 12)
    a, b = (np.abs(v) if dtype == "uint8" else v for v in (a, b))
    check_reference("Mod", [a.astype(dtype), b.astype(dtype)], min(28, onnx.defs.onnx_opset_version()))
    check_node("Mod", [a.astype(dtype), b.astype(dtype)], 13, fmod=1)


@pytest.mark.parametrize("attrs", [{"broadcast": 1}, {"broadcast": 1, "axis": 1}, {"broadcast": 1, "axis": 0}])
@pytest.mark.parametrize("op, function", [("Add", np.add), ("Div", np.divide), ("Pow", np.power)])
def test_broadcasting_of_old_opsets(op, function, attrs):
    """Opsets below 7 broadcast by attributes; onnxruntime does not run them."""
    x = np.abs(X)
    axis = attrs.get("axis", 2)
    y = np.abs(RNG.standard_normal(x.shape[axis:axis + 1])).astype(np.float32) + 1
    found = evaluate(from_onnx(one_node(op, [x, y], 6, **attrs)), [x, y])
    shape = [-1 if k == axis else 1 for k in range(3)]
    np.testing.assert_allclose(found, function(x, y.reshape(shape)), rtol=1e-5)
    fails(op, [x, y], 6, "attribute broadcast is 0")


# ---------------------------------------------------------------- signals

@pytest.mark.parametrize("inverse, onesided", [(0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("length", [None, 3, 8])
def test_dft(inverse, onesided, axis, length):
    x = RNG.standard_normal((2, 5, 6, 1 if onesided else 2)).astype(np.float32)
    arrays = [x] + ([np.int64(length)] if length else [])
    check_reference("DFT", arrays, 17, (1,), axis=axis, inverse=inverse, onesided=onesided, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("given", ["none", "constant", "data"])
@pytest.mark.parametrize("onesided", [0, 1])
def test_stft(given, onesided):
    x = RNG.standard_normal((2, 40, 1)).astype(np.float32)
    window = None if given == "none" else np.hanning(16).astype(np.float32)
    arrays = [x, np.int64(5), window, np.int64(16)]
    constants = (1, 2, 3) if given == "constant" else (1, 3)
    check_node("STFT", arrays, 17, constants, onesided=onesided, rtol=1e-4, atol=1e-4)


def test_windows_and_mel_matrix():
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        for periodic in (0, 1):
            proto = one_node(op, [np.int64(9)], 17, (0,), periodic=periodic)
            assert_same([evaluate(from_onnx(proto), {})], ReferenceEvaluator(proto).run(None, {}), atol=1e-6)
    numbers = [np.int64(8), np.int64(64), np.int64(8192), np.float32(0), np.float32(4000)]
    proto = one_node("MelWeightMatrix", numbers, 17, range(5))
    assert_same([evaluate(from_onnx(proto), {})], ReferenceEvaluator(proto).run(None, {}))


# ---------------------------------------------------------------- images

@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_grid_sample(mode, padding, corners):
    grid = (RNG.random((2, 5, 4, 2)) * 3 - 1.5).astype(np.float32)
    check_node("GridSample", [IMAGE, grid], 16, mode=mode, padding_mode=padding, align_corners=corners, rtol=1e-3,
               atol=1e-4)


@pytest.mark.parametrize("size", [(2, 3, 4, 5), (1, 2, 3, 4, 2)])
@pytest.mark.parametrize("corners", [0, 1])
def test_affine_grid(size, corners):
    rank = len(size) - 2
    theta = RNG.standard_normal((size[0], rank, rank + 1)).astype(np.float32)
    check_reference("AffineGrid", [theta, np.int64(size)], 20, (1,), align_corners=corners)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("opset", [10, 16])
def test_roi_align(mode, opset):
    rois = np.float32([[0, 0, 5, 4], [1.3, 2, 3.1, 6], [4, 3, 4.5, 3.2]])
    if mode == "max":
        check_reference("RoiAlign", [IMAGE, rois, np.int64([0, 1, 1])], 16, mode=mode, output_height=2, output_width=3,
                        sampling_ratio=2, rtol=1e-4, atol=1e-5)
    else:
        for ratio in (0, 2):
            check_node("RoiAlign", [IMAGE, rois, np.int64([0, 1, 1])], opset, mode=mode, output_height=2,
                       output_width=3, sampling_ratio=ratio, spatial_scale=0.7, rtol=1e-4, atol=1e-5)


def test_max_roi_pool():
    rois = np.float32([[0, 0, 0, 5, 4], [1, 1.3, 2, 3.1, 6], [1, 4, 3, 4, 3]])
    check_node("MaxRoiPool", [IMAGE, rois], 7, pooled_shape=[2, 3], spatial_scale=0.9)


def test_deform_conv():
    x, w = IMAGE, RNG.standard_normal((6, 2, 2, 2)).astype(np.float32)
    offset = RNG.standard_normal((2, 16, 6, 5)).astype(np.float32)
    mask = RNG.random((2, 8, 6, 5)).astype(np.float32)
    bias = RNG.standard_normal(6).astype(np.float32)
    for arrays in ([x, w, offset], [x, w, offset, bias], [x, w, offset, bias, mask]):
        check_reference("DeformConv", arrays, 19, group=2, offset_group=2, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("storage", [0, 1])
@pytest.mark.parametrize("attrs", [{"strides": [2, 2]}, {"pads": [1, 0, 0, 1], "dilations": [2, 1]}, {"ceil_mode": 1,
                                                                                                  "strides": [2, 3]}])
def test_max_pool_with_indices(storage, attrs):
    ties = RNG.integers(0, 9, IMAGE.shape).astype(np.float32)
    check_node("MaxPool", [ties], 12, outputs=2, kernel_shape=[2, 3], storage_order=storage, **attrs)


def test_max_unpool_and_col2im():
    pooled = RNG.standard_normal((1, 2, 2, 2)).astype(np.float32)
    places = np.int64([0, 3, 9, 14, 17, 19, 24, 31]).reshape(1, 2, 2, 2)
    check_node("MaxUnpool", [pooled, places], 11, kernel_shape=[2, 2], strides=[2, 2])
    check_reference("MaxUnpool", [pooled, places, np.int64([1, 2, 5, 6])], 11, (2,), kernel_shape=[2, 2],
                    strides=[2, 2])
    columns = RNG.standard_normal((2, 12, 12)).astype(np.float32)
    check_node("Col2Im", [columns, np.int64([4, 5]), np.int64([2, 2])], 18, (1, 2))


@pytest.mark.parametrize("shape", [[5, 6], [9, 9], [8, 3]])
def test_center_crop_pad(shape):
    check_node("CenterCropPad", [IMAGE, np.int64(shape)], 18, (1,), axes=[2, 3])


# ---------------------------------------------------------------- norms

@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pools(p):
    check_node("GlobalLpPool", [IMAGE], 7, p=p)
    check_node("LpPool", [IMAGE], 18, p=p, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], rtol=1e-4)
    if p < 3:
        check_node("LpNormalization", [X], 7, p=p, axis=1)


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("outputs", [1, 3])
def test_layer_and_rms_norm(axis, outputs):
    shape = X.shape[axis:]
    scale, bias = RNG.standard_normal((2, *shape)).astype(np.float32)
    check_node("LayerNormalization", [X, scale, bias], 17, outputs=outputs, axis=axis, rtol=1e-4, atol=1e-5)
    check_node("LayerNormalization", [X, scale], 17, outputs=outputs, axis=axis, rtol=1e-4, atol=1e-5)
    check_reference("RMSNormalization", [X, scale], 23, axis=axis)


def test_batch_norm_in_training():
    moments = [RNG.random(4).astype(np.float32) + 0.5 for _ in range(4)]
    check_node("BatchNormalization", [IMAGE, *moments], 15, outputs=3, training_mode=1, momentum=0.7, rtol=1e-4)


# ---------------------------------------------------------------- einsum

@pytest.mark.parametrize("equation, shapes", [
    ("ij->ji", [(3, 4)]), ("ij->", [(3, 4)]), ("ii->i", [(4, 4)]), ("iji->j", [(4, 3, 4)]), ("...ii->...", [(2, 3, 3)]),
    ("ij,jk", [(3, 4), (4, 5)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]), ("i,j->ij", [(3,), (4,)]),
    ("bhid,bhjd->bhij", [(2, 2, 3, 4), (2, 2, 5, 4)]), ("...ij,jk->...ik", [(2, 3, 4), (4, 5)]), ("i,i", [(5,), (5,)]),
    ("ij,j,ik->k", [(3, 4), (4,), (3, 5)]), ("abc,cd->dab", [(2, 3, 4), (4, 5)]), ("ij,kj->i", [(3, 4), (2, 4)]),
    ("bij,bij->b", [(2, 3, 4), (2, 3, 4)]), ("...i,...i->...", [(2, 1, 4), (3, 4)])])
def test_einsum(equation, shapes):
    arrays = [RNG.standard_normal(s).astype(np.float32) for s in shapes]
    check_reference("Einsum", arrays, 12, equation=equation, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("equation, text", [
    ("ij,jk->ik", "has 2 operands"), ("ijk->i", "does not fit an operand of 2"), ("ij->ii", "names a label twice"),
    ("ij->k", "is in no operand"), ("i$->i", "is none"), ("ii->i", "is there twice")])
def test_einsum_refuses(equation, text):
    fails("Einsum", [X[0]], 12, text, equation=equation)


# ---------------------------------------------------------------- functions of the standard, casts

def test_functions_of_the_standard_keep_symbolic_dimensions():
    node = helper.make_node("RotaryEmbedding", ["x", "c", "s"], ["y"], num_heads=2)
    proto = model([node], {"x": ["batch", 6, 8], "c": ["batch", 6, 2], "s": ["batch", 6, 2]}, ["y"], 23)
    x, c, s = (RNG.standard_normal(d).astype(np.float32) for d in ((3, 6, 8), (3, 6, 2), (3, 6, 2)))
    assert_same([evaluate(from_onnx(proto), [x, c, s])], ReferenceEvaluator(proto).run(None, {"x": x, "c": c, "s": s}))


@pytest.mark.parametrize("op, arrays", [
    ("SoftmaxCrossEntropyLoss", [X[0], np.int64([0, 4, 2, 1])]),
    ("NegativeLogLikelihoodLoss", [X[0], np.int64([0, 4, 2, 1])]),
    ("MeanVarianceNormalization", [IMAGE]), ("DynamicQuantizeLinear", [X])])
def test_functions_of_the_standard(op, arrays):
    outputs = 3 if op == "DynamicQuantizeLinear" else 1
    check_node(op, arrays, 13, outputs=outputs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT8E4M3FNUZ", "FLOAT8E5M2FNUZ", "INT4", "UINT4",
                                   "BFLOAT16", "FLOAT4E2M1", "INT2", "UINT2"])
def test_cast_there_and_back(dtype):
    number = getattr(onnx.TensorProto, dtype, None)
    if number is None:
        pytest.skip(f"onnx knows no {dtype}")
    x = np.float32([0, 1, -1, 2.4, 3, -2, 1.7] if "INT" in dtype else [0.3, 500, -1e6, np.inf, np.nan, 6, -7.4, 1e-3])
    x = np.abs(x) if dtype.startswith("UINT") else np.clip(x, -2, 1) if dtype == "INT2" else x
    x = np.where(np.isnan(x), 0, x) if dtype == "FLOAT4E2M1" else x
    nodes = [helper.make_node("Cast", ["x"], ["t"], to=number), helper.make_node("Cast", ["t"], ["y"], to=1)]
    proto = model(nodes, {"x": list(x.shape)}, ["y"], min(25, onnx.defs.onnx_opset_version()))
    assert_same([evaluate(from_onnx(proto), [x])], ReferenceEvaluator(proto).run(None, {"x": x}))


# ---------------------------------------------------------------- random numbers

def drawn(op, arrays, opset=22, constants=(), outputs=1, **attrs):
    proto = one_node(op, arrays, opset, constants, outputs, **attrs)
    return evaluate(from_onnx(proto), [a for k, a in enumerate(arrays) if k not in constants])


def test_random_numbers_follow_the_seed():
    a, b, c = (drawn("RandomUniform", [], shape=[50, 20], seed=s, low=2.0, high=5.0) for s in (1.0, 1.0, 2.0))
    assert np.array_equal(a, b) and not np.array_equal(a, c)
    assert a.dtype == np.float32 and a.min() >= 2 and a.max() < 5 and abs(a.mean() - 3.5) < 0.1
    like = drawn("RandomNormalLike", [X.astype(np.float64)], seed=1.0)
    assert like.dtype == np.float64 and like.shape == X.shape


def test_bernoulli_and_multinomial():
    chance = np.repeat(np.float32([0, 0.25, 1]), 4000).reshape(3, 4000)
    found = drawn("Bernoulli", [chance], dtype=6)
    assert found.dtype == np.int32 and found[0].max() == 0 and found[2].min() == 1
    assert abs(found[1].mean() - 0.25) < 0.03
    classes = drawn("Multinomial", [np.log(np.float32([[0.1, 0.6, 0.3], [1e-9, 1e-9, 1]]))], sample_size=4000, dtype=7)
    assert classes.dtype == np.int64 and np.all(classes[1] == 2)
    np.testing.assert_allclose(np.bincount(classes[0], minlength=3) / 4000, [0.1, 0.6, 0.3], atol=0.03)


def test_dropout_in_training():
    x = np.ones((100, 50), np.float32)
    y, mask = drawn("Dropout", [x, np.float32(0.25), np.array(True)], 22, (1, 2), 2, seed=5)
    assert abs(mask.mean() - 0.75) < 0.03
    np.testing.assert_allclose(y, np.where(mask, 1 / 0.75, 0), rtol=1e-6)
    y, mask = drawn("Dropout", [x, np.float32(0), np.array(True)], 22, (1, 2), 2)
    assert mask.all() and np.array_equal(x, y)
