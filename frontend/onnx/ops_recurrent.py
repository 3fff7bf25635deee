"""Recurrent layers: GRU, LSTM, RNN. Layouts and gate orders are ONNX's, which the graph operators share."""
from __future__ import annotations

from functools import partial

from ...ir.relax.expr import Constant
from ..shapes import Symbolic, dims_of, may_be_same, same, same_dims, shape_text
from .converter import converts
from .recurrence import ACTIVATIONS, STEPS, by_steps, float_products

DIRECTIONS = ("forward", "reverse", "bidirectional")
_ACTIVATIONS = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}  # ONNX compares the names without case
RANKS = {"X": 3, "W": 3, "R": 3, "B": 2, "sequence_lens": 1, "initial_h": 3, "initial_c": 3, "P": 2}  # of the inputs
DEFAULTS = {"GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh"), "RNN": ("Tanh",)}


def _recurrent(op_type, gates, states, functions):
    """The converter of a cell with `gates` gates, `states` states and `functions` activations per direction."""
    def convert(node):
        direction = node.choice("direction", *DIRECTIONS)
        count = 2 if direction == "bidirectional" else 1
        check_ranks(node)
        x, w, r = node.input(0), node.input(1), node.input(2)
        batch_first = bool(node.attr("layout", 0))
        x = node.transpose(x, (1, 0, 2)) if batch_first else x
        time, batch = dims_of(node.bind(x))[:2]
        hidden = dims_of(r)[2]
        if node.attr("hidden_size", hidden) != hidden:
            raise node.error(f"attribute hidden_size {node.attr('hidden_size')} contradicts the last dimension of R, "
                             f"{hidden}")
        dtype = x.struct_info.dtype
        bias = node.input(3)
        bias = node.filled([count, 2 * gates * hidden], 0, dtype) if bias is None else bias
        initial = [initial_state(node, 5 + i, [count, batch, hidden], dtype, batch_first) for i in range(states)]
        names = named_activations(node, op_type, functions, count)
        lengths = sequence_lengths(node, time)
        if lengths is not None or _is_special(node, names):
            peepholes = node.input(7) if op_type == "LSTM" else None
            lengths = None if lengths is None else node.reshape(lengths, [batch, 1])
            results = by_steps(node, STEPS[op_type], x, (bias, peepholes), initial, lengths, names,
                               partial(float_products, node, w, r))
            return _by_layout(node, results, batch_first)
        extra = {"linear_before_reset": bool(node.attr("linear_before_reset", 0))} if op_type == "GRU" else {}
        results = node.call(f"nn.{op_type.lower()}", x, w, r, bias, *initial, hidden_size=hidden, direction=direction,
                            activations=tuple(_ACTIVATIONS[n.lower()] for part in names for n in part), **extra)
        return _by_layout(node, results, batch_first)

    converts(op_type, 1, 7)(convert)


def check_ranks(node):
    for index, (name, rank) in enumerate(RANKS.items()):
        if node.input(index) is not None and node.input(index).struct_info.ndim != rank:
            raise node.error(f"{name} must have {rank} dimension{'s' if rank > 1 else ''}")


def initial_state(node, index, shape, dtype, batch_first):
    given = node.input(index)
    if given is None:
        return node.filled(shape, 0, dtype)
    given = node.bind(node.transpose(given, (1, 0, 2)) if batch_first else given)
    dims = dims_of(given)
    if not all(map(may_be_same, dims, shape)):
        raise node.error(f"the initial state, input {index}, has {shape_text(dims)} as directions, batch and hidden "
                         f"size, and must have {shape_text(shape)}")
    viewed = [shape[0], dims[1], shape[2]]  # what weights say; the batch is fitted where x meets it
    return given if same_dims(dims, viewed) else node.reshape(given, viewed)


def _by_layout(node, results, batch_first):
    if not batch_first:
        return results
    return (node.transpose(results[0], (2, 0, 1, 3)), *(node.transpose(s, (1, 0, 2)) for s in results[1:]))


def named_activations(node, op_type, functions, count):
    """The names of the activations of each direction."""
    given = node.attr("activations") or DEFAULTS[op_type] * count
    if len(given) < functions * count or not all(name.lower() in ACTIVATIONS for name in given):
        raise node.error(f"activations {given} must be {functions * count} of {', '.join(ACTIVATIONS)}")
    return [tuple(given[d * functions:(d + 1) * functions]) for d in range(count)]


def _is_special(node, names):
    """Whether the graph operators do not have it: other activations, clipping, coupled gates, peepholes."""
    peepholes = node.input(7)
    peeps = peepholes is not None and not (isinstance(peepholes, Constant) and not peepholes.data.any())
    plain = all(name.lower() in _ACTIVATIONS for part in names for name in part)
    return bool(peeps or not plain or node.attr("clip") or node.attr("input_forget", 0))


def sequence_lengths(node, time):
    """Input sequence_lens, or None where every sequence takes all time steps."""
    lengths = node.input(4)
    if lengths is None or isinstance(lengths, (Constant, Symbolic)) and all(
            same(length, time) for length in node.dims(4, "sequence_lens")):
        return None
    return lengths


_recurrent("GRU", gates=3, states=1, functions=2)
_recurrent("LSTM", gates=4, states=2, functions=3)
_recurrent("RNN", gates=1, states=1, functions=1)
