"""Networks, layers, attention and products on a CUDA device against torch (cuBLAS, cuDNN, torch.compile).

    python benchmarks/gpu.py                     all that follows but the sweep, and gpu.json with card, clocks, driver
    python benchmarks/gpu.py device              whether the device functions and small networks are right on this card
    python benchmarks/gpu.py sanitizer           the same under compute-sanitizer: memcheck, racecheck, synccheck
    python benchmarks/gpu.py products layers attention networks      these alone, against torch
    python benchmarks/gpu.py sweep               products by every tile, as rows of data
    python benchmarks/gpu.py compiler            registers, spills, blocks on a multiprocessor, by nvcc: needs no card
    python benchmarks/gpu.py --build PART ...    builds what these need, by nvcc, and runs nothing; what was built is in
                                                 $INGOT_CACHE_DIR, which can be taken to a card
    python benchmarks/gpu.py --dry-run           compiles all of it to CUDA C, and says what would run

Both sides run as CUDA graphs of some calls, in turns, with the second-level cache overwritten before each; times are
medians by events, and the ratio, the best of torch's times by Ingot's, comes first: above 1 Ingot is faster. torch runs
networks as they are, in the layout of cuDNN's fast kernels ("nhwc"), and by torch.compile, which takes minutes
(--no-compile); attention by each backend of scaled_dot_product_attention. What a machine lacks is skipped, and said.
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
from functools import partial
from pathlib import Path

import gpu_models
import gpu_torch
from gpu_sweep import rows_of, variants

import ingot
from ingot.codegen import compile as compilation
from ingot.codegen.nvcc import INSTALL, find_nvcc
from ingot.codegen.wgmma import wgmma_header
from ingot.runtime.cuda_array import CudaError, properties

HERE = Path(__file__).parent
RUNTIME = Path(ingot.__file__).parent / "runtime_c"
CALLS = 20  # in a graph
PER_SM = {"registers": 65536, "threads": 2048, "blocks": 32}
SHARED_PER_SM = {"sm_80": 166912, "sm_90a": 233472}  # bytes
FLUSH_BYTES = 256 << 20
TOOLS = ("memcheck", "racecheck", "synccheck")  # of compute-sanitizer


MOST_REFERENCE_FLOPS = 10 ** 8  # of what self-tests compare with: the small networks'; others would take minutes


class Skipped(Exception):
    """A part that cannot run here; the message says why."""


# ---------------------------------------------------------------- what the compiler says

def blocks_of(registers, threads, shared, arch):
    """How many blocks a multiprocessor runs at once."""
    registers = -(-max(registers, 1) // 8) * 8
    return min(PER_SM["blocks"], PER_SM["threads"] // threads, PER_SM["registers"] // (registers * threads),
               SHARED_PER_SM.get(arch, SHARED_PER_SM["sm_80"]) // (shared + 1024))


def occupancy(registers, threads, shared, arch="sm_80"):
    """Of the threads that a multiprocessor may run: how many it does, in parts of 1."""
    return blocks_of(registers, threads, shared, arch) * threads / PER_SM["threads"]


def ptxas_report(folder, arch):
    """[{kernel, registers, spills, shared, threads, blocks, occupancy}] of a folder's .cu files. Raises Skipped."""
    nvcc, rows = find_nvcc(), []
    if nvcc is None:
        raise Skipped(f"no nvcc: {INSTALL}")
    launched = "".join(path.read_text() for path in Path(folder).glob("*.c"))
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
            number["shared"] += dynamic_shared(launched, name)
            bound = re.search(rf"__launch_bounds__\((\d+)[^)]*\)\s*{re.escape(name)}\(", text)
            threads = int(bound[1]) if bound else 256
            used = number["registers"], threads, number["shared"], arch
            rows.append({"kernel": name, "arch": arch, **number, "threads": threads, "serialized": "C75" in part,
                         "blocks": blocks_of(*used), "occupancy": occupancy(*used)})
    return rows


