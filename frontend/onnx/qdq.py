"""Operators between DequantizeLinear and QuantizeLinear become the operators of integers that they stand for.

The tools write a quantized network in one of two forms: with operators of bytes, or with those of floats between
conversions, which runtimes take for the first. Where all that a node reads is dequantized, and all that it makes is
quantized, the conversion before it and the one behind it become part of it. Sums are those of integers then. A Relu
between such a node and the conversion behind it bounds the integers.

Of 16 bits are products by constants, and what moves elements. Others stay floats between conversions, in one kernel
with these: they are rounded as onnxruntime rounds them, and no table holds a function of so many numbers.
"""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from onnx import helper

from .captures import used_names
from .functions import Node
from .load import DOMAINS, KNOWN_DOMAINS
from .msft_schemas import MICROSOFT, schemas

_KINDS = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16}


def integer_nodes(nodes, constant, outputs):
    """`nodes` with those of integers instead of the conversions and what is between them.

    constant: function (name) -> array of an initializer, or None; outputs: the names of the graph's.
    """
    makers = {name: node for node in nodes for name in node.proto.output}
    readers = Counter([*outputs, *(name for node in nodes for name in used_names(node.proto))])
    return [new for node in nodes for new in _integer_nodes(node, makers, readers, constant) or (node,)]


@dataclass(frozen=True)
class Conversion:
    """What a node between integers and floats reads: names of a tensor, its scale and zero point; the axis of these."""

    tensor: str
    scale: str
    zero: str
    axis: int

    @property
    def names(self):
        return [self.tensor, self.scale, self.zero]


def _integer_nodes(node, makers, readers, constant):
    """The nodes of integers for the QuantizeLinear `node` and what is before it; None where there are none."""
    target = _conversion(node, "QuantizeLinear", constant)
    inner = makers.get(node.proto.input[0]) if target else None
    if inner and inner.proto.op_type == "Relu" and _alone(inner, readers) and _one(constant, target):
        before = makers.get(inner.proto.input[0])
        least = _is_least(constant(target.zero))  # what is below is cut off anyway
        if not least and (before is None or before.proto.op_type not in _PRODUCTS):
            return None
        made = _integer_node(node, before, target, makers, readers, constant)
        return made and ((made,) if least else _bounded(made, inner, target))
    made = _integer_node(node, inner, target, makers, readers, constant)
    return made and (made,)


def _bounded(made, relu, target):
    """A node of integers, and a Relu of what it makes: those below the zero point become that."""
    output, inner = made.proto.output[0], f"{made.proto.output[0]}_before_{relu.proto.op_type}"
    made.proto.output[0] = inner
    return made, Node(helper.make_node("Max", [inner, target.zero], [output], name=relu.proto.name), relu.opset)


def _integer_node(node, inner, target, makers, readers, constant):
    """The node of integers for the QuantizeLinear `node`, which is `target`, and the node `inner`, whose result it
    takes, or a Relu of it; None where there is none."""
    if not inner or not _alone(inner, readers):
        return None
    operands = [_conversion(makers.get(name), "DequantizeLinear", constant) for name in inner.proto.input]
    if inner.proto.op_type in _MOVES and operands and operands[0] is not None:
        return _moved(node, inner, operands[0], target, constant)
    if None in operands:
        return None
    made = _RULES[inner.proto.op_type](inner, operands, target, constant) if inner.proto.op_type in _RULES else None
    if made is None:
        return None
    made.name = inner.proto.name
    made.output.append(node.proto.output[0])
    return Node(made, inner.opset)


# Operators that make a tensor of elements of their first input: of bytes, where the scale stays the same.
_MOVES = frozenset("""DepthToSpace Expand Flatten Gather GatherElements GatherND GlobalMaxPool Identity MaxPool Reshape
    ReverseSequence Slice SpaceToDepth Squeeze Tile Transpose Unsqueeze""".split())


def _moved(node, inner, operand, target, constant):
    """The operator of bytes for one that moves elements, or takes the largest, between conversions of one scale."""
    same = _one(constant, operand, target) and all(
        np.array_equal(constant(a), constant(b)) for a, b in zip(operand.names[1:], target.names[1:]))
    if not same:
        return None
    made = type(inner.proto)()
    made.CopyFrom(inner.proto)
    made.input[0], made.output[0] = operand.tensor, node.proto.output[0]
    return Node(made, inner.opset)


def _alone(node, readers):
    """Whether a node of the standard has one output, which one node reads."""
    proto = node.proto
    return proto.domain in DOMAINS and len(proto.output) == 1 and readers[proto.output[0]] == 1


def _conversion(node, op_type, constant):
    """The Conversion of a node of the operator, None for another one, or without a constant scale and zero point."""
    if node is None or node.proto.op_type != op_type or node.proto.domain not in KNOWN_DOMAINS:
        return None
    names, attrs = list(node.proto.input), {a.name: a.i for a in node.proto.attribute}
    if len(names) != 3 or attrs.keys() - {"axis", "saturate"} or any(constant(name) is None for name in names[1:]):
        return None
    return Conversion(*names, attrs.get("axis", 1))


