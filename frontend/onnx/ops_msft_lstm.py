"""DynamicQuantizeLSTM: an LSTM whose weights are bytes. Its input and, in each step, its state become bytes for the
products, by the least and greatest of their elements."""
from __future__ import annotations

from ..shapes import dims_of
from .converter import microsoft
from .ops_msft_quantized import integer_product
from .ops_quantize import dynamically_quantized
from .ops_recurrent import DIRECTIONS, initial_state, named_activations, sequence_lengths
from .recurrence import cut, part, stepwise


@microsoft("DynamicQuantizeLSTM")
def dynamic_quantize_lstm(node):
    x, w, r, bias = (node.input(k) for k in range(4))
    count = 2 if node.choice("direction", *DIRECTIONS) == "bidirectional" else 1
    if any(v.struct_info.ndim != 3 for v in (x, w, r)):
        raise node.error("X, W and R must have 3 dimensions")
    time, batch = dims_of(x)[:2]
    hidden, dtype = dims_of(r)[1], x.struct_info.dtype
    if node.attr("hidden_size", hidden) != hidden or dims_of(w)[2] != 4 * hidden:
        raise node.error(f"attribute hidden_size {node.attr('hidden_size')} and the last dimension of W, "
                         f"{dims_of(w)[2]}, contradict R's {hidden} rows")
    bias = node.filled([count, 8 * hidden], 0, dtype) if bias is None else bias
    initial = [initial_state(node, 5 + i, [count, batch, hidden], dtype, False) for i in range(2)]
    names = named_activations(node, "LSTM", 3, count)
    lengths = sequence_lengths(node, time)

    def products(d):
        return _product(node, w, 8, d), _product(node, r, 10, d)

    return stepwise(node, "LSTM", x, (bias, node.input(7)), initial, lengths, names, products)


def _product(node, weight, scale, d):
    """Function (node that makes calls, x, first column, columns) -> those of x . weight of direction `d`; inputs
    `scale` and the next are the weight's scale and zero point, one or one for each column."""
    weight = node.bind(part(node, weight, d))
    scale, zero = (node.bind(part(node, node.input(k), d)) for k in (scale, scale + 1))

    def product(at, x, first=0, count=dims_of(weight)[1]):
        columns = cut(at, weight, 1, first, count)
        scales, zeros = (cut(at, v, 0, first, count) if v.struct_info.ndim and dims_of(v) != [1] else v
                         for v in (scale, zero))
        return integer_product(at, *dynamically_quantized(at, x), columns, scales, zeros)

    return product
