"""How long casting a network takes, and how much memory: to C, and until the library is built.

    python benchmarks/compile_time.py                           every model of the zoo, and graphs made up for size
    python benchmarks/compile_time.py --models squeezenet chain1000 --warm --no-build

chainN is N equal convolutions in a row, mixedN a graph of N nodes as detectors have: convolutions of many shapes,
elementwise chains, concatenations and slices. Each model is cast in a process of its own, without the cache of
kernels, or with --warm once more with it. CPU seconds are the process's, with Ingot's imports; peak memory is beyond
that of the process after its imports (65 MB), mapped files included, and the ratio is to the size of the weights in the
folder. Programs and the self-test's reference take 15 to 100 MB by themselves, which decide about small models' ratios.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

import ingot
from ingot.codegen.toolchain import build_shared
from measure import Models

MADE_UP = ("chain1000", "chain5000", "mixed1015", "mixed5000")
COLUMNS = ("model", "nodes", "C, cpu s", "C, s", "warm, cpu s", "build, s", "weights MB", "peak MB", "ratio")


# ---- models -------------------------------------------------------------------------------------------------------

class _Graph:
    """Nodes and weights of a network that is being made up."""

    def __init__(self):
        self.nodes, self.weights = [], []

    def op(self, kind, *inputs, **attrs):
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], f"{kind}_{len(self.nodes)}", **attrs))
        return output

    def const(self, value):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def model(self, name, shape, output):
        ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), (output, None))]
        graph = helper.make_graph(self.nodes, name, ends[:1], ends[1:], self.weights)
        return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]))


def chain(length):
    """So many equal convolutions in a row."""
    rng, graph, x = np.random.default_rng(0), _Graph(), "x"
    for _ in range(length):
        weights = graph.const(0.08 * rng.standard_normal((16, 16, 3, 3), np.float32))
        x = graph.op("Conv", x, weights, pads=[1] * 4)
    return graph.model("chain", [1, 16, 16, 16], x)


def mixed(length):
    """A network of about so many nodes."""
    rng, graph, x, channels = np.random.default_rng(0), _Graph(), "x", 16
    while len(graph.nodes) < length - 1:
        wide, size = int(rng.choice([8, 12, 16, 20, 24, 32, 40, 48])), int(rng.choice([1, 3, 5]))
        weights = rng.standard_normal((wide, channels, size, size), np.float32) / np.float32(size * channels ** 0.5)
        x = graph.op("Conv", x, graph.const(weights), graph.const(np.zeros(wide, np.float32)), pads=[size // 2] * 4)
        x = graph.op("Mul", x, graph.op("Sigmoid", x))
        x, channels = _PARTS[len(graph.nodes) % len(_PARTS)](graph, x, wide)
    return graph.model("mixed", [1, 16, 32, 32], graph.op("GlobalAveragePool", x))


def _shuffled(graph, x, channels):
    cuts = [graph.const(np.array([n])) for n in (0, channels // 2, channels, 1)]
    low, high = (graph.op("Slice", x, begin, end, cuts[3]) for begin, end in zip(cuts, cuts[1:3]))
    return graph.op("Concat", high, graph.op("Relu", low), axis=1), channels


def _scaled(graph, x, channels):
    bias = np.arange(channels, dtype=np.float32).reshape(1, channels, 1, 1)
    x = graph.op("Add", graph.op("Mul", x, graph.const(np.float32(0.5))), graph.const(bias))
    return graph.op("Clip", x, graph.const(np.float32(-4)), graph.const(np.float32(4))), channels


def _pooled(graph, x, channels):
    return graph.op("Concat", x, graph.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4), axis=1), 2 * channels


def _added(graph, x, channels):
    return graph.op("Add", x, graph.op("Tanh", x)), channels


_PARTS = (_shuffled, _scaled, _pooled, _added)


def load(name):
    """The ModelProto of a name: of the zoo, or made up."""
    for kind, make in (("chain", chain), ("mixed", mixed)):
        if name.startswith(kind) and name[len(kind):].isdigit():
            return make(int(name[len(kind):]))
    return Models().load(name)


# ---- one measurement ----------------------------------------------------------------------------------------------

def cast(model, folder):
    """Cast a model's file to a folder, in this process: {cpu, wall seconds, peak and weights in MB}."""
    start, begin = time.process_time(), time.perf_counter()
    import_module("ingot.api")  # which `import ingot` leaves to the first use
    idle = _peak()
    ingot.compile(model).export(folder)
    weights = sum(p.stat().st_size for p in Path(folder).glob("*_weights.bin"))
    return {"cpu": time.process_time() - start, "wall": time.perf_counter() - begin, "peak": _peak() - idle,
            "weights": weights / 1e6}


def _peak():
    """MB of this process at most until now; getrusage would count the process that started it."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) * 1024 / 1e6


def measured(name, build, warm, scratch):
    """The row of a model."""
    path = Path(scratch, f"{name}.onnx")
    model = load(name)
    onnx.save(model, path)
    nodes = len(model.graph.node)
    del model
    cold = _in_process(path, Path(scratch, name), {"INGOT_KERNEL_CACHE": "0"})
    again = None
    if warm:
        cache = {"INGOT_CACHE_DIR": str(Path(scratch, f"{name}.cache")), "INGOT_KERNEL_CACHE": "1"}
        _in_process(path, Path(scratch, f"{name}.first"), cache)
        again = _in_process(path, Path(scratch, f"{name}.second"), cache)["cpu"]
    seconds = None
    if build:
        os.environ["INGOT_CACHE_DIR"] = str(Path(scratch, f"{name}.objects"))
        begin = time.perf_counter()
        build_shared(Path(scratch, name), Path(scratch, f"{name}.so"), jobs=os.cpu_count() or 1)
        seconds = time.perf_counter() - begin
    path.unlink()
    return (name, nodes, cold["cpu"], cold["wall"], again, seconds, cold["weights"], cold["peak"],
            cold["peak"] / max(cold["weights"], 1e-3))


def _in_process(path, folder, environment):
    done = subprocess.run([sys.executable, __file__, "--cast", str(path), str(folder)], check=True, text=True,
                          stdout=subprocess.PIPE, env={**os.environ, **environment})
    return json.loads(done.stdout)


def text_of(value):
    """A cell of the table."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else f"{value:.1f}"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", help="of the zoo, or chainN and mixedN; default: all")
    parser.add_argument("--warm", action="store_true", help="also cast again with the kernels on disk")
    parser.add_argument("--no-build", action="store_true", help="leave out the C compiler")
    parser.add_argument("--cast", nargs=2, metavar=("MODEL", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.cast:
        print(json.dumps(cast(*given.cast)))
        return
    table = Table(*COLUMNS, width=100)
    for name in given.models or [*Models().names(), *MADE_UP]:
        with tempfile.TemporaryDirectory() as scratch:
            row = measured(name, not given.no_build, given.warm, scratch)
        table.add_row(*map(text_of, row))
        print(*map(text_of, row), file=sys.stderr)
    Console().print(table)


if __name__ == "__main__":
    main()
