"""Quantized networks: Ingot against onnxruntime, and OpenVINO where it is asked for, on the same files.

    python benchmarks/int8.py                                    the networks of NETWORKS in every form, one thread
    python benchmarks/int8.py tiny_dscnn mobilenet_v2 --forms qdq --threads 1 2
    python benchmarks/int8.py --product 1024                     a product of bytes, against the machine's peak

The models are those of the zoo, quantized by onnxruntime.quantization with some random inputs to calibrate:

    qdq   QuantizeLinear and DequantizeLinear around operators of floats; activations without a sign, weights with one,
          each output channel with a scale of its own
    s8    the same of activations with a sign, one scale for each tensor
    qop   operators of bytes

Sides run in turns in one process, with inputs and outputs bound; times are medians, and ratios onnxruntime's time, with
all its optimizations, to Ingot's. Steps: the largest difference of an output to onnxruntime's without optimizations, in
those of the output's own scale where it is bytes, else relative to the largest; and its own with optimizations.
"""
from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
from measure import Models, geometric_mean, interleaved, largest_error, machine, markdown_table, number
from onnx import version_converter
from sides import PEERS, ingot_run, installed, onnxruntime_run

import ingot

NETWORKS = ("squeezenet", "resnet50", "mobilenet_v2", "efficientnet_b0", "bert_base", "tiny_autoencoder", "tiny_dscnn",
            "tiny_resnet8", "tiny_vww")
FORMS = ("qdq", "s8", "qop")
CALIBRATIONS = 4  # inputs
LEAST_OPSET = 13  # that has scales of channels


@dataclass(frozen=True)
class Row:
    """Seconds of each side, and the errors of Ingot and of onnxruntime with optimizations to it without."""

    network: str
    form: str
    threads: int
    seconds: dict
    error: float
    peer_error: float

    @property
    def ratio(self):
        return self.seconds["onnxruntime"] / self.seconds["Ingot"]


def quantized(models, name, form, folder):
    """The onnx.ModelProto of a network of the zoo in one of FORMS."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Inputs(CalibrationDataReader):
        def __init__(self, model):
            self.left = [models.inputs(model, seed) for seed in range(CALIBRATIONS)]

        def get_next(self):
            return self.left.pop() if self.left else None

    model = models.load(name)
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    if opset < LEAST_OPSET:
        model = version_converter.convert_version(model, LEAST_OPSET)
    plain, prepared, made = (str(Path(folder, f"{stem}.onnx")) for stem in ("plain", "prepared", "made"))
    onnx.save(model, plain)
    quant_pre_process(plain, prepared)
    quantize_static(
        prepared, made, Inputs(model), quant_format=QuantFormat.QOperator if form == "qop" else QuantFormat.QDQ,
        activation_type=QuantType.QInt8 if form == "s8" else QuantType.QUInt8, weight_type=QuantType.QInt8,
        per_channel=form == "qdq")
    return onnx.load(made)


def unoptimized(model, feeds):
    """What onnxruntime computes node by node."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def measure(name, form, threads, seconds, peers, models):
    """The Row of one network."""
    with tempfile.TemporaryDirectory(prefix="int8-") as folder:
        model = quantized(models, name, form, folder)
    feeds = models.inputs(model)
    library = ingot.compile(model, threads="openmp" if threads > 1 else "none", name=name)
    runs = {"Ingot": ingot_run(library, feeds)}
    for peer in peers:
        try:
            runs[peer] = PEERS[peer](model, feeds, threads)
        except Exception as error:  # noqa: BLE001  (OpenVINO does not read every form; the others are compared then)
            if peer == "onnxruntime":
                raise
            print(f"{name} {form}: not by {peer}: {str(error).strip().splitlines()[-1]}", file=sys.stderr)
    times = interleaved([run.call for run in runs.values()], seconds, pause=0.005 if threads > 1 else 0)
    exact = unoptimized(model, feeds)
    errors = [largest_error(runs[side].outputs(), exact) for side in ("Ingot", "onnxruntime")]
    for run in runs.values():
        run.close()
    return Row(name, form, threads, dict(zip(runs, map(statistics.median, times))), *errors)


