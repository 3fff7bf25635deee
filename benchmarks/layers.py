"""Every distinct convolution of the zoo by itself: the algorithm chosen, its speed, and the peers' on the same layer.

    python benchmarks/layers.py                                 all of them, one thread
    python benchmarks/layers.py --models resnet50 vgg19 --only "3x3 /1"
    python benchmarks/layers.py --markdown layers.md
    python benchmarks/layers.py --part 1/4 --results layers.jsonl     a quarter now, the others later, or after a break

Only the convolution counts: of each side the time that its own profile gives it, without what brings the layer's input
and output into its layout. See benchmarks/README.md.
"""
from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from rich import box
from rich.console import Console
from rich.table import Table

import ingot
from ingot.codegen.compile import Options, optimize
from ingot.ir.relax.expr import Function, RelaxCall
from ingot.ir.relax.ops.contraction import FMA
from ingot.ir.transform.choose_convolution import ConvLayer, predict
from ingot.runtime.roofline import measure_roofline
from measure import ZOO, Models, geometric_mean, largest_error, machine, markdown_table, number, rounds
from sides import installed

LEAST_ROUNDS, MOST_ROUNDS = 5, 200
FILE_WIDTH = 110  # of the table where it goes to a file
NODE = "conv"        # the name of the node that is measured
INPUTS_BEFORE = 32   # channels of the convolution before a grouped one
LAYOUT = "layout_transform"  # in the names of functions that bring a layer's input and output into its layout


