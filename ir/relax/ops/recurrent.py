"""Recurrent layers with ONNX's layouts, gate orders and formulas: nn.gru, nn.lstm, nn.rnn.

Shapes: x [T, B, I]; w [D, G*H, I], r [D, G*H, H] (weight_layout "DGK"; "DKG" has the last two axes exchanged, which
the kernels read without a transposition: passes exchange constant weights once); b [D, 2*G*H]: of the input, then of
the state; initial states [D, B, H]. D: 2 when direction is "bidirectional", else 1. G gates: gru z r h; lstm i o f c;
rnn one. Results: y [T, D, B, H] and the final states [D, B, H].
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ... import tir
from ...op import REQUIRED, register
from ..expr import TensorStructInfo, TupleStructInfo
from .common import fail, need_dtype, need_rank, need_same_dtype, shape_text, static_shape, tensors
from .recurrent_kernel import CELL_STEPS, lower_recurrence


@dataclass(frozen=True)
class Cell:
    """What tells the three layers apart. states: names of the states; activations: ONNX's defaults, in its order."""

    gates: int
    states: tuple
    activations: tuple


CELLS = {"nn.gru": Cell(3, ("h",), ("Sigmoid", "Tanh")), "nn.rnn": Cell(1, ("h",), ("Tanh",)),
         "nn.lstm": Cell(4, ("h", "c"), ("Sigmoid", "Tanh", "Tanh"))}
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}  # True: from the last time step


def _numpy_sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


# name -> (expression, numpy)
ACTIVATIONS = {"Sigmoid": (tir.sigmoid, _numpy_sigmoid), "Tanh": (tir.tanh, np.tanh),
               "Relu": (lambda x: tir.max(x, 0.0), lambda x: np.maximum(x, 0))}


def _activation_names(cell, attrs):
    """A tuple of activation names per direction."""
    count, directions = len(cell.activations), len(DIRECTIONS[attrs["direction"]])
    names = attrs["activations"] or cell.activations * directions
    return [tuple(names[d * count:(d + 1) * count]) for d in range(directions)]


# ---------------------------------------------------------------- struct info

def _infer(call, cell):
    infos, attrs = tensors(call), call.attrs
    _check_attributes(call, cell)
    need_dtype(call, infos[0], "float")
    dtype = need_same_dtype(call, infos)
    need_rank(call, 0, 3)
    names = ("x", "w", "r", "b", *(f"initial {s}" for s in cell.states))
    shapes = [static_shape(call, i, name) for i, name in enumerate(names)]
    steps, batch, inputs = shapes[0]
    hidden, directions = attrs["hidden_size"], len(DIRECTIONS[attrs["direction"]])
    gates = cell.gates * hidden
    swap = attrs["weight_layout"] == "DKG"
    expected = [shapes[0], _weight_shape(directions, gates, inputs, swap),
                _weight_shape(directions, gates, hidden, swap), (directions, 2 * gates)] + [
        (directions, batch, hidden)] * len(cell.states)
    for name, shape, want in zip(names, shapes, expected):
        if shape != want:
            fail(call, f"{name} has shape {shape_text(shape)}, expected {shape_text(want)} for x "
                       f"{shape_text(shapes[0])}, hidden_size {hidden}, direction {attrs['direction']}")
    final = TensorStructInfo((directions, batch, hidden), dtype)
    return TupleStructInfo((TensorStructInfo((steps, directions, batch, hidden), dtype), *(final for _ in cell.states)))


def _weight_shape(directions, gates, size, swap):
    return (directions, size, gates) if swap else (directions, gates, size)


def _check_attributes(call, cell):
    attrs = call.attrs
    for key, known in (("direction", tuple(DIRECTIONS)), ("weight_layout", ("DGK", "DKG"))):
        if attrs[key] not in known:
            fail(call, f"{key} {attrs[key]!r} is none of {', '.join(known)}")
    names = attrs["activations"]
    if names is not None:
        count = len(cell.activations) * len(DIRECTIONS[attrs["direction"]])
        if len(names) != count or any(n not in ACTIVATIONS for n in names):
            fail(call, f"activations {tuple(names)} must be {count} of {', '.join(ACTIVATIONS)}")


# ---------------------------------------------------------------- lowering

def _lower(args, attrs, out, name, cell):
    functions = [tuple(ACTIVATIONS[n][0] for n in names) for names in _activation_names(cell, attrs)]
    return lower_recurrence(name.rpartition(".")[2], args, attrs, out, cell.gates, functions,
                            DIRECTIONS[attrs["direction"]])


# ---------------------------------------------------------------- reference

def _gru_step(x_part, states, r, b, f, attrs):
    """x_part: the input's projection with its bias, [B, 3H]; r [3H, H]; b [3H]: the state's bias."""
    h, = states
    size = h.shape[1]
    gates = f[0](x_part[:, :2 * size] + h @ r[:2 * size].T + b[:2 * size])
    z, reset = gates[:, :size], gates[:, size:]
    r_h, b_h = r[2 * size:], b[2 * size:]
    if attrs["linear_before_reset"]:
        candidate = f[1](x_part[:, 2 * size:] + reset * (h @ r_h.T + b_h))
    else:
        candidate = f[1](x_part[:, 2 * size:] + (reset * h) @ r_h.T + b_h)
    return ((1 - z) * candidate + z * h,)


def _lstm_step(x_part, states, r, b, f, attrs):
    h, c = states
    i, o, forget, candidate = np.split(x_part + h @ r.T + b, 4, axis=1)
    c = f[0](forget) * c + f[0](i) * f[1](candidate)
    return f[0](o) * f[2](c), c


def _rnn_step(x_part, states, r, b, f, attrs):
    return (f[0](x_part + states[0] @ r.T + b),)


def _evaluate(args, attrs, cell, step):
    x, w, r, b, *initial = (np.asarray(a) for a in args)
    if attrs["weight_layout"] == "DKG":
        w, r = np.swapaxes(w, 1, 2), np.swapaxes(r, 1, 2)
    steps, gates = x.shape[0], cell.gates * attrs["hidden_size"]
    reverse = DIRECTIONS[attrs["direction"]]
    y = np.zeros((steps, len(reverse), *initial[0].shape[1:]), x.dtype)
    finals = [np.array(s) for s in initial]
    for d, (backward, names) in enumerate(zip(reverse, _activation_names(cell, attrs))):
        functions = [ACTIVATIONS[n][1] for n in names]
        states = tuple(s[d] for s in initial)
        for t in reversed(range(steps)) if backward else range(steps):
            states = step(x[t] @ w[d].T + b[d, :gates], states, r[d], b[d, gates:], functions, attrs)
            y[t, d] = states[0]
        for final, state in zip(finals, states):
            final[d] = state
    return (y, *finals)


_STEPS = {"nn.gru": _gru_step, "nn.lstm": _lstm_step, "nn.rnn": _rnn_step}
_EXTRA = {"nn.gru": {"linear_before_reset": False}}
assert {n.rpartition(".")[2] for n in CELLS} == set(CELL_STEPS)

for _name, _cell in CELLS.items():
    _arity = 4 + len(_cell.states)
    register(_name, partial(_infer, cell=_cell), partial(_lower, name=_name, cell=_cell),
             partial(_evaluate, cell=_cell, step=_STEPS[_name]), "opaque", arity=(_arity, _arity), hidden_size=REQUIRED,
             direction="forward", activations=None, weight_layout="DGK", **_EXTRA.get(_name, {}))