def product(size, seconds):
    """(GOP/s of a product of bytes by Ingot, by onnxruntime's MatMulInteger)."""
    from onnx import TensorProto, helper, numpy_helper
    rng = np.random.default_rng(0)
    w = rng.integers(-128, 128, (size, size)).astype(np.int8)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])], "product",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, (size, size))],
        [helper.make_tensor_value_info("y", TensorProto.INT32, (size, size))], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    feeds = {"x": rng.integers(0, 256, (size, size)).astype(np.uint8)}
    runs = [ingot_run(ingot.compile(model, threads="none"), feeds), onnxruntime_run(model, feeds, 1)]
    times = [statistics.median(t) for t in interleaved([run.call for run in runs], seconds)]
    assert np.array_equal(runs[0].outputs()[0], feeds["x"].astype(np.int32) @ w.astype(np.int32))
    return [2 * size ** 3 / t / 1e9 for t in times]


def table(rows):
    """The Markdown lines of some rows."""
    sides = [side for side in ("Ingot", *PEERS) if any(side in r.seconds for r in rows)]
    titles = ["network", "form", "threads", *(f"{side} ms" for side in sides), "x onnxruntime", "error",
              "onnxruntime's error"]
    return markdown_table(titles, [
        [r.network, r.form, str(r.threads),
         *(number(1e3 * r.seconds[side]) if side in r.seconds else "" for side in sides),
         f"{r.ratio:.2f}", f"{r.error:.1g}", f"{r.peer_error:.1g}"] for r in rows], left=2)


def worker(args, threads):
    """The rows of a number of threads, from a process of their own: OpenMP reads it once."""
    command = [sys.executable, str(Path(__file__).resolve()), *args.networks, "--forms", *args.forms, "--threads",
               str(threads), "--seconds", str(args.seconds), "--worker", *["--openvino"] * args.openvino]
    rows = []
    with subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": str(threads)}, stdout=subprocess.PIPE,
                          text=True) as process:
        for line in process.stdout:
            rows.append(Row(**json.loads(line)))
            print(f"{rows[-1].network} {rows[-1].form}: {rows[-1].ratio:.2f}", file=sys.stderr)
    return rows


def build_parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", help="default: NETWORKS")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1], metavar="N")
    parser.add_argument("--seconds", type=float, default=2.0, metavar="S",
                        help="how long to measure each network (default: %(default)g)")
    parser.add_argument("--openvino", action="store_true", help="OpenVINO, too")
    parser.add_argument("--product", type=int, metavar="N", help="only a product of N x N bytes")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)  # this is the measuring process
    return parser


def main(argv=None):
    """Measure, print; returns the exit status."""
    args, models = build_parser().parse_args(argv), Models()
    if not installed(["onnxruntime"]) or importlib.util.find_spec("onnxruntime.quantization") is None:
        print("skipped: onnxruntime, which quantizes the networks, is not installed")
        return 0
    peers = installed(["onnxruntime", *["OpenVINO"] * args.openvino])
    if args.product:
        own, other = product(args.product, args.seconds)
        print(machine(peers), f"Ingot {own:.0f} GOP/s, onnxruntime {other:.0f} GOP/s", sep="\n")
        return 0
    known = models.names()
    args.networks = args.networks or [name for name in NETWORKS if name in known]
    if not args.networks:
        print("skipped: the zoo of networks is not there")
        return 0
    if args.worker:
        for name in args.networks:
            for form in args.forms:
                try:
                    row = measure(name, form, args.threads[0], args.seconds, peers, models)
                except Exception as error:
                    print(f"{name} {form} skipped: {type(error).__name__}: {error}", file=sys.stderr)
                    continue
                print(json.dumps(asdict(row)), flush=True)
        return 0
    rows = [row for threads in args.threads for row in worker(args, threads)]
    print(machine(peers))
    for threads in args.threads:
        ratios = [r.ratio for r in rows if r.threads == threads]
        if ratios:
            print(f"\nThreads: {threads}; geometric mean {geometric_mean(ratios):.2f} x onnxruntime, least "
                  f"{min(ratios):.2f}.\n", *table([r for r in rows if r.threads == threads]), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
