"""If, Loop and Scan; results whose sizes the data decide; sequences: against onnxruntime, and as C."""
import re
import subprocess

import numpy as np
import pytest
from c_build import STRICT
from networks import onnxruntime_outputs
from onnx import TensorProto, helper, numpy_helper
from random_control import RandomControl
from value_target import value_target

import ingot
from ingot.frontend.onnx import OnnxImportError, from_onnx
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.verifier import verify
from ingot.runtime.binding import NetworkError

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
X = np.random.default_rng(0).integers(-1, 2, (3, 4)).astype(np.float32)
node, info = helper.make_node, helper.make_tensor_value_info


def model(nodes, feeds, outputs, weights=None, dims=None, opset=17):
    """dims: {input: shape with names}; outputs: {name: element type}."""
    kinds = {k: helper.np_dtype_to_tensor_dtype(np.asarray(v).dtype) for k, v in feeds.items()}
    inputs = [info(k, kinds[k], (dims or {}).get(k, list(np.shape(v)))) for k, v in feeds.items()]
    graph = helper.make_graph(nodes, "g", inputs, [info(k, t, None) for k, t in outputs.items()],
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in (weights or {}).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def check(proto, feeds, **options):
    """The network does as onnxruntime does, in Python's evaluation and in C; returns its module."""
    expected = onnxruntime_outputs(proto, feeds)
    mod = verify(from_onnx(proto, bounds=options.get("bounds")))
    evaluated = evaluate(mod, feeds)
    with ingot.compile(proto, value_target(), threads="none", **options) as library:
        found = library.run(feeds)
    evaluated = evaluated if isinstance(evaluated, tuple) else (evaluated,)
    for out, reference, want in zip(proto.graph.output, evaluated, expected):
        for got in (reference, found[out.name]):
            assert got.shape == want.shape and got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
    return mod


def operators(mod):
    return {b.value.op for f in mod.functions.values() for b in f.bindings if hasattr(b.value, "op")}


# ---------------------------------------------------------------- control flow

@pytest.mark.parametrize("seed", [1, 4, 9, 14, 21, 22, 23, 43])
def test_random_nests(seed):
    made, bounds = RandomControl(seed), {}
    for _ in range(20):
        try:
            from_onnx(made.model, bounds=bounds)
            break
        except OnnxImportError as error:
            bounds[re.search(r"--bound (\w+)=100", str(error))[1]] = 8
    given = {i.name for i in made.model.graph.input}
    check(made.model, {k: v for k, v in made.feeds.items() if k in given}, opt_level=seed % 3, bounds=bounds)


def branch(operator, name="a"):
    return helper.make_graph([node(operator, ["x"], [name])], operator, [], [info(name, FLOAT, None)])


def test_branches():
    """A constant leaves one; data decide between others, whose dimensions may differ."""
    choose = node("If", ["c"], ["y"], name="choice", then_branch=branch("Neg"), else_branch=branch("Exp", "b"))
    for c in (True, False):
        assert operators(check(model([choose], {"x": X}, {"y": FLOAT}, {"c": np.array(c)}), {"x": X})) == {
            "negative" if c else "exp"}
        assert "call_if" in operators(check(model([choose], {"x": X, "c": np.array(c)}, {"y": FLOAT}),
                                            {"x": X, "c": np.array(c)}))
    graphs = [helper.make_graph([node("Concat", ["x"] * n, [f"o{n}"], axis=0)], "g", [], [info(f"o{n}", FLOAT, None)])
              for n in (2, 1)]
    differ = node("If", ["c"], ["y"], then_branch=graphs[0], else_branch=graphs[1])
    for c in (True, False):
        feeds = {"x": X, "c": np.array(c)}
        check(model([differ], feeds, {"y": FLOAT}), feeds)
    ranks = node("If", ["c"], ["y"], name="choice", else_branch=branch("Neg"), then_branch=helper.make_graph(
        [node("ReduceSum", ["x"], ["s"], keepdims=0)], "g", [], [info("s", FLOAT, None)]))
    with pytest.raises(OnnxImportError, match='If node "choice" .*results must have one dtype and one number of dim'):
        from_onnx(model([ranks], {"x": X, "c": np.array(True)}, {"y": FLOAT}))


def loop(body, inputs, outputs, rows=0, carried="v", result="u"):
    graph = helper.make_graph(
        body, "body", [info("i", INT64, []), info("ci", BOOL, []), info(carried, FLOAT, None)],
        [info("co", BOOL, []), info(result, FLOAT, None), *(info(f"r{k}", FLOAT, None) for k in range(rows))])
    return node("Loop", inputs, outputs, name="turns", body=graph)


STEP = [node("Identity", ["ci"], ["co"]), node("Cast", ["i"], ["f"], to=FLOAT), node("Add", ["v", "f"], ["a"]),
        node("Mul", ["a", "half"], ["u"]), node("Neg", ["u"], ["r0"])]
HALF = {"half": np.float32(0.5)}


def test_loops_of_known_and_of_unknown_turns():
    known = model([loop(STEP, ["n", "", "x"], ["y", "z"], 1)], {"x": X}, {"y": FLOAT, "z": FLOAT},
                  {**HALF, "n": np.array(20, np.int64)})
    mod = check(known, {"x": X})
    assert "call_loop" in operators(mod) and mod["main"].bindings[-1].var.struct_info.static_shape == (20, 3, 4)
    with ingot.compile(model([loop(STEP, ["n", "", "x"], ["y", "z"], 1)], {"x": X, "n": np.array(0)},
                             {"y": FLOAT, "z": FLOAT}, HALF), threads="none", bounds={"z_turns": 7}) as library:
        y, z = library(X, np.array(0))
    assert z.shape == (0, 3, 4)
    np.testing.assert_array_equal(y, X)
    for n in (1, 2, 7):
        feeds = {"x": X, "n": np.array(n, np.int64)}
        check(model([loop(STEP, ["n", "", "x"], ["y", "z"], 1)], feeds, {"y": FLOAT, "z": FLOAT}, HALF), feeds,
              bounds={"z_turns": 7})


def test_a_run_that_is_refused_says_what_it_decides():
    proto = model([node("Range", ["zero", "n", "one"], ["y"])], {"n": np.array(3, np.int64)}, {"y": INT64},
                  {"zero": np.array(0, np.int64), "one": np.array(1, np.int64)})
    with ingot.compile(proto, threads="none", name="counted", bounds={"y_d0": 5}) as library:
        with pytest.raises(NetworkError, match=r"status -5\): of this network a run decides the sizes y_d0 of 0 to 5"):
            library(np.array(9, np.int64))


def test_turns_beyond_the_bound_are_refused_by_the_run():
    feeds = {"x": X, "n": np.array(8, np.int64)}
    proto = model([loop(STEP, ["n", "", "x"], ["y", "z"], 1)], feeds, {"y": FLOAT, "z": FLOAT}, HALF)
    with pytest.raises(OnnxImportError, match='Loop node "turns" .*--bound z_turns=100, or bounds='):
        from_onnx(proto)
    with ingot.compile(proto, threads="none", bounds={"z_turns": 7}) as library:
        with pytest.raises(NetworkError) as caught:
            library.run(feeds)
        assert caught.value.status == -5  # INGOT_ERR_DIM


def test_a_loop_that_changes_a_shape_is_unrolled_or_refused():
    grow = [node("Identity", ["ci"], ["co"]), node("Concat", ["v", "x"], ["u"], axis=0)]
    check(model([loop(grow, ["n", "", "x"], ["y"])], {"x": X}, {"y": FLOAT}, {"n": np.array(9, np.int64)}), {"x": X})
    feeds = {"x": X, "n": np.array(2, np.int64)}
    with pytest.raises(OnnxImportError, match=r"it carries 'v' as float32\[3, 4\] into a turn and float32\[6, 4\] out"):
        from_onnx(model([loop(grow, ["n", "", "x"], ["y"])], feeds, {"y": FLOAT}))


def test_a_shape_that_may_be_another_is_checked_by_the_run():
    """The row of an iteration: a slice of i to i + 1 has one row as long as i is in x."""
    row = [node("Identity", ["ci"], ["co"]), node("Reshape", ["i", "one"], ["b"]), node("Add", ["b", "one"], ["e"]),
           node("Slice", ["x", "b", "e", "zero"], ["s"]), node("Add", ["s", "v"], ["u"])]
    weights = {"one": np.array([1], np.int64), "zero": np.array([0], np.int64)}
    for n, status in ((3, 0), (4, -5)):
        feeds = {"x": X, "v0": X[:1], "n": np.array(n, np.int64)}
        proto = model([loop(row, ["n", "", "v0"], ["y"])], feeds, {"y": FLOAT}, weights)
        if not status:
            check(proto, feeds)
            continue
        with ingot.compile(proto, threads="none") as library, pytest.raises(NetworkError) as caught:
            library.run(feeds)
        assert caught.value.status == status


def test_functions_of_the_model_in_branches():
    """A branch uses values of the function around it by the names that the function's nodes got."""
    inner = helper.make_function("local", "twice", ["p"], ["q"], [node("Add", ["p", "p"], ["q"])],
                                 [helper.make_opsetid("", 17)])
    then = helper.make_graph([node("twice", ["m"], ["t"], domain="local")], "g", [], [info("t", FLOAT, None)])
    other = helper.make_graph([node("Neg", ["m"], ["e"])], "g", [], [info("e", FLOAT, None)])
    outer = helper.make_function(
        "local", "outer", ["p", "c"], ["q"], [node("Exp", ["p"], ["m"]), node("If", ["c"], ["q"], then_branch=then,
                                                                             else_branch=other)],
        [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)])
    for c in (True, False):
        feeds = {"x": X, "c": np.array(c)}
        proto = model([node("outer", ["x", "c"], ["y"], domain="local")], feeds, {"y": FLOAT})
        proto.opset_import.append(helper.make_opsetid("local", 1))
        proto.functions.extend([inner, outer])
        check(proto, feeds)


