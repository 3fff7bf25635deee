"""ONNX models as modules of torch, and the ways in which torch runs them: peers of benchmarks/gpu.py.

A model becomes a graph of torch.fx, whose nodes are calls of torch's own functions (cuDNN's and cuBLAS' kernels), which
torch.compile takes, too."""
from __future__ import annotations

import contextlib
from functools import partial

import numpy as np

BACKENDS = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION")  # of torch.nn.attention.SDPBackend


class NoPeer(Exception):
    """A way of torch that cannot run a model; the message says why."""


def plain(model):
    """(nodes, weights, inputs, outputs) of an ONNX model: (operator, inputs, outputs, attributes) each, {name: array},
    names."""
    from onnx import helper, numpy_helper  # noqa: PLC0415 - torch may be where onnx is not
    graph = model.graph
    weights = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    nodes = [(n.op_type, list(n.input), list(n.output), {a.name: helper.get_attribute_value(a) for a in n.attribute})
             for n in graph.node]
    return nodes, weights, [i.name for i in graph.input if i.name not in weights], [o.name for o in graph.output]


def module_of(torch, nodes, weights, inputs, outputs):
    """The torch.fx.GraphModule of a model as `plain` says it. Raises NoPeer for an operator that it does not know."""
    graph, root, values = torch.fx.Graph(), torch.nn.Module(), {}
    for n, name in enumerate(inputs):
        values[name] = graph.placeholder(f"x{n}")
    for n, (name, array) in enumerate(weights.items()):
        root.register_buffer(f"w{n}", torch.from_numpy(np.array(array)))
        values[name] = graph.get_attr(f"w{n}")
    for op, given, made, attrs in nodes:
        if op not in OPERATORS or len(made) != 1:
            raise NoPeer(f"no torch of operator {op}")
        values[made[0]] = OPERATORS[op](torch, graph.call_function, *(values[g] for g in given), **attrs)
    found = tuple(values[name] for name in outputs)
    graph.output(found[0] if len(found) == 1 else found)
    return torch.fx.GraphModule(root, graph).eval()


# ------------------------------------------------- operator -> function (torch, call, operands, attributes)

def _conv(torch, call, x, w, bias=None, pads=(0, 0, 0, 0), strides=(1, 1), group=1, **_):
    if list(pads[:2]) != list(pads[2:]):
        raise NoPeer("padding that differs between sides")
    return call(torch.nn.functional.conv2d, (x, w, bias, tuple(strides), tuple(pads[:2]), 1, group))


def _max_pool(torch, call, x, kernel_shape, strides=(1, 1), pads=(0, 0, 0, 0), **_):
    return call(torch.nn.functional.max_pool2d, (x, tuple(kernel_shape), tuple(strides), tuple(pads[:2])))


def _gemm(torch, call, a, b, c=None, transA=0, transB=0, **_):
    if transA or not transB:
        raise NoPeer("Gemm that is no linear layer")
    return call(torch.nn.functional.linear, (a, b, c))


def _layer_norm(torch, call, x, scale, bias=None, axis=-1, epsilon=1e-5, **_):
    if axis != -1:
        raise NoPeer(f"LayerNormalization of axis {axis}")
    shape = call(getattr, (scale, "shape"))
    return call(torch.nn.functional.layer_norm, (x, shape, scale, bias, epsilon))


def _attention(torch, call, q, k, v, q_num_heads=0, kv_num_heads=0, **_):
    attend = torch.nn.functional.scaled_dot_product_attention
    if not q_num_heads:
        return call(attend, (q, k, v))

    def heads(x, count):
        split = call(torch.unflatten, (x, -1, (count, -1)))
        return call(torch.transpose, (split, 1, 2))
    y = call(attend, (heads(q, q_num_heads), heads(k, kv_num_heads), heads(v, kv_num_heads)))
    return call(torch.flatten, (call(torch.transpose, (y, 1, 2)), 2))


def _function(name, where="torch"):
    """The operator that is a function of torch, or of torch.nn.functional, of its operands alone."""
    def made(torch, call, *operands, **_):
        return call(getattr(torch.nn.functional if where == "functional" else torch, name), operands)
    return made


OPERATORS = {
    "Conv": _conv, "MaxPool": _max_pool, "Gemm": _gemm, "LayerNormalization": _layer_norm, "Attention": _attention,
    **{op: _function(name) for op, name in (("Relu", "relu"), ("MatMul", "matmul"), ("Add", "add"), ("Mul", "mul"))},
    "Gelu": _function("gelu", "functional"),
    "GlobalAveragePool": lambda torch, call, x: call(torch.nn.functional.adaptive_avg_pool2d, (x, 1)),
    "Flatten": lambda torch, call, x, axis=1: call(torch.flatten, (x, axis)),
    "Softmax": lambda torch, call, x, axis=-1: call(torch.softmax, (x, axis)),
    "Gather": lambda torch, call, table, ids, axis=0: call(torch.nn.functional.embedding, (ids, table)),
}


# ---------------------------------------------------------------- ways to run them

def ways(item, compiled=True):
    """{name: function of (torch, what `plain` gives, tensors)} that makes a function without arguments, in which torch
    runs an Item in one of its ways. The first is torch as it is."""
    ops = {node.op_type for node in item.model.graph.node}
    found = {"torch": _eager}
    if "Conv" in ops:
        found["torch nhwc"] = _channels_last
    if ops == {"Attention"}:
        found.update({backend.lower(): partial(_backend, backend=backend) for backend in BACKENDS})
    if item.network and compiled:
        found["torch.compile"] = _compiled
    return found


def peers(torch, item, tensors, compiled=True):
    """{name: function without arguments} of these ways on `tensors`; of one that torch has not here {name: NoPeer}."""
    data, found = plain(item.model), {}
    for name, way in ways(item, compiled).items():
        try:
            found[name] = way(torch, data, tensors)
            found[name]()
        except Exception as error:  # noqa: BLE001 - whatever torch says is the reason
            found[name] = NoPeer(f"{type(error).__name__}: {str(error).splitlines()[0][:120]}")
    return found


def _eager(torch, data, tensors):
    return partial(module_of(torch, *data).to(tensors[0].device), *tensors)


def _channels_last(torch, data, tensors):
    like = torch.channels_last
    module = module_of(torch, *data).to(tensors[0].device).to(memory_format=like)
    return partial(module, *(t.contiguous(memory_format=like) if t.dim() == 4 else t for t in tensors))


def _compiled(torch, data, tensors):
    module = _channels_last if any(op == "Conv" for op, *_ in data[0]) else _eager
    made = module(torch, data, tensors)
    return partial(torch.compile(made.func, mode="max-autotune-no-cudagraphs"), *made.args)


def _backend(torch, data, tensors, backend):
    attention, call = torch.nn.attention, _eager(torch, data, tensors)

    def run():
        with attention.sdpa_kernel(getattr(attention.SDPBackend, backend)):
            return call()
    return run


def quiet(torch):
    """A context in which torch takes no gradients, and computes float32 in float32."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    stack = contextlib.ExitStack()
    stack.enter_context(torch.no_grad())
    return stack
