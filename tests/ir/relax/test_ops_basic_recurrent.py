"""Recurrent layers: interpreted kernels against the reference, and the reference against onnx's own."""
import re

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from ops_basic_check import N, call_of, check, evaluate, floats, infos, lower

from ingot.ir import op as op_table
from ingot.ir import te
from ingot.ir.node import collect
from ingot.ir.op import InferError
from ingot.ir.relax.ops.recurrent import project, state_parts
from ingot.ir.tir import Block

STEPS, BATCH = 3, 2
GATES = {"nn.gru": 3, "nn.lstm": 4, "nn.rnn": 1}
DIRECTIONS = ("forward", "reverse", "bidirectional")


def inputs(name, direction, inputs=5, hidden=4, steps=STEPS, batch=BATCH):
    """x, w, r, b and the initial states, of moderate size so that gates do not saturate."""
    d, g = 2 if direction == "bidirectional" else 1, GATES[name]
    shapes = [(steps, batch, inputs), (d, g * hidden, inputs), (d, g * hidden, hidden), (d, 2 * g * hidden)]
    shapes += [(d, batch, hidden)] * (2 if name == "nn.lstm" else 1)
    return [floats(*s, seed=n, low=-0.8, high=0.8) for n, s in enumerate(shapes)]


def projected(arrays):
    """The arguments of the layer without the input's product."""
    x, w, r, b, *states = arrays
    return [project(x, w, b), *state_parts(r, b), *states]


CASES = [(name, direction, {}) for name in GATES for direction in DIRECTIONS]
CASES += [("nn.gru", direction, {"linear_before_reset": True}) for direction in DIRECTIONS]
CASES += [("nn.rnn", "forward", {"activations": ("Relu",)}),
          ("nn.lstm", "bidirectional", {"activations": ("Sigmoid", "Tanh", "Relu", "Tanh", "Tanh", "Tanh")})]


@pytest.mark.parametrize("name, direction, attrs", CASES)
def test_kernels(name, direction, attrs):
    attrs = {"hidden_size": 4, "direction": direction, **attrs}
    arrays = inputs(name, direction)
    expected = check(name, *arrays, attrs=attrs)
    for a, b in zip(check(name + "_steps", *projected(arrays), attrs=attrs), expected):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("hidden", [1, 2, 3, 6])
def test_any_size(hidden):
    for name in GATES:
        check(name, *inputs(name, "forward", inputs=hidden + 1, hidden=hidden, batch=1), attrs={"hidden_size": hidden})


@pytest.mark.parametrize("name, direction, attrs", [c for c in CASES if "activations" not in c[2]
                                                    and c[1] != "bidirectional"])
def test_reference_is_onnx(name, direction, attrs):
    """onnx's evaluator runs one direction, forward."""
    arrays = inputs(name, direction)
    op = name.rpartition(".")[2].upper()
    x, w, r, b, *states = arrays
    feeds = {"x": x[::-1] if direction == "reverse" else x, "w": w, "r": r, "b": b}
    feeds |= {n: s for n, s in zip(("h0", "c0"), states)}
    more = {"linear_before_reset": int(attrs.get("linear_before_reset", False))} if op == "GRU" else {}
    names = ["x", "w", "r", "b", "", *(("h0", "c0")[:len(states)])]
    outs = ["y", "yh", "yc"][:1 + len(states)]
    node = helper.make_node(op, names, outs, hidden_size=4, **more)
    types = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in (*feeds, *outs)]
    model = helper.make_model(helper.make_graph([node], "g", types[:len(feeds)], types[len(feeds):]))
    want = ReferenceEvaluator(model).run(None, feeds)
    mine = evaluate(name, arrays, {"hidden_size": 4, "direction": direction, **attrs})
    mine[0] = mine[0][::-1] if direction == "reverse" else mine[0]
    for a, b in zip(mine, want):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_shape_of_the_kernel():
    func = lower(call_of("nn.gru", inputs("nn.gru", "bidirectional"),
                         {"hidden_size": 4, "direction": "bidirectional"}))
    names = [b.name_hint for b in collect(func, Block)]
    assert len(set(names)) == len(names)
    assert [b.name for b in func.buffers] == ["x", "w", "r", "b", "h0", "y", "y_h"]
    step, = [b for b in collect(func, Block) if b.name_hint == "gru_step"]
    assert [iv.iter_type for iv in step.iter_vars] == ["spatial", "scan"]
    assert {r.buffer.name for r in step.writes} == {"y", "y_h"}