def dynamic_shared(host, kernel):
    """Bytes of dynamic shared memory of a kernel's launch in the C of the host; 0 where a run computes them."""
    launch = re.search(rf"\b{re.escape(kernel)}_launch\(ingot_dim3\([^;]*?\),\s*ingot_dim3\([^;]*?\),\s*(\d+),", host)
    return int(launch[1]) if launch else 0


def compiler(items, target, arch):
    """Print and return what ptxas says of the kernels of items."""
    found = []
    print(f"{'registers':>9} {'spills':>6} {'shared':>6} {'threads':>7} {'blocks':>6} {'occupancy':>9}  "
          f"kernel ({arch})")
    for item in items:
        with tempfile.TemporaryDirectory() as folder:
            ingot.compile(item.model, target=target).export(Path(folder, "net"))
            rows = ptxas_report(Path(folder, "net"), arch)
        print(item.name)
        for row in rows:
            print("{registers:9} {spills:6} {shared:6} {threads:7} {blocks:6} {occupancy:9.2f}  {kernel}".format(**row))
        found.append({"item": item.name, "kernels": rows})
    return found


def dry(items, target):
    """Compile items to CUDA C; print and return how many kernels each is, and by which plans."""
    found = []
    for item in items:
        model = ingot.compile(item.model, target=target).model
        sides = [*gpu_torch.ways(item)]
        print(f"{len(model.kernels):4} kernels, {item.flops * 1e-9:9.2f} GFLOP  {item.name}; "
              f"against {', '.join(sides)}", flush=True)
        found.append({"item": item.name, "kernels": sorted(model.kernels), "flops": item.flops, "sides": sides})
    return found


# ---------------------------------------------------------------- right or not

def find_sanitizer():
    """The path of compute-sanitizer: on PATH, or beside nvcc; None where it is not."""
    nvcc = find_nvcc()
    beside = nvcc and nvcc.root / "bin" / "compute-sanitizer"
    return shutil.which("compute-sanitizer") or (str(beside) if beside and beside.exists() else None)


def programs(folder, target, arch):
    """{name: program} that say whether they computed the right numbers: a test of the device functions, and the
    self-tests of small networks. Raises Skipped without nvcc."""
    nvcc = find_nvcc()
    if nvcc is None:
        raise Skipped(f"no nvcc: {INSTALL}")
    names = {f"ingot_wgmma_{n}" for n in re.findall(r"WGMMA\((m64n\w+),", (HERE / "device_test.cu").read_text())}
    Path(folder, "ingot_wgmma.h").write_text(wgmma_header(names))
    gencode = f"arch={arch.replace('sm', 'compute')},code={arch}"
    found = {"device functions": Path(folder, "device_test")}
    subprocess.run([nvcc.path, "-std=c++17", "-O2", "-lineinfo", "-gencode", gencode, "-I", RUNTIME / "cuda", "-I",
                    RUNTIME, "-I", folder, *(f"-L{path}" for path in nvcc.library_folders), "-o",
                    found["device functions"], HERE / "device_test.cu"], check=True)
    for n, item in enumerate(gpu_models.small()):
        own = Path(folder, f"net{n}")
        ingot.compile(item.model, target=target, name=f"net{n}").export(own)
        subprocess.run(["make", f"NVCC={nvcc.path}", "NVCCFLAGS=-O3 -lineinfo", "selftest"], cwd=own, check=True,
                       stdout=subprocess.DEVNULL)
        found[item.name] = own / "selftest"
    return found


def right(target, arch, tools=("",)):
    """{name: {tool: exit code}} of the programs, each by itself ("") or under tools of compute-sanitizer."""
    sanitizer, found = find_sanitizer(), {}
    if any(tools) and sanitizer is None:
        raise Skipped("no compute-sanitizer: it is a part of CUDA's toolkit, and of pip's nvidia-cuda-sanitizer-api")
    with tempfile.TemporaryDirectory() as folder:
        for name, program in programs(folder, target, arch).items():
            found[name] = {}
            for tool in tools:
                under = [sanitizer, "--tool", tool, "--error-exitcode", "9"] if tool else []
                done = subprocess.run([*under, program], cwd=Path(program).parent, capture_output=True, text=True)
                found[name][tool] = done.returncode
                print(f"{'ok' if done.returncode == 0 else 'WRONG':5} {tool or 'run':9} {name}")
                if done.returncode:
                    print(done.stdout[-2000:], done.stderr[-2000:])
    return found


