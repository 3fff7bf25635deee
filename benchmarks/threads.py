"""Measure the gain of a second core: each network on one thread and on two, interleaved, beside FMAs in registers.

    python benchmarks/threads.py                                  every model above 10 ms
    python benchmarks/threads.py --models squeezenet resnet50 --seconds 20
    python benchmarks/threads.py --readme                         also rewrite the table of docs/performance.md

A second core gives its whole speed only while nobody else uses it, nor the core's other thread. So every round also
times a loop of FMAs on one thread and on all, before and after the networks: what they gain is what there is
to gain. A round counts as free where that is FREE of the number of threads both times. Numbers are medians of rounds.
"""
from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import ingot
from ingot.runtime.roofline import multiply_adds
from measure import (PERFORMANCE, ZOO, Models, clocked, geometric_mean, machine, markdown_table, number,
                     replace_between, rounds, wake)
from sides import PEERS, ingot_run, installed

MARKERS = ("<!-- threads -->", "<!-- /threads -->")
OURS = "Ingot"
LONG_MS = 10   # shorter networks, on one thread, are left out unless they are named
FREE = 0.95
LEAST_ROUNDS, MOST_ROUNDS = 5, 1000


@dataclass
class Row:
    """times: {side: [(seconds on one thread, on several), ...]} of the rounds; bounds: [(gain of FMAs before
    the round, after it), ...]."""

    model: str
    threads: int
    times: dict = field(default_factory=dict)
    bounds: list = field(default_factory=list)

    def free(self):
        """The rounds in which the other cores were there."""
        return [k for k, gains in enumerate(self.bounds) if min(gains) >= FREE * self.threads]

    def gain(self, side, chosen=None):
        """How many times faster several threads are, of all rounds or the chosen ones; None without any."""
        pairs = self.times.get(side, ())
        gains = [one / several for k, (one, several) in enumerate(pairs) if chosen is None or k in chosen]
        return statistics.median(gains) if gains else None

    @property
    def bound(self):
        """The gain of FMAs."""
        return statistics.median(statistics.mean(gains) for gains in self.bounds)


def measure(name, model, feeds, threads, seconds, peers, least_ms):
    """The Row of a model, None where it takes less than least_ms. OMP_NUM_THREADS holds `threads`."""
    with ExitStack() as stack:
        kinds = ("none", "openmp")
        loops = [stack.enter_context(multiply_adds(threads=kind)) for kind in kinds]
        runs = {OURS: [ingot_run(ingot.compile(model, threads=kind, name=name), feeds) for kind in kinds]}
        if 1e3 * min(clocked(runs[OURS][0].call)[0] for _ in range(3)) < least_ms:
            return None
        for peer in peers:
            try:
                runs[peer] = [PEERS[peer](model, feeds, count) for count in (1, threads)]
            except Exception as error:  # whatever a peer raises, that model fails there, and only there
                print(f"{name}: {peer} fails: {error}".splitlines()[0], file=sys.stderr)
        for pair in runs.values():
            for run in pair:
                stack.callback(run.close)
        row = Row(name, threads, {side: [] for side in runs})
        for _ in rounds(seconds, LEAST_ROUNDS, MOST_ROUNDS):
            before = _gain(loops)
            for side, pair in runs.items():
                row.times[side].append(tuple(_timed(run) for run in pair))
            row.bounds.append((before, _gain(loops)))
    return row


def _gain(loops):
    one, several = (work / seconds for seconds, work in map(clocked, loops))
    return several / one


def _timed(run):
    """Seconds of a call after those that bring its weights and threads back."""
    wake(run.call)
    return clocked(run.call)[0]


def table(rows):
    """Markdown lines: gains of all rounds, and of the free ones."""
    sides = [OURS, *(side for side in PEERS if any(side in r.times for r in rows))]
    titles = ["model", "FMAs", *sides, f"{OURS}'s part", "free rounds", *(f"{side}, free" for side in sides)]
    lines = []
    for r in rows:
        free = r.free()
        lines.append([r.model, f"{r.bound:.2f}", *(_text(r.gain(side)) for side in sides),
                      f"{r.gain(OURS) / r.bound:.0%}", f"{len(free)} of {len(r.bounds)}",
                      *(_text(r.gain(side, free)) for side in sides)])
    return markdown_table(titles, lines)


def _text(gain):
    return "" if gain is None else f"{gain:.2f}"


def summary(rows):
    """Geometric means over the models."""
    free = [g for r in rows if (g := r.gain(OURS, r.free())) is not None]
    said = f"{rows[0].threads} threads, geometric means over {len(rows)} models: {_mean(rows, OURS)}"
    others = [side for side in PEERS if any(side in r.times for r in rows)]
    said = ", ".join([said, *(_mean(rows, side) for side in others)])
    said += f"; FMAs in registers {geometric_mean(r.bound for r in rows):.2f}"
    return said + (f"; {OURS} in free rounds {geometric_mean(free):.2f} ({len(free)} models)." if free else ".")


def _mean(rows, side):
    return f"{side} {geometric_mean(g for r in rows if (g := r.gain(side)) is not None):.2f}"


def build_parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", metavar="NAME", help=f"default: every model above {LONG_MS} ms")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S",
                        help="how long to measure each model (default: %(default)g)")
    parser.add_argument("--peers", nargs="*", choices=tuple(PEERS), default=list(PEERS), metavar="PEER",
                        help="onnxruntime, OpenVINO (default: both)")
    parser.add_argument("--zoo", type=Path, default=ZOO, metavar="DIR",
                        help="the folder with zoo.py; without one the light networks of the onnx package are taken")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table to a file")
    parser.add_argument("--readme", action="store_true", help=f"rewrite the table in docs/{PERFORMANCE.name}")
    return parser


def main(argv=None):
    """Measure, print, write; returns the exit status."""
    parser = build_parser()
    args = parser.parse_args(argv)
    models = Models(args.zoo)
    unknown = sorted(set(args.models or ()) - set(models.names()))
    if unknown:
        parser.error(f"no model {', '.join(unknown)}; known: {', '.join(models.names())}")
    if args.threads < 2:
        parser.error(f"--threads {args.threads}: 2 or more are compared with one")
    if os.environ.get("OMP_NUM_THREADS") != str(args.threads):  # libgomp reads it once, when it is loaded
        command = [sys.executable, str(Path(__file__).resolve()), *(sys.argv[1:] if argv is None else argv)]
        return subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": str(args.threads)}).returncode
    peers, rows = installed(args.peers), []
    for name in args.models or models.names():
        model = models.load(name)
        row = measure(name, model, models.inputs(model), args.threads, args.seconds, peers,
                      0 if args.models else LONG_MS)
        if row:
            rows.append(row)
            one, several = (number(1e3 * statistics.median(t)) for t in zip(*row.times[OURS]))
            print(f"{name}: {one} -> {several} ms, {row.gain(OURS):.2f} x, FMAs {row.bound:.2f} x",
                  file=sys.stderr, flush=True)
    if not rows:
        print(f"no model takes {LONG_MS} ms", file=sys.stderr)
        return 0
    text = "\n".join([machine(peers), "", summary(rows), "", *table(rows)]) + "\n"
    print(text)
    if args.markdown:
        args.markdown.write_text(text)
    if args.readme:
        PERFORMANCE.write_text(replace_between(PERFORMANCE.read_text(), MARKERS, text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
