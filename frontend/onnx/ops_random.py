"""Random numbers: a seed and an element's place decide each, so that every run has the same. Without a seed of its own
a node has one by its name."""
from __future__ import annotations

import struct
import zlib

import numpy as np

from ...ir.relax.expr import Constant
from ..shapes import dims_of
from .converter import converts
from .load import dtype_of
from .ops_math import scalar_like

FLOAT = 1  # TensorProto's number of it


def _seed(node):
    """32 bits, of attribute seed or else of the name of the result."""
    seed = node.attr("seed")
    if seed is None:
        return zlib.crc32(next(filter(None, node.outputs)).encode())
    return zlib.crc32(struct.pack("<d", float(seed)))


def _dtype(node, usual):
    number = node.attr("dtype")
    return usual if number is None else dtype_of(number, f"{node.title}: attribute dtype")


def _numbers(op, names):
    def make(node, dims, dtype):
        attrs = {name: float(node.attr(name)) for name in names}
        return node.call(f"random_{op}", list(dims), seed=_seed(node), dtype=str(dtype), **attrs)

    def by_shape(node):
        return make(node, node.attr("shape"), _dtype(node, dtype_of(FLOAT, "")))

    def like(node):
        x = node.input(0)
        return make(node, dims_of(x), _dtype(node, x.struct_info.dtype))

    converts(f"Random{op.title()}", 1)(by_shape)
    converts(f"Random{op.title()}Like", 1)(like)


_numbers("uniform", ("low", "high"))
_numbers("normal", ("mean", "scale"))


@converts("Bernoulli", 15)
def bernoulli(node):
    """1 with the probability that the input is."""
    x = node.input(0)
    drawn = node.call("random_uniform", list(dims_of(x)), seed=_seed(node), dtype="float32")
    return node.astype(node.call("less", drawn, node.astype(x, "float32")), _dtype(node, x.struct_info.dtype))


@converts("Multinomial", 7)
def multinomial(node):
    """Classes drawn by the logarithms of their weights: as many limits of running sums as a number exceeds."""
    x, count = node.input(0), node.attr("sample_size", 1)
    dims = dims_of(x)
    if len(dims) != 2 or count < 1:
        raise node.error("takes [batch, classes], and a sample_size of at least 1")
    chance = node.call("nn.softmax", node.astype(x, "float32"), axis=1)
    sums = node.reshape(node.call("cumsum", chance, axis=1), [dims[0], 1, dims[1]])
    drawn = node.call("random_uniform", [dims[0], count, 1], seed=_seed(node), dtype="float32")
    beyond = node.astype(node.call("greater_equal", drawn, sums), "int32")
    place = node.call("sum", beyond, axis=(2,))
    if isinstance(dims[1], int):  # the last sum may be a little below 1
        place = node.call("minimum", place, node.const(dims[1] - 1, "int32"))
    return node.astype(place, dtype_of(node.attr("dtype", 6), f"{node.title}: attribute dtype"))


@converts("Dropout", 12)
def dropout(node):
    """In training mode elements are cleared by chance, and the others are greater by as much; else nothing happens, and
    the mask is all true."""
    x = node.input(0)
    training = node.constant(2, "training_mode") if len(node.inputs) > 2 else None
    ratio = node.input(1)
    nothing = isinstance(ratio, Constant) and not ratio.data.any()
    if training is None or not training.any() or nothing:
        return (x, node.filled(dims_of(x), True, "bool")) if node.wants(1) else x
    ratio = node.const(0.5, "float32") if ratio is None else node.reshape(node.astype(ratio, "float32"), [])
    drawn = node.call("random_uniform", list(dims_of(x)), seed=_seed(node), dtype="float32")
    keep = node.call("greater_equal", drawn, ratio)
    scale = node.astype(node.call("divide", node.const(1, "float32"), node.call("subtract", node.const(
        np.float32(1), "float32"), ratio)), x.struct_info.dtype)
    result = node.call("where", keep, node.call("multiply", x, scale), scalar_like(node, 0, x))
    return (result, keep) if node.wants(1) else result
