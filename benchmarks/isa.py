"""Compare networks built with 256-bit and 512-bit vectors on this machine, each against its own peak.

    python benchmarks/isa.py                                 some networks, one thread
    python benchmarks/isa.py --models resnet50 --seconds 10
    python benchmarks/isa.py --profile resnet50              kernel by kernel, those that lose most first

"of its share": the time with the wider vectors over that with the narrower ones, times the ratio of their FMA
peaks. 1 where both come equally near to their peaks; above it, narrow vectors come nearer.
"""
from __future__ import annotations

import argparse
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path

from measure import ZOO, Models, geometric_mean, interleaved, machine, markdown_table, number
from sides import ingot_run

from ingot.codegen.toolchains import is_supported_here
import ingot
from ingot.runtime.roofline import measure_roofline

MODELS = ("squeezenet", "resnet50", "mobilenet_v2", "bert_base", "tiny_resnet8", "tiny_dscnn", "tiny_vww",
          "tiny_autoencoder")
TARGETS = ("x86-64-v3", "x86-64-v4")
PROFILED = 15  # kernels
NODES_WIDTH = 60


def measure(model, feeds, name, seconds):
    """Seconds of the network with each target, in turns: the least, as both run the same work."""
    with ExitStack() as stack:
        libraries = [stack.enter_context(ingot.compile(model, target=t, threads="none", name=name)) for t in TARGETS]
        return [min(times) for times in interleaved([ingot_run(lib, feeds).call for lib in libraries], seconds)]


def profiles(model, feeds, name, seconds):
    """[(nodes, seconds with each target)] of the kernels that both have, in turns."""
    with ExitStack() as stack:
        libraries = [stack.enter_context(ingot.compile(model, target=t, threads="none", name=name)) for t in TARGETS]
        profilers = [stack.enter_context(lib.profiler(*(feeds[d.source_name] for d in lib.inputs)))
                     for lib in libraries]
        samples = [[] for _ in TARGETS]
        for _ in range(max(5, int(seconds * 10))):
            for profiler, own in zip(profilers, samples):
                own.append(profiler.sample())
    found = [{}, {}]
    for lib, own, times in zip(libraries, samples, found):
        for call, values in zip(lib.model.program.calls, zip(*own)):
            times[call.comment] = times.get(call.comment, 0.0) + statistics.median(values)
    return [(nodes, found[0][nodes], found[1][nodes]) for nodes in found[0] if nodes in found[1]]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="NAME")
    parser.add_argument("--profile", metavar="NAME", help="kernel by kernel, of one network")
    parser.add_argument("--seconds", type=float, default=4, metavar="S", help="for each network (default: %(default)g)")
    parser.add_argument("--zoo", type=Path, default=ZOO, metavar="DIR", help="as in zoo.py")
    args = parser.parse_args(argv)
    if not all(is_supported_here(ingot.Target.get(t)) for t in TARGETS):
        parser.error(f"this machine does not run {' and '.join(TARGETS)}")
    models, peaks = Models(args.zoo), [measure_roofline(t).peak for t in TARGETS]
    worth = peaks[1] / peaks[0]

    def share(narrow, wide):
        return wide / narrow * worth

    print(machine([]), "Multiply-add peaks:", ", ".join(f"{t} {p / 1e9:.0f} GFLOP/s" for t, p in zip(TARGETS, peaks)),
          end=".\n\n")
    titles, rows, shares = ["", *(f"{t} ms" for t in TARGETS), "of its share"], [], []
    if args.profile:
        model = models.load(args.profile)
        found = profiles(model, models.inputs(model), args.profile, args.seconds)
        found.sort(key=lambda row: row[2] * worth - row[1])
        rows = [[nodes[:NODES_WIDTH], number(a * 1e3), number(b * 1e3), f"{share(a, b):.2f}"]
                for nodes, a, b in found[:PROFILED]]
    for name in () if args.profile else args.models:
        model = models.load(name)
        narrow, wide = measure(model, models.inputs(model), name, args.seconds)
        shares.append(share(narrow, wide))
        rows.append([name, number(narrow * 1e3), number(wide * 1e3), f"{shares[-1]:.2f}"])
        print(f"{name}: {shares[-1]:.2f}", file=sys.stderr)
    print("\n".join(markdown_table(titles, rows)))
    if shares:
        print(f"\nGeometric mean {geometric_mean(shares):.2f}, least {min(shares):.2f}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
