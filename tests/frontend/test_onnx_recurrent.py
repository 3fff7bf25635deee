"""GRU, LSTM and RNN in full against onnxruntime: activations, clipping, peepholes, coupled gates, sequence lengths."""
import numpy as np
import pytest
from onnx_models import assert_same, check_node, one_node, run_both

import ingot
from ingot.frontend.onnx import OnnxImportError, from_onnx
from ingot.ir.relax.evaluate import evaluate

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


# ---------------------------------------------------------------- symbolic time and batch

def symbolic(op, given, sizes=("time", "batch"), **attrs):
    """(model, feeds) of a layer over symbolic dimensions."""
    proto = one_node(op, given, 14, (1, 2, 3), 3 if op == "LSTM" else 2, hidden_size=H, **attrs)
    names = dict(zip((T, B), sizes))
    for value in proto.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if isinstance(names.get(dim.dim_value), str):
                dim.dim_param = names[dim.dim_value]
    return proto, {f"x{k}": v for k, v in enumerate(given) if v is not None and k not in (1, 2, 3)}


VARIANTS = [
    ("GRU", {}), ("GRU", dict(linear_before_reset=1)), ("LSTM", {}), ("RNN", {}), ("RNN", dict(clip=0.5)),
    ("GRU", dict(activations=["HardSigmoid", "Softsign"])), ("LSTM", dict(input_forget=1)), ("LSTM", dict(clip=0.4))]


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op, attrs", VARIANTS)
@pytest.mark.parametrize("sizes", [("time", "batch"), ("time", B), (T, "batch")])
def test_symbolic_dimensions(op, attrs, direction, sizes):
    """Layers of these are loops of the program; with lengths and peepholes, too."""
    directions = 1 + (direction == "bidirectional")
    if "activations" in attrs:
        attrs = {**attrs, "activations": attrs["activations"] * directions}
    for lengths in (None, np.array([4, 1, 3], np.int32)):
        proto, feeds = symbolic(op, arrays(op, directions, lengths, peepholes=op == "LSTM" and lengths is None), sizes,
                                direction=direction, **attrs)
        assert_same(*run_both(proto, feeds), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op, attrs", [("GRU", {}), ("LSTM", dict(clip=0.6)), ("RNN", dict(activations=["Elu", "Tanh"]))])
def test_one_network_of_every_time_and_batch(op, attrs):
    """In C: sequences of other lengths and batches of other sizes than the first."""
    rng = np.random.default_rng(5)
    proto, _ = symbolic(op, arrays(op, 2, np.array([4, 1, 3], np.int32)), direction="bidirectional", **attrs)
    with ingot.compile(proto, threads="none", name="layer") as library:
        for time, batch in ((4, 3), (1, 1), (9, 2), (3, 7)):
            feeds = {"x0": rng.standard_normal((time, batch, I)).astype("f"),
                     "x4": rng.integers(0, time + 1, batch).astype(np.int32)}
            feeds |= {f"x{k}": rng.standard_normal((2, batch, H)).astype("f") for k in range(5, 7 if op == "LSTM" else 6)}
            expected = run_both(proto, feeds)[1]
            assert_same([library.run(feeds)[o.name] for o in proto.graph.output], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", GATES)
def test_more_steps_than_are_parts_of_the_program(op):
    given = arrays(op)
    given[0] = np.random.default_rng(1).standard_normal((600, B, I)).astype("f")
    check(op, given, clip=0.5)


@pytest.mark.parametrize("op", GATES)
def test_the_batch_comes_first(op):
    """layout 1, which onnxruntime has not: the same layer with axes exchanged."""
    given = arrays(op, 2)
    expected = run_both(*symbolic(op, given, direction="bidirectional"))[1]
    turned = [v if v is None or k in (1, 2, 3) else v.swapaxes(0, 1).copy() for k, v in enumerate(given)]
    proto, feeds = symbolic(op, turned, direction="bidirectional", layout=1)
    found = evaluate(from_onnx(proto), feeds)
    assert_same(list(found), [expected[0].transpose(2, 0, 1, 3), *(e.swapaxes(0, 1) for e in expected[1:])],
                rtol=1e-4, atol=1e-5)
