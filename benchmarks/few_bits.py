"""Products by weights of 2, 4 and 8 bits with a scale for each block (MatMulNBits): Ingot against onnxruntime.

    python benchmarks/few_bits.py                                   decoding: one row of activations, one thread
    python benchmarks/few_bits.py --shapes 1x4096x11008 --blocks 64 --bits 2 --zeros
    python benchmarks/few_bits.py --targets x86-64-v3 x86-64-v4

Both compute in float32 (accuracy_level 1); the two run in turns in one process, times are medians and the ratio is that
of onnxruntime's time to Ingot's. Errors are against float64, relative to the largest result. Bytes are those of the
weights in the output, to those in the file.
"""
from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass

import numpy as np
from gemm import extents
from measure import interleaved, largest_error, machine, markdown_table, number
from onnx import TensorProto, helper, numpy_helper
from sides import ingot_run, installed, onnxruntime_run

import ingot

SHAPES = ("1x2048x2048", "1x4096x4096", "1x4096x11008", "1x11008x4096")
BLOCKS = (32, 128)


@dataclass(frozen=True)
class Row:
    """Times in seconds; peer's are None where onnxruntime is not installed or has no kernel."""

    shape: str
    bits: int
    block: int
    zeros: bool
    target: str
    seconds: float
    peer_seconds: float | None
    error: float
    peer_error: float | None
    share: float  # of the file's bytes


def network(m, k, n, bits, block, zeros):
    """(the ONNX model, its inputs, the result in float64)."""
    rng, groups, per = np.random.default_rng(0), k // block, 8 // bits
    weights = {"w": rng.integers(0, 256, (n, groups, block // per)).astype(np.uint8),
               "s": rng.uniform(.01, .02, (n, groups)).astype(np.float32),
               "z": rng.integers(0, 256, (n, -(-groups // per))).astype(np.uint8)}
    names = ["x", "w", "s", *(["z"] if zeros else [])]
    node = helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", K=k, N=n, bits=bits, block_size=block,
                            accuracy_level=1)
    graph = helper.make_graph([node], "product", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (m, k))],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, (m, n))],
                              [numpy_helper.from_array(weights[name], name) for name in names[1:]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21),
                                                    helper.make_opsetid("com.microsoft", 1)], ir_version=10)

    def spread(packed, count):
        parts = packed.reshape(n, -1, 1) >> np.arange(per, dtype=np.uint8) * np.uint8(bits) & (1 << bits) - 1
        return parts.reshape(n, -1)[:, :count].astype(np.float64)

    zero = spread(weights["z"], groups) if zeros else np.full((n, groups), 2.0 ** (bits - 1))
    w = spread(weights["w"], k).reshape(n, groups, block) - zero[..., None]
    w = (w * weights["s"].astype(np.float64)[..., None]).reshape(n, k)
    x = rng.standard_normal((m, k)).astype(np.float32)
    return model, {"x": x}, x.astype(np.float64) @ w.T


def measure(shape, bits, block, zeros, target, seconds):
    """The Row of one product."""
    model, feeds, exact = network(*extents(shape), bits, block, zeros)
    library = ingot.compile(model, target=target, threads="none", name="product")
    runs = [ingot_run(library, feeds)]
    if installed(["onnxruntime"]):
        try:
            runs.append(onnxruntime_run(model, feeds, 1))
        except Exception as error:  # it has kernels for some sizes alone
            print(f"onnxruntime, {shape}, {bits} bits: {error}", file=sys.stderr)
    times = [statistics.median(t) for t in interleaved([run.call for run in runs], seconds)]
    errors = [largest_error(run.outputs(), [exact]) for run in runs]
    held = sum(w.data.nbytes for w in library.model.program.weights)
    share = held / sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    for run in runs:
        run.close()
    return Row(shape, bits, block, zeros, target, times[0], *([*times, None][1:2]), errors[0], *([*errors, None][1:2]),
               share)


def table(rows):
    """The Markdown lines of some rows."""
    titles = ["M x K x N", "bits", "block", "zero points", "target", "Ingot, us", "onnxruntime, us", "ratio", "error",
              "onnxruntime's", "bytes"]
    return markdown_table(titles, [
        [r.shape, str(r.bits), str(r.block), "yes" if r.zeros else "no", r.target, number(1e6 * r.seconds),
         number(1e6 * r.peer_seconds) if r.peer_seconds else "-",
         f"{r.peer_seconds / r.seconds:.2f}" if r.peer_seconds else "-", f"{r.error:.0e}",
         "-" if r.peer_error is None else f"{r.peer_error:.0e}", f"{r.share:.3f}"] for r in rows])


def build_parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", metavar="MxKxN", default=list(SHAPES))
    parser.add_argument("--bits", nargs="+", type=int, choices=(2, 4, 8), default=[4])
    parser.add_argument("--blocks", nargs="+", type=int, default=list(BLOCKS))
    parser.add_argument("--zeros", action="store_true", help="with zero points")
    parser.add_argument("--targets", nargs="+", default=["host"])
    parser.add_argument("--seconds", type=float, default=2.0, metavar="S",
                        help="how long to measure each product (default: %(default)g)")
    return parser


def main(argv=None):
    """Measure, print; returns the exit status."""
    args = build_parser().parse_args(argv)
    rows = [measure(shape, bits, block, args.zeros, target, args.seconds) for shape in args.shapes
            for bits in args.bits for block in args.blocks for target in args.targets]
    print(machine(installed(["onnxruntime"])), "", *table(rows), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
