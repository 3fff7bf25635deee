"""GRU, LSTM and RNN in full against onnxruntime: activations, clipping, peepholes, coupled gates, sequence lengths."""
import numpy as np
import onnxruntime as ort
import pytest
from onnx_models import check_node, one_node

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
    given = arrays("RNN")
    given[0] = np.zeros((600, B, I), np.float32)
    with pytest.raises(OnnxImportError, match="600 of 1 directions are not from 1 to 512"):
        from_onnx(one_node("RNN", given, 14, (1, 2, 3), hidden_size=H, clip=1.0))


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
    with ingot.compile(model, threads="none") as library:
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
