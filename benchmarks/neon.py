"""Instructions for an FMA on Arm, counted as they run under QEMU: no board, and no noise.

    python benchmarks/neon.py                                    some networks for aarch64
    python benchmarks/neon.py --models squeezenet --top 10       its kernels with most instructions
    python benchmarks/neon.py --target armv7-linux-gnueabihf
    python benchmarks/neon.py --broadcast                        without FMAs by element, to compare
    python benchmarks/neon.py --bytes                            layers of 8-bit integers, by SDOT and by SMMLA
    python benchmarks/neon.py --words                            layers of 16-bit integers beside floats, AVX2 and Arm
    python benchmarks/neon.py --layers riscv64-v                 layers of all kinds on one target: RISC-V's vectors
    python benchmarks/neon.py --halves                           products of float16 and bfloat16, by FMLA and BFMMLA

A vector FMA does four: one instruction for each vector and nothing else would be 0.25. SDOT does 16 products of bytes
(0.0625), SMMLA 32 (0.031), BFMMLA 16 of bfloat16 (0.0625).
"""
from __future__ import annotations

import argparse
import dataclasses
import math
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from measure import ZOO, Models, markdown_table, number

import ingot
from ingot.codegen.c_types import c_type
from ingot.codegen.target import Target
from ingot.codegen.toolchain import build_program, find_compiler, source_files
from ingot.codegen.toolchains import toolchain
from ingot.ir.dtype import DataType
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.relax.ops.qnn import PLAIN, sums_dtype

PLUGIN = Path(__file__).with_name("count_instructions.c")
MODELS = ("squeezenet", "mobilenet_v2", "tiny_resnet8", "tiny_dscnn", "tiny_autoencoder", "kws_gru_lstm")
TARGETS_OF_BYTES = ("aarch64-linux-gnu", "aarch64-dotprod", "aarch64-i8mm")
TARGETS_OF_WORDS = ("x86-64-v3", "aarch64-linux-gnu", "aarch64-dotprod")
TARGETS_OF_HALVES = (("aarch64-i8mm", None), ("aarch64-fp16", "fp16"), ("aarch64-bf16", None))  # with arithmetics
# name, operator, shapes of data and weights, padding
LAYERS = (("product", "qnn.matmul", (64, 256), (256, 256), 0),
          ("deep_product", "qnn.matmul", (128, 1024), (1024, 64), 0),
          ("pointwise", "qnn.conv2d", (1, 128, 28, 28), (128, 128, 1, 1), 0),
          ("conv3x3", "qnn.conv2d", (1, 64, 28, 28), (64, 64, 3, 3), 1),
          ("depthwise", "qnn.conv2d", (1, 128, 28, 28), (128, 1, 3, 3), 1))
# name, shapes of two activations: the second lies across in scores, and deep sums are cut in pieces
MATRICES = (("scores", (4, 128, 64), (4, 128, 64)), ("weighted", (4, 128, 128), (4, 128, 64)),
            ("deep", (1, 64, 1024), (1, 1024, 64)))
# dtypes of data and weights, and of the sums of the latter
BYTES = (("int8", "int8"), ("uint8", "int8"))
WORDS = (("int16", "int8"), ("int16", "int16"))
FLOATS = (("float32", "float32"),)
RUNS = 3  # of which the first may differ
MAIN = """\
#include <stdlib.h>
#include "{name}.h"
INGOT_ALIGNED({upper}_ARENA_ALIGN) static unsigned char arena[{upper}_ARENA_BYTES];
{arrays}
int main(int argc, char **argv)
{{
    {name} *net;
    ingot_status status = {name}_init(&net, arena, sizeof arena);
    for (int n = argc > 1 ? atoi(argv[1]) : 1; n > 0 && status == INGOT_OK; --n) status = {name}_run(net, {names});
    return status != INGOT_OK;
}}
"""


def plugin(folder):
    """The path of the compiled plugin."""
    path = Path(folder, "count.so")
    compiler = find_compiler("host").command
    subprocess.run([*compiler, "-O2", "-fPIC", "-shared", str(PLUGIN), "-o", str(path)], check=True)
    return path


def program(library, folder):
    """The path of a program that runs a network as often as its argument says, on zeros."""
    library.export(folder)
    name, tensors = library.name, (*library.inputs, *library.outputs)
    arrays = [f"static {c_type(t.dtype)} {t.name}[{name.upper()}_{t.name.upper()}_SIZE];" for t in tensors]
    main = Path(folder, "runs.c")
    main.write_text(MAIN.format(name=name, upper=name.upper(), arrays="\n".join(arrays),
                                names=", ".join(t.name for t in tensors)))
    return build_program(source_files(folder), Path(folder, "runs"), library.model.target)


