"""Ingot against onnxruntime on the model zoo: the same models, inputs and process, in turns.

    python benchmarks/zoo.py                                    every model, one thread
    python benchmarks/zoo.py --models squeezenet resnet50 --threads 1 2
    python benchmarks/zoo.py --readme                           also rewrite the table in README.md

What is measured, and how, is in benchmarks/README.md.
"""
from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
from rich import box
from rich.console import Console
from rich.table import Table

import ingot
from ingot.codegen.toolchain import ToolchainError, find_compiler

ROOT = Path(__file__).resolve().parent.parent
ZOO = ROOT.parent / "shared" / "zoo"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
README = ROOT / "README.md"
MARKERS = ("<!-- benchmark -->", "<!-- /benchmark -->")

SAMPLE_SECONDS = 0.01    # one sample runs a network at least this long
SETTLE_SECONDS = 0.005   # with threads: the idle time in which workers of the other side go to sleep
LEAST_ROUNDS, MOST_ROUNDS = 5, 100
NAIVE_FLOPS = 2e9        # above that --naive leaves a model out: it would take seconds per run
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

    def inputs(self, model):
        """{input name: array} for a model."""
        if self.module:
            return self.module.inputs(model)
        rng, given = np.random.default_rng(0), {t.name for t in model.graph.initializer}
        return {i.name: rng.random([d.dim_value or 1 for d in i.type.tensor_type.shape.dim], np.float32)
                for i in model.graph.input if i.name not in given}


# ---- one measurement ----------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Row:
    """What was measured of one model. Milliseconds are medians of a run; error is the largest difference between the
    two sides' outputs over the output's largest magnitude."""

    model: str
    threads: int
    ingot_ms: float
    peer_ms: float
    naive_ms: float | None
    cast_s: float
    build_s: float
    error: float
    arena: int
    lower_bound: int

    @property
    def ratio(self):
        """How many times faster than onnxruntime Ingot is."""
        return self.peer_ms / self.ingot_ms

    @property
    def arena_ratio(self):
        return self.arena / self.lower_bound if self.lower_bound else 1.0


def measure(name, model, feeds, threads, seconds, naive=False):
    """The Row of one model: cast, build, check and time it. With several threads OMP_NUM_THREADS must hold their number
    since before this process began. naive: also time the plain loop nests of opt_level 0, if they are not too slow."""
    kind = "none" if threads == 1 else "openmp"
    with ExitStack() as stack:
        cast_s, library = _clocked(lambda: ingot.compile(model, threads=kind, name=name))
        build_s, _ = _clocked(stack.enter_context(library).build)
        session = _session(model, threads)
        arrays = [feeds[desc.source_name] for desc in library.inputs]
        expected = session.run([desc.source_name for desc in library.outputs], feeds)
        found = library(*arrays)
        error = largest_error(found if isinstance(found, tuple) else (found,), expected)
        memory = ingot.memory_report(library)
        actions = [lambda: library(*arrays), lambda: session.run(None, feeds)]
        if naive and threads == 1 and 0 < library.flops <= NAIVE_FLOPS:
            plain = stack.enter_context(ingot.compile(model, threads=kind, opt_level=0, name=name))
            actions.append(lambda: plain(*arrays))
        times = interleaved(actions, seconds, SETTLE_SECONDS if threads > 1 else 0.0)
    ingot_ms, peer_ms, *naive_ms = (1e3 * statistics.median(t) for t in times)
    return Row(name, threads, ingot_ms, peer_ms, naive_ms[0] if naive_ms else None, cast_s, build_s, error,
               memory.total, memory.lower_bound)


def interleaved(actions, seconds, pause=0.0):
    """Time several actions in turns: A B A B ... Returns a list of seconds per run for each.

    A sample is one untimed run, which refills the caches, and then as many timed ones as take SAMPLE_SECONDS. The
    rounds end after about `seconds`, within LEAST_ROUNDS and MOST_ROUNDS. pause: idle seconds before each sample.
    """
    for action in actions:
        action()  # the first run may build, load and page in
    repeats = [max(1, math.ceil(SAMPLE_SECONDS / max(_clocked(action)[0], 1e-7))) for action in actions]
    times = [[] for _ in actions]
    end = time.perf_counter() + seconds
    while len(times[0]) < LEAST_ROUNDS or (len(times[0]) < MOST_ROUNDS and time.perf_counter() < end):
        for action, repeat, samples in zip(actions, repeats, times):
            time.sleep(pause)
            action()
            start = time.perf_counter()
            for _ in range(repeat):
                action()
            samples.append((time.perf_counter() - start) / repeat)
    return times


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