# ---------------------------------------------------------------- sizes that the data decide

@pytest.mark.parametrize("array", [X, X * 0, X * 0 + 1, X.astype(np.int64), X > 0])
def test_nonzero(array):
    for dims in (None, {"x": ["n", 4]}):
        check(model([node("NonZero", ["x"], ["y"])], {"x": array}, {"y": INT64}, dims=dims), {"x": array})


def test_what_is_selected_goes_on():
    """Products and sums of as many rows as there are; of none too."""
    nodes = [node("NonZero", ["x"], ["i"]), node("Transpose", ["i"], ["j"], perm=[1, 0]),
             node("Cast", ["j"], ["f"], to=FLOAT), node("MatMul", ["f", "w"], ["m"]), node("Relu", ["m"], ["y"]),
             node("ReduceSum", ["y"], ["s"], keepdims=0), node("Softmax", ["m"], ["p"], axis=0)]
    weights = {"w": np.random.default_rng(1).random((2, 5), np.float32)}
    for level in (0, 1, 2):
        for x in (X, X * 0):
            check(model(nodes, {"x": x}, {"y": FLOAT, "s": FLOAT, "p": FLOAT}, weights), {"x": x}, opt_level=level)


def test_compress_and_unique():
    keep = np.array([True, False, True, True])
    for attrs in ({"axis": 1}, {"axis": -1}, {}):
        check(model([node("Compress", ["x", "c"], ["y"], **attrs)], {"x": X, "c": keep}, {"y": FLOAT}),
              {"x": X, "c": keep})
    twice = np.concatenate([X[1:], X])
    for attrs in ({"sorted": 0}, {}, {"axis": 0}, {"axis": 1, "sorted": 0}):
        outputs = {"y": FLOAT, "a": INT64, "b": INT64, "c": INT64}
        check(model([node("Unique", ["x"], list(outputs), **attrs)], {"x": twice}, outputs), {"x": twice})