def executed(target, path, runs, counter, folder):
    """{function: instructions} of a program's whole life."""
    out, (emulator, *flags) = Path(folder, "counts"), toolchain(target).runner
    subprocess.run([emulator, *flags, "-plugin", f"{counter},out={out}", str(path), str(runs)], check=True)
    lines = (line.split(maxsplit=1) for line in out.read_text().splitlines())
    return Counter({name: int(count) for count, name in lines})


def per_run(target, path, counter, folder):
    """{function: instructions} of one run of the network, the second of several."""
    more, less = (executed(target, path, runs, counter, folder) for runs in (RUNS, RUNS - 1))
    return {name: count - less[name] for name, count in more.items() if count > less[name]}


def measure(model, name, target, counter, **options):
    """[(kernel, its nodes, FMAs, instructions)] of a run, most instructions first; the rest of the run is the
    kernel ""."""
    with tempfile.TemporaryDirectory(prefix="ingot-bench-") as folder:
        library = ingot.compile(model, target=target, threads="none", name=name, **options)
        counts = per_run(target, program(library, Path(folder, "net")), counter, folder)
    kernels, sums = library.model.kernels, Counter()
    for call in library.model.program.calls:
        kernel = library.model.kernel_of[call.kernel]
        sums[kernel] += kernels[kernel].work[0] / 2
    rows = [(k, kernels[k].nodes, sums[k], counts.pop(k, 0)) for k in sums]
    return sorted([*rows, ("", "calls and libraries", 0, sum(counts.values()))], key=lambda row: -row[3])


def layers_of(kinds):
    """{name: (a network of one layer, its products)} of data and weights of some dtypes: floats, or integers whose sums
    are requantized."""
    rng, made = np.random.default_rng(0), {}
    for dtype, weight in kinds:
        for name, op, shape, sizes, padding in LAYERS:
            x, bb = RelaxVar("x", TensorStructInfo(shape, dtype)), BlockBuilder()
            w = rng.standard_normal(sizes) if weight == "float32" else rng.integers(
                -np.iinfo(weight).max, np.iinfo(weight).max + 1, sizes)
            attrs = {"padding": (padding,) * 4} if op == "qnn.conv2d" else {}
            if name == "depthwise":
                attrs["groups"] = shape[1]
            with bb.function("main", [x]):
                def emit(op, *args, **attrs):
                    return bb.emit(call_op(op, *args, **attrs))
                w = Constant(w.astype(weight), "w")
                if dtype == "float32":
                    y = emit("nn.relu", emit(PLAIN[op], x, w, **attrs))
                else:
                    y = requantized(emit, op, x, w, attrs)
                bb.emit_func_output(y)
            terms = sizes[0] if op == "qnn.matmul" else math.prod(sizes[1:])
            kind = dtype if weight in ("int8", "float32") else f"{dtype}_{weight}"
            made[f"{name}_{kind}"] = bb.get(), terms * math.prod(y.struct_info.static_shape)
    return made


def matrices_of_words():
    """{name: (a network of a product of two int16 activations, its products)}."""
    made = {}
    for name, left, right in MATRICES:
        bb, (x, w) = BlockBuilder(), (RelaxVar(n, TensorStructInfo(s, "int16")) for n, s in (("x", left), ("w", right)))
        with bb.function("main", [x, w]):
            def emit(op, *args, **attrs):
                return bb.emit(call_op(op, *args, **attrs))
            columns = emit("permute_dims", w, axes=(0, 2, 1)) if left[-1] != right[-2] else w
            zero = Constant(np.array(0, "int16"), "zero")
            y = emit("qnn.matmul", x, columns, zero, zero, out_dtype="int64")
            y = emit("multiply", emit("astype", y, dtype="float32"), Constant(np.array(1e-6, np.float32), "s"))
            y = emit("astype", emit("clip", emit("round", y), min=-32768.0, max=32767.0), dtype="int16")
            bb.emit_func_output(y)
        made[f"{name}_int16_both"] = bb.get(), math.prod(left) * y.struct_info.static_shape[-1]
    return made


