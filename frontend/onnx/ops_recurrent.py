"""Recurrent layers: GRU, LSTM, RNN. Layouts and gate orders are ONNX's, which the graph operators share."""
from __future__ import annotations

from ...ir.relax.expr import Constant
from ..shapes import dims_of, same
from .converter import converts

_DIRECTIONS = ("forward", "reverse", "bidirectional")
_ACTIVATIONS = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}  # ONNX compares the names without case


def _recurrent(op_type, gates, states, functions):
    """The converter of a cell with `gates` gates, `states` states and `functions` activations per direction."""
    def convert(node):
        direction = node.choice("direction", *_DIRECTIONS)
        count = 2 if direction == "bidirectional" else 1
        _check(node)
        x, w, r = node.input(0), node.input(1), node.input(2)
        if x.struct_info.ndim != 3 or w.struct_info.ndim != 3 or r.struct_info.ndim != 3:
            raise node.error("X, W and R must have 3 dimensions")
        batch_first = bool(node.attr("layout", 0))
        x = node.transpose(x, (1, 0, 2)) if batch_first else x
        time, batch = dims_of(node.bind(x))[:2]
        hidden = dims_of(r)[2]
        if node.attr("hidden_size", hidden) != hidden:
            raise node.error(f"attribute hidden_size {node.attr('hidden_size')} contradicts the last dimension of R, "
                             f"{hidden}")
        _check_lengths(node, time)
        dtype = x.struct_info.dtype
        bias = node.input(3)
        bias = node.filled([count, 2 * gates * hidden], 0, dtype) if bias is None else bias
        initial = [_state(node, 5 + i, [count, batch, hidden], dtype, batch_first) for i in range(states)]
        extra = {"linear_before_reset": bool(node.attr("linear_before_reset", 0))} if op_type == "GRU" else {}
        results = node.call(f"nn.{op_type.lower()}", x, w, r, bias, *initial, hidden_size=hidden, direction=direction,
                            activations=_activations(node, functions * count), **extra)
        if not batch_first:
            return results
        return (node.transpose(results[0], (2, 0, 1, 3)), *(node.transpose(s, (1, 0, 2)) for s in results[1:]))

    converts(op_type, 1, 7)(convert)


def _state(node, index, shape, dtype, batch_first):
    given = node.input(index)
    if given is None:
        return node.filled(shape, 0, dtype)
    return node.transpose(given, (1, 0, 2)) if batch_first else given


def _activations(node, count):
    """The activations of all directions; None means the cell's own ones."""
    given = node.attr("activations")
    if given is None:
        return None
    names = tuple(_ACTIVATIONS.get(name.lower()) for name in given[:count])
    if len(given) < count or None in names:
        raise node.error(f"activations {given} must be {count} of {', '.join(_ACTIVATIONS.values())}")
    return names


def _check(node):
    """What the graph operators do not have: clipping, coupled gates, peepholes."""
    if node.attr("clip"):
        raise node.error("attribute clip is not supported")
    if node.attr("input_forget", 0):
        raise node.error("attribute input_forget 1 is not supported")
    peepholes = node.input(7)
    if peepholes is not None and not (isinstance(peepholes, Constant) and not peepholes.data.any()):
        raise node.error("peephole weights (input P) are not supported")


def _check_lengths(node, time):
    """Sequence lengths are supported where they say nothing: every sequence takes all time steps."""
    if node.input(4) is None:
        return
    for length in node.dims(4, "sequence_lens"):
        if not same(length, time):
            raise node.error(f"sequence_lens has the length {length} for {time} time steps; only full sequences are "
                             "supported")


_recurrent("GRU", gates=3, states=1, functions=2)
_recurrent("LSTM", gates=4, states=2, functions=3)
_recurrent("RNN", gates=1, states=1, functions=1)
