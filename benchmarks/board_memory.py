"""RAM of the MLPerf Tiny networks in 8-bit integers, beside what TFLM and X-CUBE-AI publish. Nothing runs.

    python benchmarks/board_memory.py
    python benchmarks/board_memory.py --target cortex-m55 --models tiny_vww

Inputs and outputs are bytes, as `ingot quantize --integer-io` makes them. "RAM" is all of it: arena, the bound of the
stack, inputs and outputs; "at least" the same with the least `--ram-limit` that works.
"""
from __future__ import annotations

import argparse
import importlib.util
import re
import sys
import tempfile
from pathlib import Path

import onnx
from int8 import quantized
from measure import ZOO, Models, markdown_table
from sides import installed

import ingot
from ingot.codegen.limits import LimitError, ram_use
from ingot.quantization import with_integer_ends

KIB = 1024
# network: (tool, bytes of RAM, what is in them) as published. TFLM: kTensorArenaSize of the reference submissions
# (github.com/mlcommons/tiny, benchmark/reference_submissions/*/submitter_implemented.cpp), inputs and outputs within, without
# stack and interpreter; those of 200 KiB are generous. X-CUBE-AI: "Total RAM" on STM32H7 (github.com/STMicroelectronics/
# stm32ai-modelzoo, image_classification/{resnetv1,mobilenetv1}/README.md), inputs and outputs within the activations; version
# 9.1.0 for ResNet v1 8 at 32x32x3, 10.0.0 for MobileNet v1 0.25 at 96x96x3. It publishes none for the other two.
PUBLISHED = {"tiny_resnet8": {"TFLM": 100 * KIB, "X-CUBE-AI": round(69.72 * KIB)},
             "tiny_dscnn": {"TFLM": 200 * KIB},
             "tiny_vww": {"TFLM": 200 * KIB, "X-CUBE-AI": round(83.29 * KIB)},
             "tiny_autoencoder": {"TFLM": 10 * KIB}}


def of(models, name, target):
    """(bytes of the arena, all RAM, all RAM with the least limit) of a network."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.onnx")
        proto = quantized(models, name, "qdq", folder)
        with_integer_ends(proto)
        onnx.save(proto, path)
        model = ingot.compile(str(path), target=target).model
        ram = ram_use(model).bytes
        try:
            ingot.compile(str(path), target=target, ram_limit=1)
        except LimitError as error:
            return model.arena_bytes, ram, min(ram, int(re.search(r"--ram-limit (\d+)", str(error))[1]))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zoo", type=Path, default=ZOO, metavar="DIR", help="the folder of networks, with zoo.py")
    parser.add_argument("--models", nargs="+", default=list(PUBLISHED), choices=list(PUBLISHED))
    parser.add_argument("--target", default="cortex-m4f")
    args = parser.parse_args(argv)
    models, rows = Models(args.zoo), []
    if not installed(["onnxruntime"]) or importlib.util.find_spec("onnxruntime.quantization") is None:
        print("skipped: onnxruntime, which quantizes the networks, is not installed")
        return 0
    if missing := set(args.models) - set(models.names()):
        print(f"skipped: {args.zoo} lacks {', '.join(sorted(missing))}")
        return 0
    for name in args.models:
        arena, ram, least = of(models, name, args.target)
        for tool, theirs in PUBLISHED[name].items():
            rows.append([name, f"{arena:,}", f"{ram:,}", f"{least:,}", tool, f"{theirs:,}", f"{ram / theirs:.2f}",
                         f"{least / theirs:.2f}"])
            print(*rows[-1], file=sys.stderr)
    print("\n".join(markdown_table(["network", "arena", "RAM", "at least", "tool", "its RAM", "RAM / its",
                                    "at least / its"], rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
