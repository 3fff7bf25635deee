"""Ingot, onnxruntime and OpenVINO on the model zoo: the same models, inputs and process, in turns.

    python benchmarks/zoo.py                                    every model, one thread
    python benchmarks/zoo.py --models squeezenet resnet50 --threads 1 2
    python benchmarks/zoo.py --threads 1 2 --readme             also rewrite the table of README.md, those of
                                                                 docs/performance.md, and the chart

What is measured, and how, is in benchmarks/README.md. A peer that is not installed is left out, and named.
"""
from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import ingot
import measure
from chart import bar_chart
from measure import (PERFORMANCE, README, ZOO, Models, clocked, float64_outputs, geometric_mean, interleaved,
                     largest_error, machine, markdown_table, number, replace_between)
from sides import PACKAGES, PEERS, ingot_run, installed

MARKERS = ("<!-- benchmark -->", "<!-- /benchmark -->")
CHART = Path(__file__).resolve().parent / "zoo.svg"
LEGEND = """Times are medians of a call with inputs and outputs bound. `x` columns are a peer's time over Ingot's: above
1, Ingot is faster. `x relaxed` is its time over that of `accuracy="relaxed"`. Errors are the largest difference, to a
peer and to an evaluation in float64 (beside that of the first peer), relative to the output's largest value. The last
column is the planned arena over the largest sum of tensors that live at once; more than 1 where several threads keep to
memory of their own."""
# What the README has of it: these columns of the first table.
MAIN_LEGEND = """Times are medians of a call with inputs and outputs bound, all sides in turns in one process. `x`
columns are a peer's time over Ingot's: above 1, Ingot is faster. The last column is the largest difference to an
evaluation in float64, relative to the output's largest value."""
MAIN = ("model", "error to float64")  # beside times and ratios
NAIVE_FLOPS = 2e9        # above that --naive leaves a model out: it would take seconds per run
OURS = "Ingot"


# ---- one measurement ----------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Row:
    """The measurements of one model.

    ms: {side: median milliseconds of a run, None where it cannot load the model}, Ingot's first. error: the largest
    difference between Ingot's outputs and the first peer's over the output's largest magnitude; exact_errors: the same
    of each side against a float64 evaluation, empty without one. notes: {side: why it failed}. relaxed_ms: of the
    network with accuracy="relaxed", in the same iterations.
    """

    model: str
    threads: int
    ms: dict
    naive_ms: float | None
    cast_s: float
    build_s: float
    error: float | None
    exact_errors: dict
    arena: int
    lower_bound: int
    notes: dict
    relaxed_ms: float | None = None

    def ratio(self, peer):
        """How many times faster than a peer Ingot is; None where that one failed."""
        return self.ms[peer] / self.ms[OURS] if self.ms.get(peer) else None

    @property
    def better_ratio(self):
        """How many times faster than the better peer; None without a peer."""
        return min((r for peer in self.ms if peer != OURS and (r := self.ratio(peer)) is not None), default=None)

    @property
    def arena_ratio(self):
        return self.arena / self.lower_bound if self.lower_bound else 1.0