# ---------------------------------------------------------------- how fast

class Graph:
    """CALLS calls of a function of a stream's address as a CUDA graph; seconds(): of one call, on the device."""

    def __init__(self, torch, call, flush):
        self.torch, self.flush, self.graph = torch, flush, torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
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


def sides_of(torch, item, lib, flush, with_compile):
    """({side: Graph}, {side: why it is not there}, largest difference to torch by torch's largest number)."""
    tensors = [torch.from_numpy(a).cuda() for a in item.inputs]
    run, outputs = lib.bind(*tensors)
    sides, missing, error = {"ingot": Graph(torch, run, flush)}, {}, float("nan")
    for name, call in gpu_torch.peers(torch, item, tensors, with_compile).items():
        try:
            if isinstance(call, Exception):
                raise call
            sides[name] = Graph(torch, lambda _, call=call: call(), flush)
        except Exception as reason:  # noqa: BLE001 - torch's own words
            missing[name] = str(reason).splitlines()[0]
            continue
        if name == "torch":
            wanted = call().float()
            got = torch.from_numpy(outputs[0].numpy()).to(wanted.device).float()
            error = float((got - wanted).abs().max() / wanted.abs().max())
    return sides, missing, error


def medians(sides, repeats):
    """{side: seconds}, all of them in turns."""
    times = {side: [] for side in sides}
    for _ in range(repeats):
        for side, graph in sides.items():
            times[side].append(graph.seconds())
    return {side: statistics.median(some) for side, some in times.items()}


