"""GRU, LSTM and RNN in full against onnxruntime: activations, clipping, peepholes, coupled gates, sequence lengths."""
import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper
from onnx_models import check_node, one_node, seven_bits
from value_target import value_target

import ingot
from ingot.frontend.onnx import OnnxImportError, from_onnx

T, B, I, H = 4, 3, 2, 5
GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}


def arrays(op, directions=1, lengths=None, peepholes=False):
    rng = np.random.default_rng(len(op))
    g = GATES[op]
    shapes = [(T, B, I), (directions, g * H, I), (directions, g * H, H), (directions, 2 * g * H)]
    given = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    given += [lengths, rng.standard_normal((directions, B, H)).astype(np.float32)]
    if op == "LSTM":
        given.append(rng.standard_normal((directions, B, H)).astype(np.float32))
        given += [rng.standard_normal((directions, 3 * H)).astype(np.float32)] if peepholes else []
    return given


def check(op, given, **attrs):
    outputs = 3 if op == "LSTM" else 2
    check_node(op, given, 14, (1, 2, 3), outputs, hidden_size=H, rtol=1e-4, atol=1e-5, **attrs)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_sequence_lengths(op, direction):
    given = arrays(op, 1 + (direction == "bidirectional"), np.array([4, 1, 3], np.int32))
    check(op, given, direction=direction)


@pytest.mark.parametrize("op", GATES)
def test_clip(op):
    check(op, arrays(op), clip=0.7)


@pytest.mark.parametrize("before", [0, 1])
def test_gru_with_other_activations(before):
    check("GRU", arrays("GRU"), linear_before_reset=before, activations=["HardSigmoid", "LeakyRelu"],
          activation_alpha=[0.3, 0.1], activation_beta=[0.4])
    check("GRU", arrays("GRU", 2), direction="bidirectional", linear_before_reset=before,
          activations=["Sigmoid", "Softsign", "HardSigmoid", "Tanh"], activation_alpha=[0.3], activation_beta=[0.4])


def test_lstm_with_peepholes_and_coupled_gates():
    for coupled in (0, 1):
        check("LSTM", arrays("LSTM", 2, peepholes=True), direction="bidirectional", input_forget=coupled)


@pytest.mark.parametrize("name, numbers", [("Affine", (0.5, 0.2)), ("ScaledTanh", (1.2, 0.7)), ("Elu", (0.8,)),
                                           ("ThresholdedRelu", (0.4,)), ("Softplus", ()), ("LeakyRelu", ())])
def test_activations(name, numbers):
    attrs = {f"activation_{which}": [v] for which, v in zip(("alpha", "beta"), numbers)}
    check("RNN", arrays("RNN"), activations=[name], **attrs)


def test_refusals():
    with pytest.raises(OnnxImportError, match="activations .*Swish.* must be 1 of relu"):
        from_onnx(one_node("RNN", arrays("RNN"), 14, (1, 2, 3), hidden_size=H, activations=["Swish"]))


def of_any_size(model):
    """The model with the symbolic dimensions steps and batch."""
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_value in (T, B):
                dim.dim_param = "steps" if dim.dim_value == T else "batch"
    return model


def check_sizes(model, *sizes):
    """A model of symbolic dimensions, compiled once, against onnxruntime for several sizes (steps, batch)."""
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with ingot.compile(model, value_target(), threads="none") as library:
        for steps, batch in sizes:
            feeds = {}
            for n, i in enumerate(session.get_inputs()):
                shape = [{"steps": steps, "batch": batch}.get(d, d) for d in i.shape]
                rng = np.random.default_rng(n)
                feeds[i.name] = (rng.integers(0, steps + 1, shape).astype(np.int32) if i.type == "tensor(int32)"
                                 else rng.standard_normal(shape).astype(np.float32))
            results = library.run(feeds)
            for output, want in zip(session.get_outputs(), session.run(None, feeds)):
                np.testing.assert_allclose(results[output.name], want, rtol=1e-4, atol=1e-5)


SIZES = ((1, 1), (6, 1), (3, 4))


@pytest.mark.parametrize("op, directions", [("GRU", 2), ("LSTM", 1), ("RNN", 2)])
def test_any_number_of_steps_and_sequences(op, directions):
    given = arrays(op, directions)
    direction = "bidirectional" if directions == 2 else "forward"
    outputs = 3 if op == "LSTM" else 2
    check_sizes(of_any_size(one_node(op, given, 14, (1, 2, 3), outputs, hidden_size=H, direction=direction)), *SIZES)


