"""Small decoders with a KV cache, with seeded weights, in the forms in which they are written: those of exporters for
GPT-2, of ai.onnx's Attention with a growing past and with a static cache, of com.microsoft's GroupQueryAttention. The
example's is Llama's, as exporters spell it out."""
from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper

from networks import ROOT

sys.path.append(str(ROOT / "examples" / "decoder"))
from decoder import Graph, model as llama  # noqa: E402

HEADS, KV_HEADS, SIZE, VOCABULARY, ROOM = 4, 2, 16, 40, 24
WIDTH = HEADS * SIZE


@dataclass(frozen=True)
class Decoder:
    """A model, how its caches are called, and how it is compiled. growing: whether the caches grow by a Concat; feeds:
    function (tokens, past) of what it reads beside the caches."""

    proto: object
    caches: dict
    feeds: object
    growing: bool = True
    dims: tuple = ()
    bounds: tuple = (("past_sequence_length", ROOM),)
    aliases: tuple = (("present.*", "past_key_values.*"),)


def tensor(name, dims, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


def _made(g, inputs, outputs, opset, microsoft=False):
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid("com.microsoft", 1)] if microsoft else [])]
    graph = helper.make_graph(g.nodes, "decoder", inputs, outputs, g.initializers)
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _caches(heads, past, present, layers):
    """(declarations of the inputs, of the outputs) of the caches."""
    names = [f"{n}.{what}" for n in range(layers) for what in ("key", "value")]
    return ([tensor(f"past_key_values.{n}", [1, heads, past, SIZE]) for n in names],
            [tensor(f"present.{n}", [1, heads, present, SIZE]) for n in names])


def _with_mask(ids, past):
    return {"input_ids": ids, "attention_mask": np.ones((1, past + ids.shape[1]), np.int64)}


# ---------------------------------------------------------------- GPT-2

def gpt2(layers=2):
    """Positions that count the mask, a causal mask cut from a triangle, q, k and v by one product."""
    g = Graph(5)
    sequence, past = g.size("input_ids", 1), g.size("past_key_values.0.key", 2)
    total = g.op("Add", past, sequence)
    counted = g.op("Sub", g.op("CumSum", "attention_mask", g.const(1)), g.const(1))
    counted = g.op("Where", g.op("Equal", "attention_mask", g.const(0)), g.const(1), counted)
    positions = g.slice(counted, past, total, 1)
    x = g.op("Add", g.op("Gather", g.weight(VOCABULARY, WIDTH), "input_ids"),
             g.op("Gather", g.weight(ROOM, WIDTH), positions))
    hidden = g.op("Sub", g.const(1, np.float32), g.op("Cast", "attention_mask", to=TensorProto.FLOAT))
    hidden = g.op("Unsqueeze", g.op("Mul", hidden, g.const(-3.4e38, np.float32)), g.const([1, 2]))
    triangle = g.const(np.tril(np.ones((1, 1, ROOM, ROOM))), np.bool_)
    seen = g.slice(g.slice(triangle, past, total, 2), 0, total, 3)

    def dense(x, rows, columns):
        return g.op("Gemm", x, g.weight(rows, columns), g.const(g.rng.standard_normal(columns) / 10, np.float32))

    def normed(x):
        scale = [g.const(v + g.rng.standard_normal(WIDTH) / 10, np.float32) for v in (1, 0)]
        return g.op("LayerNormalization", x, *scale, axis=-1, epsilon=1e-5)

    def rows(x, width):
        return g.shaped(x, -1, width)

    for layer in range(layers):
        qkv = g.shaped(dense(rows(normed(x), WIDTH), WIDTH, 3 * WIDTH), 1, sequence, 3 * WIDTH)
        parts = [f"{p}_{layer}" for p in "qkv"]
        g.nodes.append(helper.make_node("Split", [qkv, g.const([WIDTH] * 3)], parts, axis=2))
        q, k, v = (g.op("Transpose", g.shaped(p, 1, sequence, HEADS, SIZE), perm=[0, 2, 1, 3]) for p in parts)
        k, v = (g.op("Concat", f"past_key_values.{layer}.{what}", new, axis=-2, outputs=[f"present.{layer}.{what}"])
                for what, new in (("key", k), ("value", v)))
        scores = g.op("Div", g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2])),
                      g.const(np.sqrt(SIZE), np.float32))
        scores = g.op("Add", g.op("Where", seen, scores, g.const(-3.4e38, np.float32)), hidden)
        found = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        found = dense(rows(g.shaped(found, 1, sequence, WIDTH), WIDTH), WIDTH, WIDTH)
        x = g.op("Add", x, g.shaped(found, 1, sequence, WIDTH))
        wide = dense(rows(normed(x), WIDTH), WIDTH, 2 * WIDTH)
        cube = g.op("Mul", g.op("Pow", wide, g.const(3, np.float32)), g.const(0.044715, np.float32))
        bent = g.op("Tanh", g.op("Mul", g.op("Add", wide, cube), g.const(np.sqrt(2 / np.pi), np.float32)))
        wide = g.op("Mul", g.op("Mul", wide, g.const(0.5, np.float32)), g.op("Add", bent, g.const(1, np.float32)))
        x = g.op("Add", x, g.shaped(dense(wide, 2 * WIDTH, WIDTH), 1, sequence, WIDTH))
    g.op("MatMul", normed(x), g.weight(WIDTH, VOCABULARY), outputs=["logits"])
    both = "past_sequence_length + sequence_length"
    given, made = _caches(HEADS, "past_sequence_length", both, layers)
    ids = [tensor("input_ids", [1, "sequence_length"], TensorProto.INT64),
           tensor("attention_mask", [1, both], TensorProto.INT64)]
    proto = _made(g, [*ids, *given], [tensor("logits", [1, "sequence_length", VOCABULARY]), *made], 18)
    return Decoder(proto, _empty(given), _with_mask)