def _is_least(zero):
    return bool((zero == np.iinfo(zero.dtype).min).all())


def _one(constant, *conversions):
    """Whether all have one scale and one zero point each, of the same type of integers."""
    kinds = {str(constant(c.zero).dtype) for c in conversions}
    whole = all(constant(name).size == 1 for c in conversions for name in c.names[1:])
    return whole and len(kinds) == 1 and kinds <= set(_KINDS)


def _bits(constant, conversion):
    """Of the integers of a tensor, 0 of others."""
    return _KINDS.get(str(constant(conversion.zero).dtype), 0)


def _weight(constant, x, w, axis):
    """Whether a weight is of integers that products with x take, with a scale in all or for each element of `axis`. For
    x of 16 bits it is a constant: sums of others may ask for more than 32 bits, which are slower than floats."""
    kinds, array = [str(constant(v.zero).dtype) for v in (x, w)], constant(w.tensor)
    if not 0 < _bits(constant, w) <= _bits(constant, x) or kinds == ["int8", "uint8"]:
        return False
    if array is None and _bits(constant, x) > 8:
        return False
    if all(constant(name).size == 1 for name in w.names[1:]):
        return True
    return array is not None and w.axis % array.ndim == axis and all(
        constant(name).shape == (array.shape[axis],) for name in w.names[1:])


def _biases(constant, x, w, biases):
    """The names of a bias of int32, if there is one, whose scale is that of the sums; None where it is another."""
    whole = constant(x.scale) * constant(w.scale)
    for bias in biases:
        array, scale = constant(bias.tensor), constant(bias.scale)
        if array is None or array.dtype != np.int32 or array.ndim != 1 or constant(bias.zero).any():
            return None
        if scale.size not in (1, whole.size) or not np.allclose(scale, whole, rtol=1e-5, atol=0):
            return None
    return [bias.tensor for bias in biases]


def _node(op_type, inputs, attributes, domain="", **attrs):
    made = helper.make_node(op_type, inputs, [], domain=domain, **attrs)
    made.attribute.extend(attributes)
    return made


def _conv(node, operands, target, constant):
    x, w, *bias = operands
    if not _one(constant, x, target) or not _weight(constant, x, w, 0):
        return None
    bias = _biases(constant, x, w, bias)
    inputs = [*x.names, *w.names, *target.names[1:], *(bias or ())]
    return None if bias is None else _node("QLinearConv", inputs, node.proto.attribute)


def _matmul(node, operands, target, constant):
    a, b = operands
    if not _one(constant, a, target) or not _weight(constant, a, b, 1):
        return None
    if constant(b.scale).size > 1 and constant(b.tensor).ndim != 2:
        return None
    return _node("QLinearMatMul", [*a.names, *b.names, *target.names[1:]], node.proto.attribute)


def _gemm(node, operands, target, constant):
    a, b, *bias = operands
    attrs = {attr.name: attr for attr in node.proto.attribute}
    plain = all(attrs[name].f == 1 for name in ("alpha", "beta") if name in attrs)
    columns = 0 if "transB" in attrs and attrs["transB"].i else 1
    if not plain or not _one(constant, a, target) or not _weight(constant, a, b, columns):
        return None
    bias = _biases(constant, a, b, bias)
    inputs = [*a.names, *b.names, *(bias or [""]), *target.names[1:]]
    return None if bias is None else _node(
        "QGemm", inputs, [attrs[name] for name in ("transA", "transB") if name in attrs], MICROSOFT)


def _elementwise(op_type):
    def convert(node, operands, target, constant):
        inputs = [*(name for operand in operands for name in operand.names), *target.names[1:]]
        attributes = [a for a in node.proto.attribute if a.name != "dilations" or set(a.ints) != {1}]
        known = all(a.name in schemas()[op_type].attributes for a in attributes) and _bits(constant, target) == 8
        return _node(op_type, inputs, attributes, MICROSOFT) if known and _one(constant, *operands, target) else None
    return convert


def _concat(node, operands, target, constant):
    inputs = [*target.names[1:], *(name for operand in operands for name in operand.names)]
    return _node("QLinearConcat", inputs, node.proto.attribute, MICROSOFT) if _one(
        constant, *operands, target) else None


def _softmax(node, operands, target, constant):
    """Its default axis depends on the opset, by which the operator of bytes also knows what it normalizes."""
    if not _one(constant, *operands, target) or _bits(constant, target) != 8:
        return None
    axis = next((attr.i for attr in node.proto.attribute), 1 if node.opset < 13 else -1)
    inputs = [*operands[0].names, *target.names[1:]]
    return _node("QLinearSoftmax", inputs, [], MICROSOFT, axis=axis, opset=node.opset)


_PRODUCTS = ("Conv", "MatMul", "Gemm")
_RULES = {
    "Conv": _conv, "MatMul": _matmul, "Gemm": _gemm, "Concat": _concat, "Softmax": _softmax,
    **{name: _elementwise(f"QLinear{name}") for name in (
        "Add", "Mul", "Sigmoid", "LeakyRelu", "AveragePool", "GlobalAveragePool")},
}