def measure_model(name, model, feeds, threads, seconds, peers, naive=False, reference=None, accuracy=None,
                  relaxed=False):
    """The Row of one model: cast, build, check and time it. With several threads OMP_NUM_THREADS must hold their number
    since before this process began. naive: also time the plain loop nests of opt_level 0, if they are not too slow.
    reference: the outputs of a float64 evaluation. accuracy: of ingot.compile; relaxed: also time that."""
    kind = "none" if threads == 1 else "openmp"
    with ExitStack() as stack:
        cast_s, library = clocked(lambda: ingot.compile(model, threads=kind, name=name, accuracy=accuracy))
        build_s, _ = clocked(stack.enter_context(library).build)
        runs, notes = _runs(library, model, feeds, threads, peers)
        for run in runs.values():
            stack.callback(run.close)
            run.call()
        outputs = {side: [np.array(o) for o in run.outputs()] for side, run in runs.items()}
        memory = ingot.memory_report(library)
        actions = {side: run.call for side, run in runs.items()}
        if naive and threads == 1 and 0 < library.flops <= NAIVE_FLOPS:
            plain = stack.enter_context(ingot.compile(model, threads=kind, opt_level=0, name=name))
            actions["naive"] = ingot_run(plain, feeds).call
        if relaxed:
            other = stack.enter_context(ingot.compile(model, threads=kind, name=name, accuracy="relaxed"))
            actions["relaxed"] = ingot_run(other, feeds).call
        times = interleaved(list(actions.values()), seconds, measure.SETTLE_SECONDS if threads > 1 else 0.0)
    ms = {side: 1e3 * statistics.median(t) for side, t in zip(actions, times)}
    naive_ms, relaxed_ms = ms.pop("naive", None), ms.pop("relaxed", None)
    peer = next((side for side in runs if side != OURS), None)
    exact = {side: largest_error(found, reference) for side, found in outputs.items()} if reference else {}
    return Row(name, threads, {side: ms.get(side) for side in (OURS, *peers)}, naive_ms, cast_s, build_s,
               largest_error(outputs[OURS], outputs[peer]) if peer else None, exact, memory.total, memory.lower_bound,
               notes, relaxed_ms)


def _runs(library, model, feeds, threads, peers):
    """({side: Run} of those that can load the model, {side: why it cannot})."""
    runs, notes = {OURS: ingot_run(library, feeds)}, {}
    for peer in peers:
        try:
            runs[peer] = PEERS[peer](model, feeds, threads)
        except Exception as error:  # whatever a peer raises, that model fails there, and only there
            notes[peer] = _first_line(error)
    return runs, notes


def _first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


# ---- all measurements ---------------------------------------------------------------------------------------------

def run_models(args, threads, report, references):
    """Measure args.models in a process of their own, since libgomp reads OMP_NUM_THREADS once, when it is loaded.

    report(name, Row or None, message) is called after each model. references: a folder that keeps float64 outputs, or
    None. Returns the rows.
    """
    command = [sys.executable, str(Path(__file__).resolve()), "--worker", str(threads), "--zoo", str(args.zoo),
               "--seconds", str(args.seconds), *(["--naive"] if args.naive else []),
               *(["--relaxed"] if args.relaxed else []), *(["--accuracy", args.accuracy] if args.accuracy else []),
               *(["--references", str(references)] if references else []),
               "--peers", *args.peers, "--models", *args.models]
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
            feeds = models.inputs(model)
            reference = _reference(args.references, name, model, feeds) if args.references else None
            row = asdict(measure_model(name, model, feeds, args.worker, args.seconds, args.peers, args.naive,
                                       reference, args.accuracy, args.relaxed))
        except Exception as error:  # one model that fails must not hide the others; the parent reports it
            message = _first_line(error)
        print(json.dumps({"model": name, "row": row, "message": message}), flush=True)
        gc.collect()  # weights of hundreds of megabytes, before the next model's


def _reference(folder, name, model, feeds):
    """The float64 outputs of a model, kept in `folder` for the next number of threads."""
    path = Path(folder, f"{name}.npz")
    if not path.exists():
        np.savez(path, *float64_outputs(model, feeds))
    with np.load(path) as kept:
        return list(kept.values())


# ---- tables -------------------------------------------------------------------------------------------------------

def columns(rows):
    """[(title, Row -> text)] of the table of rows that have the same sides."""
    peers = [side for side in rows[0].ms if side != OURS]
    return [
        ("model", lambda r: r.model),
        *((f"{side} ms", lambda r, s=side: "fails" if r.ms[s] is None else number(r.ms[s])) for side in rows[0].ms),
        *((f"x {peer}", lambda r, p=peer: _ratio(r.ratio(p))) for peer in peers),
        *([("x better", lambda r: _ratio(r.better_ratio))] if len(peers) > 1 else []),
        *([("naive C ms", lambda r: "" if r.naive_ms is None else number(r.naive_ms))]
          if any(r.naive_ms is not None for r in rows) else []),
        *([("relaxed ms", lambda r: "" if r.relaxed_ms is None else number(r.relaxed_ms)),
           ("x relaxed", lambda r: "" if r.relaxed_ms is None else f"{r.ms[OURS] / r.relaxed_ms:.2f}")]
          if any(r.relaxed_ms is not None for r in rows) else []),
        *([(f"error to {peers[0]}", lambda r: _error(r.error))] if peers else []),
        *([("error to float64", lambda r: _error(r.exact_errors.get(OURS))),
           *(("peer to float64", lambda r, p=peer: _error(r.exact_errors.get(p))) for peer in peers[:1])]
          if any(r.exact_errors for r in rows) else []),
        ("cast s", lambda r: f"{r.cast_s:.1f}"),
        ("build s", lambda r: f"{r.build_s:.1f}"),
        ("arena MB", lambda r: f"{r.arena / 1e6:.2f}"),
        ("arena / bound", lambda r: f"{r.arena_ratio:.2f}"),
    ]


