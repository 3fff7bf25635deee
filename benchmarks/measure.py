"""Shared by the benchmarks: models, interleaved timing, errors, a float64 reference, a description of the machine."""
from __future__ import annotations

import importlib.util
import math
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

import ingot
from ingot.codegen.toolchain import ToolchainError, find_compiler
from ingot.ir.relax.evaluate import evaluate
from sides import versions

ROOT = Path(__file__).resolve().parent.parent
ZOO = ROOT.parent / "shared" / "zoo"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
README = ROOT / "README.md"
PERFORMANCE = ROOT / "docs" / "performance.md"  # the tables that the README has no room for

SAMPLE_SECONDS = 0.01    # one sample runs a network at least this long
SETTLE_SECONDS = 0.005   # with threads: the idle time in which workers of the other sides go to sleep
WAKE_SECONDS = 0.03      # after that: of untimed runs, in which workers get cores of their own
LEAST_ROUNDS, MOST_ROUNDS = 11, 200
SIMD_FLAGS = ("avx", "avx2", "fma", "avx512f", "avx512vl", "avx512_vnni", "avx_vnni", "amx_int8", "asimd", "neon")


# ---- models -------------------------------------------------------------------------------------------------------

class Models:
    """Where models come from: a zoo folder with its zoo.py, or else the light networks of the onnx package."""

    def __init__(self, folder=ZOO):
        self.module = None
        if (Path(folder) / "zoo.py").is_file():
            spec = importlib.util.spec_from_file_location("model_zoo", Path(folder) / "zoo.py")
            self.module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(self.module)

    def names(self):
        if self.module:
            return self.module.names()
        return sorted(path.stem for path in LIGHT.glob("light_*.onnx"))

    def load(self, name):
        """The onnx.ModelProto called `name`."""
        return self.module.load(name) if self.module else onnx.load(LIGHT / f"{name}.onnx")

    def inputs(self, model, seed=0):
        """{input name: array} for a model."""
        if self.module:
            return self.module.inputs(model, seed)
        rng, given = np.random.default_rng(seed), {t.name for t in model.graph.initializer}
        return {i.name: rng.random([d.dim_value or 1 for d in i.type.tensor_type.shape.dim], np.float32)
                for i in model.graph.input if i.name not in given}


# ---- time ---------------------------------------------------------------------------------------------------------

def interleaved(actions, seconds, pause=0.0):
    """Time several actions in turns: A B A B ... Returns a list of seconds per run for each.

    A sample is one untimed run, which refills the caches, and then as many timed ones as take SAMPLE_SECONDS. The
    rounds end after about `seconds`, within LEAST_ROUNDS and MOST_ROUNDS. pause: idle seconds before each sample, whose
    untimed runs then take WAKE_SECONDS.
    """
    for action in actions:
        action()  # the first run may build, load and page in
    repeats = [max(1, math.ceil(SAMPLE_SECONDS / max(clocked(action)[0], 1e-7))) for action in actions]
    times = [[] for _ in actions]
    for _ in rounds(seconds, LEAST_ROUNDS, MOST_ROUNDS):
        for action, repeat, samples in zip(actions, repeats, times):
            time.sleep(pause)
            wake(action, WAKE_SECONDS if pause else 0)
            start = time.perf_counter()
            for _ in range(repeat):
                action()
            samples.append((time.perf_counter() - start) / repeat)
    return times


def wake(action, seconds=WAKE_SECONDS):
    """Untimed runs of about so many seconds, one at least: weights come back into the caches, and a worker that woke up
    on its caller's core is moved to one of its own."""
    for _ in rounds(seconds, 1, sys.maxsize):
        action()


def rounds(seconds, least, most):
    """1, 2, 3 ... until so many seconds are over, but at least up to `least` and at most to `most`."""
    end = time.perf_counter() + seconds
    for n in range(1, most + 1):
        if n > least and time.perf_counter() >= end:
            return
        yield n


def clocked(action):
    """(seconds, result) of a call."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def geometric_mean(values):
    """The geometric mean of positive numbers; 1 of none."""
    values = list(values)
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else 1.0


# ---- accuracy -----------------------------------------------------------------------------------------------------

def largest_error(found, expected):
    """The largest |found - expected| over the largest |expected|, worst output; inf where NaN or shapes differ."""
    worst = 0.0
    for f, e in zip(found, expected, strict=True):
        if f.shape != e.shape:
            return math.inf
        difference = np.abs(f.astype(np.float64) - e.astype(np.float64)).max(initial=0.0)
        scale = np.abs(e.astype(np.float64)).max(initial=0.0)
        worst = max(worst, float(difference / scale) if scale else float(difference))
        if np.isnan(difference):
            return math.inf
    return worst


def float64_outputs(model, feeds):
    """The outputs of a model evaluated operator by operator in float64, with numpy, from the imported graph."""
    mod = ingot.from_onnx(in_float64(model))
    names = mod["main"].attrs.get("input_names") or [p.name for p in mod["main"].params]
    arrays = [feeds[name].astype(np.float64) if feeds[name].dtype == np.float32 else feeds[name] for name in names]
    outputs = evaluate(mod, arrays)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def in_float64(model):
    """A copy of an ONNX model with float64 wherever it has float32."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for value in (*wide.graph.input, *wide.graph.output, *wide.graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    attributes = [(node, a) for node in wide.graph.node for a in node.attribute]
    for tensor in (*wide.graph.initializer, *(a.t for _, a in attributes if a.type == onnx.AttributeProto.TENSOR)):
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for node, a in attributes:
        if node.op_type == "Cast" and a.name == "to" and a.i == TensorProto.FLOAT:
            a.i = TensorProto.DOUBLE
    return wide


# ---- text ---------------------------------------------------------------------------------------------------------

def number(value):
    """Three significant digits, and none after the point that mean nothing."""
    return f"{value:.0f}" if value >= 100 else (
        f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}" if value > 0 else "0")


def markdown_table(titles, rows, left=1):
    """Lines of a Markdown table; the first `left` columns are aligned to the left."""
    return ["| " + " | ".join(titles) + " |", "|" + "---|" * left + "---:|" * (len(titles) - left),
            *("| " + " | ".join(row) + " |" for row in rows)]


def replace_between(text, markers, content):
    """`text` with what lies between two marker lines replaced. Raises ValueError where a marker is missing."""
    start, end = (text.find(marker) for marker in markers)
    if start < 0 or end < start:
        raise ValueError(f"no {markers[0]} ... {markers[1]} in the text")
    return f"{text[:start]}{markers[0]}\n{content.strip()}\n{text[end:]}"


def machine(peers):
    """One sentence: processor, its SIMD flags, versions of everything that is measured."""
    name, flags = _processor()
    simd = " ".join(flag for flag in SIMD_FLAGS if flag in flags)
    try:
        compiler = find_compiler("host").version
    except ToolchainError:
        compiler = "no compiler"
    return (f"{name}{f' ({simd})' if simd else ''}, {os.cpu_count()} cores; target {ingot.Target.get('host')}, "
            f"{compiler}; Ingot {ingot.__version__}, {versions(peers)}, Python {platform.python_version()}.")


def _processor():
    """(name, flags) of the first processor in /proc/cpuinfo, as far as it says."""
    facts = {}
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").split("\n\n")[0].splitlines():
            key, _, value = line.partition(":")
            facts[key.strip().lower()] = value.strip()
    except OSError:
        pass
    flags = facts.get("flags") or facts.get("features") or ""
    return facts.get("model name") or platform.processor() or platform.machine(), set(flags.split())
