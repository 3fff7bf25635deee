"""Resize and Upsample against onnxruntime, and what they refuse."""
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_models import assert_same, check_node, model, one_node, run_both

import ingot
from ingot.frontend.onnx import OnnxImportError, from_onnx
from ingot.ir.relax.evaluate import evaluate

pytest.importorskip("onnxruntime")

IMAGE = np.random.default_rng(5).standard_normal((2, 3, 7, 10)).astype(np.float32)
SIZES = [(14, 20), (5, 3), (1, 13), (9, 25)]
SCALES = [(2, 2), (1.5, .5), (.3, 3.3)]
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
TRANSFORMS = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]


def by_sizes(sizes, opset=13, image=IMAGE, **attrs):
    sizes = np.array([*image.shape[:2], *sizes], np.int64)
    check_node("Resize", [image, None, None, sizes], opset, constants=(3,), atol=2e-5, **attrs)


def by_scales(scales, opset=13, image=IMAGE, **attrs):
    scales = np.array([1, 1, *scales], np.float32)
    check_node("Resize", [image, None, scales], opset, constants=(2,), atol=2e-5, **attrs)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_interpolation(mode, transform):
    """Scales whose results are no whole sizes place pixels by the scale, not by the ratio of sizes."""
    for sizes in SIZES:
        by_sizes(sizes, mode=mode, coordinate_transformation_mode=transform)
    for scales in SCALES:
        by_scales(scales, mode=mode, coordinate_transformation_mode=transform)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_nearest(transform, rounding):
    attrs = dict(mode="nearest", coordinate_transformation_mode=transform, nearest_mode=rounding)
    for sizes in SIZES:
        by_sizes(sizes, **attrs)
    for scales in SCALES:
        by_scales(scales, **attrs)


# (transform, rounding, size, size of the result, scale): places that float32 and integers round differently
TIES = [("half_pixel", "floor", 7, 1, None), ("asymmetric", "round_prefer_ceil", 18, 2, 0.13333334),
        ("asymmetric", "round_prefer_floor", 16, 74, 4.6666665), ("half_pixel", "round_prefer_ceil", 50, 15, 0.3),
        ("half_pixel", "round_prefer_floor", 20, 42, 2.1),
        ("pytorch_half_pixel", "round_prefer_ceil", 28, 57, 2.0357144),
        ("asymmetric", "floor", 33, 33, 1.0263158), ("align_corners", "floor", 31, 47, None)]


def random_places(count):
    """Sizes and scales, half of these ratios of small numbers, which make ties."""
    rng = np.random.default_rng(11)
    while count:
        size, transform, rounding = int(rng.integers(1, 60)), str(rng.choice(TRANSFORMS)), str(rng.choice(ROUNDINGS))
        out, scale = int(rng.integers(1, 150)), None
        if rng.random() < 0.6:
            ratio = rng.integers(1, 40) / rng.integers(1, 40) if rng.random() < 0.5 else rng.random() * 4 + 0.1
            scale = np.float32(ratio)
            out = int(np.floor(np.float32(size) * scale))
        if out:
            count -= 1
            yield transform, rounding, size, out, scale


def places_model(places):
    """A network of one Resize of a row for each of `places`, whose values are the places of their own."""
    nodes, weights, feeds = [], {}, {}
    for n, (transform, rounding, size, out, scale) in enumerate(places):
        feeds[f"x{n}"] = np.arange(size, dtype=np.float32).reshape(1, 1, size)
        weights[f"w{n}"] = np.array([1, 1, out]) if scale is None else np.array([1, 1, scale], np.float32)
        inputs = [f"x{n}", "", *([""] if scale is None else []), f"w{n}"]
        nodes.append(onnx.helper.make_node("Resize", inputs, [f"y{n}"], mode="nearest", nearest_mode=rounding,
                                           coordinate_transformation_mode=transform))
    shapes = {k: list(v.shape) for k, v in feeds.items()}
    return model(nodes, shapes, [f"y{n}" for n in range(len(nodes))], 13, weights), feeds


def test_nearest_rounds_as_float32_does():
    places = [*TIES, *random_places(600)]
    proto, feeds = places_model(places)
    found, expected = run_both(proto, feeds)
    for place, a, b in zip(places, found, expected):
        np.testing.assert_array_equal(a, b, str(place))


