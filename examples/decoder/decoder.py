"""Writes decoder.onnx: a small decoder in Llama's style, with seeded weights, as exporters write one with a KV cache.

    python decoder.py [decoder.onnx]

It reads token ids [1, sequence], a mask of ones [1, past + sequence] and, for each layer, keys and values of the past
[1, KV_HEADS, past, SIZE]; it gives logits [1, sequence, VOCABULARY] and the keys and values of past and sequence,
the past's first. Weights are random, so what it says means nothing; it takes the way that a trained one takes.
"""
from __future__ import annotations

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, HEADS, KV_HEADS, SIZE, WIDE, VOCABULARY = 2, 4, 2, 16, 128, 96
WIDTH, EPSILON, BASE = HEADS * SIZE, 1e-5, 10000.0


class Graph:
    """Nodes and initializers as they come; each method returns the name of its result."""

    def __init__(self, seed):
        self.nodes, self.initializers, self.rng = [], [], np.random.default_rng(seed)

    def op(self, kind, *inputs, outputs=None, **attrs):
        names = outputs or [f"{kind.lower()}_{len(self.nodes)}"]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0] + "_node", **attrs))
        return names[0]

    def const(self, value, dtype=np.int64):
        name = f"const_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def weight(self, *shape):
        return self.const(self.rng.standard_normal(shape) / np.sqrt(shape[0]), np.float32)

    def size(self, x, axis):
        """An axis' length, [1]."""
        return self.op("Gather", self.op("Shape", x), self.const([axis]), axis=0)

    def slice(self, x, begin, end, axis):
        return self.op("Slice", x, *(v if isinstance(v, str) else self.const([v]) for v in (begin, end, axis)))

    def shaped(self, x, *dims):
        """A Reshape to dims, numbers and names of [1]."""
        dims = [d if isinstance(d, str) else self.const([d]) for d in dims]
        return self.op("Reshape", x, self.op("Concat", *dims, axis=0))


def rms_norm(g, x):
    mean = g.op("ReduceMean", g.op("Pow", x, g.const(2, np.float32)), g.const([-1]), keepdims=1)
    root = g.op("Sqrt", g.op("Add", mean, g.const(EPSILON, np.float32)))
    return g.op("Mul", g.op("Div", x, root), g.const(1 + g.rng.standard_normal(WIDTH) / 10, np.float32))


def rotated(g, x, cos, sin):
    halves = g.slice(x, 0, SIZE // 2, 3), g.slice(x, SIZE // 2, 2 ** 31, 3)
    turned = g.op("Concat", g.op("Neg", halves[1]), halves[0], axis=-1)
    return g.op("Add", g.op("Mul", x, cos), g.op("Mul", turned, sin))


def attention(g, x, layer, angles, bias, sequence, total):
    def heads(count):
        return g.op("Transpose", g.shaped(g.op("MatMul", x, g.weight(WIDTH, count * SIZE)), 1, sequence, count, SIZE),
                    perm=[0, 2, 1, 3])

    q, k, v = rotated(g, heads(HEADS), *angles), rotated(g, heads(KV_HEADS), *angles), heads(KV_HEADS)
    wide = []
    for name, new in (("key", k), ("value", v)):
        present = g.op("Concat", f"past_key_values.{layer}.{name}", new, axis=2, outputs=[f"present.{layer}.{name}"])
        shape = [g.const([n]) for n in (1, KV_HEADS, HEADS // KV_HEADS)]
        grouped = g.op("Expand", g.op("Unsqueeze", present, g.const([2])),
                       g.op("Concat", *shape, total, g.const([SIZE]), axis=0))
        wide.append(g.shaped(grouped, 1, HEADS, total, SIZE))
    scores = g.op("MatMul", q, g.op("Transpose", wide[0], perm=[0, 1, 3, 2]))
    scores = g.op("Add", g.op("Mul", scores, g.const(SIZE ** -0.5, np.float32)), bias)
    found = g.op("MatMul", g.op("Softmax", scores, axis=-1), wide[1])
    return g.op("MatMul", g.shaped(g.op("Transpose", found, perm=[0, 2, 1, 3]), 1, sequence, WIDTH),
                g.weight(WIDTH, WIDTH))


def feed_forward(g, x):
    gate = g.op("MatMul", x, g.weight(WIDTH, WIDE))
    gate = g.op("Mul", gate, g.op("Sigmoid", gate))
    return g.op("MatMul", g.op("Mul", gate, g.op("MatMul", x, g.weight(WIDTH, WIDE))), g.weight(WIDE, WIDTH))


def model(seed=0):
    """The decoder as a ModelProto."""
    g = Graph(seed)
    sequence, past = g.size("input_ids", 1), g.size("past_key_values.0.key", 2)
    total = g.op("Add", past, sequence)
    # positions of the queries, and the angles by which queries and keys are turned
    scalar = [g.op("Squeeze", n, g.const([0])) for n in (past, total)]
    positions = g.op("Range", *scalar, g.const(1))
    keys = g.op("Range", g.const(0), scalar[1], g.const(1))
    column = g.op("Unsqueeze", positions, g.const([1]))
    speeds = g.const(BASE ** (-np.arange(0, SIZE, 2) / SIZE)[None], np.float32)
    half = g.op("Mul", g.op("Cast", column, to=TensorProto.FLOAT), speeds)
    angles = [g.op(kind, g.op("Concat", half, half, axis=-1)) for kind in ("Cos", "Sin")]
    # 0 where a query may see a key: one of the mask, no later than itself
    later = g.op("Greater", g.op("Unsqueeze", keys, g.const([0])), column)
    masked = g.op("Equal", g.op("Unsqueeze", "attention_mask", g.const([1])), g.const(0))
    bias = g.op("Where", g.op("Or", later, masked), g.const(-3e38, np.float32), g.const(0, np.float32))
    bias = g.op("Unsqueeze", bias, g.const([1]))
    table = g.weight(VOCABULARY, WIDTH)
    x = g.op("Gather", table, "input_ids")
    for layer in range(LAYERS):
        x = g.op("Add", x, attention(g, rms_norm(g, x), layer, angles, bias, sequence, total))
        x = g.op("Add", x, feed_forward(g, rms_norm(g, x)))
    g.op("MatMul", rms_norm(g, x), g.weight(WIDTH, VOCABULARY), outputs=["logits"])

    def tensor(name, dims, kind=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, dims)

    both = "past_sequence_length + sequence_length"
    inputs = [tensor("input_ids", [1, "sequence_length"], TensorProto.INT64),
              tensor("attention_mask", [1, both], TensorProto.INT64)]
    outputs = [tensor("logits", [1, "sequence_length", VOCABULARY])]
    for layer in range(LAYERS):
        for name in ("key", "value"):
            inputs.append(tensor(f"past_key_values.{layer}.{name}", [1, KV_HEADS, "past_sequence_length", SIZE]))
            outputs.append(tensor(f"present.{layer}.{name}", [1, KV_HEADS, both, SIZE]))
    graph = helper.make_graph(g.nodes, "decoder", inputs, outputs, g.initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(made)
    return made


if __name__ == "__main__":
    onnx.save(model(), sys.argv[1] if len(sys.argv) > 1 else "decoder.onnx")
