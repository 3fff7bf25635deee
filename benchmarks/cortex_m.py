"""Instructions for a multiply-add of integers on Cortex-M, counted as QEMU runs them: no board, and no noise.

    python benchmarks/cortex_m.py                                single layers, of all kinds of activations
    python benchmarks/cortex_m.py net_int8.onnx net_uint8.onnx   networks that `ingot quantize` wrote, whole runs
    python benchmarks/cortex_m.py --targets cortex-m7 --optimize 3 2 s

Weights are int8, a scale for each channel; activations int8, uint8 or int16, the last of zero point 0. Of a layer
counts the kernel that multiplies and requantizes; what pads its input or changes the sign of it is a kernel by itself,
which a network has once or as a part of the layer before.
"""
from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np
from measure import markdown_table, number

import ingot
from ingot.codegen.toolchain import missing_tools
from ingot.codegen.toolchains import toolchain
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.relax.ops.qnn import sums_dtype
from ingot.runtime.emulated import EmulatedLibrary

TARGETS = ("cortex-m4f", "cortex-m55")
KINDS = ("int8", "uint8", "int16")
# name: shapes of data and weights, stride, padding
LAYERS = {"3x3, 3 channels": ((1, 3, 32, 32), (16, 3, 3, 3), 1, 1),
          "3x3, 16 channels": ((1, 16, 32, 32), (16, 16, 3, 3), 1, 1),
          "3x3, 64 channels": ((1, 64, 8, 8), (64, 64, 3, 3), 1, 1),
          "3x3, 32 channels, stride 2": ((1, 32, 16, 16), (64, 32, 3, 3), 2, 1),
          "1x1, 64 channels": ((1, 64, 25, 5), (64, 64, 1, 1), 1, 0),
          "1x1, 16 channels": ((1, 16, 24, 24), (32, 16, 1, 1), 1, 0),
          "depthwise 3x3, 48 columns": ((1, 8, 48, 48), (8, 1, 3, 3), 1, 1),
          "depthwise 3x3, 24 columns": ((1, 32, 24, 24), (32, 1, 3, 3), 1, 1),
          "depthwise 3x3, 5 columns": ((1, 64, 25, 5), (64, 1, 3, 3), 1, 1),
          "depthwise 3x3, stride 2, 24 columns": ((1, 16, 48, 48), (16, 1, 3, 3), 2, 1)}


class Flagged(EmulatedLibrary):
    """An EmulatedLibrary that is built once, to count, at a level of optimization."""

    level = "-O3"

    def _make(self, *settings):
        if not settings:
            return
        flags = (self.level if flag.startswith("-O") else flag for flag in toolchain(self.model.target).cflags)
        super()._make(f"CFLAGS={' '.join(flags)}", *settings)


def count(model, target, level):
    """(the Count of a run, FMAs) of a network."""
    with Flagged(ingot.compile(model, target=target).model) as library:
        library.level = level
        return library.count(), library.model.flops // 2


def layer(shape, weights, stride, padding, dtype):
    """A network of one convolution of integers that is requantized, and its FMAs."""
    rng, limits = np.random.default_rng(0), np.iinfo(dtype)
    x, bb = RelaxVar("x", TensorStructInfo(shape, dtype)), BlockBuilder()
    w = Constant(rng.integers(-127, 128, weights).astype(np.int8), "w")
    scales = rng.uniform(1e-3, 3e-3, (1, weights[0], 1, 1)).astype(np.float32)
    bias = rng.integers(-1000, 1000, scales.shape).astype(np.int32)
    with bb.function("main", [x]):
        def emit(op, *args, **attrs):
            return bb.emit(call_op(op, *args, **attrs))
        middle = int(limits.max) // 2 if limits.bits == 8 else 0
        sums = sums_dtype(dtype, middle, w.data, (0,), bias.reshape(-1))
        y = emit("qnn.conv2d", x, w, Constant(np.array(middle, dtype), "zero"), Constant(np.array(0, np.int8)),
                 padding=(padding,) * 4, strides=(stride, stride), groups=shape[1] // weights[1], out_dtype=sums)
        fmas = math.prod(weights[1:]) * math.prod(y.struct_info.static_shape)
        y = emit("astype", emit("add", y, Constant(bias.astype(sums), "bias")), dtype="float32")
        y = emit("round", emit("multiply", y, Constant(scales, "scales")))
        y = emit("add", y, Constant(np.array(middle, np.float32)))
        y = emit("clip", y, min=float(limits.min), max=float(limits.max))
        bb.emit_func_output(emit("astype", y, dtype=dtype))
    return bb.get(), fmas


def of_layers(columns, activations):
    rows = []
    for name, shapes in LAYERS.items():
        for dtype in activations:
            mod, fmas = layer(*shapes, dtype)
            most = [max(amount for _, amount in count(mod, *column)[0].calls) for column in columns]
            rows.append([name, dtype, *(f"{amount / fmas:.2f}" for amount in most)])
            print(*rows[-1], file=sys.stderr)
    return markdown_table(["layer", "activations", *map(", ".join, columns)], rows, left=2)


def of_networks(models, columns):
    rows = []
    for path in models:
        counts = [count(str(path), *column) for column in columns]
        fmas = counts[0][1]
        rows.append([path.stem, f"{fmas:,}", *(f"{number(c.total / 1e6)} M, {c.total / fmas:.2f}" for c, _ in counts)])
        print(*rows[-1], file=sys.stderr)
    return markdown_table(["network", "FMAs", *map(", ".join, columns)], rows)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.onnx", help="quantized; default: single layers")
    parser.add_argument("--targets", nargs="+", default=TARGETS, metavar="T")
    parser.add_argument("--optimize", nargs="+", default=["3", "s"], metavar="LEVEL",
                        help="of gcc: 3, 2 or s (default: 3 and s)")
    parser.add_argument("--activations", nargs="+", default=KINDS, choices=KINDS, help="of layers (default: all)")
    args = parser.parse_args(argv)
    if missing := next(filter(None, map(missing_tools, args.targets)), None):
        parser.error(missing)
    columns = [(target, f"-O{level}") for target in args.targets for level in args.optimize]
    print("\n".join(of_networks(args.models, columns) if args.models else of_layers(columns, args.activations)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