def _empty(declared):
    """{cache: its heads}."""
    return {i.name: i.type.tensor_type.shape.dim[1].dim_value for i in declared}


def example():
    """The example's."""
    proto = llama()
    return Decoder(proto, _empty(proto.graph.input[2:]), _with_mask)


# ---------------------------------------------------------------- operators of the standard

def attention(layers=2):
    """ai.onnx's RMSNormalization, RotaryEmbedding and Attention with past_key and past_value."""
    g = Graph(6)
    x = g.op("Gather", g.weight(VOCABULARY, WIDTH), "input_ids")
    angles = np.arange(ROOM)[:, None] * 0.5 ** np.arange(SIZE // 2)[None]
    tables = [g.const(f(angles), np.float32) for f in (np.cos, np.sin)]
    for layer in range(layers):
        y = g.op("RMSNormalization", x, g.const(np.ones(WIDTH), np.float32), axis=-1)
        q, k, v = (g.op("MatMul", y, g.weight(WIDTH, n * SIZE)) for n in (HEADS, KV_HEADS, KV_HEADS))
        q, k = (g.op("RotaryEmbedding", p, *tables, "position_ids", num_heads=n)
                for p, n in ((q, HEADS), (k, KV_HEADS)))
        names = [f"y_{layer}", f"present.{layer}.key", f"present.{layer}.value"]
        past = [f"past_key_values.{layer}.{what}" for what in ("key", "value")]
        g.nodes.append(helper.make_node("Attention", [q, k, v, "", *past], names, is_causal=1, q_num_heads=HEADS,
                                        kv_num_heads=KV_HEADS))
        x = g.op("Add", x, g.op("MatMul", names[0], g.weight(WIDTH, WIDTH)))
    g.op("MatMul", x, g.weight(WIDTH, VOCABULARY), outputs=["logits"])
    given, made = _caches(KV_HEADS, "past_sequence_length", "total_sequence_length", layers)
    ids = [tensor(n, [1, "sequence_length"], TensorProto.INT64) for n in ("input_ids", "position_ids")]
    proto = _made(g, [*ids, *given], [tensor("logits", [1, "sequence_length", VOCABULARY]), *made], 23)
    return Decoder(proto, _empty(given), _with_positions)


def _with_positions(ids, past):
    return {"input_ids": ids, "position_ids": past + np.arange(ids.shape[1])[None]}


def static_cache(layers=2):
    """ai.onnx's TensorScatter into caches of ROOM rows, and Attention that hides what is behind."""
    g = Graph(7)
    x = g.op("Gather", g.weight(VOCABULARY, WIDTH), "input_ids")
    for layer in range(layers):
        q, k, v = (g.op("MatMul", x, g.weight(WIDTH, n * SIZE)) for n in (HEADS, KV_HEADS, KV_HEADS))
        q, k, v = (g.op("Transpose", g.shaped(p, 1, -1, n, SIZE), perm=[0, 2, 1, 3])
                   for p, n in ((q, HEADS), (k, KV_HEADS), (v, KV_HEADS)))
        caches = [g.op("TensorScatter", f"past_key_values.{layer}.{what}", new, "write_indices",
                       outputs=[f"present.{layer}.{what}"]) for what, new in (("key", k), ("value", v))]
        found = g.op("Attention", q, *caches, "attention_mask")
        x = g.op("Add", x, g.op("MatMul", g.shaped(g.op("Transpose", found, perm=[0, 2, 1, 3]), 1, -1, WIDTH),
                                g.weight(WIDTH, WIDTH)))
    g.op("MatMul", x, g.weight(WIDTH, VOCABULARY), outputs=["logits"])
    given, made = _caches(KV_HEADS, ROOM, ROOM, layers)
    ids = [tensor("input_ids", [1, "sequence_length"], TensorProto.INT64),
           tensor("attention_mask", ["sequence_length", ROOM], TensorProto.BOOL),
           tensor("write_indices", [1], TensorProto.INT64)]
    proto = _made(g, [*ids, *given], [tensor("logits", [1, "sequence_length", VOCABULARY]), *made], 24)
    return Decoder(proto, _empty(given), _with_indices, growing=False, bounds=())


def _with_indices(ids, past):
    rows = past + np.arange(ids.shape[1])[:, None]
    return {"input_ids": ids, "attention_mask": np.arange(ROOM)[None] <= rows, "write_indices": np.array([past])}


# ---------------------------------------------------------------- com.microsoft

def group_query(layers=2, shared=False, packed=False):
    """GroupQueryAttention with rotations, as onnxruntime's model builder writes it. shared: the past is a buffer with
    room for ROOM rows, which the new rows go into (past_present_share_buffer); else it grows."""
    g = Graph(8)
    x = g.op("Gather", g.weight(VOCABULARY, WIDTH), "input_ids")
    angles = np.arange(ROOM)[:, None] * 0.5 ** np.arange(SIZE // 2)[None]
    tables = [g.const(f(angles), np.float32) for f in (np.cos, np.sin)]
    total = g.op("Cast", g.op("Gather", g.op("Shape", "attention_mask"), g.const(1)), to=TensorProto.INT32)
    last = g.op("Cast", g.op("Sub", g.op("ReduceSum", "attention_mask", g.const([1]), keepdims=0), g.const([1])),
                to=TensorProto.INT32)
    for layer in range(layers):
        y = g.op("SimplifiedLayerNormalization", x, g.const(np.ones(WIDTH), np.float32), axis=-1, epsilon=1e-5)
        if packed:
            q, k, v = g.op("MatMul", y, g.weight(WIDTH, WIDTH + 2 * KV_HEADS * SIZE)), "", ""
        else:
            q, k, v = (g.op("MatMul", y, g.weight(WIDTH, n * SIZE)) for n in (HEADS, KV_HEADS, KV_HEADS))
        names = [f"y_{layer}", f"present.{layer}.key", f"present.{layer}.value"]
        past = [f"past_key_values.{layer}.{what}" for what in ("key", "value")]
        g.nodes.append(helper.make_node(
            "GroupQueryAttention", [q, k, v, *past, last, total, *tables], names, domain="com.microsoft",
            num_heads=HEADS, kv_num_heads=KV_HEADS, do_rotary=1))
        x = g.op("Add", x, g.op("MatMul", names[0], g.weight(WIDTH, WIDTH)))
    g.op("MatMul", x, g.weight(WIDTH, VOCABULARY), outputs=["logits"])
    given, made = _caches(KV_HEADS, *((ROOM, ROOM) if shared else ("past_sequence_length", "total_sequence_length")),
                          layers)
    ids = [tensor("input_ids", [1, "sequence_length"], TensorProto.INT64),
           tensor("attention_mask", [1, "total_sequence_length"], TensorProto.INT64)]
    proto = _made(g, [*ids, *given], [tensor("logits", [1, "sequence_length", VOCABULARY]), *made], 21, True)
    if shared:
        return Decoder(proto, _empty(given), _with_mask, growing=False, bounds=())
    return Decoder(proto, _empty(given), _with_mask,
                   dims=(("total_sequence_length", "past_sequence_length + sequence_length"),))


DECODERS = {"llama": example, "gpt2": gpt2, "attention": attention, "static_cache": static_cache,
            "group_query": group_query, "group_query_packed": lambda: group_query(packed=True),
            "group_query_shared": lambda: group_query(shared=True)}
