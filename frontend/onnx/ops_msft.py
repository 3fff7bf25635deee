"""Float operators of the domain com.microsoft, as onnxruntime's optimizers write them: activations, fused products and
convolutions, normalizations with residuals, weights of a few bits."""
from __future__ import annotations

import numpy as np

from ...ir.dtype import DataType
from ...ir.relax.expr import Constant
from ..shapes import dims_of, same_dims
from .converter import converts, microsoft
from .ops_math import gemm, scalar_like
from .ops_nn import conv
from .ops_norm import rms_norm


# ---------------------------------------------------------------- activations

@microsoft("Gelu")
def gelu(node):
    return node.call("nn.gelu", node.input(0), approximate="none")


@microsoft("BiasGelu")
def bias_gelu(node):
    return node.call("nn.gelu", node.call("add", *node.inputs), approximate="none")


@microsoft("FastGelu")
def fast_gelu(node):
    x, bias = node.input(0), node.input(1)
    return node.call("nn.gelu", x if bias is None else node.call("add", x, bias), approximate="tanh")


@microsoft("QuickGelu")
def quick_gelu(node):
    """x * sigmoid(alpha * x)."""
    x = node.input(0)
    alpha = scalar_like(node, node.attr("alpha"), x)
    return node.call("multiply", x, node.call("sigmoid", node.call("multiply", x, alpha)))


@microsoft("BiasAdd")
def bias_add(node):
    x, bias, skip = node.inputs
    return node.call("add", node.call("add", x, bias), skip)


