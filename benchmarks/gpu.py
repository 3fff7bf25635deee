"""Networks, layers and products on a CUDA device against torch (cuBLAS, cuDNN, torch.compile), in one process.

    python benchmarks/gpu.py                     all that follows, and gpu.json with the card, clocks and driver
    python benchmarks/gpu.py device              whether the device functions are right on this card, and its sanitizer
    python benchmarks/gpu.py products layers     these alone
    python benchmarks/gpu.py compiler            registers, spills and occupancy, by nvcc: needs no card

Both sides run as CUDA graphs of some calls, in turns, with the second-level cache overwritten before each; times are
medians by events, and the ratio, torch's time by Ingot's, comes first: above 1 Ingot is faster. Without a card it says
what the compiler says, and the command to run elsewhere.
"""
from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import helper

import ingot
from ingot.codegen.nvcc import INSTALL, find_nvcc
from ingot.codegen.wgmma import wgmma_header
from ingot.runtime.cuda_array import CudaError, properties

HERE = Path(__file__).parent
RUNTIME = Path(ingot.__file__).parent / "runtime_c"
CALLS = 20  # in a graph
PER_SM = {"registers": 65536, "threads": 2048, "blocks": 32, "shared": 166912}
FLUSH_BYTES = 256 << 20


@dataclass(frozen=True)
class Item:
    """What is timed: an ONNX model, numpy's inputs, the same in torch (a function of torch that makes a function of
    tensors), and the floating-point operations of a call."""

    name: str
    model: object
    inputs: tuple
    torch: object
    flops: float


def draw(*shape, dtype=np.float16, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) * 0.1).astype(dtype)


