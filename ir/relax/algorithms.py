"""Names of the algorithms of costly operators, for readers of the C."""
from __future__ import annotations

from .accuracy import arithmetics_of

# The beginning of an operator's name: how it is computed.
WORDS = {"nn.conv2d_transpose": "direct transposed convolution", "nn.conv2d_phases": "transposed convolution by phases",
         "nn.conv2d_gathered": "direct convolution of gathered channels", "nn.conv": "direct convolution",
         "matmul": "matrix product", "nn.attention": "attention", "nn.gru": "recurrence", "nn.lstm": "recurrence",
         "nn.rnn": "recurrence", "memory.border": "fills the padding region alone"}
BY = {"split_integer": "split integers", "inner_product": "Winograd's inner product",
      "compressed": "compressed weights"}
SUMS = ("nn.conv", "matmul")  # of products, each with the error of a sum


def algorithm_of(call):
    """How a call of a graph operator is computed, "Winograd F(4x4, 3x3)"; "" where nothing is to choose."""
    names = [BY.get(a.name, a.name) for a in arithmetics_of(call)]
    if names and names[0].startswith("winograd"):
        names[0] = names[0][:1].upper() + names[0][1:]
        return " by ".join(names)
    words = next((text for name, text in WORDS.items() if call.op.startswith(name)), "")
    return " by ".join([words, *names]) if words else ""


def is_sum_of_products(call):
    """Whether a call's elements are sums of products made by FMAs, which arithmetic.FMA bounds."""
    return call.op.startswith(SUMS) and not arithmetics_of(call)