@pytest.mark.parametrize("ordered", [0, 1])
def test_unique_has_one_nan(ordered):
    """NaN is one value, after all numbers, as in numpy."""
    x = np.float32([2, np.nan, -0.0, np.inf, np.nan, 2, 0.0, -np.inf])
    outputs = {"u": FLOAT, "first": INT64, "inverse": INT64, "counts": INT64}
    found_by = node("Unique", ["x"], list(outputs), sorted=ordered)
    values, first, inverse, counts = np.unique(x, True, True, True)
    if not ordered:
        order = np.argsort(first)
        values, first, counts, inverse = values[order], first[order], counts[order], np.argsort(order)[inverse]
    proto = model([found_by], {"x": x}, outputs)
    with ingot.compile(proto, threads="none", name="uniques") as library:
        for found in (library(x), evaluate(from_onnx(proto), {"x": x})):
            for a, b in zip(found, (values, first, inverse, counts)):
                np.testing.assert_array_equal(a, b)
    rows = np.float32([[1, np.nan], [1, 2], [np.nan, 0], [1, np.nan], [1, 2]])
    proto = model([node("Unique", ["x"], ["u"], axis=0)], {"x": rows}, {"u": FLOAT})
    with ingot.compile(proto, threads="none", name="unique_rows") as library:
        for found in (library(rows), evaluate(from_onnx(proto), {"x": rows})):
            np.testing.assert_array_equal(found, np.float32([[1, 2], [1, np.nan], [np.nan, 0]]))


