"""ingot quantize: a network of 8-bit integers, and what it loses and saves."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ingot
from ingot.cli import main
from ingot.quantization import compared, samples_of, with_integer_ends

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxruntime.quantization")
pytest.importorskip("sympy")

RNG = np.random.default_rng(11)
SAMPLES = (RNG.standard_normal((6, 3, 8, 8)) * 2).astype(np.float32)


def network(path):
    """Two convolutions and a product; the second has a channel that is a thousand times the others, which a scale for
    the whole tensor loses."""
    w1 = RNG.standard_normal((8, 8, 3, 3)).astype(np.float32) * .1
    w1[0] *= 1000
    weights = {"w0": RNG.standard_normal((8, 3, 3, 3)).astype(np.float32) * .3, "w1": w1,
               "w2": RNG.standard_normal((8, 4)).astype(np.float32)}

    def node(op, inputs, output, **attrs):
        return helper.make_node(op, inputs.split(), [output], name=f"the_{output}", **attrs)

    nodes = [node("Conv", "x w0", "a", pads=[1, 1, 1, 1]), node("Relu", "a", "b"), node("Conv", "b w1", "c"),
             node("GlobalAveragePool", "c", "p"), node("Flatten", "p", "f"), node("MatMul", "f w2", "y")]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(a, name) for name, a in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_network_of_bytes(tmp_path):
    data, made = tmp_path / "data.npz", tmp_path / "q.onnx"
    np.savez(data, x=SAMPLES)
    report = ingot.quantize(network(tmp_path / "net.onnx"), data, made, target="c", threads="none")
    assert [layer.lost for layer in report.layers] == sorted((layer.lost for layer in report.layers), reverse=True)
    assert {"the_a", "the_c"} <= {name for layer in report.layers for name in layer.nodes}
    assert all(0.98 < layer.cosine <= 1 + 1e-9 for layer in report.layers)
    assert report.after.flash < report.before.flash and report.after.ram < report.before.ram / 2
    assert report.after.seconds > 0 and [row[0] for row in report.rows()] == ["RAM, bytes", "flash, bytes", "time, ms"]
    with ingot.compile(made, target="c", threads="none") as library:
        assert library(SAMPLES[:1]).shape == (1, 4)


def test_inputs_and_outputs_of_bytes(tmp_path):
    data, made = tmp_path / "data.npz", tmp_path / "q.onnx"
    np.savez(data, x=SAMPLES)
    report = ingot.quantize(network(tmp_path / "net.onnx"), data, made, integer_io=True, target="c", threads="none")
    x = report.ends["x"].quantized(SAMPLES[:1])
    with ingot.compile(made, target="c", threads="none") as library:
        y = library(x)
    expected, = onnxruntime.InferenceSession(made).run(None, {"x": x})
    assert x.dtype == y.dtype == np.uint8 and y.shape == (1, 4)
    assert np.abs(y.astype(int) - expected.astype(int)).max() <= 1  # onnxruntime's own two graphs differ by one step
    np.testing.assert_allclose(report.ends["x"].real(x), SAMPLES[:1], atol=report.ends["x"].scale * 0.5001)


def ends_model(extra=(), more_outputs=()):
    """x -> int8 -> Relu -> int8 -> y, and more nodes."""
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["a"]),
             helper.make_node("DequantizeLinear", ["a", "s", "z"], ["b"]), helper.make_node("Relu", ["b"], ["c"]),
             helper.make_node("QuantizeLinear", ["c", "t", "z"], ["d"]),
             helper.make_node("DequantizeLinear", ["d", "t", "z"], ["y"]), *extra]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [5]) for name in ("x", "y", *more_outputs)]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], [
        numpy_helper.from_array(np.float32(0.1), "s"), numpy_helper.from_array(np.float32(0.05), "t"),
        numpy_helper.from_array(np.int8(-3), "z")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("extra, outputs, integers", [
    ((), (), {"x", "y"}),
    ([helper.make_node("Neg", ["x"], ["n"])], ("n",), {"y"}),  # something reads the input's real values
    ([helper.make_node("Neg", ["y"], ["n"])], ("n",), {"x"}),  # ... the output's
    ([helper.make_node("DequantizeLinear", ["d", "t", "z"], ["n"])], ("n",), {"x", "y"}),
    ([helper.make_node("QuantizeLinear", ["x", "t", "z"], ["e"]),  # another scale
      helper.make_node("DequantizeLinear", ["e", "t", "z"], ["n"])], ("n",), {"y", "n"})])
def test_ends_that_can_be_integers_are(extra, outputs, integers):
    proto = ends_model(extra, outputs)
    x = np.array([-20, -0.26, 0, 0.25, 4.04], np.float32)
    expected = dict(zip(("y", *outputs), onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x}),
                        strict=True))
    ends = with_integer_ends(proto)
    onnx.checker.check_model(proto, full_check=True)
    assert ends.keys() == integers
    given = ends["x"].quantized(x) if "x" in ends else x
    found = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": given})
    for (name, value), array in zip(expected.items(), found, strict=True):
        np.testing.assert_array_equal(ends[name].real(array) if name in ends else array, value, err_msg=name)


def test_ends_that_a_branch_reads_stay_float():
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["m"])], "branch", [],
                               [helper.make_tensor_value_info("m", TensorProto.FLOAT, [5])])
    proto = ends_model([helper.make_node("If", ["always"], ["n"], then_branch=branch, else_branch=branch)], ("n",))
    proto.graph.initializer.append(numpy_helper.from_array(np.array(True), "always"))
    assert with_integer_ends(proto).keys() == {"y"}
    onnx.checker.check_model(proto)


def test_the_worst_layers_stay_float(tmp_path):
    samples = [{"x": x[None]} for x in SAMPLES]
    source, made = network(tmp_path / "net.onnx"), tmp_path / "q.onnx"
    whole = ingot.quantize(source, samples, made, per_channel=False, target="c", threads="none")
    part = ingot.quantize(source, samples, made, keep_float=1, per_channel=False, target="c", threads="none")
    assert part.kept == (whole.layers[0].name,)
    nodes = onnx.load(made).graph.node
    dequantized = {n.output[0] for n in nodes if n.op_type == "DequantizeLinear"}
    plain = {n.name for n in nodes if n.op_type in ("Conv", "MatMul") and n.input[1] not in dequantized}
    assert plain == set(whole.layers[0].nodes) & {"the_a", "the_c", "the_y"} != set()


def test_sqnr_and_cosine_are_those_of_the_formulas(tmp_path):
    """Of one layer, computed by hand."""
    def model(quantized):
        ends = [helper.make_node("QuantizeLinear", ["y", "s", "z"], ["q"]),
                helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y_DequantizeLinear_Output"])]
        nodes = [helper.make_node("Abs", ["x"], ["y"], name="abs"), *(ends if quantized else ())]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [16])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [16])],
                                  [numpy_helper.from_array(np.float32(0.1), "s"),
                                   numpy_helper.from_array(np.uint8(0), "z")])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    x = np.linspace(-2, 2, 16, dtype=np.float32)
    layer, = compared(model(False), model(True), [{"x": x}], {})
    y = np.abs(x).astype(np.float64)
    error = y - np.rint(np.abs(x) / np.float32(0.1)) * np.float64(np.float32(0.1))
    assert layer.sqnr == pytest.approx(10 * np.log10(y @ y / (error @ error)), abs=1e-3)
    found = y - error
    assert layer.cosine == pytest.approx(found @ y / np.sqrt((found @ found) * (y @ y)), abs=1e-6)
    assert (layer.nodes, layer.op) == (("abs",), "Abs")


@pytest.mark.parametrize("arrays, message", [
    ({"z": SAMPLES}, "samples must have the inputs x, not z"),
    ({"x": SAMPLES[:, :2]}, r"input 'x' is \(1, 3, 8, 8\); a sample of it has shape \(1, 2, 8, 8\)"),
    ({"x": np.zeros((), np.float32)}, "as many samples as the others")])
def test_refused_data(arrays, message, tmp_path):
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        samples_of(tmp_path / "data.npz", onnx.load(network(tmp_path / "net.onnx")))
    assert main(["quantize", str(tmp_path / "net.onnx"), "--data", str(tmp_path / "data.npz"), "-o",
                 str(tmp_path / "q.onnx")]) == 2
    assert not (tmp_path / "q.onnx").exists()


def test_a_folder_of_samples(tmp_path):
    folder = tmp_path / "samples"
    folder.mkdir()
    for n, x in enumerate(SAMPLES):
        np.savez(folder / f"{n}.npz", x=x[None])
    found = samples_of(folder, onnx.load(network(tmp_path / "net.onnx")))
    np.testing.assert_array_equal(np.concatenate([s["x"] for s in found]), SAMPLES)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no samples"):
        samples_of(tmp_path / "empty", onnx.load(tmp_path / "net.onnx"))
