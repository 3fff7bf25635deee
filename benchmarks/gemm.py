"""Matrix products: Ingot against numpy's BLAS, onnxruntime, OpenVINO and the FMA peak of a core.

    python benchmarks/gemm.py                               every shape, one thread
    python benchmarks/gemm.py --shapes 512 16x1024x1024 --threads 1 2
    python benchmarks/gemm.py --activations                 both operands are inputs: nothing is packed beforehand

A shape is N for a cube, or MxKxN. The second operand is a constant, unless --activations is given, for all that know
constants; all sides run in turns in one process, and numbers are those of the median. One of the sides are
FMAs in registers, the most that the cores can do: "of peak" is the median of the rounds' parts of it, since
a core that others use, or that is hot, is slower in some rounds than in others. "at best" is the part by the least
times of both: of a core that nobody else uses, if it had such a moment as long as the product takes.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from measure import interleaved, largest_error, machine, markdown_table, number
from onnx import TensorProto, helper, numpy_helper
from sides import PEERS, ingot_run, installed

import ingot
from ingot.runtime.roofline import multiply_adds

SHAPES = ("64", "128", "256", "512", "1024", "2048",
          *(f"{m}x1024x1024" for m in (1, 4, 16, 64)), "1x4096x4096", "128x768x3072", "128x3072x768")
SLEEP_SECONDS = 0.2  # with threads: OpenBLAS's workers wait awake for some 0.1 s, and would share a core that long


@dataclass(frozen=True)
class Row:
    """rates: {side: GFLOP/s}, Ingot's and the peers'; peak: GFLOP/s of FMAs in registers; share: the part of
    it that Ingot reaches, of rounds in the median; best: by least times; error: see `measure`."""

    shape: str
    threads: int
    rates: dict
    peak: float
    share: float
    best: float
    error: float

    @property
    def ratio(self):
        """Ingot against the best of the others."""
        return self.rates["Ingot"] / max(rate for side, rate in self.rates.items() if side != "Ingot")


def extents(shape):
    """(M, K, N) of "256" or "1x640x128". Raises ArgumentTypeError for other texts."""
    parts = shape.split("x")
    if len(parts) not in (1, 3) or not all(p.isdigit() and int(p) for p in parts):
        raise argparse.ArgumentTypeError(f"expected N or MxKxN, not {shape!r}")
    return tuple(map(int, parts * 3 if len(parts) == 1 else parts))


def network(m, k, n, constant):
    """(the ONNX model of a product, its inputs); constant: the second operand is a part of the model."""
    a, b = (np.random.default_rng(0).standard_normal(shape, np.float32) for shape in ((m, k), (k, n)))
    feeds = {"a": a} if constant else {"a": a, "b": b}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in feeds.items()]
    output = helper.make_tensor_value_info("c", TensorProto.FLOAT, (m, n))
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["c"])], "product", inputs, [output],
                              [numpy_helper.from_array(b, "b")] if constant else [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return model, feeds, (a, b)


def measure(shape, threads, seconds, constant=True, peers=()):
    """The Row of one shape. Its error is the largest difference from numpy's product in float64, relative to the
    largest value. With several threads OMP_NUM_THREADS must hold their number since before this process began."""
    m, k, n = extents(shape)
    model, feeds, (a, b) = network(m, k, n, constant)
    kind = "none" if threads == 1 else "openmp"
    with ExitStack() as stack:
        library = ingot.compile(model, threads=kind, name="product")
        peak = stack.enter_context(multiply_adds(threads=kind))
        runs = {"Ingot": ingot_run(library, feeds)}
        for name in peers:
            runs[name] = PEERS[name](model, feeds, threads)
        for run in runs.values():
            stack.callback(run.close)
        runs["Ingot"].call()
        error = largest_error(runs["Ingot"].outputs(), [a.astype(np.float64) @ b])
        out = np.empty((m, n), np.float32)
        actions = {**{name: run.call for name, run in runs.items()}, "numpy": lambda: np.matmul(a, b, out=out)}
        *times, of_peak = interleaved([*actions.values(), peak], seconds, SLEEP_SECONDS if threads > 1 else 0.0)
        most = peak()
    flops = 2.0 * m * k * n
    rates = {name: 1e-9 * flops / statistics.median(t) for name, t in zip(actions, times)}
    share = statistics.median((flops / t) / (most / p) for t, p in zip(times[0], of_peak))
    best = (flops / min(times[0])) / (most / min(of_peak))
    return Row(shape, threads, rates, 1e-9 * most / statistics.median(of_peak), share, best, error)


def table(rows):
    """The Markdown lines of some rows of equal sides."""
    sides = list(rows[0].rates)
    titles = ["M x K x N", *sides, "of peak", "at best", "ratio", "error"]
    return markdown_table(titles, [
        [r.shape if "x" in r.shape else f"{r.shape} cubed", *(number(r.rates[s]) for s in sides), f"{r.share:.0%}",
         f"{r.best:.0%}", f"{r.ratio:.2f}", f"{r.error:.0e}"] for r in rows])


def report(rows, facts, constant):
    """The text of all rows, a table for each number of threads."""
    lines = [facts, "", f"GFLOP/s, medians; {'the second operand is a constant' if constant else 'no constants'}. "
             "Ratio: Ingot to the best of the others."]
    for threads in dict.fromkeys(r.threads for r in rows):
        part = [r for r in rows if r.threads == threads]
        peak = statistics.median(r.peak for r in part)
        lines += ["", f"Threads: {threads}; FMAs in registers: {peak:.0f} GFLOP/s.", "", *table(part)]
    return "\n".join(lines) + "\n"


def run_worker(args, threads):
    """The rows of one number of threads, from a process of their own: OpenMP and BLAS read it once, when loaded."""
    command = [sys.executable, str(Path(__file__).resolve()), "--worker", "--threads", str(threads),
               "--seconds", str(args.seconds), *(["--activations"] if args.activations else []),
               "--shapes", *args.shapes]
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    rows = []
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as worker:
        for line in worker.stdout:
            rows.append(Row(**json.loads(line)))
            print(f"{rows[-1].shape}: {number(rows[-1].rates['Ingot'])} GFLOP/s, ratio {rows[-1].ratio:.2f}",
                  file=sys.stderr)
    if worker.returncode:
        raise SystemExit(f"the measuring process ended with exit status {worker.returncode}")
    return rows


def build_parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", metavar="SHAPE", default=list(SHAPES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1], metavar="N", help="default: 1")
    parser.add_argument("--seconds", type=float, default=2.0, metavar="S",
                        help="how long to measure each shape (default: %(default)g)")
    parser.add_argument("--activations", action="store_true", help="the second operand is an input as well")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to a file")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)  # this is the measuring process
    return parser


def main(argv=None):
    """Measure, print, write; returns the exit status."""
    parser = build_parser()
    args = parser.parse_args(argv)
    try:
        for shape in args.shapes:
            extents(shape)
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    peers = installed()
    if args.worker:
        for shape in args.shapes:
            row = measure(shape, args.threads[0], args.seconds, not args.activations, peers)
            print(json.dumps(asdict(row)), flush=True)
        return 0
    for name in PEERS:
        if name not in peers:
            print(f"skipped: {name} is not installed", file=sys.stderr)
    rows = [row for threads in args.threads for row in run_worker(args, threads)]
    text = report(rows, machine(peers), not args.activations)
    print(text)
    if args.markdown:
        args.markdown.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