@pytest.mark.parametrize("op, attrs", [("GRU", {"clip": 0.7}), ("LSTM", {"input_forget": 1}), ("RNN", {"clip": 0.5})])
def test_special_layers_of_any_size_are_loops(op, attrs):
    given, outputs = arrays(op, 2, peepholes=True), 3 if op == "LSTM" else 2
    model = one_node(op, given, 14, (1, 2, 3, 7), outputs, hidden_size=H, direction="bidirectional", **attrs)
    check_sizes(of_any_size(model), *SIZES)


def test_sequence_lengths_of_any_number_of_steps():
    given = arrays("GRU", 2, np.array([4, 1, 3], np.int32))
    check_sizes(of_any_size(one_node("GRU", given, 14, (1, 2, 3), 2, hidden_size=H, direction="bidirectional")), *SIZES)


@pytest.mark.parametrize("attrs", [{}, {"clip": 0.7}])
def test_states_whose_dimensions_have_names_of_their_own(attrs):
    model = of_any_size(one_node("GRU", arrays("GRU"), 14, (1, 2, 3), 2, hidden_size=H, **attrs))
    state = model.graph.input[-1]
    for dim, name in zip(state.type.tensor_type.shape.dim, ("directions", "sequences", "hidden")):
        dim.dim_param = name
    rng = np.random.default_rng(0)
    feeds = {i.name: np.float32(rng.normal(size=(1, B, H) if i.name == state.name else (T, B, I)))
             for i in model.graph.input}
    want = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    with ingot.compile(model, value_target(), threads="none") as library:
        np.testing.assert_allclose(list(library.run(feeds).values())[0], want[0], rtol=1e-4, atol=1e-5)
        with pytest.raises(Exception, match="no result for these sizes|disagrees with another input"):
            library.run({**feeds, state.name: np.zeros((1, B + 1, H), np.float32)})


def test_many_steps_are_one_loop():
    given = arrays("LSTM", 2, np.array([4, 600, 3], np.int32))
    given[0] = np.random.default_rng(0).standard_normal((600, B, I)).astype(np.float32)
    model = one_node("LSTM", given, 14, (1, 2, 3), 3, hidden_size=H, direction="bidirectional")
    assert sum(len(f.bindings) for f in from_onnx(model).functions.values()) < 200
    feeds = {f"x{k}": given[k] for k in (0, 4, 5, 6)}
    with ingot.compile(model, threads="none") as library:
        results = library.run(feeds)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for output, want in zip(session.get_outputs(), session.run(None, feeds)):
        np.testing.assert_allclose(results[output.name], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("directions, steps, batch", [(2, 40, 1), (1, 3, 3)])
def test_lstm_of_bytes_rounds_as_onnxruntime(directions, steps, batch):
    """A state that is another byte changes what all later steps compute."""
    rng, inputs, hidden = np.random.default_rng(3), 16, 32
    weights = {"w": (directions, inputs, 4 * hidden), "r": (directions, hidden, 4 * hidden)}
    weights = {n: seven_bits(rng.integers(-127, 128, s).astype(np.int8)) for n, s in weights.items()}
    weights["b"] = rng.normal(0, 0.1, (directions, 8 * hidden)).astype(np.float32)
    weights |= {n: np.full(directions, v, t) for n, v, t in (
        ("ws", 0.004, np.float32), ("wz", 0, np.int8), ("rs", 0.005, np.float32), ("rz", 3, np.int8))}
    node = helper.make_node(
        "DynamicQuantizeLSTM", ["x", "w", "r", "b", "", "h0", "c0", "", "ws", "wz", "rs", "rz"], ["y", "yh", "yc"],
        hidden_size=hidden, direction="bidirectional" if directions == 2 else "forward", domain="com.microsoft")
    inputs = {"x": ("steps", "batch", inputs), "h0": (directions, "batch", hidden), "c0": (directions, "batch", hidden)}
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, 1, s) for n, s in inputs.items()],
                              [helper.make_tensor_value_info(n, 1, None) for n in node.output],
                              [numpy_helper.from_array(a, n) for n, a in weights.items()])
    model = helper.make_model(graph, ir_version=9, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    sizes = {"steps": steps, "batch": batch}
    feeds = {n: rng.standard_normal([sizes.get(d, d) for d in s]).astype(np.float32) for n, s in inputs.items()}
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # several share the batch, and each looks at its own part for the scale
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    with ingot.compile(model, threads="none") as library:
        results = library.run(feeds)
    for output, want in zip(session.get_outputs(), session.run(None, feeds)):
        np.testing.assert_allclose(results[output.name], want, rtol=0, atol=1e-6)
