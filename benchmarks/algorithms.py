"""How good the cost model's choice of algorithm is: every algorithm measured, for the 3x3 convolutions of the zoo.

    python benchmarks/algorithms.py                             all of stride 1 in blocked layout, one thread
    python benchmarks/algorithms.py --results algorithms.jsonl  keeps the times: when the model has changed, its new
                                                                choices are compared with them at once
    python benchmarks/algorithms.py --part 1/4 --results algorithms.jsonl    a quarter now; see layers.py

Before each sample as much memory is read as the other weights of the smallest model with that layer have: so weights
come from where they come from in the network, and the input from where the kernel before leaves it.
"""
from __future__ import annotations

import argparse
import math
import statistics
import sys
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from ingot.codegen.compile import Options
from ingot.ir.relax.ops.winograd import KERNEL, TILES
from ingot.ir.transform.choose_convolution import DIRECT, SCALED, fastest, predict
from layers import Layer, add_selection, chosen_call, ingot_side, is_blocked, kept, measured, selected
from measure import Models, geometric_mean, machine, markdown_table, number, rounds

KINDS = ("", *(f"_{row}" for row in SCALED))
ALGORITHMS = (DIRECT, *(f"winograd{tile}{kind}" for kind in KINDS for tile in TILES))  # of 3x3
LEAST_ROUNDS, MOST_ROUNDS = 7, 200
MOST_OTHERS = 16 << 20  # floats that are read between samples: after 64 MiB, weights come from memory


@dataclass(frozen=True)
class Measured:
    """seconds: {algorithm: lower quartile of the convolution's time}. What the model says is that of today, also for
    times that were kept."""

    layer: Layer
    uses: str
    seconds: dict

    @property
    def predicted(self):
        return predictions(self.layer)

    @property
    def chosen(self):
        return fastest(self.layer.shape, Options.check(threads="none").machine, wanted="relaxed")

    @property
    def best(self):
        return min(self.seconds, key=self.seconds.get)

    @property
    def loss(self):
        """The excess time of the chosen algorithm, as a fraction of the fastest one's time."""
        return self.seconds[self.chosen] / self.seconds[self.best] - 1

    def __str__(self):
        times = ", ".join(f"{name} {number(seconds * 1e6)}" for name, seconds in self.seconds.items())
        return f"{self.layer}: {times} us, chosen {self.chosen}"


def predictions(layer):
    """{algorithm: seconds} by the cost model, of those that a layer has on this machine."""
    return predict(layer.shape, Options.check(threads="none", accuracy="relaxed").machine)


def algorithms_of(layer):
    fitting = predictions(layer)
    return [name for name in ALGORITHMS if name in fitting]


def has_choice(layer):
    """Whether there is an algorithm beside the direct one: not where the layer reads plain input."""
    options = Options.check(threads="none", accuracy="relaxed")
    usual = layer.kernel == (KERNEL, KERNEL) and layer.shape.has_winograd(options.machine.lanes)
    return usual and is_blocked(chosen_call(layer.model(), options))


def weights_of(model):
    """How many numbers an ONNX model has as weights."""
    return sum(math.prod(tensor.dims) for tensor in model.graph.initializer)


def measure(layer, uses, seconds, weights):
    """The Measured of a layer, all algorithms in turns. weights: how many its model has."""
    model, x = layer.model(), layer.feed()
    others = np.ones(min(max(weights - weights_of(model), 0), MOST_OTHERS), np.float32)
    with ExitStack() as stack:
        samples = {name: ingot_side(stack, layer, model, x, name)[0] for name in algorithms_of(layer)}
        times = {name: [] for name in samples}
        for _ in rounds(seconds, LEAST_ROUNDS, MOST_ROUNDS):
            for name, sample in samples.items():
                others.sum()
                times[name].append(sample())
    return Measured(layer, uses, {name: statistics.quantiles(t, n=4)[0] for name, t in times.items()})


# ---- tables -------------------------------------------------------------------------------------------------------

COLUMNS = [
    ("layer", lambda r: str(r.layer)),
    ("used by", lambda r: r.uses),
    ("chosen", lambda r: r.chosen),
    ("fastest", lambda r: r.best),
    ("loss", lambda r: f"{r.loss:.0%}"),
    *((f"{name} us", lambda r, name=name: f"{number(r.seconds[name] * 1e6)} ({number(r.predicted[name] * 1e6)})"
       if name in r.seconds else "") for name in ALGORITHMS),
]


def summary(rows):
    """How often the model chooses the fastest, what it loses where not, and how well it predicts."""
    wrong = [r for r in rows if r.chosen != r.best]
    lines = [f"chosen is fastest: {len(rows) - len(wrong)} of {len(rows)}; within 5 %: "
             f"{sum(r.loss <= 0.05 for r in rows)}"]
    if wrong:
        lines.append(f"where not: mean loss {statistics.mean(r.loss for r in wrong):.1%}, most "
                     f"{max(r.loss for r in wrong):.0%}")
    chosen, least, direct = (sum(r.seconds[of(r)] for r in rows) for of in (
        lambda r: r.chosen, lambda r: r.best, lambda r: DIRECT))
    lines.append(f"all layers once: {chosen / least - 1:.1%} more than the fastest of each; direct alone "
                 f"{direct / least:.2f} times as long")
    for name in ALGORITHMS:
        ratios = [r.predicted[name] / r.seconds[name] for r in rows if name in r.seconds and name in r.predicted]
        if ratios:
            lines.append(f"{name}: predicted time {geometric_mean(ratios):.2f} of the measured one "
                         f"({min(ratios):.2f} to {max(ratios):.2f})")
    return lines


def markdown(rows):
    table = markdown_table([title for title, _ in COLUMNS], [[text(r) for _, text in COLUMNS] for r in rows], left=4)
    return "\n".join([*(f"- {line}" for line in summary(rows)), "", *table]) + "\n"


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_selection(parser)
    args = parser.parse_args(argv)
    layers, models = selected(parser, args, has_choice), Models(args.zoo)
    weights = {name: weights_of(models.load(name)) for name in {name for uses in layers.values() for name in uses}}
    rows = measured(args, layers, kept(args.results, algorithms_of, Measured), lambda layer, uses, seconds: measure(
        layer, uses, seconds, min(weights[name] for name in layers[layer])))
    text = markdown(rows)
    Console(highlight=False).print(text, markup=False, soft_wrap=True)
    if args.markdown:
        args.markdown.write_text(f"{machine([])} Measured (predicted).\n\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
