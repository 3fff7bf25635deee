"""Operands that only a run knows: axes, numbers, pads, scales. The shapes that the model declares tell some of them."""
import subprocess

import numpy as np
import pytest
from c_build import STRICT
from networks import onnxruntime_outputs
from onnx import helper
from value_target import value_target

import ingot
from ingot.frontend.onnx import OnnxImportError, from_onnx
from ingot.ir.relax.evaluate import EvaluationError, evaluate
from ingot.ir.relax.verifier import verify
from ingot.runtime.binding import NetworkError

DIM = -5  # INGOT_ERR_DIM
X = np.random.default_rng(1).normal(size=(3, 2, 2, 5)).astype(np.float32)
node, info = helper.make_node, helper.make_tensor_value_info


def one(op, arrays, shapes, opset=21, kinds=None, **attrs):
    """A model of one node whose inputs, None for absent ones, are all inputs of the graph. shapes: of its outputs, as
    the model declares them."""
    feeds = {f"x{k}": np.asarray(a) for k, a in enumerate(arrays) if a is not None}
    kind = {k: helper.np_dtype_to_tensor_dtype(v.dtype) for k, v in feeds.items()}
    outs = [f"y{k}" for k in range(len(shapes))]
    made = node(op, ["" if a is None else f"x{k}" for k, a in enumerate(arrays)], outs, name="the_node", **attrs)
    graph = helper.make_graph([made], "g", [info(k, kind[k], list(v.shape)) for k, v in feeds.items()],
                              [info(o, (kinds or {}).get(o, kind["x0"]), s) for o, s in zip(outs, shapes)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), feeds


def runs(op, arrays, shapes, others=(), refused=(), bounds=None, expected=None, **attrs):
    """The network gives what onnxruntime gives, also with `others` in place of some operands, {index: array}, and
    refuses those of `refused` with a status."""
    proto, feeds = one(op, arrays, shapes, **attrs)
    mod = verify(from_onnx(proto, bounds=bounds))
    with ingot.compile(proto, value_target(), threads="none", bounds=bounds) as library:
        for change in ({}, *others):
            given = {**feeds, **{f"x{k}": np.asarray(v, feeds[f"x{k}"].dtype) for k, v in change.items()}}
            found = library.run(given)
            wanted = onnxruntime_outputs(proto, given) if expected is None else expected
            reference = evaluate(mod, given)
            reference = reference if isinstance(reference, tuple) else (reference,)
            for out, want, other in zip(proto.graph.output, wanted, reference):
                for got in (found[out.name], other):
                    assert got.shape == want.shape and got.dtype == want.dtype
                    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        for change in refused:
            given = {**feeds, **{f"x{k}": np.asarray(v, feeds[f"x{k}"].dtype) for k, v in change.items()}}
            with pytest.raises(NetworkError) as caught:
                library.run(given)
            assert caught.value.status == DIM
            with pytest.raises(EvaluationError, match="the run decides that"):
                evaluate(mod, given)


INT = 7  # TensorProto.INT64


@pytest.mark.parametrize("op, axes, shape, others, refused", [
    ("ReduceSum", [0], [2, 2, 5], [[-4]], [[1], [4], [-5], [1 << 40]]),
    ("ReduceMean", [1, 3], [3, 2], [[3, 1], [-1, 2], [2, 3]], [[3, 3], [0, 1]]),  # either axis of 2 elements
    ("ReduceMax", [0, 1], [2, 5], [[-2, 0]], [[0, 0], [1, 2]]),
    ("ReduceLogSumExp", [3], [3, 2, 2], [[-1]], [[0]]),
    ("Unsqueeze", [0, 2], [1, 3, 1, 2, 2, 5], [[2, -6]], [[0, 1], [0, 0]])])
def test_axes_that_declared_shapes_tell(op, axes, shape, others, refused):
    """In any order, negative ones too; a run with others is refused, and where several fit the run selects."""
    attrs = {} if op == "Unsqueeze" else {"keepdims": 0}
    runs(op, [X, axes], [shape], [{1: a} for a in others], [{1: a} for a in refused], **attrs)


def test_axes_of_no_elements():
    """None at all: the declared extent 0 is meant."""
    runs("ReduceSum", [X, np.zeros(0, np.int64)], [[1, 1, 1, 1]])
    runs("ReduceSum", [X, np.zeros(0, np.int64)], [[3, 2, 2, 5]], noop_with_empty_axes=1)


def test_squeezed_axes_that_declared_shapes_tell():
    x = X.reshape(1, 1, 3, 20)
    runs("Squeeze", [x, [1]], [[1, 3, 20]], [{1: [0]}, {1: [-3]}, {1: [-4]}], [{1: [2]}, {1: [-1]}, {1: [4]}])


@pytest.mark.parametrize("op, arrays, shapes, others, refused, attrs", [
    ("TopK", [X, [2]], [[3, 2, 2, 2]] * 2, (), [{1: [3]}, {1: [-1]}, {1: [0]}], {"kinds": {"y1": INT}}),
    ("OneHot", [np.array([0, 3, -1, 9]), np.array(5.0, np.float32), np.float32([0, 2])], [[4, 5]], (), [{1: 4}, {1: 6}],
     {"kinds": {"y0": 1}}),
    ("Split", [X, [1, 3, 1]], [[3, 2, 2, n] for n in (1, 3, 1)], (), [{1: [1, 1, 3]}, {1: [3, 1, 1]}], {"axis": 3}),
    ("CenterCropPad", [X, [4, 2]], [[3, 2, 4, 2]], (), [{1: [4, 3]}], {"axes": [2, -1]}),
    ("Resize", [X, None, None, [3, 2, 4, 3]], [[3, 2, 4, 3]], (), [{3: [3, 2, 3, 4]}], {"mode": "linear"}),
    ("DFT", [X[..., :1], np.array(2), np.array(1)], [[3, 2, 2, 2]], [{2: 2}, {2: -2}], [{1: 3}, {2: 0}, {2: 3}], {})])
def test_numbers_that_declared_shapes_tell(op, arrays, shapes, others, refused, attrs):
    if op == "CenterCropPad":  # onnxruntime expands it wrongly where one axis is cropped and another padded
        wide = np.pad(X, [(0, 0), (0, 0), (1, 1), (0, 0)])[..., 1:3]
        attrs = {**attrs, "expected": [wide]}
    runs(op, arrays, shapes, others, refused, **attrs)


@pytest.mark.parametrize("mode, pads", [
    ("constant", [0, 1, 2, 0]), ("constant", [-1, 1, 2, 2]), ("edge", [-1, 3, 0, 0]), ("reflect", [0, 2, 1, 1]),
    ("reflect", [1, -1, 0, 4]), ("wrap", [2, 0, 1, 3]), ("wrap", [-1, 4, 1, -1])])
def test_pads(mode, pads):
    """As numpy has them, after negative ones crop; with dimensions that the run decides, and with declared ones."""
    x = X[:, 0, 0]
    before, after = np.array(pads).reshape(2, 2)
    part = x[max(-before[0], 0):3 - max(-after[0], 0), max(-before[1], 0):5 - max(-after[1], 0)]
    rows = [(max(b, 0), max(a, 0)) for b, a in zip(before, after)]
    want = np.pad(part, rows, mode=mode, **({"constant_values": 2.5} if mode == "constant" else {}))
    arrays = [x, pads, np.float32(2.5)]
    runs("Pad", arrays, [["a", "b"]], expected=[want], bounds={"y0_d0": 9, "y0_d1": 9}, mode=mode,
         refused=[{1: [9, 9, 9, 9]}, {1: [-4, 0, 0, 0]}, {1: [1 << 62, 0, 1 << 62, 0]}])
    runs("Pad", arrays, [list(want.shape)], expected=[want], mode=mode, refused=[{1: [5, 5, 5, 5]}])
    swapped = [*arrays[:1], np.array(pads)[[1, 0, 3, 2]], arrays[2], np.array([-1, 0])]
    runs("Pad", swapped, [list(want.shape)], expected=[want], mode=mode,
         refused=[{3: [1, 1]}, {3: [1, 2]}, {3: [-3, 1]}])


@pytest.mark.parametrize("starts, ends, axes, steps", [
    ([0, 1], [3, 9], [0, 3], [1, 2]), ([-1, 20], [-99, -99], [3, 0], [-2, -1]), ([4, 0], [1, 2], [-1, -3], [-1, 1]),
    ([1, 2], [1, 9], [3, 0], [1, 1]), ([0, 0], [9, 9], [0, 1], [1 << 62, -(1 << 62)])])
def test_slices(starts, ends, axes, steps):
    """Axes and steps, too; also slices of nothing."""
    arrays = [X, *map(np.array, (starts, ends, axes, steps))]
    proto, feeds = one("Slice", arrays, [list("abcd")])
    want, = onnxruntime_outputs(proto, feeds)
    bounds = {f"y0_d{k}": n for k, n in enumerate(X.shape)}
    runs("Slice", arrays, [list("abcd")], bounds=bounds, expected=[want],
         refused=[{4: [1, 0]}, {3: [2, 2]}, {3: [0, 4]}, {3: [-5, 0]}])
    if want.size:
        runs("Slice", arrays, [list(want.shape)], expected=[want],
             refused=[{1: [0] * 2, 2: [99] * 2, 4: [1] * 2}] if want.shape != X.shape else ())


def test_values_that_nothing_tells_are_refused():
    for shape, message in ((None, "axes depends on data; make it an initializer"),
                           ([7, 7], "no value gives results of the declared shapes"),
                           (["a", "b", "c"], "4 values give results")):
        with pytest.raises(OnnxImportError, match=f'the_node.*{message}'):
            from_onnx(one("ReduceSum", [X, [1]], [shape], keepdims=0)[0])


IMAGE = np.random.default_rng(2).normal(size=(1, 2, 6, 8)).astype(np.float32)


@pytest.mark.parametrize("attrs, scales, refused", [
    ({"mode": "linear"}, [1, 1, 1.7, 0.6], [[1, 1, 1.6, 0.4], [1, 1, np.nan, 0.6], [1, 1, -1.7, 0.6]]),
    ({"mode": "linear", "coordinate_transformation_mode": "align_corners"}, [1, 1, 2, 0.5], [[1, 1, 2.01, 0.5]]),
    ({"mode": "nearest"}, [1, 1, 1.7, 0.6], [[1, 1, np.inf, 1]]),
    ({"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "ceil"}, [1, 1, 0.5, 3], []),
    ({"mode": "cubic", "coordinate_transformation_mode": "pytorch_half_pixel"}, [1, 1, 0.2, 1.3], []),
    ({"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5}, [1, 1, 1.3, 1.3], []),
    ({"mode": "linear", "antialias": 1}, [1, 1, 0.6, 0.3], []),
    ({"mode": "cubic", "antialias": 1}, [1, 1, 0.55, 1.5], []),
    ({"mode": "linear", "axes": [3, 2]}, [1.5, 0.7], [[0.7, 1.5]])])
def test_scales_of_resize(attrs, scales, refused):
    """Others of the same size, too."""
    scales = np.float32(scales)
    dims = np.array(IMAGE.shape)
    axes = list(attrs.get("axes", range(4)))
    dims[axes] = np.floor(dims[axes].astype(np.float32) * scales)
    near = [{2: np.where(scales == 1, scales, scales * np.float32(1.001))}]
    near = [] if attrs.get("coordinate_transformation_mode") == "align_corners" else near
    runs("Resize", [IMAGE, None, scales], [dims.tolist()], near, [{2: r} for r in refused], opset=19, **attrs)


def test_region_of_resize():
    roi, other = np.float32([0, 0, 0.2, -0.3, 1, 1, 0.7, 1.2]), np.float32([0, 0, 0.9, 0, 1, 1, 0.1, 0.5])
    for mode, last in (("linear", {3: np.array([1, 2, 5, 7])}), ("nearest", {2: np.float32([1, 1, 0.5, 1.5])})):
        shape = [1, 2, 5, 7] if 3 in last else [1, 2, 3, 12]
        arrays = [IMAGE, roi, last.get(2), last.get(3)]
        runs("Resize", arrays, [shape], [{1: other}], [{1: roi + np.nan}, {1: roi * np.float32(1e30)}], opset=19,
             mode=mode, coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9.0)


@pytest.mark.parametrize("policy, sizes, shape, other", [
    ("not_larger", [9, 20], [9, 12], [9, 14]), ("not_smaller", [9, 20], [15, 20], [15, 20])])
def test_sizes_of_resize_that_keep_the_ratio(policy, sizes, shape, other):
    runs("Resize", [IMAGE, None, None, sizes], [[1, 2, *shape]], [{3: other}], [{3: [5, 5]}, {3: [0, -1]}], opset=19,
         mode="linear", axes=[2, 3], keep_aspect_ratio_policy=policy)


@pytest.mark.parametrize("op, opset, mode", [("Upsample", 9, "nearest"), ("Upsample", 9, "linear"),
                                             ("Resize", 10, "nearest"), ("Resize", 10, "linear")])
def test_scales_of_old_opsets(op, opset, mode):
    scales = np.float32([1, 1, 1.5, 2.2])
    runs(op, [IMAGE, scales], [[1, 2, 9, 17]], refused=[{1: [1, 1, 2, 2]}], opset=opset, mode=mode)
    if op == "Resize":
        runs(op, [IMAGE, 1 / scales], [[1, 2, 4, 3]], opset=opset, mode=mode)


@pytest.mark.parametrize("op, arrays, shapes, attrs", [
    ("ReduceSum", [X, [1]], [[3, 2, 5]], {"keepdims": 0}),
    ("TopK", [X, [2]], [[3, 2, 2, 2]] * 2, {"kinds": {"y1": INT}}),
    ("Pad", [X, [0] * 8], [list("abcd")], {"mode": "reflect"}), ("Slice", [X, [0], [2], [3], [1]], [list("abcd")], {}),
    ("Resize", [IMAGE, None, np.float32([1, 1, 1.7, 0.6])], [[1, 2, 10, 4]], {"mode": "cubic", "opset": 19})])
def test_the_c(op, arrays, shapes, attrs, tmp_path):
    """Without a warning, clean under sanitizers; the self-test's operands are some that a run takes."""
    proto, _ = one(op, arrays, shapes, **attrs)
    bounds = {f"y0_d{k}": 9 for k in range(4)} if "a" in shapes[0] else None
    with ingot.compile(proto, "c", threads="none", bounds=bounds, weights="array") as library:
        library.export(tmp_path / "net")
    sources = [p.name for p in (tmp_path / "net").glob("*.c") if not p.name.endswith("_example.c")]
    subprocess.run(["gcc", *STRICT, "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", *sources,
                    "-o", "selftest", "-lm"], cwd=tmp_path / "net", check=True)
    done = subprocess.run(["./selftest"], cwd=tmp_path / "net", capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count(": ok") == len(shapes), done.stdout + done.stderr


@pytest.mark.parametrize("op, arrays, shapes, others, refused, attrs", [
    ("TopK", [X, [2]], [list("abcd")] * 2, [{1: [5]}, {1: [1]}], [{1: [6]}, {1: [-1]}], {"kinds": {"y1": INT}}),
    ("TopK", [X, [2]], [["a", "k", 2, 5]] * 2, [{1: [1]}], [{1: [3]}], {"kinds": {"y1": INT}, "axis": 1, "largest": 0}),
    ("Split", [X, [1, 3, 1]], [[3, 2, 2, f"d{n}"] for n in range(3)], [{1: [2, 2, 1]}],
     [{1: [2, 2, 2]}, {1: [6, -2, 1]}, {1: [1, 1, 1]}], {"axis": 3}),
    ("OneHot", [np.array([[0, 3], [-1, 9]]), np.array(5), np.float32([0, 2])], [["a", "n", 2]], [{1: 2}, {1: 8}],
     [{1: 9}, {1: 0}, {1: -1}], {"kinds": {"y0": 1}, "axis": 1, "bounds": {"y0_d1": 8}})])
def test_numbers_that_nothing_tells(op, arrays, shapes, others, refused, attrs):
    """They become dimensions of the results."""
    runs(op, arrays, shapes, others, refused, **attrs)


def test_center_crop_pad_by_the_run():
    x = X[:, 0, 0]
    for shape in ([5, 2], [2, 8], [3, 5], [1, 1]):
        want = x
        for axis, n in enumerate(shape):
            more = n - x.shape[axis]
            pad = [(0, 0)] * 2
            pad[axis] = (max(more, 0) // 2, max(more, 0) - max(more, 0) // 2)
            want = np.pad(want, pad).take(range(max(-more, 0) // 2, max(-more, 0) // 2 + n), axis)
        runs("CenterCropPad", [x, shape], [["a", "b"]], refused=[{1: [10, 1]}, {1: [0, 1]}, {1: [1 << 40, 1]}],
             bounds={"y0_d0": 9, "y0_d1": 9}, expected=[want])


def test_a_slice_of_nothing():
    """It is a tensor without elements, also as an output, and beside others in a Concat."""
    nodes = [node("Slice", ["x", "three", "one", "one"], ["y0"]), node("Concat", ["y0", "x"], ["y1"], axis=1)]
    weights = [helper.make_tensor(k, INT, [1], [v]) for k, v in (("three", 3), ("one", 1))]
    graph = helper.make_graph(nodes, "g", [info("x", 1, [3, 2, 2, 5])],
                              [info("y0", 1, [3, 0, 2, 5]), info("y1", 1, [3, 2, 2, 5])], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    with ingot.compile(proto, threads="none") as library:
        found = library.run({"x": X})
    assert found["y0"].shape == (3, 0, 2, 5)
    np.testing.assert_array_equal(found["y1"], X)


@pytest.mark.parametrize("op, operand, shape, refused, want", [
    ("ReduceMean", [1], ["n", 2], [2], lambda x: x.mean(1)),
    ("TopK", [1], ["n", 4, 1], [2], lambda x: np.sort(x)[..., ::-1][..., :1]),
    ("Resize", [0, 1, 9], ["n", 4, 9], None, None), ("Squeeze", [1], ["n", 2], None, None),
    ("Split", [4, 1], ["n", 4, 2], None, None)])
def test_symbolic_dimensions_beside(op, operand, shape, refused, want):
    """A declared name of a dimension of the inputs is that dimension; others leave the operand open."""
    x = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    inputs = ["x", "", "", "k"] if op == "Resize" else ["x", "k"]
    outs = ["y", "z"] if op in ("TopK", "Split") else ["y"]
    made = node(op, inputs, outs, name="the_node", **({"keepdims": 0} if op == "ReduceMean" else {}))
    graph = helper.make_graph([made], "g", [info("x", 1, ["n", 4, 2]), info("k", INT, [len(operand)])],
                              [info(o, INT if o == "z" and op == "TopK" else 1, shape) for o in outs])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    if want is None:
        with pytest.raises(OnnxImportError, match="the_node.*(depends on data|decided by a run|symbolic)"):
            from_onnx(proto)
        return
    with ingot.compile(proto, threads="none") as library:
        np.testing.assert_array_equal(library.run({"x": x, "k": np.array(operand)})["y"], want(x))
        with pytest.raises(NetworkError):
            library.run({"x": x, "k": np.array(refused)})


def test_operands_of_a_branch():
    """Checked where the branch is taken, by the shapes that the branch declares."""
    x = X[..., 0]
    then = helper.make_graph([node("ReduceSum", ["x", "k"], ["t"], keepdims=0)], "a", [], [info("t", 1, [3, 2])])
    other = helper.make_graph([node("ReduceMax", ["x", "one"], ["e"], keepdims=0)], "b", [], [info("e", 1, [3, 2])])
    graph = helper.make_graph([node("If", ["c"], ["y"], then_branch=then, else_branch=other)], "g",
                              [info("x", 1, [3, 2, 2]), info("k", INT, [1]), info("c", 9, [])], [info("y", 1, [3, 2])],
                              [helper.make_tensor("one", INT, [1], [1])])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    with ingot.compile(proto, threads="none") as library:
        for k in (1, 2):
            np.testing.assert_allclose(library(x, np.array([k]), np.array(True)), x.sum(k), rtol=1e-5)
        np.testing.assert_array_equal(library(x, np.array([0]), np.array(False)), x.max(1))
        with pytest.raises(NetworkError):
            library(x, np.array([0]), np.array(True))
