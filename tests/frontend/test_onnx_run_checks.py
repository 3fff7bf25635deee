"""What only the sizes of a run show to be valid: it is compiled for those, and a run of others fails."""
import numpy as np
import pytest
from networks import onnxruntime_outputs
from onnx import TensorProto, helper, numpy_helper
from value_target import value_target

import ingot
from ingot.frontend.onnx import OnnxImportError, from_onnx
from ingot.frontend.onnx.errors import NarrowedWarning
from ingot.runtime.binding import NetworkError
from ingot.runtime.shapes import InputError

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node, info = helper.make_node, helper.make_tensor_value_info
RNG = np.random.default_rng(0)


def model(nodes, dims, outputs, weights=None, opset=17):
    """dims: {input: shape with names}; inputs are float32, those named i... int64."""
    inputs = [info(k, INT64 if k.startswith("i") else FLOAT, d) for k, d in dims.items()]
    graph = helper.make_graph(nodes, "g", inputs, [info(k, FLOAT, None) for k in outputs],
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in (weights or {}).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def arrays(**shapes):
    return {k: RNG.normal(0, 1, s).astype(np.float32) for k, s in shapes.items()}


def check(proto, right, wrong=(), **options):
    """Runs of the feeds in `right` do as onnxruntime does; those in `wrong` fail with INGOT_ERR_DIM."""
    with ingot.compile(proto, value_target(), threads="none", **options) as library:
        for feeds in right:
            found = library.run(feeds)
            for name, want in zip((o.name for o in proto.graph.output), onnxruntime_outputs(proto, feeds)):
                assert found[name].shape == want.shape
                np.testing.assert_allclose(found[name], want, rtol=1e-4, atol=1e-5)
        for feeds in wrong:
            with pytest.raises((NetworkError, InputError)) as caught:  # what Python knows it tells before the run
                library.run(feeds)
            assert isinstance(caught.value, InputError) or caught.value.status == -5


# ---------------------------------------------------------------- views

@pytest.mark.parametrize("shape", [[2, 12], [0, 1, -1], [-1, 6, 4]])
def test_reshapes_that_some_sizes_allow(shape):
    proto = model([node("Reshape", ["x", "s"], ["y"])], {"x": ["a", "b", 4]}, ["y"], {"s": np.array(shape, np.int64)})
    check(proto, [arrays(x=(2, 3, 4))], [arrays(x=(3, 5, 4))] if shape[1] != 1 else [])


def test_an_axis_of_any_size_is_squeezed_where_it_is_one():
    for axes in ([1], [-2], [1, 2]):
        proto = model([node("Squeeze", ["x", "axes"], ["s"]), node("Relu", ["s"], ["y"])], {"x": ["a", "b", "c"]},
                      ["y"], {"axes": np.array(axes, np.int64)})
        check(proto, [arrays(x=(3, 1, 1))], [arrays(x=(3, 2, 1))])


def test_an_axis_that_is_never_one():
    nodes = [node("Concat", ["x", "x"], ["c"], axis=0), node("Squeeze", ["c", "axes"], ["y"])]
    with pytest.raises(OnnxImportError, match="axis 0 has extent"):
        from_onnx(model(nodes, {"x": ["a", 4]}, ["y"], {"axes": np.array([0])}))


# ---------------------------------------------------------------- dimensions that must be equal

@pytest.mark.parametrize("made, shapes", [
    (node("Concat", ["x", "z"], ["y"], axis=1), {"x": (3, 2), "z": (3, 5)}),
    (node("Add", ["x", "z"], ["y"]), {"x": (3, 4), "z": (3, 4)}),
    (node("Mul", ["x", "z"], ["y"]), {"x": (2, 3, 4), "z": (4,)}),
    (node("MatMul", ["x", "z"], ["y"]), {"x": (3, 4), "z": (4, 2)}),
    (node("MatMul", ["x", "z"], ["y"]), {"x": (5, 3, 4), "z": (5, 4, 2)}),
    (node("Where", ["w", "x", "z"], ["y"]), {"x": (3, 4), "z": (3, 4)}),
])
def test_dimensions_of_two_names_that_must_be_equal(made, shapes):
    dims = {k: [f"{k}{n}" for n in range(len(s))] for k, s in shapes.items()}
    weights = {"w": np.array([[True], [False], [True]])} if made.op_type == "Where" else {}
    proto = model([made], dims, ["y"], weights)
    wider = {k: (*s[:-1], s[-1] + 1) if k == "x" else s for k, s in shapes.items()}
    taller = {"x": (4, 2), "z": (3, 5)}
    check(proto, [arrays(**shapes)], [arrays(**(taller if made.op_type == "Concat" else wider))])


def test_a_dimension_that_a_weight_tells():
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["y"])]
    proto = model(nodes, {"x": ["n", "features"]}, ["y"], {"w": RNG.normal(0, 1, (4, 8)).astype(np.float32),
                                                           "b": RNG.normal(0, 1, 8).astype(np.float32)})
    check(proto, [arrays(x=(2, 4))], [arrays(x=(2, 5))])


