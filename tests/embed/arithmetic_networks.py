"""Networks of one product or convolution, and what builds of them for a machine without its units are."""
from dataclasses import dataclass, replace

import numpy as np

from ingot.codegen.target import Target
from ingot.codegen.toolchains import toolchain
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.block_builder import BlockBuilder

AMX, ZEN4 = Target.get("x86-64-v4-amx"), Target.get("x86-64-v4-zen4")
UNIT = [flag for flag in toolchain(AMX).cflags if flag.startswith("-mamx")]


@dataclass(frozen=True)
class Build:
    """An arithmetic in vectors as long as its columns are packed for. target: the machine that has it; plain: any
    machine as if it had, with c's toolchain; seen: what generated kernels show of it; winograd: the same of
    Winograd's."""

    arithmetic: str
    target: Target
    plain: Target
    seen: str
    winograd: str


BUILDS = (
    Build("split_integer", AMX, replace(AMX, name="c"), "ingot_tiles_product(", "ingot_tiles_products("),
    Build("inner_product", ZEN4, replace(Target.get("c"), costs=ZEN4.costs, vectors=ZEN4.vectors), "inner_product_sums",
          "inner_product_sums"))


def product_network(rows, depth=512, columns=192):
    """(A product of many columns, whose rows and columns are no whole tiles, and a bias; its weights; the bias)."""
    rng = np.random.default_rng(0)
    w, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((depth, columns), (columns,)))
    x, bb = RelaxVar("x", TensorStructInfo((*rows, depth), "float32")), BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(call_op("matmul", x, Constant(w, "w")), "product")
        bb.emit_func_output(bb.emit(call_op("add", y, Constant(b, "b"))))
    return bb.get(), w.astype(np.float64), b


def image_network(channels, outputs, size, stride=1, kernel=1, padded=False):
    """A ReLU, a convolution, a bias and a ReLU of a plain image; padded: before a depthwise convolution."""
    rng = np.random.default_rng(0)
    w, b, d = ((rng.standard_normal(shape) / 4).astype(np.float32) for shape in (
        (outputs, channels, kernel, kernel), (1, outputs, 1, 1), (outputs, 1, 3, 3)))
    x, bb = RelaxVar("x", TensorStructInfo((1, channels, *size), "float32")), BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(call_op("nn.relu", x))
        y = bb.emit(call_op("nn.conv2d", y, Constant(w, "w"), strides=(stride, stride), padding=(kernel // 2,) * 4),
                    "conv")
        y = bb.emit(call_op("nn.relu", bb.emit(call_op("add", y, Constant(b, "b")))))
        if padded:
            y = bb.emit(call_op("nn.conv2d", y, Constant(d, "d"), groups=outputs, padding=(1,) * 4))
        bb.emit_func_output(y)
    return bb.get()


def image(channels, size, kind="normal"):
    """Points: as they come; large means, alternating signs, few large values, nothing but positive numbers."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, channels, *size))
    if kind == "mean":
        x += 100
    elif kind == "signs":
        x = np.abs(x) * (-1.0) ** np.add.outer(*map(np.arange, size))
    elif kind == "outliers":
        x[rng.random(x.shape) < 0.01] *= 1000
    elif kind == "positive":
        x = np.maximum(x, 0)
    return x.astype(np.float32)


def kernels_of(library):
    return "".join(text for name, text in library.model.files().items() if "_kernels_" in name)