# ---- layers -------------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Layer:
    """A convolution of [1, channels, height, width] with a kernel [outputs, channels / groups, kh, kw]."""

    channels: int
    height: int
    width: int
    outputs: int
    kernel: tuple
    strides: tuple
    pads: tuple
    dilation: tuple
    groups: int

    def __str__(self):
        extras = (f" d{self.dilation[0]}" if max(self.dilation) > 1 else "") + (
            f" g{self.groups}" if self.groups > 1 else "")
        return (f"{self.channels}x{self.height}x{self.width} {self.kernel[0]}x{self.kernel[1]} /{self.strides[0]} "
                f"{self.outputs}{extras}")

    @property
    def output(self):
        """(height, width) of the result."""
        return tuple((size + before + after - d * (k - 1) - 1) // s + 1 for size, before, after, d, k, s in zip(
            (self.height, self.width), self.pads[:2], self.pads[2:], self.dilation, self.kernel, self.strides))

    @property
    def flops(self):
        """Operations of the direct computation, an FMA counted as 2; the basis of effective GFLOP/s."""
        return 2 * self.outputs * math.prod(self.output) * self.channels // self.groups * math.prod(self.kernel)

    @property
    def shape(self):
        """The layer as the cost model describes it."""
        return ConvLayer(self.channels, self.outputs, *self.output, self.kernel, self.strides, self.dilation,
                         self.groups)

    @property
    def inputs(self):
        """Channels of the model's input."""
        return self.channels if self.groups == 1 else INPUTS_BEFORE

    def model(self):
        """An ONNX model of the layer with a bias, its weights random. Before a grouped one stands a 1x1 convolution, as
        in networks: alone it would not be worth a layout of its own."""
        rng = np.random.default_rng(0)
        weight = rng.standard_normal((self.outputs, self.channels // self.groups, *self.kernel), np.float32)
        weights = {"w": weight / np.float32(math.sqrt(weight[0].size)),
                   "b": rng.standard_normal(self.outputs, np.float32)}
        nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y"], name=NODE, pads=self.pads, strides=self.strides,
                                  dilations=self.dilation, group=self.groups)]
        if self.groups > 1:
            nodes[0].input[0] = "before"
            nodes.insert(0, helper.make_node("Conv", ["x", "before_w"], ["before"], name="before"))
            weights["before_w"] = rng.standard_normal((self.channels, self.inputs, 1, 1), np.float32)
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (
            ("x", [1, self.inputs, self.height, self.width]), ("y", [1, self.outputs, *self.output]))]
        graph = helper.make_graph(nodes, "layer", infos[:1], infos[1:],
                                  [numpy_helper.from_array(array, name) for name, array in weights.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def feed(self):
        """An input of the model."""
        return np.random.default_rng(1).random((1, self.inputs, self.height, self.width), np.float32)


def layers_of(model):
    """The Layers of an ONNX model, one for each of its convolutions."""
    for binding in ingot.from_onnx(model)["main"].bindings:
        call = binding.value
        if not isinstance(call, RelaxCall) or call.op != "nn.conv2d":
            continue
        data, weight = (a.struct_info.static_shape for a in call.args[:2])
        if data is None or data[0] != 1:
            continue
        a = call.attrs
        yield Layer(*data[1:], weight[0], tuple(weight[2:]), tuple(a["strides"]), tuple(a["padding"]),
                    tuple(a["dilation"]), a["groups"])


# ---- the sides: functions that run the layer and return the seconds of its convolution ------------------------------

def ingot_side(stack, layer, model, x, algorithm=None):
    """(sample, output): the times of all kernels but those that only change the layout."""
    algorithms = {NODE: algorithm} if algorithm else None
    library = stack.enter_context(ingot.compile(model, threads="none", name="layer", algorithms=algorithms))
    profiler = stack.enter_context(library.profiler(x))
    kernels, kernel_of = library.model.kernels, library.model.kernel_of
    counts = [f"{NODE} (Conv)" in kernels[kernel_of[call.kernel]].nodes
              and ("conv" in call.kernel or LAYOUT not in call.kernel) for call in library.model.program.calls]
    return lambda: sum(s for s, own in zip(profiler.sample(), counts) if own), library(x)


def openvino_side(stack, layer, model, x):
    import openvino
    config = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1",
              "INFERENCE_NUM_THREADS": "1", "ENABLE_CPU_PINNING": "NO", "PERF_COUNT": "YES"}
    core = openvino.Core()
    request = core.compile_model(core.read_model(model.SerializeToString()), "CPU", config).create_infer_request()
    request.set_input_tensor(openvino.Tensor(x, shared_memory=True))

    def sample():
        request.infer()
        return sum(node.real_time.total_seconds() for node in request.profiling_info
                   if node.node_type in ("Convolution", "GroupConvolution") and node.node_name.startswith(NODE))
    sample()
    return sample, np.array(request.get_output_tensor().data)


def onnxruntime_side(stack, layer, model, x):
    """Its profile is a file, written when the session's profiling ends: each sample has a session's own."""
    import onnxruntime
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ingot-bench-"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_profiling, options.profile_file_prefix = True, str(Path(folder, "profile"))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    runs = []

    def sample():
        (output,) = session.run(None, {"x": x})
        runs.append(output)
        return None  # known at the end

    def times():
        events = json.loads(Path(session.end_profiling()).read_text())
        return [1e-6 * e["dur"] for e in events if e.get("cat") == "Node" and "Conv" in e["args"].get("op_name", "")
                and not e["name"].startswith("before")]
    sample.times = times
    sample()
    return sample, runs.pop()


SIDES = {"Ingot": ingot_side, "OpenVINO": openvino_side, "onnxruntime": onnxruntime_side}


@dataclass(frozen=True)
class Row:
    """seconds: {side: median of the convolution's time}; predicted: by the cost model, None where it has no say;
    error: the largest difference to the first peer over the output's largest magnitude."""

    layer: Layer
    uses: str
    algorithm: str
    seconds: dict
    predicted: float | None
    error: float

    def __str__(self):
        return f"{self.layer}: {number(self.seconds['Ingot'] * 1e6)} us, {self.algorithm}"

    @property
    def rate(self):
        """Effective operations per second."""
        return self.layer.flops / self.seconds["Ingot"]

    @property
    def better_ratio(self):
        peers = [s for side, s in self.seconds.items() if side != "Ingot"]
        return min(peers) / self.seconds["Ingot"] if peers else None


def measure_layer(layer, uses, seconds, peers):
    """The Row of a layer: all sides in turns, each run twice, of which the second counts."""
    model = layer.model()
    x = layer.feed()
    with ExitStack() as stack:
        made = {side: SIDES[side](stack, layer, model, x) for side in ("Ingot", *peers)}
        times = {side: [] for side in made}
        for made_rounds in rounds(seconds, LEAST_ROUNDS, MOST_ROUNDS):
            for side, (sample, _) in made.items():
                sample()
                times[side].append(sample())
        for side, (sample, _) in made.items():
            if hasattr(sample, "times"):
                times[side] = sample.times()[-2 * made_rounds + 1::2]
    outputs = [output for _, output in made.values()]
    algorithm, predicted = choice(model, layer)
    return Row(layer, uses, algorithm, {side: statistics.median(t) for side, t in times.items()}, predicted,
               largest_error([outputs[0]], [outputs[1]]) if peers else 0.0)


def choice(model, layer, target="host", accuracy="float32"):
    """(the algorithm in words, seconds that the cost model gives it or None) of a layer on a target."""
    options = Options.check(target, threads="none", accuracy=accuracy)
    call = chosen_call(model, options)
    blocks, result = is_blocked(call), call.struct_info.shape
    outputs = result[1].value * options.machine.lanes if len(result) > 4 else layer.outputs  # with lanes that hold none
    shape = replace(layer.shape, out_channels=outputs, plain=not blocks)
    attrs, times = call.attrs, predict(shape, options.machine)
    kind, row = call.op.removeprefix("nn.conv2d_"), attrs.get("arithmetic", FMA)
    if kind == "pointwise":
        return row, times[row]
    if kind == "winograd":
        words, name = "Winograd {0}x{0}".format(attrs["tile"]), f"winograd{attrs['tile']}"
        if row != FMA:
            words, name = f"{words}, {row}", f"{name}_{row}"
        return words, times.get(name)
    if kind == "gathered":
        return "direct, gathered", times["direct"]
    blocked = blocks or attrs["out_layout"] not in ("", "NCHW")
    kind = "depthwise" if layer.groups == layer.channels > 1 else "direct"
    text = kind if blocked else f"{kind}, plain"
    return text, times["direct"] if blocked and layer.groups == 1 else None


def is_blocked(call):
    """Whether a convolution reads blocked input."""
    return call.args[0].struct_info.ndim > 4


def chosen_call(model, options):
    """The call that the compiler generates for a layer's convolution."""
    mod = optimize(ingot.from_onnx(model), options)
    return [b.value for f in mod.functions.values() if isinstance(f, Function) for b in f.bindings
            if isinstance(b.value, RelaxCall) and b.value.op.startswith("nn.conv")][-1]


# ---- results that are kept ------------------------------------------------------------------------------------------

def kept(path, sides, kind=Row):
    """{Layer: Row} of the lines of a file, of those that were measured with sides(layer); none without a file."""
    lines = path.read_text().splitlines() if path and path.is_file() else ()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        row["layer"] = Layer(**{k: tuple(v) if isinstance(v, list) else v for k, v in row["layer"].items()})
    return {row["layer"]: kind(**row) for row in rows if list(row["seconds"]) == sides(row["layer"])}


def keep(path, row):
    """Add a Row to a file."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(row)) + "\n")


# ---- tables -------------------------------------------------------------------------------------------------------

def columns(rows, peak):
    """[(title, Row -> text)]."""
    return [
        ("layer", lambda r: str(r.layer)),
        ("used by", lambda r: r.uses),
        ("algorithm", lambda r: r.algorithm),
        *((f"{side} us", lambda r, s=side: number(r.seconds[s] * 1e6)) for side in rows[0].seconds),
        ("GFLOP/s", lambda r: f"{r.rate / 1e9:.0f}"),
        ("of peak", lambda r: f"{r.rate / peak:.0%}"),
        ("x better", lambda r: "" if r.better_ratio is None else f"{r.better_ratio:.2f}"),
        ("predicted us", lambda r: "" if r.predicted is None else number(r.predicted * 1e6)),
        ("error", lambda r: f"{r.error:.0e}"),
    ]


def summary(rows):
    """Sentences about all rows: the ratio to the better peer, by algorithm, and how well the cost model predicts."""
    lines = []
    for algorithm in sorted({r.algorithm for r in rows}):
        part = [r for r in rows if r.algorithm == algorithm]
        ratios = [r.better_ratio for r in part if r.better_ratio is not None]
        known = [r.predicted / r.seconds["Ingot"] for r in part if r.predicted]
        lines.append(f"{algorithm}: {len(part)} layers"
                     + (f", geometric mean {geometric_mean(ratios):.2f} x the better peer" if ratios else "")
                     + (f", predicted time {geometric_mean(known):.2f} of the measured one "
                        f"({min(known):.2f} to {max(known):.2f})" if known else ""))
    return lines


def markdown(rows, peak, facts):
    shown = columns(rows, peak)
    table = markdown_table([title for title, _ in shown], [[text(r) for _, text in shown] for r in rows], left=3)
    return "\n\n".join([f"{facts} FMA peak of one core: {peak / 1e9:.0f} GFLOP/s.",
                        "\n".join(f"- {line}" for line in summary(rows)), "\n".join(table)]) + "\n"


def rich_table(rows, peak):
    table = Table(box=box.SIMPLE_HEAD, padding=0)
    shown = [(title, text) for title, text in columns(rows, peak) if title not in ("used by", "error")]
    for title, _ in shown:
        title = title.replace("onnxruntime", "onnx- runtime").replace("predicted", "pre- dicted")
        table.add_column("\n".join(title.split()), justify="left" if title in ("layer", "algorithm") else "right",
                         no_wrap=True)
    for row in rows:
        table.add_row(*(text(row) for _, text in shown))
    return table


# ---- the entry ----------------------------------------------------------------------------------------------------

def build_parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_selection(parser)
    parser.add_argument("--peers", nargs="*", choices=tuple(SIDES)[1:], default=list(SIDES)[1:], metavar="PEER",
                        help="OpenVINO, onnxruntime (default: both)")
    return parser


def add_selection(parser):
    """The options that say which layers, how long, and where results go."""
    parser.add_argument("--models", nargs="+", metavar="NAME", help="default: every model there is")
    parser.add_argument("--only", metavar="TEXT", help='layers whose text has this in it, such as "3x3 /1"')
    parser.add_argument("--part", type=part, default=(1, 1), metavar="K/N", help="every Nth layer, from the Kth on")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep what is measured in a file, a line of JSON "
                        "for each layer, and measure what is not in it; the tables show both")
    parser.add_argument("--seconds", type=float, default=0.25, metavar="S",
                        help="how long to measure each layer (default: %(default)g)")
    parser.add_argument("--zoo", type=Path, default=ZOO, metavar="DIR", help="as in zoo.py")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown")


def part(text):
    """(K, N) of "K/N". Raises ArgumentTypeError."""
    k, slash, n = text.partition("/")
    if not (slash and k.isdigit() and n.isdigit() and 1 <= int(k) <= int(n)):
        raise argparse.ArgumentTypeError(f"expected K/N with K from 1 to N, not {text!r}")
    return int(k), int(n)


def distinct(models, names, only):
    """{Layer: {model that has it: how many}} in the order of first use."""
    found = {}
    for name in names:
        for layer in layers_of(models.load(name)):
            found.setdefault(layer, {}).setdefault(name, 0)
            found[layer][name] += 1
    return {layer: uses for layer, uses in found.items() if not only or only in str(layer)}


def in_words(uses):
    """'one, another x2' of the models that have a layer."""
    return ", ".join(name if count == 1 else f"{name} x{count}" for name, count in uses.items())


def selected(parser, args, only=lambda layer: True):
    """The layers for which `only` holds that `distinct` finds in the chosen models. Leaves the program
    where that is nothing."""
    models = Models(args.zoo)
    unknown = sorted(set(args.models or ()) - set(models.names()))
    if unknown:
        parser.error(f"no model {', '.join(unknown)}; known: {', '.join(models.names())}")
    found = distinct(models, args.models or models.names(), args.only)
    layers = {layer: uses for layer, uses in found.items() if only(layer)}
    if len(layers) < args.part[0]:
        parser.error("no such convolution")
    return layers


def measured(args, layers, known, measure):
    """The rows of `layers` that are known or in this part, in order. measure: (layer, its uses, seconds) -> a row."""
    progress, start = Console(stderr=True, highlight=False), time.perf_counter()
    todo = [layer for layer in list(layers)[args.part[0] - 1::args.part[1]] if layer not in known]
    for n, layer in enumerate(todo, 1):
        row = known[layer] = measure(layer, in_words(layers[layer]), args.seconds)
        if args.results:
            keep(args.results, row)
        left = (time.perf_counter() - start) / n * (len(todo) - n)
        progress.print(f"{n}/{len(todo)} {row}; {left:.0f} s left", markup=False, soft_wrap=True)
    return [known[layer] for layer in layers if layer in known]


def main(argv=None):
    parser = build_parser()
    args = parser.parse_args(argv)
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=FILE_WIDTH)
    peers, layers = [peer for peer in args.peers if peer in installed()], selected(parser, args)
    peak = measure_roofline().peak
    rows = measured(args, layers, kept(args.results, lambda layer: ["Ingot", *peers]),
                    lambda layer, uses, seconds: measure_layer(layer, uses, seconds, peers))
    console.print(rich_table(rows, peak))
    console.print(f"FMA peak of one core: {peak / 1e9:.0f} GFLOP/s", *summary(rows), sep="\n", soft_wrap=True)
    if args.markdown:
        args.markdown.write_text(markdown(rows, peak, machine(peers)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
