"""What benchmarks/gpu.py times: ONNX models with random weights, from one product to ResNet-50 and BERT-base."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 23, 11  # the first with Attention
RESNET = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))  # stages: blocks, channels, stride of the first


@dataclass(frozen=True)
class Item:
    """An ONNX model, numpy's inputs, and the floating-point operations of a call. network: whether it is worth what
    torch.compile takes."""

    name: str
    model: object
    inputs: tuple
    flops: float
    network: bool = False


def draw(*shape, dtype=np.float16, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) * 0.1).astype(dtype)


class Builder:
    """An ONNX graph whose floats have one dtype, node after node."""

    def __init__(self, name, dtype):
        self.name, self.dtype, self.rng = name, np.dtype(dtype), np.random.default_rng(0)
        self.nodes, self.weights, self.inputs, self.flops = [], [], {}, 0.0

    def input(self, name, array):
        self.inputs[name] = array
        return name

    def weight(self, *shape, std=1.0, mean=0.0):
        name = f"w{len(self.weights)}"
        array = (self.rng.standard_normal(shape, np.float32) * np.float32(std) + np.float32(mean)).astype(self.dtype)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op, *inputs, **attrs):
        self.nodes.append(helper.make_node(op, inputs, [f"{op.lower()}_{len(self.nodes)}"], **attrs))
        return self.nodes[-1].output[0]

    def item(self, output, shape, name=None, network=False):
        """The Item with `output` as the model's, called y."""
        last = next(n for n in self.nodes if n.output[0] == output)
        last.output[0] = "y"
        elem = helper.np_dtype_to_tensor_dtype
        infos = [helper.make_tensor_value_info(n, elem(a.dtype), a.shape) for n, a in self.inputs.items()]
        graph = helper.make_graph(self.nodes, self.name, infos, [
            helper.make_tensor_value_info("y", elem(self.dtype), shape)], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        return Item(name or self.name, model, tuple(self.inputs.values()), self.flops, network)


# ---------------------------------------------------------------- operators

def of_node(name, op, inputs, shape, flops, **attrs):
    """The Item of one node. inputs: {name: array}."""
    b = Builder(op.lower(), next(iter(inputs.values())).dtype)
    b.flops = flops
    return b.item(b.add(op, *(b.input(n, a) for n, a in inputs.items()), **attrs), shape, name)


def matmul(m, n, k, dtype):
    inputs = {"a": draw(m, k, dtype=dtype), "b": draw(k, n, dtype=dtype, seed=1)}
    return of_node(f"matmul {np.dtype(dtype).name} {m}x{n}x{k}", "MatMul", inputs, (m, n), 2.0 * m * n * k)


def linear(m, n, k, dtype=np.float16):
    """A product by constant weights, which are packed for it."""
    b = Builder("linear", dtype)
    b.flops = 2.0 * m * n * k
    y = b.add("MatMul", b.input("x", draw(m, k, dtype=dtype)), b.weight(k, n, std=k ** -0.5))
    return b.item(y, (m, n), f"linear {np.dtype(dtype).name} {m}x{n}x{k}")


def convolution(batch, channels, size, filters, kernel, stride):
    inputs = {"x": draw(batch, channels, size, size), "w": draw(filters, channels, kernel, kernel, seed=1)}
    out, pad = (size - 1) // stride + 1, kernel // 2
    return of_node(f"conv {batch}x{channels}x{size} {filters} of {kernel}x{kernel}/{stride}", "Conv", inputs,
                   (batch, filters, out, out), 2.0 * batch * filters * out * out * channels * kernel * kernel,
                   pads=[pad] * 4, strides=[stride] * 2)


def attention(batch, heads, tokens, size):
    inputs = {n: draw(batch, heads, tokens, size, seed=k) for k, n in enumerate("qkv")}
    return of_node(f"attention {batch}x{heads}x{tokens}x{size}", "Attention", inputs, (batch, heads, tokens, size),
                   4.0 * batch * heads * tokens * tokens * size)


def products():
    for size, dtype in ((1024, np.float16), (2048, np.float16), (4096, np.float16), (8192, np.float16),
                        (1024, np.float32), (4096, np.float32)):
        yield matmul(size, size, size, dtype)
    for m in (1, 16, 128):  # of a language model, one token to many
        yield linear(m, 4096, 4096)
    yield linear(4096, 4096, 4096)


def swept():
    """The products whose tiles are tried."""
    yield matmul(1024, 1024, 1024, np.float16)
    yield matmul(4096, 4096, 4096, np.float16)
    yield linear(4096, 4096, 4096)
    yield linear(16, 4096, 4096)
    yield matmul(4096, 4096, 4096, np.float32)


def layers():
    for batch in (1, 32):
        for channels, size, filters, kernel, stride in (
                (64, 56, 64, 3, 1), (256, 56, 64, 1, 1), (128, 28, 128, 3, 1), (256, 14, 256, 3, 1),
                (512, 7, 512, 3, 1), (3, 224, 64, 7, 2)):
            yield convolution(batch, channels, size, filters, kernel, stride)
    x = draw(4096, 1024)
    yield of_node("softmax 4096x1024", "Softmax", {"x": x}, x.shape, 5.0 * x.size, axis=-1)
    yield of_node("layernorm 4096x1024", "LayerNormalization", {"x": x, "scale": draw(1024, seed=1), "bias": draw(
        1024, seed=2)}, x.shape, 8.0 * x.size)


def attentions():
    for batch, heads, tokens, size in ((1, 12, 128, 64), (32, 12, 128, 64), (4, 16, 512, 128), (4, 16, 2048, 128)):
        yield attention(batch, heads, tokens, size)


def small():
    """One of each kind, with sizes that nothing divides: for the sanitizer, which slows them down a thousand times."""
    for dtype in (np.float16, np.float32):
        yield matmul(67, 45, 83, dtype)
    yield convolution(2, 8, 9, 19, 3, 1)
    yield attention(1, 2, 19, 16)
    x = draw(5, 301)
    yield of_node("softmax 5x301", "Softmax", {"x": x}, x.shape, 5.0 * x.size, axis=-1)


# ---------------------------------------------------------------- networks

def resnet50(batch, dtype=np.float16, size=224, stages=RESNET):
    """The network of He et al. (2015), as it is run: normalization is in the weights."""
    b = Builder("resnet50", dtype)

    def conv(x, source, filters, kernel, stride, out, gain=1.0):
        w = b.weight(filters, source, kernel, kernel, std=gain * (2 / (source * kernel * kernel)) ** 0.5)
        b.flops += 2.0 * batch * filters * out * out * source * kernel * kernel
        return b.add("Conv", x, w, b.weight(filters, std=0.1), pads=[kernel // 2] * 4, strides=[stride] * 2)

    x, source, size = b.input("x", draw(batch, 3, size, size, dtype=dtype)), 64, size // 2
    x = b.add("Relu", conv(x, 3, 64, 7, 2, size))
    x, size = b.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), size // 2
    for blocks, channels, first in stages:
        for n in range(blocks):
            stride = first if n == 0 else 1
            inside, size = size, size // stride
            way = conv(x, source, 4 * channels, 1, stride, size) if n == 0 else x
            y = b.add("Relu", conv(x, source, channels, 1, 1, inside))
            y = b.add("Relu", conv(y, channels, channels, 3, stride, size))
            x = b.add("Relu", b.add("Add", conv(y, channels, 4 * channels, 1, 1, size, gain=0.2), way))
            source = 4 * channels
    x = b.add("Flatten", b.add("GlobalAveragePool", x), axis=1)
    b.flops += 2.0 * batch * source * 1000
    y = b.add("Gemm", x, b.weight(1000, source, std=source ** -0.5), b.weight(1000, std=0.1), transB=1)
    return b.item(y, (batch, 1000), f"ResNet-50 {np.dtype(dtype).name} batch {batch}", network=True)


def bert_base(batch, dtype=np.float16, tokens=128, blocks=12, width=768, heads=12, words=30522):
    """The encoder of Devlin et al. (2018), from token numbers to hidden states."""
    b = Builder("bert_base", dtype)

    def dense(x, source, out):
        b.flops += 2.0 * batch * tokens * source * out
        return b.add("Add", b.add("MatMul", x, b.weight(source, out, std=source ** -0.5)), b.weight(out, std=0.1))

    def norm(x):
        return b.add("LayerNormalization", x, b.weight(width, std=0.1, mean=1), b.weight(width, std=0.1), axis=-1)

    ids = b.input("ids", np.random.default_rng(0).integers(0, words, (batch, tokens)))
    x = norm(b.add("Add", b.add("Gather", b.weight(words, width), ids), b.weight(tokens, width)))
    for _ in range(blocks):
        q, k, v = (dense(x, width, width) for _ in range(3))
        b.flops += 4.0 * batch * tokens * tokens * width
        y = b.add("Attention", q, k, v, q_num_heads=heads, kv_num_heads=heads)
        x = norm(b.add("Add", x, dense(y, width, width)))
        y = dense(b.add("Gelu", dense(x, width, 4 * width)), 4 * width, width)
        x = norm(b.add("Add", x, y))
    return b.item(x, (batch, tokens, width), f"BERT-base {np.dtype(dtype).name} batch {batch}", network=True)


def networks():
    for batch in (1, 32):
        yield resnet50(batch)
        yield bert_base(batch)


def of_file(path):
    """The Item of an ONNX file, with random inputs where its shapes are constants. Raises ValueError."""
    import onnx  # noqa: PLC0415
    model, inputs = onnx.load(path), []
    weights = {t.name for t in model.graph.initializer}
    for i in model.graph.input:
        shape = [d.dim_value for d in i.type.tensor_type.shape.dim]
        if i.name not in weights:
            if 0 in shape:
                raise ValueError(f"{path}: input {i.name} has no constant shape: pin its dimensions")
            dtype = helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
            whole = i.type.tensor_type.elem_type in (TensorProto.INT64, TensorProto.INT32)
            inputs.append(np.ones(shape, dtype) if whole else draw(*shape, dtype=dtype))
    return Item(path, model, tuple(inputs), 0.0, network=True)
