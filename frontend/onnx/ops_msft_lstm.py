"""DynamicQuantizeLSTM: an LSTM whose weights are bytes. Its input and, in each step, its state become bytes for the
products, by the least and greatest of their elements.

One step of a byte changes what all later steps compute, so that floats are rounded as onnxruntime rounds them: its
polynomials of sigmoid and tanh, its order of sums.
"""
from __future__ import annotations

from ..shapes import dims_of
from .converter import microsoft
from .ops_msft_quantized import integer_product
from .ops_math import scalar_like
from .ops_quantize import dynamically_quantized
from .ops_recurrent import DIRECTIONS, check_ranks, initial_state, named_activations, sequence_lengths
from .recurrence import ACTIVATIONS, by_steps, cut, part

MOST = 3e38  # a float32, and none of a state or gate


def _rounded(node, x):
    """A product that is rounded before it is added to something: the two are no FMA."""
    return node.call("clip", x, min=-MOST, max=MOST)


def _quotient(limit, above, below):
    """Function (node, x) -> x p(x^2) / q(x^2) for x within the limit. above, below: the coefficients, highest first."""
    def polynomial(node, square, coefficients):
        total = scalar_like(node, coefficients[0], square)
        for c in coefficients[1:]:
            total = node.call("add", node.call("multiply", total, square), scalar_like(node, c, square))
        return total

    def function(node, x):
        x = node.bind(node.call("clip", x, min=-limit, max=limit))
        square = node.bind(node.call("multiply", x, x))
        p, q = (polynomial(node, square, c) for c in (above, below))
        return node.call("divide", node.call("multiply", p, x), q)

    return function


_tanh = _quotient(9.0, (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
                        1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03),
                  (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03))
_half_sigmoid = _quotient(18.0, (4.37031012579801e-11, 1.15627324459942e-07, 6.08574864600143e-05, 8.51377133304701e-03,
                                 2.48287947061529e-01),
                          (6.10247389755681e-13, 5.76102136993427e-09, 6.29106785017040e-06, 1.70198817374094e-03,
                           1.16817656904453e-01, 9.93151921023180e-01))
_TABLE = {**ACTIVATIONS, "tanh": ((), _tanh), "sigmoid": ((), lambda node, x: node.call(
    "add", _half_sigmoid(node, x), scalar_like(node, 0.5, x)))}


def _step(of, x, h, c):
    """A step of an LSTM: gates i, o, f, c, whose bias is added last."""
    node = of.node
    product = _rounded(node, of.product(node, h, 0, 4 * of.hidden))
    sums = of.add(of.add(x, product), of.rb)
    i = of.activated(0, of.peep(of.gate(sums, 0), 0, c))
    f = of.rest(i) if node.attr("input_forget", 0) else of.activated(0, of.peep(of.gate(sums, 2), 2, c))
    kept, added = of.multiply(f, c), of.multiply(i, of.activated(1, of.gate(sums, 3)))
    new = node.bind(of.add(_rounded(node, kept), _rounded(node, added)))
    o = of.activated(0, of.peep(of.gate(sums, 1), 1, new))
    return of.multiply(o, of.functions[2](node, new)), new


@microsoft("DynamicQuantizeLSTM")
def dynamic_quantize_lstm(node):
    check_ranks(node)
    x, w, r, bias = (node.input(k) for k in range(4))
    count = 2 if node.choice("direction", *DIRECTIONS) == "bidirectional" else 1
    time, batch = dims_of(x)[:2]
    hidden, dtype = dims_of(r)[1], x.struct_info.dtype
    if node.attr("hidden_size", hidden) != hidden or dims_of(w)[2] != 4 * hidden:
        raise node.error(f"attribute hidden_size {node.attr('hidden_size')} and the last dimension of W, "
                         f"{dims_of(w)[2]}, contradict R's {hidden} rows")
    bias = node.filled([count, 8 * hidden], 0, dtype) if bias is None else bias
    size = 4 * hidden
    both = node.call("add", cut(node, bias, 1, 0, size), cut(node, bias, 1, size, size))
    bias = node.bind(node.call("concat", node.filled([count, size], 0, dtype), both, axis=1))
    initial = [initial_state(node, 5 + i, [count, batch, hidden], dtype, False) for i in range(2)]
    names = named_activations(node, "LSTM", 3, count)
    lengths = sequence_lengths(node, time)
    lengths = None if lengths is None else node.reshape(lengths, [batch, 1])

    def products(d):
        return _product(node, w, 8, d), _product(node, r, 10, d)

    return by_steps(node, _step, x, (bias, node.input(7)), initial, lengths, names, products, _TABLE)


def _product(node, weight, scale, d):
    """Function (node, x, first column, columns) -> those of x . weight of direction `d`; inputs `scale` and the next
    are the weight's scale and zero point, one or one for each column."""
    weight = part(node, weight, d)
    scale, zero = (part(node, node.input(k), d) for k in (scale, scale + 1))

    def product(node, x, first=0, count=dims_of(weight)[1]):
        columns = cut(node, weight, 1, first, count)
        scales, zeros = (cut(node, v, 0, first, count) if v.struct_info.ndim and dims_of(v) != [1] else v
                         for v in (scale, zero))
        return integer_product(node, *dynamically_quantized(node, x), columns, scales, zeros)

    return product
