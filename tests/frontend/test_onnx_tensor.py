"""Operators that move elements, and those that make shapes and constants, against onnxruntime."""
import numpy as np
import pytest
from onnx import helper, numpy_helper

from ingot.frontend.onnx import from_onnx
from onnx_models import assert_same, check_node, model, run_both

pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (2, 3, 4)).astype(np.float32)
BIG = RNG.uniform(-1, 1, (2, 3, 5, 6)).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


@pytest.mark.parametrize("perm", [None, [1, 0, 2], [2, 0, 1], [0, 1, 2]])
def test_transpose(perm):
    check_node("Transpose", [X], 13, symbolic=True, **({} if perm is None else {"perm": perm}))


@pytest.mark.parametrize("shape, opset, attrs", [
    ((6, 4), 9, {}), ((0, -1), 13, {}), ((-1,), 14, {}), ((0, 2, 0, -1, 1), 13, {}), ((2, 3, 4), 13, {}),
    ((4, -1), 14, {"allowzero": 1})])
def test_reshape(shape, opset, attrs):
    x = X.reshape(2, 4, 3) if shape == (0, 2, 0, -1, 1) else X
    check_node("Reshape", [x, ints(*shape)], opset, constants=(1,), **attrs)


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
def test_flatten(axis):
    check_node("Flatten", [X], 13, symbolic=True, axis=axis)


@pytest.mark.parametrize("axes", [[0], [1, 3], [-1]])
def test_unsqueeze(axes):
    check_node("Unsqueeze", [X], 11, axes=axes)
    check_node("Unsqueeze", [X, ints(*axes)], 13, constants=(1,))


@pytest.mark.parametrize("axes", [None, [0], [-2, 0]])
def test_squeeze(axes):
    x = X[:1, :1]
    check_node("Squeeze", [x], 11, **({} if axes is None else {"axes": axes}))
    check_node("Squeeze", [x] if axes is None else [x, ints(*axes)], 13, constants=(1,))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("count", [1, 3])
def test_concat(axis, count):
    check_node("Concat", [X, X + 1, X * 2][:count], 13, axis=axis)


@pytest.mark.parametrize("opset", [9, 13, 18])
@pytest.mark.parametrize("sizes, axis", [([1, 3], 2), (None, 2)])
def test_split(opset, sizes, axis):
    if sizes is None:
        check_node("Split", [X], opset, outputs=2, axis=axis, **({"num_outputs": 2} if opset == 18 else {}))
    elif opset == 9:
        check_node("Split", [X], opset, outputs=2, axis=axis, split=sizes)
    else:
        check_node("Split", [X, ints(*sizes)], opset, constants=(1,), outputs=2, axis=axis)


def test_uneven_split():
    check_node("Split", [np.arange(7, dtype=np.float32)], 18, outputs=3, num_outputs=3)


MOST = np.iinfo(np.int64).max
SLICES = [([0, 1], [1, 3], None, None), ([1], [MOST], [1], None), ([-2], [-1], [2], None), ([0], [100], [-1], [2]),
          ([-1], [-100], [1], [-1]), ([3], [0], [2], [-2]), ([-1], [-MOST], [0], [-1]), ([-1], [MOST], [2], None)]


@pytest.mark.parametrize("starts, ends, axes, steps", SLICES)
def test_slice(starts, ends, axes, steps):
    rest = [ints(*axes)] if axes else []
    rest += [ints(*steps)] if steps else []
    check_node("Slice", [X, ints(*starts), ints(*ends), *rest], 13, constants=(1, 2, 3, 4))
    if steps is None:
        check_node("Slice", [X], 9, starts=starts, ends=ends, **({"axes": axes} if axes else {}))


@pytest.mark.parametrize("starts, ends, axes", [([0], [MOST], [0]), ([-1], [MOST], [0]), ([0, 1], [1, 3], [0, 2])])
def test_slice_of_a_symbolic_axis(starts, ends, axes):
    check_node("Slice", [X, ints(*starts), ints(*ends), ints(*axes)], 13, constants=(1, 2, 3), symbolic=True)


@pytest.mark.parametrize("pads", [[0, 0, 1, 2, 0, 0, 0, 1], [0] * 8, [0, 0, -1, 1, 0, 0, 1, -2]])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad(pads, mode):
    if mode != "constant" and min(pads) < 0:
        pytest.skip("onnxruntime reflects before it crops")
    value = {"value": 0.5} if mode == "constant" else {}
    check_node("Pad", [BIG], 10, pads=pads, mode=mode, **value)
    check_node("Pad", [BIG, ints(*pads), np.float32(0.5).reshape(())], 13, constants=(1, 2), symbolic=True, mode=mode)


def test_pad_of_some_axes():
    check_node("Pad", [BIG, ints(1, 2, 0, 1), None, ints(-1, 2)], 18, constants=(1, 3))


@pytest.mark.parametrize("indices", [np.array(1), np.array([0, -1]), np.array([[1, 0], [2, 1]], np.int32)])
@pytest.mark.parametrize("axis", [1, -2])
def test_gather(indices, axis):
    check_node("Gather", [X, indices], 13, axis=axis)


def test_gather_elements():
    check_node("GatherElements", [X, np.array(RNG.integers(-3, 3, (2, 2, 4)))], 13, axis=1)


