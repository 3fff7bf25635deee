"""Recurrent layers step by step: what nn.gru, nn.lstm and nn.rnn have not. That is other activations, clipping,
peephole weights, coupled gates, sequences of several lengths and products of bytes. Few steps are parts of the program
each, others a loop.

Letters are ONNX's: T steps, B batch, H hidden size, D directions. Values of a step are [B, H].
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..shapes import dims_of, settle
from .ops_control import over_rows
from .ops_math import scalar_like

MOST_STEPS = 8  # of all directions, that are a part of the program each
# activation -> (defaults of alpha and beta, as far as it takes them; function of (node, x, alpha, beta))
ACTIVATIONS = {
    "relu": ((), lambda node, x: node.call("nn.relu", x)),
    "tanh": ((), lambda node, x: node.call("tanh", x)),
    "sigmoid": ((), lambda node, x: node.call("sigmoid", x)),
    "softsign": ((), lambda node, x: node.call("nn.softsign", x)),
    "softplus": ((), lambda node, x: node.call("nn.softplus", x)),
    "leakyrelu": ((0.01,), lambda node, x, alpha: node.call("nn.leaky_relu", x, alpha=alpha)),
    "elu": ((1.0,), lambda node, x, alpha: node.call("nn.elu", x, alpha=alpha)),
    "thresholdedrelu": ((1.0,), lambda node, x, alpha: node.call(
        "where", node.call("greater", x, scalar_like(node, alpha, x)), x, scalar_like(node, 0, x))),
    "hardsigmoid": ((0.2, 0.5), lambda node, x, alpha, beta: node.call(
        "nn.hard_sigmoid", x, alpha=alpha, beta=beta)),
    "affine": ((1.0, 0.0), lambda node, x, alpha, beta: _affine(node, x, alpha, beta)),
    "scaledtanh": ((1.0, 1.0), lambda node, x, alpha, beta: _affine(node, node.call(
        "tanh", _affine(node, x, beta, 0.0)), alpha, 0.0)),
}


def _affine(node, x, alpha, beta):
    x = node.call("multiply", x, scalar_like(node, alpha, x))
    return node.call("add", x, scalar_like(node, beta, x)) if beta else x


def activations(node, names, table):
    """The functions of `names`, with the alphas and betas that the node gives, in order, to those that take some.
    table: as ACTIVATIONS."""
    given = [list(node.attr(f"activation_{which}") or ()) for which in ("alpha", "beta")]
    found = []
    for name in names:
        defaults, function = table[name.lower()]
        values = [float(given[k].pop(0)) if given[k] else usual for k, usual in enumerate(defaults)]
        found.append(lambda node, x, function=function, values=values: function(node, x, *values))
    return found


@dataclass(frozen=True)
class Direction:
    """One direction: a function (node, h, first column, columns) -> those of h . r, with r [H, G*H]; rb [G*H],
    peepholes [3*H] or None, functions of the activations: (node, x) -> value."""

    node: object
    hidden: int
    product: object
    rb: object
    peepholes: object
    functions: list

    def gate(self, x, k):
        """Columns k * H to (k + 1) * H."""
        return cut(self.node, x, 1, k * self.hidden, self.hidden)

    def add(self, a, b):
        return self.node.call("add", a, b)

    def multiply(self, a, b):
        return self.node.call("multiply", a, b)

    def rest(self, x):
        """1 - x."""
        return self.node.call("subtract", scalar_like(self.node, 1, x), x)

    def recurrent(self, h, first, count):
        """h . r + the state's bias, of `count` gates."""
        return self.add(self.product(self.node, h, first * self.hidden, count * self.hidden),
                        cut(self.node, self.rb, 0, first * self.hidden, count * self.hidden))

    def activated(self, k, x):
        clip = self.node.attr("clip")
        return self.functions[k](self.node, self.node.call("clip", x, min=-clip, max=clip) if clip else x)

    def peep(self, x, k, c):
        if self.peepholes is None:
            return x
        return self.add(x, self.multiply(cut(self.node, self.peepholes, 0, k * self.hidden, self.hidden), c))


def _rnn(of, x, h):
    return (of.activated(0, of.add(x, of.recurrent(h, 0, 1))),)


def _gru(of, x, h):
    gates = of.recurrent(h, 0, 2)
    z, reset = (of.activated(0, of.add(of.gate(x, k), of.gate(gates, k))) for k in range(2))
    if of.node.attr("linear_before_reset", 0):
        state = of.multiply(reset, of.recurrent(h, 2, 1))
    else:
        state = of.recurrent(of.multiply(reset, h), 2, 1)
    candidate = of.activated(1, of.add(of.gate(x, 2), state))
    return (of.add(of.multiply(of.rest(z), candidate), of.multiply(z, h)),)