@pytest.mark.parametrize("target", ["host", "c"])
def test_compiled_nearest_rounds_as_float32_does(target):
    places = [*TIES, *random_places(20)]
    proto, feeds = places_model(places)
    expected = run_both(proto, feeds)[1]
    with ingot.compile(proto, target=target, threads="none") as library:
        found = library.run(feeds)
    for n, (place, want) in enumerate(zip(places, expected)):
        np.testing.assert_array_equal(found[f"y{n}"], want, str(place))


def test_other_opsets_and_attributes():
    empty = np.zeros(0, np.float32)  # opset 11 wants all of its inputs
    check_node("Resize", [IMAGE, empty, np.array([1, 1, 2, 1.5], np.float32)], 11, constants=(1, 2), mode="linear")
    check_node("Resize", [IMAGE, empty, empty, np.array([2, 3, 9, 4])], 11, constants=(1, 2, 3), atol=2e-5,
               mode="cubic", cubic_coeff_a=-0.5)
    by_sizes((9, 4), 18, mode="linear")
    by_sizes((14, 5), 19, mode="linear", coordinate_transformation_mode="half_pixel_symmetric")
    by_scales((2, 3.3), 19, mode="linear", coordinate_transformation_mode="half_pixel_symmetric")
    check_node("Resize", [IMAGE, np.array([1, 1, 2, 3], np.float32)], 10, constants=(1,), mode="nearest")
    check_node("Upsample", [IMAGE, np.array([1, 1, 2, 3], np.float32)], 9, constants=(1,), mode="linear")
    sizes = np.array([12, 8], np.int64)
    check_node("Resize", [IMAGE, None, None, sizes], 18, constants=(3,), symbolic=False, axes=[3, 2], mode="nearest")


def test_shapes_and_dtypes():
    by_sizes((5,), image=IMAGE[:, :, 0], mode="linear")
    by_scales((2,), image=IMAGE[:, :, 0], mode="nearest")
    by_sizes((9, 4), image=(IMAGE * 50).astype(np.int8), mode="nearest", coordinate_transformation_mode="asymmetric")
    check_node("Resize", [IMAGE, None, np.array([1, 1, 2, 2], np.float32)], 13, constants=(2,), symbolic=True)


@pytest.mark.parametrize("scales", [(.6, .5), (1, .3), (2, 1), (3, 1.5)])
def test_nearest_of_opset_10(scales):
    """It rounds up where it shrinks."""
    check_node("Resize", [IMAGE, np.array([1, 1, *scales], np.float32)], 10, constants=(1,), mode="nearest")


def test_opset_10_refuses_both_at_once():
    proto = one_node("Resize", [IMAGE, np.array([1, 1, 2, .5], np.float32)], 10, constants=(1,), mode="nearest")
    with pytest.raises(OnnxImportError, match="enlarge one axis and shrink another .* convert the model to opset 11"):
        from_onnx(proto)


def test_sizes_made_of_a_symbolic_batch():
    """Exporters write an interpolation to a given size as the batch and channels of the shape, and constants."""
    nodes = [onnx.helper.make_node(op, inputs, [output], **attrs) for op, inputs, output, attrs in (
        ("Shape", ["x"], "shape", {}), ("Slice", ["shape", "from", "to"], "front", {}),
        ("Concat", ["front", "size"], "sizes", {"axis": 0}),
        ("Resize", ["x", "", "", "sizes"], "y", {"mode": "linear"}))]
    weights = {"from": np.array([0]), "to": np.array([2]), "size": np.array([9, 4])}
    proto = model(nodes, {"x": ["batch", *IMAGE.shape[1:]]}, ["y"], 13, weights)
    found, expected = run_both(proto, {"x": IMAGE})
    assert_same(found, expected, atol=1e-5)
    proto = model(nodes, {"x": ["batch", 3, "h", 10]}, ["y"], 13, weights)
    found, expected = run_both(proto, {"x": IMAGE})
    assert_same(found, expected, atol=1e-5)