def test_tile():
    check_node("Tile", [X, ints(1, 2, 3)], 13, constants=(1,))
    check_node("Tile", [X, ints(1, 1, 1)], 13, constants=(1,))


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 1), (5, 2, 3, 4)])
def test_expand(shape):
    check_node("Expand", [X[:, :1], ints(*shape)], 13, constants=(1,))


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space(mode):
    check_node("DepthToSpace", [RNG.random((2, 8, 3, 5), np.float32)], 13, symbolic=True, blocksize=2, mode=mode)


def test_space_to_depth():
    check_node("SpaceToDepth", [RNG.random((2, 3, 4, 6), np.float32)], 13, symbolic=True, blocksize=2)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, -1, 1])
def test_trilu(upper, k):
    check_node("Trilu", [BIG] + ([] if k is None else [np.array(k)]), 14, constants=(1,), upper=upper)


def test_eye_like():
    check_node("EyeLike", [X[0]], 9, k=1)


# ---------------------------------------------------------------- constants and shape arithmetic

@pytest.mark.parametrize("attrs, value", [
    ({"value_float": 1.5}, np.float32(1.5)), ({"value_int": 3}, np.int64(3)),
    ({"value_floats": [1.0, 2.0]}, np.float32([1, 2])), ({"value_ints": [1, 2]}, ints(1, 2)),
    ({"value": numpy_helper.from_array(np.float32([[1, 2]]))}, np.float32([[1, 2]]))])
def test_constant(attrs, value):
    constant = helper.make_node("Constant", [], ["y"], **attrs)
    found, expected = run_both(model([constant], {"x": [1]}, ["y"], 13), {"x": np.zeros(1, np.float32)})
    assert_same(found, expected)
    np.testing.assert_array_equal(found[0], value)


def range_model(opset=13):
    """y = x + range(0, 12, 3) over the last axis."""
    weights = {"start": np.float32(0), "limit": np.float32(12), "delta": np.float32(3)}
    nodes = [helper.make_node("Range", ["start", "limit", "delta"], ["r"]), helper.make_node("Add", ["x", "r"], ["y"])]
    return model(nodes, {"x": [2, 3, 4]}, ["y"], opset, weights)


def test_range():
    assert_same(*run_both(range_model(), {"x": X}))
    assert len(from_onnx(range_model())["main"].bindings) == 1


def flatten_by_shape(symbolic):
    """Flattening the way exporters write it: Shape, Gather, Unsqueeze, Concat, Reshape."""
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
             helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
             helper.make_node("Concat", ["n1", "minus"], ["t"], axis=0), helper.make_node("Reshape", ["x", "t"], ["y"])]
    weights = {"zero": np.array(0), "axes": ints(0), "minus": ints(-1)}
    return model(nodes, {"x": ["batch" if symbolic else 2, 3, 4]}, ["y"], 13, weights)


@pytest.mark.parametrize("symbolic", [False, True])
def test_shape_arithmetic_becomes_one_reshape(symbolic):
    proto = flatten_by_shape(symbolic)
    assert_same(*run_both(proto, {"x": X}))
    bindings = from_onnx(proto)["main"].bindings
    assert [b.value.op for b in bindings] == ["reshape"]


def test_expand_the_way_pytorch_exports_it():
    """-1 in expand(): ones * -1, compared with the target, replaced by the shape's own dimension."""
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Slice", ["s", "zero", "one"], ["n"]),
             helper.make_node("Concat", ["n", "rest"], ["target"], axis=0),
             helper.make_node("ConstantOfShape", ["three"], ["ones"], value=numpy_helper.from_array(ints(1))),
             helper.make_node("Mul", ["ones", "minus"], ["minuses"]),
             helper.make_node("Equal", ["target", "minuses"], ["same"]),
             helper.make_node("Where", ["same", "ones", "target"], ["final"]),
             helper.make_node("Expand", ["token", "final"], ["tokens"]),
             helper.make_node("Concat", ["tokens", "x"], ["y"], axis=1)]
    weights = {"zero": ints(0), "one": ints(1), "rest": ints(-1, 4), "three": ints(3), "minus": np.array(-1),
               "token": X[:1, :1]}
    proto = model(nodes, {"x": ["batch", 3, 4]}, ["y"], 13, weights)
    assert_same(*run_both(proto, {"x": X}))
    assert [b.value.op for b in from_onnx(proto)["main"].bindings] == ["broadcast_to", "concat"]


@pytest.mark.parametrize("op", ["Mul", "Add", "Sub", "Div", "Max", "Min", "Mod"])
def test_arithmetic_on_symbolic_dimensions(op):
    """A tensor with as many elements as the arithmetic says."""
    nodes = [helper.make_node("Shape", ["x"], ["s"], start=0, end=1), helper.make_node(op, ["s", "two"], ["m"]),
             helper.make_node("ConstantOfShape", ["m"], ["y"], value=numpy_helper.from_array(np.float32([3])))]
    proto = model(nodes, {"x": ["batch", 4]}, ["y"], 17, {"two": ints(2)})
    feeds = {"x": np.zeros((7, 4), np.float32)}
    assert_same(*run_both(proto, feeds))


def test_size_and_cast_of_shapes():
    nodes = [helper.make_node("Size", ["x"], ["n"]), helper.make_node("Cast", ["n"], ["n32"], to=6),
             helper.make_node("Cast", ["n32"], ["n64"], to=7), helper.make_node("Reshape", ["n64", "one"], ["t"]),
             helper.make_node("Reshape", ["x", "t"], ["y"])]
    proto = model(nodes, {"x": ["batch", 3, 4]}, ["y"], 13, {"one": ints(1)})
    assert_same(*run_both(proto, {"x": X}))