# ---------------------------------------------------------------- branches

def squeezing(axis=1):
    """What exporters make of squeeze(1) of a tensor whose extent they do not know."""
    then = helper.make_graph([node("Squeeze", ["x", "axis"], ["t"])], "then", [], [info("t", FLOAT, None)])
    other = helper.make_graph([node("Identity", ["x"], ["e"])], "else", [], [info("e", FLOAT, None)])
    return [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "axis"], ["extent"]),
            node("Equal", ["extent", "one"], ["is_one"]),
            node("If", ["is_one"], ["s"], name="choice", then_branch=then, else_branch=other)]


@pytest.mark.parametrize("after, taken", [(node("MatMul", ["s", "w"], ["y"]), "then"),
                                          (node("Transpose", ["s"], ["y"], perm=[1, 2, 0]), "else")])
def test_sizes_decide_between_branches_of_different_ranks(after, taken):
    """What reads the result tells which branch is meant."""
    proto = model([*squeezing(), after], {"x": ["n", "k", 4]}, ["y"], {
        "axis": np.array([1]), "one": np.array([1]), "w": RNG.normal(0, 1, (4, 2)).astype(np.float32)})
    one, more = arrays(x=(3, 1, 4)), arrays(x=(3, 2, 4))
    with pytest.warns(NarrowedWarning, match=f'If node "choice" .*compiled for runs that take the {taken} branch'):
        check(proto, *([one], [more]) if taken == "then" else ([more], [one]))


@pytest.mark.parametrize("swapped", [False, True])
def test_a_branch_that_is_not_valid_for_the_shapes(swapped):
    """An input decides, and only one branch is valid for the shape that the other input has."""
    def branch(rows, name):
        nodes = [node("Conv", ["x", rows], [name + "r"]), node("Squeeze", [name + "r", "axis"], [name])]
        return helper.make_graph(nodes, name, [], [info(name, FLOAT, None)])

    then, other = branch("fits", "t"), branch("misfits", "e")
    then, other = (other, then) if swapped else (then, other)
    proto = model([node("Equal", ["i", "rate"], ["c"]), node("If", ["c"], ["y"], name="choice", then_branch=then,
                                                             else_branch=other)],
                  {"x": [1, 1, 4], "i": []}, ["y"], {
                      "rate": np.array(16), "axis": np.array([2]), "fits": np.ones((2, 1, 4), np.float32),
                      "misfits": np.ones((2, 1, 2), np.float32)})
    feeds = [{**arrays(x=(1, 1, 4)), "i": np.array(i)} for i in (16, 8)]
    proto.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "samples"
    with pytest.warns(NarrowedWarning, match="the other one is not valid here: Squeeze node"):
        check(proto, [feeds[swapped]], [feeds[not swapped]], dims={"samples": 4})


def test_no_branch_is_valid():
    graph = helper.make_graph([node("Reshape", ["x", "s"], ["t"])], "g", [], [info("t", FLOAT, None)])
    proto = model([node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)], {"x": [3, 4]}, ["y"],
                  {"s": np.array([5, -1])})
    proto.graph.input.append(info("c", TensorProto.BOOL, []))
    with pytest.raises(OnnxImportError, match="cannot become"):
        from_onnx(proto)


def test_only_the_branch_that_runs_checks_its_reshapes():
    """Each branch fits one size of the same dimension."""
    graphs = [helper.make_graph([
        node("Reshape", ["x", f"s{n}"], [f"r{n}"]), node("ReduceSum", [f"r{n}", "axis"], [f"o{n}"], keepdims=0)],
        f"g{n}", [], [info(f"o{n}", FLOAT, None)]) for n in (4, 6)]
    proto = model([node("Equal", ["i", "four"], ["c"]), node("If", ["c"], ["y"], then_branch=graphs[0],
                                                             else_branch=graphs[1])],
                  {"x": ["n"], "i": []}, ["y"], {"four": np.array(4), "axis": np.array([0]),
                                                 "s4": np.array([2, 2]), "s6": np.array([3, 2])})
    right, wrong = ([{**arrays(x=(n,)), "i": np.array(n if fits else 10 - n)} for n in (4, 6)]
                    for fits in (True, False))
    check(proto, right, wrong)


# ---------------------------------------------------------------- recurrent layers, names, scalars