@pytest.mark.parametrize("center", [0, 1])
def test_non_max_suppression(center):
    rng = np.random.default_rng(center)
    feeds = {"b": rng.random((2, 20, 4), np.float32), "s": rng.random((2, 3, 20), np.float32)}
    weights = {"m": np.int64(5), "i": np.float32(0.3), "t": np.float32(0.2)}
    check(model([node("NonMaxSuppression", ["b", "s", "m", "i", "t"], ["y"], center_point_box=center)], feeds,
                {"y": INT64}, weights), feeds)


@pytest.mark.parametrize("start, end, step", [
    (1, 4, 1), (-3, 100, 1), (5, 0, -1), (100, -100, -2), (3, 3, 1), (0, 6, 3)])
def test_slices_whose_bounds_are_inputs(start, end, step):
    feeds = {"x": np.tile(X, (2, 1)), "s": np.array([start]), "e": np.array([end])}
    check(model([node("Slice", ["x", "s", "e", "a", "p"], ["z"]), node("Neg", ["z"], ["y"])], feeds, {"y": FLOAT},
                {"a": np.array([0]), "p": np.array([step])}), feeds)


def test_ranges_whose_bounds_are_inputs():
    for start, limit, delta in ((0, 5, 1), (3, -4, -2), (5, 2, 1), (0.5, 4.0, 0.7)):
        feeds = {"s": np.array(start), "l": np.array(limit)}
        feeds = {k: v.astype(np.float32 if isinstance(start, float) else np.int64) for k, v in feeds.items()}
        kind = FLOAT if isinstance(start, float) else INT64
        check(model([node("Range", ["s", "l", "d"], ["y"])], feeds, {"y": kind},
                    {"d": np.array(delta, feeds["s"].dtype)}), feeds, bounds={"y_d0": 9})


def test_shapes_that_are_inputs():
    """0 and -1 of a Reshape; an Expand of axes of one element. What does not fit ends the run, with a status."""
    cases = [("Reshape", X, [3, -1], 2), ("Reshape", X, [0, 2, 2], 3), ("Reshape", X, [12], 1),
             ("Expand", X[:, :1], [3, 5], (1,)), ("Expand", X[:, :1], [2, 3, 1], (0, 2)),
             ("Expand", X[:, :1], [4], (1,))]
    for op, x, shape, free in cases:
        feeds = {"x": x, "s": np.array(shape)}
        check(model([node(op, ["x", "s"], ["z"]), node("Neg", ["z"], ["y"])], feeds, {"y": FLOAT}), feeds,
              bounds={f"z_d{k}": 12 for k in (range(free) if isinstance(free, int) else free)})
    feeds = {"x": X, "s": np.array([5, 3])}
    with ingot.compile(model([node("Reshape", ["x", "s"], ["y"])], feeds, {"y": FLOAT}), threads="none",
                       bounds={"y_d0": 9, "y_d1": 9}) as library, pytest.raises(NetworkError) as caught:
        library.run(feeds)
    assert caught.value.status == -5