def test_what_stays_as_it_is():
    proto = one_node("Resize", [IMAGE, None, np.ones(4, np.float32)], 13, constants=(2,), mode="cubic")
    assert "resize2d" not in from_onnx(proto).script()


def scaled(*values):
    return [None, np.array(values, np.float32)]


@pytest.mark.parametrize("inputs, attrs, message", [
    ([], {}, "needs either scales or sizes"),
    ([*scaled(1, 1, 2, 2), np.array([2, 3, 7, 10])], {}, "needs either scales or sizes"),
    (scaled(1, 1, 2), {}, "has 3 scales for 4 axes"),
    (scaled(1, 1, 0, 2), {}, r"scales \(1.0, 1.0, 0.0, 2.0\) must be positive"),
    (scaled(1, 1, .01, 2), {}, r"nothing would be left of \(7, 10\): scales"),
    (scaled(1, 1, 1e6, 2), {}, "scales .* must be none, or 2 numbers of 1/4096 to 4096"),
    ([None, None, np.array([2, 3, 0, 9])], {}, r"nothing would be left of \(7, 10\): sizes \(0, 9\)"),
    (scaled(1, 1, 2, 2), {"coordinate_transformation_mode": "tf_crop_and_resize"}, "roi must hold the start and"),
])
def test_what_is_refused(inputs, attrs, message):
    proto = one_node("Resize", [IMAGE, *inputs], 19, constants=(2, 3), **attrs)
    with pytest.raises(OnnxImportError, match=message) as error:
        from_onnx(proto)
    assert "the_node" in str(error.value) and "[2, 3, 7, 10]" in str(error.value)


# ---------------------------------------------------------------- what needs places and weights of any axes

def check_standard(x, opset=19, axes=None, roi=None, **attrs):
    """Against onnx's reference. attrs: scales or sizes, and attributes."""
    given = [attrs.pop(k, None) for k in ("scales", "sizes")]
    arrays = [x, None if roi is None else np.float32(roi), None if given[0] is None else np.float32(given[0]),
              None if given[1] is None else np.int64(given[1])]
    arrays = arrays if given[1] is not None else arrays[:3]
    proto = one_node("Resize", arrays, opset, (1, 2, 3), **({} if axes is None else {"axes": axes}), **attrs)
    assert_same([evaluate(from_onnx(proto), [x])], ReferenceEvaluator(proto).run(None, {"x0": x}), 1e-4, 1e-5)


VOLUME = np.random.default_rng(1).standard_normal((2, 3, 5, 6, 4)).astype(np.float32)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("attrs", [{"scales": [1, 1, 0.6, 0.7]}, {"sizes": [2, 3, 3, 9]}, {"scales": [1, 1, 2.3, 0.4]}])
@pytest.mark.parametrize("flags", [{"antialias": 1}, {"exclude_outside": 1}, {"antialias": 1, "exclude_outside": 1}])
def test_antialias_and_exclude_outside(mode, attrs, flags):
    check_standard(VOLUME[..., 0], mode=mode, **attrs, **flags)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("axes, sizes", [((1, 2), (6, 2)), ((2, 3, 4), (7, 3, 6)), ((0,), (5,))])
def test_any_axes(mode, axes, sizes):
    """Channels last, three spatial axes, and the batch."""
    check_standard(VOLUME, axes=axes, sizes=sizes, mode=mode)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_keep_aspect_ratio(mode, policy):
    check_standard(VOLUME[..., 0], axes=(2, 3), sizes=(8, 7), mode=mode, keep_aspect_ratio_policy=policy)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("roi", [(0.2, 0.1, 0.9, 0.8), (-0.2, 0.4, 1.3, 0.73), (0.9, 0.9, 0.1, 0.2)])
def test_crop_and_resize(mode, roi):
    check_standard(VOLUME[..., 0], axes=(2, 3), sizes=(4, 3), roi=roi, mode=mode, extrapolation_value=7.0,
                   coordinate_transformation_mode="tf_crop_and_resize")


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_scales_that_give_no_whole_sizes(mode):
    check_standard(VOLUME[..., 0], scales=(1, 1, 0.7, 1.4), mode=mode,
                   coordinate_transformation_mode="half_pixel_symmetric")