def _session(model, threads):
    """An onnxruntime session on the CPU with that many threads."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    # Its workers may spin while it runs, but not while Ingot does.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _clocked(action):
    """(seconds, result) of a call."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


# ---- all measurements ---------------------------------------------------------------------------------------------

def run_models(args, threads, names, report):
    """Measure `names` in a process of their own, since libgomp reads OMP_NUM_THREADS once, when it is loaded.

    report(name, Row or None, message) is called after each model. Returns the rows.
    """
    command = [sys.executable, str(Path(__file__).resolve()), "--worker", str(threads), "--zoo", str(args.zoo),
               "--seconds", str(args.seconds), *(["--naive"] if args.naive else []), "--models", *names]
    rows = []
    with tempfile.TemporaryDirectory(prefix="ingot-bench-") as cache:  # its own cache: every build is a whole one
        env = {**os.environ, "OMP_NUM_THREADS": str(threads), "INGOT_CACHE_DIR": cache}
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as worker:
            for line in worker.stdout:
                answer = json.loads(line)
                row = Row(**answer["row"]) if answer["row"] else None
                rows += [row] if row else []
                report(answer["model"], row, answer["message"])
        if worker.returncode:
            raise SystemExit(f"the measuring process ended with exit status {worker.returncode}")
    return rows


def work(args):
    """The measuring process: one line of JSON per model on stdout."""
    models = Models(args.zoo)
    for name in args.models:
        row, message = None, ""
        try:
            model = models.load(name)
            row = asdict(measure(name, model, models.inputs(model), args.worker, args.seconds, args.naive))
        except Exception as error:  # one model that fails must not hide the others; the parent reports it
            message = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
        print(json.dumps({"model": name, "row": row, "message": message}), flush=True)
        gc.collect()  # weights of hundreds of megabytes, before the next model's


# ---- tables -------------------------------------------------------------------------------------------------------

def geometric_mean(values):
    """The geometric mean of positive numbers; 1 of none."""
    values = list(values)
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else 1.0


def columns(naive):
    """[(title, Row -> text)] of the table."""
    rows = [
        ("model", lambda r: r.model),
        ("Ingot ms", lambda r: _number(r.ingot_ms)),
        ("onnxruntime ms", lambda r: _number(r.peer_ms)),
        ("ratio", lambda r: f"{r.ratio:.2f}"),
        ("naive C ms", lambda r: "" if r.naive_ms is None else _number(r.naive_ms)),
        ("cast s", lambda r: f"{r.cast_s:.1f}"),
        ("build s", lambda r: f"{r.build_s:.1f}"),
        ("error", lambda r: f"{r.error:.0e}"),
        ("arena MB", lambda r: f"{r.arena / 1e6:.2f}"),
        ("arena / bound", lambda r: f"{r.arena_ratio:.2f}"),
    ]
    return rows if naive else [(title, text) for title, text in rows if title != "naive C ms"]


def markdown(rows, facts):
    """The measured tables as Markdown, one per number of threads, each with its geometric mean."""
    parts = [facts]
    for threads in sorted({r.threads for r in rows}):
        part = [r for r in rows if r.threads == threads]
        table = columns(any(r.naive_ms is not None for r in part))
        lines = ["| " + " | ".join(title for title, _ in table) + " |",
                 "|---|" + "---:|" * (len(table) - 1),
                 *("| " + " | ".join(text(r) for _, text in table) + " |" for r in part)]
        parts.append(f"{_threads(threads)}, {_summary(part)}:")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def rich_table(rows, naive):
    """The rows as a table for a terminal."""
    table = Table(box=box.SIMPLE_HEAD, title=_threads(rows[0].threads), title_justify="left", caption=_summary(rows),
                  caption_justify="left", padding=0)
    shown = columns(naive)
    for title, _ in shown:
        lines = title.replace("onnxruntime", "onnx- runtime").split()  # one word per line, so that it fits 80 columns
        table.add_column("\n".join(lines), justify="left" if title == "model" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(text(row) for _, text in shown))
    return table