@microsoft("BiasSplitGelu")
def bias_split_gelu(node):
    """The first half of the last axis by gelu of the second."""
    x = node.call("add", *node.inputs)
    axis = x.struct_info.ndim - 1
    width = dims_of(x)[axis]
    if not isinstance(width, int) or width % 2:
        raise node.error("takes a last dimension that is static and even")
    x = node.bind(x)
    values, gate = (node.call("strided_slice", x, axes=(axis,), begin=(b,), end=(b + width // 2,), strides=(1,))
                    for b in (0, width // 2))
    return node.call("multiply", values, node.call("nn.gelu", gate, approximate="none"))


def _activated(node, x, params):
    """x after the activation that an attribute names; params: {name: value}, which may lack some."""
    name = node.attr("activation") or ""
    known = {
        "": lambda: x,
        "Relu": lambda: node.call("nn.relu", x),
        "Tanh": lambda: node.call("tanh", x),
        "Sigmoid": lambda: node.call("sigmoid", x),
        "LeakyRelu": lambda: node.call("nn.leaky_relu", x, alpha=params.get(0, 0.01)),
        "Clip": lambda: node.call("clip", x, min=params[0], max=params[1]),
        "HardSigmoid": lambda: node.call("nn.hard_sigmoid", x, alpha=params.get(0, 0.2), beta=params.get(1, 0.5)),
    }
    if name not in known or name == "Clip" and len(params) < 2:
        raise node.error(f"attribute activation is {name!r} with parameters {list(params.values())}; supported are "
                         f"{', '.join(filter(None, known))}, of which Clip needs two parameters")
    return known[name]()


# ---------------------------------------------------------------- products and convolutions

@microsoft("FusedConv")
def fused_conv(node):
    result, other = conv(node), node.input(3)
    result = result if other is None else node.call("add", result, other)
    return _activated(node, result, dict(enumerate(node.attr("activation_params") or ())))


@microsoft("FusedGemm")
def fused_gemm(node):
    given = (node.attr(f"activation_{name}") for name in ("alpha", "beta"))
    return _activated(node, gemm(node), {k: v for k, v in enumerate(given) if v is not None})


def _turned(node, x, which):
    """An operand: by transBatch its first dimension goes before the last, by trans the last two change places."""
    rank = x.struct_info.ndim
    axes = list(range(rank))
    if node.attr(f"transBatch{which}", 0):
        if rank < 3:
            raise node.error(f"attribute transBatch{which} needs an operand of at least 3 dimensions")
        axes = [*axes[1:-1], 0, axes[-1]]
    if node.attr(f"trans{which}") and rank > 1:
        axes[-2:] = axes[:-3:-1]
    return node.transpose(x, axes)


@microsoft("FusedMatMul")
@microsoft("TransposeMatMul")
def fused_matmul(node):
    result = node.call("matmul", _turned(node, node.input(0), "A"), _turned(node, node.input(1), "B"))
    if node.attr("alpha") == 1.0:
        return result
    return node.call("multiply", result, scalar_like(node, node.attr("alpha"), result))


# ---------------------------------------------------------------- normalizations

@converts("SimplifiedLayerNormalization")
def simplified_layer_norm(node):
    if node.wants(1):
        raise node.error("the output inv_std_var is for training, and not supported")
    return rms_norm(node)


def _residual(node, bias):
    """input + skip + bias; a skip without a batch, or with one of 1, is for all of it."""
    x, skip = node.input(0), node.input(1)
    total = node.call("add", x, skip)
    if not same_dims(dims_of(total), dims_of(x)):
        raise node.error("skip must broadcast to the input's shape")
    return node.bind(total if bias is None else node.call("add", total, bias))


def _with_residual(node, bias, normalize):
    """(normalized sum, mean, inverse deviation, the sum); mean and deviation only exist in training."""
    if node.wants(1) or node.wants(2):
        raise node.error("the outputs mean and inv_std_var are for training, and not supported")
    total = _residual(node, bias)
    result = normalize(total, (total.struct_info.ndim - 1,), float(node.attr("epsilon")))
    return (result, None, None, total) if node.wants(3) else result


@microsoft("SkipLayerNormalization")
def skip_layer_norm(node):
    gamma, beta = node.input(2), node.input(3)
    beta = node.filled(dims_of(gamma), 0, gamma.struct_info.dtype) if beta is None else beta
    return _with_residual(node, node.input(4), lambda x, axes, epsilon: node.call(
        "nn.layer_norm", x, gamma, beta, axes=axes, epsilon=epsilon))


@microsoft("SkipSimplifiedLayerNormalization")
def skip_rms_norm(node):
    return _with_residual(node, node.input(3), lambda x, axes, epsilon: node.call(
        "nn.rms_norm", x, node.input(2), axes=axes, epsilon=epsilon))


@microsoft("EmbedLayerNormalization")
def embed_layer_norm(node):
    """Rows of words, positions and segments, added and normalized; how many of each mask are not 0."""
    ids, segments, words, places, kinds, gamma, beta, mask, order = (node.input(k) for k in range(9))
    batch, length = dims_of(ids)
    total = node.call("take", words, ids, axis=0)
    if order is None:
        rows = node.call("take", places, node.positions(length), axis=0)
        rows = node.reshape(rows, [1, length, dims_of(places)[1]])
    else:
        rows = node.call("take", places, order, axis=0)
    total = node.call("add", total, rows)
    if segments is not None and kinds is not None:
        total = node.call("add", total, node.call("take", kinds, segments, axis=0))
    total = node.bind(total)
    result = node.call("nn.layer_norm", total, gamma, beta, axes=(2,), epsilon=float(node.attr("epsilon")))
    if not (node.wants(1) or node.wants(2)):
        return result
    if mask is None or node.attr("mask_index_type", 1) == 0:
        counts = node.filled([batch], 0, "int32")
    else:
        counts = node.call("sum", node.astype(mask, "int32"), axis=(1,))
    return result, counts, total


# ---------------------------------------------------------------- weights of a few bits

@microsoft("MatMulNBits")
def matmul_n_bits(node):
    """A B' + bias, with B [N, K] of integers of 2, 4 or 8 bits that have a scale and a zero point for each block of a
    row. Attribute accuracy_level says how inaccurate the product may be; it is one of floats here."""
    x, packed, scales, zeros, order, bias = (node.input(k) for k in range(6))
    bits, size, rows, columns = (node.attr(k) for k in ("bits", "block_size", "N", "K"))
    if bits not in (2, 4, 8) or size < 1 or rows < 1 or columns < 1 or size * bits % 8:
        raise node.error(f"attributes bits {bits}, block_size {size}, N {rows} and K {columns}: integers of 2, 4 and "
                         "8 bits are supported, in blocks that fill bytes")
    if order is not None:
        raise node.error("the input g_idx, an order of columns, is not supported")
    if node.attr("weight_prepacked", 0):
        raise node.error("weights in the layout of a processor (attribute weight_prepacked) are not supported; export "
                         "them as the operator defines them")
    blocks = -(-columns // size)
    values = _unpacked(node, node.constant(1, "the weight B"), bits, rows, blocks * size)
    result = _of_blocks(node, x, values, scales, zeros, bits, [rows, blocks])
    if result is not None:
        return result if bias is None else node.call("add", result, bias)
    shape = [rows, blocks, 1]
    dtype = scales.struct_info.dtype
    whole = node.astype(node.reshape(values, [rows, blocks, size]), dtype)
    whole = node.call("subtract", whole, _zero_points(node, zeros, bits, shape, dtype))
    whole = node.call("multiply", whole, node.reshape(scales, shape))
    weight = node.reshape(whole, [rows, blocks * size])
    if blocks * size != columns:
        weight = node.call("strided_slice", weight, axes=(1,), begin=(0,), end=(columns,), strides=(1,))
    result = node.call("matmul", x, node.transpose(node.astype(weight, x.struct_info.dtype), (1, 0)))
    return result if bias is None else node.call("add", result, bias)


def _of_blocks(node, x, values, scales, zeros, bits, shape):
    """The product that reads its weights as they are; None where scales or zero points depend on data, or it is not
    computed in floats of 32 bits or fewer."""
    if not all(isinstance(v, Constant) for v in (scales, zeros) if v is not None) or x.struct_info.ndim < 2 or (
            x.struct_info.dtype == "float64" or not isinstance(dims_of(x)[-1], int)):
        return None
    middle = 2 ** (bits - 1)
    signed = Constant((values.data.astype(np.int16) - middle).astype(DataType(f"int{bits}").numpy), values.name)
    if zeros is not None and zeros.struct_info.dtype == "uint8":
        zeros = _unpacked(node, zeros.data, bits, *shape)
    zeros = np.zeros(shape, np.float32) if zeros is None else zeros.data.astype(np.float32).reshape(shape) - middle
    more = [node.const(zeros, "float32")] if zeros.any() else []
    dtype, rest = x.struct_info.dtype, values.data.shape[1] - dims_of(x)[-1]
    x = node.astype(x, "float32")
    if rest:
        x = node.call("nn.pad", x, pad_width=(*(0, 0) * (x.struct_info.ndim - 1), 0, rest), pad_value=0.0)
    scales = node.reshape(node.astype(scales, "float32"), shape)
    return node.astype(node.call("matmul_quantized", x, signed, scales, *more), dtype)


def _unpacked(node, packed, bits, rows, count):
    """[rows, count] integers of `bits` bits, of which the first of a byte are its lowest."""
    per_byte = 8 // bits
    held = -(-count // per_byte)
    if packed.dtype != np.uint8 or packed.size != rows * held:
        raise node.error(f"B and its zero points must be bytes that hold {rows} rows of {count} integers of {bits} "
                         f"bits, and are {packed.dtype}{list(packed.shape)}")
    parts = packed.reshape(rows, held, 1) >> (np.arange(per_byte, dtype=np.uint8) * bits) & (2 ** bits - 1)
    values = parts.reshape(rows, held * per_byte)[:, :count]
    return Constant(np.ascontiguousarray(values.astype(DataType(f"uint{bits}").numpy)))


def _zero_points(node, zeros, bits, shape, dtype):
    if zeros is None:
        return node.const(2 ** (bits - 1), dtype)
    if zeros.struct_info.dtype == "uint8":
        zeros = _unpacked(node, node.constant(3, "the zero points"), bits, *shape[:2])
    return node.astype(node.reshape(zeros, shape), dtype)