def test_directions_of_different_activations_have_steps_of_their_own():
    attrs = {"hidden_size": 4, "direction": "bidirectional", "activations": ("Tanh", "Relu")}
    func = lower(call_of("nn.rnn", inputs("nn.rnn", "bidirectional"), attrs))
    assert [b.name_hint for b in collect(func, Block) if "step" in b.name_hint] == ["rnn_step", "rnn_step_1"]


def test_a_projected_layer_keeps_nothing_between_steps_but_its_states():
    func = lower(call_of("nn.lstm_steps", projected(inputs("nn.lstm", "forward")), {"hidden_size": 4}))
    assert func.root.alloc_buffers == ()
    assert [b.name for b in func.buffers] == ["p", "r", "b", "h0", "c0", "y", "y_h", "y_c"]


def test_results():
    call = call_of("nn.lstm", inputs("nn.lstm", "forward"), {"hidden_size": 4})
    assert [i.static_shape for i in infos(call)] == [(3, 1, 2, 4), (1, 2, 4), (1, 2, 4)]


GOOD = inputs("nn.gru", "forward")


@pytest.mark.parametrize("args, attrs, message", [
    (GOOD, {"hidden_size": 5}, r"w has shape \(1, 12, 5\), expected \(1, 15, 5\) for x \(3, 2, 5\), hidden_size 5"),
    (GOOD, {"hidden_size": 4, "direction": "back"}, r"nn.gru: direction 'back' is none of forward, reverse"),
    (GOOD, {"hidden_size": 4, "activations": ("Tanh",)}, r"activations \('Tanh',\) must be 2 of Sigmoid, Tanh, Relu"),
    ([GOOD[0][0], *GOOD[1:]], {"hidden_size": 4}, r"nn.gru: argument 0 must have 3 dimensions, its shape is \(2, 5\)"),
    ([GOOD[0].astype("int32"), *GOOD[1:]], {"hidden_size": 4}, r"nn.gru: takes a floating-point tensor"),
])
def test_errors(args, attrs, message):
    with pytest.raises(InferError, match=message):
        call_of("nn.gru", args, attrs)


def test_errors_of_projected_layers():
    p, *rest = projected(GOOD)
    with pytest.raises(InferError, match=r"nn.gru_steps: p has shape \(3, 2, 11\), expected \(3, 2, 12\) for p"):
        call_of("nn.gru_steps", [np.ascontiguousarray(p[:, :, 1:]), *rest], {"hidden_size": 4})


@pytest.mark.parametrize("shape, expected", [((1, 2, 4, 3, 3), "(1, 4, 12)"), ((1, 2, 4, 2, 2), "(1, 2, 4, 3, 2)")])
def test_errors_of_panels(shape, expected):
    p, _, *rest = projected(GOOD)
    with pytest.raises(InferError, match=re.escape(f"r has shape {shape}, expected {expected} for p (3, 2, 12)")):
        call_of("nn.gru_steps", [p, np.zeros(shape, np.float32), *rest], {"hidden_size": 4})


def test_symbolic_sizes_say_the_way_out():
    with pytest.raises(InferError, match=r"nn.gru: argument 0 x has shape \(3, 2, n\); .* pin n \(compile with dims="):
        call_of("nn.gru", GOOD, {"hidden_size": 4}, symbolic={(0, 2): N})


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_any_number_of_steps(name, direction):
    arrays, attrs = inputs(name, direction), {"hidden_size": 4, "direction": direction}
    check(name, *arrays, attrs=attrs, symbolic={(0, 0): N})
    check(name + "_steps", *projected(arrays), attrs=attrs, symbolic={(0, 0): N})


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_any_number_of_sequences(name, direction):
    arrays, attrs = inputs(name, direction), {"hidden_size": 4, "direction": direction}
    check(name, *arrays, attrs=attrs, symbolic={(0, 1): N, **{(k, 1): N for k in range(4, len(arrays))}})
    given = projected(arrays)
    check(name + "_steps", *given, attrs=attrs, symbolic={(0, 1): N, **{(k, 1): N for k in range(3, len(given))}})


def test_one_tensor_for_both_states_is_one_parameter():
    sizes = call_of("nn.lstm", inputs("nn.lstm", "forward"), {"hidden_size": 4})
    tensors = [te.placeholder([int(d) for d in a.struct_info.shape], "float32", a.name) for a in sizes.args]
    func = op_table.get("nn.lstm").lower([*tensors[:5], tensors[4]], sizes.attrs, sizes.struct_info)
    assert [b.name for b in func.buffers] == ["x", "w", "r", "b", "h0", "y", "y_h", "y_c"]
