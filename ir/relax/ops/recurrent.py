"""Recurrent layers with ONNX's layouts, gate orders and formulas: nn.gru, nn.lstm, nn.rnn.

Shapes: x [T, B, I]; w [D, G*H, I], r [D, G*H, H]; b [D, 2*G*H]: of the input, then of the state; initial states
[D, B, H]. D: 2 when direction is "bidirectional", else 1. G gates: gru z r h; lstm i o f c; rnn one. Results: y
[T, D, B, H] and the final states [D, B, H].

nn.gru_steps, nn.lstm_steps and nn.rnn_steps are the layers without the input's product, which the pass ProjectInputs
makes an operator of its own: p [T, B, D*G*H] = x . w + the input's bias; r [D, H, G*H], as the kernel reads it without
a transposition, or in panels (recurrent_weights.py); b [D, G*H], of the state; initial states as above. T and B may be
symbolic dimensions.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ... import tir
from ...expr import IntImm
from ...op import REQUIRED, register
from ..expr import TensorStructInfo, TupleStructInfo
from .common import fail, need_dtype, need_rank, need_same_dtype, same_dim, shape_text, static_shape, tensors
from .recurrent_kernel import CELL_STEPS, lower_recurrence
from .recurrent_weights import expected_shape, unpack


@dataclass(frozen=True)
class Cell:
    """The three layers' differences. states: names of the states; activations: ONNX's defaults, in its order."""

    gates: int
    states: tuple
    activations: tuple


CELLS = {"nn.gru": Cell(3, ("h",), ("Sigmoid", "Tanh")), "nn.rnn": Cell(1, ("h",), ("Tanh",)),
         "nn.lstm": Cell(4, ("h", "c"), ("Sigmoid", "Tanh", "Tanh"))}
STEPS = "_steps"  # the end of the names of operators without the input's product
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

def _infer(call, cell, projected):
    infos, attrs = tensors(call), call.attrs
    _check_attributes(call, cell)
    need_dtype(call, infos[0], "float")
    dtype = need_same_dtype(call, infos)
    need_rank(call, 0, 3)
    names = (*(("p",) if projected else ("x", "w")), "r", "b", *(f"initial {s}" for s in cell.states))
    steps, batch, size = infos[0].shape  # any numbers of steps and of sequences
    if not isinstance(size, IntImm):
        static_shape(call, 0, names[0])
    size, hidden, directions = size.value, attrs["hidden_size"], len(DIRECTIONS[attrs["direction"]])
    weights = len(infos) - len(cell.states)
    shapes = [infos[0].shape, *(static_shape(call, i, names[i]) for i in range(1, weights)),
              *(i.shape for i in infos[weights:])]
    gates = cell.gates * hidden
    if projected:
        expected = [(steps, batch, directions * gates), expected_shape(shapes[1], directions, hidden, cell.gates),
                    (directions, gates)]
    else:
        expected = [shapes[0], (directions, gates, size), (directions, gates, hidden), (directions, 2 * gates)]
    expected += [(directions, batch, hidden)] * len(cell.states)
    for name, shape, want in zip(names, shapes, expected):
        if len(shape) != len(want) or not all(map(same_dim, shape, want)):
            fail(call, f"{name} has shape {shape_text(shape)}, expected {shape_text(want)} for {names[0]} "
                       f"{shape_text(shapes[0])}, hidden_size {hidden}, direction {attrs['direction']}")
    final = TensorStructInfo((directions, batch, hidden), dtype)
    return TupleStructInfo((TensorStructInfo((steps, directions, batch, hidden), dtype), *(final for _ in cell.states)))


def _check_attributes(call, cell):
    attrs = call.attrs
    if attrs["direction"] not in DIRECTIONS:
        fail(call, f"direction {attrs['direction']!r} is none of {', '.join(DIRECTIONS)}")
    names = attrs["activations"]
    if names is not None:
        count = len(cell.activations) * len(DIRECTIONS[attrs["direction"]])
        if len(names) != count or any(n not in ACTIVATIONS for n in names):
            fail(call, f"activations {tuple(names)} must be {count} of {', '.join(ACTIVATIONS)}")


# ---------------------------------------------------------------- lowering

def _lower(args, attrs, out, name, cell, projected):
    functions = [tuple(ACTIVATIONS[n][0] for n in names) for names in _activation_names(cell, attrs)]
    return lower_recurrence(name.rpartition(".")[2], args, attrs, out, cell.gates, functions,
                            DIRECTIONS[attrs["direction"]], projected)


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


def project(x, w, b):
    """Compute the operand p of the layer without the product, from x, w and b of the layer with it."""
    gates = w.shape[1]
    return np.concatenate([x @ w[d].T + b[d, :gates] for d in range(len(w))], axis=2)


def state_parts(r, b):
    """r and b of the layer without the product, from those of the layer with it."""
    return np.ascontiguousarray(np.swapaxes(r, 1, 2)), np.ascontiguousarray(b[:, b.shape[1] // 2:])


def _evaluate(args, attrs, cell, step, projected):
    args = [np.asarray(a) for a in args]
    if not projected:
        x, w, r, b, *initial = args
        args = [project(x, w, b), *state_parts(r, b), *initial]
    p, r, b, *initial = args
    r = unpack(r)
    gates, reverse = cell.gates * attrs["hidden_size"], DIRECTIONS[attrs["direction"]]
    y = np.zeros((len(p), len(reverse), *initial[0].shape[1:]), p.dtype)
    finals = [np.array(s) for s in initial]
    for d, (backward, names) in enumerate(zip(reverse, _activation_names(cell, attrs))):
        functions = [ACTIVATIONS[n][1] for n in names]
        states = tuple(s[d] for s in initial)
        for t in reversed(range(len(p))) if backward else range(len(p)):
            states = step(p[t, :, d * gates:(d + 1) * gates], states, r[d].T, b[d], functions, attrs)
            y[t, d] = states[0]
        for final, state in zip(finals, states):
            final[d] = state
    return (y, *finals)


_STEPS = {"nn.gru": _gru_step, "nn.lstm": _lstm_step, "nn.rnn": _rnn_step}
_EXTRA = {"nn.gru": {"linear_before_reset": False}}
assert {n.rpartition(".")[2] for n in CELLS} == set(CELL_STEPS)

for _name, _cell in CELLS.items():
    for _projected in (False, True):
        _given = 3 + (not _projected) + len(_cell.states)
        register(_name + STEPS * _projected, partial(_infer, cell=_cell, projected=_projected),
                 partial(_lower, name=_name, cell=_cell, projected=_projected),
                 partial(_evaluate, cell=_cell, step=_STEPS[_name], projected=_projected), "opaque",
                 arity=(_given, _given), hidden_size=REQUIRED, direction="forward", activations=None,
                 **_EXTRA.get(_name, {}))