def replace_between(text, markers, content):
    """`text` with what lies between two marker lines replaced. Raises ValueError where a marker is missing."""
    start, end = (text.find(marker) for marker in markers)
    if start < 0 or end < start:
        raise ValueError(f"no {markers[0]} ... {markers[1]} in the text")
    return f"{text[:start]}{markers[0]}\n{content.strip()}\n{text[end:]}"


def machine():
    """One sentence: processor, its SIMD flags, versions of everything that was measured."""
    name, flags = _processor()
    simd = " ".join(flag for flag in SIMD_FLAGS if flag in flags)
    try:
        compiler = find_compiler("host").version
    except ToolchainError:
        compiler = "no compiler"
    versions = ", ".join(f"{package} {version(package)}" for package in ("onnxruntime", "onnx", "numpy"))
    return (f"{name}{f' ({simd})' if simd else ''}, {os.cpu_count()} cores; target {ingot.Target.get('host')}, "
            f"{compiler}; Ingot {ingot.__version__}, {versions}, Python {platform.python_version()}.")


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


def _number(ms):
    """Milliseconds with three significant digits, and none after the point that mean nothing."""
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.{max(0, 2 - math.floor(math.log10(ms)))}f}" if ms > 0 else "0"


def _threads(count):
    return "One thread" if count == 1 else f"{count} threads"


def _summary(rows):
    return f"geometric mean of the ratio over {len(rows)} models: {geometric_mean(r.ratio for r in rows):.2f}"


# ---- the entry ----------------------------------------------------------------------------------------------------

def build_parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", metavar="NAME", help="default: every model there is")
    parser.add_argument("--threads", nargs="+", type=_count, default=[1], metavar="N", help="default: 1")
    parser.add_argument("--seconds", type=float, default=4.0, metavar="S",
                        help="how long to measure each model (default: %(default)g)")
    parser.add_argument("--naive", action="store_true", help="also time plain loop nests (opt_level 0) of small models")
    parser.add_argument("--zoo", type=Path, default=ZOO, metavar="DIR",
                        help="the folder with zoo.py; without one the light networks of the onnx package are taken")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables as Markdown")
    parser.add_argument("--readme", action="store_true", help=f"rewrite the tables in {README.name}")
    parser.add_argument("--list", action="store_true", help="print the names of the models and exit")
    parser.add_argument("--worker", type=_count, help=argparse.SUPPRESS)  # this is the measuring process
    return parser


def _count(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of threads, not {text!r}")
    return int(text)


def main(argv=None):
    """Measure, print, write; returns the exit status: 0, or 1 when a model failed."""
    parser = build_parser()
    args = parser.parse_args(argv)
    known = Models(args.zoo).names()
    unknown = sorted(set(args.models or ()) - set(known))
    if unknown:
        parser.error(f"no model {', '.join(unknown)}; known: {', '.join(known)}")
    args.models = args.models or known
    if args.list:
        print("\n".join(known))
        return 0
    if args.worker:
        work(args)
        return 0
    if importlib.util.find_spec("onnxruntime") is None:
        print("skipped: onnxruntime is not installed, so there is nothing to compare with (pip install onnxruntime)")
        return 0
    return compare(args)


def compare(args):
    console, progress = Console(highlight=False), Console(stderr=True, highlight=False)
    facts, rows, failures = machine(), [], []

    def report(name, row, message):
        if row is None:
            failures.append(name)
        progress.print(f"{name}: " + (f"{_number(row.ingot_ms)} ms, onnxruntime {_number(row.peer_ms)} ms"
                                      if row else f"failed: {message}"), markup=False, soft_wrap=True)

    for threads in args.threads:
        with progress.status(f"measuring {len(args.models)} models, {_threads(threads).lower()}"):
            rows += run_models(args, threads, args.models, report)
    console.print(facts, markup=False)
    for threads in args.threads:
        part = [r for r in rows if r.threads == threads]
        if part:
            console.print(rich_table(part, args.naive))
    if args.markdown:
        args.markdown.write_text(markdown(rows, facts))
    if args.readme:
        README.write_text(replace_between(README.read_text(), MARKERS, markdown(rows, facts)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