def requantized(emit, op, x, w, attrs):
    """The sums of products by a layer of integers, less a zero point of data of 8 bits, in the data's dtype."""
    dtype = str(x.struct_info.dtype)
    limits, words = np.iinfo(dtype), dtype == "int16"
    zero = Constant(np.array(0 if words else limits.max // 2, dtype), "zero")
    axes = (0,) if op == "qnn.matmul" else tuple(range(1, w.data.ndim))
    sums = sums_dtype(dtype, 0, w.data, [a for a in range(w.data.ndim) if a not in axes]) if words else "int32"
    y = emit(op, x, w, zero, Constant(np.array(0, np.int8)), out_dtype=sums, **attrs)
    y = emit("multiply", emit("astype", y, dtype="float32"), Constant(np.array(0.003, np.float32), "s"))
    return emit("astype", emit("clip", emit("round", y), min=float(limits.min), max=float(limits.max)), dtype=dtype)


def half_layers():
    """{name: (a network of a product of halves that a bias and a Relu follow, its products)}."""
    rng, made = np.random.default_rng(0), {}
    for dtype in ("float16", "bfloat16"):
        for name, op, shape, weights, _ in LAYERS:
            if op != "qnn.matmul":
                continue
            x, bb = RelaxVar("x", TensorStructInfo(shape, dtype)), BlockBuilder()
            w, b = (Constant(rng.standard_normal(s).astype(DataType(dtype).numpy), n)
                    for s, n in ((weights, "w"), (weights[1:], "b")))
            with bb.function("main", [x]):
                y = bb.emit(call_op("add", bb.emit(call_op("matmul", x, w)), b))
                bb.emit_func_output(bb.emit(call_op("nn.relu", y)))
            made[f"{name}_{dtype}"] = bb.get(), math.prod(shape) * weights[1]
    return made


def measure_layers(layers, targets):
    """Print the instructions for a product of each layer, for each target and arithmetic."""
    table = []
    with tempfile.TemporaryDirectory(prefix="ingot-bench-") as folder:
        counter = plugin(folder)
        for target, arithmetic in targets:
            for name, (mod, products) in layers.items():
                counts = [row[3] for row in measure(mod, name, Target.get(target), counter, arithmetic=arithmetic)]
                table.append([target, arithmetic or "", name, number(products / 1e6), f"{counts[0] / products:.3f}",
                              f"{sum(counts) / products:.3f}"])
                print(*table[-1], file=sys.stderr)
    print("\n".join(markdown_table(["target", "arithmetic", "layer", "million products", "instructions each",
                                    "with what is around"], table, left=3)))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="NAME")
    parser.add_argument("--target", default="aarch64-linux-gnu", help="a target that QEMU runs (default: %(default)s)")
    parser.add_argument("--broadcast", action="store_true", help="without FMAs by element")
    parser.add_argument("--bytes", action="store_true", help="layers of 8-bit integers, for TARGETS_OF_BYTES")
    parser.add_argument("--words", action="store_true", help="layers of 16-bit integers, for TARGETS_OF_WORDS")
    parser.add_argument("--layers", metavar="TARGET", help="layers of floats and integers, for one target")
    parser.add_argument("--halves", action="store_true", help="products of 16-bit floats, for TARGETS_OF_HALVES")
    parser.add_argument("--top", type=int, default=0, metavar="N", help="list the N kernels with most instructions too")
    parser.add_argument("--zoo", type=Path, default=ZOO, metavar="DIR", help="as in zoo.py")
    args = parser.parse_args(argv)
    if args.bytes:
        measure_layers(layers_of(BYTES), [(target, None) for target in TARGETS_OF_BYTES])
        return 0
    if args.words or args.layers:
        kinds = (*FLOATS, *WORDS) if args.words else (*FLOATS, *BYTES, *WORDS)
        layers = {**layers_of(kinds), **matrices_of_words()}
        measure_layers(layers, [(t, None) for t in ([args.layers] if args.layers else TARGETS_OF_WORDS)])
        return 0
    if args.halves:
        measure_layers(half_layers(), TARGETS_OF_HALVES)
        return 0
    models, target = Models(args.zoo), Target.get(args.target)
    if args.broadcast:
        target = dataclasses.replace(target, by_element=False)
    table = []
    with tempfile.TemporaryDirectory(prefix="ingot-bench-") as folder:
        counter = plugin(folder)
        for name in args.models:
            rows = measure(models.load(name), name, target, counter)
            total, sums = (sum(row[n] for row in rows) for n in (3, 2))
            table.append([name, "", number(sums / 1e6), number(total / 1e6), f"{total / sums:.3f}"])
            for kernel, nodes, own, count in rows[:args.top]:
                each = f"{count / own:.3f}" if own else ""
                table.append(["", kernel or nodes, number(own / 1e6), number(count / 1e6), each])
            print(f"{name}: {total / sums:.3f} instructions for an FMA", file=sys.stderr)
    print("\n".join(markdown_table(["network", "kernel", "million FMAs", "million instructions",
                                    "instructions for an FMA"], table, left=2)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