def compare(items, target, repeats, with_compile=True):
    """Time items side by side, print and return the rows."""
    torch, rows = the_torch(), []
    with gpu_torch.quiet(torch):
        flush = torch.empty(FLUSH_BYTES // 4, device="cuda")
        print(f"{'ratio':>6} {'ingot ms':>9} {'TFLOP/s':>8} {'error':>8}")
        for item in items:
            lib = ingot.compile(item.model, target=target)
            sides, missing, error = sides_of(torch, item, lib, flush, with_compile)
            times = medians(sides, repeats)
            ours, theirs = times.pop("ingot"), sorted(times.items(), key=lambda pair: pair[1])
            ratio = theirs[0][1] / ours if theirs else float("nan")
            peers = [f"{name} {seconds * 1e3:.4f}" for name, seconds in theirs]
            peers += [f"{name}: {why}" for name, why in missing.items()]
            print(f"{ratio:6.2f} {ours * 1e3:9.4f} {item.flops / ours * 1e-12:8.1f} {error:8.1e}  {item.name}; "
                  f"{'; '.join(peers)}", flush=True)
            rows.append({"item": item.name, "ratio": ratio, "ingot": ours, **times, "error": error,
                         "tflops": item.flops / ours * 1e-12, "missing": missing})
            del sides
            lib.close()
    return rows


def sweep(target, repeats):
    """Time products by every tile and number of parts; print and return them as rows of data."""
    torch, timed = the_torch(), []
    with gpu_torch.quiet(torch):
        flush = torch.empty(FLUSH_BYTES // 4, device="cuda")
        for item, plan, lib in variants(gpu_models.swept(), target):
            tensors = [torch.from_numpy(a).cuda() for a in item.inputs]
            seconds = medians({"": Graph(torch, lib.bind(*tensors)[0], flush)}, repeats)[""]
            timed.append((item, plan, seconds))
            lib.close()
    rows = rows_of(timed)
    print("\n".join(rows))
    return rows


def the_torch():
    """The module torch, with a card. Raises Skipped."""
    try:
        import torch  # noqa: PLC0415 - only where there is one
    except ImportError as error:
        raise Skipped(f"no torch to compare with ({error}): pip install torch") from None
    if not torch.cuda.is_available():
        raise Skipped("torch sees no CUDA device")
    return torch


def build(items, target):
    """Build what items need, by nvcc; returns their names."""
    if find_nvcc() is None:
        raise Skipped(f"no nvcc: {INSTALL}")
    found = []
    for item in items:
        with ingot.compile(item.model, target=target) as lib:
            lib.build()
        found.append(item.name)
        print(f"built {item.name}", flush=True)
    return found


# ---------------------------------------------------------------- the command

def card():
    """What the numbers hang on: the card, its clocks and driver."""
    found = properties()
    query = "name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit,temperature.gpu"
    if shutil.which("nvidia-smi") is None:
        return found
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
    said = subprocess.run(command, capture_output=True, text=True).stdout
    return {**found, "nvidia-smi": dict(zip(query.split(","), map(str.strip, said.split(","))))}


ITEMS = {"products": gpu_models.products, "layers": gpu_models.layers, "attention": gpu_models.attentions,
         "networks": gpu_models.networks}
PARTS = ("device", "sanitizer", *ITEMS, "sweep", "compiler")


def steps(options, about, target, arch):
    """{part: function} of what is to be done. about: of the card, None where there is none."""
    def items(part):
        own = ITEMS.get(part, tuple)()
        return [*own, *(gpu_models.of_file(path) for path in options.network)] if part == "networks" else own

    asked = options.parts or [p for p in PARTS if p not in ("sweep", "compiler")]
    timed = [p for p in asked if p in ITEMS]
    if options.dry_run:
        return {p: lambda p=p: dry(items(p), target) for p in timed or ITEMS}
    if options.build:
        made = {p: lambda p=p: build(items(p), target) for p in timed}
        return made | ({"sweep": lambda: [lib.build() for *_, lib in variants(gpu_models.swept(), target)]}
                       if "sweep" in asked else {})
    said = {"compiler": lambda: compiler([i for p in timed or ITEMS for i in items(p)], target, arch)}
    if about is None:
        return said
    found = {"device": partial(right, target, arch), "sanitizer": partial(right, target, arch, TOOLS), **said,
             "sweep": partial(sweep, target, options.repeats),
             **{p: lambda p=p: compare(items(p), target, options.repeats, not options.no_compile) for p in ITEMS}}
    return {p: found[p] for p in asked}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART",
                        help=f"of {', '.join(PARTS)}; default: all but sweep and compiler")
    parser.add_argument("--target", help="default: of the card, cuda-sm_80 without one")
    parser.add_argument("--network", action="append", default=[], metavar="FILE",
                        help="an ONNX file, beside ResNet-50 and BERT-base; may be repeated")
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    parser.add_argument("--dry-run", action="store_true", help="compile to CUDA C, and say what would run")
    parser.add_argument("--build", action="store_true", help="build by nvcc what would run")
    parser.add_argument("--json", default="gpu.json", help="default: %(default)s")
    options = parser.parse_args(argv)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part is called {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    compilation.MOST_REFERENCE_FLOPS, about = MOST_REFERENCE_FLOPS, None
    if not (options.dry_run or options.build):
        try:
            about = card()
        except CudaError as error:
            print(f"{error}\nWith a card: python benchmarks/gpu.py {' '.join(options.parts)}\n")
    hopper = about is not None and about["compute_major"] == 9
    target = options.target or ("cuda-sm_90a" if hopper else "cuda-sm_80")
    arch = "sm_90a" if "90" in target else "sm_80"
    found = {"card": about, "target": target}
    for part, step in steps(options, about, target, arch).items():
        print(f"---- {part}", flush=True)
        try:
            found[part] = step()
        except Skipped as reason:
            found[part] = {"skipped": str(reason)}
            print(f"skipped: {reason}")
        Path(options.json).write_text(json.dumps(found, indent=1, default=str))


if __name__ == "__main__":
    main()