# What a terminal's table leaves out.
WIDE = ("peer to float64", "relaxed ms", "cast s", "build s", "arena MB", "arena / bound")


def _ratio(value):
    return "" if value is None else f"{value:.2f}"


def _error(value):
    return "" if value is None else f"{value:.0e}"


def markdown(rows, facts, missing=()):
    """The measured tables as Markdown, one per number of threads, each with its geometric means."""
    parts = [facts + "".join(f" {_not_installed(peer)}" for peer in missing)]
    for threads in sorted({r.threads for r in rows}):
        part = [r for r in rows if r.threads == threads]
        shown = columns(part)
        lines = markdown_table([title for title, _ in shown], [[text(r) for _, text in shown] for r in part])
        parts += [f"{_threads(threads)}, {summary(part)}:", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def main_markdown(rows, facts, missing=()):
    """The README's part of it: the table of the smallest number of threads without what few read, and the summaries of
    the others."""
    first, *others = sorted({r.threads for r in rows})
    part = [r for r in rows if r.threads == first]
    kept = {*MAIN, "x better", *(f"{side} ms" for side in part[0].ms), *(f"x {side}" for side in part[0].ms)}
    shown = [(title, text) for title, text in columns(part) if title in kept]
    lines = markdown_table([title for title, _ in shown], [[text(r) for _, text in shown] for r in part])
    more = [f"{_threads(n)}, {summary([r for r in rows if r.threads == n])}." for n in others]
    facts += "".join(f" {_not_installed(peer)}" for peer in missing)
    return "\n\n".join([MAIN_LEGEND, facts, f"{_threads(first)}, {summary(part)}:", "\n".join(lines), *more])


def rich_table(rows):
    """The rows of one number of threads as a table for a terminal."""
    table = Table(box=box.SIMPLE_HEAD, title=_threads(rows[0].threads), title_justify="left", padding=0,
                  caption=summary(rows), caption_justify="left")
    hidden = (*WIDE, *([f"error to {peer}" for peer in PEERS] if any(r.exact_errors for r in rows) else []))
    shown = [(title, text) for title, text in columns(rows) if title not in hidden]
    for title, _ in shown:  # one word per line, so that it fits 80 columns
        lines = title.replace("onnxruntime", "onnx- runtime").replace("OpenVINO", "Open- VINO").split()
        table.add_column("\n".join(lines), justify="left" if title == "model" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(text(row) for _, text in shown))
    return table


def summary(rows):
    """'geometric means over 19 models: 1.50 x onnxruntime, 1.30 x the better peer'; least ratio and its model."""
    peers = [side for side in rows[0].ms if side != OURS]
    means = [f"{geometric_mean(ratios):.2f} x {peer}{_of(ratios, rows)}" for peer in peers
             if (ratios := [x for r in rows if (x := r.ratio(peer)) is not None])]
    better = {r.model: x for r in rows if (x := r.better_ratio) is not None}
    if not better:
        return f"{len(rows)} models, no peer"
    if len(peers) > 1:
        means.append(f"{geometric_mean(better.values()):.2f} x the better of them")
    least = min(better, key=better.get)
    return (f"geometric mean of the speed over {len(rows)} models: {', '.join(means)}; "
            f"least {better[least]:.2f} ({least})")


def _of(ratios, rows):
    return "" if len(ratios) == len(rows) else f" ({len(ratios)} models)"


def chart(rows):
    """The SVG of the rows of the smallest number of threads: each side's speed in terms of the first peer's."""
    part = [r for r in rows if r.threads == rows[0].threads]
    base = next((side for side in part[0].ms if side != OURS), OURS)
    groups = [(r.model, {side: r.ms[base] / ms if ms and r.ms[base] else None for side, ms in r.ms.items()})
              for r in part]
    return bar_chart(groups, f"Speed on {_threads(part[0].threads).lower()}, {base} = 1 (longer is faster)")


def _not_installed(peer):
    return f"{peer} is not installed (pip install {PACKAGES[peer]}), so it is left out."


def _threads(count):
    return "One thread" if count == 1 else f"{count} threads"


# ---- the entry ----------------------------------------------------------------------------------------------------

def build_parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", metavar="NAME", help="default: every model there is")
    parser.add_argument("--threads", nargs="+", type=_count, default=[1], metavar="N", help="default: 1")
    parser.add_argument("--seconds", type=float, default=4.0, metavar="S",
                        help="how long to measure each model (default: %(default)g)")
    parser.add_argument("--peers", nargs="*", choices=tuple(PEERS), default=list(PEERS), metavar="PEER",
                        help="onnxruntime, OpenVINO (default: both)")
    parser.add_argument("--naive", action="store_true", help="also time plain loop nests (opt_level 0) of small models")
    parser.add_argument("--accuracy", choices=("float32", "strict", "relaxed"), help="of Ingot (default: float32)")
    parser.add_argument("--relaxed", action="store_true", help="also time accuracy=\"relaxed\", in the same turns")
    parser.add_argument("--no-reference", action="store_true", help="no float64 evaluation, which takes minutes")
    parser.add_argument("--zoo", type=Path, default=ZOO, metavar="DIR",
                        help="the folder with zoo.py; without one the light networks of the onnx package are taken")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables as Markdown")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the chart")
    parser.add_argument("--readme", action="store_true",
                        help=f"rewrite the tables in {README.name} and docs/{PERFORMANCE.name}, and {CHART.name}")
    parser.add_argument("--list", action="store_true", help="print the names of the models and exit")
    parser.add_argument("--worker", type=_count, help=argparse.SUPPRESS)  # this is the measuring process
    parser.add_argument("--references", type=Path, help=argparse.SUPPRESS)
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
    return compare(args)