@pytest.mark.parametrize("op, gates", [("GRU", 3), ("LSTM", 4), ("RNN", 1)])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_recurrent_layers_of_any_time_and_batch(op, gates, direction):
    count = 2 if direction == "bidirectional" else 1
    weights = {k: RNG.normal(0, 0.3, s).astype(np.float32) for k, s in {
        "w": (count, gates * 16, 5), "r": (count, gates * 16, 16), "b": (count, 2 * gates * 16)}.items()}
    states = ["h", "c"][:2 if op == "LSTM" else 1]
    results = ["y", "yh", "yc"][:1 + len(states)]
    proto = model([node(op, ["x", "w", "r", "b", "", *states], results, hidden_size=16, direction=direction)],
                  {"x": ["time", "batch", 5], **{s: [count, f"batch_{s}", 16] for s in states}}, results, weights)

    def feeds(time, batch, other):
        return arrays(x=(time, batch, 5), **{s: (count, other, 16) for s in states})

    level = 0 if (op == "LSTM") == (direction == "forward") else 2
    check(proto, [feeds(3, 2, 2), feeds(1, 5, 5)], [feeds(3, 2, 4)], opt_level=level)


def test_pins_by_the_name_of_the_file_for_what_it_does_not_know():
    proto = model([node("Relu", ["x"], ["y"])], {"x": ["?", 3, "?"]}, ["y"])
    assert from_onnx(proto, dims={"?": 4})["main"].params[0].struct_info.static_shape == (4, 3, 4)
    assert from_onnx(proto, dims={"?": 4, "x_d2": 5})["main"].params[0].struct_info.static_shape == (4, 3, 5)


def test_a_number_may_come_as_an_array_of_one():
    proto = model([node("Mul", ["x", "z"], ["y"])], {"x": [3], "z": []}, ["y"])
    with ingot.compile(proto) as library:
        x = arrays(x=(3,))["x"]
        for z in (np.float32(2), np.ones(1, np.float32) * 2):
            np.testing.assert_array_equal(library.run({"x": x, "z": z})["y"], x * 2)


# ---------------------------------------------------------------- images of any size, ranges of any length

TRANSFORMS = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_images_of_any_size_are_scaled(mode, transform):
    scales = ((2, 2), (0.5, 1.5), (1, 3))[(len(mode) + TRANSFORMS.index(transform)) % 3]  # for each mode all of them
    made = node("Resize", ["x", "", "scales"], ["y"], mode=mode, coordinate_transformation_mode=transform,
                nearest_mode="floor")
    proto = model([made], {"x": ["n", 3, "h", "w"]}, ["y"], {"scales": np.array([1, 1, *scales], np.float32)})
    check(proto, [arrays(x=(1, 3, 4, 6)), arrays(x=(2, 3, 10, 2))])


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_images_of_any_size_get_another_size(mode, transform):
    """That of another tensor, as feature pyramids have it."""
    nodes = [node("Shape", ["z"], ["s"], start=2), node("Shape", ["x"], ["b"], end=2),
             node("Concat", ["b", "s"], ["sizes"], axis=0),
             node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode, coordinate_transformation_mode=transform)]
    proto = model(nodes, {"x": [1, 16, "h", "w"], "z": [1, 2, "height", "width"]}, ["y"])
    check(proto, [arrays(x=(1, 16, 4, 6), z=(1, 2, 9, 6)), arrays(x=(1, 16, 7, 5), z=(1, 2, 1, 10)),
                  arrays(x=(1, 16, 1, 1), z=(1, 2, 3, 1))])


def test_images_between_convolutions():
    """In blocked layout."""
    w = RNG.normal(0, 0.1, (2, 16, 16, 3, 3)).astype(np.float32)
    conv = {"pads": [1, 1, 1, 1]}
    nodes = [node("Conv", ["x", "w0"], ["a"], **conv),
             node("Resize", ["a", "", "scales"], ["b"], mode="nearest", coordinate_transformation_mode="asymmetric",
                  nearest_mode="floor"),
             node("Conv", ["b", "w1"], ["y"], **conv)]
    proto = model(nodes, {"x": [1, 16, "h", "w"]}, ["y"], {"w0": w[0], "w1": w[1],
                                                           "scales": np.array([1, 1, 2, 2], np.float32)})
    check(proto, [arrays(x=(1, 16, 5, 8))])


def test_a_symbolic_size_scaled_by_no_fraction():
    made = node("Resize", ["x", "", "scales"], ["y"], mode="nearest")
    with pytest.raises(OnnxImportError, match="no fraction with a small denominator; pin it"):
        from_onnx(model([made], {"x": [1, 1, "h", 4]}, ["y"], {"scales": np.array([1, 1, 0.1, 1], np.float32)}))


@pytest.mark.parametrize("double", [False, True])
def test_ranges_of_floats_whose_end_is_a_dimension(double):
    """What exporters make of arange(n, dtype=float)."""
    nodes = [node("Shape", ["x"], ["s"]), node("Squeeze", ["s"], ["n"]), node("Cast", ["n"], ["f"], to=FLOAT),
             *([node("Mul", ["f", "two"], ["end"])] if double else [node("Identity", ["f"], ["end"])]),
             node("Range", ["zero", "end", "one"], ["y"])]
    proto = model(nodes, {"x": ["n"]}, ["y"], {k: np.array(v, np.float32) for k, v in (
        ("zero", 0), ("one", 1), ("two", 2))})
    check(proto, [arrays(x=(n,)) for n in (1, 5)])