def _lstm(of, x, h, c):
    """Gates i, o, f, c; peepholes of i, o, f. Coupled, f is 1 - i."""
    sums = of.add(x, of.recurrent(h, 0, 4))
    i = of.activated(0, of.peep(of.gate(sums, 0), 0, c))
    f = of.rest(i) if of.node.attr("input_forget", 0) else of.activated(0, of.peep(of.gate(sums, 2), 2, c))
    new = of.add(of.multiply(f, c), of.multiply(i, of.activated(1, of.gate(sums, 3))))
    o = of.activated(0, of.peep(of.gate(sums, 1), 1, new))
    return of.multiply(o, of.functions[2](of.node, new)), new


STEPS = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}


def float_products(node, w, r, d):
    """The products of direction `d`: functions (node, x) -> x . w, and (node, h, first column, columns) -> those of
    h . r."""
    w, r = (node.bind(node.transpose(part(node, v, d), (1, 0))) for v in (w, r))
    return (lambda node, x: node.call("matmul", x, w),
            lambda node, h, first, count: node.call("matmul", h, cut(node, r, 1, first, count)))


def by_steps(node, step, x, weights, initial, lengths, names, products, table=ACTIVATIONS):
    """(y [T, D, B, H], final states [D, B, H]) of x [T, B, I].

    step: such as those of STEPS; weights: (bias, peepholes or None) as ONNX has them; initial: the states [D, B, H];
    lengths: how many steps each of the batch takes, or None; names: the activations of each direction, of `table`;
    products: function (direction) -> as float_products.
    """
    steps, batch = dims_of(x)[:2]
    few = isinstance(steps, int) and steps * len(names) <= MOST_STEPS
    hidden = dims_of(initial[0])[2]
    outputs, finals = [], []
    for d, of_direction in enumerate(names):
        bias, peepholes = (None if v is None else node.bind(part(node, v, d)) for v in weights)
        size = dims_of(bias)[0] // 2
        project, product = products(d)
        of = Direction(node, hidden, product, node.bind(cut(node, bias, 0, size, size)), peepholes,
                       activations(node, of_direction, table))
        projected = node.bind(node.call("add", project(node, x), cut(node, bias, 0, 0, size)))
        states = [_begun(node, part(node, s, d), lengths) for s in initial]
        backward = d == 1 or node.attr("direction", "forward") == "reverse"
        run = _unrolled if few else _looped
        rows, states = run(of, step, projected, states, lengths, backward)
        outputs.append(rows)
        finals.append(states)
    y = _joined(node, [node.reshape(node.bind(o), [steps, 1, batch, hidden]) for o in outputs], 1)
    return (y, *(_stacked(node, list(states)) for states in zip(*finals)))


def _begun(node, state, lengths):
    """The initial state, 0 for sequences of no steps, whose final state is 0, as onnxruntime has it."""
    if lengths is None:
        return state
    runs = node.call("greater", lengths, scalar_like(node, 0, lengths))
    return node.call("where", runs, state, scalar_like(node, 0, state))


def _unrolled(of, step, projected, states, lengths, backward):
    """(outputs [T, B, H], final states) of one direction, each step a part of the program."""
    node, made = of.node, {}
    steps = dims_of(projected)[0]
    for t in range(steps)[::-1 if backward else 1]:
        new = step(of, part(node, projected, t), *states)
        made[t], states = _kept(node, new, states, lengths, node.const(t, "int64"))
    return _stacked(node, [made[t] for t in range(steps)]), states


def _looped(of, step, projected, states, lengths, backward):
    """The same by a loop of the program."""
    node = of.node
    last = dims_of(projected)[0] - 1
    lengths = None if lengths is None else node.bind(lengths)

    def turn(inner, index, states, rows):
        now = None if lengths is None else inner.tensor(settle(np.array(last - index if backward else index, object),
                                                               "int64"))
        output, states = _kept(inner, step(replace(of, node=inner), rows[0], *states), states, lengths, now)
        return states, [output]

    rows = node.call("flip", projected, axis=0) if backward else projected
    states, (made,) = over_rows(node, states, [rows], turn)
    return (node.call("flip", node.bind(made), axis=0) if backward else made), states


def _kept(node, new, old, lengths, t):
    """(output, states) after step t, a tensor: sequences that have ended keep their states, and give zeros."""
    new = [node.bind(x) for x in new]
    if lengths is None:
        return new[0], new
    runs = node.call("less", node.astype(t, lengths.struct_info.dtype), lengths)
    choose = partial(node.call, "where", runs)
    return choose(new[0], scalar_like(node, 0, new[0])), [choose(n, o) for n, o in zip(new, old)]


def cut(node, x, axis, begin, count):
    if dims_of(x)[axis] == count:
        return x
    return node.call("strided_slice", x, axes=(axis,), begin=(begin,), end=(begin + count,), strides=(1,))


def part(node, x, k):
    """x[k]."""
    return node.reshape(cut(node, node.bind(x), 0, k, 1), dims_of(x)[1:])


def _joined(node, parts, axis):
    return parts[0] if len(parts) == 1 else node.call("concat", *parts, axis=axis)


def _stacked(node, parts):
    return _joined(node, [node.reshape(p, [1, *dims_of(p)]) for p in parts], 0)