def test_rows_of_several_shapes_are_refused():
    rows = [node("Identity", ["ci"], ["co"]), node("Identity", ["v"], ["u"]), node("NonZero", ["v"], ["r0"])]
    feeds = {"x": X, "n": np.array(2, np.int64)}
    with pytest.raises(OnnxImportError, match="the rows of 'z' are int64.* a shape that may differ from turn to turn"):
        from_onnx(model([loop(rows, ["n", "", "x"], ["y", "z"], 1)], feeds, {"y": FLOAT, "z": INT64}),
                  bounds={"z_turns": 3})


# ---------------------------------------------------------------- sequences

def test_sequences_of_known_length():
    nodes = [node("SplitToSequence", ["x", "n"], ["q"], axis=1), node("SequenceLength", ["q"], ["l"]),
             node("SequenceAt", ["q", "last"], ["a"]), node("SequenceInsert", ["q", "a", "first"], ["p"]),
             node("SequenceErase", ["p", "last"], ["r"]), node("ConcatFromSequence", ["r"], ["y"], axis=1)]
    weights = {"n": np.array(2, np.int64), "last": np.array(-1, np.int64), "first": np.array(0, np.int64)}
    proto = model(nodes, {"x": X}, {"y": FLOAT, "l": INT64}, weights)
    check(proto, {"x": X})
    parts = from_onnx(model(nodes[:1], {"x": X}, {"q": FLOAT}, {"n": np.array(2, np.int64)}))["main"]
    assert parts.attrs["output_values"] == (("q", "sequence", 2),) and parts.attrs["output_names"] == ("q_0", "q_1")


# ---------------------------------------------------------------- as C

def test_the_c_of_a_loop_a_branch_and_a_size(tmp_path):
    """Without a warning, clean under sanitizers, and with the self-test's outputs."""
    choose = helper.make_graph([node("Neg", ["s"], ["t"])], "g", [], [info("t", FLOAT, None)])
    other = helper.make_graph([node("Exp", ["s"], ["e"])], "g", [], [info("e", FLOAT, None)])
    nodes = [loop(STEP, ["n", "", "x"], ["v1", "rows"], 1), node("ReduceSum", ["v1"], ["s"], keepdims=0),
             node("Less", ["s", "half"], ["c"]), node("If", ["c"], ["y"], then_branch=choose, else_branch=other),
             node("NonZero", ["rows"], ["z"])]
    proto = model(nodes, {"x": X, "n": np.array(3, np.int64)}, {"y": FLOAT, "z": INT64, "rows": FLOAT}, HALF)
    with ingot.compile(proto, "c", threads="none", bounds={"rows_turns": 4}, weights="array") as library:
        library.export(tmp_path / "net")
    text = (tmp_path / "net" / "g.c").read_text()
    assert re.search(r"for \(int64_t turns_i = 0; turns_i < rows_turns; \+\+turns_i\) \{", text)
    assert re.search(r"if \(y_if_cond\) \{", text) and "*z_count_found = z_count;" in text
    sources = [p.name for p in (tmp_path / "net").glob("*.c") if not p.name.endswith("_example.c")]
    subprocess.run(["gcc", *STRICT, "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", *sources,
                    "-o", "selftest", "-lm"], cwd=tmp_path / "net", check=True)
    done = subprocess.run(["./selftest"], cwd=tmp_path / "net", capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count(": ok") == 3, done.stdout + done.stderr