def model_of(op, inputs, output, **attrs):
    """An ONNX model of one node. inputs: {name: array}; output: its shape."""
    elem = helper.np_dtype_to_tensor_dtype(next(iter(inputs.values())).dtype)
    infos = [helper.make_tensor_value_info(n, elem, a.shape) for n, a in inputs.items()]
    graph = helper.make_graph([helper.make_node(op, list(inputs), ["y"], **attrs)], op.lower(), infos,
                              [helper.make_tensor_value_info("y", elem, output)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def products():
    for size, dtype in ((1024, np.float16), (2048, np.float16), (4096, np.float16), (8192, np.float16),
                        (1024, np.float32), (4096, np.float32)):
        yield matmul(size, size, size, dtype)
    for m in (1, 16, 128):  # of a language model, one token to many
        yield matmul(m, 4096, 4096, np.float16)


def matmul(m, n, k, dtype):
    a, b = draw(m, k, dtype=dtype), draw(k, n, dtype=dtype, seed=1)
    return Item(f"matmul {np.dtype(dtype).name} {m}x{n}x{k}", model_of("MatMul", {"a": a, "b": b}, (m, n)), (a, b),
                lambda torch: torch.matmul, 2.0 * m * n * k)


def layers():
    for batch in (1, 32):
        for channels, size, filters, kernel, stride in (
                (64, 56, 64, 3, 1), (256, 56, 64, 1, 1), (128, 28, 128, 3, 1), (256, 14, 256, 3, 1),
                (512, 7, 512, 3, 1), (3, 224, 64, 7, 2)):
            yield convolution(batch, channels, size, filters, kernel, stride)
    x = draw(4096, 1024)
    yield Item("softmax 4096x1024", model_of("Softmax", {"x": x}, x.shape, axis=-1), (x,),
               lambda torch: lambda x: torch.softmax(x, -1), 5.0 * x.size)
    s, b = draw(1024, seed=1), draw(1024, seed=2)
    norm = model_of("LayerNormalization", {"x": x, "scale": s, "bias": b}, x.shape)
    yield Item("layernorm 4096x1024", norm, (x, s, b), lambda torch: lambda x, s, b: torch.nn.functional.layer_norm(
        x, (1024,), s, b), 8.0 * x.size)


def convolution(batch, channels, size, filters, kernel, stride):
    x, w = draw(batch, channels, size, size), draw(filters, channels, kernel, kernel, seed=1)
    out, pad = (size - 1) // stride + 1, kernel // 2
    model = model_of("Conv", {"x": x, "w": w}, (batch, filters, out, out), pads=[pad] * 4, strides=[stride] * 2)
    return Item(f"conv {batch}x{channels}x{size} {filters} of {kernel}x{kernel}/{stride}", model, (x, w),
                lambda torch: lambda x, w: torch.nn.functional.conv2d(x, w, None, stride, pad),
                2.0 * batch * filters * out * out * channels * kernel * kernel)


def networks(paths):
    """Networks from ONNX files, in float16; torch runs none of them."""
    for path in paths:
        yield Item(Path(path).stem, str(path), (), None, 0.0)


# ---------------------------------------------------------------- what the compiler says

def occupancy(registers, threads, shared):
    """Of the threads that a multiprocessor may run: how many it does, in parts of 1."""
    registers = -(-max(registers, 1) // 8) * 8
    blocks = min(PER_SM["blocks"], PER_SM["threads"] // threads, PER_SM["registers"] // (registers * threads),
                 PER_SM["shared"] // (shared + 1024))
    return blocks * threads / PER_SM["threads"]


def ptxas_report(folder, arch):
    """[{kernel, registers, spills, shared, threads, occupancy}] of the .cu files of a folder."""
    nvcc, rows = find_nvcc(), []
    if nvcc is None:
        sys.exit(f"no nvcc: {INSTALL}")
    for source in sorted(Path(folder).glob("*.cu")):
        done = subprocess.run([nvcc.path, "-std=c++17", f"-arch={arch}", "-cubin", "-Xptxas", "-v", "-o",
                               f"{source}.{arch}.cubin", source.name], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        text = source.read_text()
        for part in re.split(r"Compiling entry function '", done.stderr)[1:]:
            name = part.partition("'")[0]
            number = {key: int((re.search(pattern, part) or [0, 0])[1]) for key, pattern in (
                ("registers", r"Used (\d+) registers"), ("spills", r"(\d+) bytes spill stores"),
                ("shared", r"(\d+) bytes smem"))}
            bound = re.search(rf"__launch_bounds__\((\d+)[^)]*\)\s*{re.escape(name)}\(", text)
            threads = int(bound[1]) if bound else 256
            rows.append({"kernel": name, "arch": arch, **number, "threads": threads, "serialized": "C75" in part,
                         "occupancy": occupancy(number["registers"], threads, number["shared"])})
    return rows


def compiler(items, target, arch):
    """Print and return what ptxas says of the kernels of items."""
    found = []
    print(f"{'registers':>9} {'spills':>6} {'shared':>6} {'threads':>7} {'occupancy':>9}  kernel ({arch})")
    for item in items:
        with tempfile.TemporaryDirectory() as folder:
            ingot.compile(item.model, target=target).export(Path(folder, "net"))
            rows = ptxas_report(Path(folder, "net"), arch)
        print(item.name)
        for row in rows:
            print("{registers:9} {spills:6} {shared:6} {threads:7} {occupancy:9.2f}  {kernel}".format(**row))
        found.append({"item": item.name, "kernels": rows})
    return found


# ---------------------------------------------------------------- on a card

def device(arch):
    """Whether the device functions are right here, and what compute-sanitizer says of them."""
    nvcc, sanitizer = find_nvcc(), shutil.which("compute-sanitizer")
    source = (HERE / "device_test.cu").read_text()
    names = {f"ingot_wgmma_{name}" for name in re.findall(r"WGMMA\((m64n\w+),", source)}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "ingot_wgmma.h").write_text(wgmma_header(names))
        program = Path(folder, "device_test")
        gencode = f"arch={arch.replace('sm', 'compute')},code={arch}"
        subprocess.run([nvcc.path, "-std=c++17", "-O2", "-lineinfo", "-gencode", gencode, "-I", RUNTIME / "cuda", "-I",
                        RUNTIME, "-I", folder, *(f"-L{path}" for path in nvcc.library_folders), "-o", program,
                        HERE / "device_test.cu"], check=True)
        found["device_test"] = subprocess.run([program]).returncode
        for tool in ("memcheck", "racecheck", "synccheck") if sanitizer else ():
            command = [sanitizer, "--tool", tool, "--error-exitcode", "9", program]
            found[tool] = subprocess.run(command).returncode
    return found


class Graph:
    """CALLS calls of a function of a stream's address as a CUDA graph; seconds(): of one call, on the device."""

    def __init__(self, torch, call, flush):
        self.torch, self.flush, self.graph = torch, flush, torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                call(stream.cuda_stream)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            for _ in range(CALLS):
                call(torch.cuda.current_stream().cuda_stream)

    def seconds(self):
        start, stop = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.flush.zero_()
        start.record()
        self.graph.replay()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) * 1e-3 / CALLS


def compare(items, target, repeats):
    """Time items side by side, print and return the rows."""
    import torch  # noqa: PLC0415 - only where there is a card

    flush, rows = torch.empty(FLUSH_BYTES // 4, device="cuda"), []
    print(f"{'ratio':>6} {'ingot':>10} {'torch':>10} {'TFLOP/s':>8} {'error':>8}")
    for item in items:
        lib = ingot.compile(item.model, target=target)
        inputs = item.inputs or tuple(draw(*t.shape, dtype=t.dtype.numpy) for t in lib.inputs)
        tensors = [torch.from_numpy(a).cuda() for a in inputs]
        run, outputs = lib.bind(*tensors)
        sides, error = {"ingot": Graph(torch, run, flush)}, float("nan")
        if item.torch is not None:
            function = item.torch(torch)
            run()
            wanted, got = function(*tensors).float(), torch.from_numpy(outputs[0].numpy()).cuda().float()
            error = float((got - wanted).abs().max() / wanted.abs().max())
            sides["torch"] = Graph(torch, lambda _, f=function, t=tensors: f(*t), flush)
        times = {side: [] for side in sides}
        for _ in range(repeats):
            for side, graph in sides.items():
                times[side].append(graph.seconds())
        ours, theirs = (statistics.median(times[s]) if s in times else float("nan") for s in ("ingot", "torch"))
        rate = item.flops / ours * 1e-12
        print(f"{theirs / ours:6.2f} {ours * 1e3:7.4f} ms {theirs * 1e3:7.4f} ms {rate:8.1f} {error:8.1e}  {item.name}")
        rows.append({"item": item.name, "ratio": theirs / ours, "ingot": ours, "torch": theirs, "tflops": rate,
                     "error": error, "times": times})
    return rows


def card():
    """What the numbers hang on: the card, its clocks and driver."""
    found = properties()
    query = "name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit,temperature.gpu"
    if shutil.which("nvidia-smi") is None:
        return found
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
    said = subprocess.run(command, capture_output=True, text=True).stdout
    return {**found, "nvidia-smi": dict(zip(query.split(","), map(str.strip, said.split(","))))}


PARTS = ("device", "products", "layers", "networks", "compiler")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all but compiler")
    parser.add_argument("--target", help="default: of the card, cuda-sm_80 without one")
    parser.add_argument("--network", action="append", default=[], metavar="FILE", help="an ONNX file; may be repeated")
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--json", default="gpu.json", help="default: %(default)s")
    options = parser.parse_args(argv)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part is called {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    parts = options.parts or PARTS[:-1]
    items = {"products": products, "layers": layers, "networks": lambda: networks(options.network)}
    try:
        about = card()
    except CudaError as error:
        print(f"{error}\nWith a card: python benchmarks/gpu.py {' '.join(options.parts)}\n")
        about, parts = None, [p for p in parts if p not in ("device", "compiler")] + ["compiler"]
    hopper = about is not None and about["compute_major"] == 9
    target = options.target or ("cuda-sm_90a" if hopper else "cuda-sm_80")
    arch = "sm_90a" if "90" in target else "sm_80"
    found = {"card": about, "target": target}
    for part in parts:
        if part == "device":
            found[part] = device(arch)
        elif part == "compiler":
            named = [p for p in parts if p in items] or list(items)
            found[part] = compiler([item for p in named for item in items[p]()], target, arch)
        elif about is not None:
            found[part] = compare(items[part](), target, options.repeats)
    Path(options.json).write_text(json.dumps(found, indent=1, default=str))


if __name__ == "__main__":
    main()