def compare(args):
    console, progress = Console(highlight=False), Console(stderr=True, highlight=False)
    missing = [peer for peer in args.peers if peer not in installed()]
    args.peers = [peer for peer in args.peers if peer not in missing]
    facts, rows, failures = machine(args.peers), [], []

    def report(name, row, message):
        if row is None:
            failures.append(name)
        said = ", ".join(f"{side} {number(ms)} ms" if ms else f"{side} fails ({row.notes[side]})"
                         for side, ms in row.ms.items()) if row else f"failed: {message}"
        progress.print(f"{name}: {said}", markup=False, soft_wrap=True)

    with tempfile.TemporaryDirectory(prefix="ingot-bench-") as references:
        for threads in args.threads:
            with progress.status(f"measuring {len(args.models)} models, {_threads(threads).lower()}"):
                rows += run_models(args, threads, report, None if args.no_reference else references)
    console.print(facts, *map(_not_installed, missing), sep="\n", markup=False)
    for threads in args.threads:
        part = [r for r in rows if r.threads == threads]
        if part:
            console.print(rich_table(part))
    if rows:
        _write(args, rows, facts, missing)
    return 1 if failures else 0


def _write(args, rows, facts, missing=()):
    text = markdown(rows, facts, missing)
    if args.markdown:
        args.markdown.write_text(text)
    if args.svg:
        args.svg.write_text(chart(rows))
    if args.readme:
        CHART.write_text(chart(rows))
        README.write_text(replace_between(README.read_text(), MARKERS, main_markdown(rows, facts, missing)))
        image = f"![speed of each side on each model]({os.path.relpath(CHART, PERFORMANCE.parent)})"
        PERFORMANCE.write_text(replace_between(PERFORMANCE.read_text(), MARKERS, "\n\n".join((LEGEND, image, text))))


if __name__ == "__main__":
    sys.exit(main())
